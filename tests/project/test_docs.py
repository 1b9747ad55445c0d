"""The pages in docs/: their length, their links, and the files and floors that they name."""

import re
import tomllib

import pytest
from support.runs import ROOT

from sweep.space.plan import KEYS

DOCS, README, CONTRIBUTING = ROOT / "docs", ROOT / "README.md", ROOT / ".github/CONTRIBUTING.md"
PAGES = sorted(DOCS.rglob("*.md"))

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())


@pages
def test_page_is_short(page):
    assert len(page.read_text(encoding="utf-8").splitlines()) < 200


@pytest.mark.parametrize("page", [*PAGES, README, CONTRIBUTING], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if "://" not in t and not (page.parent / t).exists()] == []


@pages
def test_named_files_exist(page):
    named = re.findall(r"`((?:sweep|benchmarks|tests)/[\w./]+)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_floors_are_those_that_are_kept():
    table = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## The floors")[2]
    rows = re.findall(r"^\| (`.+?`) \|", table.partition("Three borders")[0], re.MULTILINE)
    named = [set(re.findall(r"\w+", row)) for row in rows]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["id"] == "floors")
    kept = [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    order = {floor: number for number, floors in enumerate(kept) for floor in floors}
    assert set().union(*named) <= order.keys()
    ranks = [[order[floor] for floor in floors] for floors in named]
    assert ranks == sorted(ranks), "from top to bottom"


def test_the_page_on_plans_has_every_key():
    page = (DOCS / "reference" / "plan.md").read_text(encoding="utf-8")
    first = " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    named = re.findall(r"`\[?(\w+)(?:\.NAME)?\]?`", first)
    assert sorted(named) == sorted(KEYS)

"""The README and the pages of docs/: their fenced blocks, sections and files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = (README, *sorted(DOCS.rglob("*.md")))
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}

ACCURACY = TEXTS[DOCS / "models" / "combined_accuracy.md"]
ACCURACY_WORDS = " ".join(ACCURACY.split())

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w.]+\.toml)\n")
"""First line of a shown file."""


def blocks(language: str, text: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return [body for found, body in FENCED.findall(text) if found == language]


def all_blocks(language: str) -> list[tuple[Path, str]]:
    """Return the fenced blocks of a language with the pages on which they stand."""
    return [(path, body) for path, text in TEXTS.items() for body in blocks(language, text)]


def section(title: str) -> str:
    """Return a section of the README from its heading to the next."""
    pattern = rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)"
    found = re.search(pattern, TEXTS[README], re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def shown_files() -> dict[str, str]:
    """Return the files that pages show, by the names in their first lines."""
    found = [(NAMED.match(body), body) for _, body in all_blocks("toml")]
    return {name[1]: body for name, body in found if name is not None}


def commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of every ``sweep`` command in a block of a shell."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["sweep"]:
            yield words[1:]


def accuracy_row(start: str) -> list[str]:
    """Return the cells of the row of the page of accuracy that begins so."""
    (row,) = (line for line in ACCURACY.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in row.strip("|").split("|")]

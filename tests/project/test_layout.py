"""The layout of the package: its size, its rooms, and who may import whom."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from benchmarks.size import size_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sweep"
TESTS = ROOT / "tests"
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)

# Lower these numbers when the package shrinks. Raise them only for what users can newly do, by the
# lines that this needs.
MOST_CODE, MOST_MODULES, MOST_TEST_LINES = 41_045, 300, 39_864
SMALL_ROOMS = {"importers", "recipes"}
"""A folder of three rooms, and scripts for users to copy."""


def test_package_stays_small():
    sizes = [size_of(path) for path in PACKAGE.rglob("*.py")]
    assert sum(size.code for size in sizes) <= MOST_CODE
    assert len(sizes) <= MOST_MODULES


def test_tests_stay_small():
    lines = [len(path.read_text("utf-8").splitlines()) for path in TESTS.rglob("*.py")]
    assert sum(lines) <= MOST_TEST_LINES


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_room_has_5_to_20_files(room):
    if room.name not in SMALL_ROOMS:
        assert 5 <= len(list(room.glob("*.py"))) <= 20


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules that each module imports, wherever in its text."""
    modules = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found[name] |= {n if n in modules else node.module for n in names}
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
        found[name] = {other for other in found[name] if other in modules and other != name}
    return found


def test_no_two_floors_import_each_other():
    floors = defaultdict(set)
    for name, others in imports().items():
        floors[name.split(".")[1:2][0] if "." in name else ""] |= {
            other.split(".")[1] for other in others if "." in other
        }
    both = [(a, b) for a, b in combinations(sorted(floors), 2) if a in floors[b] and b in floors[a]]
    assert both == []


def test_no_circle_of_imports():
    state: dict[str, bool] = {}  # whether a module is done

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in state:
            assert state[name], " -> ".join((*path[path.index(name) :], name))
            return
        state[name] = False
        for other in sorted(imports().get(name, ())):
            # A package's own list of public names may import its modules.
            if not (name.startswith(other + ".") and other not in path):
                visit(other, (*path, name))
        state[name] = True

    for name in sorted(imports()):
        visit(name, ())


def test_no_test_imports_another_test():
    pattern = re.compile(r"^\s*(?:from|import)\s+(?:\w+\.)*test_\w+", re.MULTILINE)
    guilty = [p.name for p in TESTS.rglob("*.py") if pattern.search(p.read_text(encoding="utf-8"))]
    assert guilty == []

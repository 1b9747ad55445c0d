"""Count lines of code and modules by folder: ``python -m benchmarks.size [FOLDER ...] [--files]``.

Blank lines, comments and docstrings are not lines of code.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("sweep", "tests", "benchmarks")
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Size(NamedTuple):
    """Numbers of modules, lines of code and all lines."""

    modules: int
    code: int
    lines: int

    def plus(self, other: Size) -> Size:
        return Size(*map(sum, zip(self, other, strict=True)))


def lines_of_code(text: str) -> int:
    """Return the number of lines that are neither blank, comment nor docstring."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            found -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(found)


def size_of(path: Path) -> Size:
    """Return the size of one module."""
    text = path.read_text(encoding="utf-8")
    return Size(1, lines_of_code(text), len(text.splitlines()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--files", action="store_true", help="list each module too")
    arguments = parser.parse_args()
    row = "{:<32} {:>8} {:>14} {:>8}"
    print(row.format("folder", "modules", "lines of code", "lines"))
    for folder in arguments.folders:
        rooms: dict[str, Size] = defaultdict(lambda: Size(0, 0, 0))
        for path in sorted((ROOT / folder).rglob("*.py")):
            size = size_of(path)
            room = path.parent.relative_to(ROOT).as_posix()
            rooms[room] = rooms[room].plus(size)
            if arguments.files:
                print(row.format(path.relative_to(ROOT).as_posix(), "", size.code, size.lines))
        total = Size(0, 0, 0)
        for room, size in sorted(rooms.items()):
            print(row.format(room, *size))
            total = total.plus(size)
        print(row.format(f"{folder} in all", *total))


if __name__ == "__main__":
    main()

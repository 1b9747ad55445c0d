"""Seeded mutations of files: of bytes, of lines and numbers of a text, of nodes of JSON."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = [
    "0", "-1", "1", "2", "3.5", "1e-320", "1e308", "1e999", "-0.0", "nan", "inf", "-inf", "true",
    "65537", "10000001", "4294967296", "9007199254740993", "1" + "0" * 30, "9" * 5000, "0x10",
    "1_000", "1e", "--1", "1/0", "2**63", "٣",
]  # fmt: skip
WORDS = [
    "", "x", '"', "'", '"""', "'''", "\\", "\\u0000", "\\ud800", "\x00", "\x1b]0;owned\x07",
    "\u202e", "\ufeff", "é", "../../../etc/passwd", "/dev/zero", "~nosuchuser/x", "~", ".", "..",
    "memory://a/b", "s3://b/../x.zarr", "__import__('os').abort()", "x.__class__", "lambda: 0",
    "(x := 3)", "[i for i in x]", "$\\nosuch$", "%n%s", "{}", "{0}", "[[", "]]", "}", "{", "(",
    ")" * 50, "(" * 300, "[" * 3000, "{'a': " * 50, "a." * 40 + "a", ",", ";", "=", "\n", "\r\n",
    "\t", " ", "#", "//", "null", "NaN", "Infinity", "-", "--help", "-o", "a" * 3000, "1,5",
    "1" * 400, "\u2028", "%tid.x", "__proto__", "device", "model", "kernel", "time", "status",
]  # fmt: skip
NODES: list[Any] = [
    None, True, False, [], {}, "", -1, 0, 1, 2.5, 1e308, float("nan"), float("inf"), "x", [[1]],
    {"a": 1}, "1/0", "((((", 10**15, 10**30, "x" * 3000, [1, 2, 3], ["a", 1, None], [1] * 3000,
    "\ud800", "\x1b[31m", "../up", {"x": {"y": {"z": []}}}, "__import__('os').abort()", "NaN",
]  # fmt: skip


def mutated(content: bytes, chance: random.Random, most: int = 3) -> bytes:
    """Return the content of a file after one to ``most`` mutations, some inside an archive."""
    if content[:2] == b"\x1f\x8b" and chance.random() < 0.6:
        return gzip.compress(mutated(gzip.decompress(content), chance, most), 1, mtime=0)
    for _ in range(chance.randint(1, most)):
        ways: list[Callable[[bytes, random.Random], bytes]] = [_of_bytes, _of_text, _of_text]
        if content[:1] in (b"{", b"["):
            ways += [_of_json] * 4
        content = chance.choice(ways)(content, chance)
    return content


def _of_bytes(content: bytes, chance: random.Random) -> bytes:
    """Flip a bit; cut, drop, copy or overwrite a part."""
    if not content:
        return chance.choice(WORDS).encode(errors="surrogatepass")
    at, length = chance.randrange(len(content)), chance.choice([1, 2, 4, 16, 100])
    how = chance.randrange(7)
    if how < 2:
        flipped = bytearray(content)
        flipped[at] ^= 1 << chance.randrange(8)
        return bytes(flipped)
    if how == 2:
        return content[:at]
    if how == 3:
        return content[:at] + content[at + length :]
    if how == 4:
        return content[: at + length] + content[at:]
    if how == 5:
        return content[:at] + chance.randbytes(min(length, 16)) + content[at + length :]
    other = chance.randrange(len(content))
    return content[:at] + content[other : other + length] + content[at + length :]


def _of_text(content: bytes, chance: random.Random) -> bytes:
    """Replace a number or a word; insert a hostile word; repeat, drop or exchange lines."""
    text = content.decode("utf-8", "surrogateescape")
    how = chance.randrange(8)
    if how < 5:
        pattern = (r"\d+(?:\.\d+)?", r"\w+", r'"[^"\n]*"|[^,\n=]+', r"\b", r"[^\w\s]")[how]
        found = _some(re.finditer(pattern, text), chance)
        start, end = found.span() if found else (0, 0)
        new = chance.choice(NUMBERS if chance.random() < 0.5 else WORDS)
        if how == 1 and chance.random() < 0.5:  # another word of the same file
            other = _some(re.finditer(pattern, text), chance)
            new = other[0] if other else new
        if chance.random() < 0.2:
            new = f'"{new}"'
        text = text[:start] + new + text[end:]
    else:
        lines = text.split("\n")
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        if how == 5:
            lines[at:at] = lines[other : other + 1] * chance.choice([1, 1, 2, 200])
        elif how == 6:
            del lines[at : at + chance.choice([1, 1, 3, 30])]
        else:
            lines[at], lines[other] = lines[other], lines[at]
        text = "\n".join(lines)
    return text.encode("utf-8", "surrogatepass" if chance.random() < 0.1 else "replace")


def _some(found: Any, chance: random.Random) -> re.Match[str] | None:
    """Return one of the first thousands of matches."""
    matches = [match for match, _ in zip(found, range(5000), strict=False)]
    return chance.choice(matches) if matches else None


def _of_json(content: bytes, chance: random.Random) -> bytes:
    """Replace, drop, copy or rename a node of a JSON document."""
    try:
        document = json.loads(content)
        places = places_in(document)
    except (ValueError, RecursionError):
        return _of_bytes(content, chance)
    if not places:
        return content
    node, key = chance.choice(places)
    other, its_key = chance.choice(places)
    how = chance.randrange(10)
    if how < 2:
        del node[key]
    elif how == 2 and isinstance(node, dict):
        node[chance.choice(WORDS)] = node.pop(key)
    elif how == 3 and not isinstance(other[its_key], dict | list):
        node[key] = other[its_key]
    elif how == 4 and isinstance(node, list):
        node *= chance.choice([2, 2, 300])
    elif how == 5 and type(node[key]) in (int, float):
        node[key] += chance.choice([-1, 1, 0.5, 2**31, 1e-9])
    elif how == 6:
        node[key] = chance.choice(WORDS)
    else:
        node[key] = chance.choice(NODES)
    return json.dumps(document, indent=chance.choice([None, None, 1])).encode("ascii")


def places_in(node: Any) -> list[tuple[Any, Any]]:
    """Return every place in a JSON document: container and key."""
    found: list[tuple[Any, Any]] = []
    open_nodes = [node]
    while open_nodes and len(found) < 20_000:
        node = open_nodes.pop()
        keys = node if isinstance(node, dict) else range(len(node) if isinstance(node, list) else 0)
        for key in keys:
            found.append((node, key))
            open_nodes.append(node[key])
    return found


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", ">=", " and ", " or ",
             " in ", " is ", " if ", " else ", ",", ":=", "&", "|", "<<", ".", " not "]  # fmt: skip
CALLS = "min max ceil floor abs sqrt log2 round open __import__ not".split()


def expression(names: list[str], chance: random.Random, depth: int = 0) -> str:
    """Return the text of an expression over names: mostly a sound one, sometimes hostile."""
    how = chance.random()
    if depth > 4 or how < 0.25:
        kind = chance.random()
        return (
            chance.choice(names) if kind < 0.6
            else chance.choice(NUMBERS) if kind < 0.85
            else f"'{chance.choice(names)}'" if kind < 0.92
            else chance.choice(WORDS)
        )  # fmt: skip
    parts = [expression(names, chance, depth + 1) for _ in range(chance.choice([1, 2, 2, 2, 3]))]
    if how < 0.7:
        joined = parts[0]
        for part in parts[1:]:
            joined += chance.choice(OPERATORS) + part
        return f"({joined})" if chance.random() < 0.7 else joined
    if how < 0.9:
        return f"{chance.choice(CALLS)}({', '.join(parts)})"
    if how < 0.96:
        return f"({parts[0]} if {parts[-1]} else 1)"
    return (parts[0] + chance.choice(OPERATORS)) * chance.choice([3, 30, 300]) + parts[-1]

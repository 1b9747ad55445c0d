"""The printed description of both file formats, from the definitions that validate them."""

from __future__ import annotations

from collections.abc import Iterator

from sweep.errors import SpecError, nearest
from sweep.specs.formats import DEVICE_NAMES, FORMATS, SOURCE_KINDS
from sweep.specs.keys import Key, Section

__all__ = ["format_table"]

_CHOSEN = {
    "size": "names of your choice, each with a number",
    "values": "names of your choice, each with a list of numbers, words or booleans",
    "expression": "names of your choice, each with a number or an expression",
    "model": "one table [model.NAME] per model; see the models' parameters",
    "source": f'"KIND: REFERENCE" with KIND one of {", ".join(SOURCE_KINDS)}',
}


def format_table(kind: str) -> str:
    """Return a Markdown table of every key of device or kernel files.

    Parameters
    ----------
    kind : str
        ``device`` or ``kernel``.

    Raises
    ------
    SpecError
        There is no such kind of file.
    """
    if kind not in FORMATS:
        raise SpecError(f"no kind of file '{kind}'{nearest(kind, FORMATS)}: device or kernel")
    lines = ["| key | holds | range | meaning |", "|---|---|---|---|"]
    for section in FORMATS[kind]:
        lines += (f"| {' | '.join(cells)} |" for cells in _rows(section))
    if kind == "kernel":
        lines += ["", "Names of the device that expressions may use:", ""]
        lines += [f"- `{name}`: {meaning}" for name, meaning in DEVICE_NAMES.items()]
    return "\n".join(lines)


def _rows(section: Section) -> Iterator[tuple[str, str, str, str]]:
    if section.name:
        title = f"**[[{section.name}]]**" if section.repeated else f"**[{section.name}]**"
        need = "table" if section.required else "table, optional"
        yield title, need, "", f"{section.meaning}{_chosen(section)}"
    for key in section.keys:
        yield f"`{key.name}`", _holds(key), _range(key), key.meaning


def _chosen(section: Section) -> str:
    return f": {_CHOSEN[section.values]}" if section.values else ""


def _holds(key: Key) -> str:
    text = {"number": "number", "integer": "whole number", "text": "text", "choice": "word"}.get(
        key.type, key.type
    )
    if key.type == "rows":
        text = f"rows [{', '.join(key.columns)}]"
    elif key.type == "conditions":
        text = "list of conditions"
    if key.default:
        return f"{text}, default `{key.default}`"
    return text if key.required else f"{text}, optional"


def _range(key: Key) -> str:
    if key.type in ("number", "integer"):
        return key.range
    if key.type == "expression":
        if key.maximum < 2**50:
            return key.range
        return f"at least {key.minimum:g}" if key.minimum >= 0 else "any"
    return ", ".join(key.choices)

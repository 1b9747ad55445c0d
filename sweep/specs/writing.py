"""Write kernel files: names, quotes, comments, tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sweep.specs.kernel import parse_kernel
from sweep.specs.names import MAX_NAME

Value = bool | int | float | str | Sequence[bool | int | float | str]


def key_of(name: str) -> str:
    """Return the key for a kernel's name: at most 100 lower-case letters, digits and _.

    >>> key_of("2D convolution")
    'kernel_2d_convolution'
    """
    text = "".join(c if c.isalnum() and c.isascii() else "_" for c in name.lower()).strip("_")
    key = text if text[:1].isalpha() else f"kernel_{text}"
    return key[:MAX_NAME].rstrip("_")


def plain(text: str) -> str:
    """Return a text that can be used in a comment."""
    return "".join(c if c.isprintable() else "?" for c in text)


def quoted(text: str) -> str:
    """Return a text as a TOML string on one line."""
    return json.dumps(plain(text), ensure_ascii=False)


def toml(value: Value) -> str:
    """Return a number, a text or a list of these in TOML syntax.

    >>> toml(3.0), toml(["a", True, 0.5])
    ('3', '["a", true, 0.5]')
    """
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml, value))}]"
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
    return json.dumps(value) if isinstance(value, bool) else repr(int(value) if is_whole else value)


@dataclass
class KernelFile:
    """A kernel file that is built table by table.

    Attributes
    ----------
    name, description, source : str
        Name and description of the kernel; default source of its values (``KIND: REFERENCE``).
    comments : list of str
        Lines at the top of the file.
    constraints : list of str
        Conditions on the parameters.
    sources : dict of str to str
        Sources by the path of a value.
    """

    name: str
    description: str
    source: str
    comments: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    _tables: list[tuple[str, Mapping[str, Value], list[str]]] = field(default_factory=list)

    def table(self, header: str, values: Mapping[str, Value], comments: Iterable[str] = ()) -> None:
        """Add a table; ``header`` is ``[name]``, or ``[[name]]`` for one of several.

        Values may still be added to it; a table that stays empty is left out.
        """
        self._tables.append((header, values, _comments(comments)))

    def text(self) -> str:
        """Return the text of the file.

        Raises
        ------
        SpecError
            The text is not a valid kernel file.
        """
        head: dict[str, Value] = {"schema": 1, "name": self.name, "description": self.description}
        if self.constraints:
            head["constraints"] = self.constraints
        lines = [
            *_comments(self.comments),
            *(f"{key} = {toml(value)}" for key, value in head.items()),
            "",
            "[source]",
            f"default = {quoted(self.source)}",
            *(f"{quoted(path)} = {quoted(text)}" for path, text in self.sources.items()),
        ]
        for header, values, comments in self._tables:
            if values:
                lines += ["", *comments, header]
                lines += [f"{key} = {toml(value)}" for key, value in values.items()]
        text = "\n".join(lines) + "\n"
        parse_kernel(text, key_of(self.name))
        return text


def _comments(lines: Iterable[str]) -> list[str]:
    return [f"# {plain(line)}".rstrip() for line in lines]

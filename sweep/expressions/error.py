"""The error for expressions, with reason and column."""

from __future__ import annotations

from sweep.errors import SweepError, printable

_SHOWN = 72  # characters of the text that a message repeats


class ExpressionError(SweepError):
    """An expression cannot be parsed, or cannot be evaluated with the given values.

    Parameters
    ----------
    text : str
        The whole expression.
    position : int
        Offset of the error in ``text``, counted from 0 (the message counts columns from 1).
    reason : str
        The reason, without the position.
    hint : str, optional
        A suggestion such as ``"; did you mean 'x'?"``.
    """

    def __init__(self, text: str, position: int, reason: str, hint: str = "") -> None:
        self.text = text
        self.position = position
        self.reason = reason
        self.hint = hint
        super().__init__(f"`{_shown(text, position)}`: {reason} at column {position + 1}{hint}")

    def __reduce__(self) -> tuple[type[ExpressionError], tuple[str, int, str, str]]:
        """Make the error picklable although it takes more arguments than a message."""
        return type(self), (self.text, self.position, self.reason, self.hint)


def _shown(text: str, position: int) -> str:
    """Return the part of ``text`` around ``position``, on one line and printable."""
    start = 0
    if len(text) > _SHOWN:
        start = min(max(position - _SHOWN // 2, 0), len(text) - _SHOWN)
    part = text[start : start + _SHOWN]
    before = "..." if start > 0 else ""
    after = "..." if start + _SHOWN < len(text) else ""
    return before + printable(part) + after

"""The cells of compiled tables."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sweep.specs.formats import LARGEST_NUMBER


def reader_of(
    column: str, parameters: Mapping[str, Sequence[Any]], sizes: Mapping[str, float]
) -> Callable[[str], Any]:
    """Return the function that reads a column's cells: a parameter's, a size's or a quantity's."""
    if column not in (*parameters, *sizes):
        return _quantity
    first = parameters.get(column, [0.0])[0]
    if isinstance(first, bool):
        return _truth
    if isinstance(first, str):
        return _word
    return _number if column in parameters else count


def _truth(cell: str) -> bool:
    if cell not in ("true", "false"):
        raise ValueError("must be true or false")
    return cell == "true"


def _word(cell: str) -> str:
    if not cell:
        raise ValueError("must be a word")
    return cell


def _quantity(cell: str) -> float:
    """Read a number; of the compilers of one table, not all tell every quantity."""
    return count(cell) if cell else math.nan


def signed(cell: str) -> float:
    """Read a number of a column of the kernel file's own, which may be blank."""
    return _number(cell) if cell else math.nan


def _number(cell: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?", cell):
        raise ValueError("must be a number")
    number = float(cell)
    if not abs(number) <= LARGEST_NUMBER:
        raise ValueError("must be a number up to 2**53")
    return number


def count(cell: str) -> float:
    """Return a number that is not negative."""
    number = _number(cell)
    if number < 0:
        raise ValueError("must be a number, 0 to 2**53")
    return number

"""What a question is about: ``select`` picks coordinate values, ``where`` is a condition.

A selection names coordinates and gives one value, a list of values, or a range (a slice or a pair
of numbers, both ends included, None for an open end). On a dimension it picks indices; on another
coordinate, such as the clocks in MHz where the dimension is a ratio, it becomes a mask. A condition
is a safe expression over coordinates and results, evaluated block by block. In it, ``fastest`` is
the smallest execution time of the same kernel, device, model and problem sizes among all selected
configurations, whether they satisfy the condition or not: ``execution_time < 1.1 * fastest``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import numpy as np

from sweep.errors import QueryError, check_known, nearest
from sweep.expressions import Expression
from sweep.fields import PROBLEM, STACKED, Array
from sweep.query.grid import AbsentError, Coordinate, Grid, Index, grids_of

T = TypeVar("T")

TOLERANCE = 1e-9  # relative; a ratio of two clocks is not always the decimal that was written
SHOWN = 12

FASTEST = "fastest"
"""What conditions call the smallest execution time, if a kernel has nothing of this name."""


@dataclass(frozen=True)
class Selection:
    """What remains of a grid: ascending indices per dimension, and masks over coordinates.

    ``indices`` also has the places of the remaining values of each parameter of a list.
    """

    indices: Mapping[str, Array]
    masks: Sequence[tuple[tuple[str, ...], Array]] = ()

    def mask(self, grid: Grid, index: Index) -> Array:
        """Return where the masks hold in a block, with as many axes as the grid."""
        found = np.ones((1,) * len(grid.dims), bool)
        for dims, mask in self.masks:
            found = found & grid.at_block(dims, mask, index)
        return found

    def narrowed(self, grid: Grid, name: str, chosen: Array) -> Selection:
        """Return what remains with only some values of a dimension, or of a list's parameter."""
        indices = {**self.indices, name: chosen}
        if name in grid.stacked:
            found = self.indices[STACKED]
            indices[STACKED] = found[np.isin(grid.stacked[name].places[found], chosen)]
        return replace(self, indices=indices)


def those_that_fit(
    grids: Iterable[Grid], ask: Callable[[Grid], T]
) -> tuple[list[T], dict[str, AbsentError]]:
    """Ask each kernel; return the answers, and by kernel the errors of those that do not fit.

    Raises
    ------
    AbsentError
        No kernel fits: the first error that suggests another name, else the first.
    """
    found, refused = [], {}
    for grid in grids:
        try:
            found.append(ask(grid))
        except AbsentError as error:
            refused[grid.kernel] = error
    if not found:
        errors = [*refused.values(), AbsentError("no kernel is selected")]
        raise next((error for error in errors if "did you mean" in str(error)), errors[0])
    return found, refused


def select_kernels(grids: Sequence[Grid], select: Mapping[str, Any]) -> list[Grid]:
    """Return the grids of the kernels that the filter names, all of them if it names none.

    Raises
    ------
    QueryError
        A kernel is not there; the message lists those that are.
    """
    if "kernel" not in select:
        return list(grids)
    wanted = _as_list(select["kernel"])
    known = [grid.kernel for grid in grids]
    for kernel in wanted:
        check_known(kernel, known, f"no results for kernel '{kernel}'", "kernels:")
    return [grid for grid in grids if grid.kernel in wanted]


def select_grid(grid: Grid, select: Mapping[str, Any]) -> Selection:
    """Return what remains of one kernel's grid.

    Raises
    ------
    AbsentError
        The kernel has no such coordinate or not one of the wanted values; the message lists the
        available ones.
    """
    values = {name: axis.values for name, axis in grid.stacked.items()}
    sizes = grid.sizes | {name: len(found) for name, found in values.items()}
    remaining = Selection({name: np.arange(n) for name, n in sizes.items()})
    masks = []
    for name, wanted in select.items():
        if name == "kernel":
            continue
        coordinate = grid.coordinates.get(name)
        if coordinate is None:
            hint = "; it is a variable, use it in `where`" if name in grid.variables else ""
            raise AbsentError(
                f"kernel '{grid.kernel}' has no coordinate '{name}'"
                f"{hint or nearest(name, grid.coordinates)}"
                f" (coordinates: {', '.join(n for n in grid.coordinates if n != STACKED)})"
            )
        if name in values:
            coordinate = replace(coordinate, dims=(name,), values=values[name])
        mask = _matches(grid.kernel, name, coordinate, wanted)
        dim = dim_of(grid, name)
        if coordinate.dims != (dim,):
            masks.append((coordinate.dims, mask))
            continue
        chosen = remaining.indices[dim][mask[remaining.indices[dim]]]
        if not len(chosen):
            shown = ", ".join(f"{n} = {_spell(wanted)}" for n, wanted in select.items()
                              if dim_of(grid, n) == dim)  # fmt: skip
            raise AbsentError(f"kernel '{grid.kernel}' has no {dim} with {shown}")
        remaining = remaining.narrowed(grid, dim, chosen)
    return replace(remaining, masks=masks)


def dim_of(grid: Grid, name: str) -> str:
    """Return the list of problems for a size that it gives; the name itself for all others."""
    return PROBLEM if name in grid.listed else name


def _as_list(wanted: Any) -> list[Any]:
    return list(wanted) if isinstance(wanted, list | tuple | set | np.ndarray) else [wanted]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def _range_of(wanted: Any) -> tuple[Any, Any] | None:
    """Return both ends of a range, None if ``wanted`` is a value or a list."""
    if isinstance(wanted, slice):
        if wanted.step is not None:
            raise QueryError(f"a range has two ends and no step: {wanted}")
        return wanted.start, wanted.stop
    is_pair = isinstance(wanted, tuple) and len(wanted) == 2
    if is_pair and all(end is None or _is_number(end) for end in wanted):
        return wanted
    return None


def _matches(kernel: str, name: str, coordinate: Coordinate, wanted: Any) -> Array:
    """Return where a coordinate has one of the wanted values."""
    values = coordinate.values
    ends = _range_of(wanted)
    if ends is not None and values.dtype.kind in "biuf":
        low = -np.inf if ends[0] is None else float(ends[0])
        high = np.inf if ends[1] is None else float(ends[1])
        slack = TOLERANCE * np.abs(values)
        mask = (values >= low - slack) & (values <= high + slack)
        if not mask.any():
            raise AbsentError(_missing(kernel, name, as_written(wanted), coordinate))
        return np.asarray(mask)
    mask = np.zeros(values.shape, bool)
    for value in _as_list(wanted) if ends is None else ends:
        equal = _equal(values, value)
        if not equal.any():
            is_text = values.dtype.kind == "U"
            hint = nearest(str(value), values.ravel().tolist()) if is_text else ""
            raise AbsentError(_missing(kernel, name, _spell(value), coordinate, hint))
        mask |= equal
    return mask


def _equal(values: Array, value: Any) -> Array:
    fits = _is_number(value)
    if values.dtype.kind in "Ub":
        fits = isinstance(value, str if values.dtype.kind == "U" else bool | np.bool_)
    if not fits:
        return np.zeros(values.shape, bool)
    if values.dtype.kind in "Ub":
        return np.asarray(values == value)
    return np.isclose(values, float(value), rtol=TOLERANCE, atol=0.0)


def _spell(value: Any) -> str:
    return f"{value:.10g}" if _is_number(value) else "" if value is None else f"{value!r}"


def as_written(wanted: Any) -> str:
    """Return what is selected as a command has it: ``a,b`` or ``LOW:HIGH``."""
    ends = _range_of(wanted)
    parts = _as_list(wanted) if ends is None else ends
    texts = (part if isinstance(part, str) else _spell(part) for part in parts)
    return (":" if ends else ",").join(texts)


def _missing(kernel: str, name: str, value: str, coordinate: Coordinate, hint: str = "") -> str:
    """Return the message for a value that is not there."""
    available = [_spell(v) for v in np.unique(coordinate.values).tolist()]
    if len(available) > SHOWN:
        available = [*available[: SHOWN // 2], "...", *available[-SHOWN // 2 :]]
    unit = "" if coordinate.units in ("", "1") else f" {coordinate.units}"
    return (
        f"kernel '{kernel}' has no {name} = {value}{unit}{hint}"
        f" (available: {', '.join(available)}{unit})"
    )


class Condition:
    """A condition bound to one kernel's grid.

    Codes compare as their meanings (``bound != 'memory'``). Where the condition cannot be evaluated
    (a division by zero, say) it is not satisfied.

    Parameters
    ----------
    expression : Expression
        The parsed condition.
    grid : Grid
        The kernel's results.

    Raises
    ------
    AbsentError
        The kernel has no such coordinate or variable; the message names the nearest.

    Attributes
    ----------
    fastest : tuple, optional
        Dimensions, and over all of their values the smallest execution times [s], NaN where there
        is none: set by who reads the results (:mod:`sweep.query.reduce`).
    """

    def __init__(self, expression: Expression, grid: Grid) -> None:
        self.expression = expression
        self.grid = grid
        self.coordinates = tuple(
            n for n in sorted(expression.names) if n in grid.coordinates and n != "kernel"
        )
        own = {"kernel", *self.coordinates}
        self.needs_fastest = FASTEST in expression.names - own - {*grid.variables}
        self.fastest: tuple[tuple[str, ...], Array] | None = None
        if self.needs_fastest:
            self._resolve("execution_time")
        rest = sorted(expression.names - own - ({FASTEST} if self.needs_fastest else set()))
        self.variables = {name: self._resolve(name) for name in rest}

    def _resolve(self, name: str) -> str:
        try:
            full = self.grid.resolve(name)
        except AbsentError as error:
            if "ambiguous" in str(error):
                raise
            known = ["kernel", FASTEST, *self.grid.coordinates, *self.grid.variables]
            raise AbsentError(
                f"kernel '{self.grid.kernel}' has no coordinate or variable '{name}'"
                f"{nearest(name, known)}, which `{self.expression.text}` asks for"
            ) from None
        if self.grid.kind(full) == "text":
            raise QueryError(f"'{name}' is a text about the answer and no part of a condition")
        return full

    def mask(self, index: Index) -> Array:
        """Return where the condition holds in a block, with as many axes as the grid."""
        values: dict[str, Any] = {"kernel": self.grid.kernel}
        for name in self.coordinates:
            coordinate = self.grid.coordinates[name]
            values[name] = self.grid.at_block(coordinate.dims, coordinate.values, index)
        if self.fastest is not None:
            values[FASTEST] = self.grid.at_block(*self.fastest, index)
        read = self.grid.read(list(self.variables.values()), index)
        codes = {}
        for name, full in self.variables.items():
            if self.grid.kind(full) == "code":
                codes[name] = read[full]
            else:
                values[name] = read[full].astype(np.float64)
        mask = np.zeros((1,) * len(self.grid.dims), bool)
        # Once for each combination of meanings: there are few, and a string per point is large.
        for combination in product(*map(np.unique, codes.values())):
            for name, code in zip(codes, combination, strict=True):
                values[name] = str(self.grid.meanings(self.variables[name])[int(code)])
            value, fault = map(np.asarray, self.expression.evaluate(values))
            if value.dtype.kind not in "biuf":
                raise QueryError(f"`{self.expression.text}` is a text, not a condition")
            holds = (value != 0) & ~fault
            for found, code in zip(codes.values(), combination, strict=True):
                holds = holds & (found == code)
            mask = mask | holds
        return mask


def parse_selection(words: Sequence[str], data: Any = None) -> dict[str, Any]:
    """Return the filter that words such as ``block_size=256`` spell.

    Parameters
    ----------
    words : sequence of str
        Each ``NAME=VALUE``, ``NAME=VALUE,VALUE,...`` or ``NAME=LOW:HIGH`` (both ends included;
        either may be missing).
    data : results, optional
        Results against which names and values are checked; text remains text where the
        coordinate is text.

    Returns
    -------
    dict
        For ``select=`` of the queries.

    Raises
    ------
    QueryError
        A word is not of that form, names a coordinate twice or one that is not there, or has a
        value that is not there.

    Examples
    --------
    >>> parse_selection(["device=gtx_980_paper", "tile=8,16", "core_clock=400:700"])
    {'device': 'gtx_980_paper', 'tile': [8, 16], 'core_clock': (400, 700)}
    """
    grids = [] if data is None else grids_of(data)
    texts = {n for g in grids for n, c in g.coordinates.items() if c.values.dtype.kind == "U"}
    texts |= {"kernel"} if grids else set()
    select: dict[str, Any] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not equals or not name or not text:
            raise QueryError(
                f"'{word}' is not a selection: write NAME=VALUE, NAME=VALUE,VALUE or NAME=LOW:HIGH"
            )
        if name in select:
            raise QueryError(f"'{name}' is selected twice: write {name}=VALUE,VALUE")
        select[name] = _parse_value(name, text, name in texts)
    if grids:
        those_that_fit(select_kernels(grids, select), lambda grid: select_grid(grid, select))
    return select


def _parse_value(name: str, text: str, is_text: bool) -> Any:
    """Return a scalar, a list or a range."""
    if ":" in text and not is_text:
        parts = [part.strip() for part in text.split(":")]
        ends = tuple(_parse_scalar(part) if part else None for part in parts)
        if len(ends) != 2 or not all(end is None or _is_number(end) for end in ends):
            raise QueryError(f"'{name}={text}' is not a range: write {name}=LOW:HIGH with numbers")
        return ends
    parts = [part.strip() for part in text.split(",")]
    if "" in parts and not is_text:
        raise QueryError(f"'{name}={text}' has an empty value")
    values = parts if is_text else [_parse_scalar(part) for part in parts]
    return values[0] if len(values) == 1 else values


def _parse_scalar(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        return text
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else value

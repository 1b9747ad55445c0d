"""Analyse the PTX of many configurations alike: loops are matched in the order of the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sweep.cuda.configurations import Setting, Variant
from sweep.errors import SweepError
from sweep.expressions import Expression
from sweep.importers.ptx.analysis import ANY, Analysis, analyse, branches_of
from sweep.importers.ptx.module import Function, PtxError
from sweep.importers.ptx.parser import read_ptx
from sweep.importers.ptx.registers import WARP, Sides
from sweep.importers.ptx.summary import check_complete
from sweep.specs.formats import KERNEL

MOST_BLOCKS = (2**31 - 1, 65535, 65535)
"""Largest grid in x, y and z (CUDA C++ Programming Guide, compute capability 3.0 and later)."""

_NAMES = {"unknown": "loops of unknown length", "every": "loops",
          "branches": "targets of conditional branches"}  # fmt: skip
_TILE_KEYS = tuple(key.name for key in KERNEL["tile_order"].keys)


@dataclass(frozen=True)
class Given:
    """What a user says of all configurations.

    Attributes
    ----------
    entry : str or None
        The kernel, where there are several.
    trips : mapping of str to float or str
        Iterations by the labels of the first text, or `ANY`: numbers, and expressions over sizes
        and parameters.
    sizes : mapping of str to float
        Problem sizes.
    branches : mapping of str to float
        As for :func:`analyse`, by the labels of the first text.
    arguments : mapping of str to float
        As for :func:`analyse`.
    block, grid : tuple of int or str, optional
        Sides, which may be expressions over sizes and parameters.
    stages : str
        ``loops`` or ``none``.
    tile_order : mapping of str to str
        Expressions of ``[tile_order]``; loads in loops then have its reuse.
    """

    entry: str | None = None
    trips: Mapping[str, float | str] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    branches: Mapping[str, float] = field(default_factory=dict)
    arguments: Mapping[str, float] = field(default_factory=dict)
    block: tuple[int | str, ...] | None = None
    grid: tuple[int | str, ...] | None = None
    stages: str = "loops"
    tile_order: Mapping[str, str] = field(default_factory=dict)

    def formulas(self) -> dict[str, str]:
        """Return the expressions, each with the option that it comes from."""
        found = {f"--trip '{k}={v}'": v for k, v in self.trips.items() if isinstance(v, str)}
        for option, texts in (("--block", self.block), ("--grid", self.grid)):
            found |= {f"{option} '{x}'": x for x in texts or () if isinstance(x, str)}
        return found | {f"--tile-order '{k}={v}'": v for k, v in self.tile_order.items()}

    def check_names(self, parameters: Iterable[str]) -> None:
        """Refuse expressions with names that are neither a parameter nor a size.

        Raises
        ------
        PtxError
            A name has no value, or no expression uses a size.
        """
        known, used = {*parameters, *self.sizes}, set[str]()
        for key in self.tile_order.keys() - set(_TILE_KEYS):
            known_keys = ", ".join(_TILE_KEYS)
            raise PtxError(f"--tile-order {key}: no key of [tile_order], which has {known_keys}")
        for option, text in self.formulas().items():
            names = Expression.parse(text).names
            used |= names
            if missing := sorted(names - known):
                raise PtxError(f"{option}: give the size {missing[0]}, --size {missing[0]}=N")
        if unused := sorted(self.sizes.keys() - used):
            raise PtxError(f"--size {unused[0]}: no trip count, grid or order of tiles names it")


def number_of(text: str, names: Mapping[str, Setting]) -> float:
    """Return an expression's value.

    Raises
    ------
    PtxError
        It has none.
    """
    value, fault = Expression.parse(text).evaluate(names)
    if fault.any() or value.dtype.kind not in "fb":
        raise PtxError(f"'{text}' is no number for this configuration")
    return float(value)


def sides_of(sides: Sequence[int | str], names: Mapping[str, Setting], option: str) -> Sides:
    """Return the sides of a block or grid as numbers.

    Raises
    ------
    PtxError
        One is no whole number from 1 on, or more than CUDA starts.
    """
    found = [number_of(side, names) if isinstance(side, str) else side for side in sides]
    for side, number, most in zip(sides, found, MOST_BLOCKS, strict=True):
        if number > most:
            raise PtxError(f"{option} '{side}' is {number:g}: {most:,} at most")
        if number < 1 or number != int(number):
            raise PtxError(f"{option} '{side}' is {number:g}: must be a whole number from 1 on")
    x, y, z = map(int, found)
    return x, y, z


class _Labels(NamedTuple):
    """Labels of a text without ``$``: of loops with unknown trip counts, of all, of branches."""

    name: str
    unknown: list[str]
    every: list[str]
    branches: list[str]

    @classmethod
    def of(cls, name: str, found: Analysis) -> _Labels:
        """Return the labels of an analysed text."""
        loops = [[loop.label.name for loop in loops]
                 for loops in (found.open_loops, found.graph.loops)]  # fmt: skip
        branches = [to.labels[0].name for block, to in branches_of(found.graph).items()
                    if not to.dominates(block)]  # fmt: skip
        return cls(name, *([label.removeprefix("$") for label in dict.fromkeys(labels)]
                           for labels in (*loops, branches)))  # fmt: skip


def analyses_of(variants: Iterable[Variant], given: Given) -> Iterator[Analysis]:
    """Yield the analysis of each variant that compiles.

    Raises
    ------
    SweepError
        A text cannot be read, or lacks what nobody tells.
    """
    first: _Labels | None = None
    for variant in (variant for variant in variants if not variant.reason):
        try:
            names = {**given.sizes, **variant.configuration}
            function = read_ptx(variant.text).entry(given.entry)
            options: dict[str, Any] = {
                "block": _block_of(function, variant, given),
                "grid": sides_of(given.grid, names, "--grid") if given.grid else None,
                "arguments": given.arguments,
                "stages": given.stages,
            }
            found = analyse(function, **options)
            own = _Labels.of(variant.name, found)
            first = first or own
            if given.trips or given.branches:
                options["branches"] = _matched(given.branches, first, own, "branches")
                trips = _matched(given.trips, first, own, "unknown", "every")
                found = analyse(function, trips=trips, **options)
            check_complete(found, variant.text)
        except SweepError as error:
            raise SweepError(f"{variant.name}: {error}") from None
        yield found


def _block_of(function: Function, variant: Variant, given: Given) -> Sides | None:
    """Return the block: given, required by the text, or the warps that the configuration names."""
    configuration = variant.configuration
    if given.block is not None:
        return sides_of(given.block, {**given.sizes, **configuration}, "--block")
    limits, n_warps = function.limits, configuration.get("num_warps")
    if "reqntid" not in limits and isinstance(n_warps, float) and n_warps >= 1:
        return int(WARP * n_warps), 1, 1
    x, y, z = (*limits.get("reqntid", limits.get("maxntid", (0,))), 1, 1)[:3]
    if not x:
        raise PtxError(
            "the text does not tell the block: give --block, a number or an expression over"
            " parameters, such as --block block_size_x,block_size_y"
        )
    return x, y, z


def _matched(
    given: Mapping[str, float | str], first: _Labels, own: _Labels, *kinds: str
) -> dict[str, float | str]:
    """Return what is given by the labels of the first text by those of another one."""
    found: dict[str, float | str] = {}
    for label, value in given.items():
        plain = label.removeprefix("$")
        kind = next((kind for kind in kinds if plain in getattr(first, kind)), None)
        if kind is None or first is own:
            found[label] = value
            continue
        theirs, ours = getattr(first, kind), getattr(own, kind)
        if len(theirs) != len(ours):
            way = f": give one count for all, --trip '{ANY}=N'" if kind != "branches" else ""
            raise PtxError(
                f"it has {len(ours)} {_NAMES[kind]} and {first.name} {len(theirs)}, so that {label}"
                f" is not clear{way}"
            )
        found[ours[theirs.index(plain)]] = value
    return found

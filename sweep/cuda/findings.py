"""What the compiler decided for one variant: registers, spills, shared memory, instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from sweep.cuda.nvrtc import CompileError
from sweep.importers.ptx.analysis import ANY, analyse
from sweep.importers.ptx.parser import read_ptx
from sweep.importers.ptx.trips import MIDDLE
from sweep.specs.formats import INSTRUCTION_CLASSES

_DEEP_GRID = re.compile(r"%n?ctaid\.[yz]")
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for 'sm_\w+'")
_REPORT = {
    "registers": re.compile(r"Used (\d+) registers"),
    "spill_store_bytes": re.compile(r"(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(\d+) bytes spill loads"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}
"""What ptxas reports of an entry function; it omits shared memory where there is none."""

Block = tuple[int, int, int]


def resources(log: str, entry: str = "") -> tuple[str, dict[str, int]]:
    """Return the entry function in a log of ptxas, and its registers, spills and shared memory.

    Parameters
    ----------
    log : str
        The output of ``ptxas -v``.
    entry : str
        The kernel as the source or the PTX names it; needed if there are several.

    Raises
    ------
    CompileError
        There is no such kernel, or there are several.

    Examples
    --------
    >>> resources('''ptxas info    : Compiling entry function '_Z5scalePf' for 'sm_86'
    ... ptxas info    : Function properties for _Z5scalePf
    ... ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
    ... ptxas info    : Used 255 registers, used 1 barriers, 4096 bytes smem''', "scale")[1]
    {'registers': 255, 'spill_store_bytes': 12, 'spill_load_bytes': 16, 'shared_bytes': 4096}
    """
    parts = _ENTRY.split(log)[1:]
    reports = dict(zip(parts[::2], parts[1::2], strict=True))
    name = named_kernel([*reports], entry)
    found = {}
    for quantity, pattern in _REPORT.items():
        number = pattern.search(reports[name])
        found[quantity] = int(number[1]) if number else 0
    return name, found


def named_kernel(names: Sequence[str], entry: str) -> str:
    """Return the only one of some kernels, or that of the given name, mangled or not.

    Raises
    ------
    CompileError
        There is no such kernel, or there are several.
    """
    mangled = f"_Z{len(entry)}{entry}"
    named = [n for n in names if not entry or n == entry or n.startswith(mangled)]
    if not names:
        raise CompileError("the source has no kernel")
    if len(named) != 1:
        what = f"{len(named) or 'no'} kernels named '{entry}'" if entry else "several kernels"
        raise CompileError(f"{what} (choose one by --entry NAME): there are {', '.join(names)}")
    return named[0]


def instructions(
    ptx: str,
    entry: str,
    trips: Mapping[str, float],
    block: Block | None,
    arguments: Mapping[str, float] | None = None,
    blocks: int | None = None,
) -> dict[str, float]:
    """Return the dynamic instructions of a thread by class, as `sweep ptx` counts them.

    Parameters
    ----------
    ptx : str
        The PTX text of a variant.
    entry : str
        The kernel as the text names it.
    trips : mapping of str to float
        Trip counts by label where the text does not tell; `ANY` stands for all other loops.
    block : tuple of int or None
        Width, height and depth of a block, if known.
    arguments : mapping of str to float, optional
        Integers that the kernel is called with, by position.
    blocks : int, optional
        Blocks of the grid, if known; used where the text reads no more of it than x.

    Raises
    ------
    SweepError
        The text cannot be read, or a loop has no trip count.
    """
    function = read_ptx(ptx).entry(entry)
    grid = (blocks, 1, 1) if blocks and not _DEEP_GRID.search(ptx) else None
    known = partial(analyse, function, block=block, grid=grid, stages="none", arguments=arguments)
    analysis = known()
    unsure = {None, MIDDLE} if ANY in trips else {None}
    labels = [
        loop.label.name
        for loop in analysis.graph.loops
        if (None if loop.trips is None else loop.origin) in unsure
    ]
    if labels:
        named = {name.removeprefix("$"): number for name, number in trips.items()}
        given = {label: named.get(label.removeprefix("$"), named.get(ANY)) for label in labels}
        unknown = [label for label, number in given.items() if number is None]
        if unknown:
            raise CompileError(
                f"the loop at {unknown[0]} has no constant trip count: --trip '{unknown[0]}=N', or"
                f" --trip '{ANY}=N' for all such loops"
            )
        counts = {label: number for label, number in given.items() if number is not None}
        analysis = known(trips=counts)
    found = analysis.instructions()
    counts = {name: found.get(name, 0.0) for name in INSTRUCTION_CLASSES}
    return counts | {"barriers": found.get("barrier", 0.0)}

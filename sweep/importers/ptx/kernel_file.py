"""The kernel file: what the text of a kernel tells, in the format that all models read."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.costs import InstructionCosts, computation_proportion, tasks_of
from sweep.importers.ptx.counts import Amount, Counts, Passage
from sweep.importers.ptx.formulas import Formulas, shown
from sweep.importers.ptx.tasks import Stage
from sweep.specs import parse_kernel
from sweep.specs.writing import key_of, plain, quoted

__all__ = ["kernel_text"]

BLOCK_SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""The range to search where neither text nor user fix the block."""

TOTAL_THREADS = 2**20
MOST_SHAPES = 200
MOST_LINES = 6
MOST_LOOPS = 100
MOST_UNKNOWN = 100
_CLASSES = ("fp32", "fp64", "integer", "special", "conversion", "control", "move")
_STAGE_NAMES = {"tasks": "period", "barriers": "stretch"}


def kernel_text(
    analysis: Analysis,
    *,
    source: str = "",
    registers: int | None = None,
    grid: tuple[int, ...] | None = None,
    dynamic_shared: int | None = None,
    costs: InstructionCosts | None = None,
) -> str:
    """Return the kernel file of an analysed kernel.

    Parameters
    ----------
    analysis : Analysis
        The kernel.
    source : str
        The name of the text, for the record.
    registers : int, optional
        Registers of a thread, instead of the estimate.
    grid : tuple of int, optional
        Blocks of the grid in x, y, z.
    dynamic_shared : int, optional
        Shared memory of a block that the launch adds [bytes].
    costs : InstructionCosts, optional
        A device's instruction table: tasks and P are then told in comments.

    Returns
    -------
    str
        The text, which :func:`sweep.specs.parse_kernel` accepts.
    """
    writer = _Writer(analysis, source, registers, grid, dynamic_shared, costs)
    text = "\n".join(writer.lines()).rstrip("\n") + "\n"
    parse_kernel(text, key_of(analysis.name))  # what is written here can be read
    return text


class _Writer:
    def __init__(
        self,
        analysis: Analysis,
        source: str,
        registers: int | None,
        grid: tuple[int, ...] | None,
        dynamic_shared: int | None,
        costs: InstructionCosts | None,
    ) -> None:
        self.analysis = analysis
        self.file = plain(source)
        self.registers = registers
        self.grid = grid
        self.dynamic_shared = dynamic_shared
        self.costs = costs
        self.formulas = Formulas(analysis.counts)
        self.sources: dict[str, str] = {}
        self.is_staged = analysis.how != "none"
        self.loop_names = _loop_names(analysis.counts)

    def lines(self) -> Iterator[str]:
        """Yield the file; what follows the sizes is written first, since it names them."""
        code = list(self._code())
        loops = list(self._loops())
        launch, sizes, parameters = self._launch()
        resources = list(self._resources(sizes))
        for loop in self.analysis.counts.loops:
            if loop.trips is None:
                sizes[loop.size] = 1
                why = f"one iteration of the loop at {loop.loop.label}: the text does not tell"
                self.sources[f"sizes.{loop.size}"] = f"assumed: {why}"
        yield from self._head()
        yield from self._source()
        for name, table in (("sizes", sizes), ("parameters", parameters)):
            if table:
                yield from ("", f"[{name}]", *(f"{k} = {v}" for k, v in table.items()))
        if self.formulas.derived:
            yield from ("", "[derived]")
            yield from (f'{name} = "{text}"' for name, text in self.formulas.derived.items())
        yield from launch
        yield from resources
        yield from code
        yield from loops
        yield from ("", "[cache]", "l2_hit_rate = 0")

    def _head(self) -> Iterator[str]:
        analysis = self.analysis
        origin = f" from {self.file}" if self.file else ""
        yield f"# Written by `sweep ptx`{origin}."
        yield "#"
        yield "# Counts are dynamic, of one thread. Both sides of a branch count in full unless its"
        yield "# share was given; instructions under a predicate count as executed."
        for loop in analysis.counts.loops[:MOST_LOOPS]:
            trips = f"open, {loop.size} below"
            if loop.trips is not None:
                how = {"most": "the most that the text allows"}.get(loop.origin, loop.origin)
                trips = f"{shown(loop.trips)} iterations, {how}"
            place = f"{plain(loop.loop.label)} (line {loop.loop.line})"
            yield f"# Loop at {place}, depth {loop.loop.depth}: {trips}."
        if len(analysis.counts.loops) > MOST_LOOPS:
            yield f"# There are {len(analysis.counts.loops)} loops in all."
        for note in analysis.notes:
            yield f"# Note: {plain(note)}."
        for unknown in analysis.unknown[:MOST_UNKNOWN]:
            yield f"# {plain(unknown.remark())}."
        if len(analysis.unknown) > MOST_UNKNOWN:
            rest = sum(unknown.count for unknown in analysis.unknown[MOST_UNKNOWN:])
            yield f"# {rest} more unknown instructions are counted likewise."
        yield from self._proportion()
        yield "schema = 1"
        yield f"name = {quoted(analysis.name)}"
        what = f"Kernel {analysis.name}, read from PTX ISA {analysis.version} for {analysis.target}"
        yield f"description = {quoted(what)}"
        if analysis.block is None and analysis.max_threads is not None:
            yield f'constraints = ["block_size <= {analysis.max_threads}"]'

    def _proportion(self) -> Iterator[str]:
        if self.costs is None:
            return
        counts, sizes = self.analysis.counts, self.analysis.sizes
        tasks = [tasks_of(counts, stage, self.costs, sizes) for stage in self.analysis.stages]
        proportion = computation_proportion(tasks)
        if not math.isnan(proportion):
            share = f"computation instruction proportion P = {proportion:.4f}"
            yield f"# On {self.costs.device}: {share}."

    def _source(self) -> Iterator[str]:
        analysis = self.analysis
        origin = f" of {self.file}" if self.file else ""
        yield ""
        yield "[source]"
        text = f"derived: counted in the PTX{origin}, entry {analysis.name}"
        yield f"default = {quoted(text)}"
        self.sources["cache.l2_hit_rate"] = "assumed: PTX does not tell what a cache serves"
        for path, text in self.sources.items():
            yield f'"{path}" = {quoted(text)}'

    def _launch(self) -> tuple[list[str], dict[str, object], dict[str, object]]:
        """Return the launch, and the sizes and parameters that it needs."""
        block, sizes, parameters = self.analysis.block, {}, {}
        lines = ["", "[launch]"]
        if block is None:
            most = self.analysis.max_threads or BLOCK_SIZES[-1]
            listed = [size for size in BLOCK_SIZES if size <= most] or [most]
            parameters["block_size"] = listed
            self.sources["parameters.block_size"] = "assumed: a range to search"
            threads = "block_size"
            lines.append(f'threads_per_block = "{threads}"')
        else:
            threads = str(math.prod(block))
            lines.append(f"threads_per_block = {threads}")
        if self.grid is None:
            sizes["threads"] = TOTAL_THREADS
            self.sources["sizes.threads"] = "assumed: PTX does not tell how many threads there are"
            lines.append(f'blocks = "ceil(threads / {threads})"')
        else:
            sizes["grid_blocks"] = math.prod(self.grid)
            self.sources["sizes.grid_blocks"] = "assumed: given when the PTX was read"
            lines.append('blocks = "grid_blocks"')
        if block is not None and block[1] * block[2] > 1:
            lines += [f"block_x = {block[0]}", f"block_y = {block[1]}"]
        return lines, sizes, parameters  # type: ignore[return-value]

    def _resources(self, sizes: dict[str, object]) -> Iterator[str]:
        analysis = self.analysis
        path = "resources.registers_per_thread"
        yield from ("", "[resources]")
        if self.registers is None:
            what = "estimate, the most 32-bit registers that are live at once (a 64-bit one is two)"
            self.sources[path] = f"derived: {what}"
            yield f"registers_per_thread = {analysis.registers}"
        else:
            self.sources[path] = "assumed: given when the PTX was read"
            yield f"registers_per_thread = {self.registers}"
        fixed = analysis.shared_bytes
        if analysis.has_dynamic_shared or self.dynamic_shared:
            sizes["dynamic_shared_bytes"] = self.dynamic_shared or 0
            given = "given when the PTX was read" if self.dynamic_shared else "none"
            self.sources["sizes.dynamic_shared_bytes"] = f"assumed: {given}: the launch sets it"
            total = f"{fixed} + dynamic_shared_bytes" if fixed else "dynamic_shared_bytes"
            yield f'shared_memory_bytes = "{total}"'
        elif fixed:
            yield f"shared_memory_bytes = {fixed}"

    # The code

    def _code(self) -> Iterator[str]:
        names = {"global": 0, "shared": 0}
        for number, stage in enumerate(self.analysis.stages, start=1):
            name = f"{_STAGE_NAMES.get(self.analysis.how, '')}_{number}"
            if self.is_staged:
                yield from self._stage(stage, name)
            else:
                yield from ("", "[instructions]")
                yield from self._classes(stage)
                if "barrier" in stage.instructions:
                    yield from ("", "[synchronisation]")
                    barriers = self.formulas.value(stage.instructions["barrier"])
                    yield f"barriers = {barriers}"
            for shape, amount in _simplified(stage.accesses).items():
                names[shape.space] += 1
                access = f"{shape.direction}_{names[shape.space]}"
                lines = stage.lines.get(shape, [])
                yield from self._access(shape, amount, access, name, lines)

    def _stage(self, stage: Stage, name: str) -> Iterator[str]:
        counts = self.analysis.counts
        yield ""
        if self.costs is not None:
            task = tasks_of(counts, stage, self.costs, self.analysis.sizes)
            yield (
                f"# On {self.costs.device}, in cycles of one execution: computation"
                f" {task.computation:.6g}, memory {task.memory:.6g}."
            )
        yield "[[stage]]"
        yield f'name = "{name}"'
        if stage.loop is not None:
            yield f"loop = {quoted(self.loop_names[stage.loop])}"
        executions = self.formulas.value({stage.passage: stage.share})
        if executions != "1":
            yield f"executions = {executions}"
        yield from self._classes(stage)
        if "barrier" in stage.instructions:
            yield f"barriers = {self.formulas.value(stage.instructions['barrier'])}"

    def _classes(self, stage: Stage) -> Iterator[str]:
        listed = [kind for kind in _CLASSES if kind in stage.instructions]
        for kind in listed:
            yield f"{kind} = {self.formulas.value(stage.instructions[kind])}"
        if not listed:
            yield "integer = 0"

    def _access(
        self, shape: Shape, amount: Amount, name: str, stage: str, lines: list[int]
    ) -> Iterator[str]:
        table = f"{shape.space}_access"
        yield ""
        if lines:
            places = ", ".join(map(str, lines[:MOST_LINES]))
            more = ", ..." if len(lines) > MOST_LINES else ""
            what = f" ({shape.origin})" if shape.origin else ""
            yield f"# Line{'s' if len(lines) > 1 else ''} {places}{more} of the PTX{what}."
        if shape.assumed:
            yield f"# Pattern assumed: {shape.assumed}."
            self.sources[f"{table}.{name}.pattern"] = f"assumed: {shape.assumed}"
        if shape.words > 1:
            yield f"# {shape.words} words of {shape.bytes} bytes in one instruction, counted each."
        yield f"[[{table}]]"
        yield f'name = "{name}"'
        yield f'kind = "{shape.direction}"'
        yield f"count = {self.formulas.value(amount)}"
        if self.is_staged:
            yield f'stage = "{stage}"'
        if shape.space == "global" or shape.bytes != 4:
            yield f"bytes = {shape.bytes}"
        if shape.space == "global" or shape.pattern != "strided" or shape.assumed:
            yield f'pattern = "{shape.pattern}"'
        if shape.pattern == "affine":
            yield from (f"x = {shape.x}", f"y = {shape.y}")
            if shape.z:
                yield f"z = {shape.z}"
        elif shape.pattern == "strided":
            yield f"stride = {shape.x}"

    def _loops(self) -> Iterator[str]:
        """Yield the loop of most accesses to global memory, as the phases of Wang & Chu."""
        counts, sizes = self.analysis.counts, self.analysis.sizes
        weights: dict[int, float] = {}
        for passage, number in self._amounts("global", ("load", "store")):
            if passage[0] is not None:
                executed = number * counts.value(passage, sizes)
                weights[passage[0]] = weights.get(passage[0], 0.0) + executed
        if not weights:
            return
        best = max(weights, key=lambda loop: (weights[loop], counts.loops[loop].loop.depth))
        outer: Amount = {(best, False): 1.0}
        inner: Amount = {}
        for passage, number in self._amounts("shared", ("load",)):
            if best in counts.graph.nest(passage[0]):
                inner[passage] = inner.get(passage, 0.0) + number
        yield from ("", "[loops]", f"outer = {self.formulas.value(outer)}")
        if inner:
            total, often = self.formulas.text(inner), self.formulas.text(outer)
            yield f'inner = "max(1, ({total}) / max(1, {often}))"'

    def _amounts(self, space: str, directions: tuple[str, ...]) -> Iterator[tuple[Passage, float]]:
        """Yield the accesses to one memory by passage."""
        for stage in self.analysis.stages:
            for shape, amount in stage.accesses.items():
                if shape.space == space and shape.direction in directions:
                    yield from amount.items()


def _loop_names(counts: Counts) -> list[str]:
    """Return a name for every loop: its label, numbered where others have the same."""
    times: dict[str, int] = {}
    names = []
    for loop in counts.loops:
        label = loop.loop.label
        times[label] = times.get(label, 0) + 1
        names.append(label if times[label] == 1 else f"{label} ({times[label]})")
    return names


def _simplified(accesses: dict[Shape, Amount]) -> dict[Shape, Amount]:
    """Return accesses by shape; of very many shapes those with a stride become one."""
    if len(accesses) <= MOST_SHAPES:
        return accesses
    result: dict[Shape, Amount] = {}
    for shape, amount in accesses.items():
        if shape.space == "global" and shape.pattern in ("strided", "affine"):
            why = "too many different strides"
            shape = shape._replace(pattern="uncoalesced", x=0, y=0, z=0, assumed=why)
        elif shape.space == "shared":
            shape = shape._replace(pattern="strided", x=1, y=0, z=0, assumed="too many strides")
        total = result.setdefault(shape, {})
        for passage, number in amount.items():
            total[passage] = total.get(passage, 0.0) + number
    return result

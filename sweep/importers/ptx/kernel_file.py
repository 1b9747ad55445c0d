"""Write the analysis of one text as a kernel file."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping

from sweep.expressions import Expression
from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Amount, Graph, Loop, executions, nest
from sweep.importers.ptx.module import PtxError, capability_of, own_architectures
from sweep.importers.ptx.stages import InstructionCosts, Stage, added, counted
from sweep.importers.ptx.summary import product_lines
from sweep.importers.ptx.writer import ESTIMATED, GIVEN, Writer
from sweep.specs.kernel import KernelFile, Value, toml

BLOCK_SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Block sizes to search if neither the text nor the user fixes the block."""

MOST_SHAPES = 200
MOST_LOOPS = 100
MOST_UNKNOWN = 100

_STAGE_NAMES = {"tasks": "period", "barriers": "stretch", "loops": "part"}


def kernel_text(
    analysis: Analysis,
    *,
    source: str = "",
    registers: int | None = None,
    grid: tuple[int, ...] | None = None,
    dynamic_shared: int | None = None,
    sizes: Mapping[str, float] | None = None,
    costs: InstructionCosts | None = None,
) -> str:
    """Return the kernel file of an analysed kernel.

    Parameters
    ----------
    analysis : Analysis
        The kernel.
    source : str
        The name of the text, which the kernel file records.
    registers : int, optional
        Registers per thread, instead of the estimate.
    grid : tuple of int, optional
        Blocks in the grid in x, y, z.
    dynamic_shared : int, optional
        Dynamic shared memory per block [bytes].
    sizes : mapping of str to float, optional
        Values of the problem sizes that trip counts name.
    costs : InstructionCosts, optional
        A device's instruction table; if given, comments state the costs of tasks and P.

    Returns
    -------
    str
        The text, which :func:`sweep.specs.parse_kernel` accepts.

    Raises
    ------
    PtxError
        A trip count names a size that has no value.
    """
    name, module = analysis.function.name, analysis.function.module
    plain_name = analysis.function.plain_name
    file = KernelFile(
        plain_name,
        f"Kernel {plain_name}, read from PTX ISA {module.version} for {module.target}",
        f"derived: counted in the PTX{f' of {source}' if source else ''}, entry {name}",
        [f"Written by `sweep ptx`{f' from {source}' if source else ''}."],
    )
    writer = _Writer(analysis, costs, file)
    file.comments += writer.comments()
    writer.trip_counts(sizes or {})
    writer.code()
    writer.matrix()
    writer.parallelism()
    if writer.is_new():
        file.constraints.append(f"compute_capability >= {capability_of(module.target)}")
        file.constraints += own_architectures([module.target])
    writer.loops()
    writer.launch(*writer.threads_and_blocks(grid))
    if analysis.has_dynamic_shared or dynamic_shared:
        dynamic_shared = dynamic_shared or 0
    source = ESTIMATED if registers is None else f"assumed: {GIVEN}"
    file.sources["resources.registers_per_thread"] = source
    registers = analysis.registers if registers is None else registers
    writer.resources(registers, analysis.shared_bytes, dynamic_shared)
    for loop in analysis.open_loops:
        if loop.size not in writer.tables["sizes"]:
            why = f"one iteration of the loop at {loop.label.name}: the text does not tell"
            writer.assume("sizes", loop.size, 1, why)
    writer.cache(list(map(str, grid)) if grid else None)
    return file.text()


class _Writer(Writer):
    def __init__(
        self, analysis: Analysis, costs: InstructionCosts | None, file: KernelFile
    ) -> None:
        super().__init__([analysis], file)
        self.analysis, self.costs = analysis, costs
        self.parts = [analysis.stages]
        self.loop_names = _loop_names(analysis.graph)
        word = _STAGE_NAMES.get(analysis.how, "")
        is_staged = word and any(stage.counts for stage in analysis.stages)
        self.names = [f"{word}_{n}" for n in range(1, len(analysis.stages) + 1)]
        self.names = self.names if is_staged else [""]

    def comments(self) -> Iterator[str]:
        """Yield what a user should know about the counts."""
        analysis = self.analysis
        loops, unknown = analysis.graph.loops, analysis.unknown
        yield ""
        yield "Counts are dynamic, of one thread. Both sides of a branch count in full unless its"
        yield "share was given or the block's index decides it; of what stands under a predicate"
        yield "accesses alone leave out threads whose index makes it false."
        for loop in loops[:MOST_LOOPS]:
            trips = f"open, {loop.size} below"
            if loop.formula:
                trips = f"{loop.formula} iterations, given"
            if loop.trips is not None:
                how = "the most that the text allows" if loop.origin == "most" else loop.origin
                trips = f"{toml(loop.trips)} iterations, {how}"
            place = f"{loop.label.name} (line {loop.label.line})"
            yield f"Loop at {place}, depth {loop.header.depth}: {trips}."
        if len(loops) > MOST_LOOPS:
            yield f"There are {len(loops)} loops in all."
        yield from (f"{line}." for line in product_lines(analysis))
        yield from (f"Note: {note}." for note in analysis.notes)
        yield from (f"{one.remark()}." for one in unknown[:MOST_UNKNOWN])
        if len(unknown) > MOST_UNKNOWN:
            rest = sum(one.count for one in unknown[MOST_UNKNOWN:])
            yield f"{rest} more unknown instructions are counted likewise."
        if self.costs is not None:
            costs = [self.costs.of_stage(stage) for stage in analysis.stages]
            computation, memory = map(sum, zip(*costs, strict=True))
            if computation + memory:
                share = computation / (computation + memory)
                proportion = f"computation instruction proportion P = {share:.4f}"
                yield f"On {self.costs.device}: {proportion}."

    def trip_counts(self, sizes: Mapping[str, float]) -> None:
        """Add the trip counts that are expressions, and the sizes that they name."""
        known = {"block_size"} if self.analysis.block is None else set()
        for loop in (loop for loop in self.analysis.graph.loops if loop.formula):
            for name in sorted(Expression.parse(loop.formula).names - known):
                if name not in sizes:
                    label = loop.label.name
                    raise PtxError(f"--trip '{label}={loop.formula}': give the size {name}, "
                                   f"--size {name}=N")  # fmt: skip
                self.assume("sizes", name, sizes[name], GIVEN)
            self.tables["derived"][loop.size] = loop.formula

    def threads_and_blocks(self, grid: tuple[int, ...] | None) -> tuple[Value, str | None]:
        """Return threads per block and blocks; add the sizes and parameters that they need."""
        block, limit = self.analysis.block, self.analysis.function.limits.get("maxntid")
        if block is None:
            most = math.prod(limit) if limit else BLOCK_SIZES[-1]
            sizes = [size for size in BLOCK_SIZES if size <= most]
            self.assume("parameters", "block_size", sizes or [most], "a range to search")
            if limit:
                self.file.constraints.append(f"block_size <= {most}")
        if grid is not None:
            self.assume("sizes", "grid_blocks", math.prod(grid), GIVEN)
        threads = "block_size" if block is None else math.prod(block)
        return threads, None if grid is None else "grid_blocks"

    def accesses_of(self, stage: Stage) -> dict[Hashable, tuple[Shape, Amount]]:
        """Return a stage's accesses by their shape."""
        accesses = stage.of(Shape)
        if len(accesses) > MOST_SHAPES:
            accesses = added((_simplified(shape), n) for shape, n in accesses.items())
        return {shape: (shape, amount) for shape, amount in accesses.items()}

    def remarks_of(self, stage: Stage) -> Iterator[str]:
        """Yield the costs of a stage's tasks."""
        if self.costs is not None:
            often = stage.share * executions(stage.passage, {}) or 1.0
            computation, memory = (cost / often for cost in self.costs.of_stage(stage))
            yield (
                f"On {self.costs.device}, in cycles of one execution: computation"
                f" {computation:.6g}, memory {memory:.6g}."
            )

    def loops(self) -> None:
        """Add the loop with most global accesses, as the phases of Wang & Chu."""
        found = counted(self.analysis.stages, Shape).items()
        weights: dict[Loop, float] = {}
        for shape, amount in found:
            for passage, number in amount.items() if shape.space == "global" else ():
                if loop := passage[0]:
                    weights[loop] = weights.get(loop, 0.0) + number * executions(passage, {})
        if not weights:
            return
        best = max(weights, key=lambda loop: (weights[loop], loop.header.depth))
        outer: Amount = {(best, False): 1.0}
        loads = [amount for s, amount in found if (s.space, s.direction) == ("shared", "load")]
        inner = added(("", amount) for amount in loads)[""]
        inner = {passage: n for passage, n in inner.items() if best in nest(passage[0])}
        values: dict[str, Value] = {"outer": self.formulas.value("", [outer])}
        if inner:
            total, often = (self.formulas.text("", [amount]) for amount in (inner, outer))
            values["inner"] = f"max(1, ({total}) / max(1, {often}))"
        self.file.table("[loops]", values)


def _loop_names(graph: Graph) -> dict[Loop, str]:
    """Return a name for every loop: its label, numbered if several loops have it."""
    times: dict[str, int] = {}
    names = {}
    for loop in graph.loops:
        label = loop.label.name
        times[label] = times.get(label, 0) + 1
        names[loop] = label if times[label] == 1 else f"{label} ({times[label]})"
    return names


def _simplified(shape: Shape) -> Shape:
    """Return the shape under which a strided access is counted if there are very many."""
    if shape.space == "global" and shape.pattern in ("strided", "affine"):
        why = "too many different strides"
        return shape._replace(pattern="uncoalesced", x=0, y=0, z=0, assumed=why)
    if shape.space == "shared":
        return shape._replace(pattern="strided", x=1, y=0, z=0, assumed="too many strides")
    return shape

"""Write the analysis of a kernel as a kernel file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from sweep.expressions import Expression
from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Amount, Graph, Loop, executions, nest
from sweep.importers.ptx.footprint import footprint_of, hit_rate
from sweep.importers.ptx.formulas import Formulas
from sweep.importers.ptx.instructions import Product
from sweep.importers.ptx.module import PtxError, capability_of, own_architectures
from sweep.importers.ptx.stages import InstructionCosts, Stage, added
from sweep.importers.ptx.summary import product_lines
from sweep.specs.formats import INSTRUCTION_CLASSES, MATRIX_TYPES
from sweep.specs.kernel import KernelFile, Value, toml

BLOCK_SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Block sizes to search if neither the text nor the user fixes the block."""

TOTAL_THREADS = 2**20
MOST_SHAPES = 200
MOST_LINES = 6
MOST_LOOPS = 100
MOST_UNKNOWN = 100

_CLASSES = (*INSTRUCTION_CLASSES, "barrier")
_STAGE_NAMES = {"tasks": "period", "barriers": "stretch", "loops": "part"}
_GIVEN = "given when the PTX was read"
NO_WAIT = "loads from shared memory in a loop with copies wait for nothing else"
"""Why they count as independent."""


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
    # The launch and the resources add sizes, the code adds derived names: their tables come first.
    for table in ("sizes", "parameters", "derived", "launch", "resources"):
        file.table(f"[{table}]", writer.tables[table])
    writer.trip_counts(sizes or {})
    writer.code()
    writer.matrix()
    writer.parallelism()
    writer.loops()
    writer.launch(grid)
    writer.resources(registers, dynamic_shared)
    for loop in analysis.open_loops:
        if loop.size not in writer.tables["sizes"]:
            why = f"one iteration of the loop at {loop.label.name}: the text does not tell"
            writer.assume("sizes", loop.size, 1, why)
    writer.cache(grid)
    return file.text()


class _Writer:
    def __init__(
        self, analysis: Analysis, costs: InstructionCosts | None, file: KernelFile
    ) -> None:
        self.analysis = analysis
        self.costs = costs
        self.file = file
        names = ("sizes", "parameters", "derived", "launch", "resources")
        self.tables: dict[str, dict[str, Value]] = {name: {} for name in names}
        self.formulas = Formulas(self.tables["derived"])
        self.is_staged = analysis.how != "none"

    def assume(self, table: str, name: str, value: float | list[int], why: str) -> None:
        """Add a size or parameter."""
        self.tables[table][name] = value
        self.file.sources[f"{table}.{name}"] = f"assumed: {why}"

    def comments(self) -> Iterator[str]:
        """Yield what a user should know about the counts."""
        analysis = self.analysis
        loops, unknown = analysis.graph.loops, analysis.unknown
        yield ""
        yield "Counts are dynamic, of one thread. Both sides of a branch count in full unless its"
        yield "share was given; instructions under a predicate count as executed."
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
                self.assume("sizes", name, sizes[name], _GIVEN)
            self.tables["derived"][loop.size] = loop.formula

    def launch(self, grid: tuple[int, ...] | None) -> None:
        """Fill in the launch, and add the sizes and parameters that it needs."""
        block, limit = self.analysis.block, self.analysis.function.limits.get("maxntid")
        launch = self.tables["launch"]
        launch["threads_per_block"] = threads = "block_size" if block is None else math.prod(block)
        if block is None:
            most = math.prod(limit) if limit else BLOCK_SIZES[-1]
            sizes = [size for size in BLOCK_SIZES if size <= most]
            self.assume("parameters", "block_size", sizes or [most], "a range to search")
            if limit:
                self.file.constraints.append(f"block_size <= {most}")
        if grid is None:
            why = "PTX does not tell how many threads there are"
            self.assume("sizes", "threads", TOTAL_THREADS, why)
            launch["blocks"] = f"ceil(threads / {threads})"
        else:
            self.assume("sizes", "grid_blocks", math.prod(grid), _GIVEN)
            launch["blocks"] = "grid_blocks"
        if block is not None and block[1] * block[2] > 1:
            launch |= {"block_x": block[0], "block_y": block[1]}

    def resources(self, registers: int | None, dynamic_shared: int | None) -> None:
        """Fill in the resources, and add the sizes that they need."""
        resources, estimate = self.tables["resources"], self.analysis.registers
        resources["registers_per_thread"] = estimate if registers is None else registers
        how = "estimate, the most 32-bit registers that are live at once (a 64-bit one is two)"
        source = f"derived: {how}" if registers is None else f"assumed: {_GIVEN}"
        self.file.sources["resources.registers_per_thread"] = source
        fixed = self.analysis.shared_bytes
        if self.analysis.has_dynamic_shared or dynamic_shared:
            why = f"{_GIVEN if dynamic_shared else 'none'}: the launch sets it"
            self.assume("sizes", "dynamic_shared_bytes", dynamic_shared or 0, why)
            total = f"{fixed} + dynamic_shared_bytes" if fixed else "dynamic_shared_bytes"
            resources["shared_memory_bytes"] = total
        elif fixed:
            resources["shared_memory_bytes"] = fixed
        if columns := self.analysis.tensor_columns:
            resources["tensor_memory_columns"] = columns

    def code(self) -> None:
        """Add the instructions and accesses, by stage if there are stages."""
        names = {"global": 0, "shared": 0}
        loops = _loop_names(self.analysis.graph)
        for number, stage in enumerate(self.analysis.stages, start=1):
            name = f"{_STAGE_NAMES.get(self.analysis.how, '')}_{number}"
            found = stage.of(str)
            counts: dict[str, Value] = {
                kind: self.formulas.value(found[kind]) for kind in _CLASSES if kind in found
            }
            barriers = {"barriers": counts.pop("barrier")} if "barrier" in counts else {}
            counts = counts or {"integer": 0}
            if self.is_staged:
                loop = {"loop": loops[stage.loop]} if stage.loop is not None else {}
                times = self.formulas.value({stage.passage: stage.share})
                often = {"executions": times} if times != 1 else {}
                ahead = {"buffers": stage.pipeline.buffers} if stage.pipeline else {}
                values = {"name": name, **loop, **often, **counts, **barriers, **ahead}
                self.file.table("[[stage]]", values, self._costs(stage))
            else:
                self.file.table("[instructions]", counts)
                self.file.table("[synchronisation]", barriers)
            accesses = stage.of(Shape)
            if len(accesses) > MOST_SHAPES:
                accesses = added((_simplified(shape), n) for shape, n in accesses.items())
            for shape, amount in accesses.items():
                names[shape.space] += 1
                values = {"name": f"{shape.direction}_{names[shape.space]}"}
                count = self.formulas.value(amount)
                if isinstance(count, str) and min(amount.values()) < 0:
                    count = f"max(0, {count})"
                values |= {"kind": shape.direction, "count": count}
                if self.is_staged:
                    values["stage"] = name
                self._access(shape, values, stage.lines.get(shape, []))

    def matrix(self) -> None:
        """Add the multiply-adds of a matrix instruction, by type: their mean over the code."""
        amounts = added(
            (key, {passage: n * factor for passage, n in amount.items()})
            for stage in self.analysis.stages
            for product, amount in stage.of(Product).items()
            for key, factor in (("", 1.0), *product.numbers)
        )
        total = self.formulas.text(amounts[""])
        values: dict[str, Value] = {}
        for kind in (kind for kind in (*MATRIX_TYPES, "single_warp") if kind in amounts):
            found = {n / amounts[""][passage] for passage, n in amounts[kind].items()}
            is_plain = len(found) == 1 and amounts[kind].keys() == amounts[""].keys()
            text = f"({self.formulas.text(amounts[kind])}) / max(1, {total})"
            values[kind] = found.pop() if is_plain else text
        self.file.table("[matrix]", values)

    def parallelism(self) -> None:
        """Add what overlaps in loops with copies, and that older GPUs lack these."""
        loads = max(map(loads_of, self.analysis.stages))
        if loads > 1:
            self.file.sources["parallelism.instruction"] = f"assumed: {NO_WAIT}"
            self.file.table("[parallelism]", {"instruction": loads})
        target = self.analysis.function.module.target
        is_new = any(shape.is_copy for shape in self.analysis.accesses())
        if is_new or self.analysis.products():
            self.file.constraints.append(f"compute_capability >= {capability_of(target)}")
            self.file.constraints += own_architectures([target])

    def _costs(self, stage: Stage) -> Iterator[str]:
        """Yield the costs of a stage's tasks as a comment."""
        if self.costs is not None:
            often = stage.share * executions(stage.passage, {}) or 1.0
            computation, memory = (cost / often for cost in self.costs.of_stage(stage))
            yield (
                f"On {self.costs.device}, in cycles of one execution: computation"
                f" {computation:.6g}, memory {memory:.6g}."
            )

    def _access(self, shape: Shape, values: dict[str, Value], lines: list[int]) -> None:
        """Add an access."""
        is_global = shape.space == "global"
        comments = []
        if lines:
            places = ", ".join(map(str, lines[:MOST_LINES]))
            more = ", ..." if len(lines) > MOST_LINES else ""
            origin = f" ({shape.origin})" if shape.origin else ""
            comments.append(f"Line{'s' * (len(lines) > 1)} {places}{more} of the PTX{origin}.")
        if shape.assumed:
            comments.append(f"Pattern assumed: {shape.assumed}.")
            path = f"{shape.space}_access.{values['name']}.pattern"
            self.file.sources[path] = f"assumed: {shape.assumed}"
        if shape.words != 1:
            size = f"{shape.words:g} words of {shape.bytes} bytes"
            of = "a thread's share of a tile" if shape.origin == "tile" else "in one instruction"
            comments.append(f"{size} {of}, counted each.")
        if is_global or shape.bytes != 4:
            values["bytes"] = shape.bytes
        if shape.transactions:
            values |= {"pattern": "measured", "transactions": shape.transactions}
        elif is_global or shape.pattern != "strided" or shape.assumed:
            values["pattern"] = shape.pattern
        if shape.transactions:
            comments.append("Transactions of a warp, by the addresses of the block's threads.")
        elif shape.pattern == "affine":
            values |= {"x": shape.x, "y": shape.y} | ({"z": shape.z} if shape.z else {})
        elif shape.pattern == "strided":
            values["stride"] = shape.x
        self.file.table(f"[[{shape.space}_access]]", values, comments)

    def loops(self) -> None:
        """Add the loop with most global accesses, as the phases of Wang & Chu."""
        stages = self.analysis.stages
        found = [access for stage in stages for access in stage.of(Shape).items()]
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
        values: dict[str, Value] = {"outer": self.formulas.value(outer)}
        if inner:
            total, often = self.formulas.text(inner), self.formulas.text(outer)
            values["inner"] = f"max(1, ({total}) / max(1, {often}))"
        self.file.table("[loops]", values)

    def cache(self, grid: tuple[int, ...] | None) -> None:
        """Add the share of accesses that L2 serves, and the expressions that it needs."""
        analysis, launch = self.analysis, self.tables["launch"]
        derived, rate = hit_rate(
            footprint_of(analysis.reads, grid), stored_bytes(analysis),
            str(launch["threads_per_block"]), str(launch["blocks"]), self.formulas.text,
        )  # fmt: skip
        self.tables["derived"].update(derived)
        why = "what blocks read again is in L2 if all that they read fits"
        if not derived:
            why = "no word is read twice, as far as the addresses and the given grid tell"
        self.file.sources["cache.l2_hit_rate"] = f"assumed: {why}"
        self.file.table("[cache]", {"l2_hit_rate": rate if derived else 0})


def loads_of(stage: Stage) -> float:
    """Return the loads from shared memory in an iteration of a copying loop, 0 of other stages."""
    shared = ("shared", "load")
    found = (n for s, n in stage.of(Shape).items() if (s.space, s.direction) == shared)
    inside = (number for n in found for p, number in n.items() if p[0] is stage.loop)
    return sum(inside) if stage.pipeline else 0.0


def stored_bytes(analysis: Analysis) -> Amount:
    """Return the bytes that a thread stores to global memory."""
    return added(
        ("", {passage: n * shape.bytes for passage, n in amount.items()})
        for stage in analysis.stages
        for shape, amount in stage.of(Shape).items()
        if (shape.space, shape.direction) == ("global", "store")
    )[""]


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

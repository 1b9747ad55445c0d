"""Write the analyses of one kernel as a kernel file: of one text, or of many configurations.

What all texts have alike is a number in the file; what varies is a column of a compiled table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Amount, Loop
from sweep.importers.ptx.copies import goes_on_beside_products
from sweep.importers.ptx.footprint import SPLIT, add_sharing, footprint_of, name_of, touched
from sweep.importers.ptx.formulas import Formulas
from sweep.importers.ptx.instructions import Product
from sweep.importers.ptx.stages import Stage, added, counted
from sweep.specs.formats import INSTRUCTION_CLASSES, MATRIX_TYPES
from sweep.specs.kernel import KernelFile, Value

TOTAL_THREADS = 2**20
MOST_LINES = 6
GIVEN = "given when the PTX was read"
ESTIMATED = (
    "derived: estimate, the most 32-bit registers that are live at once (a 64-bit one is two)"
)

_CLASSES = (*INSTRUCTION_CLASSES, "barrier")
_TOGETHER = "loads between branches are under way together unless data or barriers part them"
SHARED = "sectors that loads just before brought are in L1, those of stores just before in L2"
_NUMBERS = {
    "measured": {"transactions": "transactions"},
    "strided": {"stride": "x"},
    "affine": {"x": "x", "y": "y", "z": "z"},
}
"""The numbers that patterns need, with the attributes of a `Shape` that have them."""


class Writer:
    """What kernel files of one text and of many configurations have in common.

    Parameters
    ----------
    analyses : sequence of Analysis
        The kernel in each text.
    file : KernelFile
        The file, which has no table yet.

    Attributes
    ----------
    tables : dict of str to dict
        Tables that several methods fill.
    parts : sequence of sequence of Stage
        The stages of each text; those in the same place are one stage of the file.
    names : sequence of str
        Names of the stages; ``""`` of the only one of code that is not divided.
    loop_names : mapping of Loop to str
        Names of the loops that stages state.
    shares_tiles : bool
        Whether the grid tells that blocks in a row or column of it read the same.
    """

    parts: Sequence[Sequence[Stage]]
    names: Sequence[str]
    loop_names: Mapping[Loop, str]
    shares_tiles = False

    def __init__(self, analyses: Sequence[Analysis], file: KernelFile) -> None:
        self.analyses, self.file = analyses, file
        shapes = [shape for analysis in analyses for shape in analysis.accesses()]
        self.stores_meet = any(shape.hits and shape.direction == "store" for shape in shapes)
        # The launch and the resources add sizes, the code adds derived names: they come first.
        names = ("sizes", "parameters", "derived", "launch", "resources")
        self.tables: dict[str, dict[str, Value]] = {name: {} for name in names}
        for name, values in self.tables.items():
            file.table(f"[{name}]", values)
        self.formulas = Formulas(self.tables["derived"])

    def assume(self, table: str, name: str, value: float | list[int], why: str) -> None:
        """Add a size or parameter."""
        self.tables[table][name] = value
        self.file.sources[f"{table}.{name}"] = f"assumed: {why}"

    def accesses_of(self, stage: Stage) -> Mapping[Hashable, tuple[Shape, Amount]]:
        """Return a stage's accesses by what they share with those of other texts."""
        raise NotImplementedError

    def remarks_of(self, stage: Stage) -> Iterable[str]:
        """Return comments on a stage."""
        return ()

    def entries(self, values: dict[str, Value], shape: Shape, stage: Stage
                ) -> Sequence[dict[str, Value]]:  # fmt: skip
        """Return the tables of an access."""
        return [values]

    def launch(
        self, threads: Value, blocks: str | None, sides: Sequence[int | str] | None = None
    ) -> None:
        """Fill in the launch.

        Parameters
        ----------
        threads : str or float
            Threads per block.
        blocks : str or None
            Blocks of the grid, if known.
        sides : sequence of int or str, optional
            Sides of a block, if not those of the analyses.
        """
        if blocks is None:
            why = "PTX does not tell how many threads there are"
            self.assume("sizes", "threads", TOTAL_THREADS, why)
            blocks = f"ceil(threads / ({threads}))"
        launch = self.tables["launch"]
        launch |= {"threads_per_block": threads, "blocks": blocks}
        known = [analysis.block or (1, 1, 1) for analysis in self.analyses]
        if any(y * z > 1 for _, y, z in known):
            for place, name in enumerate(("block_x", "block_y")):
                own = self.formulas.number(name, [block[place] for block in known])
                launch[name] = own if sides is None else sides[place]

    def resources(self, registers: Value, shared: Value, dynamic: int | None) -> None:
        """Fill in the resources; shared memory that the launch adds is a size."""
        resources = self.tables["resources"]
        resources["registers_per_thread"] = registers
        if dynamic is not None:
            why = f"{GIVEN if dynamic else 'none'}: the launch sets it"
            self.assume("sizes", "dynamic_shared_bytes", dynamic, why)
            shared = f"{shared} + dynamic_shared_bytes" if shared else "dynamic_shared_bytes"
        columns = [float(analysis.tensor_columns) for analysis in self.analyses]
        optional = {
            "shared_memory_bytes": shared,
            "tensor_memory_columns": self.formulas.number("tensor_columns", columns),
        }
        resources |= {name: value for name, value in optional.items() if value}

    def code(self) -> None:
        """Add the instructions and accesses, by stage if there are stages."""
        for name, *stages in zip(self.names, *self.parts, strict=True):
            if name and not any(stage.counts for stage in stages):
                continue
            found = [stage.of(str) for stage in stages]
            prefix = f"{name}_" if name else ""
            counts = {
                kind: self.formulas.value(f"{prefix}{kind}", [own.get(kind, {}) for own in found])
                for kind in _CLASSES
                if any(kind in own for own in found)
            }
            barriers = {"barriers": counts.pop("barrier")} if "barrier" in counts else {}
            counts = counts or {"integer": 0}
            if name:
                first, values = stages[0], {"name": name}
                if first.loop in self.loop_names:
                    values["loop"] = self.loop_names[first.loop]
                if (often := self.executions(name, stages)) != 1:
                    values["executions"] = often
                values |= {**counts, **barriers}
                buffers = [s.pipeline.buffers if s.pipeline else 0.0 for s in stages]
                if ahead := self.formulas.number(f"{name}_buffers", buffers):
                    values["buffers"] = ahead
                self.file.table("[[stage]]", values, self.remarks_of(first))
            else:
                self.file.table("[instructions]", counts)
                self.file.table("[synchronisation]", barriers)
            self._accesses(name, prefix, stages)

    def executions(self, name: str, stages: Sequence[Stage]) -> Value:
        """Return how often a stage is executed."""
        amounts = [{stage.passage: stage.share} for stage in stages]
        return self.formulas.value(f"{name}_executions", amounts)

    def _accesses(self, name: str, prefix: str, stages: Sequence[Stage]) -> None:
        own = [self.accesses_of(stage) for stage in stages]
        taken: Counter[str] = Counter()
        for key in dict.fromkeys(key for found in own for key in found):
            some = next(found[key][0] for found in own if key in found)
            shapes, amounts = zip(*(found.get(key, (some, {})) for found in own), strict=True)
            taken[some.direction] += 1
            called = f"{prefix}{some.direction}_{taken[some.direction]}"
            values: dict[str, Value] = {
                "name": called,
                "kind": some.direction,
                "count": self.formulas.value(called, amounts),
            }
            if name:
                values["stage"] = name
            pattern = "measured" if some.transactions else some.pattern
            values |= {"bytes": some.bytes, "pattern": pattern}
            for item, attribute in _NUMBERS.get(pattern, {}).items():
                numbers = [float(getattr(shape, attribute)) for shape in shapes]
                values[item] = self.formulas.number(f"{called}_{item}", numbers)
            hits = self.formulas.number(f"{called}_hits", [shape.hits for shape in shapes])
            rate = "l1_hit_rate" if some.direction == "load" else "l2_hit_rate"
            if hits or (self.stores_meet and some[:2] == ("global", "store")):
                values[rate] = hits
            assumed = next((shape.assumed for shape in shapes if shape.assumed), "")
            lines = stages[0].lines.get(some, []) if len(stages) == 1 else []
            for entry in self.entries(values, some, stages[0]):
                self.file.table(f"[[{some.space}_access]]", entry, _comments(some, lines, assumed))
                path = f"{some.space}_access.{entry['name']}"
                if assumed:
                    self.file.sources[f"{path}.pattern"] = f"assumed: {assumed}"
                if hits:
                    self.file.sources[f"{path}.{rate}"] = f"assumed: {SHARED}"

    def matrix(self) -> None:
        """Add the multiply-adds of a matrix instruction, by type: their mean over the code."""
        found = [
            added(
                (kind, {passage: n * factor for passage, n in amount.items()})
                for product, amount in counted(analysis.stages, Product).items()
                for kind, factor in (("", 1.0), *product.numbers)
            )
            for analysis in self.analyses
        ]
        totals = [own.get("", {}) for own in found]
        values: dict[str, Value] = {}
        for kind in (*MATRIX_TYPES, "single_warp"):
            amounts = [own.get(kind, {}) for own in found]
            values[kind] = self._mean(f"{kind}_multiply_adds", amounts, "products", totals)
        beside = [float(goes_on_beside_products(analysis.graph)) for analysis in self.analyses]
        values["asynchronous"] = self.formulas.number("asynchronous", beside)
        self.file.table("[matrix]", {kind: value for kind, value in values.items() if value})

    def _mean(
        self, name: str, amounts: Sequence[Amount], divisor: str, totals: Sequence[Amount]
    ) -> float | str:
        """Return amounts over totals: a number if it is the same wherever there are some."""
        means = [
            {amount.get(passage, 0.0) / n for passage, n in total.items()} or {0.0}
            for amount, total in zip(amounts, totals, strict=True)
        ]
        if all(len(mean) == 1 for mean in means):
            return self.formulas.number(name, list(map(max, means)))
        text = self.formulas.text(name, amounts)
        return f"({text}) / max(1, {self.formulas.text(divisor, totals)})"

    def parallelism(self) -> None:
        """Add the loads that are under way together.

        From shared memory those that a copying loop can issue back to back, from global memory the
        mean of each time that a thread waits.
        """
        values: dict[str, Value] = {}
        loads = [max(1.0, *map(_loads_of, analysis.stages)) for analysis in self.analyses]
        if max(loads) > 1:
            why = "loads from shared memory in a loop with copies wait for nothing else"
            self.file.sources["parallelism.instruction"] = f"assumed: {why}"
            values["instruction"] = self.formulas.number("parallel", loads)
        waits = [analysis.waits.amount(analysis.registers) for analysis in self.analyses]
        mean = self._mean("loads", list(map(_loaded, self.analyses)), "waits", waits)
        if isinstance(mean, str) or mean > 1:
            self.file.sources["parallelism.memory"] = f"assumed: {_TOGETHER}"
            values["memory"] = f"max(1, {mean})" if isinstance(mean, str) else mean
        self.file.table("[parallelism]", values)

    def is_new(self) -> bool:
        """Return whether there are instructions that older GPUs lack: copies or products."""
        return any(a.products() or any(s.is_copy for s in a.accesses()) for a in self.analyses)

    def cache(self, sides: Sequence[str] | None, remarks: Iterable[str] = ()) -> None:
        """Add the share of accesses that L2 serves, and the expressions that it needs.

        What a turn of a loop reads twice hits; what a later loop reads again, as far as L2 holds
        what the blocks that run at once read; what other blocks read too, see `add_sharing`.

        Parameters
        ----------
        sides : sequence of str or None
            The blocks of the grid in each direction, if known.
        remarks : iterable of str
            Comments for where no tiles are found that several blocks read.
        """
        launch, derived = self.tables["launch"], self.tables["derived"]
        known = zip("xyz", sides or (str(launch["blocks"]),), strict=False)
        grid = {direction: n for direction, n in known if n != "1" or direction == "x"}
        grid = self._split(grid.pop("x")) | grid
        found = [footprint_of(a.reads, "".join(grid) if sides else "") for a in self.analyses]
        amounts = {name: [getattr(f, name) for f in found] for name in ("read", "turn")}
        read, turn = (self.formulas.text(f"{name}_bytes", n) for name, n in amounts.items())
        first = {
            own: self.formulas.text(name_of(own), [f.first.get(own, {}) for f in found])
            for own in sorted({own for f in found for own in f.first})
        }
        self.shares_tiles = any(0 < len(own) < len(grid) for own in first)
        rate: Value = 0
        why = "no word is read twice, as far as the addresses and the given grid tell"
        if read not in ("0", first.get("".join(grid))):
            derived |= {"read_bytes": read, "turn_bytes": turn}
            derived |= {name_of(own): text for own, text in first.items()}
            derived["running"] = self._running()
            threads = f"({launch['threads_per_block']})"
            once, at_once = add_sharing(derived, first, grid, threads)
            again = " - ".join(["turn_bytes", *map(name_of, first)])
            once += f" + ({again}) * max(0, 1 - l2_bytes / max(1, {at_once}))"
            stored = self.formulas.text("stored_bytes", [*map(self._stored_bytes, self.analyses)])
            rate = f"max(0, read_bytes - ({once})) / max(0.001, read_bytes + {stored})"
            rate += " if l2_bytes > 0 else 0"
            why = "L2 holds what blocks read again, as far as what is read in between fits"
        self.file.sources["cache.l2_hit_rate"] = f"assumed: {why}"
        self.file.table("[cache]", {"l2_hit_rate": rate}, () if self.shares_tiles else remarks)

    def _split(self, blocks: str) -> dict[str, str]:
        """Return the sides of the directions into which the kernel splits x, innermost first."""
        names = SPLIT[: max(len(analysis.steps) for analysis in self.analyses)]
        steps = [[analysis.steps.get(d, 1) for d in names] for analysis in self.analyses]
        found = dict[str, str]()
        for place, name in reversed([*enumerate(names)]):
            sizes = [own[place - 1] / own[place] if place else own[0] for own in steps]
            amounts: list[Amount] = [{(None, False): size} for size in sizes]
            found[name] = self.formulas.text(f"{'side' if place else 'step'}_{name}", amounts)
        return found | {"x": blocks if found["x"] == "1" else f"({blocks}) / {found['x']}"}

    def _stored_bytes(self, analysis: Analysis) -> Amount:
        """Return the bytes in sectors that a thread moves beside loads with known addresses.

        Stores count unless they meet in L2 and have a rate of their own. Local memory, textures
        and atomic operations count too.
        """
        return added(
            ("", {passage: n * touched(shape) for passage, n in amount.items()})
            for shape, amount in counted(analysis.stages, Shape).items()
            if shape.space == "global"
            and (
                not self.stores_meet
                if shape.direction == "store"
                else shape.origin not in ("", "tile")
            )
        )[""]

    def _running(self) -> str:
        """Return the blocks that run at once."""
        launch, resources = self.tables["launch"], self.tables["resources"]
        threads, registers = launch["threads_per_block"], resources["registers_per_thread"]
        shared = resources.get("shared_memory_bytes", 0)
        limits = [f"max_threads_per_sm / ({threads})"]
        limits.append(f"registers_per_sm / (({threads}) * ({registers}))")
        limits += [f"shared_memory_per_sm / max(1, {shared})"] if shared else []
        return f"max(1, min({launch['blocks']}, sm_count * min({', '.join(limits)})))"


def _comments(shape: Shape, lines: Sequence[int], assumed: str) -> Iterable[str]:
    """Yield what a reader of the file should know about an access."""
    if lines:
        places = ", ".join(map(str, lines[:MOST_LINES]))
        more = ", ..." if len(lines) > MOST_LINES else ""
        origin = f" ({shape.origin})" if shape.origin else ""
        yield f"Line{'s' * (len(lines) > 1)} {places}{more} of the PTX{origin}."
    elif shape.origin:
        yield shape.origin
    if assumed:
        yield f"Pattern assumed: {assumed}."
    if shape.words != 1 and lines:
        of = "a thread's share of a tile" if shape.origin == "tile" else "in one instruction"
        yield f"{shape.words:g} words of {shape.bytes} bytes {of}, counted each."
    if shape.transactions:
        yield "Transactions of a warp, by the addresses of the block's threads."


def _loads_of(stage: Stage) -> float:
    """Return the loads from shared memory in an iteration of a copying loop, 0 of other stages."""
    shared = ("shared", "load")
    found = (n for s, n in stage.of(Shape).items() if (s.space, s.direction) == shared)
    inside = (number for n in found for p, number in n.items() if p[0] is stage.loop)
    return sum(inside) if stage.pipeline else 0.0


def _loaded(analysis: Analysis) -> Amount:
    """Return the words from global memory that a thread waits for outside loops with copies."""
    found = counted((s for s in analysis.stages if s.pipeline is None), Shape).items()
    return added(("", n) for s, n in found if (s.space, s.direction) == ("global", "load"))[""]

"""Write the analysis of a kernel as a kernel file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sweep.importers.ptx.analysis import (
    Analysis,
    InstructionCosts,
    computation_proportion,
    tasks_of,
)
from sweep.importers.ptx.counts import Amount, Counts, Passage
from sweep.importers.ptx.instructions import Shape
from sweep.importers.ptx.stages import Stage, Table
from sweep.specs.writing import KernelFile, toml

__all__ = ["kernel_text"]

BLOCK_SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Block sizes to search if neither the text nor the user fixes the block."""

TOTAL_THREADS = 2**20
MOST_SHAPES = 200
MOST_LINES = 6
MOST_LOOPS = 100
MOST_UNKNOWN = 100
LONGEST = 1000
"""Longer sums are divided into named parts, because the length of expressions is limited."""

_CLASSES = ("fp32", "fp64", "integer", "special", "conversion", "control", "move")
_STAGE_NAMES = {"tasks": "period", "barriers": "stretch"}
_GIVEN = "given when the PTX was read"


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
        The name of the text, which the kernel file records.
    registers : int, optional
        Registers per thread, instead of the estimate.
    grid : tuple of int, optional
        Blocks in the grid in x, y, z.
    dynamic_shared : int, optional
        Dynamic shared memory per block [bytes].
    costs : InstructionCosts, optional
        A device's instruction table; if given, comments state the costs of tasks and P.

    Returns
    -------
    str
        The text, which :func:`sweep.specs.parse_kernel` accepts.
    """
    return _Writer(analysis, source, costs).text(registers, grid, dynamic_shared)


class Formulas:
    """Writes amounts as expressions of the unknown trip counts, and collects the derived names.

    Attributes
    ----------
    derived : dict of str to str
        Names of a kernel file's ``[derived]`` with their expressions, in order.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.derived: dict[str, str] = {}
        self._passages: dict[Passage, tuple[float, str]] = {(None, False): (1.0, "")}

    def _passage(self, passage: Passage) -> tuple[float, str]:
        """Return the execution count of a passage: a number, and the name to multiply it with."""
        chain = [passage]
        while chain[-1] not in self._passages:
            loop = chain[-1][0]
            assert loop is not None  # the count outside all loops is known
            chain.append(self.counts.entered[loop])
        for inner, outer in zip(chain[-2::-1], chain[:0:-1], strict=True):
            self._passages[inner] = self._enter(inner, *self._passages[outer])
        return self._passages[passage]

    def _enter(self, passage: Passage, factor: float, name: str) -> tuple[float, str]:
        number, is_test = passage
        assert number is not None  # see _passage()
        loop = self.counts.loops[number]
        if loop.trips is not None:
            return factor * (loop.trips + is_test), name
        if not name and not is_test:
            return factor, loop.size
        count = f"({loop.size} + 1)" if is_test else loop.size
        wanted = loop.size.replace("trip", "tests" if is_test else "passes", 1)
        return factor, self._derive(wanted, f"{name} * {count}" if name else count)

    def _derive(self, wanted: str, expression: str) -> str:
        """Name an expression; loops with equal labels in different places get different names."""
        name, number = wanted, 1
        while self.derived.get(name, expression) != expression:
            number += 1
            name = f"{wanted}_{number}"
        self.derived[name] = expression
        return name

    def value(self, amount: Amount) -> float | str:
        """Return an amount as a number, or as an expression."""
        text = self.text(amount)
        is_open = any(self._passage(passage)[1] for passage in amount)
        return text if is_open else float(text)

    def text(self, amount: Amount) -> str:
        """Return an amount as an expression, which may be a number."""
        terms: dict[str, float] = {}
        for passage, number in amount.items():
            factor, name = self._passage(passage)
            terms[name] = terms.get(name, 0.0) + number * factor
        constant = terms.pop("", 0.0)
        parts = [
            name if number == 1 else f"{toml(number)} * {name}"
            for name, number in terms.items()
            if number
        ]
        if constant or not parts:
            parts.append(toml(constant))
        while sum(map(len, parts)) + 3 * len(parts) > LONGEST:
            taken = 1
            while sum(map(len, parts[: taken + 1])) + 3 * taken < LONGEST // 2:
                taken += 1
            name = self._derive(f"part_{len(self.derived)}", " + ".join(parts[:taken]))
            parts = [*parts[taken:], name]
        return " + ".join(parts)


class _Writer:
    def __init__(self, analysis: Analysis, source: str, costs: InstructionCosts | None) -> None:
        self.analysis = analysis
        self.costs = costs
        self.formulas = Formulas(analysis.counts)
        self.top: dict[str, dict[str, Any]] = {"sizes": {}, "parameters": {}}
        self.top["derived"] = self.formulas.derived
        self.is_staged = analysis.how != "none"
        self.tables: list[tuple[str, dict[str, float | str], list[str]]] = []
        target = f"PTX ISA {analysis.version} for {analysis.target}"
        origin = f" of {source}" if source else ""
        self.file = KernelFile(
            analysis.name,
            f"Kernel {analysis.name}, read from {target}",
            f"derived: counted in the PTX{origin}, entry {analysis.name}",
            comments=[f"Written by `sweep ptx`{f' from {source}' if source else ''}."],
        )

    def text(
        self, registers: int | None, grid: tuple[int, ...] | None, dynamic_shared: int | None
    ) -> str:
        """Return the file. The code comes last, but is written first, because it adds names."""
        self.file.comments += self._comments()
        self._code()
        self._loops()
        launch = self._launch(grid)
        resources = self._resources(registers, dynamic_shared)
        for loop in self.analysis.counts.loops:
            if loop.trips is None:
                why = f"one iteration of the loop at {loop.loop.label}: the text does not tell"
                self._assume("sizes", loop.size, 1, why)
        self.file.sources["cache.l2_hit_rate"] = "assumed: PTX does not tell what a cache serves"
        for name in ("sizes", "parameters", "derived"):
            if self.top[name]:
                self.file.table(f"[{name}]", self.top[name])
        self.file.table("[launch]", launch)
        self.file.table("[resources]", resources)
        for table in self.tables:
            self.file.table(*table)
        self.file.table("[cache]", {"l2_hit_rate": 0})
        return self.file.text()

    def _assume(self, table: str, name: str, value: float | list[int], why: str) -> None:
        """Add a size or parameter."""
        self.top[table][name] = value
        self.file.sources[f"{table}.{name}"] = f"assumed: {why}"

    def _comments(self) -> Iterator[str]:
        analysis = self.analysis
        yield ""
        yield "Counts are dynamic, of one thread. Both sides of a branch count in full unless its"
        yield "share was given; instructions under a predicate count as executed."
        for loop in analysis.counts.loops[:MOST_LOOPS]:
            trips = f"open, {loop.size} below"
            if loop.trips is not None:
                how = {"most": "the most that the text allows"}.get(loop.origin, loop.origin)
                trips = f"{toml(loop.trips)} iterations, {how}"
            place = f"{loop.loop.label} (line {loop.loop.line})"
            yield f"Loop at {place}, depth {loop.loop.depth}: {trips}."
        if len(analysis.counts.loops) > MOST_LOOPS:
            yield f"There are {len(analysis.counts.loops)} loops in all."
        yield from (f"Note: {note}." for note in analysis.notes)
        yield from (f"{unknown.remark()}." for unknown in analysis.unknown[:MOST_UNKNOWN])
        if len(analysis.unknown) > MOST_UNKNOWN:
            rest = sum(unknown.count for unknown in analysis.unknown[MOST_UNKNOWN:])
            yield f"{rest} more unknown instructions are counted likewise."
        if self.costs is not None:
            counts, sizes = analysis.counts, analysis.sizes
            tasks = [tasks_of(counts, stage, self.costs, sizes) for stage in analysis.stages]
            proportion = computation_proportion(tasks)
            if not math.isnan(proportion):
                share = f"computation instruction proportion P = {proportion:.4f}"
                yield f"On {self.costs.device}: {share}."

    def _launch(self, grid: tuple[int, ...] | None) -> dict[str, float | str]:
        """Return the launch, and add the sizes and parameters that it needs."""
        block, most = self.analysis.block, self.analysis.max_threads
        threads = "block_size" if block is None else str(math.prod(block))
        if block is None:
            sizes = [n for n in BLOCK_SIZES if n <= (most or BLOCK_SIZES[-1])]
            self._assume("parameters", threads, sizes or [most or 1], "a range to search")
            if most is not None:
                self.file.constraints.append(f"block_size <= {most}")
        if grid is None:
            why = "PTX does not tell how many threads there are"
            self._assume("sizes", "threads", TOTAL_THREADS, why)
        else:
            self._assume("sizes", "grid_blocks", math.prod(grid), _GIVEN)
        blocks = f"ceil(threads / {threads})" if grid is None else "grid_blocks"
        launch: dict[str, float | str] = {"threads_per_block": threads, "blocks": blocks}
        if block is not None:
            launch["threads_per_block"] = math.prod(block)
            if block[1] * block[2] > 1:
                launch |= {"block_x": block[0], "block_y": block[1]}
        return launch

    def _resources(
        self, registers: int | None, dynamic_shared: int | None
    ) -> dict[str, float | str]:
        """Return the resources, and add the sizes that they need."""
        what = "estimate, the most 32-bit registers that are live at once (a 64-bit one is two)"
        source = f"derived: {what}" if registers is None else f"assumed: {_GIVEN}"
        self.file.sources["resources.registers_per_thread"] = source
        count = self.analysis.registers if registers is None else registers
        result: dict[str, float | str] = {"registers_per_thread": count}
        fixed = self.analysis.shared_bytes
        if self.analysis.has_dynamic_shared or dynamic_shared:
            why = f"{_GIVEN if dynamic_shared else 'none'}: the launch sets it"
            self._assume("sizes", "dynamic_shared_bytes", dynamic_shared or 0, why)
            total = f"{fixed} + dynamic_shared_bytes" if fixed else "dynamic_shared_bytes"
            result["shared_memory_bytes"] = total
        elif fixed:
            result["shared_memory_bytes"] = fixed
        return result

    # The code

    def _code(self) -> None:
        names = {"global": 0, "shared": 0}
        loops = _loop_names(self.analysis.counts)
        for number, stage in enumerate(self.analysis.stages, start=1):
            name = f"{_STAGE_NAMES.get(self.analysis.how, '')}_{number}"
            amounts = {
                kind: self.formulas.value(stage.instructions[kind])
                for kind in (*_CLASSES, "barrier")
                if kind in stage.instructions
            }
            barriers = {"barriers": amounts.pop("barrier")} if "barrier" in amounts else {}
            amounts = amounts or {"integer": 0}
            if self.is_staged:
                loop = {"loop": loops[stage.loop]} if stage.loop is not None else {}
                executions = self.formulas.value({stage.passage: stage.share})
                often = {"executions": executions} if executions != 1 else {}
                values = {"name": name, **loop, **often, **amounts, **barriers}
                self.tables.append(("[[stage]]", values, self._costs(stage)))
            else:
                self.tables.append(("[instructions]", amounts, []))
                if barriers:
                    self.tables.append(("[synchronisation]", barriers, []))
            for shape, amount in _simplified(stage.accesses).items():
                names[shape.space] += 1
                access = f"{shape.direction}_{names[shape.space]}"
                self._access(shape, amount, access, name, stage.lines.get(shape, []))

    def _costs(self, stage: Stage) -> list[str]:
        """Return the costs of a stage's tasks as a comment."""
        if self.costs is None:
            return []
        task = tasks_of(self.analysis.counts, stage, self.costs, self.analysis.sizes)
        return [
            f"On {self.costs.device}, in cycles of one execution: computation"
            f" {task.computation:.6g}, memory {task.memory:.6g}."
        ]

    def _access(
        self, shape: Shape, amount: Amount, name: str, stage: str, lines: list[int]
    ) -> None:
        is_global = shape.space == "global"
        comments = []
        if lines:
            places = ", ".join(map(str, lines[:MOST_LINES]))
            more = ", ..." if len(lines) > MOST_LINES else ""
            origin = f" ({shape.origin})" if shape.origin else ""
            comments.append(f"Line{'s' * (len(lines) > 1)} {places}{more} of the PTX{origin}.")
        if shape.assumed:
            comments.append(f"Pattern assumed: {shape.assumed}.")
            path = f"{shape.space}_access.{name}.pattern"
            self.file.sources[path] = f"assumed: {shape.assumed}"
        if shape.words > 1:
            size = f"{shape.words} words of {shape.bytes} bytes"
            comments.append(f"{size} in one instruction, counted each.")
        values: dict[str, float | str] = {"name": name, "kind": shape.direction}
        values["count"] = self.formulas.value(amount)
        if self.is_staged:
            values["stage"] = stage
        if is_global or shape.bytes != 4:
            values["bytes"] = shape.bytes
        if is_global or shape.pattern != "strided" or shape.assumed:
            values["pattern"] = shape.pattern
        if shape.pattern == "affine":
            values |= {"x": shape.x, "y": shape.y} | ({"z": shape.z} if shape.z else {})
        elif shape.pattern == "strided":
            values["stride"] = shape.x
        self.tables.append((f"[[{shape.space}_access]]", values, comments))

    def _loops(self) -> None:
        """Add the loop with most global accesses, as the phases of Wang & Chu."""
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
        values = {"outer": self.formulas.value(outer)}
        if inner:
            total, often = self.formulas.text(inner), self.formulas.text(outer)
            values["inner"] = f"max(1, ({total}) / max(1, {often}))"
        self.tables.append(("[loops]", values, []))

    def _amounts(self, space: str, directions: tuple[str, ...]) -> Iterator[tuple[Passage, float]]:
        """Yield the accesses to one memory by passage."""
        for stage in self.analysis.stages:
            for shape, amount in stage.accesses.items():
                if shape.space == space and shape.direction in directions:
                    yield from amount.items()


def _loop_names(counts: Counts) -> list[str]:
    """Return a name for every loop: its label, numbered if several loops have it."""
    times: dict[str, int] = {}
    names = []
    for loop in counts.loops:
        label = loop.loop.label
        times[label] = times.get(label, 0) + 1
        names.append(label if times[label] == 1 else f"{label} ({times[label]})")
    return names


def _simplified(accesses: Table[Shape]) -> Table[Shape]:
    """Return accesses by shape; if there are very many, strided shapes are merged into one."""
    if len(accesses) <= MOST_SHAPES:
        return accesses
    result: Table[Shape] = Table()
    for shape, amount in accesses.items():
        if shape.space == "global" and shape.pattern in ("strided", "affine"):
            why = "too many different strides"
            shape = shape._replace(pattern="uncoalesced", x=0, y=0, z=0, assumed=why)
        elif shape.space == "shared":
            shape = shape._replace(pattern="strided", x=1, y=0, z=0, assumed="too many strides")
        for passage, number in amount.items():
            result.add(shape, passage, number)
    return result

"""Write one kernel file over the PTX of many configurations, and its table.

What all texts have alike is a number in the file; what varies is a column of the table, by
configuration and compute capability. The code before, in and after each loop is a stage.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweep.cuda.columns import table_of
from sweep.cuda.configurations import FROM_OUTSIDE, Variant
from sweep.cuda.matching import Given
from sweep.errors import SweepError, counted
from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Amount, executed
from sweep.importers.ptx.module import PtxError, capability_of, own_architectures
from sweep.importers.ptx.stages import Stage, added
from sweep.importers.ptx.writer import ESTIMATED, GIVEN, Writer
from sweep.specs.kernel import KernelFile, Value

MOST_NOTES = 20
_UNKNOWN_REUSE = (
    "PTX does not tell which of their blocks' data lies in L2 because others read it too: a kernel",
    "on tiles needs [tile_order], and `reuse` in its loads (sweep ptx --tile-order).",
)


@dataclass(frozen=True)
class Tabulated:
    """A kernel file over many configurations.

    Attributes
    ----------
    text, table : str
        The kernel file, and the table that it names.
    remarks : list of str
        What was found and what was assumed.
    """

    text: str = field(repr=False)
    table: str = field(repr=False)
    remarks: list[str]


def tabulated(
    variants: Sequence[Variant],
    analyses: Sequence[Analysis],
    given: Given,
    *,
    key: str,
    source: str,
    compiler: str = "",
) -> Tabulated:
    """Return one kernel file over many configurations.

    Parameters
    ----------
    variants : sequence of Variant
        The configurations, also those that do not compile.
    analyses : sequence of Analysis
        Those of the variants that compile, in their order.
    given : Given
        What the user says of all.
    key : str
        The file's name without ``.toml``.
    source : str
        Where the texts come from, which the file records.
    compiler : str
        What made them.

    Raises
    ------
    SweepError
        The texts have different numbers of loops, or a name has no value.
    """
    targets = list(dict.fromkeys(a.function.module.target for a in analyses))
    words = f"{counted(len(variants), 'configuration')} for {', '.join(targets)}"
    first = analyses[0].function
    file = KernelFile(
        first.plain_name, f"Kernel {first.plain_name}, read from PTX of {words}",
        f"derived: counted in the PTX of {source}, entry {first.name}",
        [f"Written by sweep from {source}: {words}.", "",
         "Counts are dynamic, of one thread; compiled_... are columns of the table. Both sides",
         "of a branch count in full unless the block's index decides it. Accesses under predicates",
         "leave out threads whose index makes them false; other instructions do not."],
    )  # fmt: skip
    writer = _Writer(variants, analyses, given, file)
    writer.threads_and_blocks()
    writer.columns_from_outside()
    writer.code()
    writer.spills()
    writer.parallelism()
    writer.matrix()
    writer.reuse()
    file.table("[compiled]", {"table": f"{key}.compiled.csv"})
    writer.constraints(targets)
    remarks = writer.remarks(targets)
    modules = [analysis.function.module for analysis in analyses]
    failed = len(variants) - len(analyses)
    table = table_of(
        writer.formulas.columns,
        variants,
        [capability_of(module.target) for module in modules],
        {
            "compiler": compiler or f"a compiler of PTX ISA {modules[0].version}",
            "source": source,
            "variants": counted(len(variants), "configuration")
            + (f", {failed:,} of them do not compile" if failed else ""),
        },
    )
    return Tabulated(file.text(table), table, remarks)


class _Writer(Writer):
    loop_names = {}  # which differ

    def __init__(
        self,
        variants: Sequence[Variant],
        analyses: Sequence[Analysis],
        given: Given,
        file: KernelFile,
    ) -> None:
        super().__init__(analyses, file)
        self.variants, self.given, self.tile_order = variants, given, given.tile_order
        self.has_products = any(analysis.products() for analysis in analyses)
        self.good = [variant for variant in variants if not variant.reason]
        first = variants[0].configuration
        given.check_names(first)
        for name, size in given.sizes.items():
            self.assume("sizes", name, size, GIVEN)
        found = {name: {variant.configuration[name] for variant in variants} for name in first}
        self.n_combinations = math.prod(map(len, found.values()))
        for name, values in found.items():
            in_order = sorted(values, key=lambda value: (str(type(value)), value))
            self.tables["parameters"][name] = in_order
        self._name_loops()
        self.parts = [list(_parts_of(analysis)) for analysis in analyses]
        self._check_loops()
        n_parts = len(self.parts[0])
        self.names = {1: ("",), 3: ("before", "loop", "after")}.get(n_parts) or [
            f"loop_{i // 2 + 1}" if i % 2 else f"part_{i // 2 + 1}" for i in range(n_parts)
        ]

    def _name_loops(self) -> None:
        """Give loops of the same trip count the same name."""
        names: dict[str, str] = {}
        for loop in (x for a in self.analyses for x in a.graph.loops if x.formula):
            number = f"_{len(names) + 1}" if names else ""
            loop.size = names.setdefault(loop.formula, f"trips{number}")
        self.tables["derived"] |= {name: text for text, name in names.items()}

    def _check_loops(self) -> None:
        n_parts = [len(parts) for parts in self.parts]
        for variant, n in zip(self.good, n_parts, strict=True):
            if n != n_parts[0]:
                raise SweepError(
                    f"{self.good[0].name} has {n_parts[0] // 2} loops with memory accesses or of"
                    f" unknown length, {variant.name} has {n // 2}: --stages none counts the totals"
                    " of each, or give files with equal loops"
                )

    def threads_and_blocks(self) -> None:
        """Fill in the launch."""
        sides, grid = self.given.block, self.given.grid
        threads = [math.prod(analysis.block or (1,)) for analysis in self.analyses]
        warps = [variant.configuration.get("num_warps") for variant in self.good]
        if sides is not None and any(isinstance(side, str) for side in sides):
            known: Value = _product(sides)
        elif threads == [32 * n if isinstance(n, float) else None for n in warps]:
            known = "32 * num_warps"
        else:
            known = self.formulas.number("threads", threads)
        self.launch(known, None if grid is None else _product(grid), sides)

    def columns_from_outside(self) -> None:
        """Fill in registers and shared memory, and add the columns that PTX does not tell."""
        columns = self.formulas.columns
        for name in FROM_OUTSIDE:
            known = [name in variant.found for variant in self.good]
            if any(known) and not all(known):
                lacks = self.good[known.index(False)].name
                raise SweepError(
                    f"{lacks}: has no {name}, which {self.good[known.index(True)].name} has"
                )
            if all(known):
                columns[name] = [variant.found[name] for variant in self.good]
        if "registers" not in columns:
            columns["registers"] = [float(a.registers) for a in self.analyses]
            self.file.sources["resources.registers_per_thread"] = ESTIMATED
        if "shared_bytes" not in columns:
            columns["shared_bytes"] = [float(a.shared_bytes) for a in self.analyses]
        is_added = any(a.has_dynamic_shared for a in self.analyses) and not self.good[0].found
        dynamic = 0 if is_added else None
        self.resources("max(1, compiled_registers)", "compiled_shared_bytes", dynamic)

    def accesses_of(self, stage: Stage) -> Mapping[Hashable, tuple[Shape, Amount]]:
        """Return a stage's accesses by what they share with those of other texts.

        What differs in transactions and hits only is one access, in the mean.
        """
        merged: dict[tuple[Shape, int, int, int], list[tuple[Shape, Amount]]] = {}
        for shape, amount in stage.of(Shape).items():
            pattern = "measured" if shape.transactions else shape.pattern
            common = shape._replace(
                words=1, pattern=pattern, x=0, y=0, z=0, assumed="", transactions=0, hits=0
            )
            merged.setdefault((common, shape.x, shape.y, shape.z), []).append((shape, amount))
        numbers: Counter[Shape] = Counter()
        result: dict[Hashable, tuple[Shape, Amount]] = {}
        for (common, *_), found in merged.items():
            numbers[common] += 1
            weights = [executed(amount, {}) for _, amount in found]
            first, mean = found[0][0], {}
            for name in ("transactions", "hits") if sum(weights) else ():
                own = (getattr(one, name) * n for (one, _), n in zip(found, weights, strict=True))
                mean[name] = sum(own) / sum(weights)
            amount = added(("", amount) for _, amount in found)[""]
            result[common, numbers[common]] = first._replace(**mean), amount
        return result

    def entries(
        self, values: dict[str, Value], shape: Shape, stage: Stage
    ) -> Sequence[dict[str, Value]]:
        """Return the tables of an access: two of one that loads tiles of rows and columns."""
        is_tile = (shape.space, shape.direction) == ("global", "load")
        is_tile &= shape.origin not in ("atomic", "local memory")
        if not (self.tile_order and is_tile and (stage.loop or shape.is_copy)):
            return [values]
        return [
            {**values, "name": f"{values['name']}_{side}", "reuse": side,
             "count": f"({values['count']}) * share_of_{side}"}
            for side in ("row", "column")
        ]  # fmt: skip

    def spills(self) -> None:
        """Add spills in the largest loop; without stages the table adds them."""
        spilled = [name for name in FROM_OUTSIDE if name.startswith("spill")]
        columns = self.formulas.columns
        # The instructions of each loop, once each inner loop of unknown length.
        loops = [
            (sum(executed(n, {}) for stage in stages for n in stage.of(str).values()), name, stages)
            for name, *stages in zip(self.names, *self.parts, strict=True)
            if stages[0].loop
        ]
        if not all(any(columns.get(name, ())) for name in spilled):
            for name in spilled:
                columns.pop(name, None)
        elif loops:
            _, name, stages = max(loops, key=lambda loop: loop[:2])
            often = self.executions(name, stages)
            for column in spilled:
                kind = column.split("_")[1]
                rate = {"l1_hit_rate": "compiled_l1_hit_rate"} if kind == "load" else {}
                self.file.table("[[global_access]]", {
                    "name": f"spilled_{kind}s", "kind": kind, "stage": name,
                    "count": f"({often}) * compiled_{column} / 4", "bytes": 4,
                    "pattern": "coalesced", "memory": "local", **rate,
                    "l2_hit_rate": "compiled_l2_hit_rate",
                })  # fmt: skip
                why = "what is spilled is spilled in the largest loop, in every iteration"
                self.file.sources[f"global_access.spilled_{kind}s"] = f"assumed: {why}"

    def reuse(self) -> None:
        """Add the share of accesses that L2 serves, from the order of tiles or from addresses."""
        if self.tile_order:
            self.file.table("[tile_order]", dict(self.tile_order))
            if not {"row_bytes", "column_bytes"} <= self.tile_order.keys():
                raise PtxError("--tile-order: row_bytes and column_bytes are needed, what a block"
                               " reads of its row's and of its column's factor")  # fmt: skip
            row, column = self.tile_order["row_bytes"], self.tile_order["column_bytes"]
            self.tables["derived"]["share_of_row"] = f"({row}) / (({row}) + ({column}))"
            self.tables["derived"]["share_of_column"] = "1 - share_of_row"
            self.file.sources["tile_order"] = f"assumed: {GIVEN}"
            return
        sides = list(map(str, self.given.grid)) if self.given.grid else None
        self.cache(sides, _UNKNOWN_REUSE if self.has_products else ())

    def constraints(self, targets: Sequence[str]) -> None:
        """Add what is valid: configurations that compile, on GPUs that run their code."""
        listed = {tuple(variant.configuration.items()) for variant in self.variants}
        if len(listed) < self.n_combinations:
            self.file.constraints.append("compiled_listed == 1")
        self.file.constraints.append("compiled == 1")
        if self.is_new():
            self.file.constraints += own_architectures(targets)

    def remarks(self, targets: Sequence[str]) -> list[str]:
        """Return what was found and what was assumed, which the file says too."""
        failed = [variant for variant in self.variants if variant.reason]
        names = ", ".join(self.variants[0].configuration)
        lines = [f"{counted(len(self.good), 'configuration')} of {names} for {', '.join(targets)}"]
        if failed:
            some = f"{failed[0].name}: {failed[0].reason}"
            lines.append(f"{len(failed)} do not compile, such as {some}")
        if "registers" not in self.good[0].found:
            lines.append("registers are estimated, spills unknown: the index has no such columns")
        if "dynamic_shared_bytes" in self.tables["sizes"]:
            lines.append("the launch adds shared memory, here none: give shared_bytes in the index")
        if self.given.grid is None:
            lines.append("the grid is not known, here 2**20 threads: --grid takes expressions")
        if self.has_products and not (self.tile_order or self.shares_tiles):
            lines.append(
                "all tiles are taken to come from DRAM: --tile-order says which of them L2 serves"
            )
        told = ("--grid", "--argument") if self.tile_order else ("--grid",)
        notes = Counter(note for a in self.analyses for note in (
            *(one.remark() for one in a.unknown), *a.notes)
            if not any(option in note for option in told))  # fmt: skip
        derived = self.tables["derived"].items()
        lines += [f"loops repeat {text} times: {name}" for name, text in derived
                  if re.fullmatch(r"trips(_\d+)?", name)]  # fmt: skip
        shown = [f"{note} ({counted(n, 'file')})" for note, n in notes.most_common(MOST_NOTES)]
        self.file.comments += ["", *(f"{line}." for line in (*lines, *shown))]
        return lines + shown[:3]


def _product(sides: Sequence[int | str]) -> str:
    """Return the product of sides as an expression."""
    return " * ".join(f"({side})" for side in sides if side != 1) or "1"


def _parts_of(analysis: Analysis) -> Iterator[Stage]:
    """Yield the code before the first loop, the loop, the code after it, and so on."""
    part = Stage(None, (None, False), share=1.0)
    for stage in analysis.stages:
        if stage.loop is None:
            part.absorb(stage)
        else:
            yield from (part, stage)
            part = Stage(None, (None, False), share=1.0)
    yield part

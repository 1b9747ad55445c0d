"""Write one kernel file over the PTX of many configurations, and its table.

What all texts have alike is a number in the file; what varies is a column of the table, by
configuration and compute capability. The code before, in and after each loop is a stage.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep.cuda.configurations import FROM_OUTSIDE, Variant
from sweep.cuda.frame import Frame
from sweep.cuda.matching import Given, number_of
from sweep.cuda.parts import accesses_of, multiply_adds_of, weight_of
from sweep.errors import counted
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.footprint import footprint_of, hits
from sweep.importers.ptx.kernel_file import NO_WAIT, loads_of, stored_bytes
from sweep.importers.ptx.module import PtxError, capability_of
from sweep.importers.ptx.stages import Stage
from sweep.specs.formats import INSTRUCTION_CLASSES, MATRIX_TYPES
from sweep.specs.kernel import Value

MOST_NOTES = 20
_GIVEN = "given when the PTX was read"
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
    return _Writer(variants, analyses, given, source, compiler).written(key)


class _Writer(Frame):
    """Adds the code to the frame."""

    def written(self, key: str) -> Tabulated:
        """Return the file and its table."""
        launch: dict[str, Value] = {}
        resources: dict[str, Value] = {}
        parameters = {name: self._values(name) for name in self.variants[0].configuration}
        for header, values in (("sizes", self.sizes), ("parameters", parameters),
                               ("derived", self.derived), ("launch", launch),
                               ("resources", resources)):  # fmt: skip
            self.file.table(f"[{header}]", values)
        self.launch(launch)
        self.resources(resources)
        self._code()
        self._matrix()
        self._cache(launch)
        self.file.table("[compiled]", {"table": f"{key}.compiled.csv"})
        self.constraints(parameters)
        remarks = self._remarks()
        modules = [analysis.function.module for analysis in self.analyses]
        failed = len(self.variants) - len(self.good)
        table = self.columns.table(
            self.variants,
            [capability_of(module.target) for module in modules],
            {
                "compiler": self.compiler or f"a compiler of PTX ISA {modules[0].version}",
                "source": self.source,
                "variants": counted(len(self.variants), "configuration")
                + (f", {failed:,} of them do not compile" if failed else ""),
            },
        )
        return Tabulated(self.file.text(table), table, remarks)

    def _values(self, name: str) -> Any:
        found = {variant.configuration[name] for variant in self.variants}
        return sorted(found, key=lambda value: (str(type(value)), value))

    def _code(self) -> None:
        """Add stages, or totals where no loop matters."""
        n_parts = len(self.parts[0])
        names = {1: ("",), 3: ("before", "loop", "after")}.get(n_parts) or [
            f"loop_{i // 2 + 1}" if i % 2 else f"part_{i // 2 + 1}" for i in range(n_parts)
        ]
        weights = []
        for place, name in enumerate(names):
            parts = [parts[place] for parts in self.parts]
            found = [part.of(str) for part in parts]
            prefix = f"{name}_" if name else ""
            counts = {
                kind: self.amount(f"{prefix}{kind}", [own.get(kind, {}) for own in found])
                for kind in (*INSTRUCTION_CLASSES, "barrier")
                if any(kind in own for own in found)
            }
            barriers = {"barriers": counts.pop("barrier")} if "barrier" in counts else {}
            if not name:
                self.file.table("[instructions]", counts or {"integer": 0})
                self.file.table("[synchronisation]", barriers)
            elif any(part.counts for part in parts):
                often = self.amount(
                    f"{name}_executions", [{part.passage: part.share or 1.0} for part in parts]
                )
                buffers = [p.pipeline.buffers if p.pipeline else 0.0 for p in parts]
                ahead = self.columns.value(f"{name}_buffers", [{"": n} for n in buffers])
                stage: dict[str, Value] = {"name": name}
                if often != 1:
                    stage["executions"] = often
                stage |= counts or {"integer": 0}
                stage |= barriers
                if ahead:
                    stage["buffers"] = ahead
                self.file.table("[[stage]]", stage)
                if place % 2:
                    weights.append((sum(map(weight_of, parts)), name, often))
            self._accesses(name, prefix, parts, in_loop=bool(place % 2))
        self._spills(max(weights) if weights else None)
        self._parallelism()

    def _accesses(self, name: str, prefix: str, parts: Sequence[Stage], *, in_loop: bool) -> None:
        own = [dict(accesses_of(part)) for part in parts]
        taken: Counter[str] = Counter()
        for access in dict.fromkeys(key for found in own for key in found):
            taken[access.direction] += 1
            called = f"{prefix}{access.direction}_{taken[access.direction]}"
            amounts = [found[access][1] if access in found else {} for found in own]
            shapes = [found[access][0] if access in found else None for found in own]
            some = next(shape for shape in shapes if shape is not None)
            count = self.amount(called, amounts)
            values: dict[str, Value] = {"name": called, "kind": access.direction, "count": count}
            if name:
                values["stage"] = name
            values |= {"bytes": access.bytes, "pattern": access.pattern}
            wanted = {"measured": {"transactions": "transactions"}, "strided": {"stride": "x"},
                      "affine": {"x": "x", "y": "y", "z": "z"}}  # fmt: skip
            for item, attribute in wanted.get(access.pattern, {}).items():
                numbers = [{"": float(getattr(shape or some, attribute))} for shape in shapes]
                values[item] = self.columns.value(f"{called}_{item}", numbers)
            comments = [access.origin] * bool(access.origin)
            is_tile = (access.space, access.direction) == ("global", "load")
            is_tile &= access.origin not in ("atomic", "local memory")
            entries = [values]
            if self.tile_order and is_tile and (in_loop or access.is_copy):
                entries = [
                    {**values, "name": f"{called}_{side}", "reuse": side,
                     "count": f"({count}) * share_of_{side}"}
                    for side in ("row", "column")
                ]  # fmt: skip
            assumed = next((s.assumed for s in shapes if s and s.assumed), "")
            for entry in entries:
                self.file.table(f"[[{access.space}_access]]", entry, comments)
                if assumed:
                    path = f"{access.space}_access.{entry['name']}.pattern"
                    self.file.sources[path] = f"assumed: {assumed}"

    def _spills(self, loop: tuple[float, str, Value] | None) -> None:
        """Add spills in the largest loop; without stages the table adds them."""
        spilled = [name for name in FROM_OUTSIDE if name.startswith("spill")]
        if not all(any(self.columns.get(name, ())) for name in spilled):
            for name in spilled:
                self.columns.pop(name, None)
        elif loop is not None:
            _, name, often = loop
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

    def _parallelism(self) -> None:
        """Add the loads from shared memory that a copying loop can issue back to back."""
        loads = [max(map(loads_of, analysis.stages)) for analysis in self.analyses]
        if any(n > 1 for n in loads):
            number = self.columns.value("parallel", [{"": max(1.0, n)} for n in loads])
            self.file.table("[parallelism]", {"instruction": number})
            self.file.sources["parallelism.instruction"] = f"assumed: {NO_WAIT}"

    def _matrix(self) -> None:
        """Add the multiply-adds of a matrix instruction, by type: their mean over the code."""
        means = []
        for variant, analysis in zip(self.good, self.analyses, strict=True):
            names = {**self.given.sizes, **variant.configuration}
            formulas = {x.size: x.formula for x in analysis.graph.loops if x.formula}
            sizes = {size: number_of(formula, names) for size, formula in formulas.items()}
            means.append(multiply_adds_of(analysis, sizes))
        kinds = [k for k in (*MATRIX_TYPES, "single_warp") if any(mean.get(k) for mean in means)]
        values = {}
        for kind in kinds:
            numbers = [{"": mean.get(kind, 0.0)} for mean in means]
            values[kind] = self.columns.value(f"{kind}_multiply_adds", numbers)
        self.file.table("[matrix]", values)

    def _cache(self, launch: Mapping[str, Value]) -> None:
        """Add the share of accesses that L2 serves, from the order of tiles or from addresses."""
        if self.tile_order:
            self.file.table("[tile_order]", {k: v for k, v in self.tile_order.items()})
            if not {"row_bytes", "column_bytes"} <= self.tile_order.keys():
                raise PtxError("--tile-order: row_bytes and column_bytes are needed, what a block"
                               " reads of its row's and of its column's factor")  # fmt: skip
            row, column = self.tile_order["row_bytes"], self.tile_order["column_bytes"]
            self.derived["share_of_row"] = f"({row}) / (({row}) + ({column}))"
            self.derived["share_of_column"] = "1 - share_of_row"
            self.file.sources["tile_order"] = f"assumed: {_GIVEN}"
            return
        grids = [
            tuple(int(number_of(str(side), {**self.given.sizes, **variant.configuration}))
                  for side in self.given.grid) if self.given.grid else None
            for variant in self.good
        ]  # fmt: skip
        found = [footprint_of(a.reads, grid) for a, grid in zip(self.analyses, grids, strict=True)]
        rate: Value = 0
        why = "no word is read twice, as far as the addresses and the given grid tell"
        if not all(own.is_read_once for own in found):
            has_common = any(own.common for own in found)
            for name in ("read", "distinct", *(["common"] * has_common)):
                text = self.amount(f"{name}_bytes", [getattr(own, name) for own in found])
                self.derived[f"{name}_bytes"] = str(text)
            stored = self.amount("stored_bytes", [stored_bytes(a) for a in self.analyses])
            threads = f"({launch['threads_per_block']})"
            rate = hits(has_common, str(stored), threads, f"({launch['blocks']})")
            why = "what blocks read again is in L2 if all that they read fits"
        self.file.sources["cache.l2_hit_rate"] = f"assumed: {why}"
        self.file.table("[cache]", {"l2_hit_rate": rate}, _UNKNOWN_REUSE)

    def _remarks(self) -> list[str]:
        failed = [variant for variant in self.variants if variant.reason]
        names = f"{', '.join(self.variants[0].configuration)} for {', '.join(self.targets)}"
        lines = [f"{counted(len(self.good), 'configuration')} of {names}"]
        if failed:
            some = f"{failed[0].name}: {failed[0].reason}"
            lines.append(f"{len(failed)} do not compile, such as {some}")
        if "registers" not in self.good[0].found:
            lines.append("registers are estimated, spills unknown: the index has no such columns")
        if "dynamic_shared_bytes" in self.sizes:
            lines.append("the launch adds shared memory, here none: give shared_bytes in the index")
        if self.given.grid is None:
            lines.append("the grid is not known, here 2**20 threads: --grid takes expressions")
        if not self.tile_order:
            lines.append(
                "reuse of tiles in L2 is not in PTX: --tile-order, or [tile_order] in the file"
            )
        notes = Counter(note for a in self.analyses for note in (
            *(one.remark() for one in a.unknown), *a.notes) if "--grid" not in note)  # fmt: skip
        trips = [f"loops repeat {text} times: {name}" for name, text in self.derived.items()
                 if re.fullmatch(r"trips(_\d+)?", name)]  # fmt: skip
        lines += trips
        shown = [f"{note} ({counted(n, 'file')})" for note, n in notes.most_common(MOST_NOTES)]
        self.file.comments += ["", *(f"{line}." for line in (*lines, *shown))]
        return lines + shown[:3]

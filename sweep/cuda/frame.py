"""What a kernel file over many configurations says beside its code: the launch, the resources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sweep.cuda.columns import Columns
from sweep.cuda.configurations import FROM_OUTSIDE, Variant
from sweep.cuda.matching import Given
from sweep.cuda.parts import parts_of
from sweep.errors import SweepError, counted
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Amount
from sweep.importers.ptx.formulas import Formulas
from sweep.importers.ptx.kernel_file import TOTAL_THREADS
from sweep.importers.ptx.module import own_architectures
from sweep.specs.kernel import KernelFile, Value

_GIVEN = "given when the PTX was read"


class Frame:
    """A kernel file over many configurations, without its code.

    Parameters are those of :func:`sweep.cuda.tabulated.tabulated`.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        analyses: Sequence[Analysis],
        given: Given,
        source: str,
        compiler: str,
    ) -> None:
        self.variants = variants
        self.good = [variant for variant in variants if not variant.reason]
        self.analyses, self.given, self.tile_order = analyses, given, given.tile_order
        self.source, self.compiler = source, compiler
        self.columns = Columns()
        self.derived: dict[str, Value] = {}
        self.sizes: dict[str, Value] = dict(given.sizes)
        first = analyses[0].function
        self.targets = list(dict.fromkeys(a.function.module.target for a in analyses))
        words = f"{counted(len(variants), 'configuration')} for {', '.join(self.targets)}"
        self.file = KernelFile(
            first.plain_name, f"Kernel {first.plain_name}, read from PTX of {words}",
            f"derived: counted in the PTX of {source}, entry {first.name}",
            [f"Written by sweep from {source}: {words}.", "",
             "Counts are dynamic, of one thread; compiled_... are columns of the table. Both sides",
             "of a branch count in full; instructions under a predicate count as executed."],
        )  # fmt: skip
        given.check_names(variants[0].configuration)
        for name in given.sizes:
            self.file.sources[f"sizes.{name}"] = f"assumed: {_GIVEN}"
        self._name_loops()
        self.formulas = [Formulas(self.derived) for _ in analyses]
        self.parts = [list(parts_of(analysis)) for analysis in analyses]
        self._check_loops()

    def _name_loops(self) -> None:
        """Give loops of the same trip count the same name."""
        names: dict[str, str] = {}
        for loop in (x for a in self.analyses for x in a.graph.loops if x.formula):
            number = f"_{len(names) + 1}" if names else ""
            loop.size = names.setdefault(loop.formula, f"trips{number}")
        self.derived |= {name: text for text, name in names.items()}

    def _check_loops(self) -> None:
        n_parts = [len(parts) for parts in self.parts]
        for variant, n in zip(self.good, n_parts, strict=True):
            if n != n_parts[0]:
                raise SweepError(
                    f"{self.good[0].name} has {n_parts[0] // 2} loops with memory accesses or of"
                    f" unknown length, {variant.name} has {n // 2}: --stages none counts the totals"
                    " of each, or give files with equal loops"
                )

    def amount(self, wanted: str, amounts: Sequence[Amount]) -> Value:
        """Return how often something is executed."""
        terms = [f.terms(amount) for f, amount in zip(self.formulas, amounts, strict=True)]
        is_less = any(n < 0 for own in terms for n in own.values())
        if is_less and all(len(own) <= 2 and sum(own.values()) == 0 for own in terms):
            # The first copies start before the loop.
            terms = [{f"max(0, {k} - 1)": n for k, n in own.items() if k} for own in terms]
            is_less = False
        found = self.columns.value(wanted, terms)
        return f"max(0, {found})" if is_less and isinstance(found, str) else found

    def launch(self, launch: dict[str, Value]) -> None:
        """Fill in the launch."""
        blocks = [analysis.block or (1, 1, 1) for analysis in self.analyses]
        threads = [math.prod(block) for block in blocks]
        warps = [variant.configuration.get("num_warps") for variant in self.good]
        given = self.given.block
        if given is not None and any(isinstance(side, str) for side in given):
            text = [" * ".join(f"({side})" for side in given if side != 1)]
            launch["threads_per_block"] = text[0]
        elif threads == [32 * n if isinstance(n, float) else None for n in warps]:
            launch["threads_per_block"] = "32 * num_warps"
        else:
            launch["threads_per_block"] = self.columns.value("threads", [{"": n} for n in threads])
        if self.given.grid is None:
            self.sizes["threads"] = TOTAL_THREADS
            why = "PTX does not tell how many threads there are"
            self.file.sources["sizes.threads"] = f"assumed: {why}"
            launch["blocks"] = f"ceil(threads / ({launch['threads_per_block']}))"
        else:
            sides = [str(side) for side in self.given.grid if side != 1] or ["1"]
            launch["blocks"] = " * ".join(f"({side})" for side in sides)
        if any(y * z > 1 for _, y, z in blocks):
            for place, name in enumerate(("block_x", "block_y")):
                sides_of_all = [{"": block[place]} for block in blocks]
                text_or_number = given[place] if given is not None else 0
                launch[name] = text_or_number or self.columns.value(name, sides_of_all)

    def resources(self, resources: dict[str, Value]) -> None:
        """Fill in registers and shared memory."""
        for name in FROM_OUTSIDE:
            known = [name in variant.found for variant in self.good]
            if any(known) and not all(known):
                lacks = self.good[known.index(False)].name
                raise SweepError(
                    f"{lacks}: has no {name}, which {self.good[known.index(True)].name} has"
                )
            if all(known):
                self.columns[name] = [variant.found[name] for variant in self.good]
        if "registers" not in self.columns:
            self.columns["registers"] = [float(a.registers) for a in self.analyses]
            how = "estimate, the most 32-bit registers that are live at once (a 64-bit one is two)"
            self.file.sources["resources.registers_per_thread"] = f"derived: {how}"
        resources["registers_per_thread"] = "max(1, compiled_registers)"
        if "shared_bytes" not in self.columns:
            self.columns["shared_bytes"] = [float(a.shared_bytes) for a in self.analyses]
        shared = "compiled_shared_bytes"
        if any(a.has_dynamic_shared for a in self.analyses) and not self.good[0].found:
            self.sizes["dynamic_shared_bytes"] = 0
            self.file.sources["sizes.dynamic_shared_bytes"] = "assumed: none: the launch sets it"
            shared = f"{shared} + dynamic_shared_bytes"
        resources["shared_memory_bytes"] = shared
        numbers = [{"": float(a.tensor_columns)} for a in self.analyses]
        if columns := self.columns.value("tensor_columns", numbers):
            resources["tensor_memory_columns"] = columns

    def constraints(self, parameters: Mapping[str, Any]) -> None:
        """Add what is valid: configurations that compile, on GPUs that run their code."""
        listed = {tuple(variant.configuration.items()) for variant in self.variants}
        if len(listed) < math.prod(map(len, parameters.values())):
            self.file.constraints.append("compiled_listed == 1")
        self.file.constraints.append("compiled == 1")
        if any(analysis.products() for analysis in self.analyses):
            self.file.constraints += own_architectures(self.targets)

"""From a search space to the files of a sweep: a kernel file to be completed, and a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweep.errors import SpecError, TuningError
from sweep.expressions import Expression, ExpressionError
from sweep.importers.tuners.measurements import Value
from sweep.importers.tuners.search_space import SearchSpace
from sweep.specs import parse_kernel
from sweep.specs.writing import key_of, plain, quoted

__all__ = ["kernel_text", "plan_text"]

AXES = "XYZ"
OPERATIONS = {"fp32": 2, "integer": 4}
"""Instructions for an element, to begin with."""

BLOCK = 256
"""Threads of a block where the file does not tell."""


def kernel_text(space: SearchSpace, *, source: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a kernel file with all that a search space tells.

    Counts of instructions and accesses, and registers, are not in such a file: assumed values, to
    be replaced, make it a kernel that loads and stores a word for each element of the problem.

    Parameters
    ----------
    space : SearchSpace
        The search space.
    source : str
        The name of its file, for the record.

    Returns
    -------
    text : str
        The file, which :func:`sweep.specs.parse_kernel` accepts.
    notes : tuple of str
        What the search space says that could not be taken over.

    Raises
    ------
    TuningError
        A parameter has a name or values that a kernel file cannot have.
    """
    writer = _Writer(space, source)
    text = "\n".join(writer.lines()) + "\n"
    try:
        parse_kernel(text, key_of(space.name))
    except SpecError as error:
        raise TuningError(f"{source or space.name}: no kernel file can be made: {error}") from None
    return text, tuple(writer.notes)


class _Writer:
    def __init__(self, space: SearchSpace, source: str) -> None:
        self.space = space
        self.source = source
        self.notes: list[str] = []
        self.elements = "1"
        self.sources: dict[str, str] = {}
        given = space.specification.get("ProblemSize")
        numbers = [given] if isinstance(given, (int, float)) else given
        usable = isinstance(numbers, list) and all(
            isinstance(n, (int, float)) and not isinstance(n, bool) and n > 0 for n in numbers
        )
        self.sizes: dict[str, float] = {}
        if usable and numbers:
            self.sizes = {
                f"problem_size_{axis.lower()}": n for axis, n in zip(AXES, numbers, strict=False)
            }
        self.names = {*space.parameters, *self.sizes}

    def lines(self) -> Iterator[str]:
        """Yield the file; the launch first, since it says what is assumed."""
        launch = [
            f"threads_per_block = {quoted(self._threads())}",
            f"blocks = {quoted(self._blocks())}",
        ]
        work = self._work(launch)
        shared = self._shared_memory()
        name = quoted(self.space.name)
        origin = f" of {plain(self.source)}" if self.source else ""
        yield f"# Search space{origin}, taken over by `sweep import`."
        yield "# Counts and registers are not in it: replace what is marked 'assumed' below, by"
        yield "# hand or with what `sweep ptx` or `sweep profile` tells (`sweep show --keys kernel`"
        yield "# lists all keys). Until then it loads and stores a word for each element."
        yield "schema = 1"
        yield f"name = {name}"
        language = self.space.specification.get("Language") or ""
        file = self.space.specification.get("KernelFile") or ""
        told = " ".join(str(word) for word in (language, "kernel", file) if word)
        yield f"description = {quoted(f'{told}: tuning parameters and conditions only')}"
        yield "constraints = ["
        yield from (f"  {quoted(c.text)}," for c in self.space.conditions)
        yield "]"
        yield ""
        yield "[source]"
        yield f"default = {quoted(f'derived: the search space{origin}')}"
        self.sources["resources.registers_per_thread"] = "assumed: not in the search space"
        self.sources["instructions"] = "assumed: not in the search space, to be counted"
        self.sources["global_access"] = "assumed: not in the search space, to be counted"
        yield from (f'"{path}" = {quoted(text)}' for path, text in self.sources.items())
        if self.sizes:
            yield from ("", "[sizes]", *(f"{n} = {v}" for n, v in self.sizes.items()))
        yield from ("", "[parameters]")
        for parameter, values in self.space.parameters.items():
            yield f"{parameter} = {json.dumps(list(values), ensure_ascii=False)}"
        yield from ("", "[derived]", "# Elements of the problem for a thread, the mean over all.")
        yield f"{work} = {quoted(self.elements)}"
        yield from ("", "[launch]", *launch)
        yield from ("", "[resources]", "registers_per_thread = 32")
        yield f"shared_memory_bytes = {quoted(shared)}"
        yield from ("", "[instructions] # of a thread, over its whole run")
        yield from (f"{kind} = {quoted(f'{n} * {work}')}" for kind, n in OPERATIONS.items())
        yield "control = 1"
        for name, kind in (("input", "load"), ("output", "store")):
            yield from ("", "[[global_access]]", f'name = "{name}"', f'kind = "{kind}"')
            yield from (f'count = "{work}"', "bytes = 4", 'pattern = "coalesced"')

    def _work(self, launch: Sequence[str]) -> str:
        """Return the name of what a thread works at, and note how many that are."""
        given = {line.split(" = ")[0]: line.split(" = ", 1)[1].strip('"') for line in launch}
        threads, blocks = (f"({given[key]})" for key in ("threads_per_block", "blocks"))
        self.elements = "1"
        if self.sizes and not {"launch.threads_per_block", "launch.blocks"} & set(self.sources):
            self.elements = f"{' * '.join(self.sizes)} / ({threads} * {blocks})"
        return next(n for n in ("elements", "elements_", "work_items") if n not in self.names)

    def _readable(self, text: Any) -> str:
        """Return an expression in one line if the kernel file can read it, else ``""``."""
        plain = " ".join(str(text).split())
        try:
            Expression.parse(plain, allowed=self.names)
        except ExpressionError:
            return ""
        return plain

    def _threads(self) -> str:
        """Return the threads of a block: the product of LocalSize."""
        local = self.space.specification.get("LocalSize")
        if not isinstance(local, Mapping):
            local = {
                axis: f"block_size_{axis.lower()}"
                for axis in AXES
                if f"block_size_{axis.lower()}" in self.names
            }  # Kernel Tuner's own names
        factors = [self._readable(local[axis]) for axis in AXES if axis in local]
        if factors and all(factors):
            return _product(factors)
        if local:
            self.notes.append(
                f"LocalSize ({', '.join(map(str, local.values()))}) names what is no parameter"
            )
        self.sources["launch.threads_per_block"] = "assumed: not in the search space"
        return str(BLOCK)

    def _blocks(self) -> str:
        """Return the blocks of the grid: the problem size over the grid's divisors."""
        specification = self.space.specification
        factors = []
        for axis, size in zip(AXES, self.sizes, strict=False):
            divisors = specification.get(f"GridDiv{axis}")
            if divisors is None:
                continue
            listed = divisors if isinstance(divisors, list) else [divisors]
            readable = [self._readable(divisor) for divisor in listed]
            if not all(readable):
                self.notes.append(f"GridDiv{axis} ({listed}) cannot be read")
                return self._assumed_blocks()
            factors.append(f"ceil({size} / {_product(readable, True)})" if readable else size)
        return _product(factors) if factors else self._global_size()

    def _global_size(self) -> str:
        """Return the blocks by GlobalSize: blocks in CUDA's counting, threads in OpenCL's."""
        specification = self.space.specification
        given = specification.get("GlobalSize")
        if not isinstance(given, Mapping) or specification.get("GlobalSizeType") != "CUDA":
            return self._assumed_blocks()
        factors = [self._readable(given[axis]) for axis in AXES if axis in given]
        return _product(factors) if factors and all(factors) else self._assumed_blocks()

    def _assumed_blocks(self) -> str:
        self.sources["launch.blocks"] = "assumed: not in the search space"
        return "1024"

    def _shared_memory(self) -> str:
        given = self.space.specification.get("SharedMemory") or 0
        return self._readable(given) or "0"


def _product(factors: Sequence[str], enclosed: bool = False) -> str:
    kept = [factor for factor in factors if factor != "1"] or ["1"]
    if len(kept) == 1:
        return kept[0] if kept[0].isidentifier() or not enclosed else f"({kept[0]})"
    text = " * ".join(f if f.isidentifier() or f.startswith("ceil(") else f"({f})" for f in kept)
    return f"({text})" if enclosed else text


def plan_text(
    space: SearchSpace, *, kernel: str, devices: Sequence[str], models: Sequence[str]
) -> str:
    """Return a plan that sweeps a kernel file over its whole search space.

    Parameters
    ----------
    space : SearchSpace
        The search space.
    kernel : str
        Path of the kernel file.
    devices, models : sequence of str
        What to sweep over.
    """
    lines = [
        "schema = 1",
        f"name = {quoted(key_of(space.name))}",
        f"description = {quoted(f'{space.name}: {space.cartesian:,} points without conditions')}",
        f"kernels = {_listed([kernel])}",
        f"devices = {_listed(devices)}",
        f"models = {_listed(models)}",
    ]
    return "\n".join(lines) + "\n"


def _listed(values: Sequence[Value]) -> str:
    return json.dumps(list(values), ensure_ascii=False)

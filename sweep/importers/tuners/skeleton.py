"""Write the files of a sweep for a search space: a kernel file to complete, and a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweep.errors import SpecError, TuningError
from sweep.expressions import Expression, ExpressionError
from sweep.fields import PLACEHOLDER
from sweep.importers.tuners.search_space import SearchSpace
from sweep.specs.kernel import KernelFile, key_of, toml

NOT_IN_SPACE = f"assumed: {PLACEHOLDER}: not in the tuner's files"
TUNERS_DEFAULT = (
    f"assumed: {PLACEHOLDER}: Kernel Tuner's default, what divides the grid is not in the file"
)
AXES = "XYZ"
COMMENTS = """\
Search space of SOURCE, taken over by `sweep import`.
Counts and registers are not in it: replace the values marked 'assumed' below, by
hand or with the output of `sweep ptx` or `sweep profile` (`sweep show --keys
kernel` lists all keys). Until then the kernel loads and stores a word for each
element."""


def kernel_text(space: SearchSpace, *, source: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a kernel file for a search space.

    A search space contains no counts of instructions, accesses and registers. The file has assumed
    values, to be replaced: a kernel that loads and stores one word per element of the problem.

    Parameters
    ----------
    space : SearchSpace
        The search space.
    source : str
        The name of its file, which the kernel file records.

    Returns
    -------
    text : str
        The file, which :func:`sweep.specs.parse_kernel` accepts.
    notes : tuple of str
        The parts of the search space that are not in the kernel file.

    Raises
    ------
    TuningError
        A parameter has a name or values that are not allowed in a kernel file.
    """
    launch = _Launch(space)
    try:
        return launch.file(source).text(), tuple(launch.notes)
    except SpecError as error:
        raise TuningError(f"{source or space.name}: no kernel file can be made: {error}") from None


class _Launch:
    """The launch of a search space: threads and blocks as expressions over its parameters."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.notes: list[str] = []
        self.assumed: dict[str, str] = {}
        sizes = space.specification.get("ProblemSize")
        numbers: list[Any] = sizes if isinstance(sizes, list) else [sizes]
        self.sizes: dict[str, float] = {}
        if all(type(n) in (int, float) and 0 < n <= 2**53 for n in numbers):
            axes = zip(AXES.lower(), numbers, strict=False)
            self.sizes = {f"problem_size_{axis}": n for axis, n in axes}
        self.names = {*space.parameters, *self.sizes}
        self.threads, self.blocks = self._threads(), self._blocks()

    def file(self, source: str) -> KernelFile:
        """Return the kernel file."""
        specification = self.space.specification
        work = next(n for n in ("elements", "elements_", "work_items") if n not in self.names)
        elements = "1"
        if self.sizes and not self.assumed:
            elements = f"{' * '.join(self.sizes)} / (({self.threads}) * ({self.blocks}))"
        words = (specification.get("Language"), "kernel", specification.get("KernelFile"))
        origin = f" of {source}" if source else ""
        file = KernelFile(
            self.space.name,
            f"{' '.join(str(w) for w in words if w)}: tuning parameters and conditions only",
            f"derived: the search space{origin}",
            comments=COMMENTS.replace(" of SOURCE", origin).splitlines(),
            constraints=[condition.text for condition in self.space.conditions],
            sources={
                **self.assumed,
                "resources.registers_per_thread": NOT_IN_SPACE,
                "instructions": f"{NOT_IN_SPACE}, to be counted",
                "global_access": f"{NOT_IN_SPACE}, to be counted",
            },
        )
        file.table("[sizes]", self.sizes)
        file.table("[parameters]", self.space.parameters)
        note = "Elements of the problem for a thread, the mean over all."
        file.table("[derived]", {work: elements}, [note])
        file.table("[launch]", {"threads_per_block": self.threads, "blocks": self.blocks})
        shared = self._readable(specification.get("SharedMemory") or 0) or "0"
        file.table("[resources]", {"registers_per_thread": 32, "shared_memory_bytes": shared})
        counts = {"fp32": f"2 * {work}", "integer": f"4 * {work}"}
        file.table("[instructions]", {**counts, "control": 1}, ["Of a thread, over its whole run."])
        for name, kind in (("input", "load"), ("output", "store")):
            access = {"name": name, "kind": kind, "count": work}
            file.table("[[global_access]]", {**access, "bytes": 4, "pattern": "coalesced"})
        return file

    def _readable(self, text: Any) -> str:
        """Return an expression on one line if it is valid in a kernel file, else ``""``."""
        plain = " ".join(str(text).split())
        try:
            Expression.parse(plain, allowed=self.names)
        except ExpressionError:
            return ""
        return plain

    def _product(self, key: str, factors: Sequence[str], default: int) -> str:
        """Return the product of factors, or a default that is assumed if one cannot be read."""
        if factors and all(factors):
            return _product(factors)
        self.assumed[f"launch.{key}"] = NOT_IN_SPACE
        return str(default)

    def _threads(self) -> str:
        """Return the threads per block: the product of LocalSize."""
        local = self.space.specification.get("LocalSize")
        if not isinstance(local, Mapping):  # use Kernel Tuner's default names
            own = {axis: f"block_size_{axis.lower()}" for axis in AXES}
            local = {axis: name for axis, name in own.items() if name in self.names}
        factors = [self._readable(local[axis]) for axis in AXES if axis in local]
        if local and not (factors and all(factors)):
            named = ", ".join(map(str, local.values()))[:200]
            self.notes.append(f"LocalSize ({named}) contains names that are not parameters")
        return self._product("threads_per_block", factors, 256)

    def _blocks(self) -> str:
        """Return the blocks in the grid: the problem size over the grid's divisors."""
        specification = self.space.specification
        factors = []
        for axis, size in zip(AXES, self.sizes, strict=False):
            divisors = specification.get(f"GridDiv{axis}")
            if divisors is None:
                continue
            divisors = divisors if isinstance(divisors, list) else [divisors]
            readable = [self._readable(divisor) for divisor in divisors]
            if not all(readable):
                self.notes.append(f"GridDiv{axis} ({str(divisors)[:200]}) cannot be read")
                return self._product("blocks", [], 1024)
            factors.append(f"ceil({size} / {_product(readable, True)})" if readable else size)
        blocks = specification.get("GlobalSize")
        # GlobalSize is a number of blocks for CUDA, of threads for OpenCL.
        is_cuda = specification.get("GlobalSizeType") == "CUDA"
        if not factors and is_cuda and isinstance(blocks, Mapping):
            factors = [self._readable(blocks[axis]) for axis in AXES if axis in blocks]
        own = {axis: f"block_size_{axis.lower()}" for axis in AXES}
        if not factors and self.sizes and own["X"] in self.names:
            self.assumed["launch.blocks"] = TUNERS_DEFAULT
            return _product([
                f"ceil({size} / {own[axis]})" if own[axis] in self.names else size
                for axis, size in zip(AXES, self.sizes, strict=False)
            ])  # fmt: skip
        return self._product("blocks", factors, 1024)


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
        The devices and models to sweep over.
    """
    values: dict[str, int | str | list[str]] = {"schema": 1, "name": key_of(space.name)}
    values["description"] = f"{space.name}: {space.cartesian:,} points without conditions"
    values |= {"kernels": [kernel], "devices": list(devices), "models": list(models)}
    return "".join(f"{key} = {toml(value)}\n" for key, value in values.items())

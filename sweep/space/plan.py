"""A plan: which kernels, devices, models and axes a sweep covers.

The same plan is a TOML file (``sweep run my_plan.toml``) or a Python object
(``Plan(kernels=[...], ...)``); both go through the same checks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from sweep.errors import PlanError, check_known, nearest
from sweep.expressions import Expression, ExpressionError, check_total
from sweep.fields import VARIANTS
from sweep.models import model_names
from sweep.space.axes import axis_values, check_clocks
from sweep.space.grid import CLOCK_AXES, Values
from sweep.space.problems import problem_columns
from sweep.specs.files import list_devices, list_kernels
from sweep.specs.formats import PLAN
from sweep.specs.reading import load_toml, read_text

PRECISIONS = ("float32", "float64")
LAYOUTS = (None, "grid", "stacked")
KEYS = (*(key.name for key in PLAN[""].keys), *(name for name in PLAN if name))

MOST_WATTS = 5000
"""Largest power limit."""


@dataclass(frozen=True)
class Plan:
    """What to sweep.

    Parameters
    ----------
    kernels, devices : sequence of str
        Names of shipped files, of files on ``$SWEEP_PATH``, or paths (from ``folder``).
    models : sequence of str
        Registered models; by default ``combined``, the one for GPUs with caches.
    name, description : str
        For people; the name is also the default store, ``./NAME.zarr``.
    variant : str
        ``"corrected"`` (contradictions and undefined cases mended), ``"printed"`` (the papers to
        the letter) or ``"revised"`` (corrected, and changed for better predictions).
    axes : mapping
        Axis name to its values: tuning parameters and problem sizes of the kernels, and
        ``core_clock``, ``memory_clock`` [MHz] or ``core_clock_ratio``, ``memory_clock_ratio``
        [of each device's nominal clock]. Values are a list, a range, a NumPy array, one value, or
        ``{start, stop, step}``; ``"nominal"`` for a clock is the same as leaving it out.
        Parameters that are left out take the kernel file's values.
    kernel_axes : mapping
        Kernel name (file stem) to axes that hold for this kernel only.
    constraints : sequence of str
        Expressions that a configuration must satisfy, besides the kernel files' own. Each applies
        to the kernels that know all its names.
    outputs : sequence of str, optional
        Variables to keep (see ``sweep list fields``); ``status`` is always kept.
    precision : str
        ``"float32"`` or ``"float64"``, of the stored numbers; arithmetic is in float64.
    store : str, bool or None
        Path of the store, ``False`` for none, ``None`` for ``./NAME.zarr``.
    options : mapping
        Model name to its options, e.g. ``{"wang_chu": {"dram_latency": "eq5a"}}``.
    derive : bool
        Whether to derive parameters that a device file lacks (see
        :mod:`sweep.hardware.derived`); without, such a device has the status
        ``missing_parameters``.
    power_limit : float, optional
        Power above which a device with a power model lowers its core clock [W]; by default its
        own limit (``clocks.power_limit_W``), for core clocks that the plan does not name.
    chunk_points : int, optional
        Configurations per chunk; chosen by the planner if left out.
    origin : str
        Where the plan came from, for messages.
    layout : str, optional
        ``"grid"``: a dimension per tuning parameter; ``"stacked"``: one dimension of valid ones. By
        default a grid, unless it is large and less than half of it is valid.
    folder : path
        Where relative paths of kernels and devices begin; for a file, its own folder.
    problems : mapping, sequence or path, optional
        Sizes (and parameters) whose values belong together, such as the shapes of a model's
        products: columns by name, rows, or the path of a CSV or JSON file, which begins in
        ``folder`` (:func:`sweep.space.problems.problem_columns`). Results have a dimension
        ``problem`` with a place for each row. They hold for the kernels that have these names.

    Raises
    ------
    PlanError
        With one line that says which key is wrong and what it may be.
    """

    kernels: tuple[str, ...]
    devices: tuple[str, ...]
    models: tuple[str, ...] = ("combined",)
    name: str = "sweep"
    description: str = ""
    variant: str = "corrected"
    axes: Mapping[str, Values] = field(default_factory=dict)
    kernel_axes: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    outputs: tuple[str, ...] | None = None
    precision: str = "float32"
    store: str | bool | None = None
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    derive: bool = True
    power_limit: float | None = None
    chunk_points: int | None = None
    origin: str = "plan"
    layout: str | None = None
    folder: str | os.PathLike[str] = ""
    problems: Mapping[str, Values] | None = None

    def __post_init__(self) -> None:
        """Normalise sequences to tuples and check every key."""
        for key in ("kernels", "devices", "models", "constraints", "outputs"):
            if key != "outputs" or self.outputs is not None:
                object.__setattr__(self, key, self._names(key))
        for model in self.models:
            self._choice("models", model, model_names())
        self._choice("variant", self.variant, tuple(VARIANTS))
        self._choice("precision", self.precision, PRECISIONS)
        self._choice("layout", self.layout, LAYOUTS)
        object.__setattr__(self, "axes", self._axes("axes", self.axes))
        kernel_axes = self._mapping("kernel", self.kernel_axes).items()
        checked = {kernel: self._axes(f"kernel.{kernel}", axes) for kernel, axes in kernel_axes}
        object.__setattr__(self, "kernel_axes", checked)
        if self.problems is not None:
            columns = problem_columns(f"{self.origin}: problems", self.problems, self.folder)
            object.__setattr__(self, "problems", columns)
        for model, options in self._mapping("options", self.options).items():
            self._choice("options", model, self.models)
            self._mapping(f"options.{model}", options)
        try:
            check_total(self.constraints)
            for text in self.constraints:
                Expression.parse(text)
        except ExpressionError as error:
            raise self._error(f"constraints: {error}") from None
        self._check_scalars()

    def _error(self, message: str) -> PlanError:
        return PlanError(f"{self.origin}: {message}")

    def _check_scalars(self) -> None:
        """Check name, description, store, derive, power_limit and chunk_points."""
        pattern = r"(?!\.)[^/\0-\37]{1,100}"
        if not isinstance(self.name, str) or not re.fullmatch(pattern, self.name):
            raise self._error(
                f"name = {self.name!r:.120}: needs a word of at most 100 characters without '/' or"
                " a leading dot"
            )
        is_path = isinstance(self.store, str) and self.store and "\0" not in self.store
        points = self.chunk_points
        is_number = isinstance(points, int) and not isinstance(points, bool) and points > 0
        watts = self.power_limit
        is_limit = (
            isinstance(watts, int | float)
            and not isinstance(watts, bool)
            and 1 <= watts <= MOST_WATTS
        )
        is_store = self.store is None or self.store is False or is_path
        for key, is_right, needs in (
            ("description", isinstance(self.description, str), "needs a text"),
            ("store", is_store, "a path, or false for none"),
            ("derive", isinstance(self.derive, bool), "true or false"),
            ("power_limit", watts is None or is_limit, f"a number of watts, 1 to {MOST_WATTS}"),
            ("chunk_points", points is None or is_number, "a whole number from 1 on"),
        ):
            if not is_right:
                raise self._error(f"{key} = {getattr(self, key)!r}: {needs}")

    def _names(self, key: str) -> tuple[str, ...]:
        names = getattr(self, key)
        if not isinstance(names, (list, tuple)):
            raise self._error(f"{key} = {names!r}: needs a list of names")
        if not names and key != "constraints":
            raise self._error(f"{key} is empty; it needs at least one name")
        for item in names:
            if not isinstance(item, str):
                raise self._error(f"{key}: {item!r} is not a string")
        if doubled := [name for name in names if names.count(name) > 1]:
            raise self._error(f"{key} names '{doubled[0]}' twice")
        return tuple(names)

    def _choice(self, key: str, value: Any, allowed: tuple[str | None, ...]) -> None:
        if value not in allowed:
            known = [name for name in allowed if name]
            hint = nearest(str(value), known)
            known += ["those of other packages, once installed"] if key == "models" else []
            raise self._error(f"{key}: unknown {value!r}{hint} (known: {', '.join(known)})")

    def _mapping(self, key: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._error(f"{key} = {value!r}: needs a table")
        return value

    def _axes(self, where: str, table: Any) -> dict[str, Values]:
        axes: dict[str, Values] = {}
        for name, values in self._mapping(where, table).items():
            key = f"{self.origin}: {where}.{name}"
            if name in CLOCK_AXES and values == "nominal":
                continue
            axes[name] = axis_values(key, values)
            if name in CLOCK_AXES:
                check_clocks(key, name, axes[name])
        for clock in ("core_clock", "memory_clock"):
            if clock in axes and f"{clock}_ratio" in axes:
                raise self._error(f"{where}: give {clock} or {clock}_ratio, not both")
        return axes

    def place_of(self, name: str) -> str:
        """Return the name of a kernel or device, or its path, which begins in the plan's folder."""
        is_path = name.endswith(".toml") or os.sep in name
        if not is_path or name.startswith("~") or os.fspath(self.folder) in ("", "."):
            return name
        return os.path.join(self.folder, name)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data; ``parse_plan`` takes it back."""
        values = {"schema": 1, **self.__dict__, "kernel": self.kernel_axes}
        return {key: _plain(values[key]) for key in KEYS if values[key] is not None}

    def digest(self) -> str:
        """Return a hash of what the plan computes (not of its name, words or store)."""
        data = self.as_dict()
        for key in ("name", "description", "store"):
            data.pop(key, None)
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def parse_plan(
    data: Mapping[str, Any],
    *,
    name: str = "sweep",
    origin: str = "plan",
    folder: str | os.PathLike[str] = "",
) -> Plan:
    """Return the plan of a parsed TOML table, whose paths begin in a folder.

    Raises
    ------
    PlanError
        A key is unknown, missing or wrong.
    """
    for key in data:
        check_known(key, KEYS, f"{origin}: {key}: unknown key", error=PlanError)
    if data.get("schema") != 1:
        raise PlanError(f"{origin}: schema = {data.get('schema')!r}: this version reads schema = 1")
    for key in ("kernels", "devices"):
        if key not in data:
            raise PlanError(f"{origin}: {key} is missing: a plan names kernels and devices")
    given = {key: value for key, value in data.items() if key not in ("schema", "kernel")}
    given.setdefault("name", name)
    return Plan(**given, kernel_axes=data.get("kernel", {}), origin=origin, folder=folder)


def load_plan(name_or_path: str | os.PathLike[str]) -> Plan:
    """Return a plan from a path, or a shipped plan by name; an existing path wins.

    Raises
    ------
    PlanError
        There is no such plan (the message gives the nearest name), or it is wrong.
    """
    path = Path(name_or_path)
    if not path.is_file():
        shipped = files("sweep") / "plans" / f"{name_or_path}.toml"
        what = f"{name_or_path}: no such plan, neither a file nor a shipped one"
        if path.is_dir():
            what = f"{path}: a folder, no plan (`sweep.open_store` opens a store)"
        for kind, names in (("kernel", list_kernels), ("device", list_devices)):
            if not shipped.is_file() and str(name_or_path) in names():
                options = {"kernel": "NAME", "device": "NAME", kind: name_or_path}
                begin = " ".join(f"--{option} {name}" for option, name in options.items())
                raise PlanError(
                    f"{name_or_path}: a {kind}, no plan; `sweep new plan {begin}` begins one"
                )
        check_known(str(name_or_path), list_plans(), what, "shipped:", PlanError)
        path = Path(str(shipped))
    try:
        data = load_toml(read_text(path))
    except ValueError as error:
        raise PlanError(f"{path}: not valid TOML: {error}") from None
    for kind, section in (("kernel", "launch"), ("device", "chip")):
        if section in data:
            what = f'a {kind} file, no plan; a plan names it: {kind}s = ["{path}"]'
            raise PlanError(f"{path}: {what}")
    return parse_plan(data, name=path.stem, origin=str(path), folder=path.parent)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, (list, tuple)) else value


def list_plans() -> tuple[str, ...]:
    """Return the names of the shipped plans."""
    names = (entry.name for entry in (files("sweep") / "plans").iterdir())
    return tuple(sorted(n.removesuffix(".toml") for n in names if n.endswith(".toml")))

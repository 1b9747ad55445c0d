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

from sweep.errors import PlanError, nearest
from sweep.expressions import Expression, ExpressionError, check_total
from sweep.models import model_names
from sweep.space.axes import CLOCK_AXES, Values, axis_values, check_clocks
from sweep.specs.reading import load_toml

__all__ = ["Plan", "list_plans", "load_plan", "parse_plan"]

VARIANTS = ("corrected", "printed")
PRECISIONS = ("float32", "float64")
LAYOUTS = ("grid", "stacked")
KEYS = (
    "schema", "name", "description", "kernels", "devices", "models", "variant", "precision",
    "outputs", "constraints", "store", "axes", "kernel", "options", "derive", "chunk_points",
    "layout",
)  # fmt: skip
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What to sweep.

    Parameters
    ----------
    kernels, devices : sequence of str
        Names of shipped files, of files on ``$SWEEP_PATH``, or paths of TOML files.
    models : sequence of str
        Registered models.
    name, description : str
        For people; the name is also the default store, ``./NAME.zarr``.
    variant : str
        ``"corrected"`` (documented errata applied) or ``"printed"`` (the papers to the letter).
    axes : mapping
        Axis name to its values: tuning parameters and problem sizes of the kernels, and
        ``core_clock``, ``memory_clock`` [MHz] or ``core_clock_ratio``, ``memory_clock_ratio``
        [relative to each device's nominal clock]. Values are a list, one value, or
        ``{start, stop, step}``; ``"nominal"`` for a clock is the same as leaving it out. Parameters
        that are left out take the kernel file's values.
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
        :attr:`sweep.models.base.Model.rules`); without, such a device has the status
        ``missing_parameters``.
    chunk_points : int, optional
        Configurations per chunk; chosen by the planner if left out.
    origin : str
        Where the plan came from, for messages.
    layout : str, optional
        ``"grid"``: a dimension per tuning parameter; ``"stacked"``: one dimension
        ``configuration`` with the valid ones, over which the parameters are coordinates. By default
        a grid, unless it is large and less than half of it is valid.

    Raises
    ------
    PlanError
        With one line that says which key is wrong and what it may be.
    """

    kernels: tuple[str, ...]
    devices: tuple[str, ...]
    models: tuple[str, ...]
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
    chunk_points: int | None = None
    origin: str = "plan"
    layout: str | None = None

    def __post_init__(self) -> None:
        """Normalise sequences to tuples and check every key."""
        put = object.__setattr__
        for key in ("kernels", "devices", "models"):
            put(self, key, self._names(key, getattr(self, key)))
        put(self, "constraints", self._names("constraints", self.constraints, empty=True))
        if self.outputs is not None:
            put(self, "outputs", self._names("outputs", self.outputs))
        for model in self.models:
            self._choice("models", model, model_names())
        self._choice("variant", self.variant, VARIANTS)
        self._choice("precision", self.precision, PRECISIONS)
        if self.layout is not None:
            self._choice("layout", self.layout, LAYOUTS)
        put(self, "axes", self._axes("axes", self.axes))
        kernel_axes = {}
        for kernel, axes in self._mapping("kernel", self.kernel_axes).items():
            kernel_axes[kernel] = self._axes(f"kernel.{kernel}", axes)
        put(self, "kernel_axes", kernel_axes)
        for model, options in self._mapping("options", self.options).items():
            self._choice("options", model, self.models)
            self._mapping(f"options.{model}", options)
        try:
            check_total(self.constraints)
            for text in self.constraints:
                Expression.parse(text)
        except ExpressionError as error:
            raise PlanError(f"{self.origin}: constraints: {error}") from None
        self._words()
        if not isinstance(self.derive, bool):
            raise PlanError(f"{self.origin}: derive = {self.derive!r}: true or false")
        points = self.chunk_points
        if points is not None and (isinstance(points, bool) or not isinstance(points, int)
                                   or points < 1):  # fmt: skip
            raise PlanError(f"{self.origin}: chunk_points = {points!r}: a whole number from 1 on")

    def _words(self) -> None:
        """Check name, description and store."""
        pattern = r"(?!\.)[^/\0-\37]{1,100}"
        if not isinstance(self.name, str) or not re.fullmatch(pattern, self.name):
            raise PlanError(
                f"{self.origin}: name = {self.name!r:.120}: needs a word of at most 100 characters"
                " without '/' or a leading dot"
            )
        if not isinstance(self.description, str):
            raise PlanError(f"{self.origin}: description = {self.description!r}: needs a text")
        is_path = isinstance(self.store, str) and self.store and "\0" not in self.store
        if not (self.store is None or self.store is False or is_path):
            raise PlanError(f"{self.origin}: store = {self.store!r}: a path, or false for none")

    def _names(self, key: str, given: Any, *, empty: bool = False) -> tuple[str, ...]:
        if isinstance(given, str) or not isinstance(given, (list, tuple)):
            raise PlanError(f"{self.origin}: {key} = {given!r}: needs a list of names")
        if not given and not empty:
            raise PlanError(f"{self.origin}: {key} is empty; it needs at least one name")
        for item in given:
            if not isinstance(item, str):
                raise PlanError(f"{self.origin}: {key}: {item!r} is not a string")
        if len(set(given)) != len(given):
            raise PlanError(f"{self.origin}: {key} names something twice")
        return tuple(given)

    def _choice(self, key: str, given: Any, allowed: tuple[str, ...]) -> None:
        if given not in allowed:
            hint = nearest(str(given), allowed)
            raise PlanError(
                f"{self.origin}: {key}: unknown {given!r}{hint} (known: {', '.join(allowed)})"
            )

    def _mapping(self, key: str, given: Any) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            raise PlanError(f"{self.origin}: {key} = {given!r}: needs a table")
        return given

    def _axes(self, where: str, given: Any) -> dict[str, Values]:
        axes: dict[str, Values] = {}
        for name, values in self._mapping(where, given).items():
            key = f"{self.origin}: {where}.{name}"
            if name in CLOCK_AXES and values == "nominal":
                continue
            axes[name] = axis_values(key, values)
            if name in CLOCK_AXES:
                check_clocks(key, name, axes[name])
        for clock in ("core_clock", "memory_clock"):
            if clock in axes and f"{clock}_ratio" in axes:
                raise PlanError(f"{self.origin}: {where}: give {clock} or {clock}_ratio, not both")
        return axes

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data; ``parse_plan`` takes it back."""
        data: dict[str, Any] = {
            "schema": 1,
            "name": self.name,
            "description": self.description,
            "kernels": list(self.kernels),
            "devices": list(self.devices),
            "models": list(self.models),
            "variant": self.variant,
            "precision": self.precision,
            "axes": {name: list(values) for name, values in self.axes.items()},
            "kernel": {
                kernel: {name: list(values) for name, values in axes.items()}
                for kernel, axes in self.kernel_axes.items()
            },
            "constraints": list(self.constraints),
            "options": {model: dict(options) for model, options in self.options.items()},
            "derive": self.derive,
        }
        if self.outputs is not None:
            data["outputs"] = list(self.outputs)
        if self.store is not None:
            data["store"] = self.store
        if self.chunk_points is not None:
            data["chunk_points"] = self.chunk_points
        if self.layout is not None:
            data["layout"] = self.layout
        return data

    def digest(self) -> str:
        """Return a hash of what the plan computes (not of its name, words or store)."""
        data = self.as_dict()
        for key in ("name", "description", "store"):
            data.pop(key, None)
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def parse_plan(data: Mapping[str, Any], *, name: str = "sweep", origin: str = "plan") -> Plan:
    """Return the plan of a parsed TOML table.

    Raises
    ------
    PlanError
        A key is unknown, missing or wrong.
    """
    for key in data:
        if key not in KEYS:
            raise PlanError(f"{origin}: {key}: unknown key{nearest(key, KEYS)}")
    if data.get("schema") != 1:
        raise PlanError(f"{origin}: schema = {data.get('schema')!r}: this version reads schema = 1")
    for key in ("kernels", "devices", "models"):
        if key not in data:
            raise PlanError(f"{origin}: {key} is missing: a plan names kernels, devices and models")
    given = {key: value for key, value in data.items() if key not in ("schema", "kernel")}
    given.setdefault("name", name)
    return Plan(**given, kernel_axes=data.get("kernel", {}), origin=origin)


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
        if "/" in str(name_or_path) or not shipped.is_file():
            known = list_plans()
            raise PlanError(
                f"{name_or_path}: no such plan, neither a file nor a shipped one"
                f"{nearest(str(name_or_path), known)} (shipped: {', '.join(known)})"
            )
        path = Path(str(shipped))
    if path.stat().st_size > MAX_BYTES:
        raise PlanError(f"{path}: larger than {MAX_BYTES >> 20} MiB, not a plan")
    try:
        data = load_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise PlanError(f"{path}: not valid TOML: {error}") from None
    return parse_plan(data, name=path.stem, origin=str(path))


def list_plans() -> tuple[str, ...]:
    """Return the names of the shipped plans."""
    folder = files("sweep") / "plans"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(n.removesuffix(".toml") for n in names if n.endswith(".toml")))

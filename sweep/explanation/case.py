"""One configuration of a space: selected by name, and evaluated with every intermediate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from sweep.compiler.lowering import lowered
from sweep.compiler.source import finishing
from sweep.errors import QueryError, check_known
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.launch import build_launch, build_workload
from sweep.evaluation.power_limit import limits_of
from sweep.evaluation.tables import model_inputs
from sweep.explanation.trace import Trace, Value
from sweep.fields import BOUND, COMMON_FIELDS, POWER_STATUS, STATUS, Field, Flags
from sweep.models import get_model, model_names
from sweep.models.base import HEAD, Input, Model, Symbol
from sweep.runs.record import Source, space_behind
from sweep.space import CLOCK_AXES, Dimension, Grid, KernelSpace, Plan, Space, resolve
from sweep.space.axes import check_clocks
from sweep.specs import Device

SAME = 1e-6
"""Relative difference below which two clocks count as equal, since printed clocks are rounded."""

FINISH_SYMBOLS = {
    "execution_cycles": ("execution cycles", "cycle"), "static_power": ("P_static", "W"),
    "core_hz": ("core_f", "Hz"), "core_watts": ("P_core", "W"), "memory_watts": ("P_memory", "W"),
}  # fmt: skip
"""Symbol and unit of what time, power and energy are computed from, unless it is a pure number."""


class Case:
    """One configuration, evaluated with every intermediate.

    Parameters
    ----------
    space : KernelSpace
        The kernel's space, reduced to one point.
    plan : Plan
        The plan that it came from.
    model : Model
        The model.
    values : mapping
        Problem sizes, tuning parameters and swept clocks, by name.
    notes : tuple of str
        Remarks for the reader, such as values that are not in the plan.

    Attributes
    ----------
    launch : Launch
        Values of the kernel's expressions, occupancy, clocks.
    workload : Workload
        The launch with the model's device parameters.
    inputs : mapping of str to float
        What the pass reads, by name: the model's inputs, status, power.
    status, power_status : str
        Meanings of :data:`sweep.fields.STATUS` and :data:`sweep.fields.POWER_STATUS`.
    traces : tuple of Trace
        Of the model's equations, and of what follows from cycles to time, power and energy; none
        where the configuration cannot be launched or the model lacks a number.
    results : mapping of str to float
        Every variable that the model gives, by its name in results (without the model's prefix).
    """

    def __init__(
        self,
        space: KernelSpace,
        plan: Plan,
        model: Model,
        values: Mapping[str, Any],
        notes: tuple[str, ...],
    ) -> None:
        self.space, self.plan, self.model = space, plan, model
        self.values, self.notes = values, notes
        options = plan.options.get(model.name, {})
        self.launch = build_launch(space)
        self.workload = build_workload(self.launch, model, options)
        tables = model_inputs(self.launch, model, plan.variant, options)
        self.inputs = {name: float(scalar(table)) for name, table in tables.items()}
        status = self.inputs["launch_status"] or self.inputs["clock_status"]
        self.status = STATUS.meaning(int(status))
        self.power_status = "no_time"
        self.traces: tuple[Trace, ...] = ()
        self.results: Mapping[str, float] = {}
        if self.status == "valid":
            self._follow()

    def _follow(self) -> None:
        """Follow the model's equations and what comes after them."""
        model = self.model
        arguments = {i.symbol: (model.symbols[i.symbol], self._argument(i)) for i in model.inputs}
        lengths = {len(value) for _, value in arguments.values() if isinstance(value, tuple)}
        fields = [*(COMMON_FIELDS[name] for name in HEAD), *model.fields]
        body = Trace(
            lowered(model.name, self.plan.variant, max(lengths, default=0)),
            arguments,
            symbols=model.symbols,
            errata=model.errata_in(self.plan.variant),
            returns={own.name: _symbol(own) for own in fields},
        )
        program, known = finishing(), {**self.inputs, **body.results}
        finish = Trace(
            program,
            {name: (Symbol(*FINISH_SYMBOLS.get(name, (name, "1")), ""), known[name])
             for name in program.inputs},
            returns={name: _symbol(COMMON_FIELDS[name]) for name in program.results},
        )  # fmt: skip
        self.traces = body, finish
        self.results = {**body.results, **finish.results}
        self.status = STATUS.meaning(int(self.results["status"]))
        self.power_status = POWER_STATUS.meaning(int(self.results["power_status"]))

    def _argument(self, described: Input) -> Value:
        """Return an argument of the body: a number, or the numbers of a sequence."""
        values = tuple(self.inputs[name] for name in self.parts(described))
        return values if described.sequence else values[0]

    def parts(self, described: Input) -> tuple[str, ...]:
        """Return an input's own name in ``inputs``, or those of a sequence's numbers."""
        if not described.sequence:
            return (described.symbol,)
        names = (f"{described.symbol}_{i}" for i in count())
        return tuple(takewhile(self.inputs.__contains__, names))

    @property
    def device(self) -> Device:
        """The device."""
        return self.space.devices[0]

    @property
    def is_powered(self) -> bool:
        """Whether there are power and energy."""
        return self.power_status == "valid"

    @property
    def follows_clocks(self) -> bool:
        """Whether the model's device parameters follow the clocks (erratum CLK)."""
        return "CLK" in self.model.errata_in(self.plan.variant)

    @property
    def words(self) -> dict[str, str]:
        """The results that are codes, as words: regime, bound, and the model's own."""
        flags = {own.name: own.flags for own in self.model.fields if own.flags is not None}
        flags |= {"regime": Flags(self.model.regimes), "bound": BOUND}
        return {name: known.meaning(int(self.results[name])) for name, known in flags.items()}


def scalar(array: Any) -> Any:
    """Return the only element of an array as a Python scalar."""
    return np.asarray(array).reshape(-1)[0].item()


def find_case(source: Source | None, configuration: Mapping[str, Any]) -> Case:
    """Find a configuration and evaluate it.

    Parameters
    ----------
    source : Plan, Space, mapping, str, path or None
        Where to look: a plan or its name, a space, a store's record or path; ``None`` for the
        files that the configuration names.
    configuration : mapping
        ``kernel``, ``device``, ``model``, problem sizes, tuning parameters and clocks
        (``core_clock`` in MHz or ``core_clock_ratio``; likewise for the memory). Names for which
        the source has only one value may be omitted. Omitted clocks that are not swept are nominal.

    Raises
    ------
    QueryError
        A name or value is missing or does not exist; the message lists the possible ones.
    """
    wanted = {name: _plain(name, value) for name, value in configuration.items()}
    space = _space(source, wanted)
    selection = _Selection(wanted)
    kernel = space[selection.member("kernel", [k.kernel.key for k in space.kernels])]
    key = selection.member("device", [d.key for d in space.devices])
    model = get_model(selection.member("model", space.plan.models))
    own = (*kernel.kernel.sizes, *kernel.kernel.parameters)
    known = ("kernel", "device", "model", *own, *CLOCK_AXES)
    for name in wanted:
        check_known(name, known, f"explain: kernel '{kernel.kernel.key}' has no '{name}'", "known:")
    device = next(d for d in space.devices if d.key == key)
    fixed = dict(kernel.fixed)
    dimensions = [Dimension("device", (key,), "device")]
    swept = {axis.name: axis for d in kernel.grid.dimensions for axis in d.axes}
    for name in own:
        like = kernel.kernel.parameters.get(name)
        if name in swept:
            value = selection.value(name, swept[name].values, like)
            dimensions.append(Dimension(name, (value,), swept[name].kind))
        else:
            fixed[name] = selection.value(name, (fixed[name],), like)
    for clock in ("core", "memory"):
        nominal = device.values[f"clocks.{clock}_nominal"] / 1e6
        dimensions += selection.clock(clock, swept, nominal)
    point = replace(kernel, devices=(device,), grid=Grid(tuple(dimensions)), fixed=fixed)
    values = {**fixed, **{d.name: d.values[0] for d in dimensions[1:]}}
    notes = tuple(selection.notes) if source is not None else ()
    point, remarks = _under_limit(point, space.plan, model)
    return Case(point, space.plan, model, values, (*notes, *remarks))


def _under_limit(
    point: KernelSpace, plan: Plan, model: Model
) -> tuple[KernelSpace, tuple[str, ...]]:
    """Return a point at the core clock that a power limit leaves it, and what to say of that."""
    limit = limits_of(point, plan).get(0)
    if limit is None:
        return point, ()
    options = {name: own for name, own in plan.options.items() if name == model.name}
    own = replace(plan, models=(model.name,), options=options, precision="float64",
                  outputs=("actual_core_clock", "power"))  # fmt: skip
    found = evaluate_box(point, own, point.grid.whole)
    clock, power = found["actual_core_clock"].item(), found["power"].item()
    asked = scalar(build_launch(point).workload.clocks.core) / 1e6
    if not clock < asked:
        return point, ()
    others = (d for d in point.grid.dimensions if d.kind != "core")
    grid = replace(point.grid, dimensions=(*others, Dimension("core_clock", (clock,), "core")))
    lowered = (
        f"The power limit of {limit:g} W lowers the core clock from {asked:g} to {clock:g} MHz"
    )
    if power > limit:
        lowered += f", the lowest, where power is still {power:.4g} W"
    return replace(point, grid=grid), (f"{lowered}.",)


# ---------------------------------------------------------------------------- selection


def _space(source: Source | None, wanted: Mapping[str, Any]) -> Space:
    if source is not None:
        return space_behind(source)
    for name in ("kernel", "device"):
        if not isinstance(wanted.get(name), str):
            raise QueryError(f"explain: {name} is missing: without a plan it must be named")
    models = [wanted["model"]] if "model" in wanted else list(model_names())
    return resolve(Plan((wanted["kernel"],), (wanted["device"],), tuple(models)))


def _plain(name: str, value: Any) -> Any:
    """Return a Python scalar from a scalar, a NumPy scalar or a list of one element."""
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise QueryError(f"explain: {name} = {value!r}: a configuration has one value")
        value = value[0]
    return value.item() if hasattr(value, "item") else value


def _listed(values: Iterable[Any]) -> str:
    texts = [str(value) for value in values]
    return ", ".join(texts) if len(texts) <= 12 else f"{', '.join(texts[:10])} ... {texts[-1]}"


class _Selection:
    """What a configuration selects, with remarks on values that are not in the plan."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        self.wanted = wanted
        self.notes: list[str] = []

    def member(self, kind: str, known: Sequence[str]) -> str:
        """Return the selected kernel, device or model."""
        asked = self.wanted.get(kind)
        if asked is None:
            if len(known) == 1:
                return known[0]
            raise QueryError(f"explain: {kind} is missing: one of {', '.join(known)}")
        name = Path(str(asked)).stem if str(asked).endswith(".toml") else str(asked)
        check_known(name, known, f"explain: the plan has no {kind} '{asked}'", "it has")
        return name

    def value(self, name: str, values: Sequence[Any], like: Sequence[Any] | None) -> Any:
        """Return the value of a parameter, of the type of those like it, or of a size."""
        if name not in self.wanted:
            if len(values) == 1:
                return values[0]
            raise QueryError(f"explain: {name} is missing: one of {_listed(values)}")
        value = asked = self.wanted[name]
        if like is None or not isinstance(like[0], (bool, str)):
            value = self.number(name, positive=like is None and asked not in values)
        elif isinstance(like[0], bool):
            value = {"true": True, "false": False}.get(str(asked).lower())
            if value is None:
                raise QueryError(f"explain: {name} = {asked!r}: true or false")
        elif not isinstance(asked, str):
            raise QueryError(f"explain: {name} = {asked!r}: a word like {_listed(like)}")
        if value not in values:
            self._remark(name, value, f"({_listed(values)})")
        return value

    def number(self, name: str, *, positive: bool = False) -> float:
        """Return a selected number."""
        asked = self.wanted[name]
        try:
            value = math.nan if isinstance(asked, bool) else float(asked)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value) or (positive and value <= 0):
            rule = " above 0" if positive and not math.isnan(value) else ""
            raise QueryError(f"explain: {name} = {asked!r}: a number{rule}")
        return int(value) if value.is_integer() else value

    def clock(self, clock: str, swept: Mapping[str, Dimension], nominal: float) -> list[Dimension]:
        """Return the dimension of a requested or swept clock, none for the nominal clock [MHz]."""
        name, ratio = f"{clock}_clock", f"{clock}_clock_ratio"
        asked = {n: self.number(n) for n in (name, ratio) if n in self.wanted}
        for key, value in asked.items():
            check_clocks(f"explain: {key}", key, (value,))
        megahertz = asked.get(ratio, 1.0) * nominal
        if len(asked) == 2 and not _is_same(asked[name], megahertz):
            raise QueryError(
                f"explain: {name} = {asked[name]} MHz contradicts {ratio} = {asked[ratio]}:"
                f" that is {megahertz:.6g} MHz of nominal {nominal:.6g} MHz"
            )
        axis = swept.get(name) or swept.get(ratio)
        if axis is None:
            if _is_same(asked.get(name, megahertz), nominal):
                return []
            axis = Dimension(next(iter(asked)), (), clock)
        if not asked:
            return [Dimension(axis.name, (self.value(axis.name, axis.values, None),), clock)]
        if axis.name in asked:
            value = asked[axis.name]
        else:  # the plan has the clock in the other form
            value = megahertz if axis.name == name else asked[name] / nominal
        # Replace a rounded clock by the plan's own value, so that the results are identical.
        near = [known for known in axis.values if _is_same(known, value)]
        if near:
            value = min(near, key=lambda known: abs(known - value))
        else:
            listed = _listed(axis.values) or f"nominal, {nominal:.6g} MHz"
            self._remark(axis.name, f"{value:.6g}", f"({listed})")
        return [Dimension(axis.name, (value,), clock)]

    def _remark(self, name: str, value: Any, known: str) -> None:
        self.notes.append(f"{name} = {value} is not among the plan's values {known}")


def _is_same(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=SAME)


def _symbol(described: Field) -> Symbol:
    return Symbol(described.symbol or described.name, described.units, described.long_name)

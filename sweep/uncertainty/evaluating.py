"""Times of configurations whose device and kernel are off, many samples in one pass.

A device whose numbers are arrays stands for many devices: its tables have the samples along the
device axis, so that models evaluate them as they evaluate devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.variables import variables
from sweep.expressions import Expression
from sweep.fields import STACKED, Array
from sweep.models import get_model, model_names
from sweep.space import Dimension, Grid, KernelSpace, Plan, Space, with_assumed, with_derived
from sweep.space.grid import Configurations
from sweep.specs import Device, Kernel, parse_device
from sweep.specs.formats import split_unit
from sweep.uncertainty.branching import each_way
from sweep.uncertainty.parameters import Uncertain, uncertain

TIME = "execution_time"

POINTS = 1 << 18
"""Samples times configurations that are evaluated at once: their tables take some 200 MB."""

SAME = 1e-12
"""Relative difference of two times that is rounding."""

LEAST, STEP, ROWS = 1e-8, 1e-4, 20
"""Of a range the part by which a number is moved, the change of a time that then is a step [1], and
in how many configurations that is looked for."""

_LIMITS = {"l1_hit_rate": "min(1, {})", "l2_hit_rate": "min(1, {})", "instruction": "max(1, {})"}
"""What a kernel's number stays within however far it is off, by the end of its path."""


@dataclass(frozen=True)
class Sampled:
    """Configurations of one kernel on one device by one model, to be evaluated with other numbers.

    Attributes
    ----------
    space : KernelSpace
        The kernel's space.
    plan : Plan
        Variant, options and whether parameters are derived.
    device : Device
        As its file describes it, and what rules assume of it, without derived parameters.
    model : str
        The model.
    rows : sequence of mapping
        Coordinates of the configurations, such as rows of an answer.
    parameters : tuple of Uncertain
        What may be off.
    """

    space: KernelSpace
    plan: Plan
    device: Device
    model: str
    rows: Sequence[Mapping[str, Any]]
    parameters: tuple[Uncertain, ...]

    @classmethod
    def of(
        cls,
        space: Space,
        rows: Sequence[Mapping[str, Any]],
        ranges: Mapping[str, float] | None = None,
    ) -> Sampled:
        """Return configurations of a space, all of the first one's kernel, device and model.

        Raises
        ------
        QueryError
            A range is wrong.
        """
        first = rows[0]
        own, model = space[str(first["kernel"])], str(first["model"])
        known = next(d for d in own.devices if d.key == first["device"])
        device = parse_device(known.text, known.key, known.path)
        device = with_assumed(device) if space.plan.derive else device
        options = {name: own for name, own in space.plan.options.items() if name == model}
        plan = replace(space.plan, models=(model,), precision="float64", options=options)
        found = uncertain(device, own.kernel, model, ranges)
        return cls(own, plan, device, model, tuple(rows), found)._without_steps()

    def _without_steps(self) -> Sampled:
        """Leave out derived names of the kernel that are whole numbers, such as registers.

        The least change of such a number is a step of the time, or leaves none.
        """
        derived = [i for i, one in enumerate(self.parameters) if one.path.startswith("derived.")]
        points = np.full((2 * len(derived) + 1, len(self.parameters)), 0.5)
        for row, i in enumerate(derived):
            points[2 * row + 1, i], points[2 * row + 2, i] = 0.5 - LEAST, 0.5 + LEAST
        times = replace(self, rows=self.rows[:ROWS]).times(points)
        same = np.isclose(times[1:], times[0], rtol=STEP, atol=0.0, equal_nan=True).all(axis=1)
        steps = {i for row, i in enumerate(derived) if not same[2 * row : 2 * row + 2].all()}
        return self.only([one for i, one in enumerate(self.parameters) if i not in steps])

    def only(self, parameters: Sequence[Uncertain]) -> Sampled:
        """Return the same configurations with fewer numbers that may be off."""
        return replace(self, parameters=tuple(parameters))

    def times(self, points: Array) -> Array:
        """Return the times of all configurations in all samples [s].

        Parameters
        ----------
        points : array
            A row for each sample with a number from 0 to 1 for each parameter: the place in its
            range.

        Returns
        -------
        array
            A row for each sample, a column for each configuration; NaN where one has no time.
        """
        found = np.empty((len(points), len(self.rows)))
        step = max(1, POINTS // len(self.rows))
        spread = np.array([one.share for one in self.parameters])
        for start in range(0, len(points), step):
            factors = 1.0 + spread * (2.0 * points[start : start + step] - 1.0)
            columns = {one.name: np.ascontiguousarray(factors[:, i])
                       for i, one in enumerate(self.parameters)}  # fmt: skip
            found[start : start + step] = each_way(self._evaluated, columns)
        return found

    def _evaluated(self, factors: Mapping[str, Any]) -> Array:
        """Return times for factors of the parameters, one for each sample."""
        n = len(next(iter(factors.values())))
        device = self._device(factors)
        result = np.empty((n, len(self.rows)))
        for columns, clocks, stacked in self._parts:
            dimensions = (
                Dimension("device", tuple(range(n)), "device"),
                Dimension(STACKED, tuple(range(len(columns))), STACKED, stacked),
                *clocks,
            )
            fixed: dict[str, Any] = {
                name: factors[one.name].reshape(-1, 1, 1, 1) for one, name in self._names
            }
            grid = Grid(dimensions)
            space = replace(self.space, kernel=self._kernel, devices=(device,), grid=grid,
                            fixed=fixed)  # fmt: skip
            wanted = [v for v in variables(space, self.plan) if v.name == TIME]
            times = evaluate_box(space, self.plan, grid.whole, wanted)[TIME]
            result[:, columns] = times.reshape(n, len(columns))
        return result

    @cached_property
    def _names(self) -> list[tuple[Uncertain, str]]:
        """The kernel's parameters with the name of each one's factor in its expressions."""
        own = [one for one in self.parameters if one.is_of_kernel]
        return [(one, f"factor_of_number_{i}") for i, one in enumerate(own)]

    @cached_property
    def _kernel(self) -> Kernel:
        """The kernel with a factor in the expression of each of its parameters."""
        kernel = self.space.kernel
        names = {one.path: name for one, name in self._names}

        def off(path: str, given: Expression) -> Expression:
            if path not in names:
                return given
            text = f"({given.text}) * {names[path]}"
            return Expression.parse(_LIMITS.get(path.rpartition(".")[2], "{}").format(text))

        def of_table(prefix: str, given: Mapping[str, Expression]) -> dict[str, Expression]:
            return {key: off(f"{prefix}{key}", e) for key, e in given.items()}

        accesses: dict[str, Any] = {
            f"{section}es": tuple(
                replace(a, **of_table(f"{section}.{a.name}.", dict(a.expressions())))
                for a in getattr(kernel, f"{section}es")
            )
            for section in ("global_access", "shared_access")
        }
        stages = (
            replace(s, expressions=of_table(f"stage.{s.name}.", s.expressions))
            for s in kernel.stages
        )
        return replace(
            kernel,
            derived=of_table("derived.", kernel.derived),
            expressions=of_table("", kernel.expressions),
            stages=tuple(stages),
            **accesses,
        )

    def _device(self, factors: Mapping[str, Any]) -> Device:
        """Return the device with its parameters off, and with what follows from them."""
        values: dict[str, Any] = dict(self.device.values)
        models = {name: dict(table) for name, table in self.device.model_parameters.items()}
        limits = {p.key: (p.minimum, p.maximum) for p in get_model(self.model).parameters}
        for one in self.parameters:
            table, _, key = one.path.rpartition(".")
            if one.is_of_kernel:
                continue
            if table.startswith("model."):
                own: Any = models[self.model][key]
                models[self.model][key] = np.clip(own * factors[one.name], *limits[key])
            else:
                path = f"{table}.{split_unit(key)[0]}"
                values[path] = values[path] * factors[one.name]
        device = replace(self.device, values=values, model_parameters=models)
        return with_derived(device, model_names()) if self.plan.derive else device

    @cached_property
    def _parts(self) -> list[tuple[list[int], tuple[Dimension, ...], Configurations]]:
        """The configurations of each pair of clocks: their columns, the clocks, their values."""
        swept = [d for d in self.space.grid.dimensions if d.is_clock]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, row in enumerate(self.rows):
            groups.setdefault(tuple(row[d.name] for d in swept), []).append(number)
        names = (*self.space.kernel.sizes, *self.space.kernel.parameters)
        rows, fixed = self.rows, self.space.fixed
        return [
            (
                columns,
                tuple(replace(d, values=(v,)) for d, v in zip(swept, clocks, strict=True)),
                Configurations.of({n: [rows[i].get(n, fixed.get(n)) for i in columns]
                                   for n in names}),
            )
            for clocks, columns in groups.items()
        ]  # fmt: skip


def grouped(rows: Sequence[Any]) -> Iterator[tuple[tuple[str, str, str], list[int]]]:
    """Yield kernel, device and model with the numbers of their rows that have a time."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, row in enumerate(rows):
        if row.get("status", "valid") == "valid":
            groups.setdefault((row["kernel"], row["device"], row["model"]), []).append(number)
    yield from groups.items()

"""Questions as methods of xarray's data: ``ds.sweep.best()``, ``ds.sweep.explain(...)``.

Whatever opens or computes results with :mod:`sweep` brings the accessor along. For data that xarray
itself opened, import this module.

>>> import sweep
>>> plan = sweep.Plan(kernels=["vector_add"], devices=["gtx_980_paper"], models=["wang_chu"])
>>> results = sweep.evaluate(plan)
>>> answer = results.sweep.best()
>>> answer.rows == sweep.best(results).rows
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr

import sweep

if TYPE_CHECKING:
    from sweep.explanation.sections import Explanation

__all__ = ["Questions"]


@xr.register_dataset_accessor("sweep")
@xr.register_datatree_accessor("sweep")
class Questions:
    """The questions of :mod:`sweep` to one dataset or tree of datasets.

    Each method takes what the function of the same name takes after its first argument.
    """

    def __init__(self, data: xr.Dataset | xr.DataTree) -> None:
        self._data = data

    def best(self, *arguments: Any, **options: Any) -> sweep.Answer:
        """Return the best configuration of every group: :func:`sweep.best`."""
        return sweep.best(self._data, *arguments, **options)

    def top(self, n: int, *arguments: Any, **options: Any) -> sweep.Answer:
        """Return the ``n`` best configurations: :func:`sweep.top`."""
        return sweep.top(self._data, n, *arguments, **options)

    def pareto(self, *arguments: Any, **options: Any) -> sweep.Answer:
        """Return the configurations that no other one dominates: :func:`sweep.pareto`."""
        return sweep.pareto(self._data, *arguments, **options)

    def summary(self, **options: Any) -> sweep.Answer:
        """Return points, statuses, regimes and minima: :func:`sweep.summary`."""
        return sweep.summary(self._data, **options)

    def histogram(self, *arguments: Any, **options: Any) -> sweep.Answer:
        """Count configurations by a variable's values or codes: :func:`sweep.histogram`."""
        return sweep.histogram(self._data, *arguments, **options)

    def validate(self, measurements: Any, **options: Any) -> sweep.Answer:
        """Compare these predictions with measured times: :func:`sweep.validate`."""
        return sweep.validate(self._data, measurements, **options)

    def explain(self, **configuration: Any) -> Explanation:
        """Show how a model arrives at one configuration's time: :func:`sweep.explain`.

        Names that the configuration leaves out take the values of the best one. The tree of a store
        is explained from its record; other results from the device and kernel files of these names.

        Raises
        ------
        QueryError
            Nothing is selected, or a kernel's file is no longer the one of these results.
        """
        best = self.top(1, select=configuration)
        if not best:
            raise sweep.QueryError("explain: no selected configuration has a time")
        root = self._data.root if isinstance(self._data, xr.DataTree) else self._data
        record = root.attrs.get("record")
        return sweep.explain(self._plan() if record is None else record, best[0].configuration)

    def _plan(self) -> sweep.Plan:
        """Return a plan of the kernels, devices and models of these results."""
        data = self._data
        groups = data.subtree if isinstance(data, xr.DataTree) else [data]
        kernels = {g.attrs["kernel"]: g for g in groups if "kernel" in g.attrs}
        for name, group in kernels.items():
            if sweep.load_kernel(name).sha256 != group.attrs["kernel_sha256"]:
                raise sweep.QueryError(f"explain: the file of kernel '{name}' has changed since")
        group = next(iter(kernels.values()))
        devices, models = (
            [str(v) for v in group.coords[n].values.flat] for n in ("device", "model")
        )
        variant = group.attrs["variant"]
        return sweep.Plan(kernels=list(kernels), devices=devices, models=models, variant=variant)

    def plot(self, kind: str, *arguments: Any, **options: Any) -> Any:
        """Draw these results: ``plot("heatmap", x, y)`` is ``sweep.plot.heatmap(data, x, y)``."""
        kinds = sweep.plot.KINDS
        if kind not in kinds:
            raise sweep.QueryError(f"plot: no kind '{kind}'; one of {', '.join(kinds)}")
        return getattr(sweep.plot, kinds[kind])(self._data, *arguments, **options)

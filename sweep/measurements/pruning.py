"""Predictions inside Triton's auto-tuner: which configurations are worth timing for a shape.

``triton.autotune`` calls ``prune_configs_by["early_config_prune"](configs, named_args, **kwargs)``
once for each new key with its arguments by name and the other keywords of the launch, and expects
at least one configuration back. It calls ``perf_model(**named_args, **kwargs, **config)`` once for
each configuration (triton-lang/triton, python/triton/runtime/autotuner.py,
``Autotuner.prune_configs``). So the first, which predicts all configurations in one go, prunes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import QueryError, check_known, nearest
from sweep.evaluation.problems import Problems
from sweep.fields import Array
from sweep.runs.record import space_of
from sweep.space import Plan

Size = str | float | Callable[[Mapping[str, Any]], float]
"""Where a size comes from: an argument's name, a number, or a function of all arguments."""

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What a ``triton.Config`` holds beside the kernel's own parameters."""

KEPT = 4096
"""Shapes whose predictions are remembered."""


class TritonPruner:
    """Keeps the configurations that are predicted to be the fastest for a launch's sizes.

    Parameters
    ----------
    kernel : str
        The kernel file: its name, or its path.
    device : str
        The device file.
    sizes : mapping
        For each problem size of the kernel file the name of the kernel's argument, a number, or a
        function of all arguments by name. Sizes that are left out are those of the kernel file, or
        the argument of the same name in another case.
    parameters : mapping of str to str, optional
        For parameters of the kernel file whose name differs in the configurations: that name. One
        that a configuration lacks must have a single value in the kernel file.
    model, variant : str
        What predicts.

    Raises
    ------
    SweepError
        A file is wrong, or a name is unknown.

    Examples
    --------
    >>> pruner = TritonPruner("triton_matmul", "a100_80gb", {"m": "M", "n": "N", "k": "K"})
    >>> sorted(pruner.prune_configs_by(top_k=4))
    ['early_config_prune']
    """

    def __init__(
        self,
        kernel: str,
        device: str,
        sizes: Mapping[str, Size],
        *,
        parameters: Mapping[str, str] | None = None,
        model: str = "combined",
        variant: str = "revised",
    ) -> None:
        self._space = space_of(Plan((kernel,), (device,), (model,), variant=variant))
        self.kernel = self._space.kernels[0].kernel
        self.sizes, self.parameters = dict(sizes), dict(parameters or {})
        for given, known in ((sizes, self.kernel.sizes), (self.parameters, self.kernel.parameters)):
            for name in given:
                check_known(name, known, f"kernel '{self.kernel.key}' has no '{name}'", "it has")
        self._problems: dict[tuple[Any, ...], Problems] = {}
        self._times: dict[tuple[Any, ...], Array] = {}
        self._held: dict[tuple[int, ...], list[Any]] = {}
        self._lock = threading.Lock()

    def prune_configs_by(self, top_k: int = 8) -> dict[str, Any]:
        """Return the argument of ``triton.autotune``.

        Parameters
        ----------
        top_k : int
            How many configurations are kept, and then timed, for each new shape.
        """
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            raise QueryError(f"top_k = {top_k!r}: a whole number, 1 or more")

        def early_config_prune(
            configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any
        ) -> list[Any]:
            return self.best(configs, {**named_args, **kwargs}, top_k)

        return {"early_config_prune": early_config_prune}

    def best(self, configs: Sequence[Any], arguments: Mapping[str, Any], n: int) -> list[Any]:
        """Return the configurations that are predicted to be the fastest, best first.

        Parameters
        ----------
        configs : sequence of triton.Config
            All of them.
        arguments : mapping
            The launch's arguments by name.
        n : int
            How many. Without any predicted time all are returned, since a tuner needs one.
        """
        times = self.times(configs, arguments)
        timed = int(np.isfinite(times).sum())
        order = np.argsort(times, kind="stable")[: min(n, timed)]
        return [configs[i] for i in order] if timed else list(configs)

    def times(self, configs: Sequence[Any], arguments: Mapping[str, Any]) -> Array:
        """Return the predicted time of each configuration [s], NaN for those without one.

        Parameters
        ----------
        configs : sequence of triton.Config
            Anything with ``kwargs`` and the options of a launch, or a mapping with all of them.
        arguments : mapping
            The launch's arguments by name.
        """
        key = self._key_of(configs)
        sizes = self._sizes_of(arguments)
        with self._lock:
            found = self._times.get((key, *sizes.values()))
            if found is None:
                if key not in self._problems:
                    self._problems[key] = self._prepared(configs, tuple(sizes))
                listed = {name: np.array([value]) for name, value in sizes.items()}
                found = self._problems[key].with_sizes(listed).times()[0]
                if len(self._times) >= KEPT:
                    self._times.pop(next(iter(self._times)))
                self._times[key, *sizes.values()] = found
        return found

    def perf_model(self, **arguments: Any) -> float:
        """Return the predicted time of one configuration [s], infinite if it has none.

        For tuners that ask one by one; ``early_config_prune`` is much faster for many.
        """
        names = {*self.kernel.parameters, *self.parameters.values(), *OPTIONS}
        config = {name: value for name, value in arguments.items() if name in names}
        time = float(self.times([config], arguments)[0])
        return time if np.isfinite(time) else np.inf

    def _sizes_of(self, arguments: Mapping[str, Any]) -> dict[str, float]:
        """Return the problem sizes of a launch that its arguments decide."""
        lower = {name.lower(): name for name in arguments}
        found: dict[str, float] = {}
        for name in self.kernel.sizes:
            origin = self.sizes.get(name, lower.get(name.lower()))
            if origin is None:
                continue
            if isinstance(origin, str):
                what = f"size '{name}' is the argument '{origin}', which the launch lacks"
                check_known(origin, arguments, what, "it has")
                origin = arguments[origin]
            value = origin(arguments) if callable(origin) else origin
            try:
                found[name] = float(value)
            except (TypeError, ValueError):
                raise QueryError(f"size '{name}' is {value!r:.60}: must be a number") from None
            if not 0 < found[name] < np.inf:
                raise QueryError(f"size '{name}' is {found[name]:g}: must be a number above 0")
        return found

    def _key_of(self, configs: Sequence[Any]) -> tuple[Any, ...]:
        """Return what tells lists of configurations apart: mappings by value, objects as such.

        A tuner passes the same objects for each shape; they are held, so that no id is reused.
        """
        if all(isinstance(config, Mapping) for config in configs):
            return tuple(tuple(sorted(config.items())) for config in configs)
        key = tuple(map(id, configs))
        self._held.setdefault(key, list(configs))
        return key

    def _prepared(self, given: Sequence[Any], sizes: Sequence[str]) -> Problems:
        """Return the configurations of a list as those of the kernel file."""
        configs = [_all_of(config) for config in given]
        columns = {}
        for name, known in self.kernel.parameters.items():
            own = self.parameters.get(name, name)
            there = [own in config for config in configs]
            if any(there) and (all(there) or len(known) == 1):
                columns[name] = np.array([config.get(own, known[0]) for config in configs])
            elif len(known) > 1:
                raise QueryError(
                    f"parameter '{name}' of kernel '{self.kernel.key}' is not in the configurations"
                    f"{nearest(own, configs[0])} (they have {', '.join(configs[0])}): say which is"
                    f" by parameters={{'{name}': 'THEIR_NAME'}}"
                )
        listed = {name: np.ones(1) for name in sizes}
        return Problems.of(self._space, listed, configurations=columns)


def _all_of(config: Any) -> dict[str, Any]:
    """Return the parameters and options of a ``triton.Config``."""
    if isinstance(config, Mapping):
        return dict(config)
    options = ((name, getattr(config, name, None)) for name in OPTIONS)
    return {**config.kwargs, **{name: value for name, value in options if value is not None}}

"""Synthetic results in the documented layout, for tests of code that reads results.

No model is evaluated: the numbers are simple functions with an interior minimum, a regime border,
two models that differ, invalid configurations of several kinds, and power for one device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweep.fields import BOUND, COMMON_FIELDS, LIMITER, POWER_STATUS, STATUS

REGIMES = {
    "none": 0,
    "hong_kim_eq22": 1,
    "hong_kim_eq23": 2,
    "hong_kim_eq24": 3,
    "wang_chu_eq9": 10,
    "wang_chu_eq13": 12,
}
DEVICES = {"gtx_280": (602.0, 1107.0), "gtx_980": (1126.0, 3505.0)}  # nominal MHz
MODELS = ("hong_kim", "wang_chu")
CORE_RATIOS = (0.5, 0.7, 0.9, 1.0, 1.1)
MEMORY_RATIOS = (0.6, 0.8, 1.0)


def dataset(
    kernel: str = "matrix_multiply",
    *,
    parameters: Mapping[str, Sequence[Any]] | None = None,
    sizes: Mapping[str, Sequence[float]] | None = None,
    clocks: str = "ratio",
    core: Sequence[float] = CORE_RATIOS,
    memory: Sequence[float] = MEMORY_RATIOS,
    devices: Sequence[str] = tuple(DEVICES),
    models: Sequence[str] = MODELS,
    seed: int = 0,
) -> xr.Dataset:
    """Return one kernel's results; ``clocks`` is ``ratio``, ``MHz`` or ``nominal``."""
    parameters = {"block_size": (64, 128, 192, 256, 2000)} if parameters is None else parameters
    axes: dict[str, np.ndarray] = {
        "model": np.array(models, dtype=object),
        "device": np.array(devices, dtype=object),
    }
    for name, values in {**(sizes or {}), **parameters}.items():
        kind = object if isinstance(values[0], str) else None
        axes[name] = np.array(values, dtype=kind)
    if clocks == "ratio":
        axes |= {"core_clock_ratio": np.array(core), "memory_clock_ratio": np.array(memory)}
    elif clocks == "MHz":
        axes |= {"core_clock": np.array(core), "memory_clock": np.array(memory)}
    grid = _Grid(axes)
    nominal = np.array([DEVICES[name] for name in devices])
    core_mhz, memory_mhz = _clocks(grid, clocks, nominal)
    variables = _variables(grid, core_mhz, memory_mhz, seed)
    coords: dict[str, Any] = {name: ((name,), values) for name, values in axes.items()}
    for name, nominals in (("core_clock", nominal[:, 0]), ("memory_clock", nominal[:, 1])):
        ratio = f"{name}_ratio"
        if ratio in axes:
            coords[name] = (("device", ratio), nominals[:, None] * axes[ratio])
        elif name not in axes:
            coords[name] = (("device",), nominals)
    result = xr.Dataset(variables, coords, {"kernel": kernel, "title": f"{kernel} (made up)"})
    for name in ("core_clock", "memory_clock"):
        result[name].attrs.update(units="MHz", long_name=name.replace("_", " "))
    for name in set(parameters) | set(sizes or {}):
        result[name].attrs.update(units="1", long_name=name.replace("_", " "))
    return result


class _Grid:
    """Axes, and arrays over some of them with size 1 along the others."""

    def __init__(self, axes: dict[str, np.ndarray]) -> None:
        self.axes = axes
        self.dims = tuple(axes)

    def along(self, name: str, values: Any) -> np.ndarray:
        axis = self.dims.index(name)
        shape = [1] * len(self.dims)
        shape[axis] = -1
        return np.asarray(values).reshape(shape)

    def variable(self, name: str, values: np.ndarray, dims: Sequence[str], **attrs: Any) -> Any:
        kept = tuple(d for d in self.dims if d in dims)
        shape = tuple(len(self.axes[d]) if d in kept else 1 for d in self.dims)
        full = np.broadcast_to(values, shape).reshape([len(self.axes[d]) for d in kept])
        field = COMMON_FIELDS.get(name)
        known = field.attributes() if field is not None else {}
        return (kept, np.array(full), known | attrs)


def _clocks(grid: _Grid, clocks: str, nominal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both clocks in MHz over the grid."""
    found = []
    for column, name in enumerate(("core_clock", "memory_clock")):
        if clocks == "MHz":
            found.append(grid.along(name, grid.axes[name]).astype(float))
            continue
        mhz = grid.along("device", nominal[:, column])
        if clocks == "ratio":
            mhz = mhz * grid.along(f"{name}_ratio", grid.axes[f"{name}_ratio"])
        found.append(mhz)
    return found[0], found[1]


def _variables(grid: _Grid, core: np.ndarray, memory: np.ndarray, seed: int) -> dict[str, Any]:
    """Return every variable of the documented layout."""
    dims = grid.dims
    launch = [d for d in dims if d not in ("model",) and "clock" not in d]
    own = [d for d in dims if d not in ("model", "device") and "clock" not in d]
    threads = np.full((1,) * len(dims), 256.0)
    work = np.ones((1,) * len(dims))
    for name in own:
        values = grid.axes[name]
        if values.dtype.kind not in "iuf":
            work = work * grid.along(name, 1.0 + 0.2 * np.arange(len(values)))
        elif name == "block_size":
            threads = grid.along(name, values.astype(float))
        else:
            work = work * grid.along(name, 1.0 + np.abs(np.log2(values.astype(float) / 16)))
    is_hong_kim = grid.along("model", grid.axes["model"] == "hong_kim")
    is_big = grid.along("device", grid.axes["device"] == "gtx_980")
    occupancy = np.clip(np.floor(1024 / threads) * threads / np.where(is_big, 2048, 1024), 0, 1)
    status = np.where(threads > 1024, STATUS["block_too_large"], 0)
    status = np.where(core / memory > 0.97, STATUS["clock_out_of_range"], status)
    compute = 3e-2 * work * (1 + (threads / 192 - 1) ** 2) / core / np.where(is_big, 3, 1)
    transfer = 2.2e-2 * work / memory * (2 - occupancy)
    time = np.where(is_hong_kim, np.maximum(compute, transfer) * 1.1, compute + 0.6 * transfer)
    generator = np.random.default_rng(seed)
    shape = tuple(len(a) for a in grid.axes.values())
    time = time * (1 + 0.01 * generator.random(shape))
    bound = np.where(compute > transfer, BOUND["compute"], BOUND["memory"])
    parts = np.select([compute > 1.3 * transfer, compute > transfer], [1, 2], 3)
    regime = np.where(is_hong_kim, parts, np.where(parts == 3, 12, 10))
    volt = np.maximum(0.85, 0.6 + 0.5 * core / 1126.0)
    power = 40 + 80 * volt**2 * core / 1126.0 + 25 * memory / 3505.0
    valid = status == 0
    power_status = np.where(is_big, 0, POWER_STATUS["missing_parameters"])
    power_status = np.where(valid, power_status, POWER_STATUS["no_time"])
    time = np.where(valid, time, np.nan).astype(np.float32)
    power = np.where(power_status == 0, power, np.nan).astype(np.float32)
    occupied = np.where(threads > 1024, np.nan, occupancy).astype(np.float32)
    variable, full = grid.variable, list(dims)
    flags = {"flag_values": list(REGIMES.values()), "flag_meanings": " ".join(REGIMES)}
    return {
        "active_warps_per_sm": variable("active_warps_per_sm", occupied * 32, launch),
        "assumed": variable(
            "assumed", np.where(is_hong_kim & ~is_big, "clocks.core_min", ""), ["model", "device"]
        ),
        "bound": variable("bound", np.where(valid, bound, 0).astype(np.uint8), full),
        "energy": variable("energy", time * power, full),
        "execution_time": variable("execution_time", time, full),
        "hong_kim_memory_warp_parallelism": variable(
            "hong_kim_memory_warp_parallelism",
            np.where(valid, transfer / compute, np.nan).max(axis=0, keepdims=True).astype("f4"),
            [d for d in dims if d != "model"],
            model="hong_kim",
            units="1",
            long_name="memory warp parallelism",
        ),
        "occupancy": variable("occupancy", occupied, launch),
        "occupancy_limiter": variable(
            "occupancy_limiter", np.full(threads.shape, LIMITER["warps"], np.uint8), launch
        ),
        "power": variable("power", power, full),
        "power_assumed": variable(
            "power_assumed",
            np.where(is_big, "power.static_W, power.core_voltage", ""),
            ["device"],
        ),
        "power_status": variable("power_status", power_status.astype(np.uint8), full),
        "regime": variable("regime", np.where(valid, regime, 0).astype(np.uint8), full, **flags),
        "status": variable("status", status.astype(np.uint8), full),
        "threads_per_block": variable("threads_per_block", threads.astype("f4"), launch),
    }


def tree(**kernels: xr.Dataset) -> xr.DataTree:
    """Return several kernels' results as a tree."""
    return xr.DataTree.from_dict({f"/{name}": data for name, data in kernels.items()})


def three_kernels() -> xr.DataTree:
    """Return kernels with different parameters, including a string parameter."""
    return tree(
        matrix_multiply=dataset(parameters={"tile": (4, 8, 16)}, sizes={"n": (512, 1024)}),
        black_scholes=dataset("black_scholes"),
        transpose=dataset(
            "transpose", parameters={"layout": ("row", "column"), "block_size": (128, 256, 2000)}
        ),
    )


def flattened(data: xr.Dataset | xr.DataTree) -> list[dict[str, Any]]:
    """Return every configuration as a dict, kernels sorted by name, points in dimension order."""
    if isinstance(data, xr.Dataset):
        data = tree(**{data.attrs["kernel"]: data})
    found = []
    for name in sorted(data.children):
        dataset = data[name].to_dataset()
        dims = dataset["execution_time"].dims
        full = {
            key: np.broadcast_to(
                variable.values.reshape(
                    [dataset.sizes[d] if d in variable.dims else 1 for d in dims]
                ),
                dataset["execution_time"].shape,
            ).ravel()
            for key, variable in dataset.variables.items()
        }
        for i in range(dataset["execution_time"].size):
            found.append({"kernel": name} | {key: values[i] for key, values in full.items()})
    return found


def is_valid(point: dict[str, Any], *objectives: str) -> bool:
    """Return whether a configuration can win."""
    power = {"power", "energy"} & set(objectives)
    return (
        point["status"] == 0
        and (not power or point["power_status"] == 0)
        and not any(math.isnan(point[o]) for o in objectives)
    )


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the position of a row or point as a comparable tuple."""
    names = ["kernel", "model", "device", "block_size", "tile", "n", "layout"]
    names += ["core_clock", "memory_clock"]
    return tuple(row.get(name) for name in names)

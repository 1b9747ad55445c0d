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
    "none": 0, "hong_kim_eq22": 1, "hong_kim_eq23": 2, "hong_kim_eq24": 3, "wang_chu_eq9": 10,
    "wang_chu_eq13": 12,
}  # fmt: skip
DEVICES = {"gtx_280": (602.0, 1107.0), "gtx_980": (1126.0, 3505.0)}  # nominal MHz
MODELS = ("hong_kim", "wang_chu")
CLOCKS = ("core_clock", "memory_clock")
CORE_RATIOS = (0.5, 0.7, 0.9, 1.0, 1.1)
MEMORY_RATIOS = (0.6, 0.8, 1.0)
BLOCKS = {"block_size": (64, 128, 192, 256, 2000)}


def dataset(
    kernel: str = "matrix_multiply",
    *,
    parameters: Mapping[str, Sequence[Any]] = BLOCKS,
    clocks: str = "ratio",
    core: Sequence[float] = CORE_RATIOS,
    memory: Sequence[float] = MEMORY_RATIOS,
) -> xr.Dataset:
    """Return one kernel's results; ``clocks`` is ``ratio``, ``MHz`` or ``nominal``."""
    names = {"ratio": [f"{name}_ratio" for name in CLOCKS], "MHz": CLOCKS}.get(clocks, ())
    swept = dict(zip(names, (core, memory), strict=False))
    axes = {}
    for name, values in ({"model": MODELS, "device": tuple(DEVICES)} | parameters | swept).items():
        dtype = object if isinstance(values[0], str) else None
        axes[name] = xr.DataArray(np.array(values, dtype=dtype), dims=name)
    mhz, coords = [], dict(axes)
    for name, nominal in zip(CLOCKS, zip(*DEVICES.values(), strict=True), strict=True):
        clock = xr.DataArray(list(nominal), dims="device")
        if clocks == "ratio":
            clock = clock * axes[f"{name}_ratio"]
        mhz.append(axes[name].astype(float) if clocks == "MHz" else clock)
        coords.setdefault(name, clock)
    variables = _variables(axes, list(parameters), *mhz)
    coords = {name: (array.dims, array.values) for name, array in coords.items()}
    result = xr.Dataset(variables, coords, {"kernel": kernel, "title": f"{kernel} (made up)"})
    for name in (*CLOCKS, *parameters):
        units = "MHz" if name in CLOCKS else "1"
        result[name].attrs.update(units=units, long_name=name.replace("_", " "))
    return result


def _variables(
    axes: Mapping[str, xr.DataArray], own: list[str], core: Any, memory: Any
) -> dict[str, Any]:
    """Return every variable of the documented layout."""
    threads, work = xr.DataArray(256.0), xr.DataArray(1.0)
    for name in own:
        if axes[name].dtype.kind not in "iuf":
            work = work * xr.DataArray(1.0 + 0.2 * np.arange(axes[name].size), dims=name)
        elif name == "block_size":
            threads = axes[name].astype(float)
        else:
            work = work * (1.0 + np.abs(np.log2(axes[name].astype(float) / 16)))
    is_hong_kim, is_big = axes["model"] == "hong_kim", axes["device"] == "gtx_980"
    occupancy = np.floor(1024 / threads) * threads / xr.where(is_big, 2048, 1024)
    occupancy = occupancy.clip(0, 1)
    status = xr.where(threads > 1024, STATUS["block_too_large"], 0)
    status = xr.where(core / memory > 0.97, STATUS["clock_out_of_range"], status)
    compute = 3e-2 * work * (1 + (threads / 192 - 1) ** 2) / core / xr.where(is_big, 3, 1)
    transfer = 2.2e-2 * work / memory * (2 - occupancy)
    time = xr.where(is_hong_kim, np.maximum(compute, transfer) * 1.1, compute + 0.6 * transfer)
    noise = np.random.default_rng(0).random([axis.size for axis in axes.values()])
    time = time * (1 + 0.01 * xr.DataArray(noise, dims=list(axes)))
    is_compute = compute > transfer
    bound = xr.where(is_compute, BOUND["compute"], BOUND["memory"])
    parts = xr.where(compute > 1.3 * transfer, 1, xr.where(is_compute, 2, 3))
    regime = xr.where(is_hong_kim, parts, xr.where(parts == 3, 12, 10))
    volt = np.maximum(0.85, 0.6 + 0.5 * core / 1126.0)
    power = 40 + 80 * volt**2 * core / 1126.0 + 25 * memory / 3505.0
    valid = status == 0
    power_status = xr.where(is_big, 0, POWER_STATUS["missing_parameters"])
    power_status = xr.where(valid, power_status, POWER_STATUS["no_time"])
    time = xr.where(valid, time, np.nan).astype("f4")
    power = xr.where(power_status == 0, power, np.nan).astype("f4")
    occupied = xr.where(threads > 1024, np.nan, occupancy).astype("f4")
    parallelism = xr.where(valid, transfer / compute, np.nan).astype("f4")
    launch = ["device", *own]
    single = [name for name in axes if name != "model"]
    full = list(axes)
    found = {
        "active_warps_per_sm": (occupied * 32, launch),
        "assumed": (xr.where(is_hong_kim & ~is_big, "clocks.core_min", ""), ["model", "device"]),
        "bound": (xr.where(valid, bound, 0), full),
        "energy": (time * power, full),
        "execution_time": (time, full),
        "hong_kim_memory_warp_parallelism": (parallelism, single),
        "occupancy": (occupied, launch),
        "occupancy_limiter": (xr.full_like(threads, LIMITER["warps"]), launch),
        "power": (power, full),
        "power_assumed": (xr.where(is_big, "power.static_W, power.core_voltage", ""), ["device"]),
        "power_status": (power_status, full),
        "regime": (xr.where(valid, regime, 0), full),
        "status": (status, full),
        "threads_per_block": (threads.astype("f4"), launch),
    }
    codes = ("bound", "occupancy_limiter", "power_status", "regime", "status")
    attributes = {name: field.attributes() for name, field in COMMON_FIELDS.items()}
    flags = {"flag_values": list(REGIMES.values()), "flag_meanings": " ".join(REGIMES)}
    attributes["regime"] |= flags
    attributes["hong_kim_memory_warp_parallelism"] = {
        "model": "hong_kim", "units": "1", "long_name": "memory warp parallelism",
    }  # fmt: skip
    shape = {name: axis.size for name, axis in axes.items()}
    result = {}
    for name, (values, dims) in found.items():
        values = values.expand_dims({d: shape[d] for d in dims if d not in values.dims})
        values = values.transpose(*dims).astype("u1" if name in codes else values.dtype)
        result[name] = (dims, values.values.copy(), attributes.get(name, {}))
    return result


def tree(**kernels: xr.Dataset) -> xr.DataTree:
    """Return several kernels' results as a tree."""
    return xr.DataTree.from_dict({f"/{name}": data for name, data in kernels.items()})


def three_kernels() -> xr.DataTree:
    """Return kernels with different parameters, including a string parameter."""
    return tree(
        matrix_multiply=dataset(parameters={"n": (512, 1024), "tile": (4, 8, 16)}),
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
        frame = dataset.reset_coords().to_dataframe(dim_order=dims).reset_index()
        found += [{"kernel": name} | row for row in frame.to_dict("records")]
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

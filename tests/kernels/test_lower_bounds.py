"""No prediction is faster than its data can pass DRAM, and than lanes and matrix units compute.

What must pass and be computed is in ``lower_bounds.toml``, counted from the algorithms, not from
the kernel files. Rates are the peak ones of the device files, at nominal clocks.
"""

import tomllib
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.space import Plan, resolve
from sweep.specs import list_devices, list_kernels, load_device, load_kernel

CASES = tomllib.loads((Path(__file__).parent / "lower_bounds.toml").read_text("utf-8"))
DEVICES = {name: load_device(name).values for name in list_devices()}
SIZES, CONFIGURATIONS, SEED = 6, 100, 0  # of each kernel, drawn at random
EXACT = 1 - 1e-6  # but for rounding
LANES = {"fp32": "lanes_per_sm", "fp64": "fp64_lanes_per_sm", "special": "special_lanes_per_sm",
         "integer": "integer_lanes_per_sm"}  # fmt: skip
TYPES = {8: ("fp8", "int8", "fp16"), 16: ("fp16",), 32: ("tf32", "fp32"), 64: ("fp64",)}
# Two multiply-adds a lane: packed on CDNA 2 and 3, in pairs on RDNA 3 (AMD's white papers).
TWICE = ("mi210", "mi250x", "mi300x", "mi325x", "radeon_pro_w7800", "radeon_rx_7900_xtx")


def lanes(kind):
    """Return each device's lanes, of single precision where it has none of double precision."""
    path, single = f"chip.{LANES[kind]}", "chip.lanes_per_sm"
    twice = [1 + (kind == "fp32" and name in TWICE) for name in DEVICES]
    found = [v.get(path) or v[single] * (kind == "fp64") for v in DEVICES.values()]
    return np.array(found) * twice


def multiply_adds(bits):
    """Return each device's multiply-adds a cycle and multiprocessor, of units or else of lanes."""
    paths = [f"matrix.{kind}_multiply_adds" for kind in TYPES[bits]]
    units = [max(v.get(path, 0) for path in paths) for v in DEVICES.values()]
    return np.maximum(units, lanes("fp64" if bits == 64 else "fp32") if bits >= 32 else 0)


def sampled(key, axes):
    """Return a plan, and of its space some sizes with the same configurations for each."""
    rng, sizes = np.random.default_rng(SEED), [n for n in axes if n in load_kernel(key).sizes]
    rows = list(product(*(axes[name] for name in sizes)))
    rows = [rows[i] for i in rng.permutation(len(rows))[:SIZES]]
    problems = {name: [row[i] for row in rows] for i, name in enumerate(sizes)} or None
    more = {name: tuple(values) for name, values in axes.items() if name not in sizes}
    plan = Plan((key,), tuple(DEVICES), ("combined",), variant="revised", problems=problems,
                axes=more, precision="float64", layout="stacked", store=False)  # fmt: skip
    (space,) = resolve(plan).kernels
    listed = len(space.grid.dimensions[-1].values)
    few = np.sort(rng.permutation(listed)[:CONFIGURATIONS])
    return plan, space.restricted({"configuration": few})


def test_every_kernel_has_a_bound():
    assert set(CASES) == set(list_kernels())


@pytest.mark.parametrize("key", CASES)
def test_no_prediction_is_below(key):
    plan, space = sampled(key, CASES[key].get("axes", {}))
    launch, found = build_launch(space), evaluate_box(space, plan, space.grid.whole)
    time, is_valid = found["execution_time"][0], found["status"][0] == STATUS["valid"]

    def over(values):  # each device's, or a launch's without its clocks
        values = np.asarray(values, np.float64)
        shape = (*values.shape, *(1,) * time.ndim)[: time.ndim]
        return np.broadcast_to(values.reshape(shape), time.shape)

    def of_devices(path):
        return over([values.get(path, 0) for values in DEVICES.values()])

    kernel = load_kernel(key)
    numbers = {n: over(launch.values[n]) for n in (*kernel.sizes, *kernel.parameters, "sm_count")}
    numbers["l2_bytes"] = of_devices("chip.l2") + of_devices("chip.memory_side_cache")
    least = {n: over(eval(text, {}, numbers)) for n, text in CASES[key].items() if n != "axes"}
    cycles = time * of_devices("clocks.core_nominal") * of_devices("chip.sm_count")
    room = {"bytes": time * of_devices("chip.memory_bandwidth")}
    for kind in set(least) & set(LANES):
        room[kind] = cycles * over(lanes(kind))
    if "matrix" in least:
        of_bits = [(numbers["bits"] == bits) * over(multiply_adds(bits)) for bits in TYPES]
        room["matrix"] = cycles * sum(of_bits)
    assert is_valid.any()
    assert set(room) == set(least)
    for kind, most in room.items():
        assert np.all((most >= least[kind] * EXACT)[is_valid]), kind
    moved = over(launch.workload.dram_bytes)
    assert np.all((moved >= least["bytes"] * EXACT)[is_valid])

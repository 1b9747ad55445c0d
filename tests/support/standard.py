"""Plans of the standard tests of all models: real files, and every kind of outcome."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from sweep.evaluation.chunk import Buffers, evaluate_box
from sweep.fields import COMMON_FIELDS
from sweep.models import get_model
from sweep.space import KernelSpace, Plan, resolve
from sweep.specs import list_devices, load_device

# The oldest and the newest device of the papers and one between: three rules of coalescing.
PREFERRED = {"quadro_fx_5600": 0, "gtx_280": 1, "gtx_980_paper": 2}

AXES: dict[str, dict[str, list[int]]] = {
    "svm": {"block_size": [4, 100, 513, 1025]},
    "sepia": {"block_size": [4, 32, 80, 512]},
    "mat_tiled": {"tile": [4, 13, 16, 20]},
    "micro_coalesced": {"benchmark": [1, 4, 7], "block_size": [64, 256]},
    "transpose": {"tile": [16, 32], "block_rows": [2, 8, 64], "padding": [0, 1],
                  "tiles_per_block": [1, 4]},
    "matrixmul_shared": {"tile": [16, 32, 64], "work_per_thread": [1, 4], "unroll": [2, 16]},
}  # fmt: skip
CLOCKS = {"core_clock_ratio": [0.5, 0.8, 1.0, 1.2], "memory_clock_ratio": [0.8, 1.0, 1.2]}


@cache
def devices_of(model: str) -> tuple[str, ...]:
    """Return shipped devices that have a model's parameters; there is at least one."""
    found = [name for name in list_devices() if model in load_device(name).model_parameters]
    return tuple(sorted(found, key=lambda name: PREFERRED.get(name, 9))[:3])


@cache
def device_without(model: str) -> tuple[str, ...]:
    """Return a shipped device that lacks a model's parameters, if there is one."""
    lacking = [name for name in list_devices() if model not in load_device(name).model_parameters]
    return tuple(lacking[:1])


def plan_for(
    model: str, variant: str, clocks: Mapping[str, Any] | None = None, **keys: Any
) -> Plan:
    """Return the standard plan for one model, with all variables.

    It has blocks that are too large, violated constraints, clocks out of range and, if there is
    one, a device without the model's parameters.
    """
    kernels = keys.pop("kernels", tuple(AXES))
    return Plan(
        kernels=kernels,
        devices=(*devices_of(model), *device_without(model)),
        models=[model],
        variant=variant,
        precision="float64",
        outputs=(*COMMON_FIELDS, *(field.name for field in get_model(model).fields)),
        axes=CLOCKS if clocks is None else clocks,
        kernel_axes={kernel: AXES[kernel] for kernel in kernels},
        **keys,
    )


def whole(plan: Plan) -> dict[str, dict[str, np.ndarray]]:
    """Evaluate each kernel of a plan in one box."""
    return {
        space.kernel.key: evaluate_box(space, plan, space.grid.whole)
        for space in resolve(plan).kernels
    }


def assembled(
    space: KernelSpace, plan: Plan, buffers: Buffers | None = None
) -> dict[str, np.ndarray]:
    """Evaluate a kernel chunk by chunk and assemble the results."""
    result: dict[str, np.ndarray] = {}
    n_launch = sum(d.kind not in ("core", "memory") for d in space.grid.dimensions)
    for box in space.grid.boxes():
        for name, part in evaluate_box(space, plan, box, buffers=buffers).items():
            models = part.shape[: part.ndim - len(space.grid.shape)]
            is_launch = part.ndim == n_launch
            dims = n_launch if is_launch else len(space.grid.shape)
            shape = (() if is_launch else models) + space.grid.shape[:dims]
            target = result.setdefault(name, np.zeros(shape, part.dtype))
            target[(..., *box.slices[:dims])] = part
    return result


def same_bits(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> None:
    """Assert that two results are equal to the bit, including NaN."""
    assert list(left) == list(right)
    for name, values in left.items():
        other = np.ascontiguousarray(right[name])
        assert (values.dtype, values.shape) == (other.dtype, other.shape), name
        bits = np.dtype(f"u{values.dtype.itemsize}")
        differ = np.ascontiguousarray(values).view(bits) != other.view(bits)
        assert not differ.any(), f"{name}: {differ.sum()} of {differ.size} differ"

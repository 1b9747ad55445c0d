"""Short forms in which papers' modules declare inputs and parameters, and what bounds a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweep.fields import BOUND, Parameter
from sweep.hardware.derived import Rule
from sweep.models.base import Input

COMPUTE, MEMORY, SHARED, LATENCY, SYNCHRONISATION = (
    float(BOUND[name]) for name in ("compute", "memory", "shared", "latency", "synchronisation")
)
"""What bounds a time, as numbers that bodies return."""

PROVIDED: Mapping[str, tuple[str, ...]] = {
    "active_blocks_per_sm": ("occupancy.active_blocks_per_sm", "1", "occupancy rules"),
    "active_sm": ("occupancy.active_sm", "1", "occupancy rules"),
    "active_warps_per_sm": ("occupancy.active_warps_per_sm", "1", "occupancy rules"),
    "limit_by_blocks": ("occupancy.limit_by_blocks", "1", "occupancy rules"),
    "shared_memory_per_block": ("shared_memory_per_block", "B", "kernel launch"),
    "shared_memory_per_sm": ("shared_memory_per_sm", "B", "occupancy rules"),
    "warps_per_block": ("occupancy.warps_per_block", "1", "kernel launch"),
    "blocks": ("blocks", "1", "kernel launch"),
    "threads_per_block": ("threads_per_block", "1", "kernel launch"),
    "lanes": ("lanes", "1", "kernel launch"),
    "computation_instructions":
        ("computation_instructions", "1", "kernel instructions, shared accesses and barriers"),
    "barriers": ("barriers", "1", "kernel barriers"),
    "outer_iterations": ("outer_iterations", "1", "kernel loops"),
    "inner_iterations": ("inner_iterations", "1", "kernel loops"),
    "l2_hit_rate": ("l2_hit_rate", "1", "kernel cache"),
    "asynchronous": ("asynchronous", "1", "kernel matrix instructions"),
    "specialized": ("specialized", "1", "kernel launch"),
    "instruction_parallelism": ("instruction_parallelism", "1", "kernel parallelism"),
    "n_sm": ("n_sm", "1", "device", "chip.sm_count"),
    "warp_size": ("warp_size", "1", "device", "chip.warp_size"),
    "core_nominal": ("clocks.core_nominal", "Hz", "device", "clocks.core_nominal_MHz"),
    "core_clock": ("clocks.core", "Hz", "swept core clock"),
    "clock_ratio": ("clocks.ratio", "1", "swept clocks over nominal"),
}  # fmt: skip
"""Values of a workload that inputs of models may be: path in the workload, unit, where they come
from in words, and the device key that they rest on."""


def provided(symbol: str, printed: str, meaning: str, name: str = "") -> Input:
    """Return an input that is a value of the workload.

    Parameters
    ----------
    symbol, printed, meaning : str
        As for :class:`Input`.
    name : str
        Its name in :data:`PROVIDED`, by default the symbol.
    """
    path, units, origin, *keys = PROVIDED[name or symbol]
    clocked = path in ("clocks.core", "clocks.ratio")
    return Input(symbol, printed, units, meaning, origin, tuple(keys), clocked, value=path)


def of_device(symbol: str, printed: str, units: str, meaning: str, key: str = "") -> Input:
    """Return an input that is a number of the model's own table in device files.

    Parameters
    ----------
    symbol, printed, units, meaning : str
        As for :class:`Input`.
    key : str
        Its key in the table, by default the symbol.
    """
    key = key or symbol
    return Input(symbol, printed, units, meaning, "device", (key,), value=f"parameters.{key}")


def parameter(
    key: str,
    symbol: Sequence[str],
    minimum: float,
    maximum: float,
    rule: Rule | None = None,
    columns: tuple[str, ...] = (),
    required: bool = True,
) -> Parameter:
    """Return a parameter of the model's own table in device files.

    Parameters
    ----------
    key : str
        Its key in the table.
    symbol : Symbol
        Symbol, unit and meaning.
    minimum, maximum : float
        Its range, in its unit.
    rule : callable, optional
        What derives it where a device file lacks it.
    columns : tuple of str
        Of a table of rows.
    required : bool
        Whether the model needs it.
    """
    return Parameter(key, *symbol, required, minimum, maximum, columns, rule=rule)

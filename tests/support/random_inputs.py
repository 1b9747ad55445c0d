"""Random inputs of each model in the ranges of devices and kernels."""

import tomllib
from functools import partial
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

RANGES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def numbers(low, high):
    return st.floats(low, high)


def counts(low, high):
    return st.integers(low, high).map(float)


def choices(*values):
    return st.sampled_from(values)


KINDS = {"numbers": numbers, "counts": counts, "choices": choices}


@st.composite
def inputs(draw, model):
    """Draw inputs of a model by name."""
    table = RANGES[model]
    found = dict(table.get("fixed", {}))
    length = draw(st.integers(1, 4))
    for kind, strategy in KINDS.items():
        for name, values in table.get(kind, {}).items():
            found[name] = draw(strategy(*values))
        for name, values in table.get("sequences", {}).get(kind, {}).items():
            found[name] = tuple(draw(strategy(*values)) for _ in range(length))
    if model == "hong_kim":  # accesses of only some warps are fractions of an instruction
        uncoalesced, coalesced = draw(st.tuples(numbers(0, 50), numbers(0, 50)).filter(any))
        found |= {"uncoal_mem_insts": uncoalesced, "coal_mem_insts": coalesced}
        found["n"] = found["active_blocks_per_sm"] * np.ceil(found["threads_per_block"] / 32)
    elif model == "wang_chu":
        found["aw"] *= found["wpb"]
    elif model == "luo_suda":
        found["n_act"] = found["warps_per_block"] * found["active_blocks_per_sm"]
        found["weight"] = (1.0, *found["weight"][1:])
    elif model == "zhang_owens":
        found["threads_per_block"] = 32 * found["warps_per_block"]
        found["active_sm"] = min(found["number_sm"], found["blocks"])
    elif model == "lemeire":
        found["wg_size"] *= 32
        found |= {"active_cu": min(found["n_cu"], found["wg"]), "active_wg": found["max_conc_wg"]}
    if "n_sm" in found:
        found["active_sm"] = min(found["n_sm"], found["blocks"])
    return found


KERNELS = {model: partial(inputs, model) for model in RANGES}

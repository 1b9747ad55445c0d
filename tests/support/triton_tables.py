"""What Triton 3.9 made of products, experts and attention, and what the kernel files say of them.

`tests/data/triton/*_targets.csv` have 90, 25 and 70 configurations for each of five targets, drawn
at random, five of sm_100 with 128 and 256 sums a thread, 441 products with AMD's options, 153 with
strides that are no multiples of 16, 30 for each of five targets in double precision, 302 without
matrix units or tf32, 272 of FlexAttention, 72 of attention with kinds of warps, of experts 25 each
in fp8, with sm_90, and 26 each with scales along k for four targets: resources, instructions.
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from sweep.evaluation.launch import build_launch
from sweep.space import Plan, resolve

FOLDER = Path(__file__).parents[1] / "data" / "triton"
KINDS = {"fp16": (16.0, 0.0), "tf32": (32.0, 0.0), "fp32": (32.0, 0.0),
         "fp8": (8.0, 0.0), "int8": (8.0, 1.0), "fp64": (64.0, 0.0)}  # fmt: skip
DEVICE = {"gfx90a": "mi210", "gfx942": "mi300x", "gfx1100": "radeon_pro_w7800",
          "sm_100": "b200", "sm_120": "rtx_5090", "sm_90": "h100_sxm",
          "sm_80": "a100_80gb", "sm_89": "rtx_4090"}  # fmt: skip
SHARED = ("bits", "BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
OPTIONS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack")
AXES = {"matmul": (*SHARED, *OPTIONS, "is_integer", "a_by_column", "b_by_column", "BLOCK_K"),
        "matmul_fp64": (*SHARED, "a_by_column", "b_by_column", "BLOCK_K"),
        "matmul_ieee": (*SHARED, "a_by_column", "b_by_column", "BLOCK_K", "tf32"),
        "matmul_odd": (*SHARED, "b_by_column", "BLOCK_K", "n", "k"),
        "moe": ("bits", "BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages"),
        "moe_quant": (*(f"BLOCK_SIZE_{side}" for side in "MNK"), "num_warps", "num_stages"),
        "flash_attention": (*SHARED, "head", "causal"),
        "flash_attention_special": (*SHARED, "head", "causal"),
        "flex_attention": (*SHARED, "head", "causal")}  # fmt: skip
FILE_OF = {f"matmul_{of}": "matmul" for of in ("odd", "ieee", "fp64")}
FILE_OF |= dict.fromkeys(("flex_attention", "flash_attention_special"), "flash_attention")
FILE_OF["moe_quant"] = "moe"
FIXED = {
    "moe_quant": {"bits": [8.0], "block_shape": [128.0]},
    "flash_attention": {"sequence": [2.0**20]},
    "flash_attention_special": {"sequence": [2.0**20], "WARP_SPECIALIZE": [1.0]},
    "flex_attention": {"flex": [1.0]},
}


@cache
def compiled(kernel, target):
    """Return the compiled rows, products in 8 bits in one layout."""
    rows, text = [], (FOLDER / f"{kernel}_targets.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        kind = row.pop("kind", "fp16")
        bits, is_integer = KINDS[kind]
        own = row.pop("target")
        odd = row.pop("odd", "")
        row = {"bits": bits, "is_integer": is_integer, "tf32": float(kind != "fp32")} | {
            k: float(v) for k, v in row.items()
        }
        row |= {size: 4095.0 if size in odd else 4096.0 for size in "nk"}
        row |= {f"{f}_by_column": row.pop(f"{f}_column", f == "b") for f in "ab"}
        row |= {f"BLOCK_SIZE_{side}": row.get(f"BLOCK_{side}", 0.0) for side in "MNK"}
        # Attention in 8 bits is counted for tcgen05 alone.
        fits = row["bits"] > 8 or (row["a_by_column"], row["b_by_column"]) == (0, 1)
        few = "head" in row and row["bits"] == 8 and (row["BLOCK_M"] < 64 or row["num_warps"] < 4)
        if own == target and fits and not few and row["step"]:
            rows.append(row)
    return rows


@cache
def launched(kernel, target):
    """Return the launch over all values of the rows' axes, and what turns a table into rows."""
    rows = compiled(kernel, target)
    axes = {name: sorted({r[name] for r in rows}) for name in AXES[kernel]}
    plan = Plan([f"triton_{FILE_OF.get(kernel, kernel)}"], [DEVICE[target]], ["combined"],
                axes=axes | FIXED.get(kernel, {}), layout="grid")  # fmt: skip
    (space,) = resolve(plan).kernels
    axis_of = {d.name: i for i, d in enumerate(space.clocked.dimensions)}

    def by_row(values):
        values, column = np.asarray(values), []
        for row in rows:
            at = {axis_of[n]: axes[n].index(row[n]) for n in axes if n in axis_of}
            column.append(values[tuple(at.get(i, 0) % n for i, n in enumerate(values.shape))])
        return np.array(column, float)

    return build_launch(space), by_row


class Found(dict):
    """What the kernel file says of each row."""

    def __missing__(self, name):
        launch, by_row = launched(*self.of)
        return self.setdefault(name, by_row(launch.values[name]))


def table(target, kernel="matmul"):
    """Return the compiled rows, and what the kernel file says of each."""
    rows, found = compiled(kernel, target), Found()
    found.of = kernel, target
    return {name: np.array([r[name] for r in rows]) for name in rows[0]}, found


def error(predicted, counted):
    return np.abs(predicted / counted - 1)

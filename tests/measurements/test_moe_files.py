"""Files of vLLM for all layers and devices of a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refused

from sweep.cli import main
from sweep.errors import QueryError
from sweep.evaluation.problems import Problems
from sweep.measurements.moe_files import DRIVER_NAMES, driver_name, moe_files
from sweep.space import Plan
from sweep.specs import list_devices

pytestmark = pytest.mark.usefixtures("folder")
TEXT = """schema = 1
kernels = ["triton_moe"]
devices = ["a100_80gb", "rtx_3090"]
models = ["combined"]
variant = "revised"
[axes]
tokens = [1, 512]
experts = [8, 64]
topk = [2]
n = [2048]
k = [1024]
num_stages = [3]
num_warps = [4]
"""
WORDS = ("best", "plan.toml", "--by", "tokens,experts", "--format", "vllm", "-o", "files")
NAMES = [f"E={e},N=1024,device_name={d}.json" for e in (64, 8)
         for d in ("NVIDIA_A100-SXM4-80GB", "NVIDIA_GeForce_RTX_3090")]  # fmt: skip


def plan(**axes: tuple[float, ...]) -> Plan:
    own = {"tokens": (512,), "experts": (8,), "topk": (2,), "n": (2048,), "k": (1024,),
           "num_stages": (3,), "num_warps": (4,)}  # fmt: skip
    return Plan(("triton_moe",), ("a100_80gb",), ("combined",), variant="revised",
                axes=own | axes)  # fmt: skip


def test_command__writes_a_file_for_each_layer_and_device_once(capsys):
    Path("plan.toml").write_text(TEXT, "utf-8")
    assert main(list(WORDS)) == 0
    assert "taken to call rtx_3090 NVIDIA_GeForce_RTX_3090" in capsys.readouterr().out
    assert sorted(path.name for path in Path("files").iterdir()) == sorted(NAMES)
    for name in NAMES:
        found = json.loads((Path("files") / name).read_text("utf-8"))
        assert {int(key): type(row["num_stages"]) for key, row in found.items()} == {
            1: int,
            512: int,
        }
    before = {path: path.read_bytes() for path in Path("files").iterdir()}
    assert "--overwrite replaces it" in refused(capsys, *WORDS)
    assert main([*WORDS, "--overwrite"]) == 0
    assert {path: path.read_bytes() for path in Path("files").iterdir()} == before
    Path("plan.toml").write_text(TEXT.replace("[2048]", "[2047]"), "utf-8")
    assert "an even number" in refused(capsys, *WORDS[:-1], "others")
    assert not Path("others").exists()


def test_configuration__is_best_for_both_products_together():
    found = moe_files(plan(tokens=(16.0, 512.0), n=(4096.0,), k=(512.0,)))
    (text,) = found.texts.values()
    both = {"tokens": [16, 512, 32, 1024], "topk": [2, 2, 1, 1],
            "n": [4096, 4096, 512, 512], "k": [512, 512, 2048, 2048]}  # fmt: skip
    problems = Problems.of(plan(), {name: np.array(column) for name, column in both.items()})
    times = problems.times()
    for key, line in zip(("16", "512"), (times[0] + times[2], times[1] + times[3]), strict=True):
        best = problems.configurations[int(np.nanargmin(line))]
        assert json.loads(text)[key] == {name: best[name] for name in json.loads(text)[key]}


def test_types_of_8_bits__are_in_the_name():
    h100 = Plan(("triton_moe",), ("h100_sxm",), ("combined",), variant="revised",
                axes=dict(plan().axes) | {"bits": (8,)})  # fmt: skip
    (name,) = moe_files(h100).texts
    assert name == "E=8,N=1024,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json"
    scaled = {"block_shape": (128.0,), "BLOCK_SIZE_K": (64.0, 128.0)}
    (own,) = moe_files(replace(h100, axes=dict(h100.axes) | scaled)).texts
    assert own == name.replace(".json", ",block_shape=[128,128].json")
    with pytest.raises(QueryError, match="block_shape=128"):
        moe_files(replace(h100, axes=dict(h100.axes) | {"block_shape": (0.0, 128.0)}))


def test_what_cannot_be_written_is_named():
    with pytest.raises(QueryError, match="two layers need it"):
        moe_files(plan(k=(1024, 2048)))
    with pytest.raises(QueryError, match="kernel 'triton_matmul' has no tokens"):
        moe_files(Plan(("triton_matmul",), ("a100_80gb",), ("combined",)))


@pytest.mark.parametrize(
    ("device", "tool"), [("mi250x", "rocm-smi --showproductname"), ("rtx_3090", "nvidia-smi -L")]
)
def test_a_name_that_is_assumed__is_compared_by_the_makers_own_tool(device, tool):
    found = moe_files(replace(plan(), devices=(device,)))
    assert found.notes[0].endswith(f": compare `{tool}`")


def test_driver_names__are_of_devices_that_there_are():
    assert set(DRIVER_NAMES) <= set(list_devices())
    assert driver_name("RTX A4000") == "NVIDIA_RTX_A4000"
    assert driver_name("AMD Radeon PRO W7800") == "AMD_Radeon_PRO_W7800"
    assert all(" " not in name for name in DRIVER_NAMES.values())

"""The quantization to fp8 beside what NVRTC compiles, and how its predictions move."""

import re
from pathlib import Path

import pytest
from support.launches import accesses_of, launched

import sweep
from sweep.cuda import nvrtc
from sweep.evaluation.tables import CONSTRAINT
from sweep.space import Plan

SOURCE = (Path(__file__).parents[1] / "data" / "cuda" / "fp8.cu").read_text("utf-8")
CHOSEN = {
    "fp8_scale": {"block_size_x": 1024, "num_blocks": 1024},
    "fp8_quantize": {"block_size_x": 256, "num_blocks": 1024, "vector": 1},
}
ELEMENTS = 4096 * 4096


@pytest.mark.parametrize("kernel", CHOSEN)
def test_registers__are_the_most_that_the_compiler_takes(kernel):
    for vector in (1, 8):
        found = []
        for capability in ("8.9", "9.0", "10.0", "12.0"):
            options = [f"-Dvector={vector}"]
            log = (
                nvrtc.load(capability=capability).compile(SOURCE, "fp8.cu", capability, options).log
            )
            found.append(int(re.search(rf"function '{kernel}'[\s\S]*?Used (\d+) reg", log)[1]))
        changes = {"vector": vector} if kernel == "fp8_quantize" else {}
        said = launched(kernel, "h100_sxm", **(CHOSEN[kernel] | changes)).values
        assert max(found) == said["registers_per_thread"].item()


@pytest.mark.parametrize("kernel", CHOSEN)
def test_accesses__cover_the_matrix(kernel):
    launch = launched(kernel, "h100_sxm", **CHOSEN[kernel])
    threads = (launch.workload.blocks * launch.workload.threads_per_block).item()
    accesses = accesses_of(launch)
    assert accesses["x"].count.item() * threads == ELEMENTS
    if kernel == "fp8_quantize":
        assert accesses["quantized"].count.item() * threads == ELEMENTS
        assert accesses["scale"].count.item() == accesses["x"].count.item()


def seconds(kernel, device="h100_sxm", **changes):
    axes = {name: (value,) for name, value in (CHOSEN[kernel] | changes).items()}
    plan = Plan((kernel,), (device,), ("combined",), axes=axes, store=False, variant="revised")
    return sweep.evaluate(plan)[kernel]


def test_words_of_eight__are_faster_and_no_faster_than_dram():
    single, eight = (
        seconds("fp8_quantize", vector=v)["execution_time"].values.item() for v in (1, 8)
    )
    assert eight < 0.7 * single
    assert eight > ELEMENTS / 3.36e12  # what is written
    assert seconds("fp8_scale")["execution_time"].values.item() > 2 * ELEMENTS / 3.36e12


def test_gpus_without_the_conversion__are_refused():
    result = seconds("fp8_quantize", device="a100_80gb")
    assert result["status"].values.item() == CONSTRAINT

"""What the file of a device takes from one like it, and from those of its compute capability."""

from __future__ import annotations

import tomllib

import pytest

from sweep.importers.microbenchmarks.device_file import device_text
from sweep.importers.microbenchmarks.measurement import Measurement
from sweep.importers.microbenchmarks.merging import merged
from sweep.specs import list_devices, load_device


@pytest.mark.parametrize("key", list_devices())
def test_file_of_a_device_like_a_shipped_one__holds_all_that_it_says(key):
    like = load_device(key)
    given = [Measurement("microbenchmark.kernel_launch", 1.25, "us", None, "given", "")]
    made = tomllib.loads(device_text(merged(given, like), "mine"))
    said = tomllib.loads(like.text)
    said.setdefault("microbenchmark", {})["kernel_launch_us"] = 1.25
    for section in said.keys() - {"source", "deviation"}:
        if isinstance(said[section], dict):  # others of its capability may add to it
            assert said[section].items() <= made[section].items(), section
        else:
            assert made[section] == said[section]
    assert set(said.get("matrix", ())) == set(made.get("matrix", ()))


def test_matrix_units__are_those_of_a_like_device_or_of_the_same_chip():
    """Within 8.9 and 9.0 they differ, so that only devices with as many multiprocessors count."""

    def rates(capability, sm_count, like=None):
        given = [Measurement("compute_capability", capability, "", None, "query", "t"),
                 Measurement("chip.sm_count", float(sm_count), "", None, "query", "t")]  # fmt: skip
        found = merged(given, load_device(like) if like else None)
        rates = {p.partition(".")[2]: found.number(p) for p in found.chosen if p[:7] == "matrix."}
        assert ("no [matrix]" in "".join(found.remarks)) == (not rates and float(capability) >= 7)
        return rates

    assert rates("9.0", 132)["fp16_multiply_adds"] == 2048
    assert "fp64_multiply_adds" not in rates("9.0", 132)  # the H800 has fewer
    assert rates("9.0", 78)["fp16_multiply_adds"] == 512
    assert rates("8.9", 142) == rates("8.9", 60) == {}  # L40 and L40S differ
    like = rates("8.9", 60, "rtx_4090")
    assert like["fp8_multiply_adds"] == load_device("rtx_4090").values["matrix.fp8_multiply_adds"]
    assert "fp16_sustained_TFLOPps" not in rates("9.0", 114, "h100_sxm")  # of the whole chip
    assert rates("6.1", 28) == {}

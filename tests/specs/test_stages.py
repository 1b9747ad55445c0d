"""Stages that only a part of a block passes."""

from __future__ import annotations

import pytest

from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.space import Plan, resolve

KERNEL = """
schema = 1
name = "two stages"

[source]
default = "assumed: for this test"

[launch]
threads_per_block = 128
blocks = 60

[resources]
registers_per_thread = 8

[[stage]]
name = "all"
fp32 = 10
barriers = 1

[[stage]]
name = "few"
threads = {threads}
fp32 = 4
special = 2

[[global_access]]
name = "result"
stage = "few"
kind = "store"
count = 3
bytes = 4
pattern = "coalesced"

[[shared_access]]
name = "column"
stage = "few"
kind = "load"
count = 5
pattern = "affine"
x = 16
"""


def launched(tmp_path, threads):
    path = tmp_path / "two_stages.toml"
    path.write_text(KERNEL.format(threads=threads), encoding="utf-8")
    plan = Plan(kernels=[str(path)], devices=["gtx_285"], models=["hong_kim"])
    (space,) = resolve(plan).kernels
    return build_launch(space)


@pytest.mark.parametrize(("threads", "warps"), [(128, 4), (64, 2), (33, 2), (32, 1), (8, 1)])
def test_counts_are_means_over_the_blocks_warps(tmp_path, threads, warps):
    work = launched(tmp_path, threads).workload
    share = warps / 4
    assert [stage.warps.item() for stage in work.stages] == [4, warps]
    assert work.stages[0].instructions["fp32"].item() == 10
    assert work.stages[1].instructions["fp32"].item() == 4 * share
    assert work.instructions["special"].item() == 2 * share
    assert work.total("count").item() == 3 * share
    assert work.shared_accesses[0].count.item() == 5 * share
    assert work.computation_instructions.item() == 10 + 1 + (4 + 2 + 5) * share


@pytest.mark.parametrize(("threads", "degree"), [(128, 16), (16, 16), (8, 8), (1, 1)])
def test_lanes_that_take_no_part_meet_no_bank(tmp_path, threads, degree):
    work = launched(tmp_path, threads).workload
    assert work.shared_accesses[0].degree.item() == degree
    assert work.global_accesses[0].moved_bytes.item() == max(min(threads, 32) * 4, 32)


def test_more_threads_than_the_block_has_are_flagged(tmp_path):
    assert launched(tmp_path, 129).status.item() == STATUS["kernel_expression"]

"""What kernel files say of caches, wide words and parallelism, as models find it in a workload."""

from __future__ import annotations

import numpy as np
import pytest
from support.spec_texts import KERNEL, spoilt

from sweep import specs
from sweep.errors import SpecError
from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.hardware.occupancy_limits import compute_capabilities, l1_bytes_of
from sweep.space import Plan, resolve

LAST_OF_LOAD = """stride = "1 if layout == 'row' else n"\n"""


def launch_of(tmp_path, text, device="gtx_980"):
    path = tmp_path / "kernel.toml"
    path.write_text(text)
    plan = Plan((str(path),), (device,), ("hong_kim",))
    (space,) = resolve(plan).kernels
    return build_launch(space)


def with_rates(rates: str) -> str:
    return spoilt(KERNEL, LAST_OF_LOAD, LAST_OF_LOAD + rates)


@pytest.mark.parametrize(
    ("device", "expected"),
    # Bytes of a word to passes of a warp: a request is a warp, half a warp for 8 bytes, a quarter
    # for 16; on 3.x, whose banks are 8 bytes wide, half a warp for 16; on 1.x always half a warp.
    [
        ("gtx_980", {4: 1, 8: 2, 16: 4}),
        ("gt_640", {4: 1, 8: 1, 16: 2}),
        ("gtx_280", {4: 2, 8: 4, 16: 8}),
    ],
)
@pytest.mark.parametrize("pattern", ["", 'pattern = "affine"\nx = 1\n'])
def test_consecutive_words__passes(tmp_path, device, expected, pattern):
    for size, passes in expected.items():
        text = spoilt(KERNEL, 'count = "tile"\n', f'count = "tile"\nbytes = {size}\n{pattern}')
        (access,) = launch_of(tmp_path, text, device).workload.shared_accesses
        full = np.broadcast_to(np.ravel(access.wavefronts), 3)[1:]  # whole warps
        assert set(full) == {passes}


@pytest.mark.parametrize(("size", "passes"), [(4, 1), (8, 1), (16, 2)])
def test_broadcast__passes(tmp_path, size, passes):
    text = spoilt(KERNEL, 'count = "tile"\n', f'count = "tile"\nbytes = {size}\nstride = 0\n')
    (access,) = launch_of(tmp_path, text).workload.shared_accesses
    assert set(np.ravel(access.wavefronts)[1:]) == {passes}  # requests of the same word merge
    text = spoilt(KERNEL, 'pattern = "strided"\n' + LAST_OF_LOAD, 'pattern = "broadcast"\n')
    load, _ = launch_of(tmp_path, text).workload.global_accesses
    assert set(np.ravel(load.sectors)) == set(np.ravel(load.wavefronts)) == {1}


@pytest.mark.parametrize(
    ("pattern", "passes"),
    [
        ("coalesced", 1),
        ("broadcast", 1),
        ("uncoalesced", 32),
        ("strided", 4),
        ("affine", 4),
        ("measured", 3),
    ],
)
def test_global_loads__meet_the_banks_of_l1(tmp_path, pattern, passes):
    keys = {"strided": "stride = 4\n", "affine": "x = 4\n", "measured": "transactions = 9\n"}
    told = f'pattern = "{pattern}"\n{keys.get(pattern, "")}'
    text = spoilt(KERNEL, 'pattern = "strided"\n' + LAST_OF_LOAD, told)
    load, _ = launch_of(tmp_path, text).workload.global_accesses
    assert set(np.ravel(load.wavefronts)[1:]) <= {passes}  # of whole warps


@pytest.mark.parametrize(("size", "sectors"), [(4, 4), (8, 8), (16, 16)])
def test_vector_loads__sectors(tmp_path, size, sectors):
    text = KERNEL.replace("bytes = 4", f"bytes = {size}")
    _, store = launch_of(tmp_path, text).workload.global_accesses
    assert np.max(store.sectors) == sectors


def test_hit_rates__of_access_and_kernel(tmp_path):
    text = with_rates('l1_hit_rate = "0.5 if tile == 4 else 0.25"\nl2_hit_rate = 0.75\n')
    text += "\n[cache]\nl2_hit_rate = 0.125\n"
    load, store = launch_of(tmp_path, text).workload.global_accesses
    assert list(np.ravel(load.l1_hit_rate)) == [0.5, 0.25, 0.25]
    assert (np.max(load.l2_hit_rate), np.max(store.l2_hit_rate)) == (0.75, 0.125)
    assert np.max(store.l1_hit_rate) == 0
    old, _ = launch_of(tmp_path, text, "gtx_280").workload.global_accesses  # which has no L2
    assert np.max(old.l2_hit_rate) == 0


def test_parallelism(tmp_path):
    work = launch_of(tmp_path, KERNEL).workload
    assert np.max(work.instruction_parallelism) == np.max(work.memory_parallelism) == 1
    text = KERNEL + '\n[parallelism]\ninstruction = "tile"\nmemory = 2\n'
    work = launch_of(tmp_path, text).workload
    assert list(np.ravel(work.instruction_parallelism)) == [4, 8, 16]
    assert np.max(work.memory_parallelism) == 2


@pytest.mark.parametrize(
    "text",
    [
        with_rates('l1_hit_rate = "tile / 10"\n'),
        with_rates('l2_hit_rate = "tile / 10"\n'),
        KERNEL + '\n[parallelism]\ninstruction = "tile / 10"\n',
    ],
    ids=["l1", "l2", "parallelism"],
)
def test_out_of_range__is_flagged_where_it_occurs(tmp_path, text):
    status = launch_of(tmp_path, text).status
    assert list(np.ravel(status == STATUS["kernel_expression"])) == (
        [True, True, False] if "parallelism" in text else [False, False, True]
    )


def test_numbers_out_of_range__are_refused():
    with pytest.raises(SpecError, match=r"global_access\.a\.l1_hit_rate.*1\.5.*0 to 1"):
        specs.parse_kernel(with_rates("l1_hit_rate = 1.5\n"), "kernel")
    with pytest.raises(SpecError, match=r"parallelism\.memory"):
        specs.parse_kernel(KERNEL + "\n[parallelism]\nmemory = 0.001\n", "kernel")
    with pytest.raises(SpecError, match="l1_hit_rate"):
        text = spoilt(KERNEL, 'count = "tile"\n', 'count = "tile"\nl1_hit_rate = 0.5\n')
        specs.parse_kernel(text, "kernel")


def test_expressions__know_the_size_of_l1(tmp_path):
    text = with_rates('l1_hit_rate = "min(1, l1_bytes / 2 ** 18)"\n')
    for device, share in (("gtx_980", 3 / 16), ("rtx_a4000", 0.5), ("gtx_280", 0)):
        load, _ = launch_of(tmp_path, text, device).workload.global_accesses
        assert np.max(load.l1_hit_rate) == share


def test_l1__of_every_capability():
    sizes = {name: l1_bytes_of(name) for name in compute_capabilities()}
    assert all((size == 0) == name.startswith("1.") for name, size in sizes.items())
    assert (sizes["7.0"], sizes["7.5"], sizes["8.0"], sizes["9.0"]) == (
        128 * 1024, 96 * 1024, 192 * 1024, 256 * 1024,
    )  # fmt: skip
    assert l1_bytes_of("") == 0

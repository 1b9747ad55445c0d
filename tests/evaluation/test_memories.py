"""Accesses to mapped host, texture, local and constant memory: what a warp demands."""

import re
from dataclasses import replace

import numpy as np
import pytest
from support.launches import accesses_of, launched

from sweep import evaluate
from sweep.errors import SpecError
from sweep.evaluation.device_names import with_memory_side_cache
from sweep.evaluation.launch import build_launch, build_workload
from sweep.explanation.explaining import explain
from sweep.hardware.derived import DeviceFacts
from sweep.hardware.paths import link_bandwidth, link_latency, texture_passes
from sweep.models import get_model
from sweep.space import Plan, resolve
from sweep.specs import load_device, parse_kernel

HEAD = """
schema = 1
name = "memories"
[source]
default = "assumed: a test"
[sizes]
n = 1048576
[launch]
threads_per_block = 256
blocks = "n / 256"
block_x = {x}
block_y = {y}
[resources]
registers_per_thread = 32
[instructions]
fp32 = 8
"""
ACCESS = """
[[{table}_access]]
name = "a"
kind = "{kind}"
count = 1
bytes = {size}
"""
OLD, NEW, AMD = "gtx_1080_ti", "rtx_3090", "mi50"


def text(*lines, table="global", kind="load", size=4, x=256):
    access = ACCESS.format(table=table, kind=kind, size=size)
    return HEAD.format(x=x, y=256 // x) + access + "\n".join(lines)


def access(*lines, device=NEW, **more):
    return accesses_of(launched("memories", device, text=text(*lines, **more)))["a"]


def demands(*lines, device=NEW, **more):
    """Return what combined makes of a warp: demands and waits of its only stage."""
    plan = Plan(("memories",), (device,), ("combined",), store=False)
    texts = {"devices": {device: load_device(device).text},
             "kernels": {"memories": text(*lines, **more)}}  # fmt: skip
    launch = build_launch(resolve(plan, texts).kernels[0])
    model = get_model("combined")
    found = model.prepare(build_workload(launch, model, {}), "corrected")
    return {key: np.asarray(value).item() for key, value in found.items()
            if np.size(value) == 1}, launch.workload  # fmt: skip


def host(*lines, **more):
    return demands('memory = "host"', *(lines or ['pattern = "coalesced"']), **more)


# --- Mapped host memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("device", [OLD, NEW, AMD])
def test_host__bytes_take_the_bandwidth_of_the_link(device):
    found, work = host(device=device)
    moved = 4 * work.warp_size.item()
    spec = load_device(device)
    link = link_bandwidth(DeviceFacts(spec.values, spec.compute_capability, spec.vendor, {}))
    assert found["link_time"] == pytest.approx(moved / link)
    assert found["l2_sectors"] == moved / 32
    assert found["dram_sectors"] == 0
    assert found["dram_loads"] == 0


def test_host__a_load_waits_for_the_link_and_a_store_for_nobody():
    found, work = host()
    spec = load_device(NEW)
    latency = link_latency(DeviceFacts(spec.values, spec.compute_capability, spec.vendor, {}))
    assert found["link_wait"] == pytest.approx(latency)
    stored, _ = host(kind="store")
    assert stored["cache_wait"] == stored["link_wait"] == 0


def test_host__small_requests_waste_the_link():
    """256 reads under way: 32 bytes each are not enough for the bandwidth."""
    near, far = (host(f'pattern = "{p}"')[0] for p in ("coalesced", "uncoalesced"))
    assert far["link_time"] > 8 * near["link_time"]
    lines = 'pattern = "affine"', "x = 2", "y = 0"
    assert host(*lines)[0]["link_time"] == pytest.approx(2 * near["link_time"])


def test_host__loads_and_stores_pass_side_by_side():
    more = ACCESS.format(table="global", kind="store", size=4).replace('"a"', '"b"')
    both = host('pattern = "coalesced"', more, 'memory = "host"', 'pattern = "coalesced"')[0]
    assert both["link_time"] == host()[0]["link_time"]
    assert both["l2_sectors"] == 2 * host()[0]["l2_sectors"]


def test_host__the_link_keeps_its_time_at_all_clocks(tmp_path):
    path = tmp_path / "memories.toml"
    path.write_text(text('memory = "host"', 'pattern = "coalesced"'))
    clocks = {"core_clock": [595, 1075], "memory_clock": [810, 3505]}
    plan = Plan((str(path),), ("gtx_titan_x",), ("combined",), axes=clocks, precision="float64")
    times = evaluate(plan)["memories"]["execution_time"].values.ravel()
    assert times == pytest.approx(4 * 1048576 / 12e9, rel=0.05)
    slow, fast = (_traced(path, memory_clock=clock) for clock in clocks["memory_clock"])
    assert slow["D_DRAM"] == fast["D_DRAM"] > 0
    half = _traced(path, memory_clock=810, core_clock=595)
    assert half["D_DRAM"] / 595 == pytest.approx(slow["D_DRAM"] / 1075)


def _traced(path, **clocks):
    """Return the values of the equations that `sweep explain` shows, by their symbols."""
    where = {"kernel": str(path), "device": "gtx_titan_x", "model": "combined"}
    told = explain(None, where | clocks).as_dict()
    return {line["name"]: line["value"] for part in told["sections"] for line in part["lines"]}


# --- Texture and local memory ---------------------------------------------------------------------


def test_texture__units_serve_a_thread_a_cycle():
    """Four units: eight cycles a warp on Ampere, where L1 takes one for 128 bytes."""
    plain, fetched = (
        demands('pattern = "coalesced"', f'memory = "{memory}"')[0]
        for memory in ("global", "texture")
    )
    cycles = fetched["l1_sectors"] * fetched["l1_cycles"]
    assert (plain["l1_sectors"] * plain["l1_cycles"], cycles) == (1, 8)
    assert fetched["dram_sectors"] == plain["dram_sectors"]


def test_texture__tiles_keep_neighbours_of_two_dimensions():
    def sectors(pattern, x):
        lines = f'pattern = "{pattern}"', 'memory = "texture"'
        more = ("x = 1", "y = 4096") if pattern == "affine" else ()
        return access(*lines, *more, x=x).sectors.item()

    assert [sectors("tiled", x) for x in (32, 16, 8, 4)] == [8, 4, 4, 4]
    assert [sectors("affine", x) for x in (32, 16, 8, 4)] == [4, 4, 4, 8]


def test_texture_units__of_the_file_or_the_capability():
    def passes(capability, vendor="NVIDIA", **values):
        return texture_passes(DeviceFacts({"chip.warp_size": 32} | values, capability, vendor, {}))

    assert [passes(c) for c in ("3.5", "5.2", "6.1", "7.5", "8.6")] == [2, 2, 2, 4, 8]
    # GPUs of 2008 share the units of a cluster: 4 addresses for two, 8 for two or three processors.
    times = [passes(c, **{"chip.texture_units_per_sm": n})
             for c, n in (("1.0", 2), ("1.1", 4), ("1.3", 8 / 3))]  # fmt: skip
    assert [passes(c) for c in ("1.0", "1.1", "1.3")] == times and times[2] == 1.5 * times[1]
    assert passes("8.6", **{"chip.texture_units_per_sm": 8}) == 4
    assert passes("", "AMD") == 4
    assert texture_passes(DeviceFacts({}, "8.6", "NVIDIA", {})) is None


def test_local__is_coalesced():
    kept, plain = (
        demands('pattern = "coalesced"', f'memory = "{memory}"')[0]
        for memory in ("local", "global")
    )
    assert kept == plain


# --- Constant memory ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "passes"),
    [
        (("stride = 0",), 1),
        (("stride = 1",), 32),
        (("stride = 32",), 32),
        (('pattern = "affine"', "x = 0", "y = 1"), 4),
        (('pattern = "affine"', "x = 1", "y = 0"), 8),
        (('pattern = "measured"', "transactions = 2.5"), 2.5),
    ],
)
def test_constant__different_words_are_served_one_by_one(lines, passes):
    given = ('memory = "constant"', *lines)
    found = access(*given, table="shared", x=8)
    assert (found.degree.item(), found.wavefronts.item()) == (passes, passes)
    assert demands(*given, table="shared", x=8)[0]["wavefronts"] == passes


def test_constant__wide_words_count_once():
    found = access('memory = "constant"', "stride = 0", table="shared", size=16)
    assert found.wavefronts.item() == 1


def test_constant__is_never_faster_with_more_different_words():
    def passes(x):
        lines = 'memory = "constant"', 'pattern = "affine"', "x = 1", "y = 0"
        return access(*lines, table="shared", x=x).wavefronts.item()

    assert [passes(x) for x in (1, 2, 8, 16, 32, 64)] == [1, 2, 8, 16, 32, 32]


# --- What is refused, and what is explained -------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "more", "words"),
    [
        (('memory = "cnstant"',), {"table": "shared"}, "constant"),
        (('memory = "constant"',), {"table": "shared", "kind": "store"}, "cannot store"),
        (('memory = "texture"', 'pattern = "coalesced"'), {"kind": "store"}, "cannot store"),
        (('pattern = "tiled"',), {}, "only textures"),
        (('memory = "local"', 'pattern = "broadcast"'), {}, "interleaved"),
        (('memory = "shared"', 'pattern = "broadcast"'), {}, "one of global"),
    ],
)
def test_refused(lines, more, words):
    with pytest.raises(SpecError, match=words):
        parse_kernel(text(*lines, **more), "memories")


def test_explained(tmp_path):
    path = tmp_path / "memories.toml"
    more = ACCESS.format(table="shared", kind="load", size=4).replace('"a"', '"c"')
    path.write_text(text('memory = "host"', 'pattern = "coalesced"', more, 'memory = "constant"'))
    said = str(explain(None, {"kernel": str(path), "device": NEW, "model": "combined"}))
    assert "of host memory" in said
    assert "time of a warp's access on the link" in said
    assert "different words of a warp" in said


# --- A cache between L2 and DRAM ------------------------------------------------------------------


def beside(rate, **more):
    lines = 'pattern = "coalesced"', f'l2_hit_rate = "{rate}"'
    return demands(*lines, device="radeon_pro_w7800", **more)


def test_memory_side_cache__serves_what_l2_does_not():
    """A file names the size of L2; with a memory-side cache behind it, more stays out of DRAM."""
    device = load_device("radeon_pro_w7800").values
    held, side = device["chip.l2"], device["chip.memory_side_cache"]
    bandwidth = device["microbenchmark.memory_side_cache_bandwidth"]
    found, work = beside("min(1, l2_bytes / (1024 * n))")
    whole = 1024 * 1048576
    (a,) = work.global_accesses
    assert a.l2_hit_rate.item() == pytest.approx(held / whole)
    assert a.cached_hit_rate.item() == pytest.approx((held + side) / whole)
    assert found["dram_sectors"] == pytest.approx(4 * (1 - (held + side) / whole))
    assert found["link_time"] == pytest.approx(128 * (1 - held / whole) / bandwidth)
    clock = device["microbenchmark.core_clock"]
    latency = device["microbenchmark.memory_side_cache_latency"] / clock
    assert found["link_wait"] == pytest.approx(side / whole * latency)


def test_memory_side_cache__is_not_asked_for_what_l2_holds():
    found, _ = beside("1 if l2_bytes >= 1048576 else 0")
    assert found["link_time"] == found["link_wait"] == found["dram_sectors"] == 0


def test_memory_side_cache__other_devices_have_none():
    found, work = demands('pattern = "coalesced"', 'l2_hit_rate = "min(1, l2_bytes / (64 * n))"')
    (a,) = work.global_accesses
    assert a.cached_hit_rate is a.l2_hit_rate
    assert found["link_time"] == found["link_wait"] == 0


def test_memory_side_cache__is_left_out_without_its_bandwidth():
    device = load_device("radeon_pro_w7800")
    unknown = {path: value for path, value in device.values.items()
               if path != "microbenchmark.memory_side_cache_bandwidth"}  # fmt: skip
    both = (device, replace(device, values=unknown))
    held = with_memory_side_cache(both, 1, np.full(2, 1024.0))
    assert held.tolist() == [1024.0 + device.values["chip.memory_side_cache"], 1024.0]


@pytest.mark.parametrize(("key", "factor"), [
    ("memory_side_cache_KiB", 2.0), ("memory_side_cache_bandwidth_GBps", 2.0),
    ("memory_side_cache_latency_cycles", 0.5), ("l2_read_bandwidth_GBps", 2.0), ("l2_KiB", 2.0),
])  # fmt: skip
def test_memory_side_cache__a_better_one_is_never_slower(tmp_path, key, factor):
    given = load_device("radeon_pro_w6600").text
    value = re.search(rf"\n{key} = (.*)", given)[1]
    better = given.replace(f"\n{key} = {value}", f"\n{key} = {float(value) * factor}")
    axes = {"image_width": [1024, 2048, 4096], "block_size_x": [32, 128], "use_shmem": [0, 1],
            "tile_size_x": [1, 4]}  # fmt: skip
    times = []
    for name, content in (("given", given), ("better", better)):
        path = tmp_path / f"{name}.toml"
        path.write_text(content)
        plan = Plan(("convolution",), (str(path),), ("combined",), axes=axes, precision="float64")
        times.append(evaluate(plan)["convolution"]["execution_time"].values)
    assert (times[1] <= times[0])[np.isfinite(times[0])].all()
    assert np.isfinite(times[0]).any()

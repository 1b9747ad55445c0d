"""The papers' procedures: sources that compile, and fits that return what made the samples."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from support import simulated_gpu
from support.simulated_gpu import FACTS, SimulatedGpu

from sweep.cuda import nvrtc
from sweep.errors import SweepError
from sweep.importers.files import Source
from sweep.importers.microbenchmarks.own_samples import READER
from sweep.microbenchmarks import luo_suda_2011, pieces, zhang_owens_2011
from sweep.microbenchmarks.case import CLOCKS, LOCK, POWER, Sample, Samples, checked
from sweep.microbenchmarks.gpu import links
from sweep.microbenchmarks.procedures import all_cases, all_values, as_json, from_json
from sweep.microbenchmarks.running import measured

CAPABILITIES = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")


def has_nvrtc() -> bool:
    try:
        nvrtc.load()
    except SweepError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")


@pytest.fixture(scope="module")
def samples() -> Samples:
    return measured(SimulatedGpu(), lambda line: None)


@pytest.fixture(scope="module")
def found(samples):
    return {value.key: value for value in all_values(samples)}


# ---------------------------------------------------------------------------- sources


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_source_compiles(capability):
    """With ptxas for the real architecture; nothing spills, so times are of what is written."""
    compiler, facts = nvrtc.load(capability), dataclasses.replace(FACTS, capability=capability)
    assert any(case.procedure == "copies" for case in all_cases(facts)) == (float(capability) >= 8)
    for case in {case.source: case for case in all_cases(facts)}.values():
        output = compiler.compile(case.source, f"{case.name}.cu", capability, [])
        assert ".entry measure" in output.ptx
        assert "0 bytes spill stores" in output.log, case.name


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("fp32 ilp 4 warps 1", "fma.rn.f32", 128), ("integer ilp 1 warps 1", "xor.b32", 16),
        ("Mb7_C", "ld.global.cg.f32", 6), ("global 8 ilp 4 warps 1", "ld.global.cg.v2.u32", 32),
        ("shared 16 ilp 1 warps 32", "ld.shared.v4.u32", 8), ("Mb3_UC", "fma.rn.f32", 19),
        ("cost special 9", "ex2.approx.ftz.f32", 9), ("shared warps 4", "st.shared.u32", 16),
        ("l1 read", "ld.global.ca.v4.f32", 8), ("dram", "cp.async.cg.shared.global", 4),
        ("dram write blocks 4", "st.global.v4.f32", 8), ("piece 64", "ld.global.cg.v4.f32", 8),
    ],
)  # fmt: skip
def test_compiled_loop__executes_what_counts_say(name, text, count):
    case = [case for case in all_cases(FACTS) if case.name == name][-1]
    ptx = nvrtc.load().compile(case.source, "measure.cu", "8.0", []).ptx
    loop = ptx.split("clock64;")[1] if "clock64;" in ptx else ptx
    assert loop.count(text) == count, ptx


@needs_nvrtc
def test_loads_in_a_timed_loop__have_addresses_that_change():
    """ptxas does a load whose address stays the same once, before the loop, volatile or not."""
    for case in {case.source: case for case in all_cases(FACTS)}.values():
        timed = nvrtc.load().compile(case.source, "measure.cu", "8.0", []).ptx.split("clock64;")[1]
        loops = re.findall(r"^(\$L__\w+):\n(.*?)bra\S*\s+\1;", timed, re.DOTALL | re.MULTILINE)
        assert loops or " ld." not in timed and "\tld." not in timed, case.name
        for _, loop in loops:
            targets = re.findall(r"^\s*[a-z]\S+\s+(%\w+|{[^}]*}),", loop, re.MULTILINE)
            written = set(re.findall(r"%\w+", " ".join(targets)))
            read = set(re.findall(r"ld\.(?:global|shared)[^;]*\[(%\w+)", loop))
            assert read <= written or "st.shared" in loop, case.name


def test_cases__fit_the_gpu():
    names = set()
    for case in all_cases(FACTS):
        assert 1 <= case.block <= 1024 and case.grid >= 1
        assert case.shared <= FACTS.shared_bytes_per_block
        assert case.buffer <= FACTS.memory_bytes // 2
        assert not case.chain or case.buffer % case.chain == 0
        names.add((case.procedure, case.name))
    assert len(names) == len(all_cases(FACTS))


def test_loads_from_dram__are_not_those_of_the_run_before():
    """Loops and tasks touch less than L2 holds in few warps: it is emptied before each run."""
    for case in all_cases(FACTS):
        papers = ("hong_kim_2009", "luo_suda_2011", "lemeire_2016")
        loads = case.procedure in papers and case.buffer > 1 << 16
        copies = (case.procedure, case.name) == ("copies", "dram")
        assert case.cold == (loads or copies or case.name.startswith("few")), case.name


@pytest.mark.parametrize("size", [64, 4096])
def test_pieces__are_read_once_in_random_order(size):
    """By the source's own arithmetic. L2 holds a sixteenth of what is read between two runs."""
    order = re.search(r"x = x \* .*x >> half;", pieces.scattered(size))[0].replace("u ", " ")
    names = {"x": np.arange(1 << 10), "mask": (1 << 10) - 1, "half": 5}
    exec("; ".join(order.split(";")), names)
    assert sorted(names["x"]) == list(range(1 << 10))
    assert np.median(abs(np.diff(names["x"]))) > 200
    (case,) = (one for one in pieces.cases(FACTS) if one.name == f"piece {size}")
    assert 16 * FACTS.l2_bytes <= case.counts["bytes"] <= case.buffer


@pytest.mark.parametrize("l2_bytes", [4 << 20, 6 << 20, 50 << 20])
def test_l2__holds_what_is_read_from_it(l2_bytes):
    """Of a GPU with many threads and a small L2 as well."""
    facts = dataclasses.replace(FACTS, l2_bytes=l2_bytes)
    sizes = [case.buffer for case in all_cases(facts) if case.name.startswith("l2 read")]
    assert len(set(sizes)) == 4 and max(sizes) <= l2_bytes // 2 < facts.beyond_l2


def test_links__are_one_cycle():
    memory, base = links(4096, 64 * 128, 128), 4096
    at, seen = base, set()
    while at not in seen:
        seen.add(at)
        at = int(memory[(at - base) // 8])
    assert at == base and len(seen) == 64


# ---------------------------------------------------------------------------- fits


@pytest.mark.parametrize(
    ("key", "expected", "tolerance"),
    [
        *((f"microbenchmark.{name}_latency", simulated_gpu.LATENCIES[level], 0.02)
          for name, level in (("l1", "l1"), ("l2_near", "l2"), ("l2_far", "l2 far"),
                              ("dram", "dram"), ("shared", "shared"))),
        *((f"microbenchmark.{kind}_latency", number, 0.03)
          for kind, number in simulated_gpu.COMPLETION.items()),
        *((f"microbenchmark.{kind}_issue", number, 0.03)
          for kind, number in simulated_gpu.ISSUE.items()),
        ("microbenchmark.dram_read_bandwidth", 1400.0, 0.03),
        ("microbenchmark.l2_read_bandwidth", 4000.0, 0.03),
        *((f"microbenchmark.dram_piece_{size}_factor", factor, 0.03)
          for size, factor in simulated_gpu.PIECES.items()),
        ("microbenchmark.kernel_launch", 2.0, 0.03),
        ("microbenchmark.block_start", simulated_gpu.START, 0.03),
        ("microbenchmark.l1_read_bandwidth", 128.0, 0.03),
        ("model.hong_kim.mem_ld_cycles", simulated_gpu.MEM_LD, 0.05),
        ("model.hong_kim.departure_del_uncoal_cycles", simulated_gpu.UNCOALESCED, 0.05),
        ("model.wang_chu.dm_lat_slope_cycles", simulated_gpu.SLOPE, 0.1),
        ("model.wang_chu.dm_lat_intercept_cycles", simulated_gpu.INTERCEPT, 0.1),
        ("model.luo_suda.c", 0.5, 0.1),
        ("model.luo_suda.m", 64.0, 0.0),
        ("model.zhang_owens.cluster_count", simulated_gpu.CLUSTERS, 0.0),
    ],
)  # fmt: skip
def test_fit__returns_what_made_the_samples(found, key, expected, tolerance):
    assert found[key].value == pytest.approx(expected, rel=tolerance)


def test_luo_suda__degrees_are_those_of_the_parameters(found):
    """Several a, b, c and d give nearly the same degrees: these count."""
    given = [found[f"model.luo_suda.{name}"].value for name in "abcd"]
    points = [(p, n, 0.0) for p in (0.3, 0.6, 0.8, 0.9) for n in (2.0, 8.0, 16.0, 32.0, 64.0)]
    own, true = (
        np.array(luo_suda_2011.degree(x, points, 64.0)) for x in (given, simulated_gpu.DEGREE)
    )
    assert np.abs(own / true - 1.0).mean() < 0.1


def test_deviation__is_the_spread_of_repetitions(found):
    latency = found["microbenchmark.l2_near_latency"]
    assert latency.deviation / latency.value == pytest.approx(0.01, rel=0.7)


def test_tables__have_the_rows_of_the_papers(found):
    latencies = found["model.lemeire.latencies"].value
    assert {row[0] for row in latencies} == {"sp", "int", "dp", "sf"}
    assert [row[1] for row in latencies if row[0] == "sp"] == [1, 2, 4]
    dram = np.array(found["model.lemeire.global_memory"].value)
    np.testing.assert_allclose(dram[:, 0], [4, 8, 16])
    np.testing.assert_allclose(dram[:, 2], simulated_gpu.LATENCIES["dram"], rtol=0.03)
    np.testing.assert_allclose(dram[:, 3], simulated_gpu.DRAM_GBPS, rtol=0.03)
    expected = 32 * dram[:, 0] * 108 * 1.41 / simulated_gpu.DRAM_GBPS
    np.testing.assert_allclose(dram[:, 1], expected, rtol=0.03)
    local = np.array(found["model.lemeire.local_memory"].value)
    np.testing.assert_allclose(local[:, 1], [1, 2, 4], rtol=0.03)
    np.testing.assert_allclose(local[:, 2], simulated_gpu.LATENCIES["shared"], rtol=0.03)
    rates = found["model.zhang_owens.instruction_throughput"].value
    peak = 108 * 1.41 / simulated_gpu.ISSUE["fp32"]
    assert rates[-1][1] == pytest.approx(peak, rel=0.03) and rates[0][1] < 0.5 * peak
    service = dict(found["model.wang_chu.dm_del_table"].value)
    expected = 32 * 108 / (1400e9 * 810 / 1215) * 810 * (1410 / 1215) * 1e6
    assert set(service) == {810.0, 1215.0} and service[810.0] == pytest.approx(expected, rel=0.03)


def test_what_can_not_be__is_left_out(samples):
    rng, wrong = np.random.default_rng(3), []
    for sample in samples.found:
        if sample.name.startswith(("Mb", "task")):
            factor = rng.uniform(0.3, 3.0)
            sample = dataclasses.replace(sample, cycles=tuple(c * factor for c in sample.cycles))
        if sample.name == "piece 64":  # as fast as long ones, less noise
            sample = dataclasses.replace(samples.one("pieces", "piece 4096"), name="piece 64")
            sample = dataclasses.replace(sample, ms=tuple(0.98 * ms for ms in sample.ms))
        if sample.name == "l2 far":  # there is one partition
            sample = dataclasses.replace(samples.one("latencies", "l2"), name="l2 far")
        if sample.name == "l1 read":  # 1,424 bytes a cycle: loads that the compiler left out
            sample = dataclasses.replace(sample, cycles=(sample.counts["bytes"] / 1424.0,))
        wrong.append(sample)
    keys = {v.key: v for v in all_values(dataclasses.replace(samples, found=tuple(wrong)))}
    assert keys["microbenchmark.dram_piece_64_factor"].value == 1.0
    assert "microbenchmark.l1_read_bandwidth" not in keys
    assert not [key for key in keys if key.startswith("model.hong_kim")]
    assert "model.luo_suda.a" not in keys and "model.luo_suda.class_cost" in keys
    assert "microbenchmark.l2_far_latency" not in keys and "microbenchmark.l2_near_latency" in keys


@pytest.mark.parametrize("times", ["line", "noise"])
def test_clusters__are_left_out_where_times_do_not_tell_them(samples, times):
    rng, changed = np.random.default_rng(3), []
    for sample in samples.found:
        if sample.name.startswith("few"):
            ms = 1.0 + sample.counts["blocks"] if times == "line" else rng.uniform(1.0, 2.0)
            sample = dataclasses.replace(sample, ms=(ms,))
        changed.append(sample)
    assert zhang_owens_2011.clusters(dataclasses.replace(samples, found=tuple(changed))) is None
    none = [s for s in samples.found if not s.name.startswith("few")]
    assert zhang_owens_2011.clusters(dataclasses.replace(samples, found=tuple(none))) is None


# ---------------------------------------------------------------------------- running


def test_samples__are_read_back_to_the_bit(samples):
    again, version = from_json(json.loads(as_json(samples)))
    assert again == samples and version


def test_clocks__are_locked_and_given_free(samples):
    gpu = SimulatedGpu()
    measured(gpu, lambda line: None)
    assert gpu.calls[0] == "lock" and gpu.calls[-1] == "unlock"
    pairs = {at for _, at in gpu.ran}
    assert len({core for core, _ in pairs}) == 4 and len({memory for _, memory in pairs}) == 2
    assert all(case.over_clocks for case, at in gpu.ran if at != (1410.0, 1215.0))


@pytest.mark.parametrize("refused", [LOCK, CLOCKS, POWER])
def test_refused__one_line_and_no_fit_over_the_clocks(refused):
    lines: list[str] = []
    samples = measured(SimulatedGpu(refused), lines.append)
    assert len(lines) == 1 and lines[0].startswith(f"no {refused} (NVML: Not Supported): ")
    is_held = {sample.locked for sample in samples.found}
    assert is_held == ({True} if refused == POWER else {False})
    assert len({sample.core for sample in samples.found}) == (4 if refused == POWER else 1)
    keys = {value.key for value in all_values(samples)}
    assert ("model.wang_chu.dm_lat_slope_cycles" in keys) == (refused == POWER)
    assert "microbenchmark.dram_latency" in keys


def test_throttled__its_clock_is_the_one_seen():
    class Hot(SimulatedGpu):
        def clocks(self):
            return (900.0, 1215.0)

    lines: list[str] = []
    samples = measured(Hot(), lines.append)
    assert {s.core for s in samples.found} == {900.0} and not samples.found[0].locked
    assert (
        len(lines) == 1 and "(latencies, l1; latencies, l2; ...): the core's was 900 to" in lines[0]
    )


@pytest.mark.parametrize("refused", [(), (LOCK,)])
def test_clock_that_falls_while_a_case_runs__is_said_and_not_fitted(refused):
    """From the first read of DRAM on, during its repetitions, at 1,410 MHz."""

    class Falling(SimulatedGpu):
        reads = 0

        def clocks(self):
            core, memory = self.at
            self.reads += self.case.name.startswith("dram") and core == 1410.0
            return (1200.0 if self.reads > 1 and core == 1410.0 else core), memory

    lines: list[str] = []
    samples = measured(Falling(*refused), lines.append)
    fallen = [s for s in samples.found if s.fell_from]
    assert [(s.name, s.core, s.fell_from, s.locked) for s in fallen] == [
        ("dram", 1200.0, 1410.0, False)]  # fmt: skip
    assert "clocks not held" in lines[-1] and "was 1200 to 1410 MHz" in lines[-1]
    assert from_json(json.loads(as_json(samples)))[0] == samples
    keys = {value.key: value for value in all_values(samples)}
    fit = keys.get("model.wang_chu.dm_lat_slope_cycles")
    assert (fit is None) == bool(refused)
    assert fit is None or fallen[0] not in fit.samples
    notes = {m.key: m.note for m in READER.read(Source(Path("a.json"), as_json(samples), ""))}
    assert notes["microbenchmark.dram_latency"] == "the core's clock was 1200 to 1410 MHz"
    assert not notes["microbenchmark.l1_latency"]


class Failing(SimulatedGpu):
    """Refuses cases by a word in their names, or no longer takes calls from such a one on."""

    def __init__(self, word: str, *, dies: bool = False) -> None:
        super().__init__()
        self.word, self.dies, self.is_dead, self.asked = word, dies, False, 0

    def run(self):
        self.asked += self.is_dead
        if self.is_dead or self.word in f"{self.case.procedure}, {self.case.name}":
            self.is_dead = self.dies
            raise SweepError("CUDA: cuLaunchKernel: CUDA_ERROR")
        return super().run()

    def is_alive(self):
        return not self.is_dead


@pytest.mark.parametrize("word", [*dict.fromkeys(c.name.split()[0] for c in all_cases(FACTS))])
def test_case_that_fails__is_left_out_with_its_reason(samples, word):
    lines: list[str] = []
    found = measured(Failing(f", {word}"), lines.append).found
    left = [s for s in samples.found if not s.name.startswith(word)]
    assert [(s.name, s.core) for s in found] == [(s.name, s.core) for s in left]
    (line,) = lines
    assert line.startswith(f"not measured: {len(samples.found) - len(left)} case")
    assert line.endswith("): CUDA: cuLaunchKernel: CUDA_ERROR")
    assert all_values(Samples(FACTS, found))


def test_gpu_that_dies__what_was_measured_before_is_kept(samples):
    lines: list[str] = []
    gpu = Failing("copies, dram", dies=True)
    found = measured(gpu, lines.append).found
    assert [s.name for s in found] == ["l1", "l2", "l2 far", "dram", "shared", "l2"]
    assert gpu.asked == 0 and {*gpu.calls[1:]} == {"unlock"}
    (line,) = lines
    assert line.startswith(f"not measured: {len(samples.found) - 6} cases (copies, dram; ")
    assert line.endswith("CUDA_ERROR, and the GPU takes no calls since")
    with pytest.raises(SweepError, match="^nothing was measured: CUDA: cuLaunchKernel: CUDA_ERROR"):
        measured(Failing(""), lines.append)


def test_time__limits_what_is_begun(monkeypatch):
    now = [0.0]

    def monotonic() -> float:
        now[0] += 0.5
        return now[0]

    monkeypatch.setattr("sweep.microbenchmarks.running.time.monotonic", monotonic)
    lines: list[str] = []
    few = measured(SimulatedGpu(), lines.append, minutes=2.0)
    assert 10 < len(few.found) < len(all_cases(FACTS))
    assert re.match(r"not measured: \d+ cases \(.*; ...\): no time, 2 minutes are over", lines[-1])
    with pytest.raises(SweepError, match="no time"):
        measured(SimulatedGpu(), lines.append, minutes=0.0)


def test_bad_sample__one_line():
    good = Sample("latencies", "l1", {"loads": 1.0}, 1.0, 1.0, True, (1.0,), (1.0,))
    for key, numbers, reason in (
        ("cycles", (0.0, 0.0), "cycles of 0, 0: the counter stands still"),
        ("ms", (-1.0,), "times of -1"), ("ms", (math.nan,), "times of nan"),
        ("cycles", (), "cycles of none"), ("watts", (math.nan,), "power of nan W: the sensor"),
    ):  # fmt: skip
        with pytest.raises(SweepError, match=f"latencies, l1: {reason}"):
            checked(dataclasses.replace(good, **{key: numbers}))

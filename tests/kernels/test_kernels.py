"""The shipped kernel files: the numbers of the papers' tables, and what any kernel must satisfy."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from support.launches import launched

from sweep.fields import STATUS
from sweep.specs import list_kernels, load_kernel

CASES = tomllib.loads((Path(__file__).parent / "printed_counts.toml").read_text("utf-8"))["case"]
MERGE = ("sepia", "linear", "svm", "mat_naive", "mat_tiled", "blackscholes_merge")
MICRO = ("micro_coalesced", "micro_uncoalesced")
SAMPLES = ("vector_add", "transpose", "blackscholes", "matrixmul_global", "matrixmul_shared")
ALL = (*MERGE, "figure12_tiled", *MICRO, *SAMPLES)

DEVICES = ("quadro_fx_5600", "gtx_280", "gtx_980_paper")


class Counts:
    """A kernel's launch and counts, for a device and chosen sizes and parameters.

    A parameter that is not chosen has all its values. ``valid`` says where the constraints hold.
    """

    def __init__(self, key, device="gtx_980_paper", **chosen):
        self.kernel = load_kernel(key)
        self.launch = launched(key, device, **chosen)
        self.work, self.active = self.launch.workload, self.launch.workload.occupancy
        shape = np.broadcast_shapes(*map(np.shape, self.launch.values.values()))
        self.valid = np.broadcast_to(self.launch.status != STATUS["constraint"], shape)
        self.threads, self.blocks = self["launch.threads_per_block"], self["launch.blocks"]

    def _evaluate(self, expression):
        return np.asarray(expression.evaluate(self.launch.values)[0], dtype=float)

    def __getitem__(self, path):
        memory, _, kind = path.partition(" ")
        if memory in ("global", "shared"):  # dynamic accesses of a thread
            listed = getattr(self.kernel, f"{memory}_accesses")
            counts = [self._evaluate(a.count) for a in listed if kind in ("", a.kind)]
            return sum(counts, start=np.zeros(()))
        return self._evaluate(dict(self.kernel.all_expressions())[path])

    def where_valid(self, numbers):
        return np.broadcast_to(numbers, self.valid.shape)[self.valid]

    def bytes_moved(self):
        """Bytes that all threads ask of global memory."""
        listed = self.kernel.global_accesses
        of_thread = sum(self._evaluate(a.count) * self._evaluate(a.bytes) for a in listed)
        return self.threads * self.blocks * of_thread


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kernel']} {case.get('chosen')}")
def test_counts__are_those_printed(case):
    counts = Counts(case["kernel"], case.get("device", "gtx_980_paper"), **case.get("chosen", {}))
    for path, expected in case["expected"].items():
        assert np.all(counts[path] == expected), path


# --------------------------------------------------------------------------- Hong & Kim 2009

TABLE_5 = {  # elements, arithmetic intensity, and the occupancy of Figure 20 at 128 threads
    "sepia": (7000 * 7000, 11.8, 1),
    "linear": (10000 * 10000, 3.7, 16 / 24),
    "svm": (736 * 992, 13.3, 1),
    "mat_naive": (2000 * 2000, 3, 1),
    "blackscholes_merge": (9000000, 19, 20 / 24),  # 19.6 is printed as 19
}
TABLE_4 = {1: (0, 23), 2: (1, 17), 3: (1, 29), 4: (2, 27), 5: (2, 35), 6: (4, 47), 7: (6, 59)}


@pytest.mark.parametrize("key", TABLE_5)
def test_table_5__intensity_elements_and_occupancy(key):
    elements, intensity, occupancy = TABLE_5[key]
    counts = Counts(key)
    found = counts["instructions.computation"] / counts["global"]
    assert found == pytest.approx(intensity, abs=0.6)
    sizes = counts.kernel.parameters["block_size"]
    assert (min(sizes), max(sizes)) == (4, 512)
    np.testing.assert_array_equal(counts.threads.ravel(), sizes)
    np.testing.assert_array_equal(counts.blocks.ravel(), np.ceil(elements / np.array(sizes)))
    active = Counts(key, device="quadro_fx_5600", block_size=128).active
    assert active.occupancy == pytest.approx(occupancy)


def test_table_5__only_svm_is_coalesced():
    for key in (*MERGE, "figure12_tiled"):
        patterns = {access.pattern for access in load_kernel(key).global_accesses}
        assert patterns == ({"coalesced"} if key == "svm" else {"misaligned"})


def test_mat_tiled__intensity_what_its_counts_include_and_larger_tiles():
    counts = Counts("mat_tiled", tile=20)
    intensity = counts["instructions.computation"] / counts["global"]
    assert intensity == pytest.approx(48.7, abs=0.05)
    assert counts["resources.shared_memory_bytes"] == 2 * 22 * 22 * 4 + 88
    counts = Counts("mat_tiled", device="quadro_fx_5600")
    included = counts["shared"] + counts["synchronisation.barriers"]
    assert np.all(counts["instructions.computation"] > included)
    warps = counts.active.active_warps_per_sm.ravel()
    assert warps[0] < warps[-1]  # Section 5.2: larger tiles have more active warps


def test_table_2__five_active_blocks_and_twenty_warps():
    result = Counts("figure12_tiled", device="quadro_fx_5600").active
    assert (result.active_blocks_per_sm, result.active_warps_per_sm) == (5, 20)
    assert (result.active_sm, result.limit_by_registers, result.limit_by_grid) == (16, 5, 5)
    # ceil(80 / 16) = 5 as well: the registers alone must limit a larger grid.
    larger = Counts("figure12_tiled", device="quadro_fx_5600", block_count=8000).active
    assert larger.active_blocks_per_sm == 5


@pytest.mark.parametrize("key", MICRO)
def test_table_4__instructions_of_1000_iterations_in_whole_rounds(key):
    counts = Counts(key)
    memory, computation = np.transpose(list(TABLE_4.values()))
    assert counts.kernel.parameters["benchmark"] == tuple(TABLE_4)
    np.testing.assert_array_equal(counts["instructions.computation"].ravel(), 1000 * computation)
    np.testing.assert_array_equal(counts["global"].ravel(), 1000 * memory)
    assert counts["loops.outer"] == 1000
    assert [a.pattern for a in counts.kernel.global_accesses] == [key.removeprefix("micro_")]
    for device in ("quadro_fx_5600", "gtx_280"):
        counts = Counts(key, device=device)
        rounds = counts.blocks / (counts.active.active_blocks_per_sm * counts.work.n_sm)
        np.testing.assert_array_equal(rounds, np.round(rounds))


def test_vector_add__all_elements_are_added_once():
    counts = Counts("vector_add")
    added = counts.threads * counts.blocks * counts["instructions.fp32"]
    n = counts.kernel.sizes["n"]
    assert np.all((added >= n) & (added < n + 1024 * 16))
    np.testing.assert_allclose(counts.bytes_moved() / added, 12)


@pytest.mark.parametrize(
    ("key", "moved"), [("transpose", 2 * 4 * 1024**2), ("blackscholes", 5 * 4 * 4000000)]
)
def test_samples__every_configuration_moves_the_data_once(key, moved):
    counts = Counts(key)
    np.testing.assert_allclose(counts.where_valid(counts.bytes_moved()), moved)


def test_matrixmul_global__hit_rate_and_work_per_thread():
    counts = Counts("matrixmul_global", block_x=32, block_y=32, work_per_thread=1, unroll=1)
    # Wang & Chu 2017, Section VI-B: 97.5%.
    assert counts["cache.l2_hit_rate"] == pytest.approx(0.975, abs=0.002)
    counts = Counts("matrixmul_global", block_x=32, block_y=8, unroll=4)
    per_element = (counts["global load"] / counts["instructions.fp32"]).ravel()
    np.testing.assert_allclose(per_element, [2, 1.5, 1.25, 1.125])
    assert np.all(np.diff(counts["resources.registers_per_thread"].ravel()) > 0)


@pytest.mark.parametrize("key", ["matrixmul_global", "matrixmul_shared"])
def test_matrixmul__matrices_that_fit_the_cache_hit_more(key):
    streaming = Counts(key, n=1024)["cache.l2_hit_rate"]
    resident = Counts(key, n=256)["cache.l2_hit_rate"]
    assert 12 * 256**2 <= 2 * 2**20 < 12 * 1024**2
    assert np.max(resident) > np.max(streaming)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("key", ALL)
def test_plausible__counts_and_launch(key, device):
    counts = Counts(key, device=device)
    for path, expression in counts.kernel.all_expressions():
        value, fault = map(counts.where_valid, expression.evaluate(counts.launch.values))
        assert np.all(value >= 0) and not fault.any(), path
        assert path != "cache.l2_hit_rate" or np.all(value <= 1)
    assert np.any(counts.where_valid(counts.threads) <= 512), "nothing for compute capability 1.x"
    for value in (counts.threads, counts.blocks, counts["resources.registers_per_thread"]):
        whole = counts.where_valid(value)
        assert np.all(whole >= 1)
        np.testing.assert_array_equal(whole, np.round(whole))
    shape_of_block = counts["launch.block_x"] * counts["launch.block_y"]
    np.testing.assert_array_equal(shape_of_block, counts.threads)
    assert np.any(counts.where_valid(counts.active.active_blocks_per_sm) > 0)


@pytest.mark.parametrize("key", SAMPLES)
def test_samples__have_a_space_to_search_and_counts_from_the_source(key):
    assert set(ALL) <= set(list_kernels())
    counts = Counts(key)
    sizes = [len(values) for values in counts.kernel.parameters.values()]
    assert np.prod(sizes) >= 100 and np.count_nonzero(counts.valid) >= 80
    for path, _ in counts.kernel.all_expressions():
        if path.startswith(("instructions.", "global_access.")):
            source = str(counts.kernel.source_of(path))
            assert source.startswith("derived: counted from CUDA sample")

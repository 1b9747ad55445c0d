"""The shipped kernel files: the numbers of the papers' tables, and what any kernel must satisfy.

Literals come from Tables 2, 4 and 5 of Hong & Kim 2009, from Section VI-B of Wang & Chu 2017, and
from counts in the machine code of the CUDA samples (ptxas 12.4, compute capability 5.2).
"""

from __future__ import annotations

import numpy as np
import pytest

from sweep.hardware.occupancy import limits_for, occupancy
from sweep.specs import list_kernels, load_kernel
from sweep.specs.formats import DEVICE_NAMES

MERGE = ("sepia", "linear", "svm", "mat_naive", "mat_tiled", "blackscholes_merge")
MICRO = ("micro_coalesced", "micro_uncoalesced")
SAMPLES = ("vector_add", "transpose", "blackscholes", "matrixmul_global", "matrixmul_shared")
ALL = (*MERGE, "figure12_tiled", *MICRO, *SAMPLES)

_DEVICES = {
    # in the order of DEVICE_NAMES: warp size, SMs, lanes, threads a block and an SM, shared memory,
    # registers, L1 and L2 bytes, compute capability
    "quadro_fx_5600": (32, 16, 8, 512, 768, 16384, 8192, 0, 0, 1.0),
    "gtx_280": (32, 30, 8, 512, 1024, 16384, 16384, 0, 0, 1.3),
    "gtx_980": (32, 16, 128, 1024, 2048, 98304, 65536, 48 * 2**10, 2 * 2**20, 5.2),
}


class Counts:
    """A kernel's expressions, evaluated for a device and chosen sizes and parameters.

    A parameter that is not chosen spans its own axis, so that one evaluation covers the whole grid.
    """

    def __init__(self, key, device="gtx_980", **chosen):
        self.kernel = load_kernel(key)
        unknown = set(chosen) - {*self.kernel.sizes, *self.kernel.parameters}
        assert not unknown, unknown
        self.values = dict(zip(DEVICE_NAMES, _DEVICES[device], strict=True))
        self.values |= self.kernel.sizes
        for axis, (name, listed) in enumerate(self.kernel.parameters.items()):
            shape = [1] * len(self.kernel.parameters)
            shape[axis] = len(listed)
            self.values[name] = np.array(listed, dtype=float).reshape(shape)
        self.values |= chosen
        self.fault = np.zeros((), dtype=bool)
        for name in self.kernel.derived:
            self.values[name] = self._evaluate(self.kernel.derived[name])

    def _evaluate(self, expression):
        value, fault = expression.evaluate(self.values)
        self.fault = self.fault | fault
        return np.asarray(value, dtype=float)

    def __getitem__(self, path):
        return self._evaluate(dict(self.kernel.all_expressions())[path])

    def valid(self):
        """Where the constraints hold, over the whole grid."""
        listed = self.kernel.parameters
        result = np.ones([np.size(self.values[name]) for name in listed], dtype=bool)
        for constraint in self.kernel.constraints:
            result = result & (self._evaluate(constraint) != 0)
        return result

    @property
    def threads(self):
        return self["launch.threads_per_block"]

    @property
    def blocks(self):
        return self["launch.blocks"]

    def accesses(self, memory, *kinds):
        """Dynamic accesses of a thread to "global" or "shared" memory, of the kinds given."""
        listed = getattr(self.kernel, f"{memory}_accesses")
        counts = [self._evaluate(a.count) for a in listed if not kinds or a.kind in kinds]
        return sum(counts, start=np.zeros(()))

    def bytes_moved(self):
        """Bytes that all threads ask of global memory."""
        listed = self.kernel.global_accesses
        of_thread = sum(self._evaluate(a.count) * self._evaluate(a.bytes) for a in listed)
        return self.threads * self.blocks * of_thread

    def active(self, compute_capability, n_sm=16):
        return occupancy(
            self.threads,
            self["resources.registers_per_thread"],
            self["resources.shared_memory_bytes"],
            self.blocks,
            limits=limits_for([compute_capability], ()),
            n_sm=n_sm,
        )


def test_shipped_kernels__are_these():
    assert set(ALL) <= set(list_kernels())


# ------------------------------------------------------- Hong & Kim 2009, Table 5 and Section 5.2

TABLE_5 = {
    # elements, computation, memory, arithmetic intensity, registers, shared memory
    "sepia": (7000 * 7000, 71, 6, 11.8, 7, 52),
    "linear": (10000 * 10000, 111, 30, 3.7, 15, 60),
    "svm": (736 * 992, 10871, 819, 13.3, 9, 44),
    "mat_naive": (2000 * 2000, 12043, 4001, 3, 10, 88),
    "blackscholes_merge": (9000000, 137, 7, 19, 11, 36),
}


@pytest.mark.parametrize("key", TABLE_5)
def test_table_5__counts_and_resources(key):
    _, computation, memory, intensity, registers, shared = TABLE_5[key]
    counts = Counts(key)
    assert counts["instructions.computation"] == computation
    assert counts.accesses("global") == memory
    assert computation / memory == pytest.approx(intensity, abs=0.6)  # 19.6 is printed as 19
    assert counts["resources.registers_per_thread"] == registers
    assert counts["resources.shared_memory_bytes"] == shared


@pytest.mark.parametrize("key", TABLE_5)
def test_section_5_2__same_elements_at_every_block_size(key):
    counts = Counts(key)
    sizes = counts.kernel.parameters["block_size"]
    assert (min(sizes), max(sizes)) == (4, 512)
    np.testing.assert_array_equal(counts.threads, sizes)
    np.testing.assert_array_equal(counts.blocks, np.ceil(TABLE_5[key][0] / np.array(sizes)))


@pytest.mark.parametrize("key", MERGE)
def test_table_5__only_svm_is_coalesced(key):
    patterns = {access.pattern for access in load_kernel(key).global_accesses}
    assert patterns == ({"coalesced"} if key == "svm" else {"misaligned"})


@pytest.mark.parametrize(
    ("tile", "computation", "memory"), [(4, 24580, 1001), (20, 9780, 201), (8, 15330, 501)]
)
def test_mat_tiled__meets_table_5_at_both_ends(tile, computation, memory):
    counts = Counts("mat_tiled", tile=tile)
    assert counts["instructions.computation"] == computation
    assert counts["instructions.computation"] == 37 * 2000 / tile + 6080
    assert counts.accesses("global") == memory
    assert counts["synchronisation.barriers"] == 2 * 2000 / tile
    assert counts.threads == tile**2
    assert counts.blocks == (2000 / tile) ** 2


def test_mat_tiled__printed_values():
    counts = Counts("mat_tiled", tile=20)
    intensity = counts["instructions.computation"] / counts.accesses("global")
    assert intensity == pytest.approx(48.7, abs=0.05)
    assert counts["resources.registers_per_thread"] == 18
    assert counts["resources.shared_memory_bytes"] == 3960 == 2 * 22 * 22 * 4 + 88


def test_mat_tiled__computes_a_tile_beyond_the_edge_in_full():
    assert Counts("mat_tiled", tile=16, n=2001).blocks == 126**2


def test_mat_tiled__counts_cover_the_barriers_and_shared_accesses_they_include():
    counts = Counts("mat_tiled")
    included = counts.accesses("shared") + counts["synchronisation.barriers"]
    assert np.all(counts["instructions.computation"] > included)


FIGURE_20 = {"sepia": 1, "svm": 1, "mat_naive": 1, "blackscholes_merge": 20 / 24, "linear": 16 / 24}


@pytest.mark.parametrize("key", FIGURE_20)
def test_figure_20__occupancy_at_128_threads(key):
    counts = Counts(key, device="quadro_fx_5600", block_size=128)
    assert counts.active("1.0").occupancy == pytest.approx(FIGURE_20[key])


def test_section_5_2__larger_tiles_have_more_active_warps():
    active = Counts("mat_tiled", device="quadro_fx_5600").active("1.0").active_warps_per_sm
    assert active[0] < active[-1]


# -------------------------------------------------- Hong & Kim 2009, Table 2 and Table 4


def test_table_2__figure_12():
    counts = Counts("figure12_tiled", device="quadro_fx_5600")
    assert counts.threads == 128
    assert counts.blocks == 80
    assert counts["instructions.computation"] == 27
    assert counts.accesses("global") == 6
    assert counts["synchronisation.barriers"] == 6
    assert [a.pattern for a in counts.kernel.global_accesses] == ["misaligned"]
    assert counts["global_access.tiles.bytes"] == 4


def test_table_2__five_active_blocks_and_twenty_warps():
    result = Counts("figure12_tiled", device="quadro_fx_5600").active("1.0")
    assert result.active_blocks_per_sm == 5
    assert result.active_warps_per_sm == 20
    assert result.active_sm == 16
    assert result.limit_by_registers == 5
    # ceil(80 / 16) = 5 as well: the registers alone must limit a larger grid.
    larger = Counts("figure12_tiled", device="quadro_fx_5600", block_count=8000).active("1.0")
    assert larger.active_blocks_per_sm == 5


TABLE_4 = {
    number: (memory, computation)
    for number, memory, computation in zip(
        range(1, 8), (0, 1, 1, 2, 2, 4, 6), (23, 17, 29, 27, 35, 47, 59), strict=True
    )
}


@pytest.mark.parametrize("key", MICRO)
@pytest.mark.parametrize("number", TABLE_4)
def test_table_4__instructions_of_1000_iterations(key, number):
    memory, computation = TABLE_4[number]
    counts = Counts(key, benchmark=number)
    assert counts["instructions.computation"] == 1000 * computation
    assert counts.accesses("global") == 1000 * memory
    assert counts["loops.outer"] == 1000
    assert counts.kernel.parameters["benchmark"] == tuple(TABLE_4)
    assert [a.pattern for a in counts.kernel.global_accesses] == [key.removeprefix("micro_")]


@pytest.mark.parametrize(("device", "capability"), [("quadro_fx_5600", "1.0"), ("gtx_280", "1.3")])
def test_micro__every_launch_is_whole_rounds(device, capability):
    counts = Counts("micro_coalesced", device=device)
    sm_count = counts.values["sm_count"]
    active = counts.active(capability, n_sm=sm_count)
    rounds = counts.blocks / (active.active_blocks_per_sm * sm_count)
    np.testing.assert_array_equal(rounds, np.round(rounds))


# ------------------------------------------------------------------------- CUDA samples


def test_vector_add__the_sample_itself():
    counts = Counts("vector_add", block_size=256, elements_per_thread=1, vector_width=1, n=50000)
    assert counts.blocks == 196
    found = {name: counts[f"instructions.{name}"] for name in ("fp32", "integer", "move")}
    assert found == {"fp32": 1, "integer": 12, "move": 3}
    assert counts.accesses("global", "load") == 2
    assert counts.accesses("global", "store") == 1
    assert counts["resources.registers_per_thread"] == 8


def test_vector_add__all_elements_are_added_once():
    counts = Counts("vector_add")
    added = counts.threads * counts.blocks * counts["instructions.fp32"]
    n = counts.kernel.sizes["n"]
    assert np.all((added >= n) & (added < n + 1024 * 16))
    np.testing.assert_allclose(counts.bytes_moved() / added, 12)


def test_transpose__the_sample_itself():
    chosen = {"tile": 32, "block_rows": 16, "padding": 1, "tiles_per_block": 1}
    counts = Counts("transpose", **chosen)
    assert counts.threads == 512
    assert counts.blocks == 32 * 32
    assert counts["resources.shared_memory_bytes"] == 32 * 33 * 4
    assert counts["resources.registers_per_thread"] == 14
    assert counts.accesses("global", "load") == counts.accesses("global", "store") == 2
    assert counts.accesses("shared", "load") == counts.accesses("shared", "store") == 2
    assert counts["synchronisation.barriers"] == 1
    assert counts["shared_access.tile_load.x"] == 33


@pytest.mark.parametrize(
    ("width", "fp32", "special", "registers"), [(1, 75, 13, 21), (2, 152, 26, 25), (4, 306, 52, 32)]
)
def test_blackscholes__one_iteration(width, fp32, special, registers):
    # A grid of one iteration a thread: as many options as it has threads times the width.
    options = 16 * 4 * 128 * width
    counts = Counts(
        "blackscholes", block_size=128, vector_width=width, grid_blocks_per_sm=4, options=options
    )
    assert counts.blocks == 64
    assert counts["instructions.fp32"] == fp32 + 2
    assert counts["instructions.special"] == special
    assert counts.accesses("global", "load") == 3
    assert counts.accesses("global", "store") == 2
    assert counts["resources.registers_per_thread"] == registers


def test_blackscholes__first_version_of_the_sample():
    counts = Counts(
        "blackscholes", device="gtx_280", block_size=128, vector_width=1, grid_blocks_per_sm=16
    )
    assert counts.blocks == 480
    assert counts["loops.outer"] == 4000000 / (480 * 128)


@pytest.mark.parametrize(
    ("key", "moved"), [("transpose", 2 * 4 * 1024**2), ("blackscholes", 5 * 4 * 4000000)]
)
def test_samples__every_configuration_moves_the_data_once(key, moved):
    counts = Counts(key)
    valid = counts.valid()
    np.testing.assert_allclose(np.broadcast_to(counts.bytes_moved(), valid.shape)[valid], moved)


def test_matrixmul_global__multiply_adds_and_hit_rate():
    counts = Counts("matrixmul_global", block_x=32, block_y=32, work_per_thread=1, unroll=1)
    assert counts.threads == counts.blocks == 1024
    assert counts["instructions.fp32"] * counts.threads * counts.blocks == 1024**3
    assert counts.accesses("global", "load") == 2 * 1024
    # Wang & Chu 2017, Section VI-B: 97.5%.
    assert counts["cache.l2_hit_rate"] == pytest.approx(0.975, abs=0.002)


def test_matrixmul_global__work_per_thread_saves_loads():
    counts = Counts("matrixmul_global", block_x=32, block_y=8, unroll=4)
    per_element = (counts.accesses("global", "load") / counts["instructions.fp32"]).ravel()
    np.testing.assert_allclose(per_element, [2, 1.5, 1.25, 1.125])
    assert np.all(np.diff(counts["resources.registers_per_thread"].ravel()) > 0)


@pytest.mark.parametrize(("tile", "loads"), [(16, 20), (32, 40)])
def test_matrixmul_shared__the_sample_itself(tile, loads):
    counts = Counts("matrixmul_shared", tile=tile, work_per_thread=1, unroll=tile)
    assert counts.threads == tile**2
    assert counts["instructions.fp32"] * counts.threads * counts.blocks == 1024**3
    assert counts["loops.inner"] == loads  # "nearly 3 dozens", Wang & Chu 2017, Section V-B
    assert counts["loops.outer"] == 1024 / tile
    assert counts.accesses("shared", "load") == loads * 1024 / tile
    assert counts["synchronisation.barriers"] == 2 * 1024 / tile
    assert counts.accesses("global", "load") == 2 * 1024 / tile
    assert counts["resources.shared_memory_bytes"] == 8 * tile**2
    assert abs(counts["resources.registers_per_thread"] - 28) <= 1


@pytest.mark.parametrize("key", ["matrixmul_global", "matrixmul_shared"])
def test_matrixmul__matrices_that_fit_the_cache_hit_more(key):
    streaming = Counts(key, n=1024)["cache.l2_hit_rate"]
    resident = Counts(key, n=256)["cache.l2_hit_rate"]
    assert 12 * 256**2 <= 2 * 2**20 < 12 * 1024**2
    assert np.max(resident) > np.max(streaming)


# ------------------------------------------------------------------------- every kernel


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("key", ALL)
def test_plausible__no_count_is_negative_or_missing(key, device):
    counts = Counts(key, device=device)
    valid = counts.valid()
    for path, _ in counts.kernel.all_expressions():
        value = np.broadcast_to(counts[path], valid.shape)[valid]
        assert np.all(value >= 0), path
        assert path != "cache.l2_hit_rate" or np.all(value <= 1)
    assert not np.any(counts.fault & valid)


@pytest.mark.parametrize("key", ALL)
def test_plausible__launch_is_whole_and_starts(key):
    counts = Counts(key)
    valid = counts.valid()
    assert np.any(valid & (counts.threads <= 512)), "nothing for compute capability 1.x"
    for value in (counts.threads, counts.blocks, counts["resources.registers_per_thread"]):
        whole = np.broadcast_to(value, valid.shape)[valid]
        assert np.all(whole >= 1)
        np.testing.assert_array_equal(whole, np.round(whole))
    shape_of_block = counts["launch.block_x"] * counts["launch.block_y"]
    np.testing.assert_array_equal(shape_of_block, counts.threads)


@pytest.mark.parametrize(("capability", "device"), [("1.0", "quadro_fx_5600"), ("5.2", "gtx_980")])
@pytest.mark.parametrize("key", ALL)
def test_plausible__some_configuration_runs(key, capability, device):
    counts = Counts(key, device=device)
    assert np.any((counts.active(capability).active_blocks_per_sm > 0) & counts.valid())


@pytest.mark.parametrize("key", SAMPLES)
def test_samples__have_a_space_to_search(key):
    counts = Counts(key)
    sizes = [len(values) for values in counts.kernel.parameters.values()]
    assert np.prod(sizes) >= 100
    assert np.count_nonzero(counts.valid()) >= 80


@pytest.mark.parametrize("key", SAMPLES)
def test_samples__counts_are_derived_from_the_source(key):
    kernel = load_kernel(key)
    for path, _ in kernel.all_expressions():
        if path.startswith(("instructions.", "global_access.")):
            assert str(kernel.source_of(path)).startswith("derived: counted from CUDA sample")

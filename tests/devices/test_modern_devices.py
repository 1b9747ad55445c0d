"""Devices from datasheets and micro-benchmarks: printed numbers, and the form of AMD's.

A row of the data sheets has the boost clock, and the highest one where a review or a measurement
has a higher one; TFLOP/s and GB/s are as printed. The MI250X counts as one of its two dies, the
W7800 without pairs of instructions, and its double precision is half of what reviews print, as
measured; so the RX 7900 XTX. The W6600's clock and some TFLOP/s are recalled. Published tuning data
was measured on the list ``further``, or on related cards; ``common`` is from public tables.
"""

import csv
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from support.spec_texts import DEVICE, spoilt

from sweep import specs
from sweep.errors import SpecError
from sweep.hardware.affine_accesses import access_transactions
from sweep.hardware.memory_rules import bank_rule_of, rule_of
from sweep.hardware.occupancy import occupancy
from sweep.hardware.occupancy_limits import Limits, limits_for
from sweep.space import with_derived
from sweep.specs.formats import LIMITS_OF_DEVICE

DATA = Path(__file__).parents[1] / "data"
SHEETS = list(csv.DictReader((DATA / "datasheets.csv").read_text("utf-8").splitlines()))
DATASHEETS = [row["device"] for row in SHEETS]
MODERN = [row["device"] for row in SHEETS if row["list"] == "printed"]
AMD = ("mi50", "mi100", "mi210", "mi250x", "mi300x", "mi325x", "radeon_pro_w6600",
       "radeon_pro_w7800", "radeon_rx_6900_xt", "radeon_rx_7900_xtx",
       "lemeire_southern_islands", "lemeire_northern_islands")  # fmt: skip
PAPERS = ("gtx_260", "gtx_285", "gt_640", "quadro_k620", "lemeire_kepler", "lemeire_fermi",
          "lemeire_tesla", "lemeire_southern_islands", "lemeire_northern_islands")  # fmt: skip


def of_keys(keys):
    return pytest.mark.parametrize("device", keys, ids=str, indirect=True)


@pytest.fixture
def device(request):
    return specs.load_device(request.param)


def test_all_are_shipped():
    others = {"gtx_8800", "quadro_fx_5600", "gt_8800", "gtx_280", "gtx_980_paper", "gtx_titan_x",
              "h20"}  # fmt: skip
    files = {path.stem for path in specs.data_root("device").glob("*.toml")}
    assert files == {*DATASHEETS, *PAPERS, *others} <= set(specs.list_devices())


def test_gtx_titan_x__is_the_card_of_the_measured_clocks():
    device = specs.load_device("gtx_titan_x")
    values = device.values
    lanes = values["chip.sm_count"] * values["chip.lanes_per_sm"]
    assert lanes == 3072 and 2 * lanes * 1.075e9 == pytest.approx(6.6e12, rel=1e-2)  # at boost
    assert values["chip.memory_bandwidth"] == pytest.approx(336.5e9, rel=1e-3)
    assert device.limits == specs.load_device("gtx_980_paper").limits
    # Wang & Chu's (4) at 1075/3505 MHz; a sector's service takes 4 bytes a memory clock and SM.
    wang_chu = device.model_parameters["wang_chu"]
    ratio = 1075 / 3505
    assert wang_chu["dm_lat_slope_cycles"] == pytest.approx(222.78 * ratio, rel=1e-4)
    latency = wang_chu["dm_lat_slope_cycles"] + wang_chu["dm_lat_intercept_cycles"]
    assert values["microbenchmark.dram_latency"] == pytest.approx(latency, rel=1e-4)
    for memory, cycles in wang_chu["dm_del_table"]:
        assert cycles == pytest.approx((805.03 / memory + 8.1762) * ratio, rel=1e-3)
        assert cycles > 32 / 4 * ratio


POWERED = {
    "gtx_1080_ti",
    "gtx_980",
    "rtx_2070_super",
    "tesla_k40",
    "tesla_p100",
    "titan_xp",
    "v100_pcie",
}
"""Those whose power was measured and published."""


@pytest.mark.parametrize("row", SHEETS, ids=DATASHEETS)
def test_datasheet(row):
    device = specs.load_device(row["device"])
    values = device.values
    n_sm, lanes, boost, bus = (
        float(row[name]) for name in ("sms", "lanes", "boost_MHz", "bus_bits")
    )
    assert device.compute_capability == row["compute_capability"]
    assert (values["chip.sm_count"], values["chip.lanes_per_sm"]) == (n_sm, lanes)
    assert values["chip.memory_bus_width"] == bus
    assert values["chip.l2"] == float(row["l2_MiB"]) * 2**20
    peak = 2 * n_sm * boost * 1e6
    assert peak * lanes == pytest.approx(float(row["TFLOPs"]) * 1e12, rel=0.01)
    if row["fp64_TFLOPs"]:
        double = peak * values["chip.fp64_lanes_per_sm"]
        assert double == pytest.approx(float(row["fp64_TFLOPs"]) * 1e12, rel=0.02)
    bandwidth, transfers = values["chip.memory_bandwidth"], 2 * values["clocks.memory_nominal"]
    assert bandwidth == pytest.approx(float(row["GBps"]) * 1e9, rel=0.003)
    assert bandwidth == pytest.approx(transfers * bus / 8, rel=1e-12)
    # The range of the core clock ends at the boost clock, or at what the card was seen to reach
    # beyond it; there is one memory clock only.
    assert values["clocks.core_nominal"] == boost * 1e6
    assert values["clocks.core_max"] == float(row["highest_MHz"] or boost) * 1e6
    assert values["clocks.core_min"] < 0.5 * values["clocks.core_nominal"]
    assert device.sources["clocks.core_min_MHz"].kind == "assumed"
    assert "clocks.memory_min" not in values
    has_power = any(path.startswith("power") for path in (*values, *device.tables))
    assert has_power == (row["device"] in POWERED)


@of_keys([key for key in (*DATASHEETS, *PAPERS) if not key.startswith("lemeire_northern")])
def test_units_of_a_multiprocessor(device):
    values, warp = device.values, device.values["chip.warp_size"]
    lanes = values["chip.lanes_per_sm"]
    assert values["chip.special_lanes_per_sm"] <= lanes / 2
    assert values["chip.fp64_lanes_per_sm"] <= values["chip.integer_lanes_per_sm"] <= lanes
    assert values["chip.shared_banks"] == (16 if device.compute_capability[:2] == "1." else 32)
    if width := values.get("chip.issue_width_per_sm"):
        assert width / values["chip.schedulers_per_sm"] in (
            (1, 2, 4) if device.vendor == "AMD" else (1, 2)
        )
        assert width >= lanes / warp  # else lanes would never be busy


@of_keys(MODERN)
def test_latencies__rise_with_the_distance_and_name_other_cards(device):
    names = ("l1", "l2_near", "l2_far", "dram", "dram_large")
    found = [device.values.get(f"microbenchmark.{name}_latency") for name in names]
    known = [value for value in found if value is not None]
    assert known == sorted(known)
    assert 200 < found[3] / device.values["microbenchmark.core_clock"] * 1e9 < 500
    # A latency of DRAM on other memory is an assumption, one of the same chip's SM is not.
    others = {"rtx_3090", "rtx_a4000", "a100_40gb", "h100_pcie"}
    kind = device.sources["microbenchmark.dram_latency_cycles"].kind
    assert kind == ("assumed" if device.key in others else "microbenchmark")
    assert device.sources["microbenchmark.l1_latency_cycles"].kind == "microbenchmark"


PLENTY = 10**6
FEW = {  # occupancy where registers do not suffice: 8,192, 16,384 and 32,768; 256 a lane
    **{"gtx_260": 16 / 32, "gtx_285": 16 / 32, "gtx_280": 16 / 32, "lemeire_tesla": 8 / 24},
    **dict.fromkeys(("gtx_8800", "quadro_fx_5600", "gt_8800"), 8 / 24),
    **{"lemeire_fermi": 32 / 48, "lemeire_southern_islands": 32 / 40},
    **{"mi50": 32 / 40, "mi100": 32 / 40},
}


@of_keys(specs.list_devices())
def test_occupancy_and_bandwidth__of_any_device(device):
    limits, n_sm = limits_for(device.limits), device.values["chip.sm_count"]
    counts = occupancy(256, 32, 0, PLENTY, limits=limits, n_sm=n_sm)
    assert counts.status == 0
    assert counts.occupancy == pytest.approx(FEW.get(device.key, 1.0))
    assert limits.warp_size == device.values["chip.warp_size"]
    assert limits.max_threads_per_sm == limits.max_warps_per_sm * limits.warp_size
    counts = occupancy(limits.max_threads_per_block, 16, 0, PLENTY, limits=limits, n_sm=1)
    assert counts.active_blocks_per_sm >= 1
    assert occupancy(limits.max_threads_per_block + 1, 1, 0, 1, limits=limits, n_sm=1).status == 2
    peak = device.values["chip.memory_bandwidth"]
    for path, value in device.values.items():
        if path.startswith("microbenchmark.dram") and path.endswith("bandwidth"):
            assert 0.6 * peak < value < peak
    measured = "microbenchmark.dram_read_bandwidth" in device.values  # or of GPUs like it, not 0.85
    newer = float(device.compute_capability or 0) >= 8.0 and device.key != "rtx_pro_6000_blackwell"
    assert measured or not newer  # of that card none was found


PUBLISHED = {  # of GPUs before Ampere, by benchmarks that their files name
    "dram_share_fraction": {
        "tesla_k20": 0.8315, "tesla_k40": 0.7575, "gtx_750": 0.9013, "quadro_k620": 0.9267,
        "gtx_980": 0.7791, "gtx_titan_x": 0.8488, "gtx_1060": 0.8658, "gtx_1080": 0.7393,
        "titan_xp": 0.7591, "tesla_p100": 0.7611, "gtx_1660_ti": 0.905, "rtx_2060": 0.9283,
        "rtx_2070": 0.9479, "rtx_2080": 0.8946},
    "fp32_cycles": {"tesla_k20": 0.2025, "tesla_k40": 0.2046, "gtx_680": 0.2025},
    "l1_latency_cycles": {"tesla_k20": 64, "gtx_680": 64, "gtx_750": 93, "tesla_p100": 90},
    "l2_latency_cycles": {"tesla_k20": 223, "gtx_680": 223, "gtx_750": 173},
    "dram_latency_cycles": {"tesla_k20": 342, "tesla_k40": 361},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published__is_what_combined_takes(name):
    for key, value in PUBLISHED[name].items():
        found = with_derived(specs.load_device(key), ["combined"]).model_parameters["combined"]
        assert found[name] == pytest.approx(value, rel=1e-3), key


CDNA2 = [  # registers of a thread, wavefronts of a SIMD unit: LLVM, gfx90a
    (24, 8), (64, 8), (65, 7), (72, 7), (73, 6), (80, 6), (81, 5), (96, 5), (97, 4), (128, 4),
    (129, 3), (168, 3), (169, 2), (256, 2), (257, 1), (512, 1),
]  # fmt: skip


AMD_BLOCKS = [  # device, threads and registers, shared memory, blocks
    ("mi210", 64, 16, 0, 32), ("mi210", 65, 16, 0, 16),  # two wavefronts
    ("mi210", 1024, 16, 0, 2), ("mi210", 256, 16, 65536, 1), ("mi210", 256, 16, 32769, 1),
    ("mi210", 256, 16, 21504, 3), ("mi210", 256, 16, 21505, 2),  # 42 units of 512 bytes, of 128
    ("lemeire_southern_islands", 256, 16, 0, 10), ("lemeire_southern_islands", 256, 16, 32768, 2),
    ("lemeire_northern_islands", 256, 16, 0, 5), ("lemeire_northern_islands", 64, 16, 0, 8),
    *(("mi210", 64, registers, 0, 4 * wavefronts) for registers, wavefronts in CDNA2),
]  # fmt: skip


@pytest.mark.parametrize(("key", "threads", "registers", "shared", "blocks"), AMD_BLOCKS)
def test_occupancy__amd(key, threads, registers, shared, blocks):
    limits = limits_for(specs.load_device(key).limits)
    counts = occupancy(threads, registers, shared, PLENTY, limits=limits, n_sm=104)
    assert counts.active_blocks_per_sm == blocks
    assert counts.warps_per_block == np.ceil(threads / 64)


def test_occupancy__of_both_vendors_at_once():
    devices = [specs.load_device(key) for key in ("v100", "mi210")]
    together = limits_for([device.limits for device in devices], (-1, 1))
    assert together.warp_size.ravel().tolist() == [32, 64]
    threads = np.array([32, 64, 256, 1024])
    counts = occupancy(threads, 40, 1000, PLENTY, limits=together, n_sm=1)
    for i, device in enumerate(devices):
        alone = occupancy(threads, 40, 1000, PLENTY, limits=limits_for(device.limits), n_sm=1)
        assert np.array_equal(counts.active_warps_per_sm[i], alone.active_warps_per_sm)
    same = limits_for(["7.0", "8.0"], (-1, 1))
    assert same.warp_size.shape == ()  # warps of a block do not depend on the device then


def test_amd__has_its_own_limits():
    for device in map(specs.load_device, AMD):
        assert device.vendor == "AMD" and device.compute_capability == ""
        assert device.values["chip.warp_size"] == (32 if "RDNA" in device.architecture else 64)
        assert device.generation == device.architecture
    assert specs.load_device("v100").generation == "compute capability 7.0"


@pytest.mark.parametrize(("key", "pattern", "stride", "transactions", "moved", "sectors"), [
    ("mi210", "coalesced", None, 4, 256, 8), ("mi210", "strided", 2, 8, 512, 16),
    ("mi210", "strided", 16, 64, 4096, 64), ("mi210", "uncoalesced", None, 64, 4096, 64),
    ("mi210", "broadcast", None, 1, 64, 1), ("mi300x", "coalesced", None, 2, 256, 8),
    ("mi300x", "strided", 16, 32, 4096, 64), ("radeon_pro_w7800", "strided", 2, 2, 256, 8),
    ("radeon_pro_w7800", "uncoalesced", None, 32, 4096, 32),
])  # fmt: skip
def test_amd__lines_of_the_first_cache(key, pattern, stride, transactions, moved, sectors):
    device = specs.load_device(key)
    found = access_transactions(pattern, 4, stride, device.values["chip.warp_size"],
                                rule_of(device.target))  # fmt: skip
    assert tuple(float(x) for x in found) == (transactions, moved, sectors)
    assert bank_rule_of(device.compute_capability) == "warp"


@pytest.mark.parametrize(("key", "bytes_of_a_clock"), [  # of the whole L2, at most
    ("v100_pcie", 64 * 32), ("v100", 64 * 32), ("a40", 48 * 32), ("rtx_a4000", 32 * 32),
    ("rtx_3060", 24 * 32), ("tesla_t4", 32 * 32), ("rtx_2080_ti", 44 * 32),  # AMD's by its papers:
    ("mi50", 16 * 64), ("mi100", 32 * 64), ("mi210", 32 * 128), ("mi250x", 32 * 128),
    ("radeon_pro_w6600", 8 * 128), ("radeon_pro_w7800", 24 * 128),
    ("radeon_rx_6900_xt", 16 * 128), ("radeon_rx_7900_xtx", 24 * 128),
    ("mi300x", 8 * 16 * 128), ("mi325x", 8 * 16 * 128),
])  # fmt: skip
def test_l2__serves_most_of_what_its_channels_could(key, bytes_of_a_clock):
    device = with_derived(specs.load_device(key), ["combined"])
    cycles = device.model_parameters["combined"]["l2_cycles"]
    reached = 32 / cycles * device.values["chip.sm_count"]
    assert 0.7 * bytes_of_a_clock < reached < bytes_of_a_clock


def test_memory_side_cache__reaches_less_than_its_channels_could():
    for key in ("mi300x", "mi325x"):  # 17.2 TB/s; loops reach 6.5 (AMD's) to 11.9
        reached = specs.load_device(key).values["microbenchmark.memory_side_cache_bandwidth"]
        assert 6.5e12 < reached < 0.8 * 17.2e12


def test_mi200__starts_a_block_in_two_cycles():
    """The rates of gpu-small-kernels' large arrays, of which a thread reads and writes a double."""
    cycles = [16 * threads / rate * 1.7 for threads, rate in ((16, 212), (32, 424), (64, 842))]
    for key in ("mi210", "mi250x"):
        found = with_derived(specs.load_device(key), ["combined"]).model_parameters["combined"]
        assert cycles == pytest.approx([found["block_start_cycles"]] * 3, rel=0.01)


OWN_LIMITS = (DATA / "specs" / "limits.toml").read_text("utf-8")
OWN_KEYS = [line.split(" =")[0] for line in OWN_LIMITS.splitlines() if " =" in line]


def own(text=DEVICE):
    """Return a device file with limits of its own in place of the compute capability."""
    text = spoilt(text, 'compute_capability = "5.2"\n', "")
    text = spoilt(text, "[source]\n", f"{OWN_LIMITS}\n[source]\n")
    return text + "".join(f'"occupancy.{key}" = "datasheet: page 3"\n' for key in OWN_KEYS)


def test_own_limits__each_has_its_key_and_is_read():
    old_chips = {"reg_per_block_style", "check_granularity", "fermi", "tensor_memory_columns"}
    assert {*LIMITS_OF_DEVICE, *old_chips} == set(Limits.__dataclass_fields__)
    device = specs.parse_device(own(), "test_gpu")
    assert device.compute_capability == ""
    expected = {"smem_per_sm_bytes": 65536, "reg_alloc_unit": 512, "warp_size": 32}
    assert expected.items() <= dict(device.limits).items()
    jsonschema.validate(tomllib.loads(own()), specs.json_schema("device"))


@pytest.mark.parametrize(("old", "new", "error"), [
    ("register_partitions = 4\n", "", "occupancy.register_partitions: missing"),
    ("max_warps_per_sm = 32", "max_warps_per_sm = 0", "outside the range 1 to 1024"),
    ("registers_per_sm = 131072", "registers_per_sm = 512", "outside the range"),
    ("shared_memory_per_sm_KiB = 64\nm", "shared_memory_per_sm_bytes = 65536\nm", "KiB = 64"),
    ('"occupancy.max_warps_per_sm" = "datasheet: page 3"\n', "", "has no source"),
    ("[occupancy]", 'compute_capability = "5.2"\n[occupancy]', "it belongs to the top"),
    ("[clocks]", 'compute_capability = "5.2"\n[clocks]', "limits already"),
])  # fmt: skip
def test_own_limits__are_checked(old, new, error):
    text = own().replace(old, new, 1)
    with pytest.raises(SpecError, match=error):
        specs.parse_device(text, "test_gpu")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), specs.json_schema("device"))

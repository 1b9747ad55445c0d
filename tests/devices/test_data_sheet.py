"""A device file with a data sheet's numbers alone: models run, and say what they assume."""

import pytest

from sweep import Plan, best, evaluate
from sweep.cli import main
from sweep.explanation.explaining import applicability
from sweep.models import model_names
from sweep.space import with_derived
from sweep.specs import load_device

NUMBERS = {
    "clocks": {"core_nominal_MHz": 1770, "memory_nominal_MHz": 7001},
    "chip": {"sm_count": 46, "lanes_per_sm": 128, "warp_size": 32, "l2_KiB": 4096,
             "memory_bandwidth_GBps": 448, "memory_bus_width_bits": 256},
}  # fmt: skip


@pytest.fixture
def card(tmp_path):
    lines = ['schema = 1', 'name = "a card"', 'vendor = "NVIDIA"', 'architecture = "Ampere"',
             'compute_capability = "8.6"']  # fmt: skip
    sources = ['identity = "datasheet: its own"']
    for table, keys in NUMBERS.items():
        lines += [f"[{table}]", *(f"{key} = {value}" for key, value in keys.items())]
        sources += [f'"{table}.{key}" = "datasheet: its own"' for key in keys]
    path = tmp_path / "card.toml"
    path.write_text("\n".join([*lines, "[source]", *sources]), encoding="utf-8")
    return str(path)


def test_models_run__and_answers_name_what_is_assumed(card):
    latency = {"hong_kim": "mem_ld_cycles", "combined": "dram_latency_cycles"}
    rows = list(best(evaluate(Plan(("vector_add",), (card,), tuple(latency))), by=("model",)))
    assert {row["model"] for row in rows} == latency.keys()
    for row in rows:
        assert row["execution_time"] > 0
        assert f"model.{row['model']}.{latency[row['model']]}" in row["rests_on_assumed"]


def test_sources__derived_from_the_sheet_or_assumed(card):
    device = with_derived(load_device(card), model_names())
    own, sources = device.model_parameters["combined"], device.sources
    found = sources["model.combined.alu_latency_cycles"]
    assert found.kind == "assumed" and "4 after" in found.reference
    assert own["alu_latency_cycles"] == 4.0 and own["shared_latency_cycles"] == 20.0
    assert own["dram_latency_cycles"] == 600.0
    assert "600 cycles" in sources["model.hong_kim.mem_ld_cycles"].reference
    # What follows from the data sheet alone is derived.
    assert sources["model.combined.fp32_cycles"].kind == "derived"
    assert sources["model.hong_kim.departure_del_coal_cycles"].kind == "derived"


def test_messages__name_the_keys_to_add(card, capsys):
    assert main(["list", "models", "--device", card]) == 0
    found = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    for model in ("hong_kim", "wang_chu", "luo_suda", "combined"):
        assert found[model].startswith("runs (derived: ") and "; assumed: " in found[model]
    assert found["zhang_owens"] == "missing: shared_bandwidth (give chip.shared_banks)"
    reason = applicability("vector_add", card, "hong_kim", derive=False)[1]
    assert "mem_ld_cycles (DRAM access latency, which follows from micro" in reason

"""GPUs that were measured: their files' values, and what measured times of kernels say of them."""

from __future__ import annotations

import re
import tomllib
from functools import cache, reduce
from pathlib import Path

import numpy as np
import pytest
from support.pages import ACCURACY_WORDS, accuracy_row
from support.simulated_gpu import FACTS

import sweep
from sweep.cli import main
from sweep.hardware.derived import BLOCK_START, DeviceFacts
from sweep.hardware.paths import PIECES, piece_factor
from sweep.importers.files import read_source
from sweep.importers.microbenchmarks.device_file import device_text
from sweep.importers.microbenchmarks.files import read_measurements
from sweep.importers.microbenchmarks.merging import merged
from sweep.importers.tuners.problem_table import read_problem_table
from sweep.measurements.problem_validation import validate_problems
from sweep.microbenchmarks import pieces
from sweep.microbenchmarks.case import Sample, Samples
from sweep.query.pairing import paired
from sweep.space import with_derived
from sweep.specs import load_device

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
PAGE = ROOT / "docs" / "howto" / "own_gpu.md"
DEVICE = {"h100": "h100_sxm", "h200": "h200"}
PROBLEMS = {"triton_matmul": 84, "triton_matmul_fp8": 14}


@pytest.fixture(scope="module", params=DEVICE)
def known(request):
    samples = DATA / "calibration" / f"{request.param}.samples.json.gz"
    return request.param, samples.name, merged(read_measurements([samples]))


def test_measured_values__are_those_of_the_samples(known):
    gpu, samples, known = known
    found = tomllib.loads(device_text(known, gpu))
    device = tomllib.loads((ROOT / "devices" / f"{DEVICE[gpu]}.toml").read_text("utf-8"))
    own = {path for path, source in found["source"].items() if samples in source}
    assert len(own) > 30
    for path in own:
        if path.startswith(("microbenchmark.", "model.")):
            given, said = (reduce(dict.__getitem__, path.split("."), t) for t in (found, device))
            assert said == (given if path[:5] == "model" else pytest.approx(given, rel=1e-4)), path
            assert f"tests/data/calibration/{samples}" in device["source"][path]
    # Two models are far off their own loops: the samples say nothing of their parameters.
    assert set(device["model"]) == {"lemeire", "luo_suda", "wang_chu", "zhang_owens"}
    assert set(device["model"]["luo_suda"]) == {"class_cost", "m"}


def test_rates__are_possible(known):
    *_, known = known
    cycles = known.number("chip.sm_count") * known.number("microbenchmark.core_clock") * 1e-3
    for level in ("l1_read", "shared"):  # 128 bytes a cycle
        assert 120 < known.number(f"microbenchmark.{level}_bandwidth") / cycles <= 128
    for kind, lanes in (("fp32", 128), ("integer", 64), ("fp64", 64), ("special", 16)):
        assert 0.97 < 32 / lanes / known.number(f"microbenchmark.{kind}_issue") <= 1.0
    assert known.number("microbenchmark.kernel_launch") == pytest.approx(2.3, abs=0.1)
    start = known.number("microbenchmark.block_start")  # not among the H200's
    assert start in (None, pytest.approx(BLOCK_START, abs=2 * 0.083))  # twice the deviation


def devices(gpu: str, folder: Path) -> list[str]:
    """Return the data sheet alone, the file with what others measured, and that of the samples."""
    before = (DATA / gpu / "before.toml").read_text("utf-8")
    measured = r'(?m)^"?(microbenchmark\.|(matrix\.)?(single_|\w+_sustained)).*\n'
    alone = re.sub(r"(?s)# Latencies were measured.*?(?=\[source\])", "", before)
    (folder / "alone.toml").write_text(re.sub(measured, "", alone), "utf-8")
    return [str(folder / "alone.toml"), str(DATA / gpu / "before.toml"), DEVICE[gpu]]


def of_kernel(file: Path, device: str) -> dict[str, float]:
    kernel = file.name.partition(".")[0]
    table = sweep.read_measured([file], kernel=kernel, device=device)
    plan = sweep.Plan([kernel], [device], ["combined"], variant="revised", layout="stacked")
    results = sweep.evaluate(plan)
    row = next(row for row in sweep.validate(results, table) if row["ranking"] == "combined")
    (one,) = paired(results, table)
    return dict(row) | {"error_median": np.nanmedian(abs(one.predicted / one.measured - 1.0))}


@cache
def of_matmul(file: Path, device: str) -> dict[str, float]:
    kernel = "triton_moe" if "moe" in file.name else "triton_matmul"
    axes = {} if "moe" in file.name or "orders" in file.name else {"GROUP_M": [8]}
    plan = sweep.Plan([kernel], [device], ["combined"], variant="revised", axes=axes)
    own, at_random = validate_problems(plan, read_problem_table(read_source(file)))
    return dict(own) | {"random": at_random["loss_1_mean"]}


def test_block_start__is_the_rate_of_blocks_that_do_nothing():
    threads, _, per_sm, us = np.loadtxt(DATA / "h200/empty_blocks.csv", delimiter=",", skiprows=1).T
    many, some = (us[(threads <= 256) & (per_sm == n)] for n in (512, 64))
    cycles = (many - some) * 1980 / (132 * (512 - 64))
    assert BLOCK_START == pytest.approx(np.median(cycles), rel=0.01)


@pytest.mark.parametrize("gpu", DEVICE)
def test_short_pieces__cost_dram_what_was_measured(gpu):
    rates = dict(np.loadtxt(DATA / gpu / "dram_pieces.csv", delimiter=",", skiprows=1))
    rows = (Sample("pieces", f"piece {size:g}", {"bytes": 4e9}, 1980.0, 2619.0, False, (1e6,),
                   (4e3 / rate,)) for size, rate in rates.items())  # fmt: skip
    device, lone = load_device(DEVICE[gpu]), {}
    for value in pieces.values(Samples(FACTS, tuple(rows))):
        lone[value.key] = value.value
        assert device.values[value.key] == pytest.approx(value.value, rel=1e-3)
    of_64, of_128 = (lone[f"microbenchmark.dram_piece_{size}_factor"] for size in (64, 128))
    assert (of_64, of_128) == pytest.approx((rates[4096] / rates[64], rates[4096] / rates[128]))
    facts = DeviceFacts(device.values, "9.0", "NVIDIA", {})
    known = {size: rule(facts) for size, rule in PIECES.items()}
    factors = piece_factor(np.array([32, 64, 128, 256, 512]), known)
    assert factors == pytest.approx([of_64, of_64, of_128, rates[4096] / rates[256], 1], rel=1e-3)


def test_short_pieces__are_assumed_an_h100s_where_none_were_measured():
    """Answers on products say so with a star, and the factors vary with what else may be off."""
    models = ["combined"]
    names = [f"model.combined.piece_{size}_factor" for size in (64, 128, 256)]
    for key, of_256 in {"rtx_3090": 1.02, "rtx_5090": 1.0, "a100_80gb": 1.0}.items():
        own = with_derived(load_device(key), models).model_parameters["combined"]
        assert [own[n.rpartition(".")[2]] for n in names] == [1.5, 1.05, of_256]
    for key, kernel, expected in [("rtx_3090", "triton_matmul", names),
                                  ("h100_sxm", "triton_matmul", []),
                                  ("rtx_3090", "transpose", [])]:  # fmt: skip
        plan = sweep.Plan([kernel], [key], models, variant="revised")
        assert sweep.best(plan)[0]["rests_on_assumed"] == expected
    own = sweep.Plan(["triton_matmul"], ["rtx_3090"], models, variant="revised",
                     axes={"m": [16], "BLOCK_K": [32], "b_by_column": [1]})  # fmt: skip
    rows = {row["parameter"]: row for row in sweep.sensitivity(own, samples=64)}
    of_64 = rows["assumed.dram_piece_64_factor"]
    assert of_64["source"] == "assumed" and of_64["total"] > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("start", "gpu", "file", "of", "first", "three", "correlation"), [
    ("`triton_matmul`, bf16, H200", "h200", "triton_matmul", (84, 24_612), 0.05, 0.02, 0.93),
    ("the same | 60 others", "h200", "triton_matmul_later", (60, 17_580), 0.05, 0.02, 0.93),
    ("`triton_matmul`, bf16, H100", "h100", "triton_matmul", (84, 24_131), 0.04, 0.02, 0.94),
    ("the same | 64 others", "h100", "triton_matmul_later", (64, 18_393), 0.04, 0.02, 0.94),
    ("fp8, H100 | 14 |", "h100", "triton_matmul_fp8", (14, 678), 0.10, 0.021, 0.89),
    ("fp8, H100 | 14 others", "h100", "triton_matmul_fp8_later", (14, 690), 0.10, 0.02, 0.89),
    ("fp8, H200 | 14 |", "h200", "triton_matmul_fp8", (14, 700), 0.10, 0.02, 0.89),
    ("bf16, H100, in eleven ways", "h100", "triton_matmul_orders", (10, 1_934), 0.15, 0.04, 0.91),
    ("`triton_moe`, H100", "h100", "triton_moe", (14, 1_032), 0.05, 0.02, 0.75),
    ("the same | 12 others", "h100", "triton_moe_later", (12, 920), 0.04, 0.02, 0.75),
    ("`triton_moe`, H200 | the same 12", "h200", "triton_moe", (12, 934), 0.07, 0.03, 0.80),
])  # fmt: skip
def test_choices__as_the_page_of_accuracy_says(start, gpu, file, of, first, three, correlation):
    row = of_matmul(DATA / gpu / f"{file}.csv.gz", DEVICE[gpu])
    assert (row["ranking"], row["problems"], row["configurations"]) == ("combined", *of)
    assert row["loss_1_mean"] < first and row["loss_3_mean"] < three
    assert row["spearman"] > correlation
    *_, problems, _, now = accuracy_row(start)
    assert str(of[0]) in problems.split()
    loss = ", ".join(f"{100 * row[f'loss_{k}_mean']:.1f}" for k in (1, 3, 10))
    assert now == f"{loss} %; {row['spearman']:.2f}; {100 * row['error_median']:.0f} %"


@pytest.mark.slow
@pytest.mark.parametrize("gpu", DEVICE)
def test_launches_with_an_empty_l2__are_as_much_longer_as_the_page_of_accuracy_says(gpu, tmp_path):
    given = ["--like", DEVICE[gpu], f"name={gpu}", "kernel_launch_us=3"]
    assert main(["new", "device", *given, "-o", str(tmp_path / "longer.toml")]) == 0
    files = [DATA / gpu / f"triton_matmul{end}.csv.gz" for end in ("", "_later")]
    errors = [of_matmul(file, str(tmp_path / "longer.toml"))["error_median"] for file in files]
    expected = {"h100": [0.059, 0.055], "h200": [0.062, 0.066]}[gpu]
    assert errors == pytest.approx(expected, abs=0.002)
    assert "median error of each of the four tables is 6 or 7 %, not 11" in ACCURACY_WORDS


@pytest.mark.slow
def test_random_choices__lose_what_the_page_of_accuracy_says():
    files = [DATA / gpu / f"triton_matmul{end}.csv.gz" for gpu in DEVICE for end in ("", "_later")]
    lost = [100 * of_matmul(file, DEVICE[file.parent.name])["random"] for file in files]
    lost = f"{min(lost):.0f} to {max(lost):.0f} %"
    assert f"A random choice of `triton_matmul` in bf16 loses {lost}" in ACCURACY_WORDS


@pytest.mark.parametrize(("gpu", "times", "near", "sentence"), [
    ("h200", 220, 0.0, "first choice is the fastest in {} of 8 problems on the H200"),
    ("h100", 208, 0.005, "On the H100 it is within 0.5 % of the fastest in {} of 8"),
])  # fmt: skip
def test_attention__as_the_page_of_accuracy_says(gpu, times, near, sentence):
    table = read_problem_table(read_source(DATA / gpu / "triton_flash_attention.csv.gz"))
    above = table.columns["causal"] * table.columns["BLOCK_N"] > table.columns["BLOCK_M"]
    table = table.taken(~(above | (table.columns["BLOCK_N"] > table.columns["head"])))
    plan = sweep.Plan(["triton_flash_attention"], [DEVICE[gpu]], ["combined"], variant="revised")
    own, *rows = validate_problems(plan, table, by=["causal"], by_group="sequence + head + causal")
    loss = [row["loss_1_mean"] for row in rows if row["ranking"] == "combined"]
    row = accuracy_row(f"the same kernel, {gpu.upper()}, {len(loss)} problems, {times} times |")
    assert (own["configurations"], row[2]) == (times, f"{100 * own['error_median']:.0f} %")
    others = [100 * lost for lost in loss if lost > near]
    sentence += f" (the others lose {min(others):.0f} to {max(others):.0f} %)"
    assert sentence.format(8 - len(others)) in ACCURACY_WORDS


def test_descriptors_of_each_block__take_the_cycles_on_the_page_of_accuracy():
    files = (DATA / "h100" / f"triton_flash_attention{end}.csv.gz" for end in ("", "_made"))
    tables = (np.loadtxt(file, delimiter=",", skiprows=1) for file in files)
    host, made = ({tuple(row[:-1]): row[-1] for row in table} for table in tables)
    cycles = {}
    for row in host.keys() & made.keys():
        of_an_sm = row[0] * row[1] * np.ceil(row[2] / row[5]) / 132  # blocks
        cycles.setdefault(row[:5], []).append((made[row] - host[row]) * 1.98e6 / of_an_sm)
    means = sorted(round(np.mean(found), -2) for found in cycles.values())
    assert f"take {means[0]:,.0f} to {means[-1]:,.0f} cycles of an SM longer" in ACCURACY_WORDS


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "kernel"), [
    ("h200", "convolution"), ("h200", "xgemm"), ("h200", "triton_matmul"),
    ("h200", "triton_matmul_fp8"), ("h100", "triton_matmul"), ("h100", "triton_matmul_fp8"),
])  # fmt: skip
def test_errors_on_the_page__are_those_of_the_measured_times(tmp_path, gpu, kernel):
    of, form = of_kernel, "{error_median:.1%}, {spearman:.2f}, {regret_10:.1%}"
    if kernel.startswith("triton"):
        of, form = of_matmul, form.replace("regret_10:.1%", "loss_1_mean:.1%}, {loss_3_mean:.1%")
    found = [of(DATA / gpu / f"{kernel}.csv.gz", device) for device in devices(gpu, tmp_path)]
    assert (found[0]["ranking"], found[0].get("problems")) == ("combined", PROBLEMS.get(kernel))
    line = [gpu.upper(), f"`{kernel}`", "{configurations:,}".format(**found[0])]
    line = " | ".join(line + [form.format(**row) for row in found])
    assert f"| {line.replace('%', ' %')} |\n" in PAGE.read_text("utf-8")

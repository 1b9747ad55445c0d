"""The H200 that was measured: its file's values, and what measured times of kernels say of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sweep
from sweep.hardware.derived import BLOCK_START
from sweep.importers.files import read_source
from sweep.importers.microbenchmarks.device_file import device_text
from sweep.importers.microbenchmarks.files import read_measurements
from sweep.importers.microbenchmarks.merging import merged
from sweep.importers.tuners.problem_table import read_problem_table
from sweep.measurements.problem_validation import validate_problems
from sweep.query.pairing import paired

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "h200"
SAMPLES = ROOT / "tests" / "data" / "calibration" / "h200.samples.json.gz"
PAGE = ROOT / "docs" / "howto" / "own_gpu.md"


@pytest.fixture(scope="module")
def known():
    return merged(read_measurements([SAMPLES]))


def test_measured_values__are_those_of_the_samples(known):
    found = tomllib.loads(device_text(known, "h200"))
    device = tomllib.loads((ROOT / "devices" / "h200.toml").read_text("utf-8"))
    own = {path for path, source in found["source"].items() if SAMPLES.name in source}
    assert len(own) > 30
    for path in own:
        *tables, key = path.split(".")
        if path.startswith(("microbenchmark.", "model.")):
            given, said = found, device
            for table in tables:
                given, said = given[table], said[table]
            expected = given[key] if tables[0] == "model" else pytest.approx(given[key], rel=1e-4)
            assert said[key] == expected, path
            assert f"tests/data/calibration/{SAMPLES.name}" in device["source"][path]
    # Two models are far off their own loops: the samples say nothing of their parameters.
    assert set(device["model"]) == {"lemeire", "luo_suda", "wang_chu", "zhang_owens"}
    assert set(device["model"]["luo_suda"]) == {"class_cost", "m"}


def test_rates__are_possible(known):
    cycles = known.number("chip.sm_count") * known.number("microbenchmark.core_clock") * 1e-3
    for level in ("l1_read", "shared"):  # 128 bytes a cycle
        assert 120 < known.number(f"microbenchmark.{level}_bandwidth") / cycles <= 128
    for kind, lanes in (("fp32", 128), ("integer", 64), ("fp64", 64), ("special", 16)):
        assert 0.97 < 32 / lanes / known.number(f"microbenchmark.{kind}_issue") <= 1.0
    assert known.number("microbenchmark.kernel_launch") == pytest.approx(2.3, abs=0.1)


def devices(folder: Path) -> list[str]:
    """Return the data sheet alone, the file with what others measured, and that of the samples."""
    text = (DATA / "before.toml").read_text("utf-8")
    measured = r'(?m)^"?(microbenchmark\.|(matrix\.)?(single_|\w+_sustained)).*\n'
    head, _, sources = text.partition("# Latencies were measured")
    alone = re.sub(measured, "", head + sources[sources.index("[source]") :])
    (folder / "alone.toml").write_text(alone, "utf-8")
    return [str(folder / "alone.toml"), str(DATA / "before.toml"), "h200"]


def of_kernel(kernel: str, device: str) -> str:
    table = sweep.read_measured([DATA / f"{kernel}.csv.gz"], kernel=kernel, device=device)
    plan = sweep.Plan([kernel], [device], ["combined"], variant="revised", layout="stacked")
    results = sweep.evaluate(plan)
    row = next(row for row in sweep.validate(results, table) if row["ranking"] == "combined")
    (one,) = paired(results, table)
    error = np.nanmedian(abs(one.predicted / one.measured - 1.0))
    return f"{error:.1%}, {row['spearman']:.2f}, {row['regret_10']:.1%}".replace("%", " %")


def of_matmul(device: str) -> str:
    plan = sweep.Plan(["triton_matmul"], [device], ["combined"], variant="revised",
                      axes={"GROUP_M": [8]})  # fmt: skip
    table = read_problem_table(read_source(DATA / "triton_matmul.csv.gz"))
    row = validate_problems(plan, table)[0]
    assert (row["ranking"], row["problems"], row["configurations"]) == ("combined", 84, 24_612)
    shown = f"{row['error_median']:.1%}, {row['spearman']:.2f}, {row['loss_1_mean']:.1%}"
    return f"{shown}, {row['loss_3_mean']:.1%}".replace("%", " %")


def test_block_start__is_the_rate_of_blocks_that_do_nothing():
    threads, _, per_sm, us = np.loadtxt(DATA / "empty_blocks.csv", delimiter=",", skiprows=1).T
    many, some = (us[(threads <= 256) & (per_sm == n)] for n in (512, 64))
    cycles = (many - some) * 1980 / (132 * (512 - 64))
    assert BLOCK_START == pytest.approx(np.median(cycles), rel=0.01)


@pytest.mark.slow
def test_other_products__as_the_page_of_copies_says():
    """Measured later than the model of copies was written, but for turns beside warp groups."""
    plan = sweep.Plan(["triton_matmul"], ["h200"], ["combined"], variant="revised",
                      axes={"GROUP_M": [8]})  # fmt: skip
    table = read_problem_table(read_source(DATA / "triton_matmul_later.csv.gz"))
    row = validate_problems(plan, table)[0]
    assert (row["problems"], row["configurations"]) == (60, 17_580)
    assert row["loss_1_mean"] < 0.05 and row["loss_3_mean"] < 0.02 and row["spearman"] > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["convolution", "xgemm", "triton_matmul"])
def test_errors_on_the_page__are_those_of_the_measured_times(tmp_path, kernel):
    rows = (line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines())
    said = {row[0].strip("`"): row[-3:] for row in rows if len(row) == 6}
    each = of_matmul if kernel == "triton_matmul" else lambda device: of_kernel(kernel, device)
    assert said[kernel] == [each(device) for device in devices(tmp_path)]

"""A kernel file corrected by a few measured configurations."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from support.refusals import contents, refused
from support.tuning_files import CACHE

from sweep import query
from sweep.cli import main
from sweep.errors import QueryError, SpecError
from sweep.evaluation.planned import Planned
from sweep.measurements.calibrating import calibrate_kernel
from sweep.measurements.importing import read_measured
from sweep.space import load_plan
from sweep.specs import list_kernels, load_kernel
from sweep.specs.corrections import corrected, shift_names

pytestmark = pytest.mark.usefixtures("folder")

KERNEL = """\
schema = 1
name = "rounds"
description = "Loads, and more or less arithmetic for each."

[source]
default = "derived: written for this test"

[parameters]
block = [64, 128, 256, 512]
rounds = [1, 2, 4, 8, 16, 32, 64, 128, 256]

[launch]
threads_per_block = "block"
blocks = "2**22 / block"

[resources]
registers_per_thread = 24

[instructions]
fp32 = "4 * rounds"  # a comment
integer = 6

[[global_access]]
name = "words"
kind = "load"
count = 4
bytes = 4
pattern = "coalesced"
l2_hit_rate = 0.2

[[global_access]]
name = "sums"
kind = "store"
count = 1
bytes = 4
pattern = "coalesced"
"""
PLAN = """\
schema = 1
kernels = ["{}.toml"]
devices = ["rtx_3080"]
models = ["combined"]
variant = "revised"
"""
SCALE, SHIFT = 1.7, 0.55


def _plans() -> None:
    """Write a kernel file, the one that is true, and their plans."""
    true = KERNEL.replace("0.2", f"{0.2 + SHIFT:g}").replace('"4 *', f'"{SCALE} * 4 *')
    true = true.replace("integer = 6", f"integer = {SCALE * 6:g}")
    true = re.sub(r"count = (\d)", lambda found: f"count = {SCALE * int(found[1]):g}", true)
    for name, text in (("rounds", KERNEL), ("true", true)):
        Path(f"{name}.toml").write_text(text)
        Path(f"{name}_plan.toml").write_text(PLAN.format(name))


def _measure(factor: float = 1.0) -> None:
    """Write what the true kernel takes as measured times."""
    rows = query.top(Planned.of(load_plan("true_plan.toml")), 100, ties=True).rows
    lines = [f"{r['block']:g},{r['rounds']:g},{r['execution_time'] * factor}" for r in rows]
    Path("rounds.csv").write_text("\n".join(["block,rounds,time_s", *lines]))


def test_a_known_truth_is_found(folder, capsys):
    _plans()
    _measure()
    before = contents(folder)
    arguments = ["calibrate-kernel", "rounds_plan.toml", "rounds.csv", "--device", "rtx_3080",
                 "--few", "12"]  # fmt: skip
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "fitted to 12 of 36 measured configurations" in said
    assert said.endswith("wrote rounds_calibrated.toml: next, name it in the plan's kernels\n")
    assert "the other 24, which the fit did not see" in said
    error, error_after = map(float, re.findall(r"([\d.]+)%", said))
    assert error > 15 and error_after < 0.5
    kernel = load_kernel("rounds_calibrated.toml")
    values = {n: float(e.text) for n, e in kernel.derived.items() if n.startswith("calibrated")}
    assert values == {
        "calibrated_scale": pytest.approx(SCALE, rel=0.005),
        "calibrated_words_l2": pytest.approx(SHIFT, abs=0.01),
    }
    for name in values:
        words = "fitted: calibrated on 12 measured configurations of rounds.csv"
        assert str(kernel.source_of(f"derived.{name}")) == words
    assert str(kernel.source_of("instructions.fp32")) == "derived: written for this test"
    del (now := contents(folder))["rounds_calibrated.toml"]
    assert now == before
    assert "rounds_calibrated.toml: is there already" in refused(capsys, *arguments)
    with pytest.raises(SpecError, match="corrected already"):
        corrected(kernel, 1.0, {}, "fitted: again")
    assert main([*arguments, "-o", "again.toml"]) == 0
    assert Path("again.toml").read_bytes() == Path("rounds_calibrated.toml").read_bytes()


def test_a_scale_alone_leaves_hit_rates_as_they_are(folder):
    _plans()
    Path("true.toml").write_text(KERNEL)
    _measure(2.5)
    plan = load_plan("rounds_plan.toml")
    measured = read_measured(["rounds.csv"], device="rtx_3080")
    told: list[tuple[int, int]] = []
    found = calibrate_kernel(
        Planned.of(plan), plan, measured, 6, progress=lambda *one: told.append(one)
    )
    assert told == [(done, 26) for done in range(1, 27)]  # nine shifts of one rate, then refined
    assert found.shifts == {}
    assert found.scale == pytest.approx(2.5, rel=0.04)  # launches take time besides
    np.testing.assert_allclose(found.ranks, 1.0, rtol=0.01)
    assert found.kernel.text.count("calibrated_scale *") == 4


def test_few_configurations_and_times_that_are_none_are_refused(folder, capsys):
    _plans()
    _measure()
    given = ("calibrate-kernel", "rounds_plan.toml", "rounds.csv", "--device", "rtx_3080")
    assert "--few 2: at least 3" in refused(capsys, *given, "--few", "2")
    assert "--few 36: only 36 configurations" in refused(capsys, *given, "--few", "36")
    plan = load_plan("rounds_plan.toml")
    for value, pattern in ((np.nan, "positive"), (-1.0, "positive"), (0.0, "positive")):
        measured = read_measured(["rounds.csv"], device="rtx_3080")
        measured["execution_time"][0, 1, 1] = value
        with pytest.raises(QueryError, match=f"1 measured times are not {pattern} numbers"):
            calibrate_kernel(Planned.of(plan), plan, measured, 6)
    measured["execution_time"][:] = 1e-3
    with pytest.raises(QueryError, match="the 6 measured times are all equal"):
        calibrate_kernel(Planned.of(plan), plan, measured, 6)
    assert not list(folder.glob("*calibrated*"))


def test_a_value_that_cannot_be_edited_is_named(folder):
    _plans()
    text = KERNEL.replace("integer = 6", "integer = '''\n6'''")
    Path("rounds.toml").write_text(text)
    with pytest.raises(SpecError, match=r"instructions\.integer: must be on a line of its own"):
        corrected(load_kernel("rounds.toml"), 1.0, {}, "fitted: here")
    one = corrected(load_kernel("xgemm"), 1.0, {}, "fitted: here")  # a count has two lines there
    assert '\ninteger = "calibrated_scale * (20 + steps * (' in one.text


def test_lists_of_cases_are_multiplied_and_shifted_as_a_whole():
    cases = '[\n  "1 if block < 128", # few threads\n  2,\n]'
    text = KERNEL.replace("integer = 6", f"integer = {cases}")
    text = text.replace("rate = 0.2", 'rate = ["0.1 if rounds == 1", 0.3]')
    Path("rounds.toml").write_text(text)
    shift = {"global_access.words.l2_hit_rate": 0.1}
    one = corrected(load_kernel("rounds.toml"), 1.5, shift, "fitted: here")
    integer = one.expressions["instructions.integer"].evaluate
    values = {name: expression.evaluate({})[0] for name, expression in one.derived.items()}
    assert integer({"block": np.array([64, 128]), **values})[0].tolist() == [1.5, 3.0]
    rate = one.global_accesses[0].l2_hit_rate.evaluate
    assert rate({"rounds": np.array([1, 2]), **values})[0] == pytest.approx([0.2, 0.4])


@pytest.mark.parametrize("key", list_kernels())
def test_every_kernel_file_can_be_corrected(key):
    kernel = load_kernel(key)
    corrected(kernel, 1.5, dict.fromkeys(shift_names(kernel), 0.1), "fitted: here")


def test_hit_rates_and_counts_of_a_tuned_kernel():
    """With a factor of 1 and no shift the kernel is what it was."""
    kernel = load_kernel("convolution")
    rates = shift_names(kernel)
    assert "global_access.image.l2_hit_rate" in rates and len(rates) == 9
    same = corrected(kernel, 1.0, dict.fromkeys(rates, 0.0), "fitted: here")
    assert same.compiled is not None and kernel.compiled is not None
    assert same.compiled.described == kernel.compiled.described
    assert {*same.derived} - {*kernel.derived} == {"calibrated_scale", *rates.values()}


def test_measured_convolution_does_not_become_worse(folder, capsys):
    Path("plan.toml").write_text(
        PLAN.replace("rtx_3080", "rtx_a4000").replace("{}.toml", "convolution")
    )
    assert main(["calibrate-kernel", "plan.toml", str(CACHE)]) == 0
    said = capsys.readouterr().out
    assert "fitted to 20 of 4,201 measured configurations" in said
    error, error_after = map(float, re.findall(r"([\d.]+)%", said))
    rank, rank_after = map(float, re.findall(r"(0\.\d{3})\b", said))
    assert error_after <= error < 10
    assert rank_after > rank - 0.007 and rank > 0.95
    assert load_kernel("convolution_calibrated.toml").compiled is not None

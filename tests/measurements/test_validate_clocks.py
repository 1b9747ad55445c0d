"""Predict times at other clocks from a few: known mixes are recovered, and 165 real kernels."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.pages import DOCS, TEXTS
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.errors import QueryError, TuningError
from sweep.importers.files import read_source
from sweep.importers.tuners.table import read_clock_times
from sweep.measurements.clock_ranges import clock_range, widened
from sweep.measurements.clock_validation import (
    CORE_RULE,
    NO_CHANGE,
    ROOF_RULE,
    SUM_RULE,
    _middles,
    predicted,
)
from sweep.specs import load_device, parse_device

FOLDER = Path(__file__).parents[1] / "data" / "dvfs"
APPLICATIONS = FOLDER / "applications.csv"
DEVICE = load_device("gtx_titan_x")
ANCHOR = (975.0, 3505.0)
PAIRS = [(core, memory) for core in (595.0, 823.0, 975.0, 1164.0) for memory in (810.0, 3505.0)]
MODELS = ["hong_kim", "wang_chu"]


@pytest.mark.parametrize(
    ("suffix", "scale"), [("_Hz", 1e6), ("_kHz", 1e3), ("_GHz", 1e-3), ("", 1)]
)
def test_clock_columns__may_say_their_unit(tmp_path, suffix, scale):
    path = tmp_path / "times.csv"
    line = f"a,{975 * scale:g},{3505 * scale:g},2"
    path.write_text(f"kernel,core{suffix},mem{suffix},time_ms\n{line}\n")
    ((core, memory),) = read_clock_times(read_source(path))["a"]
    assert (core, memory) == pytest.approx((975, 3505))
    path.write_text(f"kernel,core{suffix},mem{suffix},time_ms\na,{9000 * scale:g},1,2\n")
    allowed = f"must be {50 * scale:g} to {5000 * scale:g} {suffix[1:] or 'MHz'}"
    with pytest.raises(TuningError, match=re.escape(allowed)):
        read_clock_times(read_source(path))


def times_of(**rules):
    """Return times of kernels by rules of their relative time at a pair of clocks."""
    return {name: {pair: 2e-3 * rule(*pair) for pair in PAIRS} for name, rule in rules.items()}


def errors_of(found):
    return {(one.kernel, one.by): one.mape for one in found}


@pytest.mark.slow
def test_rules__are_exact_where_they_hold():
    core, memory = (lambda c, m: 975 / c), (lambda c, m: 3505 / m)
    times = times_of(
        core=core,
        memory=memory,
        both=lambda c, m: 0.3 * core(c, m) + 0.7 * memory(c, m),
        roof=lambda c, m: max(core(c, m), 0.5 * memory(c, m)),
        fixed=lambda c, m: 1.0,
    )
    found = errors_of(predicted(times, DEVICE, ANCHOR, [(975.0, 810.0)], ["hong_kim"]))
    for kernel, rule in (("core", CORE_RULE), ("fixed", NO_CHANGE), ("both", SUM_RULE),
                         ("core", SUM_RULE), ("memory", SUM_RULE), ("roof", ROOF_RULE),
                         ("core", ROOF_RULE)):  # fmt: skip
        assert found[kernel, rule] == pytest.approx(0, abs=5e-3), (kernel, rule)
    assert found["memory", CORE_RULE] > 0.3 and found["core", NO_CHANGE] > 0.1
    assert found["core", "hong_kim"] < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_mix__that_made_the_times_is_found_again(model, tmp_path):
    mix = Path(sweep.__file__).parent / "measurements" / "mix.toml"
    clocks = {"core_clock": sorted({c for c, _ in PAIRS}), "memory_clock": [810, 3505]}
    plan = sweep.Plan([str(mix)], ["gtx_titan_x"], [model], precision="float64",
                      axes={"computation": [40], **clocks})  # fmt: skip
    times = sweep.evaluate(plan)["mix"]["execution_time"].squeeze().compute()
    measured = {(c, m): float(times.sel(core_clock=c, memory_clock=m)) for c, m in PAIRS}
    wide, narrow = (
        next(one for one in predicted({"k": measured}, DEVICE, ANCHOR, given, [model])
             if one.by == model)
        for given in ([(975.0, 810.0)], [(975.0, 810.0), (595.0, 3505.0), (595.0, 810.0)])
    )  # fmt: skip
    assert len(wide.pairs) == len(PAIRS) - 2
    # One time leaves open which mix it is; three do not, but for what changes nothing.
    assert narrow.mape < min(0.01, wide.mape) and wide.mape < 0.05
    if model == "wang_chu":
        assert narrow.mix == (pytest.approx(40, rel=0.1), pytest.approx(0, abs=0.05))


def test_middles__of_each_row_that_has_any():
    near = np.array([[0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 1, 1, 0]], dtype=bool)
    lines, columns = _middles(near)
    assert lines.tolist() == [1, 2, 3] and columns.tolist() == [1, 3, 2]


def mapes(name, given, models):
    answer = sweep.validate_clocks(
        FOLDER / name, device="gtx_titan_x", given=given, anchor=ANCHOR, models=models,
        variant="revised",
    )  # fmt: skip
    return answer, dict(zip(answer.column("by"), answer.column("mape"), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernels"), [("applications.csv", 25), ("microbenchmarks.csv.gz", 140)]
)
def test_measured__models_beat_the_rules_that_know_one_time(name, kernels):
    answer, mape = mapes(name, [(975, 810)], MODELS)
    assert set(answer.column("kernels")) == {kernels}
    assert set(answer.column("predictions")) == {kernels * 30}
    for model in MODELS:
        assert mape[model] < 0.25 * min(mape[CORE_RULE], mape[NO_CHANGE])
        # Better than a roofline fitted to the same pair.
        assert mape[model] < mape[ROOF_RULE]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "expected"),
    [((975, 810), {"combined": 2.1, "hong_kim": 1.9, "wang_chu": 2.1}),
     ((595, 810), {"combined": 3.4, "hong_kim": 4.7, "wang_chu": 3.5})],
)  # fmt: skip
def test_measured__from_one_pair_as_the_readme_says(given, expected):
    mape = mapes("applications.csv", [given], list(expected))[1]
    assert {name: round(100 * mape[name], 1) for name in expected} == expected


@pytest.mark.slow
def test_measured__a_second_pair_helps_the_model_that_knows_l2():
    mape = mapes("applications.csv", [(975, 810), (595, 3505)], MODELS)[1]
    assert mape["wang_chu"] < 0.02 < 0.03 < min(mape[SUM_RULE], mape[ROOF_RULE])


@pytest.mark.slow
def test_measured__operations_without_any_fit():
    """The documentation's claims about micro-benchmarks whose names contain the counts."""
    with gzip.open(FOLDER / "microbenchmarks.csv.gz", "rt") as file:
        assert file.readline().startswith("kernel,memF_MHz,coreF_MHz,time_ms")
    times = read_clock_times(read_source(FOLDER / "microbenchmarks.csv.gz"))
    pairs = list(next(iter(times.values())))
    clocks = {"core_clock": sorted({c for c, _ in pairs}), "memory_clock": [810, 3505]}
    plan = sweep.Plan([str(FOLDER / "operations.toml")], ["gtx_titan_x"], sweep.model_names(),
                      variant="revised", precision="float64", axes=clocks)  # fmt: skip
    found = sweep.evaluate(plan)["operations"]["execution_time"].squeeze().compute()
    ratio = found / found.sel(core_clock=ANCHOR[0], memory_clock=ANCHOR[1])
    errors: dict[tuple[str, str], list[float]] = {}
    for name, own in times.items():
        named = re.fullmatch(r"(sp|int|dp)_(?:add|mul|fma|mad)_(\d+)", name)
        if not named:
            continue
        kind = "double" if named[1] == "dp" else "single and integer"
        one = ratio.sel(type=named[1], repetitions=int(named[2]))
        for core, memory in (pair for pair in pairs if pair != ANCHOR):
            at = one.sel(core_clock=core, memory_clock=memory)
            predictions = dict(zip(sweep.model_names(), at.values, strict=True))
            for by, value in {**predictions, CORE_RULE: 975 / core}.items():
                wrong = abs(value / (own[core, memory] / own[ANCHOR]) - 1)
                errors.setdefault((kind, by), []).append(wrong)
    mape = {key: round(100 * float(np.mean(values)), 1) for key, values in errors.items()}
    assert table_in_readme() == mape


def table_in_readme():
    """Return the page's errors without any fit, by kind of operations and model or rule."""
    lines = TEXTS[DOCS / "howto" / "other_clocks.md"].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    start = next(i for i, row in enumerate(rows) if row[:2] == ["micro-benchmarks", "kernels"])
    names = [CORE_RULE, *rows[start][3:]]
    return {
        (row[0], name): float(cell)
        for row in rows[start + 2 : start + 4]
        for name, cell in zip(names, row[2:], strict=True)
    }


@pytest.mark.slow
def test_command__by_kernel(capsys):
    command = ["validate-clocks", str(APPLICATIONS), "--device", "gtx_titan_x", "--given",
               "975/810", "--anchor", "975/3505", "--model", "hong_kim", "--by-kernel",
               "--format", "json"]  # fmt: skip
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = {(row["kernel"], row["by"]): row for row in json.loads(out)["rows"]}
    assert len(rows) == 25 * 5
    # Kernels limited by the core clock have more computation than those limited by DRAM.
    light, heavy = rows["md5hash", "hong_kim"], rows["blackscholes", "hong_kim"]
    assert light["computation"] > 10 * heavy["computation"]
    assert rows["md5hash", CORE_RULE]["computation"] is None


HEAD = "kernel,core_clock_MHz,memory_clock_MHz,time_ms\n"
GOOD = HEAD + "k,975,3505,1\nk,975,810,3\nk,595,810,3.5\n"
BAD = {
    "no file": (None, [], "nowhere.csv: cannot be read"),
    "empty": ("", [], "the file is empty"),
    "no time": ("kernel,core,memory\nk,975,3505\n", [], "there is no column 'time_ms' of times"),
    "no clock": ("kernel,core,time_ms\nk,975,1\n", [], "there is no column of the memory clock"),
    "no kernel": (GOOD.replace("kernel,", "name,"), [], "there is no column 'kernel'"),
    "cut": (GOOD + "k,823", [], "line 5 has 2 cells, the header 4"),
    "no number": (GOOD + "k,823,810,n/a\n", [], "line 5: time_ms = 'n/a': must be a number above"),
    "nan": (GOOD + "k,823,810,nan\n", [], "line 5: time_ms = 'nan': must be a number above 0"),
    "infinite": (GOOD + "k,823,810,1e400\n", [], "line 5: time_ms = '1e400': must be a number"),
    "zero": (GOOD + "k,823,810,0\n", [], "line 5: time_ms = '0': must be a number above 0"),
    "unit": (GOOD + "k,0.8,810,1\n", [], "line 5: core_clock_MHz = '0.8': must be 50 to 5000 MHz"),
    "twice": (GOOD + "k,975,810,3\n", [], "line 5: a second time of 'k' at 975/810 MHz"),
    "no rows": (HEAD, [], "there is no line below the header"),
    "pair": (GOOD, ["--given", "975"], "--given 975: must be core and memory clock in MHz"),
    "not measured": (GOOD, ["--given", "823/810"], "times.csv: kernel 'k' was not"),
    "anchor given": (GOOD, ["--given", "975/3505"], "must differ from each other"),
    "nothing left": (GOOD, ["--given", "975/810,595/810"],
                     "times.csv: kernel 'k' was measured at no further pair to judge by"),
    "device": (GOOD, ["--device", "gtx_titan"], "did you mean 'gtx_titan_x'?"),
    "model": (GOOD, ["--model", "hong"], "models: unknown 'hong'; did you mean 'hong_kim'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input__one_line_and_exit_code_2(case, capsys, tmp_path):
    content, arguments, message = BAD[case]
    path = tmp_path / ("nowhere.csv" if content is None else "times.csv")
    if content is not None:
        path.write_text(content, encoding="utf-8")
    options = {"--device": "gtx_titan_x", "--given": "975/810", "--anchor": "975/3505"}
    options |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    words = [word for pair in options.items() for word in pair]
    assert message in refused(capsys, "validate-clocks", path, *words)


def test_clocks__beyond_the_device_s_range_extend_it(capsys, tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(GOOD + "k,1400,810,1\nk,1400,4200,0.7\n", encoding="utf-8")
    command = ["validate-clocks", str(path), "--device", "gtx_titan_x", "--given", "975/810",
               "--anchor", "975/3505", "--model", "hong_kim"]  # fmt: skip
    assert main(command) == 0
    out, _ = capsys.readouterr()
    assert "core clock was measured at 1400 MHz, beyond the range of gtx_titan_x, 595" in out
    assert "memory clock was measured at 4200 MHz" in out
    covering = {"core": (595.0, 1400.0), "memory": (810.0, 4200.0)}
    wide, notes = widened(DEVICE, covering)
    assert len(notes) == 2 and clock_range(wide, "core") == (595, 1075, 1400)
    assert clock_range(wide, "memory")[2] == 4200
    assert wide.sources["clocks.core_max_MHz"].kind == "microbenchmark"
    assert widened(DEVICE, {"core": (700, 800), "memory": (810, 3505)}) == (DEVICE, ())
    odd = replace(DEVICE, text=DEVICE.text.replace("[clocks]", "[ clocks ]"))
    odd = replace(odd, text=odd.text.replace("core_max_MHz =", '"core_max_MHz" ='))
    with pytest.raises(QueryError, match="1400 MHz, beyond the range of gtx_titan_x, 595 to 1164"):
        widened(odd, covering)


def test_clocks__of_a_device_without_any_range():
    text = re.sub(r"(?m)^(core|memory)_(min|max)_MHz.*\n", "", DEVICE.text)
    text = re.sub(r'(?m)^"clocks.(core|memory)_(min|max)_MHz".*\n', "", text)
    bare = parse_device(text, DEVICE.key)
    assert clock_range(bare, "core") == (1075, 1075, 1075)
    wide, notes = widened(bare, {"core": (595.0, 1164.0), "memory": (3505.0, 3505.0)})
    assert clock_range(wide, "core") == (595, 1075, 1164)
    assert notes[0].startswith("the core clock was measured at 595, 1164 MHz, beyond the range of")

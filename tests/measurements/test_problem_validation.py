"""Tables of many problems: choices, lists of the best and library times, against brute force."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refused

from sweep.cli import main
from sweep.errors import QueryError, TuningError
from sweep.evaluation.problems import Problems
from sweep.importers.files import read_source
from sweep.importers.tuners.problem_table import mapping_of, read_problem_table
from sweep.importers.tuners.table import Columns
from sweep.measurements.by_problem import hits
from sweep.measurements.problem_validation import tables, validate_problems
from sweep.space import Plan

pytestmark = pytest.mark.usefixtures("folder")
SHAPES = np.array(
    [(m, n, k) for m in (16, 64, 512, 4096) for n in (256, 3072) for k in (512, 8192)]
)
NAMES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
PLAN = Plan(["triton_matmul"], ["a100_80gb"], ["combined"], variant="revised",
            axes={"BLOCK_K": [64], "num_warps": [4, 8], "num_stages": [3, 4]})  # fmt: skip
TEXT = """schema = 1
kernels = ["triton_matmul"]
devices = ["a100_80gb"]
models = ["combined"]
variant = "revised"
[axes]
BLOCK_K = [64]
num_warps = [4, 8]
num_stages = [3, 4]
"""


@pytest.fixture(scope="module")
def predicted() -> tuple[np.ndarray, list[dict[str, int]]]:
    problems = Problems.of(PLAN, dict(zip("mnk", SHAPES.T, strict=True)))
    return problems.times(), [
        problems.configurations[i] for i in range(len(problems.configurations))
    ]


@pytest.fixture(scope="module")
def rows(predicted) -> list[tuple[int, int, float]]:
    """Rows of a problem, a configuration and a measured time: the predicted one, blurred."""
    times, _ = predicted
    random = np.random.default_rng(11)
    found = []
    for problem, line in enumerate(times):
        different, first = np.unique(line, return_index=True)
        for number in random.choice(first[np.isfinite(different)], 25, replace=False).tolist():
            found.append((problem, number, float(line[number] * random.lognormal(0.1, 0.3))))
    return [found[i] for i in random.permutation(len(found)).tolist()]


def written(predicted, rows, path: str, *, kind: bool = False) -> Path:
    header = [*(["kind"] if kind else []), "M", "N", "K", *NAMES, "time_us"]
    lines = [
        [*(["tall" if SHAPES[p][0] > 64 else "flat"] if kind else []), *SHAPES[p],
         *(predicted[1][c][name] for name in NAMES), 1e6 * time] for p, c, time in rows
    ]  # fmt: skip
    buffer = io.StringIO()
    csv.writer(buffer).writerows([header, *lines])
    Path(path).write_text(buffer.getvalue(), "utf-8")
    return Path(path)


def test_losses_and_ranks__are_those_of_each_problem(predicted, rows):
    times, _ = predicted
    table = read_problem_table(read_source(written(predicted, rows, "rows.csv", kind=True)))
    answer = validate_problems(PLAN, table, by_group="kind")
    loss = {k: [] for k in (1, 3, 10)}
    for problem in range(len(SHAPES)):
        own = sorted((times[p, c], t) for p, c, t in rows if p == problem)
        for k, found in loss.items():
            found.append(min(t for _, t in own[:k]) / min(t for _, t in own) - 1.0)
    first = answer[0]
    assert (first["ranking"], first["group"]) == ("combined", "all")
    assert (first["problems"], first["configurations"]) == (len(SHAPES), len(rows))
    for k, values in loss.items():
        assert first[f"loss_{k}_mean"] == pytest.approx(np.mean(values), abs=1e-6)
        assert first[f"loss_{k}_median"] == pytest.approx(np.median(values), abs=1e-6)
        assert first[f"loss_{k}_p90"] == pytest.approx(np.quantile(values, 0.9), abs=1e-6)
    ratio = np.array([times[p, c] / t for p, c, t in rows])
    assert first["error_mean"] == pytest.approx(np.mean(abs(ratio - 1.0)))
    assert first["scale"] == pytest.approx(np.median(1.0 / ratio))
    assert 0.5 < first["spearman_q25"] <= first["spearman"] <= first["spearman_q75"] < 1.0
    by_group = {row["group"]: row for row in answer if row["ranking"] == "combined"}
    flat = [value for value, shape in zip(loss[1], SHAPES, strict=True) if shape[0] <= 64]
    assert by_group["flat"]["loss_1_mean"] == pytest.approx(np.mean(flat), abs=1e-6)
    chance = next(row for row in answer if row["ranking"] == "(random)")
    means = [np.mean([t for p, _, t in rows if p == i]) / min(t for p, _, t in rows if p == i) - 1
             for i in range(len(SHAPES))]  # fmt: skip
    assert chance["loss_1_mean"] == pytest.approx(np.mean(means))


def test_repeated_rows__are_judged_by_their_mean(predicted, rows):
    twice = [(p, c, t * factor) for p, c, t in rows for factor in (0.5, 1.5)]
    found = []
    for these in (rows, twice):
        path = written(predicted, these, "t.csv")
        found.append(validate_problems(PLAN, read_problem_table(read_source(path))))
    one, other = found
    assert one[0]["loss_3_mean"] == pytest.approx(other[0]["loss_3_mean"])
    assert any("repeat a configuration" in note for note in other.notes)


def test_lists_of_the_best__are_looked_for_among_the_first_of_the_space(predicted, rows):
    times, _ = predicted
    best = {p: min(t for q, _, t in rows if q == p) for p in range(len(SHAPES))}
    near = [(p, c, t) for p, c, t in rows if t <= 1.2 * best[p]]
    table = read_problem_table(read_source(written(predicted, near, "near.csv")))
    answer = validate_problems(PLAN, table, listed_within=20.0)
    listed = np.zeros(times.shape, bool)
    for problem, number, _ in near:
        listed[problem, number] = True
    for k in (1, 3, 10):
        found = hits(np.where(np.isfinite(times), times, np.inf), listed, k)
        assert answer[0][f"hit_{k}"] == pytest.approx(found.mean(), abs=1e-6) and found.any()
    usable = np.isfinite(times).sum(axis=1)
    assert answer[1]["hit_1"] == pytest.approx(np.mean(listed.sum(axis=1) / usable))
    stricter = validate_problems(PLAN, table, listed_within=0.0)
    assert stricter[0]["listed"] == len(SHAPES)
    assert any("slower than the limit" in note for note in stricter.notes)


def test_times_without_configurations__are_compared_with_the_best(predicted):
    best = np.nanmin(predicted[0], axis=1)
    factors = np.linspace(0.8, 1.6, len(best))
    lines = [
        f"{m},{n},{k},{1e3 * time}" for (m, n, k), time in zip(SHAPES, best * factors, strict=True)
    ]
    Path("library.csv").write_text("\n".join(["m,n,k,time_ms", *lines]), "utf-8")
    table = read_problem_table(read_source("library.csv"))
    (row,) = validate_problems(PLAN, table)
    errors = abs(1.0 / factors - 1.0)
    assert row["error_median"] == pytest.approx(np.median(errors))
    assert row["error_mean"] == pytest.approx(np.mean(errors))
    answer = validate_problems(PLAN, table, by_group="m * n * k : 4")
    assert len(answer) == 5 and sum(answer.column("problems")[1:]) == answer[0]["problems"] == 16
    ends = [[float(end) for end in group.split(" to ")] for group in answer.column("group")[1:]]
    assert sum(ends, []) == sorted(sum(ends, [])) and "e+" not in str(answer.column("group"))
    answer = validate_problems(PLAN, table, by_group="1000000 + m * n * k / 1e13")  # look alike
    assert list(answer.column("group")) == ["all", "1e+06"]
    assert answer[1]["problems"] == answer[0]["problems"]
    assert validate_problems(PLAN, table, problems=5)[0]["problems"] == 5


def test_mapping__makes_sizes_of_columns():
    Path("map.toml").write_text('n = "2 * N if kind == \'a\' else H"\nk = "H"\n', "utf-8")
    Path("t.csv").write_text("kind,M,N,H,t\na,4,8,16,1\nb,4,8,16,oops\nb,4,8,16,3\n", "utf-8")
    source = read_source("t.csv")
    with pytest.raises(TuningError, match="no column 'time_ms' of times"):
        read_problem_table(source)
    mapping = mapping_of(["map.toml", "k=H+1"])
    table = read_problem_table(source, mapping, Columns(time="t", unit="us"))
    assert table.columns["n"].tolist() == [16, 16] and table.columns["k"].tolist() == [17, 17]
    assert table.time.tolist() == pytest.approx([1e-6, 3e-6]) and table.failed == 1
    assert table.of_kernel(("m", "n"))["m"].tolist() == [4, 4]
    with pytest.raises(TuningError, match="column 'n': `2 \\* Q`: unknown name 'Q'"):
        read_problem_table(source, {"n": "2 * Q"}, Columns(time="t", unit="us"))
    Path("deep.toml").write_text("n = " + "[" * 5000, "utf-8")
    for word, message in (("n", "write NAME=EXPRESSION"), ("deep.toml", "nested too deeply")):
        with pytest.raises(TuningError, match=message):
            mapping_of([word])


@pytest.mark.parametrize(
    ("text", "message"),
    [("m,n,time_ms\n1,2,3\n1,2\n", "line 3 has 2 cells, the header 3"),
     ("m;n;time_ms\n1;2;3,5\n", "cells end with ';': write ',' between cells"),
     ("m,m,time_ms\n1,2,3\n", "an empty or a doubled name"),
     ("m,n,time_ms\n", "no line below the header"),
     ("m,n,time_ms\n1,2,0\n1,2,nan\n", "no row has a time above 0"),
     ('m,n,time_ms\n"1,2,3\n', "not valid CSV")],
)  # fmt: skip
def test_bad_tables__are_one_line(text, message):
    Path("t.csv").write_text(text, "utf-8")
    with pytest.raises(TuningError, match=f"t.csv: .*{message}"):
        read_problem_table(read_source("t.csv"))


def test_a_column_that_turns_to_text__is_text_from_the_first_line(monkeypatch):
    monkeypatch.setattr("sweep.importers.tuners.problem_table.BLOCK", 2)
    Path("t.csv").write_text("m,kind,time_ms\n1,1,3\n2, 2,3\n3,x,4\n", "utf-8")
    table = read_problem_table(read_source("t.csv"))
    assert table.columns["kind"].tolist() == ["1", "2", "x"]
    assert table.columns["m"].tolist() == [1, 2, 3] and table.time.tolist() == [3e-3, 3e-3, 4e-3]


def test_command__prints_tables_json_and_csv(predicted, rows, capsys):
    written(predicted, rows, "rows.csv", kind=True)
    Path("plan.toml").write_text(TEXT, "utf-8")
    words = ["validate", "plan.toml", "rows.csv"]
    assert main([*words, "--by-group", "m*n*k:4"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100 and "left out: first" not in text
    assert main([*words, "--by-group", "kind", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["group"] for row in found["rows"]} == {"all", "flat", "tall"}
    assert main([*words, "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    expected = validate_problems(PLAN, read_problem_table(read_source("rows.csv")))
    assert [float(line["loss_1_mean"]) for line in lines] == expected.column("loss_1_mean")
    assert not Path("validation.png").exists()
    assert len(tables(expected)) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--by", "kinds"], "there is no column 'kinds'; did you mean 'kind'?"),
     (["--by-group", "kinds"], "--by-group: `kinds`: unknown name 'kinds'"),
     (["--by-group", "kind:3"], "--by-group 'kind:3': write EXPRESSION"),
     (["--map", "m=M+"], "column 'm': `M+`:"),
     (["--map", "none.toml"], "none.toml"),
     (["--listed-within", "-1"], "--listed-within -1: at least 0"),
     (["--device", "a40"], "no device 'a40'"),
     (["-o", "f.png"], "--output f.png: many problems give no figure"),
     (["bits=2,4"], "bits has 2 values"),
     (["num_stages=9"], "num_stages=9: the plan has none of these values")],
)  # fmt: skip
def test_bad_words__are_one_line(predicted, rows, words, message, capsys):
    written(predicted, rows, "rows.csv", kind=True)
    Path("plan.toml").write_text(TEXT, "utf-8")
    assert message in refused(capsys, "validate", "plan.toml", "rows.csv", *words)


def test_a_cache_is_no_table_of_problems(capsys):
    Path("plan.toml").write_text(TEXT, "utf-8")
    Path("cache.json").write_text('{"tune_params_keys": ["x"], "cache": {}}')
    message = refused(capsys, "validate", "plan.toml", "cache.json", "--by", "kind")
    assert message == "cache.json: many problems are read from a CSV table"


@pytest.mark.parametrize(
    ("line", "message"),
    [("0,256,512,16", "size 'm' = 0: a problem size is a number above 0"),
     ("x,256,512,16", "size 'm' = x: a problem"), ("inf,256,512,16", "size 'm' = inf"),
     ("16,256,512,wide", "parameter 'BLOCK_M' = wide: the kernel file has values like 16")],
)  # fmt: skip
def test_values_that_a_kernel_cannot_have__are_refused(line, message):
    Path("t.csv").write_text(f"m,n,k,BLOCK_M,time_ms\n{line},1\n", "utf-8")
    with pytest.raises(QueryError, match=message):
        validate_problems(PLAN, read_problem_table(read_source("t.csv")))


def test_rows_of_size_0__are_left_out_and_counted():
    Path("t.csv").write_text("m,n,k,time_ms\n0,256,512,1\n16,256,512,1\n", "utf-8")
    answer = validate_problems(PLAN, read_problem_table(read_source("t.csv")))
    assert answer[0]["problems"] == 1
    assert "rows left out, whose size is not above 0: 1" in answer.notes


def test_rows_outside_a_selection__are_left_out_and_counted(predicted, rows):
    table = read_problem_table(read_source(written(predicted, rows, "rows.csv")))
    for wanted in ({"num_warps": 4}, {"m": 16}, {"m": [16, 64], "num_stages": (4, None)}):
        kept = np.ones(len(rows), bool)
        for name, value in wanted.items():
            column = table.of_kernel([name])[name]
            kept &= column >= value[0] if isinstance(value, tuple) else np.isin(column, value)
        found = validate_problems(PLAN, table, select=wanted)
        assert f"rows left out, outside the selection: {(~kept).sum()}" in found.notes
        assert found.rows == validate_problems(PLAN, table.taken(kept)).rows
    with pytest.raises(QueryError, match="m=17: the table 'rows' has none of these values"):
        validate_problems(PLAN, table, select={"m": 17})


def test_device_without_a_selected_row__is_left_out():
    lines = ["device,m,n,k,time_ms", "a100_80gb,16,256,512,1", "h100_sxm,64,256,512,1"]
    Path("two.csv").write_text("\n".join(lines), "utf-8")
    plan = replace(PLAN, devices=("a100_80gb", "h100_sxm"))
    answer = validate_problems(plan, read_problem_table(read_source("two.csv")), select={"m": 64})
    assert [row["device"] for row in answer] == ["h100_sxm"]


def test_table_without_sizes__is_refused():
    Path("t.csv").write_text("rows,time_ms\n1,1\n", "utf-8")
    with pytest.raises(QueryError, match=r"no column is a problem size .*--map SIZE=COLUMN"):
        validate_problems(PLAN, read_problem_table(read_source("t.csv")))


def test_table_without_a_size_of_several_values__names_it():
    plan = Plan(["triton_matmul"], ["a100_80gb"], ["combined"], axes={"m": [16, 64]})
    Path("t.csv").write_text("rows,n,k,time_ms\n16,256,512,1\n", "utf-8")
    table = read_problem_table(read_source("t.csv"))
    with pytest.raises(QueryError, match="t: no column m: --map m=COLUMN or m=VALUE"):
        validate_problems(plan, table)
    answer = validate_problems(plan, table, select={"m": 64})
    assert any(
        note.startswith("sizes that the table lacks: bits=16, m=64") for note in answer.notes
    )

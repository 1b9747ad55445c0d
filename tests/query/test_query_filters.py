"""Filters and conditions: what they keep, and what they say to a wrong name or value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import synthetic
from support.synthetic import flattened, is_valid, place

from sweep.errors import QueryError
from sweep.expressions import Expression, ExpressionError
from sweep.query import best, pareto, parse_selection, summary, top

TREE = synthetic.three_kernels()
ONE = synthetic.dataset()
MANY = synthetic.dataset(core=tuple(np.linspace(0.5, 0.9, 40).round(3)))
TILED = synthetic.dataset(parameters={"tile": (4, 8, 16), "is_padded": (False, True)})


CONDITIONS = [
    "occupancy > 0.46 and block_size % 64 == 0",
    "regime == 'wang_chu_eq9' and bound != 'memory'",
    "regime in ('hong_kim_eq22', 'wang_chu_eq13')",
    "not bound == 'memory' or occupancy >= 0.5",
    "500 <= core_clock <= 1000",
    "device == 'gtx_980' and model != 'wang_chu'",
    "kernel == 'matrix_multiply'",
    "1 / (block_size - 128) > 0",
    "execution_time < 2e-5 if core_clock_ratio > 0.8 else energy > 0",
]


def satisfies(point: dict, where: str) -> bool:
    """Return what Python says of a condition, which is an expression of Python."""
    codes = {"regime": synthetic.REGIMES, "bound": synthetic.BOUND.codes}
    words = {name: next(word for word, code in known.items() if code == point[name])
             for name, known in codes.items()}  # fmt: skip
    try:
        return bool(eval(where, {}, point | words))
    except ZeroDivisionError:
        return False


@pytest.mark.parametrize("where", CONDITIONS)
def test_where__is_a_python_predicate(where):
    ordered = fastest(where, *(["energy"] if "energy" in where else []))
    assert [place(row) for row in top(ONE, 1000, where=where)] == ordered
    assert [place(row) for row in top(ONE, 3, where=Expression.parse(where))] == ordered[:3]


def test_where__of_a_short_name_keeps_that_model():
    answer = best(ONE, where="memory_warp_parallelism < 0.8")
    assert {row["model"] for row in answer} == {"hong_kim"}
    assert {r["model"] for r in best(ONE, "memory_warp_parallelism", sense="max")} == {"hong_kim"}
    full = best(ONE, where="hong_kim_memory_warp_parallelism < 0.8")
    assert full.rows == answer.rows


def test_short_name__of_two_models_is_ambiguous():
    data = ONE.copy()
    own = ONE["hong_kim_memory_warp_parallelism"]
    data["wang_chu_memory_warp_parallelism"] = own.assign_attrs(model="wang_chu")
    with pytest.raises(QueryError, match=r"ambiguous: name one of hong_kim_\w+, wang_chu_\w+"):
        best(data, where="memory_warp_parallelism > 4")
    both = "hong_kim_memory_warp_parallelism < wang_chu_memory_warp_parallelism"
    with pytest.raises(QueryError, match="no selected model gives all"):
        best(data, where=both)
    with pytest.raises(QueryError, match="no selected model gives all"):
        best(ONE, "memory_warp_parallelism", select={"model": "wang_chu"})


def test_include__shows_a_models_own_quantity_for_that_model_only():
    answer = best(ONE, include=["memory_warp_parallelism", "occupancy_limiter"])
    for row in answer:
        shown = row["hong_kim_memory_warp_parallelism"]
        assert (shown is None) == (row["model"] != "hong_kim")
        assert row["occupancy_limiter"] == "warps"


def test_where__leaves_out_kernels_without_the_name_and_says_so():
    answer = best(TREE, where="tile <= 8")
    assert {row["kernel"] for row in answer} == {"matrix_multiply"}
    (note,) = [n for n in answer.notes if n.startswith("left out")]
    assert "black_scholes, transpose" in note and "'tile'" in note
    answer = top(TREE, 1, by="block_size")
    assert {row["kernel"] for row in answer} == {"black_scholes", "transpose"}
    assert {r["kernel"] for r in best(TREE, select={"layout": "row"})} == {"transpose"}


def test_where__groups_that_it_rules_out_are_named_not_listed():
    answer = best(ONE, where="device == 'gtx_980'")
    assert {row["device"] for row in answer} == {"gtx_980"}
    why = "(no configuration satisfies the condition)"
    assert f"no result for 2 of 4 groups: hong_kim, wang_chu on gtx_280 {why}" in answer.notes
    nothing = top(ONE, 3, where="block_size > 5000")
    assert len(nothing) == 0
    assert nothing.notes == ("no result: no configuration satisfies the condition",)
    assert "(no rows)" in nothing.to_table()


def test_where__on_results_of_invalid_configurations_gives_their_status():
    (row,) = best(ONE, by=("block_size",), select={"block_size": 2000}, where="occupancy > 0.1")
    assert row["status"] == "block_too_large"


@pytest.mark.parametrize("where", ["__import__('os')", "occupancy >", "x.y > 1", ""])
def test_where__is_the_safe_language(where):
    with pytest.raises(ExpressionError):
        best(TREE, where=where)


SELECTIONS = [
    ({"device": "gtx_980"}, "device == 'gtx_980'"),
    ({"block_size": [64, 256]}, "block_size in (64, 256)"),
    ({"block_size": (100, 200)}, "100 <= block_size <= 200"),
    ({"block_size": slice(None, 128)}, "block_size <= 128"),
    ({"core_clock_ratio": 0.9, "model": "wang_chu"},
     "core_clock_ratio == 0.9 and model == 'wang_chu'"),
    ({"core_clock": (400, 700)}, "400 <= core_clock <= 700"),
    ({"core_clock": 0.7 * 602}, "abs(core_clock - 421.4) < 1e-6"),
    ({"core_clock": (1000, None)}, "core_clock >= 1000"),
    ({"kernel": ["matrix_multiply"]}, "True"),
]  # fmt: skip


def fastest(where: str, *names: str) -> list[tuple]:
    """Return the valid configurations that satisfy a condition, fastest first."""
    points = [p for p in flattened(ONE) if is_valid(p, "execution_time", *names)]
    points = [p for p in points if satisfies(p, where)]
    return [place(p) for p in sorted(points, key=lambda p: p["execution_time"])]


@pytest.mark.parametrize(("select", "where"), SELECTIONS, ids=str)
def test_select__is_a_python_predicate(select, where):
    assert [place(row) for row in top(ONE, 1000, select=select)] == fastest(where)


def test_select__of_a_boolean_parameter():
    assert {row["is_padded"] for row in top(TILED, 9, select={"is_padded": True})} == {True}
    with pytest.raises(QueryError, match="no is_padded = 1"):
        top(TILED, 9, select={"is_padded": 1})


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: best(TREE, where="ocupancy > 0.5"),
         "no coordinate or variable 'ocupancy'; did you mean 'occupancy'"),
        (lambda: best(TREE, where="core_clok < 3"), "did you mean 'core_clock'"),
        (lambda: best(TREE, where="'memory'"), "is a text, not a condition"),
        (lambda: best(TREE, where="assumed == ''"), "'assumed' is a text about the answer"),
        (lambda: best(TREE, select={"device": "gtx_908"}),
         r"no device = 'gtx_908'; did you mean 'gtx_980'.*'gtx_280'"),
        (lambda: best(TILED, select={"tile": 5}),
         r"kernel 'matrix_multiply' has no tile = 5 \(available: 4, 8, 16\)"),
        (lambda: best(TILED, select={"tile": "8"}), r"no tile = '8' \(available: 4, 8, 16\)"),
        (lambda: best(TILED, select={"tile": [4, 5]}), r"no tile = 5 "),
        (lambda: best(TILED, select={"tile": slice(4, 8, 2)}), "a range has two ends and no step"),
        (lambda: best(TREE, select={"core_clock": (1, 2)}),
         r"no core_clock = 1:2 MHz \(available: 301, .* MHz\)"),
        (lambda: best(TREE, select={"tiles": 4}),
         r"no coordinate 'tiles'; did you mean 'tile'\? \(coordinates: model"),
        (lambda: best(TREE, select={"occupancy": 1}), "it is a variable, use it in `where`"),
        (lambda: best(TREE, select={"kernel": "transpos"}),
         "no results for kernel 'transpos'; did you mean 'transpose'"),
        (lambda: best(TREE, select={"kernel": []}), "no kernel is selected"),
        (lambda: best(TREE, select={"kernel": "black_scholes", "tile": 4}),
         "kernel 'black_scholes' has no coordinate 'tile'"),
        (lambda: best(TREE, "excution_time"), "did you mean 'execution_time'.*variables: active"),
        (lambda: best(TREE, "regime"), "'regime' is a code, not a number"),
        (lambda: best(TREE, "core_clock"), "is a coordinate of kernel"),
        (lambda: best(TREE, sense="least"), "unknown sense 'least'"),
        (lambda: best(TREE, by="devices"), "'devices' is no dimension .* did you mean 'device'"),
        (lambda: best(TREE, by="core_clock"), "'core_clock' is no dimension"),
        (lambda: best(TREE, include=["enrgy"]), "did you mean 'energy'"),
        (lambda: top(TREE, 0), "positive integer, not 0"),
        (lambda: top(TREE, 2.5), "positive integer, not 2.5"),
        (lambda: pareto(TREE, ["energy"]), "two or three objectives"),
        (lambda: pareto(TREE, ["energy", "energy"]), "two or three objectives"),
        (lambda: pareto(TREE, ["energy", "power"], ["min"]), "as many senses"),
        (lambda: parse_selection(["tile"], TILED), "'tile' is not a selection: write NAME=VALUE"),
        (lambda: parse_selection(["=4"], TILED), "is not a selection"),
        (lambda: parse_selection(["tile="], TILED), "is not a selection"),
        (lambda: parse_selection(["tile=4", "tile=8"], TILED), "'tile' is selected twice"),
        (lambda: parse_selection(["tile=4,"], TILED), "has an empty value"),
        (lambda: parse_selection(["tile=a:b"], TILED), "is not a range"),
        (lambda: parse_selection(["tile=1:2:3"], TILED), "is not a range"),
        (lambda: parse_selection(["tile=5"], TILED), r"no tile = 5 \(available: 4, 8, 16\)"),
        (lambda: parse_selection(["tile=16777217"], TILED), "no tile = 16777217 "),
        (lambda: parse_selection(["tile=" + "9" * 400], TILED), "no tile = "),
        (lambda: parse_selection(["tiel=4"], TILED), "did you mean 'tile'"),
        (lambda: parse_selection(["kernel=x"], TILED), "no results for kernel 'x'"),
        (lambda: best(MANY, select={"core_clock_ratio": 3}),
         r"available: 0.5, .*, \.\.\., .*0.9\)"),
    ],
)  # fmt: skip
def test_questions__wrong_names_and_values(question, message):
    with pytest.raises(QueryError, match=message):
        question()


def test_summary__takes_filters_and_groups():
    (row,) = summary(ONE, by=("kernel",), select={"device": "gtx_980"}, where="block_size < 200")
    points = [p for p in flattened(ONE) if p["device"] == "gtx_980" and p["block_size"] < 200]
    assert row["points"] == len(points)
    assert summary(ONE.drop_vars("energy"))[0]["energy"] is None


WORDS = [
    (["block_size=256", "tile=16"], {"block_size": 256, "tile": 16}),
    (["tile=8, 16"], {"tile": [8, 16]}),
    ([" core_clock = 400:700 "], {"core_clock": (400, 700)}),
    (["core_clock=:700.5"], {"core_clock": (None, 700.5)}),
    (["is_padded=true"], {"is_padded": True}),
    (["device=gtx_980", "model=hong_kim,wang_chu"],
     {"device": "gtx_980", "model": ["hong_kim", "wang_chu"]}),
    (["x=1e3", "y=-2", "z=nan", "w=inf"], {"x": 1000.0, "y": -2, "z": "nan", "w": "inf"}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "select"), WORDS)
def test_parse_selection(words, select):
    found = parse_selection(words)
    assert found == select
    assert [type(value) for value in found.values()] == [type(v) for v in select.values()]


def test_parse_selection__keeps_text_where_the_coordinate_is_text():
    data = synthetic.dataset(parameters={"layout": ("1", "2")})
    assert parse_selection(["layout=1,2"], data) == {"layout": ["1", "2"]}
    assert parse_selection(["layout=2", "kernel=matrix_multiply"], data)["layout"] == "2"
    assert parse_selection([], data) == {}


def test_parse_selection__a_huge_number_is_a_number():
    assert math.isfinite(parse_selection(["tile=" + "9" * 300])["tile"])

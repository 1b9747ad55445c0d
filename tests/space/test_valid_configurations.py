"""Constrained spaces: the right configurations, in order, without walking the whole product."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.errors import PlanError
from sweep.expressions import Bounds, Expression, ExpressionError
from sweep.importers.files import read_source
from sweep.importers.tuners.search_space import read_t1
from sweep.space import valid
from sweep.space.valid import Names, valid_configurations

DATA = Path(__file__).parents[1] / "data" / "tuning"


def parsed(*texts: str) -> list[Expression]:
    return [Expression.parse(text) for text in texts]


def brute_force(axes, conditions, fixed, derived) -> list[tuple]:
    """Every configuration of the product, tested one by one."""
    found = []
    for values in itertools.product(*axes.values()):
        names = Names({}, dict(zip(axes, values, strict=True)) | fixed, derived)
        if all(names.holds(condition, {}) for condition in conditions):
            found.append(values)
    return found


def listed(found) -> list[tuple]:
    return list(zip(*(found.column(name).tolist() for name in found.axes), strict=True))


# ---------------------------------------------------------------------------- real spaces


def test_gemm_has_its_known_number_of_valid_configurations():
    space = read_t1(read_source(DATA / "gemm.T1.json"))
    found = valid_configurations(space.parameters, space.conditions)
    assert len(found) == 116_928
    assert space.satisfied({name: found.column(name) for name in space.parameters}).all()
    places = [found.indices[name].astype(np.int64) for name in space.parameters]
    order = np.ravel_multi_index(places, tuple(map(len, space.parameters.values())))
    assert (np.diff(order) > 0).all()  # lexicographic, none twice


def test_convolution_agrees_with_testing_every_point():
    space = read_t1(read_source(DATA / "convolution.T1.json"))
    found = valid_configurations(space.parameters, space.conditions)
    grids = np.meshgrid(*space.parameters.values(), indexing="ij")
    columns = dict(zip(space.parameters, (g.ravel() for g in grids), strict=True))
    assert len(found) == int(space.satisfied(columns).sum()) == 4362


# ---------------------------------------------------------------------------- any space

NAMES = ("a", "b", "c", "d")
OPERANDS = st.sampled_from([*NAMES, "1", "2", "3", "twice", "size"])
FORMS = ["({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} // {})", "({} % {})",
         "min({}, {})", "max({}, {})", "gcd({}, {})", "choose({0}, {1}, {0})",
         "abs({} - {})", "({} ** {})", "({0} if {1} > 2 else {1})", "ceil({} / {})"]  # fmt: skip


@st.composite
def texts(draw, depth: int = 2) -> str:
    if depth == 0:
        return draw(OPERANDS)
    left, right = draw(texts(depth - 1)), draw(texts(depth - 1))
    return draw(st.sampled_from(FORMS)).format(left, right)


@st.composite
def conditions(draw) -> str:
    comparisons = [
        f"{draw(texts())} {draw(st.sampled_from(['<', '<=', '==', '!=', '>=', '>']))} "
        f"{draw(texts())}"
        for _ in range(draw(st.integers(1, 3)))
    ]
    joined = draw(st.sampled_from([" and ", " or "])).join(comparisons)
    return draw(st.sampled_from(["{}", "not ({})", "1 <= a < {} or b in (1, 2)"])).format(
        joined if not joined.startswith("1 <=") else "3"
    )


AXES = st.fixed_dictionaries(
    {
        name: st.lists(st.integers(-2, 4), min_size=1, max_size=4, unique=True).map(tuple)
        for name in NAMES
    }
)


@pytest.mark.parametrize("table", [1 << 20, 1], ids=["tables", "intervals"])
@given(axes=AXES, chosen=st.lists(conditions(), max_size=4))
def test_any_space_agrees_with_testing_every_point(table, axes, chosen):
    more = {"fixed": {"size": 3}, "derived": {"twice": Expression.parse("2 * b")}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(valid, "TABLE", table)
        found = valid_configurations(axes, parsed(*chosen), **more)
    assert listed(found) == brute_force(axes, parsed(*chosen), **more)


@given(axes=AXES, text=conditions())
def test_bounds_never_exclude_what_holds(axes, text):
    expression = Expression.parse(text.replace("twice", "b").replace("size", "c"))
    known = {n: Bounds(np.float64(min(v)), np.float64(max(v))) for n, v in axes.items()}
    grids = dict(zip(axes, np.ix_(*(np.asarray(v) for v in axes.values())), strict=True))
    value, fault = expression.evaluate(grids)
    holds = (np.asarray(value) != 0) & ~fault
    bounds = expression.bounds(known)
    assert bool(bounds.can_hold) or not holds.any()


def test_words_and_truth_values_are_parameters_too():
    axes = {"kind": ("row", "column"), "on": (True, False), "x": (1, 2)}
    found = valid_configurations(axes, parsed("kind == 'row' or x == 2", "not on or x > 1"))
    rows = [("row", True, 2), ("row", False, 1), ("row", False, 2)]
    assert listed(found) == [*rows, ("column", True, 2), ("column", False, 2)]


# ---------------------------------------------------------------------------- large spaces

LARGE = {f"p{i}": tuple(range(1, 11)) for i in range(12)}  # 10**12 points
SUM = " + ".join(LARGE)


def measured(axes, texts, **more):
    """Return the valid configurations and the peak of memory."""
    tracemalloc.start()
    found = valid_configurations(axes, parsed(*texts), **more)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, peak


CHAIN = [f"p{i} == p{i + 1} or p{i} == 2 * p{i + 1}" for i in range(11)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([f"{SUM} == 13"], 12),
        ([" * ".join(LARGE) + " <= 3"], 1 + 12 * 2),
        ([f"{SUM} <= 14 and ({' * '.join(LARGE)}) % 2 == 1"], 13),
        ([f"p{i} < p{i + 1}" for i in range(11)], 0),
        ([f"p{i} <= p{i + 1}" for i in range(11)] + ["p0 + 1 >= p11"], 10 + 9 * 11),
        (["p0 + p1 == 100"], 0),
        (["size > 3", "p0 == 1"], 0),
        # Each step halves at most: 8 becomes 4, 2, 1 at any of the steps.
        ([*CHAIN, "p0 == 8"], sum(math.comb(11, halvings) for halvings in range(4))),
    ],
    ids=["sum", "product", "both", "rising", "flat", "none", "constant", "chain"],
)
def test_a_space_of_a_trillion_points(texts, expected):
    found, peak = measured(LARGE, texts, fixed={"size": 3})
    assert len(found) == expected
    assert peak < 200e6


def test_a_space_beyond_64_bits_is_listed_in_order():
    axes = {f"q{i}": tuple(range(20)) for i in range(16)}
    found = valid_configurations(axes, parsed(" + ".join(axes) + " <= 2"))
    assert len(found) == 1 + 16 + 16 + 16 * 15 // 2
    rows = listed(found)
    assert rows == sorted(rows)


def test_listings_without_end_are_given_up(monkeypatch):
    with pytest.raises(PlanError, match="more than 100,000,000 valid configurations"):
        valid_configurations(LARGE, parsed("p0 == 1"))
    monkeypatch.setattr(valid, "FUTILE", 10**6)
    with pytest.raises(PlanError, match=r"partial configurations were tried for 0 valid ones: wri"):
        valid_configurations(LARGE, parsed(f"({SUM}) * 7919 % 10007 == 1"))


def test_memory_is_bounded_while_partial_configurations_are_many(monkeypatch):
    monkeypatch.setattr(valid, "BLOCK", 1 << 12)
    monkeypatch.setattr(valid, "TABLE", 1)
    axes = {f"p{i}": tuple(range(8)) for i in range(7)}  # two million points, none pruned early
    found, peak = measured(axes, ["(p0 + 3*p1 + 5*p2 + 7*p3 + p4 + p5 + p6) % 97 == 96"])
    assert 1000 < len(found) < 100_000
    assert peak < 20e6


def test_an_unknown_name_is_refused():
    with pytest.raises(ExpressionError, match="unknown name 'z'"):
        valid_configurations({"x": (1, 2)}, parsed("x < z"))


def test_conjuncts_are_the_parts_of_the_outermost_and():
    parts = Expression.parse("a < b and (c or d) and e == 1").conjuncts()
    assert [sorted(part.names) for part in parts] == [["a", "b"], ["c", "d"], ["e"]]
    assert len(Expression.parse("a and b or c").conjuncts()) == 1

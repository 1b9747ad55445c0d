"""A body as one function of numbers: the same results as the body, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.random_inputs import KERNELS

from sweep._jit import EquationInfo
from sweep.compiler.lowering import straight
from sweep.compiler.source import source_of
from sweep.models import get_model, model_names
from sweep.models.base import VARIANTS

every = [(model, variant) for model in model_names() for variant in VARIANTS]


def flat(model, inputs):
    """Return a body's arguments, and the same with every sequence taken apart."""
    whole, parts, length = [], [], 0
    for i in model.inputs:
        value = inputs[i.symbol]
        if i.sequence:
            value = tuple(np.float64(v) for v in value)
            length = len(value)
            parts += value
        else:
            value = np.float64(value)
            parts.append(value)
        whole.append(value)
    return whole, parts, length


def outcome(function, arguments):
    """Return a function's results as plain Python: nothing is compiled for each length."""
    with np.errstate(all="ignore"):
        try:
            return getattr(function, "py_func", function)(*arguments)
        except ZeroDivisionError:
            return ()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), every)
@given(data=st.data())
def test_same_results(name, variant, data):
    model = get_model(name)
    body = model.bodies[variant]
    whole, parts, length = flat(model, data.draw(KERNELS[name]()))
    plain, _ = straight(body, [i.sequence for i in model.inputs], length)
    expected, found = outcome(body, whole), outcome(plain, parts)
    assume(expected and found)
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


def total(values, weights, scale):
    result = 0.0
    for i in range(len(values)):
        last = 1.0 if i == len(values) - 1 else 0.0
        result += values[i] * weights[i] + last
    return result * scale, 0.0


@pytest.mark.parametrize("length", [1, 2, 5])
def test_loops_are_written_out(length):
    function, _ = straight(total, [True, True, False], length)
    values, weights = [float(i) for i in range(length)], [2.0] * length
    assert function(*values, *weights, 3.0) == total(values, weights, 3.0)


def variant_of(corrected):
    def body(x):
        if corrected:
            y = x + 1.0
        else:
            y = x - 1.0
        return y, x

    return body


@pytest.mark.parametrize("corrected", [True, False])
def test_branches_on_constants_are_decided(corrected):
    function, _ = straight(variant_of(corrected), [False], 0)
    assert function(2.0) == ((3.0 if corrected else 1.0), 2.0)
    assert "corrected" not in getattr(function, "py_func", function).__code__.co_names


@pytest.mark.parametrize(("name", "variant"), every)
def test_no_loop_is_left_and_few_calls(name, variant):
    model = get_model(name)
    function, _ = straight(model.bodies[variant], [i.sequence for i in model.inputs], 3)
    plain = getattr(function, "py_func", function)
    assert not {"range", "len"} & set(plain.__code__.co_names)
    called = [plain.__globals__.get(n) for n in plain.__code__.co_names]
    for equation in (f for f in called if isinstance(getattr(f, "info", None), EquationInfo)):
        tree, _ = source_of(getattr(equation, "py_func", equation))
        assert len(tree.body) > 2, equation.info  # not an expression alone

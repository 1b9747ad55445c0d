"""Sobol indices against closed forms, another package, and themselves."""

import numpy as np
import pytest

from sweep.errors import QueryError
from sweep.uncertainty.indices import design, indices, places


def ishigami(points, a=7.0, b=0.1):
    """Ishigami & Homma's function, whose indices are known in closed form."""
    x = np.pi * (2.0 * points - 1.0)
    return np.sin(x[:, 0]) + a * np.sin(x[:, 1]) ** 2 + b * x[:, 2] ** 4 * np.sin(x[:, 0])


def test_indices_are_those_of_the_closed_form():
    a, b, pi4 = 7.0, 0.1, np.pi**4
    parts = [0.5 * (1 + b * pi4 / 5) ** 2, a**2 / 8, b**2 * pi4**2 * (1 / 18 - 1 / 50)]
    whole = a**2 / 8 + b * pi4 / 5 + b**2 * pi4**2 / 18 + 0.5
    first = np.array([parts[0], parts[1], 0.0]) / whole
    total = np.array([parts[0] + parts[2], parts[1], parts[2]]) / whole
    found = indices(ishigami(design(1 << 14, 3, 1)), 3, 1)
    assert np.allclose(found.first, first, atol=0.005)
    assert np.allclose(found.total, total, atol=0.005)
    assert (found.first_interval[0] <= first).all() and (first <= found.first_interval[1]).all()
    assert (found.total_interval[0] <= total).all() and (total <= found.total_interval[1]).all()


def test_indices_are_those_of_salib():
    salib = pytest.importorskip("SALib.analyze.sobol")
    n, numbers = 512, 5
    weights = np.array([1.0, 2.0, 0.5, 0.0, 3.0])
    points = design(n, numbers, 3)
    results = (points @ weights) + points[:, 0] * points[:, 4] - 3.0 * points[:, 1] ** 2
    sets = results.reshape(numbers + 2, n)
    interleaved = np.stack([sets[0], *sets[2:], sets[1]], axis=1).ravel()
    problem = {"num_vars": numbers, "names": list("abcde"), "bounds": [[0, 1]] * numbers}
    other = salib.analyze(problem, interleaved, calc_second_order=False, seed=1, num_resamples=200)
    found = indices(results, numbers, 0)
    # Ours centres on the mean of A and B, the other on that of all sets.
    assert np.allclose(found.first, other["S1"], rtol=1e-5, atol=1e-6)
    assert np.allclose(found.total, other["ST"], rtol=1e-10, atol=1e-13)
    width = (found.total_interval[1] - found.total_interval[0]) / 2
    assert np.allclose(width, other["ST_conf"], rtol=0.35, atol=1e-3)


def test_sets_are_saltellis():
    a, b, *mixed = design(32, 3, 0).reshape(5, 32, 3)
    for i, one in enumerate(mixed):
        assert (one[:, i] == b[:, i]).all()
        assert (np.delete(one, i, axis=1) == np.delete(a, i, axis=1)).all()


def test_indices_are_the_same_to_the_bit_and_of_their_seed():
    first, again, other = (indices(ishigami(design(64, 3, s)), 3, s) for s in (5, 5, 6))
    assert all((one == two).all() for one, two in zip(first, again, strict=True))
    assert (first.total != other.total).all()


def test_samples_without_a_result_are_left_out_and_a_constant_has_no_indices():
    results = ishigami(design(1 << 12, 3, 1))
    spoilt = results.copy()
    spoilt[7] = np.nan
    whole, part = indices(results, 3, 1), indices(spoilt, 3, 1)
    assert np.allclose(whole.total, part.total, atol=0.01) and np.isfinite(part.first).all()
    for results in (np.full(5 * 16, 2.0), np.full(5 * 16, np.nan)):
        assert not np.any([np.abs(part).max() for part in indices(results, 3, 0)])


@pytest.mark.parametrize("n", [0, 8, 100, 1 << 21])
def test_samples_are_a_power_of_two(n):
    with pytest.raises(QueryError, match="a power of two, 16 to 1,048,576"):
        places(n, 2, 0)

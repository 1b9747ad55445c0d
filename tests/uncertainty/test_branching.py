"""Functions of one number, evaluated over samples."""

import numpy as np
import pytest

from sweep.uncertainty.branching import each_way


def tiered(x):
    """A rule with conditions in each other, as rules of devices have them."""
    if x["a"] and x["a"] > 2.0:
        return min(x["a"], 4.0) if x["b"] < 0.5 else x["a"] + x["b"]
    return x["b"] or 7.0


@pytest.mark.parametrize("n", [1, 2, 17, 300])
def test_every_sample_takes_its_own_branch(n):
    rng = np.random.default_rng(n)
    columns = {"a": rng.integers(0, 7, n) * 1.0, "b": rng.integers(0, 3, n) / 2.0}
    expected = [tiered({"a": a, "b": b}) for a, b in zip(*columns.values(), strict=True)]

    def whole(x):
        return np.broadcast_to(tiered(x), len(x["a"]))

    assert each_way(whole, columns).tolist() == expected


def test_rows_of_several_results_come_back_in_order():
    columns = {"a": np.arange(6.0)}
    found = each_way(lambda x: np.stack([x["a"], -x["a"] if x["a"] > 2 else x["a"]], 1), columns)
    assert found.tolist() == [[0, 0], [1, 1], [2, 2], [3, -3], [4, -4], [5, -5]]

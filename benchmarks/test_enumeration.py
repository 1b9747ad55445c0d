"""List the valid configurations of constrained spaces, compared with Kernel Tuner's best solver."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.expressions import Expression
from sweep.importers.files import read_source
from sweep.importers.tuners.search_space import SearchSpace, read_t1
from sweep.space import valid_configurations

DATA = Path(__file__).parents[1] / "tests" / "data" / "tuning"
VALID = {"gemm": 116_928, "convolution": 4_362}


def search_space(name: str) -> SearchSpace:
    return read_t1(read_source(DATA / f"{name}.T1.json"))


@pytest.mark.parametrize("name", VALID)
def test_valid_configurations(benchmark, name):
    space = search_space(name)
    found = benchmark.pedantic(
        valid_configurations, (space.parameters, space.conditions), rounds=10, warmup_rounds=1
    )
    assert len(found) == VALID[name]


@pytest.mark.parametrize("name", VALID)
def test_kernel_tuner(benchmark, name):
    searchspace = pytest.importorskip("kernel_tuner.searchspace")
    space = search_space(name)
    parameters = {key: list(values) for key, values in space.parameters.items()}
    restrictions = [condition.text for condition in space.conditions]

    def build():
        return searchspace.Searchspace(
            parameters,
            list(restrictions),
            1024,
            block_size_names=["none_x", "none_y"],  # no restrictions of its own
            framework="PythonConstraint",
            solver_method="PC_OptimizedBacktrackingSolver",
        )

    found = benchmark.pedantic(build, rounds=5, warmup_rounds=1)
    assert len(found.list) == VALID[name]


def test_a_trillion_points(benchmark):
    axes = {f"p{i}": tuple(range(1, 11)) for i in range(12)}
    condition = Expression.parse(" * ".join(axes) + " <= 20")
    found = benchmark.pedantic(valid_configurations, (axes, [condition]), rounds=5)
    assert len(found) == 5246

"""Predictions inside Triton's auto-tuner, with the real one where it is installed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import sweep
from sweep import TritonPruner
from sweep.errors import QueryError

SIZES = {"m": "M", "n": "N", "k": "K"}
TILES = list(itertools.product((16, 64, 128), (32, 128), (32, 64), (4, 8), (1, 3)))
ARGUMENTS = {"a": object(), "M": 1000, "N": 4096, "K": 512}


@dataclass(eq=False)
class Config:
    """What a ``triton.Config`` holds."""

    kwargs: dict[str, Any]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None


def configs_of(make: Any, prefix: str = "BLOCK_") -> list[Any]:
    names = [f"{prefix}{letter}" for letter in "MNK"]
    return [make(dict(zip(names, tile, strict=True)) | {"GROUP_M": 8}, num_warps=w, num_stages=s)
            for *tile, w, s in TILES]  # fmt: skip


@pytest.fixture(scope="module")
def pruner() -> TritonPruner:
    return TritonPruner("triton_matmul", "a100_80gb", SIZES)


def test_the_fastest_predicted__are_kept_in_order(pruner):
    configs = configs_of(Config)
    kept = pruner.prune_configs_by(5)["early_config_prune"](configs, ARGUMENTS, GRID=3)
    axes = {"m": [1000], "n": [4096], "k": [512], "GROUP_M": [8], "num_stages": [1, 3],
            "num_warps": [4, 8], "BLOCK_K": [32, 64], "BLOCK_M": [16, 64, 128],
            "BLOCK_N": [32, 128]}  # fmt: skip
    plan = sweep.Plan(["triton_matmul"], ["a100_80gb"], ["combined"], variant="revised", axes=axes)
    expected = [row["execution_time"] for row in sweep.top(plan, 5, by=())]
    times = pruner.times(configs, ARGUMENTS)
    np.testing.assert_allclose([times[configs.index(one)] for one in kept], expected, rtol=1e-6)
    assert np.isfinite(times).sum() >= 5


def test_another_shape__has_times_of_its_own(pruner):
    configs = configs_of(Config)
    small, large = (pruner.times(configs, ARGUMENTS | {"M": m}) for m in (16, 8192))
    assert (small < large)[np.isfinite(small)].all()
    fresh = TritonPruner("triton_matmul", "a100_80gb", SIZES)
    np.testing.assert_array_equal(fresh.times(configs, ARGUMENTS | {"M": 8192}), large)


def test_perf_model__is_the_same_time(pruner):
    config = configs_of(Config)[7]
    (expected,) = pruner.times([config], ARGUMENTS)
    one = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    assert pruner.perf_model(**ARGUMENTS, **one) == expected
    assert pruner.perf_model(**ARGUMENTS, **one | {"BLOCK_M": 1 << 14}) == np.inf


def test_names__may_differ_and_sizes_may_be_computed():
    names = {f"BLOCK_{letter}": f"BLOCK_SIZE_{letter}" for letter in "MNK"}
    sizes = {"m": lambda a: a["shape"][0], "n": 4096, "k": "K"}
    other = TritonPruner("triton_matmul", "a100_80gb", sizes, parameters=names)
    found = other.times(configs_of(Config, "BLOCK_SIZE_"), {"shape": (1000, 3), "K": 512})
    own = TritonPruner("triton_matmul", "a100_80gb", {})  # by the arguments' names
    np.testing.assert_array_equal(found, own.times(configs_of(Config), ARGUMENTS))


def test_options_of_amds_compiler__are_its_own_where_a_configuration_lacks_them():
    one, amd = configs_of(Config)[-1], TritonPruner("triton_matmul", "mi300x", SIZES)
    plain = {**one.kwargs, "num_warps": one.num_warps, "num_stages": one.num_stages}
    found = amd.times([plain, plain | {"matrix_instr_nonkdim": 16, "waves_per_eu": 8}], ARGUMENTS)
    assert found[0] == amd.times([plain], ARGUMENTS)[0] != found[1]


def test_nothing_that_can_run__leaves_all_configurations(pruner):
    configs = [Config({"BLOCK_M": 1 << 14, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8})] * 2
    assert pruner.best(configs, ARGUMENTS, 1) == configs


def test_what_is_lacking__is_named(pruner):
    with pytest.raises(QueryError, match=r"has no 'M' \(it has m, n, k, bits\)"):
        TritonPruner("triton_matmul", "a100_80gb", {"M": "M"})
    with pytest.raises(QueryError, match="'m' is the argument 'M', which the launch lacks"):
        pruner.times(configs_of(Config), {"N": 1, "K": 1})
    with pytest.raises(QueryError, match="size 'm' is 0: must be a number above 0"):
        pruner.times(configs_of(Config), ARGUMENTS | {"M": 0})
    with pytest.raises(QueryError, match=r"'BLOCK_M' .*did you mean 'BLOCK_SIZE_M'.*THEIR_NAME"):
        pruner.times(configs_of(Config, "BLOCK_SIZE_"), ARGUMENTS)
    with pytest.raises(QueryError, match="top_k = 0.5"):
        pruner.prune_configs_by(0.5)


def test_triton__keeps_what_is_predicted_to_be_fast(pruner):
    triton = pytest.importorskip("triton")
    configs = configs_of(triton.Config)

    def kernel(a):
        pass

    tuner = triton.runtime.autotuner.Autotuner(
        triton.jit(kernel), ["a", "M", "N", "K"], configs, ["M", "N", "K"], None, None,
        prune_configs_by=pruner.prune_configs_by(top_k=3),
    )  # fmt: skip
    tuner.nargs = dict(ARGUMENTS)
    assert tuner.prune_configs({}) == pruner.best(configs, ARGUMENTS, 3)

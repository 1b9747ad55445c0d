"""`sweep.choices`: the best of very many groups as arrays, beside the rows of `sweep.best`."""

import numpy as np
import pytest

import sweep

AXES = {
    "m": [1, 64, 1000], "n": [128, 4096], "k": [64, 8192],
    "BLOCK_M": [16, 128], "BLOCK_N": [64, 256], "BLOCK_K": [32, 128], "GROUP_M": [1, 8],
    "num_warps": [4, 8], "num_stages": [3, 5],
}  # fmt: skip


def plan(**more):
    return sweep.Plan(["triton_matmul"], ["a100_80gb", "rtx_4090"], ["combined"], axes=AXES, **more)


@pytest.fixture(scope="module")
def results():
    return sweep.evaluate(plan())


@pytest.mark.parametrize("by", [("m", "n", "k", "device"), ("k", "m"), ("BLOCK_M", "num_stages")])
def test_choices__are_the_rows_of_best(results, by):
    found = sweep.choices(results, by=by)
    rows = sweep.best(results, by=by).rows
    assert found.execution_time.dims == tuple(by)
    assert found.execution_time.size == len(rows)
    for row in rows:
        one = found.sel({name: row[name] for name in by})
        for name in ("BLOCK_N", "BLOCK_K", "num_warps", "execution_time", "core_clock"):
            assert one[name].item() == row[name]


def test_choices__of_a_plan_and_its_results_are_the_same(results):
    by = ("m", "n", "k", "device")
    assert sweep.choices(plan(), by=by).identical(sweep.choices(results, by=by))


def test_choices__groups_without_a_valid_configuration():
    # Tiles of 256 x 256 do not fit with 5 stages of 128 elements, whatever the product.
    axes = AXES | {"BLOCK_M": [64, 256], "BLOCK_N": [256], "BLOCK_K": [128], "num_stages": [5]}
    found = sweep.choices(
        sweep.Plan(["triton_matmul"], ["a100_80gb"], ["combined"], axes=axes), by=["BLOCK_M", "m"]
    )
    assert np.isnan(found.execution_time).all()
    assert np.isnan(found.num_warps).all() and (found.device == "").all()


@pytest.mark.parametrize(("options", "message"), [
    ({"by": []}, r"choices: by = \[\]: dimensions, one of"),
    ({"by": ["kernel"]}, r"by = \['kernel'\]: dimensions"),
    ({"by": ["block"]}, "is no dimension"),
])  # fmt: skip
def test_choices__refuses(results, options, message):
    with pytest.raises(sweep.QueryError, match=message):
        sweep.choices(results, **options)


def test_choices__one_kernel_at_a_time():
    two = sweep.Plan(["transpose", "vector_add"], ["a100_80gb"], ["combined"])
    with pytest.raises(sweep.QueryError, match="one kernel at a time: select kernel=NAME, one of"):
        sweep.choices(two, by=["device"])
    assert sweep.choices(two, by=["device"], select={"kernel": "transpose"}).sizes == {"device": 1}

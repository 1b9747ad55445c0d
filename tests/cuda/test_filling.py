"""Variants that were not compiled: the nearest one's numbers, in proportion to the formulas."""

import dataclasses

import numpy as np
import pytest
from support.launches import space_of

from sweep.cuda.filling import Filling
from sweep.cuda.variants import variants_of

KERNEL = """schema = 1
name = "sums"
[source]
default = "assumed: for tests"
[sizes]
n = 65536
[parameters]
tile = [1, 2, 4, 32]
word = ["float", "double"]
block_size = [64, 128]
[derived]
wide = "tile * 2 if word == 'double' else tile"
[launch]
threads_per_block = "block_size"
blocks = "n / block_size"
[resources]
registers_per_thread = "12 + 8 * wide"
shared_memory_bytes = "4 * block_size"
[instructions]
fp32 = "wide * n / 64"
integer = "tile * registers_per_sm / 65536"
control = "tile - 1"
"""
FOUND = {"registers": 30, "spill_load_bytes": 8, "shared_bytes": 512, "fp32": 1100.0,
         "integer": 60.0, "move": 7.0, "control": 5.0, "barriers": 3.0}  # fmt: skip


@pytest.fixture(scope="module")
def variants():
    return variants_of("tile word", space_of("sums", "rtx_3090", text=KERNEL))


def number_of(variants, **macros):
    return next(i for i in range(len(variants)) if variants[i] == macros)


def test_counts_grow_as_the_formulas_do(variants):
    near, far = (number_of(variants, tile=t, word=w) for t, w in ((1, "float"), (2, "double")))
    found = Filling(variants, "8.6").numbers(far, near, FOUND)
    assert found["fp32"] == 4 * 1100  # wide is 4, not 1
    assert found["integer"] == 2 * 60
    assert found["registers"] == round(30 * 44 / 20)
    # No formula, one that no macro decides, and one that is 0 for the compiled variant.
    for column in ("move", "barriers", "spill_load_bytes", "shared_bytes", "control"):
        assert found[column] == FOUND[column]
    back = Filling(variants, "8.6").numbers(near, far, found)
    assert (back["fp32"], back["integer"], back["control"]) == (1100, 60, 0)
    assert Filling(variants, "8.6").numbers(near, near, FOUND) == FOUND


def test_registers_are_whole_and_no_more_than_a_thread_may_have(variants):
    near, far = (number_of(variants, tile=t, word="float") for t in (4, 32))
    assert Filling(variants, "8.6").numbers(far, near, {"registers": 100})["registers"] == 255
    assert Filling(variants, "8.6").numbers(near, far, {"registers": 1})["registers"] == 1


@pytest.mark.parametrize("target", ["7.0", "gfx90a"])
def test_formulas_of_a_device_need_one_of_the_target(variants, target):
    near, far = (number_of(variants, tile=t, word="float") for t in (1, 4))
    found = Filling(variants, target).numbers(far, near, FOUND)
    assert found["fp32"] == 4 * 1100 and found["integer"] == FOUND["integer"]


def test_the_order_of_variants_does_not_matter(variants):
    near = number_of(variants, tile=2, word="float")
    turned = dataclasses.replace(variants, rows=variants.rows[::-1])
    last = len(variants) - 1
    for number in range(len(variants)):
        one = Filling(variants, "8.6").numbers(number, near, FOUND)
        assert one == Filling(turned, "8.6").numbers(last - number, last - near, FOUND)
    assert np.array_equal(turned.rows[last - near], variants.rows[near])

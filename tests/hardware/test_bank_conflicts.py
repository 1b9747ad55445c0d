"""Bank conflicts of given addresses: the paper's cases, and counting by hand."""

import numpy as np
import pytest
from support.warps import affine_bank_conflicts, simulate_bank_conflicts

from sweep.hardware.affine_accesses import Affine
from sweep.hardware.memory_rules import bank_conflict_degree

LANES = np.arange(32)


def passes(addresses, word_bytes=4, rule="warp"):
    """Return the passes of a warp of one request."""
    found, requests = simulate_bank_conflicts(addresses, word_bytes, rule)
    assert np.all(requests == 1)
    return found


@pytest.mark.parametrize("banks", [16, 32])
def test_gcd_rule(banks):
    # As many lanes as banks: gcd(s, B) (Zhang & Owens, Section 4.2).
    strides, rule = np.arange(1, 130), {16: "half_warp", 32: "warp"}[banks]
    degree = passes(4 * strides[:, None] * np.arange(banks), rule=rule)
    np.testing.assert_array_equal(degree, np.gcd(strides, banks))
    np.testing.assert_array_equal(degree, bank_conflict_degree(strides, banks, banks))
    of_block = affine_bank_conflicts(Affine(0, strides, 0, 0, 64, 1, 64), 4, rule)
    np.testing.assert_array_equal(of_block, degree)


def test_broadcast_and_three_threads_in_a_bank():
    assert passes(np.zeros(32, int)) == passes(4 * (LANES // 8)) == 1
    assert passes(128 * (LANES // 16)) == 2
    assert passes(LANES, 1) == passes(2 * LANES, 2) == 1  # four and two lanes in each word
    # Section 4.2: "if 3 threads read from different locations in the same bank".
    assert passes([0, 64, 128, *range(4, 56, 4)], rule="half_warp") == 3


# The examples of the CUDA C Programming Guide for words of 8 and 16 bytes


@pytest.mark.parametrize(("word_bytes", "expected"), [
    # (passes, requests) of half_warp, wide_bank, warp
    (4, [(2, 2), (1, 1), (1, 1)]),
    (8, [(4, 2), (1, 1), (2, 2)]),  # 1.x: two-way conflicts; 3.x: one word a bank
    (16, [(8, 2), (2, 2), (4, 4)]),
])  # fmt: skip
def test_consecutive_words(word_bytes, expected):
    rules = ["half_warp", "wide_bank", "warp"]
    addresses = np.broadcast_to(word_bytes * LANES, (3, 32))
    passes, requests = simulate_bank_conflicts(addresses, word_bytes, rules)
    assert list(zip(passes, requests, strict=True)) == expected


@pytest.mark.parametrize(("word_bytes", "of_lanes", "expected"), [
    # Lanes that share a word side by side, in eights, or far apart.
    (8, LANES // 2, 1), (16, LANES // 2, 2), (8, LANES // 8, 1), (16, LANES // 8, 2),
    (16, 0 * LANES, 2), (8, LANES % 16, 2), (16, LANES % 8, 4),
    (8, LANES % 2, 1),  # 0 1 0 1: each wants what the one after its neighbour does
    (8, LANES // 8 * 16, 4),  # merged, but four words in each bank
])  # fmt: skip
def test_wide_words__requests_merge_where_neighbours_share(word_bytes, of_lanes, expected):
    passes, _ = simulate_bank_conflicts(word_bytes * of_lanes, word_bytes, "merging")
    assert passes == expected
    apart, _ = simulate_bank_conflicts(word_bytes * of_lanes, word_bytes, "warp")
    assert apart >= passes


def test_wide_words__stride():
    # Every second word of 8 bytes: two lanes of a half-warp in each bank, on 3.x two of a warp.
    addresses = 16 * LANES
    assert simulate_bank_conflicts(addresses, 8, "warp") == (4, 2)
    assert simulate_bank_conflicts(addresses, 8, "wide_bank") == (2, 1)
    # Words of 4 bytes see the banks of 3.x in the mode of 4 bytes.
    assert simulate_bank_conflicts(8 * LANES, 4, "wide_bank") == (2, 1)

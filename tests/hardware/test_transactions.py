"""Transactions of a warp's access against the programming guide, and bank conflicts."""

from collections import Counter

import numpy as np
import pytest
from support.warps import transactions_of_addresses

from sweep.errors import SpecError
from sweep.hardware import affine_accesses as affine
from sweep.hardware.affine_accesses import PATTERNS, access_transactions
from sweep.hardware.memory_rules import (
    PATHS,
    RULES,
    WORD_BYTES,
    bank_conflict_degree,
    bank_rule_of,
    cache_rule_of,
    is_cached,
    rule_of,
)

LANES = np.arange(32)
EXCHANGED = LANES + np.isin(LANES, (5, 21)) - np.isin(LANES, (6, 22))


RULE_OF = {  # of global memory, and of the banks of shared memory
    **dict.fromkeys(("1.0", "1.1"), ("strict", "half_warp")),
    **dict.fromkeys(("1.2", "1.3"), ("segment", "half_warp")),
    **dict.fromkeys(("2.0", "2.1"), ("line", "warp")),
    **dict.fromkeys(("3.0", "3.7"), ("sector", "wide_bank")),
    **dict.fromkeys(("5.2", "9.0", "10.3", "12.1"), ("sector", "merging")),
    "": ("line64", "warp"),  # AMD
}


def test_rules__of_a_capability():
    assert {c: (rule_of(c), bank_rule_of(c)) for c in RULE_OF} == RULE_OF
    # Loads from global memory that L1 serves never merge.
    assert bank_rule_of("7.5", local=False) == bank_rule_of("2.1", local=False) == "warp"
    for wrong in (" ", "5", "sm_52", "0.9", "5.2a", "-1.0", "1.0\n"):
        for function in (rule_of, bank_rule_of, cache_rule_of):
            with pytest.raises(SpecError, match="no compute capability"):
                function(wrong)


@pytest.mark.parametrize(("target", "line_bytes"), [  # cache_line_size in AMD's Linux driver
    ("", 64), ("gfx906", 64), ("gfx908", 64), ("gfx90a", 64), ("gfx942", 128), ("gfx1032", 128),
    ("gfx1100", 128),
])  # fmt: skip
def test_rules__lines_of_amd(target, line_bytes):
    rule = rule_of(target)
    assert transactions_of_addresses(line_bytes * LANES, 4, rule) == (32, 32 * line_bytes)
    assert transactions_of_addresses(line_bytes // 2 * LANES, 4, rule) == (16, 16 * line_bytes)


KEPT = {  # what first-level caches keep: NVIDIA's tuning guides of Kepler, Maxwell and Pascal
    **dict.fromkeys(("1.0", "1.3"), ("banks", set())),
    "2.0": ("line", {"global", "read_only", "local"}),
    "3.0": ("line", {"local"}),
    "3.5": ("line", {"read_only", "local"}),
    "5.2": ("texture", {"read_only"}),
    "6.0": ("texture", {"global", "read_only", "local"}),
    "6.1": ("texture", {"read_only", "local"}),
    **dict.fromkeys(("7.0", "8.6", "12.0", ""), ("banks", {"global", "read_only", "local"})),
}


@pytest.mark.parametrize("capability", KEPT)
def test_first_level_cache__of_a_capability(capability):
    kept = {path for path in PATHS if is_cached(capability, path)}
    assert ("global" in kept) == ("host" in kept) and "texture" in kept
    assert (cache_rule_of(capability), kept - {"host", "texture"}) == KEPT[capability]


@pytest.mark.parametrize(("word_bytes", "requests"), [(1, 4), (4, 4), (8, 8), (16, 16)])
def test_texture__requests_of_a_warp_whatever_its_words(word_bytes, requests):
    """8, 4 or 2 threads in a request (G. Smith of NVIDIA on Maxwell's and Pascal's L1)."""
    for step in (0, word_bytes, 2 * word_bytes):
        assert transactions_of_addresses(step * LANES, word_bytes, "texture")[0] == requests
    # Of lanes in lines of their own, four pass at a time.
    apart = transactions_of_addresses(128 * LANES, word_bytes, "texture")[0]
    assert apart == {4: 8, 8: 8, 16: 16}[requests]


# CUDA C Programming Guide, "Examples of Global Memory Accesses by a Warp, 4-Byte Word per Thread"


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        # aligned and sequential
        (128 + 4 * LANES, [(2, 128), (2, 128), (1, 128), (4, 128), (2, 128), (4, 128), (1, 128)]),
        # aligned and non-sequential: in each half-warp two lanes exchange their words
        (
            128 + 4 * EXCHANGED,
            [(32, 1024), (2, 128), (1, 128), (4, 128), (2, 128), (4, 128), (1, 128)],
        ),
        # misaligned and sequential: 128 B at 128, 64 B at 192 and 32 B at 256 on 1.2 and 1.3
        (132 + 4 * LANES, [(32, 1024), (3, 224), (2, 256), (5, 160), (3, 192), (4, 128), (2, 256)]),
    ],
    ids=["aligned", "non-sequential", "misaligned"],
)
def test_addresses__programming_guide_figure(addresses, expected):
    assert [transactions_of_addresses(addresses, 4, rule) for rule in RULES] == expected


@pytest.mark.parametrize(
    ("word_bytes", "expected"),
    [(1, [(32, 1024), (2, 64), (1, 128), (1, 32), (1, 64), (4, 128), (1, 128)]),
     (2, [(32, 1024), (2, 64), (1, 128), (2, 64), (1, 64), (4, 128), (1, 128)]),
     (4, [(2, 128), (2, 128), (1, 128), (4, 128), (2, 128), (4, 128), (1, 128)]),
     (8, [(2, 256), (2, 256), (2, 256), (8, 256), (4, 256), (8, 256), (2, 256)]),
     (16, [(4, 512), (4, 512), (4, 512), (16, 512), (8, 512), (16, 512), (4, 512)])],
)  # fmt: skip
def test_addresses__consecutive_words(word_bytes, expected):
    addresses = 1024 + word_bytes * LANES
    assert [transactions_of_addresses(addresses, word_bytes, r) for r in RULES] == expected


def test_addresses__strict_rule_leaves_gaps_for_inactive_lanes():
    addresses = 4 * LANES
    active = LANES % 3 == 0
    assert transactions_of_addresses(addresses, 4, "strict", active) == (2, 128)
    assert transactions_of_addresses(addresses, 4, "strict", LANES == 0) == (1, 64)
    assert transactions_of_addresses(addresses[active], 4, "strict")[0] == active.sum()
    for rule in RULES:
        assert transactions_of_addresses(addresses, 4, rule, LANES < 0) == (0, 0)


def test_addresses__segments_halve_from_either_side_and_wide_words_of_2_x_are_parts():
    # Zhang & Owens, Section 4.3, step 3: 128 -> 64 -> 32 while one half holds all.
    for start, size in [(0, 32), (32, 32), (64, 32), (96, 32), (16, 64), (80, 64), (48, 128)]:
        addresses = start + 4 * np.arange(8)
        assert transactions_of_addresses(addresses, 4, "segment") == (1, size)
    # 2-byte words have segments of 64 bytes, single bytes of 32.
    assert transactions_of_addresses(48 + 2 * np.arange(16), 2, "segment") == (2, 64)
    assert transactions_of_addresses(24 + np.arange(16), 1, "segment") == (2, 64)
    same = np.zeros(32, dtype=int)
    assert [transactions_of_addresses(same, w, "line")[0] for w in WORD_BYTES] == [1, 1, 1, 2, 4]
    assert [transactions_of_addresses(same, w, "sector")[0] for w in WORD_BYTES] == [1] * 5


def cost(pattern, word_bytes=4, stride=None, lanes=32):
    """Return transactions per warp under all rules, and the sectors."""
    transactions, _, sectors = access_transactions(pattern, word_bytes, stride, lanes, RULES)
    return transactions.tolist(), sectors.tolist()[0]


def test_patterns__of_4_byte_words():
    assert cost("coalesced") == ([2, 2, 1, 4, 2, 4, 1], 4)
    assert cost("uncoalesced") == ([32, 32, 32, 32, 32, 8, 32], 32)
    assert cost("broadcast") == ([32, 2, 1, 1, 1, 4, 1], 1)
    assert cost("strided", stride=0) == cost("broadcast")
    assert cost("strided", stride=1) == cost("coalesced")
    assert cost("strided", stride=2) == ([32, 2, 2, 8, 4, 4, 2], 8)
    assert cost("strided", stride=8) == ([32, 8, 8, 32, 16, 4, 8], 32)
    assert cost("strided", stride=32) == cost("uncoalesced")
    assert cost("strided", stride=10**9) == cost("uncoalesced")
    assert cost("coalesced", lanes=0) == ([0] * 7, 0)


def test_patterns__misaligned_is_the_mean_over_starts_off_a_half_warps_boundary():
    transactions, sectors = cost("misaligned")
    # 30 starts: two of them (32 and 96 bytes) at a sector's border.
    assert sectors == pytest.approx((2 * 4 + 28 * 5) / 30)
    assert transactions == pytest.approx([32, 3, 2, sectors, 3, 4, 2])
    each = [transactions_of_addresses(s + 4 * LANES, 4, "segment") for s in range(4, 128, 4)]
    moved = access_transactions("misaligned", 4, None, 32, "segment")[1]
    assert moved == pytest.approx(np.mean([size for i, (_, size) in enumerate(each) if i != 15]))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns__every_element_is_its_own_simulation(pattern):
    words = np.array(WORD_BYTES).reshape(-1, 1, 1, 1)
    strides = np.array([0, 1, 3, 16, 40]).reshape(-1, 1, 1)
    lanes = np.array([1, 5, 17, 32]).reshape(-1, 1)
    together = access_transactions(pattern, words, strides, lanes, RULES)
    shape = (5, 5 if pattern == "strided" else 1, 4, len(RULES))
    assert all(part.shape == shape and part.dtype == np.float64 for part in together)
    for i in np.ndindex(shape):
        word, stride, lane = words.flat[i[0]], strides.flat[i[1]], lanes.flat[i[2]]
        step = {"broadcast": 0, "uncoalesced": 128, "strided": stride * word}.get(pattern, word)
        if pattern == "misaligned":
            single = access_transactions(pattern, word, None, lane, RULES[i[3]])
            assert [part[i] for part in together] == [part.item() for part in single]
        else:
            addresses = step * np.arange(lane)
            count, moved = transactions_of_addresses(addresses, word, RULES[i[3]])
            sectors, _ = transactions_of_addresses(addresses, word, "sector")
            assert [part[i] for part in together] == [count, moved, sectors]


@pytest.mark.parametrize(
    ("word_bytes", "stride", "lanes"),
    [(3, 1, 32), (12, 1, 32), (0, 1, 32), (4, -1, 32), (4, 1.5, 32), (4, 1, -1), (4, 1, 2.5),
     (4, 1, 65), (np.nan, 1, 32), (4, np.nan, 32), (4, 1, np.nan), (4, 1, np.inf)],
)  # fmt: skip
def test_patterns__nan_where_there_is_no_such_access(word_bytes, stride, lanes):
    for part in access_transactions("strided", [4, word_bytes], [1, stride], [32, lanes], "line"):
        assert np.isfinite(part[0]) and np.isnan(part[1])


def test_patterns__unknown_names():
    with pytest.raises(SpecError, match="unknown access pattern 'coalesce'.* mean 'coalesced'"):
        access_transactions("coalesce", 4, None, 32, "sector")
    with pytest.raises(SpecError, match="unknown transaction rule 'lines'"):
        access_transactions("coalesced", 4, None, 32, ["sector", "lines"])


def test_patterns__simulate_each_combination_once(monkeypatch):
    simulated = Counter()
    genuine = affine.warp_transactions

    def counted(addresses, active, word_bytes, code):
        simulated.update(zip(word_bytes.tolist(), code.tolist(), strict=True))
        return genuine(addresses, active, word_bytes, code)

    monkeypatch.setattr(affine, "warp_transactions", counted)
    strides = np.arange(100_000)
    transactions, _, _ = access_transactions("strided", [[4], [8]], strides, 32, "line")
    assert transactions.shape == (2, 100_000)
    assert simulated == {(4, RULES.index("line")): 33, (8, RULES.index("line")): 17}


@pytest.mark.parametrize("banks", [16, 17, 32])  # 17, a prime number, avoids conflicts
@pytest.mark.parametrize("lanes", [1, 7, 16, 32])
def test_bank_conflict_degree__counted(banks, lanes):
    for stride in range(1, 130):
        per_bank = Counter(i * stride % banks for i in range(lanes))
        assert bank_conflict_degree(stride, banks, lanes) == max(per_bank.values())


def test_bank_conflict_degree__broadcast_no_lanes_and_undefined_numbers():
    assert bank_conflict_degree(0, 32, 32) == 1
    assert bank_conflict_degree([0, 1, 2], 32, 0).tolist() == [0, 0, 0]
    stride, banks, lanes = [-1, 1.5, 1, 1, np.nan, np.inf], [32, 32, 0, 32, 32, 32], [32] * 6
    lanes[3] = -1
    assert np.isnan(bank_conflict_degree(stride, banks, lanes)).all()

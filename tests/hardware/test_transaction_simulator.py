"""Random addresses against the rules written down a second time, with sets, one warp at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.warps import affine_bank_conflicts, simulate_bank_conflicts, simulate_transactions

from sweep.errors import SpecError
from sweep.hardware import warp_simulation
from sweep.hardware.affine_accesses import Affine, affine_bank_passes, affine_transactions
from sweep.hardware.memory_rules import BANK_RULES, RULES, WORD_BYTES
from sweep.hardware.warp_simulation import PATIENCE, Rows, combinations, rows_of


def half_warps(lanes):
    """Yield lists of (lane within the half-warp, first byte) of the lanes that take part."""
    for start in range(0, len(lanes), 16):
        part = enumerate(lanes[start : start + 16])
        yield [(i, first) for i, first in part if first is not None]


def touched(firsts, word_bytes, size):
    """Return the aligned blocks of some size that words touch."""
    return {byte // size for first in firsts for byte in range(first, first + word_bytes)}


def strict(lanes, word_bytes):
    """Serve half-warps as 1.0 and 1.1 do; return the sizes of the transactions."""
    sizes = []
    for part in half_warps(lanes):
        in_sequence = {4: [64], 8: [128], 16: [128, 128]}.get(word_bytes)
        begins = {first - word_bytes * i for i, first in part}  # one, if the words are consecutive
        is_possible = in_sequence and len(begins) == 1 and min(begins) % in_sequence[0] == 0
        sizes += in_sequence if is_possible else [32] * len(part)
    return sizes


def segment(lanes, word_bytes):
    """Follow the four steps of Zhang & Owens, Section 4.3, with sets of bytes."""
    sizes = []
    for part in half_warps(lanes):
        requested = dict(part)
        while requested:
            size = {1: 32, 2: 64}.get(word_bytes, 128)
            lowest = requested[min(requested)]  # (1) of the lowest numbered thread
            whole = range(lowest // size * size, lowest // size * size + size)
            served = {i for i, first in requested.items() if first in whole}  # (2)
            wanted = {requested[i] + b for i in served for b in range(word_bytes)}
            fitting = [whole]
            while fitting and len(whole) > 32:  # (3)
                half = len(whole) // 2
                fitting = [h for h in (whole[:half], whole[half:]) if wanted <= set(h)]
                whole = fitting[0] if fitting else whole
            sizes.append(len(whole))
            requested = {i: first for i, first in requested.items() if i not in served}  # (4)
    return sizes


def line(lanes, word_bytes):
    """Serve what a warp requests at once by lines of 128 bytes."""
    at_once = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[word_bytes]
    parts = [lanes[start : start + at_once] for start in range(0, len(lanes), at_once)]
    return [size for part in parts for size in blocks_of(128)(part, word_bytes)]


def blocks_of(size):
    def rule(lanes, word_bytes):
        firsts = [first for first in lanes if first is not None]
        return [size] * len(touched(firsts, word_bytes, size))

    return rule


def texture(lanes, word_bytes):
    """Serve requests of 32 bytes, each of which looks up four lines of 128 bytes at a time."""
    at_once = {1: 8, 2: 8, 4: 8, 8: 4, 16: 2}[word_bytes]
    parts = [lanes[start : start + at_once] for start in range(0, len(lanes), at_once)]
    lines = [len(blocks_of(128)(part, word_bytes)) for part in parts]
    return [32 for n in lines for _ in range(0, n, 4)]


BY_RULE = (strict, segment, line, blocks_of(32), blocks_of(64), texture, blocks_of(128))
SIZES = dict(zip(RULES, BY_RULE, strict=True))


def brute(lanes, word_bytes, rule):
    """Return transactions, bytes and sectors."""
    sizes = SIZES[rule](lanes, word_bytes)
    return len(sizes), sum(sizes), len(blocks_of(32)(lanes, word_bytes))


def in_pairs(lanes, distance):
    """Return whether lanes of that distance want the same word, or one of them none."""
    firsts = [i for i in range(len(lanes) - distance) if i // distance % 2 == 0]
    pairs = [(lanes[i], lanes[i + distance]) for i in firsts]
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def brute_banks(lanes, word_bytes, rule):
    """Return passes and requests of a warp's access to shared memory."""
    banks, width, together = {
        "half_warp": (16, 4, 16),
        "wide_bank": {8: (32, 8, 32), 16: (32, 8, 16)}.get(word_bytes, (32, 4, 32)),
        "warp": {8: (32, 4, 16), 16: (32, 4, 8)}.get(word_bytes, (32, 4, 32)),
        "constant": (1, word_bytes, max(1, len(lanes))),
    }["warp" if rule == "merging" else rule]
    if rule == "merging" and word_bytes > 4 and (in_pairs(lanes, 1) or in_pairs(lanes, 2)):
        together *= 2
    degrees = []
    for start in range(0, len(lanes), together):
        firsts = [first for first in lanes[start : start + together] if first is not None]
        words = touched(firsts, word_bytes, width)
        if words:
            degrees.append(max(sum(w % banks == bank for w in words) for bank in range(banks)))
    return sum(degrees), len(degrees)


@st.composite
def warps(draw):
    """Return (word size, first bytes of the lanes, None for inactive ones), of several kinds."""
    word_bytes = draw(st.sampled_from(WORD_BYTES))
    lanes = draw(st.sampled_from([1, 5, 16, 17, 32, 64]))
    kind = draw(st.sampled_from(["random", "near", "sequence", "affine"]))
    span = {"random": 10_000, "near": 24, "sequence": 64, "affine": 64}[kind]
    start = draw(st.integers(0, span))
    if kind in ("random", "near"):
        words = draw(st.lists(st.integers(0, span), min_size=lanes, max_size=lanes))
    else:
        step = 1 if kind == "sequence" else draw(st.integers(-40, 40))
        words = [start + step * i for i in range(lanes)]
    skewed = draw(st.sampled_from([0, 0, 0, 0, 1, 3]))
    active = draw(st.lists(st.sampled_from([True] * 7 + [False]), min_size=lanes, max_size=lanes))
    firsts = [word_bytes * w + skewed for w in words]
    return word_bytes, [f if on else None for f, on in zip(firsts, active, strict=True)]


def arrays(lanes):
    """Return addresses and which lanes take part; what an inactive lane holds is of no account."""
    active = np.array([first is not None for first in lanes])
    return np.array([-(10**9) - 7 if first is None else first for first in lanes]), active


@given(warps())
def test_brute_force__global_memory(warp):
    word_bytes, lanes = warp
    addresses, active = arrays(lanes)
    is_aligned = all(first is None or first % word_bytes == 0 for first in lanes)
    for rule in RULES if is_aligned else RULES[2:]:  # 1.x has no words off their own borders
        cost = simulate_transactions(addresses, word_bytes, rule, active)
        assert tuple(map(int, cost)) == brute(lanes, word_bytes, rule)


@given(warps())
def test_brute_force__shared_memory(warp):
    word_bytes, lanes = warp
    addresses, active = arrays(lanes)
    for rule in BANK_RULES:
        found = simulate_bank_conflicts(addresses, word_bytes, rule, active)
        assert tuple(map(int, found)) == brute_banks(lanes, word_bytes, rule)


def random_rows(n, seed, kind):
    """Return rows for the functions of one warp."""
    generator = np.random.default_rng(seed)
    words = generator.choice(WORD_BYTES, n)
    addresses = words[:, None] * generator.integers(0, 200, (n, 32))
    active = generator.random((n, 32)) < 0.8
    if kind == "one_warp_in_banks":
        banks = generator.choice([16, 17, 32], n)
        layout = (banks, generator.choice([4, 8], n), generator.choice([8, 16, 32], n))
        return rows_of(addresses, active, 1, words, *layout)
    return rows_of(addresses, active, 128, words, generator.integers(0, len(RULES), n))


@pytest.mark.parametrize("kind", ["one_warp", "one_warp_in_banks"])
def test_rows__compiled_and_interpreted_agree(kind):
    function = getattr(warp_simulation, kind)
    table = Rows(function)
    few = random_rows(300, 1, kind)
    many = np.concatenate([few, random_rows(PATIENCE + 1, 2, kind)])
    interpreted, compiled = table(few), table(many)
    assert table.interpreted.cache_info().misses == 300  # the others were compiled
    np.testing.assert_array_equal(compiled[:300], interpreted)
    for i in range(len(many) - 200, len(many)):
        assert tuple(compiled[i]) == function(many[i].tolist())


def test_rows__each_distinct_warp_once():
    seen = []

    def function(row):
        seen.append(tuple(row[-2:]))
        return len(seen), 0, 0

    table = Rows(function)
    addresses = np.array([[0, 4], [1280, 1284], [4, 0], [128, 132]])
    rows = rows_of(addresses, addresses >= 0, 128, 4)
    np.testing.assert_array_equal(table(rows)[[0, 1, 3]], table(rows)[[3, 0, 1]])
    assert sorted(seen) == [(0, 4), (4, 0)]
    assert len(table(rows[:0])) == 0


def test_combinations__are_those_that_occur():
    one, two = np.array([[3.0], [1.0], [3.0]]), np.array([0.5, 0.5, 7.0, np.nan])
    table, place = combinations(one, two, 4)
    assert table.shape == (6, 3) and place.shape == (3, 4)
    expected = np.stack(np.broadcast_arrays(one, two, 4.0), axis=-1)
    np.testing.assert_array_equal(table[place], expected)


def test_addresses__without_active_lanes():
    for rule in BANK_RULES:
        assert simulate_bank_conflicts([0, 4], 4, rule, [False, False]) == (0, 0)


def threads_of(width, height, threads):
    """Yield the place of each thread in its block, in the order of warps."""
    for number in range(threads):
        yield number % width, number // width % height, number // (width * height)


def warps_of(affine, word_bytes):
    """Yield the addresses of each warp of a block."""
    firsts = [
        word_bytes * (affine.base + affine.x * i + affine.y * j + affine.z * k)
        for i, j, k in threads_of(affine.block_x, affine.block_y, affine.threads)
    ]
    for start in range(0, len(firsts), affine.warp_size):
        yield firsts[start : start + affine.warp_size]


# Near and far, and what lies about where rows of threads just do, or do not, share a line.
STRIDES = st.one_of(
    st.integers(-40, 200),
    st.builds(lambda n, more: 32 * n + more, st.integers(-400, 400), st.integers(-2, 2)),
)
AFFINE = st.builds(
    lambda base, x, y, z, width, height, depth, warp_size: Affine(
        base, x, y, z, width, height, width * height * depth, warp_size
    ),
    *[STRIDES] * 4,
    *(st.integers(1, n) for n in (40, 6, 2)),
    st.sampled_from([32, 32, 64]),
)


@given(AFFINE, st.sampled_from(WORD_BYTES))
def test_affine__is_the_mean_over_the_warps_of_a_block(affine, word_bytes):
    for rule in RULES:
        each = [brute(warp, word_bytes, rule) for warp in warps_of(affine, word_bytes)]
        mean = [sum(part) / len(each) for part in np.transpose(each)]
        assert list(map(float, affine_transactions(affine, word_bytes, rule))) == mean
    for rule in BANK_RULES:
        each = [brute_banks(warp, word_bytes, rule) for warp in warps_of(affine, word_bytes)]
        mean = [sum(part) / len(each) for part in np.transpose(each)]
        assert list(map(float, affine_bank_passes(affine, word_bytes, rule))) == mean
        assert affine_bank_conflicts(affine, word_bytes, rule) == np.divide(*mean)


def test_affine__known_cases():
    def cost(rule, **changed):
        affine = Affine(0, 1, 1024, 0, 32, 8, 256)._replace(**changed)
        return [float(part) for part in affine_transactions(affine, 4, rule)]

    assert cost("strict") == cost("segment") == [2, 128, 4]
    # Rows of 16 still fill half-warps, rows of 8 do not.
    assert cost("strict", block_x=16, block_y=16) == [2, 128, 4]
    assert cost("strict", block_x=8, block_y=32) == [32, 1024, 4]
    assert cost("segment", block_x=8, block_y=32) == [4, 128, 4]
    # Down a column of a matrix; in the order of its rows; backwards; beginning off the border.
    assert cost("sector", x=1024, y=1) == [32, 1024, 32]
    assert cost("sector", x=1, y=32) == cost("sector", base=31, x=-1, y=32) == [4, 128, 4]
    assert cost("sector", base=1) == [5, 160, 5]
    assert cost("sector", base=8) == [4, 128, 4]
    # A block of one and a half warps has 2 + 1 transactions in two warps.
    assert cost("segment", threads=48, block_x=48, block_y=1)[0] == 1.5


@pytest.mark.parametrize(
    "changed",
    [{"x": 0.5}, {"y": np.nan}, {"base": np.inf}, {"z": 2.0**60}, {"block_x": 0}, {"block_y": -1},
     {"block_x": 24}, {"block_y": 1.5}, {"threads": 32.5}, {"threads": -32}, {"warp_size": 0}],
)  # fmt: skip
def test_affine__nan_where_there_is_no_such_access(changed):
    good = Affine(0, 1, 32, 0, 32, 2, 64)
    affine = Affine(*np.transpose([good, good._replace(**changed)]).astype(float))
    for part in (*affine_transactions(affine, 4, "line"), affine_bank_conflicts(affine, 4, "warp")):
        assert np.isfinite(part[0]) and np.isnan(part[1])
    for part in affine_transactions(good, [4, 3], "line"):
        assert np.isfinite(part[0]) and np.isnan(part[1])


def test_affine__unknown_rule():
    affine = Affine(0, 1, 0, 0, 32, 1, 32)
    for function, kind in ((affine_transactions, "transaction"), (affine_bank_passes, "bank")):
        with pytest.raises(SpecError, match=f"unknown {kind} rule 'wrap': allowed are"):
            function(affine, 4, "wrap")


def test_affine__no_threads_and_absurdly_many():
    affine = Affine(0, 1, 0, 0, 1, 1, np.array([0.0, 1e12]))
    found = affine_transactions(affine, 4, "sector")
    assert [part.tolist() for part in found] == [[0, 1], [0, 32], [0, 1]]
    assert affine_bank_conflicts(affine, 4, "warp").tolist() == [0, 1]

"""Words that a warp reads or writes one by one: which of its accesses find their sectors."""

from collections import Counter

import pytest
from support.ptx_texts import file_of, kernel, value

START = """
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd9, [q];
    mov.u32 %r8, %tid.x;
    mov.u32 %r9, %ctaid.x;
    mad.lo.u32 %r1, %r9, 64, %r8;
    mul.wide.u32 %rd2, %r1, {stride};
    add.s64 %rd3, %rd1, %rd2;
    add.s64 %rd4, %rd9, %rd2;
"""
LOAD, STORE = "ld.global.f32 %f1, [{}];\n", "st.global.f32 [{}], %f1;\n"
FOUR = ("%rd3", "%rd3+4", "%rd3+8", "%rd3+12")
WIDE = "ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd4+{}];\n"  # 16 bytes of each thread


def hits(stride, body, block):
    """Return the share of each access's sectors that is there, in the order of the text."""
    stages = kernel(f"{START.format(stride=stride)}{body} ret;", block=block).stages
    found = ((line, s.hits) for stage in stages for s, at in stage.lines.items() for line in at)
    return [share for _, share in sorted(found)]


@pytest.mark.parametrize(("stride", "body", "expected"), [
    (16, "".join(map(LOAD.format, FOUR)), [0, 1, 1, 1]),
    (16, "".join(map(STORE.format, FOUR)), [0, 1, 1, 1]),
    (12, "".join(map(LOAD.format, FOUR[:3])), [0, 1, 1]),
    (4, "".join(map(LOAD.format, ("%rd3", "%rd3+4", "%rd3+-4"))), [0, 4 / 5, 4 / 5]),
    # The same sum in another order, as Triton writes it.
    (16, LOAD.format("%rd3") + "shl.b32 %r2, %r1, 2; or.b32 %r3, %r2, 1; cvt.u64.u32 %rd5, %r3;"
     "shl.b64 %rd6, %rd5, 2; add.s64 %rd7, %rd6, %rd1;" + LOAD.format("%rd7"), [0, 1]),
    (16, LOAD.format("%rd3") + "add.s64 %rd3, %rd3, 4;" + LOAD.format("%rd3"), [0, 1]),
    (16, LOAD.format("%rd3") + "mov.b64 %rd5, {%r9, %r1}; mov.b64 {%r2, %r3}, %rd5;"
     "mad.wide.u32 %rd6, %r3, 16, %rd1;" + LOAD.format("%rd6+4"), [0, 1]),
    # Something else was added, another array read, a block of code begun, L1 left out or full.
    (16, LOAD.format("%rd3") + "add.s64 %rd3, %rd3, %rd9;" + LOAD.format("%rd3"), [0, 0]),
    (16, LOAD.format("%rd3") + LOAD.format("%rd4+4"), [0, 0]),
    (16, LOAD.format("%rd3") + STORE.format("%rd3+4"), [0, 0]),
    (16, LOAD.format("%rd3") + "bra L; L:" + LOAD.format("%rd3+4"), [0, 0]),
    (16, LOAD.format("%rd3") + "$L__tmp1:" + LOAD.format("%rd3+4"), [0, 1]),  # for debuggers
    (16, "".join(map(LOAD.replace("global", "global.cg").format, FOUR)), [0] * 4),
    (16, "".join(map(STORE.replace("global", "global.cg").format, FOUR)), [0, 1, 1, 1]),
    *((16, LOAD.format("%rd3") + "".join(map(WIDE.format, range(0, 4096 * n, 4096)))
       + LOAD.format("%rd3+4"), [0] * (n + 1) + [4 - n]) for n in (3, 4)),
])  # fmt: skip
def test_words_one_by_one__hit_what_those_just_before_touched(stride, body, expected):
    for block in ((64, 1, 1), None):
        assert hits(stride, body, block) == pytest.approx(expected), block


ROWS = """
    ld.param.u32 %r10, [n];
    and.b32 %r2, %r8, 7;
    shr.u32 %r3, %r8, 3;
    mad.lo.s32 %r4, %r3, %r10, %r2;
    mul.wide.s32 %rd5, %r4, 4;
    add.s64 %rd10, %rd1, %rd5;
    mul.wide.s32 %rd6, %r10, 4;
"""
"""Four rows of eight words in a warp, which lie as far apart as an argument says."""

OF_64_BITS = """
    ld.param.u64 %rd11, [q];
    cvt.u64.u32 %rd12, %r3;
    shl.b64 %rd13, %rd11, 2;
    mad.lo.s64 %rd14, %rd13, %rd12, %rd1;
    add.s64 %rd15, %rd14, %rd13;
"""
DOWN = "add.s64 %rd10, %rd10, %rd6;"
LOOP = "mov.u32 %r7, 0;\nL: {} add.s32 %r7, %r7, 1; setp.lt.s32 %p1, %r7, 5; @%p1 bra L;"


@pytest.mark.parametrize(("body", "expected"), [
    (ROWS + 3 * (LOAD.format("%rd10") + DOWN), [0, 3 / 4, 3 / 4]),
    (ROWS + OF_64_BITS + LOAD.format("%rd14") + LOAD.format("%rd15"), [0, 3 / 4]),
    (ROWS + LOAD.format("%rd10") + "neg.s32 %r5, %r10; mul.wide.s32 %rd7, %r5, 4;"
     "add.s64 %rd7, %rd10, %rd7;" + LOAD.format("%rd7"), [0, 3 / 4]),
    (ROWS + LOAD.format("%rd10") + "not.b32 %r5, %r10; mul.wide.s32 %rd7, %r5, 4;"
     "add.s64 %rd7, %rd10, %rd7;" + LOAD.format("%rd7"), [0, 3 / 8]),
    # Of two pointers nothing tells how far they lie apart.
    (ROWS + "ld.param.u64 %rd11, [q]; add.s64 %rd7, %rd10, %rd11;" + LOAD.format("%rd10")
     + LOAD.format("%rd7"), [0, 0]),
    # In a loop: of five turns the first finds nothing, and the others three of four rows.
    (ROWS + LOOP.format(LOAD.format("%rd10") + DOWN), [4 / 5 * 3 / 4]),
    (ROWS + LOOP.format(LOAD.format("%rd10")), [4 / 5]),
    (ROWS + LOOP.format(LOAD.format("%rd10") + "ld.global.s64 %rd6, [%rd4];" + DOWN), [0, 4 / 5]),
    # One of two sides: neither finds what the other brings, nor is sure what it adds.
    (ROWS + LOOP.format("setp.lt.s32 %p2, %r8, %r7; @%p2 bra M;" + LOAD.format("%rd10") + "bra N;"
     "M:" + LOAD.format("%rd10") + "N:"), [4 / 5, 4 / 5]),
    (ROWS + LOOP.format("setp.lt.s32 %p2, %r8, %r7; @%p2 bra M;" + DOWN + "M:"
     + LOAD.format("%rd10")), [0]),
    (ROWS + LOOP.replace("5", "%r9").format(LOAD.format("%rd10")), [0]),  # turns of unknown number
    (ROWS + LOOP.replace("5", "9999").format(LOAD.format("%rd10")), [0]),
])  # fmt: skip
def test_rows_of_a_warp__hit_what_those_just_before_touched(body, expected):
    assert hits(4, body, (64, 1, 1)) == pytest.approx(expected)


def test_a_share_of_the_turns__finds_nothing():
    """Nobody knows which ones they are: of ten turns one in ten has none before it."""
    branch = LOOP.format("setp.lt.s32 %p2, %r8, %r7; @%p2 bra M;" + LOAD.format("%rd10") + "M:")
    body = f"{START.format(stride=4)} {ROWS} {branch} ret;"
    for share, expected in ((0.9, 0), (0, 4 / 5)):
        found = kernel(body, block=(64, 1, 1), branches={"M": share})
        assert [shape.hits for shape in found.accesses()] == pytest.approx([expected])


def test_stores_of_a_column__meet_those_of_other_warps():
    column = "mov.u32 %r2, %tid.y; mul.wide.u32 %rd5, %r2, 4; add.s64 %rd3, %rd3, %rd5;"
    for access, share in ((STORE, 7 / 8), (LOAD, 0)):  # eight warps, a sector in each of 32 rows
        assert hits(4096, column + access.format("%rd3"), (32, 8, 1)) == [share]


def test_kernel_file__moves_each_byte_once():
    body = "".join(LOAD.format(f"%rd3+{n}") + STORE.format(f"%rd4+{n}") for n in (0, 4, 8, 12))
    file = file_of(kernel(START.format(stride=16) + body, block=(64, 1, 1)), grid=(4096,))
    beyond = Counter()
    for access in file.global_accesses:  # each touches the sectors of all four words
        rate = access.l1_hit_rate if access.kind == "load" else access.l2_hit_rate
        beyond[access.kind] += value(access.count) * (1 - (value(rate) if rate else 0))
    assert beyond == {"load": 1, "store": 1} and value(file.expressions["cache.l2_hit_rate"]) == 0


@pytest.mark.parametrize(("test", "sectors"), [
    ("setp.lt.u32 %p1, %r8, 16;", 16),  # a quarter of 64 threads, each with a sector of its own
    ("setp.ge.u32 %p1, %r8, 16; not.pred %p1, %p1;", 64),  # not followed
    ("setp.ge.u32 %p2, %r9, 1; setp.lt.u32 %p3, %r8, 16; and.pred %p1, %p2, %p3;", 16),
    ("setp.lt.u32 %p1, %r9, 1;", 64),  # the first block alone
])  # fmt: skip
def test_stores_under_a_predicate__touch_the_sectors_of_its_threads(test, sectors):
    store = f"{test} @%p1 st.global.f32 [%rd3], %f1;"
    (shape,) = kernel(f"{START.format(stride=32)} {store} ret;", block=(64, 1, 1)).accesses()
    assert 2 * (shape.transactions or 32) == sectors


@pytest.mark.parametrize(("code", "sectors"), [
    ("setp.eq.u32 %p1, %r8, 0; @%p1 st.global.f32 [%rd1], %f1;", [1]),  # one thread of a block
    ("setp.lt.u32 %p1, %r8, 8; mov.u32 %r7, 0; L: setp.eq.u32 %p3, %r7, 0;"
     "selp.b64 %rd5, %rd3, %rd4, %p3; @%p1 st.global.f32 [%rd5], %f1;"
     "add.s32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 9; @%p2 bra L;", [1]),
    ("mov.pred %p1, 0; @%p1 st.global.f32 [%rd3], %f1; @!%p1 st.global.f32 [%rd3], %f1;", [8]),
])  # fmt: skip
def test_stores_of_few_threads_or_none__touch_their_sectors(code, sectors):
    shapes = kernel(f"{START.format(stride=4)} {code} ret;", block=(64, 1, 1)).accesses()
    assert [2 * (shape.transactions or 4) for shape in shapes] == sectors


def test_loads_beyond_an_argument__are_none_if_it_is_given():
    body = "ld.param.u32 %r5, [n]; add.s32 %r6, %r8, 64; setp.lt.s32 %p1, %r6, %r5;"
    body = f"{START.format(stride=4)} {body} @%p1 ld.global.f32 %f1, [%rd3+256]; ret;"
    for sectors, arguments in (([4], {}), ([2], {"1": 96}), ([], {"1": 48})):
        shapes = kernel(body, block=(64, 1, 1), arguments=arguments).accesses()
        assert [shape.transactions or 4 for shape in shapes] == sectors


@pytest.mark.parametrize("test", [
    "ld.global.u32 %r5, [%rd1]; setp.eq.s32 %p1, %r5, 0;",  # a flag in memory
    "setp.ge.u32 %p1, %r9, 8;",  # later blocks
    "ld.param.u64 %rd8, [q]; setp.lt.u64 %p1, %rd8, 64;",
])  # fmt: skip
def test_stores_of_other_blocks_or_data__are_no_dead_ones(test):
    body = f"{START.format(stride=4)} {test} @%p1 st.global.f32 [%rd3], %f1; ret;"
    shapes = kernel(body, block=(64, 1, 1), arguments={"1": 96}).accesses()
    assert [shape.pattern for shape in shapes if shape.direction == "store"] == ["coalesced"]

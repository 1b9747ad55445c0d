"""What blocks read again, against the sources of kernels by hand."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.ptx_texts import A100, HEAD, kernel, value, with_derived

from sweep.hardware.affine_accesses import PATTERNS, access_transactions
from sweep.importers.ptx.analysis import ANY, analyse
from sweep.importers.ptx.footprint import touched
from sweep.importers.ptx.kernel_file import kernel_text
from sweep.importers.ptx.lanes import APART, WIDE, sectors_of
from sweep.importers.ptx.parser import read_ptx
from sweep.specs import parse_kernel

FOLDER = Path(__file__).parents[1] / "data" / "ptx" / "compilers"


def rate(text, block, grid=None, trips=None, sizes=None, arguments=None, **values):
    """Return the hit rate in the kernel file of a text."""
    sides = (*(grid or ()), 1, 1)[:3] if grid else None
    found = analyse(
        read_ptx(text).entry(), block=block, grid=sides, trips=trips, arguments=arguments
    )
    file = parse_kernel(kernel_text(found, grid=grid, sizes=sizes), "k")
    return value(file.expressions["cache.l2_hit_rate"], **with_derived(file, values))


def recorded(name, *arguments, **values):
    return rate((FOLDER / f"{name}.ptx").read_text(encoding="utf-8"), *arguments, **values)


@pytest.mark.parametrize("compiler", ["cuda", "numba"])
def test_tiled_matmul__reads_rows_and_columns_of_tiles_once(compiler):
    """Of n/16 reads of each matrix in sectors of a half tile's row, one is the first.

    A row of blocks reads all of the second matrix. Where L2 does not hold 64 MiB, only the 864
    blocks that run at once share it, as they are several rows.
    """
    for n, fits in ((2048, True), (4096, False)):  # two matrices of 16 and of 64 MiB
        given = (16, 16, 1), (n // 16, n // 16), {ANY: "n / 16"}, {"n": n}
        read, store = 2 * 4 * n / 16, 4
        fetched = (16 / n + (16 / n if fits else n / 16 / (8 * 108))) / 2
        found = recorded(f"{compiler}_matmul", *given, registers_per_sm=2**20)
        assert found == pytest.approx(read * (1 - fetched) / (read + store))


def test_matmul__of_a_grid_that_is_not_given_reads_all_once():
    given = (16, 16, 1), None, {ANY: "n / 16"}, {"n": 2048}
    assert recorded("cuda_matmul", *given) == 0


@pytest.mark.parametrize("compiler", ["cuda", "numba"])
@pytest.mark.parametrize(("height", "grid", "new"), [
    (8, None, 10 * 4 + 2 * 8), (8, (64, 256), 8 * 4 - 7 + 8), (1, (64, 256), 4 + 1),
    (1, (2**20, 256), 3 * 4),
])  # fmt: skip
def test_stencil__shares_words_within_a_block_and_with_those_beside(compiler, height, grid, new):
    """A warp reads 4 sectors in the middle, above and below, and 5 left and right.

    L1 has 4 of each 5. A block of 32 x 8 has 10 rows of 4 sectors, and 8 at each side; the block
    below reads its last two rows too, that to the right a sector at both ends of their border. Of
    2**20 blocks in a row L2 loses the row above, but what the block beside reads is still there.
    """
    asked, rows = 4 + 4 + 4 + 1 + 1, 2048 // height
    grid = grid and (grid[0], rows)
    found = recorded(f"{compiler}_stencil", (32, height, 1), grid)
    expected = (asked - new / height) / (asked + 4)
    assert found == pytest.approx(expected, rel=0.005)  # the first row and column share with none


@pytest.mark.parametrize("compiler", ["cuda", "numba"])
def test_softmax__reads_a_row_three_times(compiler):
    """Rows of the blocks that run at once are still in L2, be the matrix larger or not."""
    for rows, columns in ((1024, 4096), (2**20, 4096), (2**16, 65536)):
        given = (256, 1, 1), (rows,), {ANY: "c / 1024"}, {"c": columns}
        at_once = min(rows, 108 * 2048 / 256) * columns * 4
        expected = 2 / (3 + 1) * min(1, A100["l2_bytes"] / at_once)
        found = recorded(f"{compiler}_softmax", *given, registers_per_sm=2**20)
        assert found == pytest.approx(expected), (rows, columns)


TAPS = """
    mov.u32 %r7, %ctaid.x;
    mov.u32 %r8, %tid.x;
    mad.lo.s32 %r1, %r7, 32, %r8;
    mov.u32 %r2, %tid.y;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r4, [n];
    mov.u32 %r5, 0;
L:  add.s32 %r6, %r2, %r5;
    mad.lo.s32 %r3, %r6, %r4, %r1;
    mul.wide.s32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global{way}.f32 %f1, [%rd3];
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p1, %r5, {taps};
    @%p1 bra L;
    ret;
"""


@pytest.mark.parametrize("way", ["", ".cg"])  # L1 has no row of another warp
@pytest.mark.parametrize("taps", [1, 3, 7])
def test_taps_in_a_loop__read_each_row_once(taps, way):
    """Of a block's 8 rows of 32 words, each turn reads the next one, and 7 again."""
    found = rate(f"{HEAD}{TAPS.format(taps=taps, way=way)}}}", (32, 8, 1))
    assert found == pytest.approx(1 - (8 + taps - 1) / (8 * taps))


CHANNELS = """ld.param.u64 %rd9, [q]; ld.param.u32 %r9, [n];
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra N;
    mov.u32 %r10, 0;
M:  {load}
    add.s64 %rd3, %rd3, %rd9;
    add.s32 %r10, %r10, 1;
    setp.lt.s32 %p3, %r10, %r9;
    @%p3 bra M;
N:"""


@pytest.mark.parametrize("way", ["", ".cg"])  # other channels displace those of the tap before
def test_taps_around_a_loop__read_each_row_once(way):
    load = next(line for line in TAPS.splitlines() if "ld.global" in line).format(way=way)
    text = TAPS.format(taps=3, way=way).replace(load, CHANNELS.format(load=load))
    for turns in (16, 32):
        found = rate(f"{HEAD}{text}}}", (32, 8, 1), (4,), {ANY: "c"}, {"c": turns})
        assert found == pytest.approx(1 - (8 + 2) / (8 * 3))


LOOP = "mov.u32 %r5, 0; L: {body} add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, {turns}; @%p1 bra L;"
NEXT = "ld.global.f32 %f1, [%rd3]; add.s64 %rd3, %rd3, %rd4;"


@pytest.mark.parametrize("body", [
    3 * NEXT, LOOP.format(body=2 * NEXT, turns=5), LOOP.format(body=NEXT, turns=2000),
])  # fmt: skip
def test_rows_of_a_pointer_that_moves__are_read_once(body):
    start = LOAD.partition("ld.global")[0].format(index="mad.lo.s32 %r3, %r2, 96, %r1;")
    stride = "ld.param.u32 %r4, [n]; mul.wide.s32 %rd4, %r4, 4;"
    assert rate(f"{HEAD}{start} {stride} {body} ret; }}", (96, 1, 1)) == 0


@pytest.mark.parametrize("turns", [3, 8])
def test_copies__are_read_as_often_as_they_bring_something(turns):
    """Two steps start before the loop, whose last two copy nothing. Both warps read the same."""
    index = "and.b32 %r6, %r1, 31; mad.lo.s32 %r6, %r2, 32, %r6; shl.b32 %r3, %r6, 2;"
    start = LOAD.partition("ld.global")[0].format(index=index)
    start += "ld.param.u32 %r4, [n]; mul.wide.s32 %rd4, %r4, 4;"
    copy = "cp.async.cg.shared.global [%r9], [%rd3], 16; cp.async.commit_group;"
    copy += "add.s64 %rd3, %rd3, %rd4;"
    loop = LOOP.format(body=f"cp.async.wait_group 1; bar.sync 0; {copy}", turns=turns)
    store = "ld.param.u64 %rd5, [q]; mad.wide.u32 %rd6, %r1, 4, %rd5; st.global.f32 [%rd6], %f1;"
    found = rate(f"{HEAD}{start} {copy} {copy} {loop} {store} ret; }}", (64, 1, 1))
    assert found == pytest.approx(turns * 16 / 2 / (turns * 16 + 4))


@pytest.mark.parametrize("name", ["cuda_saxpy", "numba_saxpy", "triton_saxpy", "triton_reduction"])
def test_streams__are_read_once(name):
    assert recorded(name, None if name.startswith("triton") else (256, 1, 1), (4096,)) == 0


LOAD = """
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    {index}
    mul.wide.s32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    ret;
"""


@pytest.mark.parametrize(("index", "expected"), [
    ("mov.u32 %r3, %r1;", 1 - 1 / 4096),  # all blocks read the same words
    ("mad.lo.s32 %r3, %r2, 64, %r1;", 0),
    ("ld.param.u32 %r4, [n]; ld.param.u32 %r5, [q]; mul.lo.s32 %r6, %r1, %r4;"
     "mad.lo.s32 %r3, %r2, %r5, %r6;", 0),  # two strides, neither of them a multiple of the other
    # Rows of 48 words for 64 threads, of which 16 would reach into the next row.
    ("setp.lt.u32 %p1, %r1, 48; mad.lo.s32 %r3, %r2, 48, %r1; mul.wide.s32 %rd2, %r3, 4;"
     "add.s64 %rd3, %rd1, %rd2; @%p1 ld.global.f32 %f1, [%rd3]; ret;", 0),
    ("and.b32 %r3, %r1, 31;", 1 - 1 / (2 * 4096)),  # both warps of a block, too
    ("and.b32 %r4, %r1, 31; not.b32 %r5, %r4; mad.lo.s32 %r3, %r2, 64, %r5;", 1 / 2),
    ("and.b32 %r4, %r1, 31; mov.b64 %rd4, {%r9, %r4}; mov.b64 {%r5, %r6}, %rd4;"
     "mad.lo.s32 %r3, %r2, 64, %r6;", 1 / 2),  # a pair in one register
    ("ld.global.s32 %r3, [%rd1];", 3 / 4),  # one word of all, and one anywhere for both warps
    ("setp.lt.s32 %p1, %r1, 48; mov.u32 %r3, 0; @%p1 ld.global.s32 %r3, [%rd1];", 1 / 2),
])  # fmt: skip
def test_blocks__read_again_what_their_index_does_not_change(index, expected):
    text = f"{HEAD}{LOAD.format(index=index)}}}"
    for grid in ((4096,), None):
        found = rate(text, (64, 1, 1), grid, threads=64 * 4096)
        assert found == pytest.approx(expected, abs=0.02), grid


SPLIT = "ld.param.u32 %r4, [n]; div.u32 %r5, %r2, %r4; rem.u32 %r6, %r2, %r4;"
# Eight rows of blocks together, column by column (Triton's GROUP_M).
GROUPED = """ld.param.u32 %r4, [n]; shl.b32 %r7, %r4, 3;
    div.s32 %r8, %r2, %r7; rem.s32 %r9, %r2, %r7; shr.u32 %r6, %r9, 3;
    and.b32 %r10, %r9, 7; mad.lo.s32 %r5, %r8, 8, %r10;"""
# What compilers make of a division by 12.
BY_12 = """mul.hi.s32 %r4, %r2, 715827883; shr.u32 %r7, %r4, 31; shr.s32 %r8, %r4, 1;
    add.s32 %r5, %r8, %r7; mul.lo.s32 %r9, %r5, 12; sub.s32 %r6, %r2, %r9;"""
BY_7 = """mul.hi.u32 %r4, %r2, -1840700269; shr.u32 %r5, %r4, 2; mul.lo.s32 %r9, %r5, 7;
    sub.s32 %r6, %r2, %r9;"""
ROWS, COLUMNS, BOTH = (f"mad.lo.s32 %r3, {place}, 64, %r1;" for place in ("%r5", "%r6", "%r2"))


@pytest.mark.parametrize(("code", "width", "index", "new"), [
    (SPLIT, 32, ROWS, 126), (SPLIT, 32, COLUMNS, 32), (SPLIT, 32, BOTH, 4032),
    (GROUPED, 21, ROWS, 192), (GROUPED, 21, COLUMNS, 21), (GROUPED, 21, BOTH, 4032),
    (BY_12, 0, ROWS, 336), (BY_12, 0, COLUMNS, 12), (BY_7, 0, ROWS, 576), (BY_7, 0, COLUMNS, 7),
    ("shr.u32 %r5, %r2, 6;", 0, ROWS, 63), ("rem.u32 %r6, %r2, 3;", 0, COLUMNS, 3),
    (SPLIT, 5000, ROWS, 4032),  # all in the first row: maybe a larger grid's
])  # fmt: skip
def test_blocks__share_rows_and_columns_that_a_kernel_makes_of_one_index(code, width, index, new):
    """Of 4032 blocks, whose first ones L2 has still: the tiles are small."""
    text = f"{HEAD}{LOAD.format(index=code + index)}}}"
    found = rate(text, (64, 1, 1), (4032,), arguments={"1": width} if width else None)
    assert found == pytest.approx(1 - new / 4032)


def test_order_of_blocks__decides_what_l2_still_has():
    """From one block of a column to the next it is a row, or one block of eight together."""
    for code, between, hits in ((SPLIT, 32, 31 / 32), (GROUPED, 1, 7 / 8)):
        text = f"{HEAD}{LOAD.format(index=code + COLUMNS)}}}"
        for missing, expected in ((0, hits), (1, 0)):
            found = rate(text, (64, 1, 1), (1024,), arguments={"1": 32}, sm_count=1,
                         l2_bytes=64 * 4 * between - missing, max_threads_per_sm=64)  # fmt: skip
            assert found == pytest.approx(expected)


def test_arguments_that_tell_rows_and_columns__are_asked_for():
    for index, asked in ((SPLIT + ROWS, True), (SPLIT + BOTH, True), (BY_12 + ROWS, False)):
        notes = kernel(LOAD.format(index=index), block=(64, 1, 1), grid=(99, 1, 1)).notes
        assert any("--argument 1=N" in note for note in notes) == asked


@pytest.mark.parametrize(("lane", "size", "requested", "distinct"), [
    ("mov.u32 %r5, %r1;", 1, 4 + 32, 4 + 32),  # any word for each thread
    ("and.b32 %r5, %r1, 31;", 1, 4 + 32, (4 + 32) / 2),  # both warps have the same indices
    ("shr.u32 %r5, %r1, 3;", 8, 1 + 4, 0.5 + 4),  # 8 threads read a sector: 4 of a warp
])  # fmt: skip
def test_words_at_indices_in_memory__are_unrelated_but_for_equal_indices(
    lane, size, requested, distinct
):
    index = f"""{lane} mul.wide.s32 %rd4, %r5, 4; ld.param.u64 %rd5, [q]; add.s64 %rd6, %rd5, %rd4;
        ld.global.u32 %r6, [%rd6]; and.b32 %r7, %r1, {size - 1}; mad.lo.s32 %r3, %r6, 1024, %r7;"""
    found = kernel(LOAD.format(index=index), block=(64, 1, 1))
    assert sum(read.requested for read in found.reads) == pytest.approx(requested)
    assert sum(read.distinct for read in found.reads) == pytest.approx(distinct)
    assert any("unrelated" in shape.assumed for shape in found.accesses())


@pytest.mark.parametrize(("code", "moved"), [
    ("setp.eq.u32 %p1, %r1, 0; @%p1 st.global.f32 [%rd1], %f1;", 0.5),  # a sector of two warps
    ("atom.global.add.f32 %f2, [%rd3], %f1;", 4),
    # A pointer in a table, and a row of any start: its borders lie in sectors that others read.
    ("ld.global.u64 %rd4, [%rd1]; add.s64 %rd5, %rd4, %rd2; ld.global.f32 %f2, [%rd5];", 4),
    # Of 64 words behind a place that all load, every 16 threads read the same one.
    ("ld.global.s32 %r4, [%rd1]; shr.u32 %r5, %r1, 4; add.s32 %r6, %r4, %r5;"
     "mul.wide.s32 %rd4, %r6, 4; add.s64 %rd5, %rd1, %rd4; ld.global.f32 %f2, [%rd5];", 0.5),
])  # fmt: skip
def test_kernel_file__moves_what_is_stored_or_behind_a_pointer_once(code, moved):
    """Beside a row of words that all blocks read: bytes of a thread between DRAM and L2."""
    text = f"{HEAD}{LOAD.format(index='mov.u32 %r3, %r1;').replace('ret;', code)} ret;\n}}"
    found = parse_kernel(kernel_text(analyse(read_ptx(text).entry(), block=(64, 1, 1)),
                                     grid=(4096,)), "k")  # fmt: skip
    rate = value(found.expressions["cache.l2_hit_rate"], **with_derived(found, {}))
    sectors = {"broadcast": 1, "coalesced": 4, "misaligned": 4.93}
    total = sum(
        value(access.count)
        * (value(access.transactions) if access.transactions else sectors[access.pattern])
        for access in found.global_accesses
    )
    assert total * (1 - rate) == pytest.approx(moved, abs=0.01)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_sectors_of_a_pattern__as_kernel_files_have_them(pattern):
    for size, x in itertools.product((1, 2, 4, 8, 16), (0, 1, 2, 7, 500)):
        shape = SimpleNamespace(pattern=pattern, bytes=size, x=x, transactions=0.0)
        wanted = access_transactions(pattern, size, x, 32, "sector")[2]
        assert touched(shape) == pytest.approx(wanted, rel=1e-12), (size, x)


@pytest.mark.parametrize("arguments", range(5))
def test_rows_of_unknown_arguments__lie_apart(arguments):
    """A stride such as channels * height * width is no multiple of what addresses are cut to."""
    addresses = np.arange(32) * 4
    for place in range(arguments):
        addresses = addresses * (WIDE + place * APART)
    assert sectors_of(addresses, 4) == (32 if arguments else 4)


def test_nothing_hits__on_a_device_without_l2():
    text = f"{HEAD}{LOAD.format(index='mov.u32 %r3, %r1;')}}}"
    assert rate(text, (64, 1, 1), (4096,), l2_bytes=0) == 0
    assert not kernel(LOAD.format(index="mov.u32 %r3, 0;")).reads[0].axes


def test_tiles_that_one_thread_copies__are_read_once():
    tile = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4096;"
    body = LOAD.format(index=f"mov.u32 %r3, %r1; {tile}")
    share, word = (read.requested for read in kernel(body, block=(64, 1, 1)).reads)
    assert (share, word) == (4096 / 64, 4)
    found = rate(f"{HEAD}{body}}}", (64, 1, 1), (64,))
    assert found == pytest.approx(word * (1 - 1 / 64) / (share + word))

"""Patterns of access from chains of address arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ptx_texts import CASES, fixture, function, kernel

from sweep.importers.ptx.analysis import analyse
from sweep.importers.ptx.registers import ALIGNED, Values

PLACE = """
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u32 %r9, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
"""


def shape(body, **options):
    (found,) = kernel(f"{PLACE}{body}\nret;", **options).accesses()
    return found


def pattern(body, **options):
    found = shape(body, **options)
    return found.pattern, found.x if found.pattern == "strided" else 0, bool(found.assumed)


@pytest.mark.parametrize(("index", "access", "name", "stride", "assumed"), CASES["patterns"])
def test_chains__give_the_pattern(index, access, name, stride, assumed):
    found = pattern(f"{index} mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3; {access};")
    assert found == (name, stride, assumed)


def test_gather__is_assumed():
    body = """ld.const.u32 %r5, [%rd9]; mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3;
        ld.global.u32 %r6, [%rd4];"""
    assert pattern(body) == ("coalesced", 0, True)


def test_select__keeps_what_both_sides_have():
    index = "add.s32 %r7, %r4, {}; selp.b32 %r5, %r4, {}, %p1; mul.wide.s32 %rd3, %r5, 4;"
    access = "add.s64 %rd4, %rd2, %rd3; ld.global.f32 %f1, [%rd4];"
    assert pattern(index.format(64, "%r7") + access) == ("coalesced", 0, False)
    assert pattern(index.format(64, "%r2") + access) == ("coalesced", 0, True)


def test_pointers_that_loops_move__keep_their_pattern():
    # With steps of rows the words stay aligned, with steps of words they do not.
    for step, expected in ((128, "coalesced"), (4, "misaligned"), (64, "coalesced")):
        body = f"""mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3; mov.u32 %r7, 0;
          L: ld.global.f32 %f1, [%rd4]; add.s64 %rd4, %rd4, {step}; add.s32 %r7, %r7, 1;
            setp.ne.s32 %p1, %r7, 9; @%p1 bra L;"""
        assert pattern(body) == (expected, 0, False)


def test_generic_addresses__are_followed_to_their_memory():
    shared = "cvta.shared.u64 %rd5, tile; mul.wide.u32 %rd6, %r1, 8; add.s64 %rd7, %rd5, %rd6;"
    found = shape(f"mov.u64 %rd5, tile; {shared} st.f32 [%rd7+4], %f1;")
    assert (found.space, found.pattern, found.x) == ("shared", "strided", 2)
    # An unknown index does not hide the memory that the pointer refers to.
    found = shape(
        f"{shared} ld.const.u64 %rd8, [%rd7]; add.s64 %rd7, %rd7, %rd8; ld.f32 %f1, [%rd7];"
    )
    assert (found.space, bool(found.assumed)) == ("shared", True)
    plain = kernel(
        f"{PLACE}mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; ld.f32 %f1, [%rd4];"
    )
    assert [(s.space, s.pattern) for s in plain.accesses()] == [("global", "coalesced")]
    constant = kernel("cvta.const.u64 %rd1, table; ld.f32 %f1, [%rd1];")
    assert constant.instructions() == {"move": 2} and not constant.accesses()


def test_local_memory__lies_thread_by_thread():
    found = shape("mul.wide.u32 %rd3, %r1, 40; st.local.f64 [%rd3], %fd1;")
    assert (found.space, found.pattern, found.origin) == ("global", "coalesced", "local memory")
    assert not found.assumed


@pytest.mark.parametrize(("index", "bytes_", "stride"), [
    ("mov.u32 %r5, %r1;", 4, 1), ("mov.u32 %r5, %r1;", 8, 1), ("mov.u32 %r5, %r2;", 4, 0),
    ("mul.lo.u32 %r5, %r1, 33;", 4, 33), ("mul.lo.u32 %r5, %r1, 32;", 4, 32),
])  # fmt: skip
def test_shared_memory__strides_in_words(index, bytes_, stride):
    found = shape(f"""{index} mov.u32 %r6, tile; mad.lo.s32 %r7, %r5, {bytes_}, %r6;
        ld.shared.b{8 * bytes_} {"%f1" if bytes_ == 4 else "%rd9"}, [%r7];""")
    assert (found.pattern, found.bytes, found.x, found.assumed) == ("strided", bytes_, stride, "")


def test_rows_within_a_warp__are_affine():
    body = """mov.u32 %r5, %tid.y; shl.b32 %r6, %r5, 6; mov.u32 %r7, tile; add.s32 %r10, %r7, %r6;
        shl.b32 %r11, %r1, 2; add.s32 %r8, %r10, %r11; ld.shared.f32 %f1, [%r8];"""
    narrow = shape(body, block=(16, 16, 1))
    assert (narrow.pattern, narrow.x, narrow.y, narrow.z) == ("affine", 1, 16, 0)
    for block in (None, (32, 8, 1), (16, 1, 1)):
        assert shape(body, block=block).pattern == "strided"
    # If the distance of rows is known only at run time, the pattern follows from x alone.
    rows = """mov.u32 %r5, %tid.y; mad.lo.s32 %r6, %r5, %r9, %r1; mul.wide.s32 %rd3, %r6, 4;
        add.s64 %rd4, %rd2, %rd3; ld.global.f32 %f1, [%rd4];"""
    found = shape(rows, block=(16, 16, 1))
    assert found.pattern == "coalesced" and "several rows" in found.assumed
    assert not shape(rows, block=(32, 8, 1)).assumed


def test_wide_vectors__are_several_words():
    found = kernel(f"{PLACE}mul.wide.s32 %rd3, %r4, 32; add.s64 %rd4, %rd2, %rd3;"
                   "ld.global.v4.b64 {%rd10,%rd11,%rd12,%rd13}, [%rd4];")  # fmt: skip
    ((wide, count),) = found.accesses().items()
    assert (wide.bytes, wide.words, wide.pattern, count) == (16, 2, "coalesced", 2)


def test_transpose__conflicts_come_out():
    module = fixture("transpose")
    for name, stride in (("transpose_plain", 32), ("transpose_padded", 33)):
        found = analyse(module.entry(name)).accesses()
        strides = {s.direction: s.x for s in found if s.space == "shared"}
        assert strides == {"store": 1, "load": stride}
        assert {s.pattern for s in found if s.space == "global"} == {"coalesced"}


def test_structures_and_gathers__of_a_compiler():
    found = analyse(fixture("vectors").entry("patterns")).accesses()
    loads = [(s.bytes, s.pattern, bool(s.assumed)) for s in found if s.direction == "load"]
    assert sorted(loads) == [
        (2, "coalesced", False),
        (4, "broadcast", False),
        (4, "coalesced", False),
        (4, "coalesced", True),  # the gather
        (4, "misaligned", False),
        (4, "strided", False),
        (4, "uncoalesced", True),  # the column
    ]
    (point,) = [s for s in found if s.pattern == "strided"]
    assert point.x == 3


def test_stencil__of_numba_is_misaligned_beside_its_middle():
    (entry,) = fixture("stencil").entries
    found = analyse(fixture("stencil").entry(entry)).accesses()
    counts = {(s.direction, s.pattern): n for s, n in found.items()}
    assert counts == {
        ("load", "coalesced"): 1,
        ("load", "misaligned"): 2,
        ("store", "coalesced"): 1,
    }


@given(st.lists(st.sampled_from([
    "add.s32 %r{}, %r{}, %r{};", "sub.s32 %r{}, %r{}, %r{};", "mul.lo.s32 %r{}, %r{}, %r{};",
    "mad.lo.s32 %r{}, %r{}, %r{}, %r1;", "mov.u32 %r{}, %r{};", "mov.u32 %r{}, {};",
    "shl.b32 %r{}, %r{}, {};", "neg.s32 %r{}, %r{};",
]), max_size=12), st.data())  # fmt: skip
def test_values__hold_for_every_thread(forms, data):
    """Compare the analysis of straight-line code with its execution by the threads of a block."""
    code = ["mov.u32 %r0, 5;", "mov.u32 %r1, %tid.x;", "mov.u32 %r2, %tid.y;", "mov.u32 %r3, 1;",
            "mov.u32 %r4, 96;"]  # fmt: skip
    for number, form in enumerate(forms, start=5):
        first = number
        rest = [data.draw(st.integers(0, number - 1)) for _ in range(form.count("{}") - 1)]
        code.append(form.format(first, *rest))
    f = function("\n".join(code))
    values = Values(f)
    threads = [(x, y) for x in (0, 1, 2, 31) for y in (0, 1, 3)]
    states = []
    for x, y in threads:
        state = {"%tid.x": x, "%tid.y": y}
        for item in f.instructions():
            a, *b = [state[o] if o in state else int(o) for o in item.operands[1:]]
            state[item.operands[0]] = {
                "mov": lambda a: a, "neg": lambda a: -a, "add": lambda a, b: a + b,
                "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "shl": lambda a, b: a << b,
                "mad": lambda a, b, c: a * b + c,
            }[item.opcode](a, *b)  # fmt: skip
        states.append(state)
    for register in (item.operands[0] for item in f.instructions()):
        value = values.of(register)
        if not value.is_affine or None in (value.x, value.y):
            continue
        rests = {
            state[register] - value.x * x - value.y * y
            for (x, y), state in zip(threads, states, strict=True)
        }
        assert len(rests) == 1  # the same for all threads
        (rest,) = rests
        assert rest % value.alignment == 0 or value.alignment == ALIGNED and rest == 0
        assert value.constant in (None, rest)

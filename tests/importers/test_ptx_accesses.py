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


@pytest.mark.parametrize(("index", "access", "name", "stride", "assumed"), CASES["patterns"])
def test_chains__give_the_pattern(index, access, name, stride, assumed):
    found = shape(f"{index} mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3; {access};")
    assert (found.pattern, bool(found.assumed)) == (name, assumed)
    assert name != "strided" or found.x == stride


@pytest.mark.parametrize("case", CASES["shapes"].values(), ids=CASES["shapes"])
def test_addresses__give_the_shape(case):
    found = shape(case["body"], block=tuple(case["block"]) if "block" in case else None)
    expected = {"words": 1, "origin": "", **case["shape"]}
    assert {name: getattr(found, name) for name in expected} == expected
    assert case.get("assumed", "") in found.assumed
    assert bool(found.assumed) == ("assumed" in case)


def test_constants__are_no_accesses():
    constant = kernel("cvta.const.u64 %rd1, table; ld.f32 %f1, [%rd1];")
    assert constant.instructions() == {"move": 2} and not constant.accesses()


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

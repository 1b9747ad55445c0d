"""Classes of all opcodes of PTX ISA 1.0 to 9.0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ptx_texts import CASES, function, kernel

from sweep.importers.ptx.instructions import Meaning, meaning_of
from sweep.importers.ptx.module import Instruction
from sweep.specs.formats import INSTRUCTION_CLASSES as CLASSES

OPCODES = {kind: names.split() for kind, names in CASES["opcodes"].items()}
ACCESSES = CASES["accesses"]


def named(name, *operands):
    opcode, *modifiers = name.split(".")
    return Instruction(1, opcode, tuple(modifiers), operands)


@pytest.mark.parametrize("kind", OPCODES)
def test_opcodes__have_their_class(kind):
    found = {name: meaning_of(named(name)).kind for name in OPCODES[kind]}
    assert found == dict.fromkeys(found, kind)
    assert all(meaning_of(named(name)).is_known for name in found)


@pytest.mark.parametrize("name", ACCESSES)
def test_accesses__have_space_direction_and_width(name):
    found = meaning_of(named(name))
    assert [found.kind, found.direction, found.bytes] == ACCESSES[name]
    assert found.is_known and found.direction


def test_asynchronous_copies__access_both_memories():
    (copy,) = function("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;").instructions()
    assert meaning_of(copy) == Meaning("global", "load", 16, also_shared="store")
    found = kernel("cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.wait_all;")
    assert sorted((s.space, s.direction, s.bytes) for s in found.accesses()) == [
        ("global", "load", 4), ("shared", "store", 4),
    ]  # fmt: skip
    assert found.instructions() == {"control": 1}


def test_bulk_copies__are_told_not_to_be_counted():
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    found = kernel(
        f"{copy} [%r1], [%rd1], %r2, [%r3]; cp.async.bulk.commit_group;"
        "multimem.cp.async.bulk.global.shared::cta [%rd1], [%r1], %r2;"
    )
    assert found.instructions() == {"control": 3} and not found.accesses()
    assert [note.split(" in line 13 ")[1] for note in found.notes] == [
        "copies as much as a register says: its access to memory is not counted"
    ] * 2


def test_matrix_accesses__are_counted_by_their_registers():
    body = """
        wmma.load.a.sync.aligned.row.m16n16k16.global.f16
            {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1], %r9;
        wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%rd1], {%f1,%f2,%f3,%f4}, %r9;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];
    """
    found = {(s.space, s.direction): (n, s.bytes) for s, n in kernel(body).accesses().items()}
    assert found == {("global", "load"): (2, 16), ("shared", "store"): (1, 16),
                     ("shared", "load"): (1, 8)}  # fmt: skip
    assert all(s.assumed == "a warp accesses a matrix together" for s in kernel(body).accesses())


@pytest.mark.parametrize(("text", "kind", "has_clue"), [
    ("frobnicate.f32 %f1, %f2;", "fp32", True), ("frobnicate.rn.f64 %fd1, %fd2;", "fp64", True),
    ("frobnicate.b32 %r1, %r2;", "integer", True), ("frobnicate.e4m3x4 %r1, %r2;", "fp32", True),
    ("frobnicate;", "integer", False), ("frobnicate.sync.aligned %r1;", "integer", False),
    ("ld2.global.v2.f32 {%f1, %f2}, [%rd1];", "global", True),
    ("st2.shared.b64 [%r1], %rd1;", "shared", True),
])  # fmt: skip
def test_unknown_opcodes__are_counted_by_what_they_tell(text, kind, has_clue):
    found = kernel(f"{text}\n{text}")
    (unknown,) = found.unknown
    assert (unknown.kind, unknown.has_clue, unknown.count, unknown.line) == (kind, has_clue, 2, 13)
    total = sum(found.instructions().values()) + sum(found.accesses().values())
    assert total == 2
    assert unknown.remark().startswith(
        f"Unknown instruction {unknown.name} (line 13, 2 in the text)"
    )


def test_unknown_access__keeps_direction_and_width():
    (load,) = kernel("ld2.global.v2.f32 {%f1, %f2}, [%rd1];").accesses()
    (store,) = kernel("st2.shared.b64 [%r1], %rd1;").accesses()
    assert (load.direction, load.bytes, store.direction, store.bytes) == ("load", 8, "store", 8)


LISTED = [name for names in OPCODES.values() for name in names] + list(ACCESSES)


@given(st.lists(st.sampled_from([*LISTED, "frobnicate", "zork.f32"]), min_size=1, max_size=30))
def test_every_instruction__is_counted_once(names):
    # Opcodes that end a block or need special operands are omitted.
    names = [
        n for n in names if n.split(".")[0] not in ("bra", "brx", "ret", "exit", "trap", "call")
    ]
    found = kernel("\n".join(f"{name};" for name in names))
    words = sum(n / s.words for s, n in found.accesses().items())
    assert sum(found.instructions().values()) + words == len(names)
    assert set(found.instructions()) <= {*CLASSES, "barrier"}

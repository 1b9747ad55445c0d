"""Classes of all opcodes of PTX ISA 1.0 to 9.0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ptx_texts import function, kernel

from sweep.importers.ptx.instructions import Meaning, meaning_of
from sweep.importers.ptx.module import Instruction
from sweep.specs.formats import INSTRUCTION_CLASSES as CLASSES

OPCODES = {
    "integer": """
        add.s32 sub.sat.s32 mul.wide.u32 mul.hi.s64 mad.lo.s32 mul24.lo.u32 mad24.lo.s32 sad.u32
        div.s32 rem.u64 abs.s32 neg.s16 min.u32 max.s64 popc.b32 clz.b64 bfind.u32 fns.b32 brev.b32
        bfe.u32 bfi.b32 szext.wrap.s32 bmsk.clamp.b32 dp4a.u32.u32 dp2a.lo.s32.u32 add.cc.u32
        addc.u32 sub.cc.u32 subc.u32 mad.lo.cc.u32 madc.hi.u32 setp.lt.s32 set.eq.u32.u32 selp.f32
        slct.f32.s32 and.b32 or.pred xor.b64 not.b32 cnot.b32 lop3.b32 shf.l.wrap.b32 shl.b32
        shr.s64 prmt.b32 vote.sync.ballot.b32 vote.all.pred match.any.sync.b32 redux.sync.add.s32
        activemask.b32 elect.sync isspacep.shared istypep.texref getctarank.u32 mapa.u64
        vadd.s32.u32.s32 vmad.u32.u32.u32 vabsdiff4.u32.u32.u32.add vavrg2.s32.s32.s32
        vset.s32.u32.lt min.s16x2 add.u16x2""",
    "fp32": """
        add.rn.f32 sub.ftz.f32 mul.f32 fma.rn.f32 mad.f32 abs.f32 neg.f32 min.NaN.f32 max.f32
        setp.lt.and.f32 set.gt.u32.f32 testp.finite.f32 copysign.f32 add.f16 fma.rn.f16x2 mul.bf16
        fma.rn.relu.bf16x2 add.rn.f32x2 add.rn.f32.f16 setp.gt.f16x2 max.xorsign.abs.f32
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 tcgen05.mma.cta_group::1.kind::f16""",
    "fp64": """
        add.rn.f64 mul.f64 fma.rn.f64 setp.lt.f64 set.le.f32.f64 div.rn.f64 rcp.rn.f64 sqrt.rn.f64
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64""",
    "special": """
        rcp.approx.f32 rcp.rn.f32 sqrt.rn.f32 sqrt.approx.ftz.f32 rsqrt.approx.f32 sin.approx.f32
        cos.approx.f32 lg2.approx.f32 ex2.approx.ftz.f32 ex2.approx.f16x2 tanh.approx.f32
        tanh.approx.bf16 div.full.f32 div.rn.f32 div.approx.f32 rcp.approx.ftz.f64
        rsqrt.approx.f64""",
    "conversion": "cvt.rn.f32.s32 cvt.u32.u16 cvt.rn.f16x2.f32 cvt.pack.sat.u8.s32.b32 cvt.s64.s32",
    "move": """
        mov.u32 mov.b64 mov.pred cvta.to.global.u64 cvta.shared.u64 shfl.sync.down.b32 shfl.idx.b32
        movmatrix.sync.aligned.m8n8.trans.b16 createpolicy.fractional.L2::evict_last.b64
        txq.width.b32
        suq.height.b32 stacksave.u64 alloca.u64 ld.param.u64 ld.const.f32 st.param.b32
        ld.param::entry.u32 ldu.const.b32 tcgen05.cp.cta_group::1.128x256b
        tcgen05.ld.sync.aligned.32x32b.x1.b32""",
    "control": """
        bra bra.uni brx.idx ret exit call.uni trap brkpt nanosleep.u32 pmevent membar.gl
        fence.acq_rel.gpu fence.proxy.async setmaxnreg.inc.sync.aligned.u32
        griddepcontrol.wait prefetch.global.L2 prefetchu.L1 discard.global.L2
        applypriority.global.L2
        stackrestore.u64 mbarrier.init.shared.b64 mbarrier.try_wait.parity.b64 mbarrier.arrive.b64
        bar.arrive bar.warp.sync barrier.cluster.arrive barrier.cta.arrive cp.async.commit_group
        cp.async.wait_group cp.async.wait_all cp.async.bulk.commit_group wgmma.fence.sync.aligned
        wgmma.commit_group.sync.aligned tensormap.replace.tile.rank.global.b1024.b32
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128""",
    "barrier": """
        bar.sync bar.cta.sync barrier.sync.aligned barrier.cta.red.popc.u32 bar.red.or.pred
        barrier.cluster.wait.acquire""",
}
ACCESSES = {
    "ld.global.f32": ("global", "load", 4),
    "ld.global.nc.v4.f32": ("global", "load", 16),
    "ld.volatile.global.v2.u8": ("global", "load", 2),
    "ld.relaxed.gpu.global.L1::no_allocate.b64": ("global", "load", 8),
    "ld.global.v8.b32": ("global", "load", 32),
    "ld.acquire.sys.b128": ("generic", "load", 16),
    "ldu.global.f64": ("global", "load", 8),
    "st.shared.v4.b32": ("shared", "store", 16),
    "st.shared::cluster.f32": ("shared", "store", 4),
    "st.local.u16": ("local", "store", 2),
    "st.f64": ("generic", "store", 8),
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32": ("shared", "store", 16),
    "atom.global.add.f32": ("global", "load", 4),
    "atom.shared.cas.b64": ("shared", "load", 8),
    "atom.global.v4.f32.add": ("global", "load", 16),
    "red.global.add.noftz.f16x2": ("global", "store", 4),
    "red.async.relaxed.cluster.shared::cluster.add.u32": ("shared", "store", 4),
    "tex.2d.v4.f32.s32": ("texture", "load", 16),
    "tld4.r.2d.v4.u32.f32": ("texture", "load", 16),
    "ld.tex.f32": ("texture", "load", 4),
    "suld.b.1d.v2.b32.trap": ("texture", "load", 8),
    "sust.b.2d.b8.trap": ("texture", "store", 1),
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": ("shared", "load", 16),
    "stmatrix.sync.aligned.m8n8.shared.b16": ("shared", "store", 4),
    "multimem.ld_reduce.global.add.v4.f32": ("global", "load", 16),
    "multimem.red.global.add.f64": ("global", "store", 8),
}


def named(name, *operands):
    opcode, *modifiers = name.split(".")
    return Instruction(1, opcode, tuple(modifiers), operands)


@pytest.mark.parametrize("kind", OPCODES)
def test_opcodes__have_their_class(kind):
    found = {name: meaning_of(named(name)).kind for name in OPCODES[kind].split()}
    assert found == dict.fromkeys(found, kind)
    assert all(meaning_of(named(name)).is_known for name in found)


@pytest.mark.parametrize("name", ACCESSES)
def test_accesses__have_space_direction_and_width(name):
    found = meaning_of(named(name))
    assert (found.kind, found.direction, found.bytes) == ACCESSES[name]
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


LISTED = [name for names in OPCODES.values() for name in names.split()] + list(ACCESSES)


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

"""Classes of all opcodes of PTX ISA 1.0 to 9.0, and patterns of access from address arithmetic."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.ptx_texts import CASES, execute, function, kernel

from sweep.importers.ptx.control_flow import control_flow
from sweep.importers.ptx.instructions import meaning_of
from sweep.importers.ptx.machine import MACHINE, machine_counts
from sweep.importers.ptx.module import Instruction
from sweep.importers.ptx.registers import ALIGNED, Values
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


@pytest.mark.parametrize("size", [4, 16, "0x8"])
def test_asynchronous_copies__are_loads(size):
    copy = f"cp.async.ca.shared.global [%r1], [%rd1], {size}, %r2;"
    found = kernel(f"{copy} cp.async.wait_all;")
    (shape,) = found.accesses()
    assert (shape.space, shape.direction, shape.bytes) == ("global", "load", int(str(size), 0))
    assert shape.is_copy
    assert found.instructions() == {"control": 1}


TILES = """
    mov.u32 %r2, 2048;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r2;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r4, %r5}], [%r3];
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
    cp.async.bulk.commit_group;
"""  # noqa: E501


def test_tiles__are_shared_by_the_threads_of_a_block():
    found = kernel(TILES, block=(64, 1, 1))
    moved = {(s.space, s.direction): n * s.bytes for s, n in found.accesses().items()}
    assert moved == {("global", "load"): 2048 / 64,
                     ("global", "store"): 1024 / 64, ("shared", "load"): 1024 / 64}  # fmt: skip
    assert found.instructions() == {"move": 1, "control": 3} and not found.notes
    assert all(s.assumed for s in found.accesses() if s.space == "global")


def test_tiles_of_unknown_size__are_told_not_to_be_counted():
    tensor = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r4, %r5}], [%r1];"
    multimem = "multimem.cp.async.bulk.global.shared::cta [%rd1], [%r1], %r2;"
    found = kernel(f"{TILES}{tensor}{multimem}")  # of any block
    assert found.instructions() == {"move": 1, "control": 7} and not found.accesses()
    assert [note.partition(" in line ")[0].partition(".")[0] for note in found.notes] == [
        "mbarrier", "cp", "cp", "multimem"
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "product"), [
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ("fp16", 16 * 8 * 16, 0)),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", ("int8", 16 * 8 * 32, 0)),
    ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", ("fp64", 8 * 8 * 4, 0)),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", ("fp16", 4 * 8 * 8 * 4, 0)),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", ("fp16", 16**3, 0)),
    ("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", ("fp16", 64 * 256 * 16 / 4, 20)),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", ("fp8", 16 * 8 * 32, 0)),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ("tf32", 16 * 8 * 8, 0)),
    ("tcgen05.mma.cta_group::1.kind::f16", None),
])  # fmt: skip
def test_matrix_instructions__have_the_multiply_adds_of_a_warp(name, product):
    found = meaning_of(named(name))
    assert found.product == product and bool(found.remark) == (product is None)


def test_tensor_memory__is_what_the_text_allocates():
    alloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%rd1]"
    assert kernel(f"{alloc}, 128; {alloc}, 32; {alloc}, %r1;").tensor_columns == 160
    assert kernel("mov.u32 %r1, 128;").tensor_columns == 0


@pytest.mark.parametrize(("step", "passes"), [(16, 1), (128, 8), (144, 1)])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_rows_of_matrices__are_served_eight_at_a_time(step, passes, matrices):
    registers = ", ".join(f"%r{10 + k}" for k in range(matrices))
    (shape,) = kernel(f"""
        mov.u32 %r1, %tid.x;
        xor.b32 %r2, %r1, 0;
        mul.lo.s32 %r3, %r2, {step};
        ldmatrix.sync.aligned.m8n8.x{matrices}.shared.b16 {{{registers}}}, [%r3];
    """, block=(64, 1, 1)).accesses()  # fmt: skip
    assert (shape.bytes, shape.assumed) == (4 * matrices, "")
    assert shape.transactions == (0 if passes == 1 else passes * matrices)


def test_words_that_lanes_share__are_fetched_once():
    body = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 7; mul.wide.u32 %rd1, %r2, 32;"
    load = "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];"  # 32 lanes ask for 16 sectors' bytes
    (shape,) = kernel(f"{body} {load}", block=(64, 1, 1)).accesses()
    assert shape.transactions * shape.words == 8


def test_matrix_accesses__are_counted_by_their_registers():
    body = """
        wmma.load.a.sync.aligned.row.m16n16k16.global.f16
            {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1], %r9;
        wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%rd1], {%f1,%f2,%f3,%f4}, %r9;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];
    """
    found = kernel(body).accesses()
    counts = {(s.space, s.direction): (n, s.bytes) for s, n in found.items()}
    assert counts == {("global", "load"): (2, 16), ("shared", "store"): (1, 16),
                      ("shared", "load"): (1, 8)}  # fmt: skip
    assert all(s.assumed == "a warp accesses a matrix together" for s in found)


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
    assert sum(found.instructions().values()) + sum(found.accesses().values()) == 2
    remark = f"Unknown instruction {unknown.name} (line 13, 2 in the text)"
    assert unknown.remark().startswith(remark)


def test_unknown_access__keeps_direction_and_width():
    (load,) = kernel("ld2.global.v2.f32 {%f1, %f2}, [%rd1];").accesses()
    (store,) = kernel("st2.shared.b64 [%r1], %rd1;").accesses()
    assert (load.direction, load.bytes, store.direction, store.bytes) == ("load", 8, "store", 8)


LISTED = [name for names in OPCODES.values() for name in names] + list(ACCESSES)


@given(st.lists(st.sampled_from([*LISTED, "frobnicate", "zork.f32"]), min_size=1, max_size=30))
@example(["mov.u32"])
def test_every_instruction__is_counted_once(names):
    # Opcodes that end a block or need special operands are omitted.
    omitted = ("bra", "brx", "ret", "exit", "trap", "call")
    names = [name for name in names if name.split(".")[0] not in omitted]
    found = kernel("\n".join(f"{name};" for name in names))
    words = sum(n / s.words for s, n in found.accesses().items())
    several = [sum(MACHINE.get(name, {"": 1}).values()) for name in names]
    assert sum(found.instructions().values()) + words == sum(several)
    assert set(found.instructions()) <= {*CLASSES, "barrier"}


LOADED = """
    ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
"""
STORED = "st.global.b32 [%rd1], %r9; st.global.b64 [%rd1], %rd9; st.global.f32 [%rd1], %f9;"


@pytest.mark.parametrize(("code", "counts"), [  # as ptxas 12.9 compiles them for 8.0
    ("xor.b32 %r5, %r1, %r2; xor.b32 %r6, %r5, %r3; xor.b32 %r9, %r6, %r4;", {"integer": 2}),
    ("add.s32 %r5, %r1, %r2; add.s32 %r9, %r5, %r3;", {"integer": 1}),
    ("add.s32 %r5, %r1, %r2; add.s32 %r9, %r5, %r5;", {"integer": 2}),  # needed twice
    ("add.s32 %r5, %r1, %r2; @%p1 add.s32 %r9, %r5, %r3;", {"integer": 2}),
    ("shl.b32 %r5, %r1, 3; add.s32 %r9, %r5, %r2;", {"integer": 1}),
    ("shl.b32 %r5, %r1, %r2; add.s32 %r9, %r5, %r2;", {"integer": 2}),
    ("mul.wide.s32 %rd5, %r1, %r2; add.s64 %rd9, %rd1, %rd5; add.s64 %rd8, %rd2, %rd5;",
     {"integer": 2}),
    ("mul.f32 %f5, %f1, %f2; add.f32 %f9, %f5, %f3;", {"fp32": 1}),
    ("mul.rn.f32 %f5, %f1, %f2; add.f32 %f9, %f5, %f3;", {"fp32": 2}),
    ("setp.lt.s32 %p1, %r1, %r2; setp.lt.f32 %p2, %f1, %f2; and.pred %p3, %p1, %p2;",
     {"integer": 1, "fp32": 1}),
    ("add.s64 %rd5, %rd1, 64; ld.global.b32 %r9, [%rd5];", {}),
    ("div.full.f32 %f9, %f1, %f2; div.full.f32 %f8, %f3, %f2;", {"special": 1, "fp32": 10}),
    ("div.full.f32 %f9, %f1, 0f41200000;", {"fp32": 1}),
    ("cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h2, %f2; mov.b32 %r9, {%h1, %h2};",
     {"integer": 1}),
    ("and.b32 %r5, %r1, 31; or.b32 %r9, %r5, 32;", {"integer": 2}),
    ("xor.b32 %r5, %r1, -1; and.b32 %r9, %r5, 31;", {"integer": 1}),
    ("and.b64 %rd5, %rd1, %rd2; or.b64 %rd9, %rd5, %rd3;", {"integer": 2}),
    ("cvt.s64.s32 %rd5, %r1; add.s64 %rd9, %rd5, %rd2;", {"integer": 2}),
    ("cvt.s64.s32 %rd5, %r1; shl.b64 %rd6, %rd5, 2; add.s64 %rd9, %rd6, %rd2;", {"integer": 3}),
    ("setp.lt.s64 %p1, %rd1, %rd2; not.pred %p2, %p1; selp.b64 %rd9, %rd3, %rd4, %p2;",
     {"integer": 4}),
    ("mul.ftz.f32 %f5, %f1, %f2; add.f32 %f9, %f5, %f3;", {"fp32": 2}),
    ("div.rn.f32 %f9, %f1, 0f41200000;", {"fp32": 6, "control": 3}),
    ("mov.b64 {%r5, %r6}, %rd1; add.s32 %r9, %r5, %r6;", {"integer": 1}),
])  # fmt: skip
def test_machine__executes_what_ptxas_makes(code, counts):
    assert kernel(LOADED + code + STORED).instructions() == counts
    old = function(LOADED + code + STORED)
    assert machine_counts(control_flow(old), "sm_35") == {}


@pytest.mark.parametrize("name", ["mul", "add.ftz", "fma.rn", "fma.rz.ftz"])
def test_two_products_in_one_instruction__take_the_lanes_twice(name):
    operands = "%rd5, %rd1, %rd2, %rd1" if "fma" in name else "%rd5, %rd1, %rd2"
    code = f"mov.b64 %rd2, {{%f1, %f2}}; {name}.f32x2 {operands}; mov.b64 {{%f3, %f4}}, %rd5;"
    assert kernel(code).instructions() == {"fp32": 2}


PLACE = """
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u32 %r9, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
"""


def shape(body, count=1, **options):
    """Return the shape of the only access, which a thread makes so often."""
    (found,) = kernel(f"{PLACE}{body}\nret;", **options).accesses().items()
    assert found[1] == count
    return found[0]


@pytest.mark.parametrize(("index", "access", "name", "stride", "assumed"), CASES["patterns"])
def test_chains__give_the_pattern(index, access, name, stride, assumed):
    index += "mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3;"
    found = shape(f"{index} {access};")
    assert (found.pattern, bool(found.assumed)) == (name, assumed)
    assert name != "strided" or found.x == stride


@pytest.mark.parametrize("case", CASES["shapes"].values(), ids=CASES["shapes"])
def test_addresses__give_the_shape(case):
    block = tuple(case["block"]) if "block" in case else None
    found = shape(case["body"], case.get("count", 1), block=block)
    expected = {"words": 1, "origin": "", **case["shape"]}
    assert {name: getattr(found, name) for name in expected} == expected
    assert case.get("assumed", "") in found.assumed and bool(found.assumed) == ("assumed" in case)


def test_constants__are_no_accesses():
    constant = kernel("cvta.const.u64 %rd1, table; ld.f32 %f1, [%rd1];")
    assert constant.instructions() == {"move": 2} and not constant.accesses()


@given(st.lists(st.sampled_from([
    "add.s32 %r{}, %r{}, %r{};", "sub.s32 %r{}, %r{}, %r{};", "mul.lo.s32 %r{}, %r{}, %r{};",
    "mad.lo.s32 %r{}, %r{}, %r{}, %r1;", "mov.u32 %r{}, %r{};", "mov.u32 %r{}, {};",
    "shl.b32 %r{}, %r{}, {};", "neg.s32 %r{}, %r{};",
]), max_size=12), st.data())  # fmt: skip
def test_values__hold_for_every_thread(forms, data):
    """Compare the analysis of straight-line code with its execution by the threads of a block."""
    sources = ("5", "%tid.x", "%tid.y", "1", "96")
    code = [f"mov.u32 %r{number}, {source};" for number, source in enumerate(sources)]
    for number, form in enumerate(forms, start=len(code)):
        rest = [data.draw(st.integers(0, number - 1)) for _ in range(form.count("{}") - 1)]
        code.append(form.format(number, *rest))
    f = function("\n".join(code))
    values, threads = Values(f), product((0, 1, 2, 31), (0, 1, 3))
    states = {(x, y): execute(f, **{"%tid.x": x, "%tid.y": y})[1] for x, y in threads}
    for register in (item.operands[0] for item in f.instructions()):
        value = values.of(register)
        if not value.is_affine or None in (value.x, value.y):
            continue
        (rest,) = {state[register] - value.x * x - value.y * y  # the same for all threads
                   for (x, y), state in states.items()}  # fmt: skip
        assert rest % value.alignment == 0 or value.alignment == ALIGNED and rest == 0
        assert value.constant in (None, rest)

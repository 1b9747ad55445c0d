"""Parsing PTX text: dialects of all versions, scopes, and errors in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ptx_texts import CASES, FOLDER, HEAD, fixture, function, written

from sweep.errors import SweepError
from sweep.importers.ptx import parser as parser_module
from sweep.importers.ptx.analysis import analyse
from sweep.importers.ptx.kernel_file import kernel_text
from sweep.importers.ptx.module import Address, Function, Label, Module, PtxError, Register
from sweep.importers.ptx.parser import read_ptx
from sweep.importers.ptx.tokens import integer_of


def test_versions_1__are_read():
    module = fixture("version_1_4")  # the output of the compiler before LLVM
    assert (module.version, module.target) == ("1.4", "sm_10")
    entry = module.entry("sum")
    assert entry.name == "_Z3sumPfi"
    assert [p.name[-1] for p in entry.parameters] == ["a", "n"]
    uses = [i.reads_and_writes for i in entry.instructions()]
    assert {r.width for reads, writes in uses for r in (*reads, *writes) if r.name == "%v"} == {4}
    assert len(list(entry.instructions())) == 17


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ptx")), ids=lambda p: p.stem)
def test_fixtures__are_read_whole(path):
    text = path.read_text(encoding="utf-8")
    module = read_ptx(text)
    assert text.count(".entry") == len(module.entries)
    lines = [line.split("//")[0] for line in text.splitlines()]
    for f in module.functions.values():
        for item in f.body:
            # The operands of a call span several lines; the first line has the opcode.
            end = f"{item.name}:" if isinstance(item, Label) else ""
            line = lines[item.line - 1].strip()
            assert item.name in line and line.endswith(end)


def test_operands__of_every_form():
    body = """
        ld.global.v2.f32 {%f1, %f2}, [%rd1+-8];
        setp.lt.and.s32 %p1|%p2, %r1, -3, !%p3;
        @!%p1 tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [picture, {%r1, %r2}];
        mov.b64 %rd1, tile+16;
        mov.f32 %f1, 0fBF800000;
        st.shared.u32 [64], %r1;
        call.uni (%f1), other, (%f2, 3);
    """
    code = list(function(body).instructions())
    assert [[written(operand) for operand in item.operands] for item in code] == [
        [("%f1", "%f2"), Address("%rd1", -8)],
        [("%p1", "%p2"), "%r1", "-3", "%p3"],
        [("%f1", "%f2", "%f3", "%f4"), Address("picture", 0, ("%r1", "%r2"))],
        ["%rd1", "tile"],
        ["%f1", "0fBF800000"],
        [Address("", 64), "%r1"],
        [("%f1",), "other", ("%f2", "3")],
    ]
    assert (code[2].predicate.name, code[2].negated) == ("%p1", True)
    assert code[0].name == "ld.global.v2.f32"


def test_scopes__hide_names_of_others():
    body = """
        { .reg .b64 %a; .reg .pred p; mov.b64 %a, 0; AGAIN: @p bra AGAIN; { bra AGAIN; } }
        { .reg .f64 %a<3>; mov.f64 %a1, %fd1; AGAIN: bra AGAIN; }
    """
    f = function(body)
    code = list(f.instructions())
    first, second = code[0].operands[0], code[3].operands[0]
    assert first is not second and (first.width, second.width) == (2, 2)
    labels = [item for item in f.body if isinstance(item, Label)]
    assert [code[i].targets for i in (1, 2, 4)] == [(labels[i],) for i in (0, 0, 1)]
    assert code[3].operands[1].name == "%fd1"


def test_registers__by_family():
    words = "%r99, %rd0, %p1, %h1, %fd3, %r100, %r, %tid, %rdx, 12"
    (item,) = function(f"zork {words};").instructions()
    widths = [word.width if isinstance(word, Register) else None for word in item.operands]
    assert widths == [1, 2, 0, 1, 2, *[None] * 5]


def test_variables__sizes_and_alignments():
    text = """.version 7.0 .target sm_80
        .global .align 8 .u64 addresses[3] = {generic(a), b+4, 0};
        .visible .shared .align 16 .v4 .f32 quads[2][8];
        .extern .shared .align 16 .b8 more[];
        .const .f32 numbers[4] = {1.0, 2.5e3, 0f3F800000, 4};
        .shared .u16 x, y[2];
    """
    found = {v.name: (v.space, v.bytes, v.alignment) for v in read_ptx(text).variables}
    assert found == {
        "addresses": ("global", 24, 8), "quads": ("shared", 256, 16), "more": ("shared", None, 16),
        "numbers": ("const", 16, 4), "x": ("shared", 2, 2), "y": ("shared", 4, 2),
    }  # fmt: skip


def test_directives__of_versions_up_to_9():
    module = fixture("version_9_0")
    entry = module.entry("k")
    assert entry.limits["reqntid"] == (16, 8) and entry.limits["maxnreg"] == (64,)
    assert [(p.bytes, p.points_to) for p in entry.parameters] == [(48, ""), (8, "global")]
    (branch,) = (item for item in entry.instructions() if item.opcode == "brx")
    assert [label.name for label in branch.targets] == ["L1", "L2"]
    assert not module.functions["f"].has_body


@pytest.mark.parametrize(("module", "name", "message"), [
    (fixture("fixed_loop"), None, "3 kernels: choose one of fixed_loop, nested_loops, open"),
    (fixture("fixed_loop"), "nested_loop", "no kernel 'nested_loop'; did you mean 'nested_loops'"),
    (read_ptx(".version 1.0 .target sm_10"), None, "there is no kernel"),
])  # fmt: skip
def test_entry__is_chosen_by_name(module, name, message):
    with pytest.raises(PtxError, match=message):
        module.entry(name)


BODIES = [(f"{HEAD}{b}" + "\n}\n" * (b.count("{") < 100), m) for b, m in CASES["wrong_bodies"]]


@pytest.mark.parametrize(("text", "message"), [*CASES["wrong_texts"], *BODIES])
def test_wrong_text__is_one_line_with_its_place(text, message):
    with pytest.raises(PtxError, match=message) as caught:
        read_ptx(text)
    first = HEAD.count("\n") + 1 if text.startswith(HEAD) else 1
    assert "\n" not in str(caught.value) and caught.value.line >= first


def test_size__is_limited(monkeypatch):
    monkeypatch.setattr(parser_module, "LARGEST_TEXT", 1000)
    with pytest.raises(PtxError, match="a text may have 1000 at most"):
        read_ptx("/" * 1001)
    monkeypatch.setattr("sweep.importers.ptx.parser.LARGEST_BODY", 3)
    with pytest.raises(PtxError, match="more than 3 instructions in a function"):
        function("ret; " * 4)


def attempt(text):
    """Read every kernel of a text, or see it refused with one line."""
    try:
        module = read_ptx(text)
        for name in module.entries:
            kernel_text(analyse(module.functions[name], block=(64, 1, 1)))
    except SweepError as error:
        assert "\n" not in str(error)


@given(st.text(alphabet='.{}[]()<>;:,@!%$"/*+-=| \nverionaetgfublcsmd0129xf_', max_size=120))
def test_garbage__is_refused_or_read(text):
    for whole in (text, f".version 9.0\n.target sm_75\n{text}", f"{HEAD}{text}\n}}\n"):
        attempt(whole)


@given(st.sampled_from(sorted(FOLDER.glob("*.ptx"))), st.data())
def test_damaged_fixture__is_refused_or_read(path, data):
    text = path.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(1, 80))
    put = data.draw(st.sampled_from(["", "", "%r1", "-", "$L__BB0_2", "9", ".f64", "bra", "}"]))
    attempt(f"{text[:start]}{put}{text[start + length :]}")


def test_integers__of_every_base():
    texts = ("12", "-12", "0x1FU", "017", "0b101", "0", "0f3F800000", "%r1", "", "1.5", "9" * 80)
    assert [integer_of(t) for t in texts] == [12, -12, 31, 15, 5, 0, *[None] * 5]


@pytest.mark.parametrize(("name", "plain"), [
    ("_Z3addPf", "add"), ("_ZN4file6kernelB2v1B4cw51E", "file::kernel"),
    ("add_kernel", "add_kernel"), ("_Z", "_Z"), ("_Zx", "_Zx"), ("12345", "12345"),
])  # fmt: skip
def test_plain_name__leaves_out_what_was_added(name, plain):
    assert Function(Module(), name, True, 1).plain_name == plain

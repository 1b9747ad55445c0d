"""Unusual, hostile or long PTX: calls, many stages, many loops, long code."""

import math
import time

import pytest
from support.ptx_texts import (
    HEAD,
    file_of,
    graph,
    kernel,
    memory_instructions,
    total,
    value,
    with_derived,
)

from sweep.importers.ptx.analysis import MOST_NOTES, analyse
from sweep.importers.ptx.kernel_file import MOST_LOOPS, MOST_SHAPES, MOST_UNKNOWN, kernel_text
from sweep.importers.ptx.lanes import runs_of
from sweep.importers.ptx.module import PtxError
from sweep.importers.ptx.parser import read_ptx
from sweep.importers.ptx.stages import MAX_STAGES
from sweep.importers.ptx.summary import check_complete

N = 10_000
LABELS = "".join(f"L{i}:\n" for i in range(N))


def test_calls__recursive_missing_and_many():
    text = HEAD.replace(".visible .entry", """
        .func f(.param .b32 x) { .reg .b32 %r<3>; L: add.s32 %r1, %r1, 1; call f, (x);
            setp.ne.s32 %r2, %r1, 4; @%r2 bra L; ret; }
        .extern .func (.param .b32 r) printf (.param .b64 a);
        .func g() { call f, (x); call f, (x); }
        .visible .entry""")  # fmt: skip
    found = analyse(read_ptx(f"{text} call (r), printf, (a); call g; ret; }}").entry())
    assert sorted(note.split(": ")[1] for note in found.notes) == [
        "it calls itself", "its code is not in this text",
    ]  # fmt: skip
    # g calls f twice; the loops of both copies share one size.
    assert [loop.size for loop in found.graph.loops] == ["trip_L", "trip_L"]
    assert found.instructions({"trip_L": 5})["integer"] == 2 * 5 * 2
    file = file_of(found)
    assert list(file.sizes) == ["threads", "trip_L"]
    assert {stage.loop for stage in file.stages} == {None, "L", "L (2)"}


def test_calls__that_double_are_cut_off(monkeypatch):
    monkeypatch.setattr("sweep.importers.ptx.module.LARGEST_EXPANSION", 1000)
    calls = "".join(f".func f{i}() {{ call f{i - 1}; call f{i - 1}; }}" for i in range(1, 40))
    text = f".version 8.0 .target sm_80 .func f0() {{ ret; }} {calls} .entry k() {{ call f39; }}"
    found = analyse(read_ptx(text).entry())
    assert "too much code" in found.notes[0] and len(found.notes) <= MOST_NOTES + 1


def test_many_stages__are_cut_less_finely():
    body = "ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f2;\n" * (MAX_STAGES + 10)
    found = kernel(body)
    assert found.how == "barriers" and len(found.stages) == 1
    assert found.notes == ("too many stages: the code is cut by 'barriers', not by 'tasks'",)
    assert kernel("bar.sync 0;\n" * (MAX_STAGES + 10)).how == "tasks"  # no accesses: one period
    short = "bar.sync 0;\n" + body.partition("\n")[0] + "\n"
    assert kernel(short * (MAX_STAGES + 10), stages="barriers").how == "loops"


def test_many_of_everything__stay_readable():
    strided = "".join(
        f"mul.wide.u32 %rd{i % 90 + 5}, %r1, {8 + 4 * i}; ld.global.f32 %f1, [%rd{i % 90 + 5}];"
        f"mul.lo.u32 %r5, %r1, {4 * i}; ld.shared.f32 %f2, [%r5];\n"
        for i in range(MOST_SHAPES)
    )
    unknown = "".join(f"zork{i}.f32 %f1, %f2;\n" for i in range(MOST_UNKNOWN + 20))
    loops = "".join(
        f"mov.u32 %r2, 0; L{i}: add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 9; @%p1 bra L{i};\n"
        for i in range(MOST_LOOPS + 20)
    )
    found = kernel(f"mov.u32 %r1, %tid.x; {strided} {unknown} {loops}", stages="none")
    file = file_of(found)
    accesses = (*file.global_accesses, *file.shared_accesses)
    assert len(accesses) < MOST_SHAPES and total(*accesses) == 2 * MOST_SHAPES
    assert "20 more unknown instructions are counted likewise" in file.text
    assert f"There are {MOST_LOOPS + 20} loops in all" in file.text
    assert sum(u.count for u in found.unknown) == MOST_UNKNOWN + 20


@pytest.mark.parametrize("body", [
    "".join(f"@%p1 bra L{i};\n" for i in range(N)) + LABELS + "E: ret;",
    LABELS + "E: add.s32 %r1, %r1, 1;\n" + "".join(f"@%p1 bra L{i};\n" for i in range(N)),
    "".join(f"@%p1 bra E;\nL{i}: @%p2 bra F;\n" for i in range(N)) + "E: F: ret;",
], ids=["forward", "back", "exits"])  # fmt: skip
def test_many_labels__cost_linear_time(body):
    start = time.process_time()
    options = {"branches": {"E": 0.5}} if "bra E" in body else {}
    kernel_text(kernel(body, **options))
    assert time.process_time() - start < 15  # seconds; each label with all others takes minutes


def test_many_loops_of_few_turns__are_not_all_followed():
    """A loop's turns take a second; those of a thousand would take half an hour."""
    loop = "mov.u32 %r2, 0; L{}: ld.global.f32 %f1, [%rd1]; add.s64 %rd1, %rd1, %rd2;"
    loop += "add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 1000; @%p1 bra L{};\n"
    start = time.process_time()
    address = "ld.param.u64 %rd3, [p]; mov.u32 %r1, %tid.x; mad.wide.s32 %rd1, %r1, 64, %rd3;"
    kernel(address + "".join(loop.format(i, i) for i in range(100)), block=(1024, 1, 1))
    assert time.process_time() - start < 15  # seconds


def test_many_loops__are_found_in_linear_time():
    found = graph("".join(f"L{i}: @%p1 bra L{i};\n" for i in range(N)) + "ret;")
    start = time.process_time()
    assert len(runs_of(found)[0]) == N + 1
    assert time.process_time() - start < 2  # seconds; each loop through all blocks takes ten


def test_phases__are_those_of_the_loop_with_most_accesses():
    body = """
      A: ld.global.f32 %f1, [%rd1]; st.shared.f32 [%r9], %f1; bar.sync 0; mov.u32 %r2, 0;
      B: ld.shared.f32 %f1, [%r9]; ld.shared.f32 %f2, [%r9]; add.s32 %r2, %r2, 1;
         setp.lt.s32 %p2, %r2, 8; @%p2 bra B;
         add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r4; @%p1 bra A; ret;
    """
    loops = file_of(kernel(body)).expressions
    assert value(loops["loops.outer"], trip_A=50) == 50
    assert [value(loops["loops.inner"], trip_A=trips) for trips in (50, 0)] == [16, 1]


def test_many_open_loops__are_refused():
    body = "".join(f"L{i}: add.s32 %r1, %r1, 1; @%p1 bra L{i};\n" for i in range(201))
    with pytest.raises(PtxError, match="line 213: more than 200 loops have no constant trip count"):
        kernel(body)
    body = body.replace("L200", "X").replace("@%p1 bra X", "bra Y; Y:")
    assert len(file_of(kernel(body)).sizes) == 201
    # A long sum is written in parts.
    file = file_of(kernel(body, stages="none"))
    values = with_derived(file, dict.fromkeys(file.sizes, 2.0))
    assert value(file.expressions["instructions.integer"], **values) == 401


def test_nested_open_loops__multiply():
    body = """
      A: add.s32 %r1, %r1, 1;
      B: setp.ge.s32 %p2, %r2, %r5; @%p2 bra BOUT;
        ld.global.f32 %f1, [%rd1]; add.s32 %r2, %r2, 1; bra B;
      BOUT: setp.lt.s32 %p1, %r1, %r4; @%p1 bra A; ret;
    """
    for how in ("tasks", "none"):
        found = kernel(body, stages=how)
        file = file_of(found)
        values = with_derived(file, {"trip_A": 5.0, "trip_B": 7.0})
        assert total(*file.global_accesses, **values) == 5 * 7
        # The test of B is executed once more than its body.
        assert found.instructions(values)["control"] == 5 * (2 * 7 + 1) + 5 + 1
    assert memory_instructions(kernel(body, trips={"B": 2.5}), {"trip_A": 2}) == 5
    (note,) = kernel(body, trips={"*": 4}).notes
    assert note.startswith("loops within each other repeat 4 times each, as --trip '*' says")
    for named in ({"A": 4, "B": 4}, {"*": 4, "B": 4}):
        assert not kernel(body, trips=named).notes
    with pytest.raises(PtxError, match="give --trip 'A=N' .*, loops within each other"):
        check_complete(kernel(body), HEAD + body)


@pytest.mark.slow
def test_large_text__is_read_at_once():
    """40,000 instructions with branches and loops: time grows with the length, not its square."""
    body = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4;\n" + "".join(
        f"mov.u32 %r2, 0;\nL{i}: ld.global.f32 %f{i % 50}, [%rd1+{4 * i}];\n"
        f"fma.rn.f32 %f{i % 50}, %f{i % 49}, %f{i % 47}, %f{i % 43};\nadd.s32 %r2, %r2, 1;\n"
        f"setp.lt.s32 %p1, %r2, {i % 7 + 2};\n@%p1 bra L{i};\nsetp.eq.s32 %p2, %r1, {i};\n"
        f"@%p2 bra M{i};\nmul.f32 %f1, %f2, %f3;\nadd.f32 %f1, %f2, %f3;\nM{i}:\n"
        for i in range(4000)
    )
    found = kernel(body)
    assert found.how == "none" and not found.sizes
    assert memory_instructions(found) == sum(i % 7 + 2 for i in range(4000))
    assert math.isclose(sum(found.instructions().values()),
                        2 + sum(4 * (i % 7 + 2) + 5 for i in range(4000)))  # fmt: skip
    assert len(kernel_text(found)) < 20_000

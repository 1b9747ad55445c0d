"""Blocks, dominators, loops, shares and live registers, compared with their definitions."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ptx_texts import execute, function, graph, kernel

from sweep.importers.ptx.control_flow import control_flow
from sweep.importers.ptx.kernel_file import kernel_text
from sweep.importers.ptx.module import PtxError
from sweep.importers.ptx.registers import live_registers
from sweep.importers.ptx.stages import STAGES
from sweep.importers.ptx.summary import summary


@st.composite
def bodies(draw, most=9):
    """Draw code with branches between arbitrary blocks."""
    n = draw(st.integers(1, most))
    lines = []
    for number in range(n):
        lines.append(f"B{number}:")
        for _ in range(draw(st.integers(0, 2))):
            registers = [f"%r{draw(st.integers(1, 5))}" for _ in range(3)]
            lines.append(f"add.s32 {', '.join(registers)};")
        target = draw(st.integers(0, n - 1))
        end = draw(st.sampled_from(["", "@%p1 bra B{};", "bra B{};", "ret;", "@%p1 ret;"]))
        lines.append(end.format(target))
    return "\n".join(lines)


def reached(starts, avoided=None, edges="successors"):
    """Return the blocks that are reachable from some without passing a given one."""
    seen, waiting = {avoided}, [*starts]
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting += getattr(block, edges)
    return seen - {avoided}


@given(bodies())
def test_dominators__are_what_every_path_passes(body):
    found = graph(body)
    blocks = set(found.blocks)
    assert blocks == reached(found.blocks[:1])
    for block in found.blocks:
        others = {other for other in blocks if not block.dominates(other)}
        assert others == reached(found.blocks[:1], block)
        forward = [s for s in block.successors if not s.dominates(block)]
        # The blocks are in topological order.
        back = {s for s in forward if s.number < block.number}
        assert back == {after for before, after in found.irreducible if before is block}
    for block in found.blocks[1:]:
        strict = [d for d in blocks - {block} if d.dominates(block)]
        assert [d for d in strict if all(o.dominates(d) for o in strict)] == [block.idom]


@given(bodies())
def test_loops__are_the_natural_ones(body):
    found = graph(body)
    members = {}
    for block in found.blocks:
        for header in block.successors:
            if header.dominates(block):
                inside = reached([block], header, "predecessors")
                members[header] = members.get(header, {header}) | inside
    assert {loop.header for loop in found.loops} == set(members)
    for loop in found.loops:
        blocks = members[loop.header]
        assert {block for block in found.blocks if block in loop} == blocks
        assert set(loop.exits) == {b for b in blocks if set(b.successors) - blocks}
        assert loop.header.depth == sum(loop.header in around for around in members.values())
        around = [o for o in found.loops if o is not loop and loop.header in members[o.header]]
        assert loop.parent is min(around, key=lambda o: len(members[o.header]), default=None)
        places = [found.blocks.index(block) for block in blocks]
        assert max(places) - min(places) == len(blocks) - 1  # in one piece


def live_by_paths(f):
    """Return the largest number of live registers, by fixed-point iteration."""
    blocks, live = control_flow(f).blocks, defaultdict(frozenset)
    for _ in range(len(blocks) + 1):
        most = 0
        for block in blocks:
            here = frozenset().union(*(live[s] for s in block.successors))
            for item in reversed(block.instructions):
                reads, writes = map(frozenset, item.reads_and_writes)
                after = here | writes
                here = (after if item.predicate else after - writes) | reads
                most = max(most, *(sum(r.width for r in some) for some in (here, after)))
            live[block] = here
    return most


@given(bodies())
def test_live_registers__as_by_definition(body):
    f = function(body)
    assert live_registers(control_flow(f)) == live_by_paths(f)


def test_live_registers__widths_and_predicates():
    # Two 64-bit registers and one of 32 bits are live before the store; a predicate takes none.
    body = """
        mov.u64 %rd1, 1; mov.u64 %rd2, 2; mov.f32 %f1, 0f00000000; setp.ne.u64 %p1, %rd1, 0;
        @%p1 st.global.f32 [%rd1], %f1;
        st.global.u64 [%rd2], %rd1;
        ret;
    """
    assert kernel(body).registers == 5
    assert kernel("ret;").registers == 1  # a thread has at least one


@given(bodies(), st.sampled_from(STAGES))
def test_code_of_any_shape__is_counted_and_written(body, stages):
    found = kernel(body, stages=stages)
    assert {block.share for block in found.graph.blocks} == {1.0}
    # With one iteration each, loops with a test at their end execute every instruction once.
    total = sum(found.instructions().values())
    assert total >= sum(len(block.instructions) for block in found.graph.blocks)
    kernel_text(found)


DIAMOND = """
    mov.u32 %r1, 0;
    @%p1 bra THEN;
    add.u32 %r2, %r1, 1;
    bra JOIN;
  THEN:
    mul.lo.u32 %r2, %r1, 3;
    mul.lo.u32 %r2, %r1, 3;
    @%p2 bra INNER;
    mul.lo.u32 %r2, %r1, 5;
  INNER:
    mul.lo.u32 %r2, %r1, 7;
  JOIN:
    sub.u32 %r3, %r2, 1;
    ret;
"""


@pytest.mark.parametrize(("shares", "counts"), [
    ({}, {"move": 1, "integer": 6, "control": 4}),  # both sides in full, and once after them
    # mov, the branch, 3/4 (add, bra), 1/4 (mul, mul, branch, nothing, mul), sub, ret
    ({"THEN": 0.25, "INNER": 1}, {"move": 1, "integer": 0.75 + 0.25 * 3 + 1,
                                  "control": 1 + 0.75 + 0.25 + 1}),
    ({"INNER": 0.5}, {"move": 1, "integer": 1 + 2 + 0.5 + 1 + 1, "control": 4}),
])  # fmt: skip
def test_branches__count_by_their_share(shares, counts):
    assert kernel(DIAMOND, branches=shares).instructions() == pytest.approx(counts)


def test_summary__names_branches_whose_sides_both_count():
    named = {"": "THEN, INNER", "THEN": "INNER", "INNER": "THEN"}
    for known, left in named.items():
        said = "\n".join(summary(kernel(DIAMOND, branches={known: 0.5} if known else {})))
        assert f"both sides count of branches to {left} (--branch), L2" in said
    loop = "L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r4; @%p1 bra L; ret;"
    for body in (loop, loop.replace("@%p1", "@%p2 bra E; @%p1").replace("ret", "E: ret")):
        assert "both sides" not in "\n".join(summary(kernel(body)))
    many = "".join(f"@%p{n} bra E{n}; neg.s32 %r1, %r1; E{n}: not.b32 %r1, %r1;" for n in range(6))
    assert "to E0, E1, E2, E3 and 2 more (--branch)" in "\n".join(summary(kernel(f"{many} ret;")))


@pytest.mark.parametrize(("test", "grid", "share"), [
    ("setp.ge.s32 %p1, %r7, 32;", (1000, 40, 1), 0.8),
    ("setp.ge.s32 %p2, %r7, 32; not.pred %p1, %p2;", (1000, 40, 1), 1),  # not followed
    ("setp.lt.s32 %p1, %r6, 1;", (4, 1, 1), 0.75),
    ("rem.u32 %r5, %r6, 2; setp.eq.s32 %p1, %r5, 0;", (2**20, 1, 1), 0.5),
    ("setp.lt.s32 %p1, %r6, %r9;", (4, 1, 1), 1),  # an argument
    ("add.s32 %r5, %r6, %r8; setp.lt.s32 %p1, %r5, 1;", (4, 1, 1), 1),  # the thread's index
    ("setp.lt.s32 %p1, %r6, 1;", None, 1),
])  # fmt: skip
def test_branches_by_the_index_of_the_block__have_the_share_of_the_grid(test, grid, share):
    found = kernel(f"""
        mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ctaid.y; mov.u32 %r8, %tid.x; ld.param.u32 %r9, [n];
        {test}
        @%p1 bra OTHER;
        add.f32 %f1, %f1, %f2;
        bra.uni END;
        OTHER: add.f64 %d1, %d1, %d2;
        END: ret;
    """, block=(32, 1, 1), grid=grid).instructions()  # fmt: skip
    assert found["fp32"] == share and found["fp64"] == (
        1 if share == 1 else pytest.approx(1 - share)
    )


LOOP = "L: add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, %r2;\n@%p1 bra L;\nret;"


@pytest.mark.parametrize(("body", "options", "message"), [
    (DIAMOND, {"branches": {"THEM": 0.5}}, "no conditional branch to 'THEM'; did you mean 'THEN'"),
    (DIAMOND, {"branches": {"JOIN": 0.5}}, "no conditional branch to 'JOIN'"),
    (DIAMOND, {"branches": {"THEN": 1.5}}, "share of branch THEN = 1.5: outside the range 0 to 1"),
    (DIAMOND, {"branches": {"THEN": float("nan")}}, "share of branch THEN = nan"),
    (DIAMOND, {"trips": {"THEN": 2}}, "no loop at 'THEN' .there is none"),
    (DIAMOND, {"trips": {"THEN": -2}}, "trip count THEN = -2: outside the range"),
    (DIAMOND, {"block": (0, 1, 1)}, "a block of 0 x 1 x 1"),
    (DIAMOND, {"stages": "all"}, "stages 'all': one of tasks, barriers, loops, none"),
    (LOOP, {"branches": {"L": 0.9}}, "line 15: the branch to 'L' repeats a loop: give its trip"),
])  # fmt: skip
def test_options__wrong_ones_are_named(body, options, message):
    with pytest.raises(PtxError, match=message):
        kernel(body, **options)


def test_loops__are_limited_in_depth():
    n = 65
    body = "".join(f"L{i}: add.s32 %r1, %r1, 1;\n" for i in range(n))
    body += "".join(f"@%p1 bra L{i};\n" for i in reversed(range(n)))
    with pytest.raises(PtxError, match="line 77: more than 64 loops within each other"):
        kernel(body)
    assert kernel(body.replace("L64", "X").replace("bra X", "bra L63")).graph.loops[-1]


@pytest.mark.parametrize(("body", "counts", "note"), [
    ("@%p1 bra B;\nA: add.s32 %r1, %r1, 1;\nB: add.s32 %r1, %r1, 2;\n@%p1 bra A;\nret;",
     {"integer": 2, "control": 3},
     "the jump to B in line 14 repeats code with several entries: counted once"),
    ("bra END; add.s32 %r1, %r1, 1; END: ret;", {"control": 2},
     "1 instructions are never reached and not counted"),
], ids=["jump into a loop", "code out of reach"])  # fmt: skip
def test_odd_code__is_noted(body, counts, note):
    found = kernel(body)
    assert (found.instructions(), found.notes) == (counts, (note,))


def test_the_machine__executes_what_the_tests_rest_on():
    f = function("mov.u32 %r1, 0;\nL: add.s32 %r1, %r1, 2;\nsetp.lt.s32 %p1, %r1, 7;\n@%p1 bra L;")
    assert list(execute(f)[0].values()) == [1, 4, 4, 4]

"""Trip counts, compared with an interpreter of the loops, and in the forms of compilers."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ptx_texts import CASES, execute, fixture, function, kernel

from sweep.importers.ptx.analysis import analyse
from sweep.importers.ptx.control_flow import executions
from sweep.importers.ptx.module import PtxError


def trips(body, **options):
    return [loop.trips for loop in kernel(body, **options).graph.loops]


BOTTOM = """
    mov.u32 %r1, {start};
  L:
    add.s32 %r2, %r1, {step};
    {late}
    setp.{compare}.s32 %p1, {tested}, {bound};
    {end}
    @{negation}%p1 bra L;
    ret;
"""
TOP = """
    mov.u32 %r3, 0;
    mov.u32 %r1, {start};
  L:
    setp.{compare}.s32 %p1, %r1, {bound};
    @{negation}%p1 bra END;
    add.s32 %r3, %r3, 1;
    add.s32 %r1, %r1, {step};
    bra L;
  END:
    ret;
"""
# As NVRTC 12.9 writes for 10.0: turns of 9 before a rest, which follows from half a product, and a
# loop of two iterations that a predicate ends.
REST_OF_NINE = """
    mov.u32 %r1, {n};
    add.s32 %r2, %r1, -1;
    mul.hi.u32 %r3, %r2, 954437177;
    shr.u32 %r3, %r3, 1;
    mul.lo.s32 %r3, %r3, 9;
    sub.s32 %r3, %r2, %r3;
    add.s32 %r4, %r3, 1;
    setp.eq.s32 %p1, %r4, 9;
    selp.b32 %r5, 0, %r4, %p1;
    sub.s32 %r6, %r5, %r1;
  L:
    add.s32 %r6, %r6, 9;
    setp.ne.s32 %p2, %r6, 0;
    @%p2 bra L;
    ret;
"""
BY_PREDICATE = """
    mov.pred %p2, {first};
  L:
    mov.pred %p1, %p2;
    add.f32 %f1, %f1, %f1;
    mov.pred %p2, 0;
    @{negation}%p1 bra L;
    ret;
"""
COMPARE = st.sampled_from(["lt", "le", "gt", "ge", "ne", "eq"])
SMALL = st.integers(-30, 30)


@pytest.mark.parametrize("n", [9, 10, 17, 18, 376])
def test_trips__of_turns_before_a_rest(n):
    assert trips(REST_OF_NINE.format(n=n)) == [n // 9]


@pytest.mark.parametrize(("first", "negation", "expected"), [
    ("-1", "", 2), ("0", "", 1), ("-1", "!", 1),
])  # fmt: skip
def test_trips__of_a_loop_that_a_predicate_ends(first, negation, expected):
    assert trips(BY_PREDICATE.format(first=first, negation=negation)) == [expected]


def check(body):
    """Compare the counts with those of an execution, if it terminates."""
    f = function(body)
    try:
        executed, _ = execute(f, most=3000)
    except AssertionError:
        return  # endless, or too long
    graph, expected = analyse(f).graph, Counter()
    if any(loop.trips is None for loop in graph.loops):
        return
    for block in graph.blocks:
        for instruction in block.instructions:
            expected[instruction.line] += block.share * executions(block.passage, {})
    lines = {item.line for item in f.instructions()}
    assert {line: executed[line] for line in lines} == {line: expected[line] for line in lines}


@given(SMALL, SMALL, SMALL, COMPARE, st.booleans(), st.integers(0, 2))
def test_loops_that_end_by_a_test__count_as_executed(start, step, bound, compare, negated, form):
    # The counter changes before the test, after it, or the test uses its old value.
    late, tested, end = [
        ("mov.u32 %r1, %r2;", "%r1", ""),
        ("", "%r2", "mov.u32 %r1, %r2;"),
        ("", "%r1", "mov.u32 %r1, %r2;"),
    ][form]
    negation = "!" if negated else ""
    check(BOTTOM.format(**locals()))


@given(SMALL, SMALL, SMALL, COMPARE, st.booleans())
def test_loops_that_begin_with_a_test__count_as_executed(start, step, bound, compare, negated):
    check(TOP.format(start=start, step=step, bound=bound, compare=compare,
                     negation="!" if negated else ""))  # fmt: skip


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_loops_within_each_other__count_as_executed(outer, middle, inner, is_top):
    test = "setp.ge.s32 %p3, %r3, {0}; @%p3 bra OUT;" if is_top else ""
    check(f"""
        mov.u32 %r1, 0;
      A: mov.u32 %r2, {middle};
      B: mov.u32 %r3, 0;
      C: {test.format(inner)}
        add.s32 %r3, %r3, 1;
        {"bra C;" if is_top else f"setp.ne.s32 %p3, %r3, {inner}; @%p3 bra C;"}
      OUT:
        sub.s32 %r2, %r2, 1; setp.gt.s32 %p2, %r2, 0; @%p2 bra B;
        add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, {outer}; @%p1 bra A;
        ret;
    """)


UNROLLED = """
    {known}
    setp.lt.s32 %p6, %r15, 1; @%p6 bra END;
    add.s32 %r28, %r15, -1; and.b32 %r41, %r15, 3; setp.lt.u32 %p7, %r28, 3;
    mov.u32 %r40, 0; @%p7 bra REST;
    sub.s32 %r39, %r15, %r41;
  FOUR: add.s32 %r40, %r40, 4; sub.s32 %r39, %r39, 4; setp.ne.s32 %p8, %r39, 0; @%p8 bra FOUR;
  REST: setp.eq.s32 %p9, %r41, 0; @%p9 bra END;
  ONE: add.s32 %r40, %r40, 1; add.s32 %r41, %r41, -1; setp.ne.s32 %p10, %r41, 0; @%p10 bra ONE;
  END: ret;
"""
"""As NVRTC unrolls a loop to %r15: four at once, then the rest, behind tests that skip each."""


@given(st.integers(-5, 40))
def test_unrolled_loops_with_a_rest__count_as_executed(n):
    body = UNROLLED.format(known=f"mov.u32 %r15, {n};")
    check(body)
    assert trips(body) == [max(n // 4, 0), n % 4 if n > 0 else 0]


@pytest.mark.parametrize(("arguments", "expected"), [
    ({}, [None, 0]), ({"0": 100}, [None, 0]), ({"1": 102}, [25, 2]), ({"1": 0}, [0, 0]),
])  # fmt: skip
def test_arguments_of_the_kernel__decide_loops_and_branches(arguments, expected):
    f = function(UNROLLED.format(known="ld.param.u32 %r15, [n];"))
    analysis = analyse(f, arguments=arguments)
    assert [loop.trips for loop in analysis.graph.loops] == expected


@pytest.mark.parametrize(("arguments", "why"), [
    ({"3": 1}, "argument 3: the kernel has 3, counted from 0"),
    ({"n": 1}, "argument n: the kernel has 3, counted from 0"),
    ({"1": 0.5}, "argument 1 = 0.5: must be an integer"),
])  # fmt: skip
def test_arguments__refused(arguments, why):
    with pytest.raises(PtxError, match=why):
        analyse(function("ret;"), arguments=arguments)


def test_loops_are_not_missed():
    body = {"start": 3, "step": 5, "bound": 1000, "compare": "lt", "negation": "",
            "late": "mov.u32 %r1, %r2;", "tested": "%r1", "end": ""}  # fmt: skip
    assert trips(BOTTOM.format(**body)) == [200]
    assert trips(TOP.format(**body | {"compare": "ge"})) == [200]
    huge = body | {"bound": 2**31 - 1, "step": 1, "start": 0}
    assert trips(BOTTOM.format(**huge)) == [2**31 - 1]


@pytest.mark.parametrize(("step", "start", "test", "expected"), CASES["steps"])
def test_steps__of_every_form(step, start, test, expected):
    body = f"mov.u32 %r1, {start}; mov.u64 %rd1, {start};\nL: {step}\nsetp.{test};\n@%p1 bra L;ret;"
    assert trips(body) == [None if expected == "unknown" else expected]


COUNTED = "L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra L;"


@pytest.mark.parametrize(("body", "expected"), [
    # Not every iteration executes the test.
    ("mov.u32 %r1, 0; L: add.s32 %r1, %r1, 1; @%p5 bra B; setp.lt.s32 %p1, %r1, 9; @%p1 bra L;"
     "ret; B: bra L;", [None]),
    ("mov.u32 %r1, 0; L: add.s32 %r1, %r1, 1; @!%p5 bra B; bra L;"
     "B: setp.lt.s32 %p1, %r1, 9; @%p1 bra L; ret;", [None]),
    # The counter starts at different numbers.
    (f"@%p5 bra L; mov.u32 %r1, 0; {COUNTED} ret;", [None]),
    (f"@%p5 mov.u32 %r1, 0; {COUNTED} ret;", [None]),
    # The loop around it begins anew with 0, with 3 from the second time on, or with 9.
    (f"mov.u32 %r2, 0; O: mov.u32 %r1, 0; {COUNTED} add.s32 %r2, %r2, 1;"
     "setp.lt.s32 %p2, %r2, 4; @%p2 bra O; ret;", [4, 9]),
    (f"mov.u32 %r2, 0; mov.u32 %r1, 0; O: mov.u32 %r9, 0; {COUNTED} mov.u32 %r1, 3;"
     "add.s32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, 4; @%p2 bra O; ret;", [4, None]),
    (f"mov.u32 %r2, 0; mov.u32 %r1, 0; O: mov.u32 %r9, 0; {COUNTED} add.s32 %r2, %r2, 1;"
     "setp.lt.s32 %p2, %r2, 4; @%p2 bra O; ret;", [4, None]),
    # It starts as a copy of a register that the loop, or the loop around it, changes.
    ("mov.u32 %r7, 0; mov.u32 %r1, %r7; L: add.s32 %r7, %r7, %r8; add.s32 %r1, %r1, 4;"
     "setp.ne.s32 %p1, %r1, 600; @%p1 bra L; ret;", [150]),
    (f"mov.u32 %r2, 0; mov.u32 %r7, 0; O: mov.u32 %r1, %r7; {COUNTED} mov.u32 %r7, 3;"
     "add.s32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, 4; @%p2 bra O; ret;", [4, None]),
    (f"mov.u32 %r2, 0; O: mov.u32 %r7, 5; mov.u32 %r1, %r7; {COUNTED} mov.u32 %r7, 3;"
     "add.s32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, 4; @%p2 bra O; ret;", [4, 4]),
    # The tested register is 100, 101 and 102, and only then follows the counter.
    ("mov.u32 %r1, 0; mov.u32 %r4, 102; mov.u32 %r5, 101; mov.u32 %r6, 100;"
     "L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r6, 150; mov.u32 %r6, %r5; mov.u32 %r5, %r4;"
     "mov.u32 %r4, %r1; @%p1 bra L; ret;", [153]),
])  # fmt: skip
def test_trips__depend_on_how_the_counter_comes_about(body, expected):
    assert trips(body) == expected


def test_loop_that_is_entered_by_falling_through__has_its_first_label():
    body = "bra H; A: add.s32 %r1, %r1, 1; X: H: setp.lt.s32 %p1, %r1, %r2; @%p1 bra A; ret;"
    assert [loop.label.name for loop in kernel(body).graph.loops] == ["X"]


def test_two_reasons_to_leave__give_the_most():
    for joined, expected in (("and", (50, "most")), ("or", (None, "open"))):
        (loop,) = kernel(f"""mov.u32 %r1, 0;
            L: add.s32 %r1, %r1, 1; setp.lt.f32 %p1, %f1, %f2; setp.lt.s32 %p2, %r1, 50;
            {joined}.pred %p3, %p1, %p2; @%p3 bra L; ret;""").graph.loops
        assert (loop.trips, loop.origin) == expected


def test_block_size__makes_a_bound_known():
    for block, expected in (
        (None, ("open", "trip_L__BB0_1", None)),
        ((512, 1, 1), ("constant", "", 9)),
    ):
        (loop,) = analyse(fixture("reduction").entry("reduction"), block=block).graph.loops
        assert (loop.origin, loop.size, loop.trips) == expected


def test_trip_count__is_given_with_or_without_its_dollar():
    for entry, label in (
        ("open_loops", "$L__BB2_6"), ("open_loops", "L__BB2_6"),
        ("fixed_loop", "L__BB0_1"),  # the user's value takes precedence over a constant
    ):  # fmt: skip
        f = fixture("fixed_loop").entry(entry)
        loops = {c.label.name: c for c in analyse(f, trips={label: 7}).graph.loops}
        loop = loops[f"${label.removeprefix('$')}"]
        assert (loop.trips, loop.origin) == (7, "given")


def test_open_loops__count_by_their_names():
    found = analyse(fixture("fixed_loop").entry("open_loops"))
    assert found.sizes == {"trip_L__BB2_3": 1, "trip_L__BB2_5": 1, "trip_L__BB2_6": 1}
    sizes = {"trip_L__BB2_5": 10, "trip_L__BB2_6": 20}
    (load,) = [n for s, n in found.accesses(sizes).items() if s.direction == "load"]
    assert load == 200


@pytest.mark.parametrize("loop", [
    "WAIT: mbarrier.try_wait.parity.b64 %p1, [%r1], %r2; @!%p1 bra WAIT;",
    "WAIT: mbarrier.test_wait.b64 %p1, [%r1], %rd2; @%p1 bra DONE; bra WAIT; DONE:",
])  # fmt: skip
def test_loops_that_wait_for_copies__end_at_the_first_look(loop):
    found = kernel(f"{loop} ret;")
    assert found.instructions() == {"control": 3} and not found.open_loops
    assert found.graph.loops[0].origin == "nobody waits"


REST = """
    {known}
    mov.u32 %r1, %tid.x;
    sub.s32 %r2, %r15, %r1;
    and.b32 %r3, %r2, 3;
  L:
    add.s32 %r3, %r3, -1;
    setp.ne.s32 %p1, %r3, 0;
    @%p1 bra L;
    ret;
"""


def test_rest_of_an_unrolled_loop__is_none_if_nothing_tells_it():
    unknown = REST.format(known="ld.param.u32 %r15, [n];")
    (loop,) = kernel(unknown).graph.loops
    assert (loop.trips, loop.origin) == (0, "an unrolled loop leaves none")
    known = REST.format(known="mov.u32 %r15, 66;")  # thread 32 of 64 has 34 & 3 iterations
    assert [x.trips for x in kernel(known, block=(64, 1, 1)).graph.loops] == [2]
    assert trips(unknown, trips={"L": 3}) == [3] and trips(unknown, trips={"*": 3}) == [0]
    other = unknown.replace("%r3, %r2, 3;", "%r3, %r2, 5;")  # no mask of low bits
    assert trips(other) == [None] and trips(other, trips={"*": 3}) == [3]

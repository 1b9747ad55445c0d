"""Loads that are under way together, and products beside a loop's next step."""

import pytest
from support.ptx_texts import file_of, kernel, value

from sweep.importers.ptx.control_flow import executed
from sweep.importers.ptx.copies import goes_on_beside_products

USE = "add.f32 %f9, %f9, %f{};"
LOOP = """\
    mov.u32 %r2, 0;
L:  {}
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p1, %r2, {};
    @%p1 bra L;
"""


def load(number, address="%rd1", modifiers="f32"):
    return f"ld.global.{modifiers} %f{number}, [{address}];"


@pytest.mark.parametrize(("body", "together"), [
    (load(1) + load(2) + USE.format(1), 2),
    (load(1) + USE.format(1) + load(2) + USE.format(2), 2),  # the second is moved up
    (load(1) + "bar.sync 0;" + load(2), 1),
    (load(1) + load(2) + "bar.sync 0;" + load(3) + load(4), 2),
    # The second address is what the first load brings.
    ("ld.global.b64 %rd2, [%rd1];" + load(1, "%rd2") + load(2), 1.5),
    ("mov.f32 %f2, 0f0; @%p1 ld.global.f32 %f2, [%rd1];" + load(1), 2),
    # A store that waits for a load may change what is loaded after it, unless nobody writes that.
    (load(1) + "st.global.f32 [%rd3], %f1;" + load(2), 1),
    (load(1) + "st.global.f32 [%rd3], %f8;" + load(2), 2),
    (load(1) + "st.shared.f32 [%r3], %f1;" + load(2), 2),
    (load(1) + "st.global.f32 [%rd3], %f1;" + load(2, modifiers="nc.f32"), 2),
    (load(1) + "atom.global.add.f32 %f3, [%rd3], %f1;" + load(2), 1.5),
    ("ld.global.v8.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%rd1];", 2),  # two words of 16 bytes
    (LOOP.format(load(1) + load(2), 5) + load(3), 11 / 6),
    ("st.global.f32 [%rd1], %f1;", 1),
])  # fmt: skip
def test_loads__wait_for_data_stores_and_barriers(body, together):
    file = file_of(kernel(body, stages="loops"))
    assert value(file.expressions["parallelism.memory"]) == pytest.approx(together)
    assert ("parallelism.memory" in file.sources) == (together > 1)


def test_loads__are_no_more_than_registers_hold():
    found = kernel("".join(map(load, range(1, 31))), stages="none")
    ((_, waits),) = found.waits.amount(10).items()
    assert (waits, executed(found.waits.amount(30), {})) == (3, 1)


def test_loads__of_unknown_loops_are_weighted_by_their_trips():
    file = file_of(kernel(load(1) + LOOP.format(load(1) + load(2), "%r9"), stages="loops"))
    together = file.expressions["parallelism.memory"]
    assert [value(together, trip_L=n) for n in (1, 9)] == [1.5, 1.9]


def test_copies__before_a_loop_are_waited_for_once():
    copy = "cp.async.cg.shared.global [%r1], [%rd1], 16;" * 3 + "cp.async.commit_group;"
    body = copy * 2 + LOOP.format(f"cp.async.wait_group 1; bar.sync 0; {copy}", 8)
    file = file_of(kernel(body, stages="loops"))
    assert value(file.expressions["parallelism.memory"]) == 3


@pytest.mark.parametrize(("waits", "goes_on"), [([1], 1), ([0], 0), ([1, 0], 0), ([], 0)])
def test_products__of_the_step_before_are_waited_for(waits, goes_on):
    product = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1;"
    code = product + "".join(f"wgmma.wait_group.sync.aligned {n};" for n in waits)
    found = kernel(LOOP.format(code, 8) + "wgmma.wait_group.sync.aligned 0;")
    assert goes_on_beside_products(found.graph) == bool(goes_on)
    asynchronous = file_of(found).expressions.get("matrix.asynchronous")
    assert (value(asynchronous) if asynchronous else 0) == goes_on
    assert not goes_on_beside_products(kernel(code).graph)

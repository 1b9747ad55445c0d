"""How passes are compiled."""

import gc

import numpy as np
import pytest
from numba.core.errors import TypingError

from sweep.jit import compile_pass


@pytest.fixture
def collections():
    """How often the garbage collector has begun, by now."""
    begun = []

    def count(phase, _):
        if phase == "start":
            begun.append(phase)

    gc.callbacks.append(count)
    yield begun
    gc.callbacks.remove(count)


def add(one, other):
    for i in range(one.size):
        one[i] += other[i]


@pytest.mark.parametrize("is_on", [True, False])
def test_collector_rests_while_a_pass_is_compiled(collections, is_on, monkeypatch):
    monkeypatch.setenv("SWEEP_CACHE_DIR", "")
    numbers = np.arange(4.0)
    compile_pass(add, "add")(numbers.copy(), numbers)  # what is imported then is not the compiler's
    compiled, total = compile_pass(add, "add"), numbers.copy()
    threshold = gc.get_threshold()
    gc.set_threshold(20)
    (gc.enable if is_on else gc.disable)()
    try:
        collections.clear()
        compiled(total, numbers)
        assert len(collections) <= 50 * is_on  # hundreds without a rest
        assert gc.isenabled() == is_on
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    assert total.tolist() == [0, 2, 4, 6]


def test_collector_goes_on_after_what_cannot_be_compiled():
    with pytest.raises(TypingError):
        compile_pass(add, "add")(np.arange(4.0), "text")
    assert gc.isenabled()

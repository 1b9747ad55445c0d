"""Values of search spaces that are Python expressions."""

from __future__ import annotations

import pytest

from sweep.importers.tuners.search_space import MOST_VALUES, listed
from sweep.specs import load_kernel


@pytest.mark.parametrize(("text", "expected"), [
    ("[1, 2.5, -3]", [1, 2.5, -3]), ("('a', \"b\", True)", ["a", "b", True]),
    ("range(3)", [0, 1, 2]), ("list(range(32, 128+1, 32))", [32, 64, 96, 128]),
    ("[2**i for i in range(0, 6)]", [1, 2, 4, 8, 16, 32]),
    ("[1] + [16*i for i in range(1,3)] + list(range(5, 3, -1))", [1, 16, 32, 5, 4]),
    ("[i // 2 % 3 - 1 for i in [4, 10]]", [1, 1]), (" []", []),
])  # fmt: skip
def test_values__as_python_has_them(text, expected):
    assert listed(text) == expected


@pytest.mark.parametrize("text", [
    "__import__('os').getcwd()", "open('x')", "[x]", "[i for i in range(3) if i]",
    "[i for i in range(3) for j in range(3)]", "[[i] for i in range(3)]", "[0].copy()", "{1, 2}",
    "[1] * 3", "7", "range()", "range(1.5)", f"range({MOST_VALUES + 1})", "[9**9**9]",
    "[2**i for i in [1000]]", "[1 // 0]", "[1, 2", "(" * 500, "list(3)", "[lambda: 1]", "[i := 3]",
])  # fmt: skip
def test_values__what_is_refused(text):
    with pytest.raises(ValueError, match="."):
        listed(text)


HOTSPOT = {  # as kernels/hotspot_milo.json of AutoTuningAssociation/benchmark_hub has them
    "block_size_x": "[1, 2, 4, 8, 16] + list(range(32, 1024+1, 32))",
    "block_size_y": "[2**i for i in range(0, 6)]",
    "tile_size_x": "[i for i in range(1, 11)]",
    "tile_size_y": "[i for i in range(1, 11)]",
    "temporal_tiling_factor": "[i for i in range(1, 11)]",
    "loop_unroll_factor_t": "[i for i in range(1, 10+1)]",
    "sh_power": "[0, 1]",
}


def test_hotspot__has_the_published_values():
    parameters = load_kernel("hotspot").parameters
    assert {name: listed(text) for name, text in HOTSPOT.items()} == {
        name: list(parameters[name]) for name in HOTSPOT
    }

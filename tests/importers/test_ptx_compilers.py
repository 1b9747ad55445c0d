"""Kernels as three compilers write them: from PTX to a predicted time."""

import importlib.util
import json
from collections import defaultdict
from pathlib import Path

import pytest

from sweep.cli import main
from sweep.importers.ptx.analysis import ANY, analyse
from sweep.importers.ptx.parser import read_ptx

FOLDER = Path(__file__).parents[1] / "data" / "ptx" / "compilers"
N = 4096.0
OPEN = {"c": N, "n": N}

# What is known of the launch, and the trip count of the loops for which the text does not tell it;
# those of softmax are equal.
GIVEN = {
    ("cuda", "saxpy"): ({}, []),
    ("numba", "saxpy"): ({}, []),
    ("triton", "saxpy"): ({}, []),
    ("cuda", "stencil"): ({"block": (32, 8, 1)}, []),
    ("numba", "stencil"): ({"block": (32, 8, 1)}, []),
    ("triton", "stencil"): ({}, []),
    ("cuda", "reduction"): ({"block": (256, 1, 1)}, ["n / 64"]),
    ("numba", "reduction"): ({"block": (256, 1, 1)}, ["n / 256"]),
    ("triton", "reduction"): ({}, []),
    ("cuda", "matmul"): ({"block": (16, 16, 1)}, ["n / 16"]),
    ("numba", "matmul"): ({"block": (16, 16, 1)}, ["n / 16"]),
    ("triton", "matmul"): ({}, ["n / 32"]),
    ("cuda", "softmax"): ({"block": (256, 1, 1)}, ["c / 1024"]),
    ("numba", "softmax"): ({"block": (256, 1, 1)}, ["c / 1024"]),
    ("triton", "softmax"): ({}, []),
    ("triton", "tiles"): ({}, ["n / 64"]),
}

# Bytes that a thread loads from and stores to global memory, and its single-precision
# instructions where they can be counted by hand. Triton's threads have eight elements of saxpy, and
# two of the stencil. Its loop of matmul has two steps before it; 64 x 64 x 32 are 16 products of
# 16 x 8 x 16 for each of four warps; the tiles of an H100 are 128 x 64 and 64 x 128 halves, for 256
# threads, and the size of the tile that they store is not in the text. Triton's reduction and
# softmax have eight elements a thread.
EXPECTED = {
    ("cuda", "saxpy"): (8, 4, 1), ("numba", "saxpy"): (8, 4, 1), ("triton", "saxpy"): (64, 32, 8),
    ("cuda", "stencil"): (20, 4, 5), ("numba", "stencil"): (20, 4, 5),
    ("triton", "stencil"): (40, 8, 10),
    ("cuda", "reduction"): (4 * N / 64 + 4, 0, N / 64 + 8),
    ("numba", "reduction"): (4 * N / 64 + 4, 0, None), ("triton", "reduction"): (32 + 4, 0, None),
    ("cuda", "matmul"): (8 * N / 16, 4, N), ("numba", "matmul"): (8 * N / 16, 4, N),
    ("triton", "matmul"): (64 * N / 32, 128, None),
    ("cuda", "softmax"): (3 * 4 * N / 256, 4 * N / 256, None),
    ("numba", "softmax"): (3 * 4 * N / 256, 4 * N / 256, None),
    ("triton", "softmax"): (32, 32, None),
    ("triton", "tiles"): (128 * N / 64, 0, None),
}  # fmt: skip


# All accesses to global memory are coalesced, but the left and the right neighbour of the stencil,
# and the one address to which a reduction adds. Triton's stencil has a second row of lanes.
OTHERS = {
    ("cuda", "stencil"): {"misaligned": 2}, ("numba", "stencil"): {"misaligned": 2},
    **dict.fromkeys([(c, "reduction") for c in ("cuda", "numba", "triton")], {"broadcast": 1}),
}  # fmt: skip
GUESSED = {("numba", "reduction"): 3 / 4, ("numba", "softmax"): 3 / 4, ("cuda", "matmul"): 1}
"""Parts of the loads that are assumed, not found, to be coalesced.

A step of Numba's loops, of which four are unrolled, is selected by a counter; rows of a matrix are
a run-time argument apart.
"""


def check_patterns(shapes, case):
    others, loads = defaultdict(float), defaultdict(float)
    for shape, n in shapes.items():
        if shape.space != "global":
            continue
        if shape.pattern != "coalesced":
            others[shape.pattern] += n
        if shape.direction == "load" and not shape.origin:
            loads[bool(shape.assumed)] += n
    assert dict(others) == OTHERS.get(case, {})
    assert loads[True] == GUESSED.get(case, 0) * sum(loads.values())


def check(text, case):
    """Check counts and patterns of one kernel's PTX."""
    given, counts = GIVEN[case]
    function = read_ptx(text).entry(None)
    found = analyse(function, trips=dict.fromkeys(counts and [ANY], *counts), **given)
    assert not found.open_loops and not found.unknown
    sizes = {x.size: eval(x.formula, {}, OPEN) for x in found.graph.loops if x.formula}
    moved = defaultdict(float)
    check_patterns(found.accesses(sizes), case)
    for shape, n in found.accesses(sizes).items():
        assert not shape.assumed or given or shape.origin == "tile", shape
        moved[shape.space, shape.direction] += n * shape.bytes
    loads, stores, floats = EXPECTED[case]
    assert (moved["global", "load"], moved["global", "store"]) == (loads, stores)
    assert floats in (None, found.instructions(sizes).get("fp32"))
    return found


@pytest.mark.parametrize("case", EXPECTED, ids=" ".join)
def test_counts_are_those_of_the_source(case):
    found = check((FOLDER / f"{'_'.join(case)}.ptx").read_text(encoding="utf-8"), case)
    if case == ("triton", "softmax"):  # lanes exchange their sums, and no bank is asked twice
        assert not any(s.transactions for s in found.accesses() if s.space == "shared")


def test_products_of_matrices__are_those_of_the_source():
    """Of one step: 64 x 64 x 32 by four warps, and 128 x 128 x 64 by eight."""
    matmul, tiles = (64 * 64 * 32 / 4, 2048, 0), (128**2 * 64 / 8, 32768, (64 + 128) * 32 / 128 / 4)
    for kernel, (step, each, passes) in {"matmul": matmul, "tiles": tiles}.items():
        text = (FOLDER / f"triton_{kernel}.ptx").read_text(encoding="utf-8")
        found = analyse(read_ptx(text).entry(None), trips={ANY: 10})
        assert found.products() == {("fp16", each, passes): 10 * step / each}


@pytest.mark.slow
@pytest.mark.parametrize("case", EXPECTED, ids=" ".join)
def test_two_commands_from_ptx_to_a_time(case, capsys, folder):
    path = FOLDER / f"{'_'.join(case)}.ptx"
    given, counts = GIVEN[case]
    words = [f"--trip={ANY}={count}" for count in counts]
    words += [f"--block={','.join(map(str, sides))}" for sides in given.values()]
    words += [f"--size={name}={N}" for name in "cn" if any(name in str(n) for n in counts)]
    assert main(["ptx", str(path), *words, "-o", "kernel.toml"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 10 and max(map(len, lines)) <= 100 and len(words) <= 3
    plan = 'schema = 1\nkernels = ["./kernel.toml"]\ndevices = ["DEVICE"]\n'
    plan = plan.replace("DEVICE", "h100_sxm" if case[1] == "tiles" else "a100_40gb")
    Path("plan.toml").write_text(plan, encoding="utf-8")
    assert main(["best", "plan.toml", "--format", "csv", "--columns", "execution_time"]) == 0
    time = float(capsys.readouterr().out.split()[1])
    assert 1e-6 < time < 0.1
    assert main(["explain", "plan.toml", "--format", "json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained["results"]["execution_time"] == pytest.approx(time, rel=1e-3)


COMPILERS = {"cuda": "sweep", "triton": "triton", "numba": "numba_cuda"}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILERS)
def test_real__compilers_write_what_is_on_record(name, monkeypatch):
    """With ``pip install -e '.[compilers]'``; NVRTC alone comes with the extra ``compile``."""
    if name == "cuda":
        pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    if importlib.util.find_spec(COMPILERS[name]) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.syspath_prepend(str(FOLDER))
    texts = importlib.import_module(f"kernels_{name}").all_texts()
    for kernel, text in texts.items():
        check(text, (name, kernel))

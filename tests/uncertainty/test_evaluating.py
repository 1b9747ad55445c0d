"""Times with numbers that are off are those of files that say these numbers."""

import re

import numpy as np
import pytest
from support.pages import shown_files

from sweep.evaluation.planned import Planned
from sweep.models import model_names
from sweep.query import top
from sweep.space import Plan, resolve
from sweep.specs import load_device, load_kernel
from sweep.uncertainty.evaluating import Sampled, grouped

TIMES = "execution_time"
FEW = {"xgemm": {"MWG": [64, 128], "NWG": [64], "KWG": [16, 32], "VWM": [1, 4]}}
"""Values of some parameters: what numbers do to a time, any part of the space shows."""


def sampled_of(kernel, device, model, n=3, **keys):
    """Return the best few configurations of a plan and their rows."""
    space = resolve(Plan((kernel,), (device,), (model,), **{"precision": "float64"} | keys))
    return Sampled.of(space, list(top(Planned(space), n)))


def with_number(text, path, factor):
    """Return a file's text with one of its numbers multiplied."""
    table, _, key = path.rpartition(".")
    head, _, rest = text.partition(f"[{table}]")
    changed = re.sub(rf"(?m)^{key} = ([\d.e+]+)", lambda m: f"{key} = {float(m[1]) * factor!r}",
                     rest, count=1)  # fmt: skip
    assert changed != rest, path
    return f"{head}[{table}]{changed}"


CASES = [
    ("xgemm", "rtx_2080_ti", model, "chip.memory_bandwidth_GBps", 0.9) for model in model_names()
] + [
    ("xgemm", "rtx_2080_ti", "combined", "microbenchmark.dram_read_bandwidth_GBps", 1.09),
    ("xgemm", "rtx_2080_ti", "combined", "microbenchmark.l2_near_latency_cycles", 1.1),
    ("xgemm", "rtx_2080_ti", "luo_suda", "microbenchmark.fp32_latency_cycles", 1.1),
    ("xgemm", "rtx_2080_ti", "combined", "model.combined.l1_cycles", 0.93),
    ("mat_tiled", "gtx_980_paper", "wang_chu", "model.wang_chu.l2_del_cycles", 1.2),
    ("convolution", "radeon_pro_w7800", "combined", "chip.memory_bandwidth_GBps", 1.05),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "device", "model", "path", "factor"), CASES)
def test_device__numbers_are_as_if_its_file_had_them(kernel, device, model, path, factor):
    keys = {"variant": "revised", "precision": "float64",
            "axes": {"core_clock_ratio": [0.8, 1.0], **FEW.get(kernel, {})}}  # fmt: skip
    sampled = sampled_of(kernel, device, model, **keys)
    (number,) = (one for one in sampled.parameters if one.name == path)
    own = sampled.only([number])
    place = 0.5 + (factor - 1.0) / number.share / 2.0
    found = own.times(np.array([[0.5], [place], [0.0]]))[1]
    texts = {
        "devices": {device: with_number(load_device(device).text, path, factor)},
        "kernels": {kernel: load_kernel(kernel).text},
    }
    space = resolve(Plan((kernel,), (device,), (model,), **keys), texts)
    for row, time in zip(sampled.rows, found, strict=True):
        (same,) = top(Planned(space), 1, select=row.configuration)
        assert time == pytest.approx(same[TIMES], rel=1e-12)


COUNTS = [
    ("global_access.x.count", "count = 2", "count = {}"),
    ("instructions.integer", "integer = 8", "integer = {}"),
]


def test_kernel__counts_are_as_if_its_file_had_them(saxpy):
    text, parse = saxpy
    for path, line, changed in COUNTS:
        value = float(line.split()[-1])
        space, number = parse(text), f"kernel: {path}"
        rows = list(top(Planned(space), 2))
        sampled = Sampled.of(space, rows, {number: 0.5})
        (own,) = (one for one in sampled.parameters if one.name == number)
        found = sampled.only([own]).times(np.array([[0.0], [0.75]]))
        for factor, times in zip((0.5, 1.25), found, strict=True):
            other = parse(text.replace(line, changed.format(value * factor)))
            for row, time in zip(rows, times, strict=True):
                (same,) = top(Planned(other), 1, select=row.configuration)
                assert time == pytest.approx(same[TIMES], rel=1e-12)
        assert (found[0] != found[1]).all()


@pytest.fixture
def saxpy():
    """Return the text of a kernel file and what makes a space of one."""
    text = shown_files()["saxpy.toml"].replace('name = "x_and_y"', 'name = "x"')
    device = load_device("rtx_3080").text
    plan = Plan(("saxpy",), ("rtx_3080",), ("combined",), precision="float64", variant="revised")
    return text, lambda text: resolve(
        plan, {"devices": {"rtx_3080": device}, "kernels": {"saxpy": text}}
    )


@pytest.mark.slow
@pytest.mark.parametrize("device", ["rtx_2080_ti", "radeon_pro_w7800", "gtx_980_paper"])
@pytest.mark.parametrize("model", model_names())
def test_many_samples_are_evaluated_as_each_alone(model, device):
    kernel = "xgemm" if device != "gtx_980_paper" else "transpose"
    axes = {"k": [512, 4096]} | FEW["xgemm"] if kernel == "xgemm" else {}
    sampled = sampled_of(kernel, device, model, 2, variant="revised", axes=axes)
    points = np.random.default_rng(1).random((12, len(sampled.parameters)))
    together = sampled.times(points)
    alone = np.concatenate([sampled.times(point[np.newaxis]) for point in points])
    assert together == pytest.approx(alone, rel=1e-12) and np.isfinite(together).all()
    # In the middle of every range stand the numbers of the files.
    nominal = sampled.times(np.full((1, len(sampled.parameters)), 0.5))[0]
    assert nominal == pytest.approx([row[TIMES] for row in sampled.rows], rel=1e-12)


def test_configurations_at_several_clocks_keep_their_columns():
    axes = {"core_clock_ratio": [0.7, 1.0], "memory_clock_ratio": [0.8, 1.0]}
    sampled = sampled_of("vector_add", "gtx_980_paper", "hong_kim", 30, axes=axes)
    assert len({row["core_clock_ratio"] for row in sampled.rows}) == 2
    found = sampled.times(np.full((2, len(sampled.parameters)), 0.5))
    expected = np.array([row[TIMES] for row in sampled.rows])
    assert found == pytest.approx(np.stack([expected, expected]), rel=1e-12)


def test_rows_are_grouped_by_kernel_device_and_model():
    one = {"kernel": "a", "device": "b", "model": "c"}
    rows = [one, one | {"model": "d"}, one, one | {"status": "constraint"}]
    assert list(grouped(rows)) == [(("a", "b", "c"), [0, 2]), (("a", "b", "d"), [1])]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["convolution", "cyclic_reduction", "spmv_ell", "xgemm"])
def test_whole_numbers_of_a_kernel_are_not_varied(kernel):
    """Registers and flags that a derived name gives: the least change would be a step."""
    keys = {"variant": "revised", "axes": FEW.get(kernel, {})}
    sampled = sampled_of(kernel, "radeon_pro_w7800", "combined", **keys)
    numbers = len(sampled.parameters)
    points = np.full((numbers + 1, numbers), 0.5)
    points[1:] += 1e-8 * np.eye(numbers)
    times = sampled.times(points)
    assert np.allclose(times, times[0], rtol=1e-4, atol=0.0)
    names = {one.path for one in sampled.parameters}
    assert not names & {"derived.equations", "derived.vector_bytes"}
    assert not names & {"derived.loaded_a", "derived.is_rolled", "derived.rolled"}


@pytest.mark.parametrize("model", ["combined", "luo_suda"])
def test_what_rules_assume_of_a_device_is_varied_as_if_its_file_had_it(model):
    """A data sheet alone: of DRAM 600 cycles are assumed, which threads wait for."""
    text = load_device("rtx_3080").text.replace("core_clock_MHz = 1740", "core_clock_MHz = 1710")
    lacking = re.sub(r'(?m)^"?(microbenchmark\.)?dram_latency_cycles\b.*\n', "", text)
    says = "[microbenchmark]\ndram_latency_cycles = 720"
    source = '[source]\n"microbenchmark.dram_latency_cycles" = "assumed: 720"'
    told = lacking.replace("[microbenchmark]", says).replace("[source]", source)
    spaces = [
        resolve(Plan(("vector_add",), ("rtx_3080",), (model,), variant="revised"),
                {"devices": {"rtx_3080": text},
                 "kernels": {"vector_add": load_kernel("vector_add").text}})
        for text in (lacking, told)
    ]  # fmt: skip
    rows = [list(top(Planned(space), 2)) for space in spaces]
    sampled = Sampled.of(spaces[0], rows[0])
    (own,) = (one for one in sampled.parameters if one.name == "assumed.dram_latency_cycles")
    assert (own.kind, own.value, own.share) == ("assumed", 600.0, 0.3)
    rest = {one.name for one in Sampled.of(spaces[1], rows[1]).parameters if "assumed" in one.name}
    assert rest <= {f"assumed.dram_piece_{size}_factor" for size in (64, 128, 256)}
    nominal, longer = sampled.only([own]).times(np.array([[0.5], [0.5 + 0.2 / 0.3 / 2.0]]))
    for i, row in enumerate(rows[0]):
        (same,) = top(Planned(spaces[1]), 1, select=row.configuration)
        assert (nominal[i], longer[i]) == pytest.approx((row[TIMES], same[TIMES]), rel=1e-6)
    assert (longer > nominal).all()

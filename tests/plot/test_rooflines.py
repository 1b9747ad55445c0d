"""Rooflines: places of configurations, and ceilings, by hand from kernel and device files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.legend import Legend
from support import synthetic

import sweep
from sweep import plot
from sweep.cli import main
from sweep.errors import QueryError
from sweep.plot.ceilings import device_of
from sweep.plot.rooflines import COUNTS
from sweep.specs import load_device

PLAN = sweep.Plan(
    kernels=["mat_tiled", "convolution"],
    devices=["rtx_4090", "mi210"],
    models=["combined"],
    outputs=("execution_time", "regime", "occupancy", "cycles_per_instruction", *COUNTS),
    axes={"block_size_x": (16, 32), "block_size_y": (4,), "tile": (8, 16)},
)
DATA = sweep.open(PLAN)
ONE = {"kernel": "convolution", "device": "rtx_4090"}


def dots(figure) -> np.ndarray:
    found = [c.get_offsets() for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    return np.concatenate(found)


def levels(figure) -> dict[str, float]:
    """Return the heights of the lines that end level, by their last points."""
    lines = [line.get_ydata() for line in figure.axes[0].lines if line.get_marker() == "None"]
    return {f"{y[-1]:.4g}" for y in lines}


def texts(figure) -> str:
    legends = [child for child in figure.get_children() if isinstance(child, Legend)]
    own = [text.get_text() for legend in legends for text in legend.get_texts()]
    return "\n".join([*own, *(text.get_text() for text in figure.axes[0].texts)])


def test_counts__are_those_of_the_kernel_file():
    found = DATA["convolution"].sel(device="rtx_4090").isel(model=0).load()
    size = found.image_width.item() * found.image_height.item()
    valid = found.execution_time > 0
    filters = found.filter_width.item() * found.filter_height.item()
    work = found.floating_point_instructions.where(valid)
    assert np.nanmin(work) == pytest.approx(size * filters, rel=1e-6)  # a multiply-add an element
    assert (found.thread_instructions >= work).where(valid, True).all()
    # At the least each pixel is read and written once.
    assert np.nanmin(found.dram_bytes.where(valid)) >= 2 * 4 * size


def test_roofline__shows_configurations_below_the_devices_ceilings():
    figure = plot.roofline_plot(DATA, select=ONE)
    device = load_device("rtx_4090").values
    lanes = device["chip.lanes_per_sm"] * device["chip.sm_count"] * device["clocks.core_nominal"]
    assert {f"{lanes / 1e9:.4g}"} <= levels(figure)
    x, y = dots(figure).T
    assert (y < np.minimum(lanes / 1e9, x * device["chip.memory_bandwidth"] / 1e9)).all()
    (best,) = sweep.best(DATA, by=(), select=ONE, include=COUNTS)
    (star,) = [line for line in figure.axes[0].lines if line.get_marker() == "*"]
    work = best["floating_point_instructions"]
    assert star.get_xdata()[0] == pytest.approx(work / best["dram_bytes"])
    assert star.get_ydata()[0] == pytest.approx(work / best["execution_time"] / 1e9)
    shown = texts(figure)
    for part in ("DRAM: 1,008 GB/s", "FP32: 41,288", "regime load store", "fastest: ", "% of the"):
        assert part in shown


def test_roofline__of_a_kernel_without_floats_counts_all_instructions():
    figure = plot.roofline_plot(DATA, select={"kernel": "mat_tiled", "device": "mi210"},
                                variable="tile")  # fmt: skip
    shown = texts(figure)
    assert "issue" in shown and "L2: " in shown and "tile 16" in shown
    assert figure.axes[0].get_ylabel().startswith("instructions a second")


def test_ceilings__follow_the_clocks():
    whole = device_of(DATA, "rtx_4090")
    half = replace(whole, core=1260.0, memory=10500.0)
    for (name, at_nominal), (_, slower) in zip(whole.rates(True), half.rates(True), strict=True):
        assert slower == pytest.approx(at_nominal / 2), name
    assert dict(half.bandwidths())["DRAM"] == dict(whole.bandwidths())["DRAM"]


def test_ceilings__of_shared_memory_are_a_word_of_each_bank_a_pass():
    found = {}
    for device in ("gtx_285", "rtx_2080_ti", "rtx_4090", "mi210"):
        plan = sweep.Plan(kernels=["vector_add"], devices=[device], models=["combined"])
        found[device] = dict(device_of(sweep.open(plan), device).bandwidths())["shared memory"]
    # Zhang & Owens: 1.48 GHz x 8 lanes x 30 SMs x 4 bytes, of which they drop the fraction.
    assert found["gtx_285"] == pytest.approx(1420, rel=0.005)
    assert found["rtx_4090"] == pytest.approx(128 * 2.52 * 128)
    assert found["mi210"] == pytest.approx(104 * 1.7 * 128)
    assert found["rtx_2080_ti"] == pytest.approx(68 * 1.545 * 64, rel=0.1)


def test_occupancy_roofline__has_the_papers_latencies():
    plan = sweep.Plan(kernels=["mat_tiled"], devices=["quadro_k620"], models=["lemeire"])
    figure = plot.occupancy_roofline_plot(sweep.open(plan))
    # Table III: a multiprocessor issues SP every 0.29 cycles, SF every 1.3... by its file.
    rows = load_device("quadro_k620").model_parameters["lemeire"]["latencies"]
    issue = {row[0]: row[2] for row in rows if row[1] == 1}
    assert {f"{1 / cycles:.4g}" for cycles in issue.values()} <= levels(figure)
    assert "completion latency" in texts(figure) and "loads of 4 B from DRAM" in texts(figure)


def test_names_beside_the_axes_are_apart():
    select = {"kernel": "convolution", "device": "rtx_4090"}
    figure = plot.occupancy_roofline_plot(DATA, select=select)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = sorted((t.get_window_extent() for t in axes.texts), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1 for low, high in zip(boxes, boxes[1:], strict=False))
    assert all(box.x0 >= axes.get_window_extent().x1 for box in boxes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plot.roofline_plot(DATA), "a roofline shows one kernel: select one of"),
        (lambda: plot.roofline_plot(DATA, select=ONE, variable="tiles"), "no variable 'tiles'"),
        (lambda: plot.roofline_plot(synthetic.dataset(), select={"device": "gtx_980",
         "model": "hong_kim"}), "needs floating_point_instructions, thread_instr.*`outputs`"),
    ],
)  # fmt: skip
def test_refused_in_one_line(make, message):
    with pytest.raises(QueryError, match=message):
        make()


def test_command__draws_from_a_plan_and_from_a_store_without_counts(folder, capsys):
    (folder / "plan.toml").write_text(
        'schema = 1\nkernels = ["convolution"]\ndevices = ["rtx_4090"]\nmodels = ["combined"]\n'
        'outputs = ["execution_time"]\n'
        "[axes]\nblock_size_x = [16, 32]\nblock_size_y = [4]\n"
    )
    assert main(["run", "plan.toml", "--store", "store.zarr", "--no-report"]) == 0
    for data in ("plan.toml", "store.zarr"):
        for kind in ("roofline", "occupancy_roofline"):
            assert main(["plot", data, kind, "-o", f"{kind}_{data}.png"]) == 0
    for kind in ("roofline", "occupancy_roofline"):
        pictures = [(folder / f"{kind}_{d}.png").read_bytes() for d in ("plan.toml", "store.zarr")]
        assert pictures[0] == pictures[1]
    capsys.readouterr()

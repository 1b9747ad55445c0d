"""Pictures: what they show is what queries answer, and their texts are readable."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from support import synthetic

from sweep import plot
from sweep.errors import QueryError
from sweep.plot import draw, maps
from sweep.query import best, histogram, pareto
from sweep.query.tuning import Tuning

CORE = tuple(np.linspace(0.5, 1.1, 9).round(4))
MEMORY = tuple(np.linspace(0.6, 1.0, 5).round(4))
DATA = synthetic.dataset(
    parameters={"block_size": tuple(range(64, 1153, 64)), "tile": (4, 16)}, core=CORE, memory=MEMORY
)
TREE = synthetic.three_kernels()
ONE = {"device": "gtx_980", "model": "hong_kim"}
OLD = {"device": "gtx_280", "model": "hong_kim"}  # without power, in one regime


def heat(x="block_size", y="core_clock", data=DATA, select=ONE, **options) -> Figure:
    return plot.heatmap(data, x, y, select=select, **options)


def words(artists) -> list[str]:
    return [text.get_text().replace(draw.TIED, " ") for text in artists]


def legend(figure: Figure) -> str:
    """Return the legends' texts of a figure that is laid out, which warns of what does not fit."""
    figure.draw_without_rendering()
    legends = [child for child in figure.get_children() if isinstance(child, Legend)]
    return "\n".join(text for legend in legends for text in words(legend.get_texts()))


def star(axes) -> tuple[float, float]:
    (line,) = [line for line in axes.lines if line.get_marker() == "*"]
    return line.get_xdata()[0], line.get_ydata()[0]


def flat():
    data = DATA.copy(deep=True)
    data["execution_time"][:] = 1 + 1e-3 * (DATA["tile"] == 4).where(DATA["status"] == 0)
    return data


def small_regimes():
    data = synthetic.dataset(core=tuple(np.linspace(0.5, 1.1, 60)), memory=MEMORY)
    data["regime"][0, 1] = synthetic.REGIMES["hong_kim_eq24"]
    data["regime"][0, 1, :, 30, :] = synthetic.REGIMES["hong_kim_eq22"]
    return data


TIME, OCCUPANCY = "execution_time", "occupancy"
PICTURES = {
    "heat map": (heat, ["no valid configuration (block too large)", "best: ", "tile 16", "MHz"]),
    "one regime": (lambda: heat(y="tile", select=OLD), ["regime eq22 everywhere"]),
    "regimes too small for a name": (
        lambda: heat("core_clock", "memory_clock", small_regimes()), ["regime eq22"]),
    "next to no difference": (
        lambda: heat(y="tile", data=flat()), ["all valid cells are within 0.1 % of the best"]),
    "no result": (
        lambda: heat(y="tile", variable="energy", select=OLD), ["power: missing parameters"]),
    "front": (lambda: plot.pareto_plot(DATA, select=ONE), ["Pareto front"]),
    "fronts": (
        lambda: plot.pareto_plot(DATA, (TIME, OCCUPANCY), ("min", "max")),
        ["gtx_280, hong_kim; knee: ", "gtx_980, wang_chu; knee: "]),
    "fronts of one device": (
        lambda: plot.pareto_plot(DATA, colour="model"),
        ["wang_chu on gtx_280 (power: missing_parameters)"]),
    "clocks": (
        lambda: plot.clocks_plot(DATA, select=ONE),
        ["smallest energy: here ", "% more", "within 5 % of the best"]),
    "clocks without power": (lambda: plot.clocks_plot(DATA, select=OLD), ["missing parameters"]),
    "occupancy": (
        lambda: plot.occupancy_plot(DATA, select={"device": "gtx_980"}),
        ["limited by warps", "hong_kim", "no valid configuration (block too large)"]),
    "occupancy over threads": (
        lambda: plot.occupancy_plot(DATA, "threads_per_block", select=ONE), ["block too large"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_legend__explains_the_picture(name):
    make, expected = PICTURES[name]
    texts = legend(make())
    assert [text for text in expected if text not in texts] == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: heat(y="tile", select={}), "one device: select one of gtx_280, gtx"),
        (lambda: heat(y="tile", select={"device": "gtx_980"}),
         "a heat map shows one model: select one of hong_kim, wang_chu"),
        (lambda: heat(y="tile", data=TREE, select={}), "one kernel: select one of black_scho"),
        (lambda: heat(data=TREE, select={}), "one kernel: .*; one device: .*; one model: select one"
         r" of .* \(such as kernel=black_scholes device=gtx_280 model=hong_kim\)"),
        (lambda: heat("tile", "tile"), "two different axes"),
        (lambda: heat("tiles", "tile"), "'tiles' is no dimension"),
        (lambda: plot.clocks_plot(DATA), "a plot over the clocks shows one device"),
        (lambda: plot.clocks_plot(synthetic.dataset(clocks="nominal"), select=ONE),
             "core_clock and memory_clock of kernel 'matrix_multiply' not swept: .* both as axes"),
        (lambda: plot.occupancy_plot(DATA), "an occupancy plot shows one device"),
        (lambda: plot.occupancy_plot(DATA.drop_vars("threads_per_block").rename(block_size="b"),
                                     select=ONE), r"no block_size: name .* \(-x\), one of .*tile"),
        (lambda: plot.pareto_plot(TREE), "a Pareto plot shows one kernel"),
        (lambda: plot.pareto_plot(DATA, ["energy"]), "two objectives, not 1"),
        (lambda: plot.pareto_plot(DATA, colour="tile"), "'device' or 'model', not 'tile'"),
        (lambda: plot.save(heat(), "a.xyz"), "the suffix must be one of .*png"),
        (lambda: plot.save(heat(), "missing/a.png"), "cannot be written: No such file"),
        (lambda: plot.show(heat()), "no screen"),
    ],
)  # fmt: skip
def test_refused_in_one_line(make, message, folder):
    with pytest.raises(QueryError, match=message):
        make()


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=5))
def test_borders__lie_between_different_codes(codes):
    grid = np.array(codes)
    padded = np.pad(grid, (0, 1))  # 0: what lies outside has no border either
    expected = set()
    for (row, column), code in np.ndenumerate(grid):
        for down, right in ((0, 1), (1, 0)):
            other = padded[row + down, column + right]
            if code and other and code != other:
                start = (column - 0.5 + right, row - 0.5 + down)
                expected.add((start, (start[0] + down, start[1] + right)))
    found = {tuple(map(tuple, segment)) for segment in maps.borders(grid).tolist()}
    assert found == expected


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6))
def test_innermost__is_in_the_region_and_in_the_middle_of_a_square(rows):
    mask = np.array(rows)
    if mask.any():
        row, column, length = maps.innermost(mask)
        assert mask[row, column]
        line = "".join("x" if inside else " " for inside in mask[row])
        left, right = line[: column + 1].rsplit(" ", 1)[-1], line[column:].split(" ", 1)[0]
        assert length == len(left) + len(right) - 1
    square = np.zeros((9, 9), bool)
    square[2:7, 3:8] = True
    assert maps.innermost(square) == (4, 5, 5)


def test_heatmap__shows_the_best_with_borders_of_regimes_titles_and_labels():
    figure = heat()
    axes, bar = figure.axes
    mesh = axes.collections[0].get_array()
    answer = best(DATA, by=("core_clock_ratio", "block_size"), select=ONE)
    expected = np.array(answer.column(TIME), float).reshape(mesh.shape)
    scale = np.nanmin(expected) / np.nanmin(mesh.filled(np.nan))
    assert np.allclose(mesh.filled(np.nan) * scale, expected, equal_nan=True)
    assert np.log10(scale) == pytest.approx(round(np.log10(scale)))
    x, y = star(axes)
    (top,) = best(DATA, select=ONE, by=())
    assert DATA["block_size"].values[x] == top["block_size"]
    assert DATA["core_clock_ratio"].values[y] == top["core_clock_ratio"]
    assert isinstance(mesh, np.ma.MaskedArray) and mesh.mask.any()
    regimes = np.array([row["regime"] or "" for row in answer]).reshape(mesh.shape)
    codes = np.unique(regimes, return_inverse=True)[1].reshape(regimes.shape)
    borders = maps.borders(np.where(regimes == "", 0, codes))
    lines = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert len(borders) > 5 and {len(line.get_segments()) for line in lines} == {len(borders)}

    assert figure.get_suptitle() == "Execution time of matrix_multiply on gtx_980 (hong_kim)"
    assert axes.get_title() == "smallest over tile, memory_clock_ratio"
    labels = words([axes.xaxis.label, axes.yaxis.label, bar.yaxis.label])
    time = "predicted execution time of the kernel [µs]"
    assert labels == ["block size", "core clock [MHz]", time]
    assert words(axes.get_yticklabels())[0] == "563"  # MHz, where the dimension is a ratio
    assert {*words(axes.texts)} >= {"eq22", "eq23"}


@pytest.mark.parametrize("axes", [("block_size", "tile"), ("tile", "block_size")])
def test_heatmap__of_ties_marks_the_one_that_best_names(axes):
    ties = DATA.copy(deep=True)
    early = (DATA["tile"] == 16) & (DATA["block_size"] == 128)  # else either order has this first
    late = (DATA["tile"] == 4) & (DATA["block_size"] == 256)
    ties["execution_time"][:] = (2.0 - (early | late)).where(DATA["status"] == 0)
    (top,) = best(ties, select=ONE, by=())
    place = zip(axes, star(heat(*axes, ties).axes[0]), strict=True)
    assert {dim: DATA[dim].values[at] for dim, at in place} == {dim: top[dim] for dim in axes}


def test_heatmap__of_nothing_valid_and_of_the_largest_value():
    empty = heat(y="tile", variable="energy", select=OLD)
    assert "no configuration has a valid energy" in words(empty.axes[0].texts)
    options = {"variable": OCCUPANCY, "sense": "max", "select": ONE | {"kernel": "transpose"}}
    (largest, _) = heat("layout", "block_size", TREE, **options).axes
    assert words(largest.get_xticklabels()) == ["row", "column"]
    assert "largest over" in largest.get_title()
    (by_default, _) = heat("layout", "block_size", TREE, **{**options, "sense": None}).axes
    assert star(by_default) == star(largest)
    text = draw.label("active warps over the most that a multiprocessor holds", "1")
    assert min(map(len, text.split("\n"))) > 15


def test_heatmap__colours_span_what_differs():
    wide = DATA.copy(deep=True)
    wide[TIME] *= 10.0 ** (DATA["tile"] / 4)
    assert isinstance(heat(y="tile", data=wide).axes[0].collections[0].norm, LogNorm)
    low, high = heat(y="tile", data=flat()).axes[0].collections[0].get_clim()
    assert high == pytest.approx(1.05 * low)
    asked = heat(y="tile", where="block_size < 300 or tile == 4")
    assert asked.axes[0].collections[0].get_array().mask.sum() > len(DATA["block_size"]) // 2


def test_clocks_plot__marks_both_optima():
    figure = plot.clocks_plot(DATA, select=ONE)
    for axes, variable in zip(figure.axes, (TIME, "energy"), strict=False):
        (row,) = best(DATA, variable, by=(), select=ONE)
        x, y = star(axes)
        assert CORE[x] == row["core_clock_ratio"] and MEMORY[y] == row["memory_clock_ratio"]
        assert words([axes.xaxis.label]) == ["core clock [MHz]"]
    data = synthetic.dataset(clocks="MHz", core=(800.0, 1000.0), memory=(3000.0, 3505.0))
    figure = plot.clocks_plot(data, select=ONE)
    assert words(figure.axes[0].get_xticklabels())[0] == "800"


def test_clocks_plot__divides_cells_of_far_bests_of_one_regime():
    data = synthetic.dataset(core=CORE, memory=MEMORY, parameters={"tile": (4, 16)})
    data["regime"][:] = synthetic.REGIMES["hong_kim_eq22"]
    corner = (data["core_clock_ratio"] < 0.55) & (data["memory_clock_ratio"] > 0.95)
    for name in (TIME, "energy"):  # the best tile is no choice at one pair of clocks
        worse = data[name].where(~corner | (data["tile"] == 4), 9.0)
        data[name] = worse.transpose(*data[name].dims)
    figure = plot.clocks_plot(data, select=ONE)
    text = legend(figure)
    assert "regime eq22 everywhere" in text
    assert text.count("another configuration is best, over 25 % apart") == 2
    ends = {tuple(map(tuple, segment)) for c in figure.axes[0].collections[-2:]
            for segment in c.get_segments()}  # fmt: skip
    assert ends == {((0.5, 3.5), (0.5, 4.5)), ((-0.5, 3.5), (0.5, 3.5))}


def test_legend__has_columns_beside_one_long_entry():
    texts = ["short"] * 6 + ["long " * 12]
    with draw.picture(7.4, 6.0) as (figure, panels):
        draw.legend(figure, [draw.entry(text) for text in texts])
    figure.draw_without_rendering()
    (box,) = figure.legends
    assert len({round(text.get_window_extent().x0) for text in box.get_texts()}) > 1
    assert box.get_window_extent().width < figure.bbox.width
    assert panels[0, 0].get_position().height > 0.75


def test_pareto_plot__draws_the_front():
    figure = plot.pareto_plot(DATA, select=ONE)
    (axes,) = figure.axes
    rows = pareto(DATA, select=ONE, by=())
    ((x, y),) = [line.get_data() for line in axes.lines
                 if len(line.get_xdata()) == len(rows) and line.get_marker() == "o"]  # fmt: skip
    assert np.allclose(x * (rows[0][TIME] / x[0]), rows.column(TIME))
    (note,) = words(axes.texts)
    assert note.startswith("knee: ") and "block_size" in note
    title = "Energy against execution time: matrix_multiply on gtx_980 (hong_kim)"
    assert figure.get_suptitle() == title
    (cloud,) = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert (cloud.get_offsets() >= np.array([min(x), min(y)]) * (1 - 1e-6)).all()
    # Of several devices and models.
    figure = plot.pareto_plot(DATA, (TIME, OCCUPANCY), ("min", "max"))
    clouds = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    colours = {tuple(cloud.get_facecolor()[0][:3]) for cloud in clouds}
    assert len(clouds) == 4 and len(colours) == 2
    assert "on gtx_980" in plot.pareto_plot(DATA, colour="model").get_suptitle()
    empty = plot.pareto_plot(DATA, select={"device": "gtx_280"})
    assert words(empty.axes[0].texts) == ["no valid configuration"]


def test_occupancy_plot__shows_the_best_of_each_block_size():
    above, below = plot.occupancy_plot(DATA, select={"device": "gtx_980"}).axes
    for line, model in zip(above.lines[::2], synthetic.MODELS, strict=True):
        answer = best(DATA, by=("block_size",), select=ONE | {"model": model})
        times = np.array([row[TIME] for row in answer if row["status"] == "valid"])
        assert np.allclose(line.get_ydata() / line.get_ydata()[0], times / times[0])
    heights = [bar.get_height() for bar in below.patches if bar.get_height() != 1]
    occupancies = best(DATA, by=("block_size",), select=ONE, include=[OCCUPANCY])
    assert heights == [r[OCCUPANCY] for r in occupancies if r["status"] == "valid"]
    assert "[µs]" in above.get_ylabel()


@pytest.mark.parametrize("count", [1, 2, 12])
def test_tuning_plot__has_all_devices_and_only_panels_that_say_something(count, monkeypatch):
    names, one = tuple(f"a_long_name_{i}" for i in range(count)), np.ones((count, count))
    carried = one + 1.2 * (1 - np.eye(count))
    slow = (np.array([1.0, 2.0]),) * count
    found = Tuning("kernel", "combined", names, slow, carried, "core_clock", np.array([]), one)
    monkeypatch.setattr("sweep.plot.tuning.tunings", lambda *_, **__: [found] * 7)
    figure = plot.tuning_plot(DATA)
    left, *middle = figure.axes[: 2 if count > 1 else 1]
    looks = {(line.get_color(), line.get_linestyle()) for line in left.lines}
    assert len(looks) == count == len(legend(figure).split("\n"))
    assert "the first 6 of 7 kernels" in figure.get_suptitle().replace("\n", " ")
    assert len(figure.axes) == 6 * (2 if count > 1 else 1)  # no clocks, hence no panel of them
    for axes in middle:
        assert {text.get_text() for text in axes.texts} == {"best", "+120 %"}
        boxes = [text.get_window_extent() for text in axes.texts[:count]]
        assert not any(a.overlaps(b) for a, b in pairwise(boxes))


@pytest.mark.parametrize(("ends", "first"), [((1, 900), ["1", "2", "5"]), ((1, 9e5), ["1", "10"])])
def test_log_ticks__are_thinned_over_many_decades(ends, first):
    with draw.picture(4.0, 3.0) as (figure, panels):
        panels[0, 0].plot(ends, ends)
        draw.scale_axis(panels[0, 0], "x")
    figure.canvas.draw()
    shown = [tick.label1.get_text() for tick in panels[0, 0].xaxis.get_major_ticks()]
    assert shown[shown.index("1") :][: len(first)] == first


def test_occupancy_plot__over_the_threads_of_kernels_without_a_block_size():
    data = synthetic.dataset(parameters={"tile": (4, 8, 16)})
    threads = data["tile"] ** 2 * (data["threads_per_block"] * 0 + 1)
    data["threads_per_block"] = threads.transpose(*data["threads_per_block"].dims).astype("f4")
    _, below = plot.occupancy_plot(data, select=ONE).axes
    assert words(below.get_xticklabels()) == ["16", "64", "256"]


@pytest.mark.parametrize(
    "make",
    [
        lambda data: heat("layout", "core_clock", data),
        lambda data: heat("core_clock", "memory_clock", data),
        lambda data: plot.pareto_plot(data, select=ONE),
        lambda data: plot.occupancy_plot(data, "layout", select=ONE),
        lambda data: plot.histogram_plot(histogram(data, TIME, by=("layout",))),
    ],
    ids=["axis", "best", "knee", "occupancy", "groups"],
)
def test_words_from_files_are_no_formulas(make, tmp_path):
    data = synthetic.dataset(parameters={"layout": ("$\\nosuch$", "$x^$", "a$b")})
    text = plot.save(make(data), tmp_path / "a.svg").read_text()
    assert "$\\nosuch$" in text or "$x^$" in text


def test_save__writes_the_same_file_twice(tmp_path):
    figure = heat(y="tile")
    for suffix in ("png", "svg", "pdf"):
        first, second = (plot.save(figure, tmp_path / f"{n}.{suffix}").read_bytes() for n in "ab")
        assert first == second and len(first) > 2000
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_matplotlib_is_imported_late_and_without_pyplot():
    code = (
        "import sys, sweep.plot; assert 'matplotlib' not in sys.modules;"
        "sweep.plot.heatmap; assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment)

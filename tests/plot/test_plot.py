"""Pictures: what they show is what queries answer, and what they say is readable."""

from __future__ import annotations

import os
import subprocess
import sys

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

CORE = tuple(np.linspace(0.5, 1.1, 9).round(4))
MEMORY = tuple(np.linspace(0.6, 1.0, 5).round(4))
DATA = synthetic.dataset(
    parameters={"block_size": tuple(range(64, 1153, 64)), "tile": (4, 16)}, core=CORE, memory=MEMORY
)
TREE = synthetic.three_kernels()
ONE = {"device": "gtx_980", "model": "hong_kim"}


def legend_texts(figure: Figure) -> str:
    legends = [child for child in figure.get_children() if isinstance(child, Legend)]
    texts = [text.get_text() for legend in legends for text in legend.get_texts()]
    return "\n".join(texts).replace(draw.TIED, " ")


def star(axes) -> tuple[float, float]:
    (line,) = [line for line in axes.lines if line.get_marker() == "*"]
    return line.get_xdata()[0], line.get_ydata()[0]


def drawn(figure: Figure) -> Figure:
    """Lay the figure out, which is when labels that do not fit would warn."""
    figure.draw_without_rendering()
    return figure


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=5))
def test_borders__lie_between_different_codes(codes):
    grid = np.array(codes)
    expected = set()
    for (row, column), code in np.ndenumerate(grid):
        for down, right in ((0, 1), (1, 0)):
            other = row + down, column + right
            if other[0] < grid.shape[0] and other[1] < grid.shape[1]:
                if code and grid[other] and code != grid[other]:
                    start = (column - 0.5 + right, row - 0.5 + down)
                    expected.add((start, (start[0] + down, start[1] + right)))
    found = {tuple(map(tuple, segment)) for segment in maps.borders(grid).tolist()}
    assert found == expected


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6))
def test_innermost__is_in_the_region_and_in_the_middle_of_a_square(rows):
    mask = np.array(rows)
    if mask.any():
        row, column = maps.innermost(mask)
        assert mask[row, column]
        line = "".join("x" if inside else " " for inside in mask[row])
        left, right = line[: column + 1].rsplit(" ", 1)[-1], line[column:].split(" ", 1)[0]
        assert maps.run_length(mask, row, column) == len(left) + len(right) - 1
    square = np.zeros((9, 9), bool)
    square[2:7, 3:8] = True
    assert maps.innermost(square) == (4, 5)


def test_heatmap__shows_the_best_over_the_rest():
    figure = drawn(plot.heatmap(DATA, "block_size", "core_clock", select=ONE))
    axes = figure.axes[0]
    mesh = axes.collections[0].get_array()
    answer = best(DATA, by=("core_clock_ratio", "block_size"), select=ONE)
    values = [row["execution_time"] for row in answer]
    expected = np.array([np.nan if v is None else v for v in values]).reshape(mesh.shape)
    scale = np.nanmin(expected) / np.nanmin(mesh.filled(np.nan))
    assert np.allclose(mesh.filled(np.nan) * scale, expected, equal_nan=True)
    assert np.log10(scale) == pytest.approx(round(np.log10(scale)))
    x, y = star(axes)
    top = best(DATA, select=ONE, by=())[0]
    assert DATA["block_size"].values[x] == top["block_size"]
    assert DATA["core_clock_ratio"].values[y] == top["core_clock_ratio"]
    assert isinstance(mesh, np.ma.MaskedArray) and mesh.mask.any()


def test_heatmap__says_what_it_shows():
    figure = drawn(plot.heatmap(DATA, "block_size", "core_clock", select=ONE))
    axes, bar = figure.axes
    assert figure.get_suptitle() == "Execution time of matrix_multiply on gtx_980 (hong_kim)"
    assert axes.get_title() == "smallest over tile, memory_clock_ratio"
    assert axes.get_xlabel() == "block size"
    assert axes.get_ylabel().replace(draw.TIED, " ") == "core clock [MHz]"
    label = bar.get_ylabel().replace(draw.TIED, " ")
    assert label == "predicted execution time of the kernel [µs]"
    assert axes.get_yticklabels()[0].get_text() == "563"  # MHz, where the dimension is a ratio
    texts = legend_texts(figure)
    assert "no valid configuration (block too large)" in texts
    assert "best: " in texts and "tile 16" in texts and "MHz" in texts
    assert {text.get_text() for text in axes.texts} >= {"eq22", "eq23"}


def test_heatmap__draws_regime_borders_between_the_optima():
    figure = plot.heatmap(DATA, "block_size", "core_clock", select=ONE)
    answer = best(DATA, by=("core_clock_ratio", "block_size"), select=ONE)
    regimes = np.array([row["regime"] or "" for row in answer]).reshape(len(CORE), -1)
    codes = np.unique(regimes, return_inverse=True)[1].reshape(regimes.shape)
    lines = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    assert len(maps.borders(np.where(regimes == "", 0, codes))) > 5
    for line in lines:
        assert len(line.get_segments()) == len(maps.borders(np.where(regimes == "", 0, codes)))


def test_heatmap__of_one_regime_says_so():
    select = {"device": "gtx_280", "model": "hong_kim"}
    figure = plot.heatmap(DATA, "block_size", "tile", select=select)
    assert "regime eq22 everywhere" in legend_texts(figure)


def test_heatmap__regimes_too_small_for_a_name_stand_in_the_legend():
    data = synthetic.dataset(core=tuple(np.linspace(0.5, 1.1, 60)), memory=MEMORY)
    data["regime"][0, 1] = synthetic.REGIMES["hong_kim_eq24"]
    data["regime"][0, 1, :, 30, :] = synthetic.REGIMES["hong_kim_eq22"]
    figure = drawn(plot.heatmap(data, "core_clock", "memory_clock", select=ONE))
    assert "regime eq22" in legend_texts(figure)


def test_heatmap__wide_ranges_have_logarithmic_colours():
    wide = DATA.copy(deep=True)
    wide["execution_time"] *= 10.0 ** (DATA["tile"] / 4)
    figure = drawn(plot.heatmap(wide, "block_size", "tile", select=ONE))
    assert isinstance(figure.axes[0].collections[0].norm, LogNorm)


def test_heatmap__next_to_no_difference_does_not_look_like_one():
    flat = DATA.copy(deep=True)
    flat["execution_time"][:] = 1 + 1e-3 * (DATA["tile"] == 4).where(DATA["status"] == 0)
    figure = drawn(plot.heatmap(flat, "block_size", "tile", select=ONE))
    low, high = figure.axes[0].collections[0].get_clim()
    assert high == pytest.approx(1.05 * low)
    assert "all valid cells are within 0.1 % of the best" in legend_texts(figure)


def test_heatmap__without_any_result_says_why():
    select = {"device": "gtx_280", "model": "hong_kim"}
    figure = drawn(plot.heatmap(DATA, "block_size", "tile", variable="energy", select=select))
    assert "no configuration has a valid energy" in {t.get_text() for t in figure.axes[0].texts}
    assert "power: missing parameters" in legend_texts(figure)


def test_heatmap__of_a_largest_value_and_of_words():
    figure = drawn(
        plot.heatmap(
            TREE, "layout", "block_size", variable="occupancy", sense="max",
            select=ONE | {"kernel": "transpose"},
        )
    )  # fmt: skip
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["row", "column"]
    assert "largest over" in figure.axes[0].get_title()


def test_heatmap__ignores_cells_that_are_not_asked_for():
    figure = drawn(
        plot.heatmap(DATA, "block_size", "tile", select=ONE, where="block_size < 300 or tile == 4")
    )
    assert figure.axes[0].collections[0].get_array().mask.sum() > len(DATA["block_size"]) // 2


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: plot.heatmap(DATA, "block_size", "tile"),
            "one device: select one of gtx_280, gtx",
        ),
        (
            lambda: plot.heatmap(DATA, "block_size", "tile", select={"device": "gtx_980"}),
            "a heat map shows one model: select one of hong_kim, wang_chu",
        ),
        (lambda: plot.heatmap(TREE, "block_size", "tile"), "one kernel: select one of black_scho"),
        (lambda: plot.heatmap(DATA, "tile", "tile", select=ONE), "two different axes"),
        (lambda: plot.heatmap(DATA, "tiles", "tile", select=ONE), "'tiles' is no dimension"),
        (lambda: plot.clocks_plot(DATA), "a plot over the clocks shows one device"),
        (lambda: plot.clocks_plot(synthetic.dataset(clocks="nominal"), select=ONE), "not swept"),
        (lambda: plot.occupancy_plot(DATA), "an occupancy plot shows one device"),
        (lambda: plot.pareto_plot(TREE), "a Pareto plot shows one kernel"),
        (lambda: plot.pareto_plot(DATA, ["energy"]), "two objectives, not 1"),
        (lambda: plot.pareto_plot(DATA, colour="tile"), "'device' or 'model', not 'tile'"),
    ],
)
def test_pictures__refuse_what_one_picture_cannot_show(draw, message):
    with pytest.raises(QueryError, match=message):
        draw()


def test_pareto_plot__draws_the_front():
    figure = drawn(plot.pareto_plot(DATA, select=ONE))
    (axes,) = figure.axes
    rows = pareto(DATA, select=ONE, by=())
    fronts = [line for line in axes.lines if len(line.get_xdata()) == len(rows)]
    (front,) = [line for line in fronts if line.get_marker() == "o"]
    scale = rows[0]["execution_time"] / front.get_xdata()[0]
    assert np.allclose(front.get_xdata() * scale, rows.column("execution_time"))
    (note,) = axes.texts
    assert note.get_text().startswith("knee: ") and "block_size" in note.get_text()
    assert "Pareto front" in legend_texts(figure)
    assert figure.get_suptitle() == (
        "Energy against execution time: matrix_multiply on gtx_980 (hong_kim)"
    )
    (cloud,) = [c for c in axes.collections if isinstance(c, PathCollection)]
    low = np.array([min(front.get_xdata()), min(front.get_ydata())])
    assert (cloud.get_offsets() >= low * (1 - 1e-6)).all()


def test_pareto_plot__tells_devices_and_models_apart():
    senses = ("min", "max")
    figure = drawn(plot.pareto_plot(DATA, ("execution_time", "occupancy"), senses))
    texts = legend_texts(figure)
    assert "gtx_280, hong_kim; knee: " in texts and "gtx_980, wang_chu; knee: " in texts
    clouds = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    colours = {tuple(cloud.get_facecolor()[0][:3]) for cloud in clouds}
    assert len(clouds) == 4 and len(colours) == 2


def test_pareto_plot__names_the_devices_without_power():
    figure = drawn(plot.pareto_plot(DATA, colour="model"))
    assert "on gtx_980" in figure.get_suptitle()
    assert "no valid configuration for gtx_280" in legend_texts(figure)
    empty = drawn(plot.pareto_plot(DATA, select={"device": "gtx_280"}))
    assert [text.get_text() for text in empty.axes[0].texts] == ["no valid configuration"]


def test_clocks_plot__marks_both_optima():
    figure = drawn(plot.clocks_plot(DATA, select=ONE))
    time, energy = figure.axes[:2]
    for axes, variable in ((time, "execution_time"), (energy, "energy")):
        (row,) = best(DATA, variable, by=(), select=ONE)
        x, y = star(axes)
        assert CORE[x] == row["core_clock_ratio"] and MEMORY[y] == row["memory_clock_ratio"]
        assert axes.get_xlabel().replace(draw.TIED, " ") == "core clock [MHz]"
    texts = legend_texts(figure)
    assert "smallest energy: here " in texts and "% more" in texts
    assert "within 5 % of the best" in texts


def test_clocks_plot__of_a_device_without_power_and_of_clocks_in_mhz():
    drawn(plot.clocks_plot(DATA, select={"device": "gtx_280", "model": "hong_kim"}))
    data = synthetic.dataset(clocks="MHz", core=(800.0, 1000.0), memory=(3000.0, 3505.0))
    figure = drawn(plot.clocks_plot(data, select=ONE))
    assert figure.axes[0].get_xticklabels()[0].get_text() == "800"


def test_occupancy_plot__shows_the_best_of_each_block_size():
    figure = drawn(plot.occupancy_plot(DATA, select={"device": "gtx_980"}))
    above, below = figure.axes
    for line, model in zip(above.lines[::2], synthetic.MODELS, strict=True):
        answer = best(DATA, by=("block_size",), select=ONE | {"model": model})
        times = np.array([row["execution_time"] for row in answer if row["status"] == "valid"])
        assert np.allclose(line.get_ydata() / line.get_ydata()[0], times / times[0])
    heights = [bar.get_height() for bar in below.patches if bar.get_height() != 1]
    occupancies = best(DATA, by=("block_size",), select=ONE, include=["occupancy"])
    assert heights == [r["occupancy"] for r in occupancies if r["status"] == "valid"]
    texts = legend_texts(figure)
    assert "limited by warps" in texts and "hong_kim" in texts
    assert "no valid configuration (block too large)" in texts
    assert "[µs]" in above.get_ylabel()


def test_occupancy_plot__over_the_threads_of_kernels_without_a_block_size():
    data = synthetic.dataset(parameters={"tile": (4, 8, 16)})
    threads = data["tile"] ** 2 * (data["threads_per_block"] * 0 + 1)
    data["threads_per_block"] = threads.transpose(*data["threads_per_block"].dims).astype("f4")
    figure = drawn(plot.occupancy_plot(data, select=ONE))
    labels = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    assert labels == ["16", "64", "256"]
    same = drawn(plot.occupancy_plot(DATA, "threads_per_block", select=ONE))
    assert "no valid configuration (block too large)" in legend_texts(same)


@pytest.mark.parametrize(
    "draw",
    [
        lambda data: plot.heatmap(data, "layout", "core_clock", select=ONE),
        lambda data: plot.heatmap(data, "core_clock", "memory_clock", select=ONE),
        lambda data: plot.pareto_plot(data, select=ONE),
        lambda data: plot.occupancy_plot(data, "layout", select=ONE),
        lambda data: plot.histogram_plot(histogram(data, "execution_time", by=("layout",))),
    ],
    ids=["axis", "best", "knee", "occupancy", "groups"],
)
def test_words_from_files_are_no_formulas(draw, tmp_path):
    data = synthetic.dataset(parameters={"layout": ("$\\nosuch$", "$x^$", "a$b")})
    path = plot.save(draw(data), tmp_path / "a.svg")
    assert "$\\nosuch$" in path.read_text() or "$x^$" in path.read_text()


def test_save__writes_the_same_file_twice(tmp_path):
    figure = plot.heatmap(DATA, "block_size", "tile", select=ONE)
    for suffix in ("png", "svg", "pdf"):
        first = plot.save(figure, tmp_path / f"a.{suffix}").read_bytes()
        assert first == plot.save(figure, tmp_path / f"b.{suffix}").read_bytes()
        assert len(first) > 2000


def test_save__errors_are_clear(tmp_path):
    figure = plot.occupancy_plot(DATA, select=ONE)
    with pytest.raises(QueryError, match="the suffix must be one of .*png"):
        plot.save(figure, tmp_path / "a.xyz")
    with pytest.raises(QueryError, match="cannot save .*No such file or directory"):
        plot.save(figure, tmp_path / "missing" / "a.png")


def test_show__needs_a_screen():
    with pytest.raises(QueryError, match="no screen"):
        plot.show(plot.occupancy_plot(DATA, select=ONE))


def test_notebooks_display_pictures_without_pyplot():
    code = (
        "import sys, sweep.plot; assert 'matplotlib' not in sys.modules;"
        "sweep.plot.heatmap; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    picture = plot.occupancy_plot(DATA, select=ONE)
    assert picture._repr_png_().startswith(b"\x89PNG")


def test_label__is_balanced():
    text = draw.label("active warps over the most that a multiprocessor holds", "1")
    assert min(map(len, text.split("\n"))) > 15

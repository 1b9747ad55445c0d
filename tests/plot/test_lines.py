"""Figures of papers: nothing hides anything else."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.legend import Legend

from sweep.papers import reproduce
from sweep.plot import line_plot

PAPERS = ("hong_kim_2009", "luo_suda_2011", "zhang_owens_2011", "wang_chu_2017", "lemeire_2016")


def test_equal_values__are_marks_side_by_side_or_lines_of_different_widths():
    same = (np.arange(3), np.array([1.0, 2.0, 3.0]))
    marked = line_plot([("one", dict.fromkeys("abc", same))], "", "y", marks=("p", "q", "r"))
    places = [line.get_xdata() for line in marked.axes[0].lines]
    assert np.diff([place[0] for place in places]).min() > 0.1
    assert max(abs(place - same[0]).max() for place in places) < 0.5
    (drawn,) = line_plot([("one", dict.fromkeys("abc", same))], "x", "y", columns=1).axes
    widths = [line.get_linewidth() for line in drawn.lines]
    assert widths == sorted(widths, reverse=True) and len(set(widths)) == 3


def test_a_name_has_one_colour_in_all_panels_and_one_entry_in_one_legend():
    x = np.arange(3.0)
    figure = line_plot([("a", {"p": (x, x), "q": (x, x)}), ("b", {"q": (x, x)})], "x", "y")
    first, second = (axes.lines[-1].get_color() for axes in figure.axes)
    assert first == second
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["p", "q"]
    assert all(axes.get_legend() is None for axes in figure.axes)


def test_a_unit_after_a_panels_title_is_that_of_its_vertical_axis():
    (axes,) = line_plot([("a rate [GB/s]", {"p": (np.arange(3), np.arange(3))})], "x", "y").axes[:1]
    assert (axes.get_title(), axes.get_ylabel()) == ("a rate", "y\N{NO-BREAK SPACE}[GB/s]")


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_figures__have_legends_beside_their_panels_and_units_that_say_something(paper):
    colours: dict[str, set[str]] = {}
    for figure in reproduce(paper).figures:
        picture = figure.picture
        picture.canvas.draw()
        legends = [x for x in picture.get_children() if isinstance(x, Legend)]
        panels = [axes.get_window_extent() for axes in picture.axes if axes.axison]
        assert not any(x.get_window_extent().overlaps(box) for x in legends for box in panels)
        room = picture.bbox.padded(1.0)
        for axes in picture.axes:
            assert axes.get_legend() is None
            assert not axes.axison or room.containsx(axes.yaxis.label.get_window_extent().x0)
            assert "[1]" not in axes.get_xlabel() + axes.get_ylabel()
            for line in axes.lines:
                colours.setdefault(line.get_label(), set()).add(to_hex(line.get_color()))
    assert all(len(colours[name]) == 1 for name in ("printed", "corrected") if name in colours)

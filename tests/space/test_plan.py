"""Plans: the same from a file and in Python, their axes, and their size before anything runs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs import POINTS, SMALL, plan, write_plan

from sweep import Plan
from sweep.cli.values import size as size_of
from sweep.errors import PlanError
from sweep.evaluation.planned import evaluate
from sweep.runs.run_size import check_fits, forecast, human_bytes
from sweep.space import Dimension, Grid, cut_box, list_plans, load_plan, parse_plan, resolve
from sweep.space.axes import axis_values

SHIPPED = ("hong_kim_2009", "million", "papers", "quickstart", "wang_chu_2017")


# ---------------------------------------------------------------------------- two forms


def test_file_and_object_are_the_same(tmp_path):
    given_ = {key: value for key, value in SMALL.items() if key != "schema"}
    one, other = Plan(**given_), load_plan(write_plan(tmp_path / "small.toml"))
    assert one == Plan(**{**given_, "origin": "plan"})
    assert one.as_dict() == other.as_dict()
    assert one.digest() == other.digest()


def test_plan_survives_its_own_record():
    full = plan(
        variant="printed", precision="float64", outputs=["energy"], constraints=["blocks > 2"],
        store="a.zarr", kernel={"sepia": {"block_size": [64]}}, description="d",
    )  # fmt: skip
    assert parse_plan(full.as_dict()) == full


def test_name_is_the_file_s_if_the_plan_has_none(tmp_path):
    assert load_plan(write_plan(tmp_path / "mine.toml", name=None)).name == "mine"


def test_model_is_combined_unless_a_plan_names_others():
    given = {key: value for key, value in SMALL.items() if key != "models"}
    assert parse_plan(given).models == Plan(["sepia"], ["gtx_280"]).models == ("combined",)


def test_digest_is_of_what_is_computed():
    assert plan().digest() == plan(name="other", description="words", store=False).digest()
    for change in ({"variant": "printed"}, {"precision": "float64"}, {"outputs": ["energy"]},
                   {"devices": ["gtx_980_paper", "gtx_280"]}, {"derive": True}):  # fmt: skip
        assert plan().digest() != plan(**change).digest()


def test_existing_path_wins_over_a_shipped_name(folder):
    shipped = load_plan("quickstart")
    Path("quickstart").write_text(write_plan(folder / "mine.toml").read_text())
    assert load_plan("quickstart").name == "mine"
    Path("quickstart").unlink()
    assert load_plan("quickstart") == shipped


@pytest.mark.parametrize("name", list_plans())
def test_shipped_plan(name):
    found = load_plan(name)
    assert found.name == name
    assert found.store in (None, False)  # in the working directory, or nowhere
    assert len(found.description) > 20
    assert resolve(found).n_points > 0


def test_first_plans_have_a_million_configurations():
    assert set(SHIPPED) <= set(list_plans())
    for name in ("quickstart", "papers", "million"):
        assert resolve(load_plan(name)).n_points >= 1_000_000


# ---------------------------------------------------------------------------- axes


@pytest.mark.parametrize(
    ("axis", "values"),
    [([64, 128], (64, 128)), ((64, 128), (64, 128)), (np.array([64, 128]), (64, 128)), (64, (64,)),
     ("row", ("row",)), ([True, False], (True, False)),
     ({"start": 32, "stop": 128, "step": 32}, (32, 64, 96, 128)),
     ({"start": 32, "stop": 100, "step": 32}, (32, 64, 96)),
     ({"start": 7, "stop": 7, "step": 1}, (7,)),
     ({"start": 0.9, "stop": 1.2, "step": 0.1}, (0.9, 1.0, 1.1, 1.2))],
    ids=str,
)  # fmt: skip
def test_values_of_an_axis(axis, values):
    found = axis_values("axis", axis)
    assert found == values
    assert [type(v) for v in found] == [type(v) for v in values]


@given(st.integers(-50, 50), st.integers(1, 60), st.sampled_from([0.1, 0.05, 0.25, 1e-3, 7.0]))
def test_range_has_its_last_value(start, count, step):
    stop = start + (count - 1) * step
    found = axis_values("axis", {"start": start, "stop": stop, "step": step})
    assert len(found) == count
    assert found[0] == start and found[-1] == pytest.approx(stop, abs=1e-9)
    assert all(len(f"{v:.12g}") <= 14 for v in found)


def dims(**changes) -> dict[str, dict[str, int]]:
    return {
        k.kernel.key: dict(zip(k.grid.names, k.grid.shape, strict=True))
        for k in resolve(plan(**changes)).kernels
    }


def test_dimensions_are_in_order():
    found = dims(axes={"height": [1000, 2000], "core_clock": [1300], "memory_clock": [1107, 1108]})
    assert list(found["sepia"]) == ["device", "height", "block_size", "core_clock", "memory_clock"]
    assert found["sepia"]["height"] == 2
    assert found["mat_tiled"]["tile"] == 17  # what the kernel file says


def test_axes_go_to_the_kernels_that_have_them():
    assert dims(axes={"block_size": [64], "tile": [8, 16, 20]}) == {
        "sepia": {"device": 2, "block_size": 1},
        "mat_tiled": {"device": 2, "tile": 3},
    }
    found = dims(kernel={"sepia": {"block_size": [64], "core_clock": [1300]}})
    own = {"device": 2, "block_size": 1, "core_clock": 1, "memory_clock_ratio": 2}
    assert found["sepia"] == own  # the axes of one kernel replace the common ones
    assert found["mat_tiled"]["core_clock_ratio"] == 3


def test_nominal_is_leaving_a_clock_out():
    assert dims(axes={"core_clock": "nominal"}) == dims(axes={})
    with pytest.raises(PlanError, match=r"axes.block_size.*'nominal'"):
        resolve(plan(axes={"block_size": "nominal"}))


def test_clocks_have_coordinates_in_mhz():
    ratio = evaluate(plan())["sepia"]
    assert ratio["core_clock"].dims == ("device", "core_clock_ratio")
    assert ratio["core_clock"].values.tolist() == [[1170, 1300, 1430], [630, 700, 770]]
    assert ratio["memory_clock"].attrs["units"] == "MHz"
    nominal = evaluate(plan(kernels=["sepia"], axes={}))["sepia"]["core_clock"]
    assert (nominal.dims, nominal.values.tolist()) == (("device",), [1300, 700])
    given_ = evaluate(plan(kernels=["sepia"], axes={"core_clock": [1300, 1400]}))["sepia"]
    assert given_["core_clock"].dims == ("core_clock",)


def test_constraint_goes_to_the_kernels_that_know_its_names():
    space = resolve(plan(constraints=["block_size > 64", "threads_per_block <= 256"]))
    own = {k.kernel.key: len(k.constraints) - len(k.kernel.constraints) for k in space.kernels}
    assert own == {"sepia": 2, "mat_tiled": 1}


# ---------------------------------------------------------------------------- size


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 200), st.integers(1, 50))
def test_chunks_and_their_parts_cover_the_grid_once(shape, chunk_points, limit):
    grid = Grid(tuple(Dimension(f"d{i}", (0,) * n, "parameter") for i, n in enumerate(shape)),
                chunk_points)  # fmt: skip
    seen = np.zeros((2, *shape), int)
    for number, box in enumerate(grid.boxes()):
        assert box.n_points <= max(chunk_points, 1)
        assert grid.box(number) == box
        seen[0][box.slices] += 1
        for part in cut_box(box, limit):
            assert part.n_points <= max(limit, 1)
            seen[1][part.slices] += 1
    assert (seen == 1).all()
    assert grid.n_chunks == number + 1
    # Not in more pieces than twice what the aim makes necessary along the axis that is cut.
    assert math.prod(grid.chunk_shape) * 2 >= min(grid.n_points, chunk_points) / max(shape)


def test_forecast_without_running(monkeypatch):
    import sweep.evaluation.chunk

    monkeypatch.setattr(sweep.evaluation.chunk, "get_pass", None)
    expected = forecast(resolve(plan()))
    assert (expected.n_points, expected.n_evaluations) == (POINTS, POINTS)
    assert expected.kernels[0].dims == {
        "device": 2, "block_size": 5, "core_clock_ratio": 3, "memory_clock_ratio": 2,
    }  # fmt: skip
    text = expected.to_text()
    assert "plan small: 84 configurations x 1 model" in text
    assert "2 device x 5 block_size x 3 core_clock_ratio x 2 memory_clock_ratio" in text


def test_forecast_of_two_models_and_of_few_outputs():
    def size(**changes):
        found = forecast(resolve(plan(**changes)))
        return found.n_evaluations, found.n_bytes

    time = {"outputs": ["execution_time"]}
    assert size(**time) == (POINTS, POINTS * (4 + 1))  # float32 and the status
    two = size(**time, models=["hong_kim", "wang_chu"], precision="float64")
    assert two == (2 * POINTS, 2 * POINTS * (8 + 1))
    # No clocks: 5 and 2 parameters.
    assert size(outputs=["occupancy"]) == (POINTS, POINTS * 1 + 4 * (2 * 5 + 2 * 2))


def test_limit_and_disk(tmp_path):
    expected = forecast(resolve(plan()))
    check_fits(expected, tmp_path / "a.zarr", expected.n_bytes)
    with pytest.raises(PlanError, match="above the limit of"):
        check_fits(expected, None, expected.n_bytes - 1)


SIZES = {"500MB": 500_000_000, "2 GiB": 2**31, "1e9": 10**9, "3kB": 3000, "0.5TB": 5 * 10**11}


def test_sizes_in_words():
    assert {text: size_of(text) for text in SIZES} == SIZES
    for text in ("", "much", "10 furlongs", "-1MB", "nan", "inf", "1e999"):
        with pytest.raises(PlanError, match=re.escape(f"'{text}' is not a size")):
            size_of(text)


@given(st.integers(0, 10**17))
def test_words_for_a_size(size):
    text = human_bytes(size)
    assert "e" not in text
    assert size_of(text.replace(",", "")) == pytest.approx(size, rel=6e-3, abs=0.5)

"""``sweep new plan``, and where the paths of a plan begin."""

import json
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.errors import PlanError
from sweep.fields import VARIANTS
from sweep.space import Plan, list_plans, load_plan, resolve
from sweep.space.axes import MAX_AXIS
from sweep.space.plan import KEYS, LAYOUTS, PRECISIONS
from sweep.specs import json_schema, list_kernels, load_device, load_kernel
from sweep.specs.formats import PLAN


@pytest.mark.parametrize("kernel", list_kernels())
def test_plan_lints_clean(folder, capsys, kernel):
    path = f"{kernel}_plan.toml"
    assert main(["new", "plan", "--kernel", kernel, "--device", "rtx_4090"]) == 0
    assert capsys.readouterr().out == f"wrote {path}: next, sweep best {path}\n"
    assert main(["lint", path]) == 0
    text = Path(path).read_text()
    jsonschema.validate(tomllib.loads(text), json_schema("plan"))
    bare = text.replace("# ", "")
    for name in (*load_kernel(kernel).parameters, *load_kernel(kernel).sizes):
        assert f"\n{name} = [" in bare


def test_own_files_are_named_from_the_folder_of_the_plan(folder, capsys, monkeypatch):
    Path("mine").mkdir()
    for name, spec in (("k.toml", load_kernel("sepia")), ("d.toml", load_device("gtx_280"))):
        Path("mine", name).write_text(spec.text)
    Path("plans").mkdir()
    words = ("--kernel", "mine/k.toml", "--device", "mine/d.toml", "-o", "plans/p.toml")
    assert main(["new", "plan", *words]) == 0
    plan = load_plan("plans/p.toml")
    assert (plan.kernels, plan.devices) == (("../mine/k.toml",), ("../mine/d.toml",))
    assert plan.digest() == load_plan(folder / "plans" / "p.toml").digest()
    monkeypatch.chdir("/")
    space = resolve(load_plan(folder / "plans" / "p.toml"))
    assert (space.kernels[0].kernel.key, space.devices[0].key) == ("k", "d")
    monkeypatch.chdir(folder)
    assert refused(capsys, "new", "plan", *words) == (
        "plans/p.toml: is there already; --overwrite replaces it"
    )
    assert "did you mean 'rtx_4090'" in refused(
        capsys, "new", "plan", "--kernel", "sepia", "--device", "rtx_4009"
    )
    assert not Path("sepia_plan.toml").exists()


def test_format_is_that_of_the_checks(capsys):
    written = {*Plan(["sepia"], ["gtx_980"]).as_dict()}
    left_out = {"outputs", "store", "power_limit", "chunk_points", "layout", "problems"}
    assert {*KEYS} == written | left_out
    keys = {key.name: key for key in PLAN[""].keys}
    assert [*keys["variant"].choices] == [*VARIANTS]
    assert (*keys["precision"].choices,) == PRECISIONS
    assert (*keys["layout"].choices,) == LAYOUTS[1:]
    assert main(["show", "--keys", "plan"]) == 0
    table = capsys.readouterr().out
    assert all(f"`{key}`" in table or f"[{key}]" in table for key in KEYS)
    assert main(["show", "--schema", "plan"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in list_plans():
        jsonschema.validate(tomllib.loads(Path(load_plan(name).origin).read_text()), schema)
    good = {"schema": 1, "kernels": ["a"], "devices": ["b"], "models": ["c"]}
    for more in ({"kernels": []}, {"derive": 1}, {"store": True}, {"axes": {"n": {"start": 1}}},
                 {"layout": "x"}, {"kernel": {"n": 1}}, {"kernles": ["a"]}):  # fmt: skip
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(good | more, schema)


@pytest.mark.parametrize(
    "values",
    [
        range(8, 25, 8), np.arange(8, 25, 8), np.array([8, 16, 24], "uint16"),
        [np.int64(8), np.float32(16), 24], (8, np.array(16), 24),
        {"start": np.int32(8), "stop": np.uint8(24), "step": np.int64(8)},
    ],
)  # fmt: skip
def test_axes_take_what_python_has(values):
    plan = Plan(["sepia"], ["gtx_980_paper"], ["hong_kim"], axes={"n": values})
    assert plan.axes == {"n": (8, 16, 24)}
    assert all(type(value) in (int, float) for value in plan.axes["n"])
    json.dumps(plan.as_dict())


def test_axes_that_are_no_axes():
    def plan(values):
        return sweep.Plan(["sepia"], ["gtx_980_paper"], ["hong_kim"], axes={"n": values})

    for one in (np.float64(5), np.array(5), np.int8(5), 5):
        assert plan(one).axes == {"n": (5,)}
    for wrong, says in (
        (np.ones((2, 2)), "neither a number"), (np.array([]), "empty"), (range(0), "empty"),
        (range(MAX_AXIS + 1), "more than"), (np.array([1, np.nan]), "not a finite"),
        (np.array(["2020-01-01"], "datetime64[D]"), "neither a number"), (1j, "neither a number"),
    ):  # fmt: skip
        with pytest.raises(PlanError, match=f"axes.n.*{says}"):
            plan(wrong)

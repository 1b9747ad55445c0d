"""Lists of problems in plans: their forms, and what is refused."""

from __future__ import annotations

import json
import math

import jsonschema
import numpy as np
import pandas as pd
import pytest
from support.refusals import refused

from sweep import Plan
from sweep.errors import PlanError
from sweep.space import load_plan, parse_plan, resolve
from sweep.specs import json_schema

COLUMNS = {"m": [16, 256, 16], "n": [1024, 64, 1024], "k": [4096, 2, 4096]}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
GIVEN = {"kernels": ["triton_matmul"], "devices": ["a100_80gb"]}
CSV = "m,n,k\n16,1024,4096\n256,64,2\n16,1024,4096\n"


def plan(problems, **more) -> Plan:
    return Plan(**GIVEN, problems=problems, **more)


@pytest.mark.parametrize("problems", [
    COLUMNS, ROWS, tuple(ROWS), pd.DataFrame(COLUMNS), {n: np.array(c) for n, c in COLUMNS.items()},
])  # fmt: skip
def test_problems__forms_in_python(problems):
    found = plan(problems)
    assert found == plan(COLUMNS) == parse_plan(json.loads(json.dumps(found.as_dict())))
    assert found.problems == {name: tuple(column) for name, column in COLUMNS.items()}
    assert found.digest() != Plan(**GIVEN).digest()


@pytest.mark.parametrize(("name", "text"), [
    ("p.csv", CSV), ("p.json", json.dumps(ROWS)), ("p.json", json.dumps(COLUMNS)), ("p.txt", CSV),
])  # fmt: skip
def test_problems__files_begin_in_the_folder_of_the_plan(folder, monkeypatch, name, text):
    (folder / "in").mkdir()
    (folder / "in" / name).write_text(text)
    path = folder / "in" / "plan.toml"
    head = 'schema = 1\nkernels = ["triton_matmul"]\ndevices = ["a100_80gb"]\n'
    path.write_text(f'{head}problems = "{name}"\n')
    monkeypatch.chdir("/")
    found = load_plan(path)
    assert found.problems == plan(COLUMNS).problems
    (folder / "in" / name).unlink()
    assert parse_plan(found.as_dict()).digest() == found.digest()  # a record needs no file
    path.write_text(head + "".join(f"[[problems]]\nm = {m}\nn = 8\nk = 8\n" for m in (16, 256)))
    assert load_plan(path).problems == {"m": (16, 256), "n": (8, 8), "k": (8, 8)}


def test_problems__schema_takes_the_three_forms():
    schema = json_schema("plan")
    for problems in ("shapes.csv", ROWS, COLUMNS):
        jsonschema.validate({"schema": 1, **GIVEN, "problems": problems}, schema)
    for problems in ([], 3, {"m": 4}, [[1]]):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"schema": 1, **GIVEN, "problems": problems}, schema)


def test_space__has_one_dimension_whatever_the_number_of_values():
    space = resolve(plan(COLUMNS, axes={"bits": [8, 16]})).kernels[0]
    assert space.grid.names[:3] == ("device", "bits", "problem")
    assert space.grid.shape[1:3] == (2, 3)
    assert not {"m", "n", "k"} & space.fixed.keys()
    several = Plan(["triton_matmul", "sepia"], ["a100_80gb"], problems={"m": [1, 2]})
    assert "problem" not in resolve(several)["sepia"].grid.names  # it has none of the sizes


@pytest.mark.parametrize(("problems", "says"), [
    ({"m": [1], "q": [2]}, "problems.q: no kernel of the plan has this parameter or size"),
    ({"m": [1], "core_clock": [2]}, "problems.core_clock: no kernel"),
    ({"m": [1, -4]}, "problems: row 2: m = -4: a problem size is a number above 0"),
    ({"m": [0]}, "problems: row 1: m = 0: a problem size is a number above 0"),
    ({"m": [1, math.nan]}, "problems: row 2: m: nan is not a finite number"),
    ({"m": [1, 1 << 60]}, "problems: row 2: m: an integer beyond"),
    ({"m": [1, "x"]}, "m: the column mixes numbers and strings"),
    ({"m": ["16"]}, "row 1: m = '16': a problem size is a number above 0"),
    ({"m": [True, 1]}, "mixes booleans and numbers"),
    ({"m": [[1]]}, r"row 1: m: \[1\] is neither a number"),
    ({"is_integer": [0, "x"]}, "mixes numbers and strings"),
    ({"is_integer": ["x"]}, "row 1: is_integer = 'x': the kernel file has values like 0"),
    ({"m": [1, 2], "n": [1]}, "problems.n has 1 value, problems.m 2: a row has one of each"),
    ({"m": 4}, "problems.m = 4: needs a list, a value per row"),
    ({}, "problems: the list is empty"), ([], "the list is empty"), ({"m": []}, "list is empty"),
    ([{"m": 1, "n": 2}, {"m": 1}], "row 1 has 'n', row 2 has not"),
    ([{"m": 1}, 4], "row 2 = 4: needs a path of a CSV or JSON file"), (7, "problems = 7: needs"),
    ("none.csv", "problems: .*none.csv: cannot be read: No such file"),
])  # fmt: skip
def test_problems__refused_with_one_line(problems, says):
    with pytest.raises(PlanError, match=says) as caught:
        resolve(plan(problems))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "says"), [
    ("m,n,k\n1,2\n", "line 2 has 2 cells, the header 3"), ("m,m\n1,2\n", "doubled name"),
    ("m;n;k\n1;2;3\n", "cells end with ';': write ',' between cells"),
    ("m,n\n", "no line below the header"), ("m\nnan\n", "row 1: m = 'nan': a problem size"),
    ("m\n1\n\n-inf\n", "mixes numbers and strings"), ("", "the file is empty"),
    ("[1, 2]", "row 1 = 1: needs"), ("{", "not valid JSON"), ('{"m": 3}', "needs a list"),
])  # fmt: skip
def test_problems__a_bad_file_is_one_line(folder, capsys, text, says):
    (folder / "p.csv").write_text(text)
    (folder / "plan.toml").write_text(
        'schema = 1\nkernels = ["triton_matmul"]\ndevices = ["a100_80gb"]\nproblems = "p.csv"\n'
    )
    assert says in refused(capsys, "best", "plan.toml")


def test_problems__beside_an_axis_or_a_kernel_with_some_of_the_sizes():
    with pytest.raises(PlanError, match=r"axes\.m: the list of problems gives m too"):
        resolve(plan(COLUMNS, axes={"m": [1]}))
    two = Plan(["triton_matmul", "triton_moe"], ["a100_80gb"], problems=COLUMNS)
    with pytest.raises(PlanError, match=r"problems\.m: kernel 'triton_moe' has no .*it has n, k"):
        resolve(two)

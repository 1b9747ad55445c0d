"""Commands warn where a kernel's counts are placeholders."""

from pathlib import Path

import pytest

from sweep.cli import main

WARNING = "placeholders stand for what nobody counted"
FORMATS = {"kernel_tuner": "py", "triton": "py", "t1": "json", "csv": "csv", "parquet": "parquet"}
COMMANDS = {
    "best": ["best", "a_plan.toml"],
    "top": ["top", "a_plan.toml", "2"],
    "validate": ["validate", "a_plan.toml", "a_measured.zarr", "-o", "f.png"],
    **{form: ["export", "a_plan.toml", form, "model=combined", "-o", f"out.{end}"]
       for form, end in FORMATS.items()},
}  # fmt: skip


@pytest.fixture
def imported(folder, capsys):
    Path("a.csv").write_text("x,y,time_ms\n1,2,3\n2,2,4\n4,2,5\n")
    assert main(["import", "a.csv", "--device", "gtx_980"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("command", COMMANDS)
def test_warned(imported, capsys, command):
    assert main(COMMANDS[command]) == 0
    said = capsys.readouterr()
    assert " ".join(f"{said.out} {said.err}".split()).count(WARNING) == 1


@pytest.mark.parametrize("command", ["best", "csv"])
def test_not_where_somebody_counted(imported, capsys, command):
    words = [word.replace("a_plan.toml", "one.toml") for word in COMMANDS[command]]
    plan = 'schema = 1\nkernels = ["transpose"]\ndevices = ["gtx_980"]\nmodels = ["combined"]\n'
    Path("one.toml").write_text(plan)
    assert main(words) == 0
    said = capsys.readouterr()
    assert "placeholder" not in said.out + said.err

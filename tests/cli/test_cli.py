"""The command line: every command, its output, its exit code."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from support.refusals import refused
from support.runs import CHUNKS, POINTS, command, environment, journal, plan, write_plan
from support.store_samples import digest

import sweep
from sweep import plot
from sweep.cli import main
from sweep.cli.parser import build_parser, parse
from sweep.evaluation.variables import all_fields
from sweep.fields import VARIANTS
from sweep.models import get_model, model_names
from sweep.runs.running import run
from sweep.space import list_plans
from sweep.specs import list_devices, list_kernels
from sweep.store.root import inspect

(_COMMANDS,) = (a.choices for a in build_parser()._actions if isinstance(a.choices, dict))
COMMANDS = tuple(_COMMANDS)
HERE = ("kernel=sepia", "device=gtx_980_paper", "model=hong_kim")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "small.zarr"
    run(plan(), path)
    return path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]):
    """A function that runs a command that succeeds and returns what it prints."""

    def said(*arguments: str | Path) -> str:
        code = main([str(a) for a in arguments])
        out, error = capsys.readouterr()
        assert (code, error) == (0, "")
        return out

    return said


# ---------------------------------------------------------------------------- help


def test_version_and_help_of_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert (stop.value.code, capsys.readouterr().out) == (0, f"sweep {sweep.__version__}\n")
    text = build_parser().format_help()
    assert COMMANDS and "sweep run quickstart" in text
    for name in COMMANDS:
        assert f"\n    {name}" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(capsys, name):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: sweep {name} ")
    assert max(map(len, out.splitlines())) <= 100
    if example := _COMMANDS[name].epilog:
        assert example.startswith(f"Example: sweep {name} ") and len(example) <= 78
        assert out.endswith(f"\n{example}\n") and parse(shlex.split(example)[2:])
    module, function = _COMMANDS[name].get_default("command").args[0].split(".")
    assert callable(getattr(importlib.import_module(f"sweep.cli.{module}"), function))


# ---------------------------------------------------------------------------- run and rerun


def test_run(folder, said):
    write_plan(folder / "small.toml")
    out = said("run", "small.toml", "--no-report")
    first, last = out.splitlines()
    assert first.startswith("plan small: 84 configurations x 1 model, ")
    assert first.endswith(" kB before compression in 42 chunks")
    assert last.startswith("small.zarr: 84 configurations x 1 model in ")
    assert sorted(os.listdir(folder)) == ["small.toml", "small.zarr"]
    again = said("run", "small.toml", "--no-report").splitlines()[-1]
    assert again == "small.zarr: finished before, 84 configurations"


def test_dry_run_computes_and_writes_nothing(folder, said):
    write_plan(folder / "small.toml")
    out = said("run", "small.toml", "--dry-run")
    assert f"{POINTS} configurations x 1 model" in out and f"in {CHUNKS} chunks" in out
    assert "sepia: 60 configurations" in out and "30 chunks" in out
    assert "2 device x 5 block_size x 3 core_clock_ratio x 2 memory_clock_ratio" in out
    assert out.endswith("dry run: nothing was computed\n")
    assert os.listdir(folder) == ["small.toml"]


def test_store_and_limit_and_threads(folder, said):
    write_plan(folder / "small.toml", store="kept/b.zarr")
    said("run", "small.toml", "--store", "a.zarr", "--limit", "1MB", "--threads", "1",
         "--no-report")  # fmt: skip
    (folder / "kept").mkdir()
    said("run", "small.toml", "--no-report")
    assert digest(folder / "a.zarr") == digest(folder / "kept" / "b.zarr")


def test_rerun(folder, said, store):
    out = said("rerun", store, "--store", "again.zarr", "--no-report")
    assert out.splitlines()[-1].startswith("again.zarr: 84 configurations x 1 model in ")
    assert digest(folder / "again.zarr") == digest(store)
    said("rerun", "again.zarr", "--no-report")
    assert digest(folder / "again-rerun.zarr") == digest(store)


@pytest.mark.parametrize(("flags", "hint"), [([], ""), (["--overwrite"], " without --overwrite")])
def test_interrupt(folder, capsys, monkeypatch, flags, hint):
    from sweep.runs import running

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "execute", interrupted)
    write_plan(folder / "small.toml")
    assert main(["run", "small.toml", *flags]) == 130
    assert capsys.readouterr().err == (
        f"\nsweep: interrupted; the same command{hint} continues 'small.zarr'\n"
    )
    assert not inspect("small.zarr").is_finished
    monkeypatch.undo()
    os.chdir(folder)
    assert main(["run", "small.toml", "--no-report"]) == 0
    assert len(journal(folder / "small.zarr")) == CHUNKS


# ---------------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    "words",
    [
        ("best", "DATA", "--where", "occupancy > 0.5 and block_size % 64 == 0", "kernel=sepia"),
        ("best", "DATA", *HERE, "--by", "block_size", "--include", "cycles_per_instruction"),
        ("best", "DATA", "--objective", "energy", "--max", "device=gtx_980_paper"),
        ("best", "DATA", "--by", "", "block_size=64:128"),
        ("top", "DATA", "3", "device=gtx_280,gtx_980_paper", "--by", "kernel"),
        ("pareto", "DATA", "--objectives", "execution_time,energy", *HERE),
        ("pareto", "DATA", *HERE, "--objectives", "execution_time,occupancy:max,energy"),
        ("info", "DATA"),
    ],
    ids=" ".join,
)
def test_question_to_a_store_and_to_a_plan(folder, said, store, words):
    write_plan(folder / "small.toml")
    answers = {
        (data, form): said(*(str(data) if w == "DATA" else w for w in words), "--format", form)
        for data in (store, "small.toml")
        for form in ("table", "json", "csv")
    }
    rows = json.loads(answers[store, "json"])["rows"]
    assert rows
    assert rows == json.loads(answers["small.toml", "json"])["rows"]
    lines = list(csv.DictReader(io.StringIO(answers[store, "csv"])))
    assert [line["kernel"] for line in lines] == [row["kernel"] for row in rows]
    assert answers[store, "table"].count("\n") >= len(rows)
    assert answers["small.toml", "table"] in answers[store, "table"]


def test_info_says_how_a_store_was_made(said, store):
    out = said("info", store)
    assert out.startswith(f"{store}: plan small, variant corrected, finished ")
    assert "numba" in out and "zarr" in out


def test_explain(folder, said, store):
    write_plan(folder / "small.toml")
    words = (*HERE, "block_size=128", "core_clock_ratio=1.1", "memory_clock_ratio=1")
    text = said("explain", store, *words)
    assert "Sepia" in text and "(22)" in text and "regime" in text
    assert text == said("explain", "small.toml", "--kernel", "sepia", "--device", "gtx_980_paper",
                        "--model", "hong_kim", *words[3:])  # fmt: skip
    ties = {"kernels": ["transpose"], "devices": ["gtx_980_paper"], "models": ["zhang_owens"]}
    write_plan(folder / "ties.toml", **ties, axes={}, derive=None)
    for data in ((store, *HERE), ("ties.toml",)):
        best = json.loads(said("top", data[0], "2", *data[1:], "--format", "json"))["rows"]
        for row, expected in enumerate(best, 1):
            found = json.loads(said("explain", *data, "--row", str(row), "--format", "json"))
            assert found["results"]["execution_time"] == pytest.approx(expected["execution_time"])
    invalid = said("explain", store, *HERE, "block_size=2000", *words[4:])
    assert "block_too_large" in invalid
    for variant in VARIANTS:
        first, *_ = said("explain", store, *words, "--variant", variant).splitlines()
        assert first.endswith(f"by hong_kim ({variant})")


def test_explain_refuses_a_row_that_is_not_there(capsys, store):
    for row, message in (("0", "--row 0: at least 1"), ("999", "the selection has")):
        assert message in refused(capsys, "explain", store, *HERE, "--row", row)


# ---------------------------------------------------------------------------- pictures

PLOTS = {
    "heatmap": ("-x", "block_size", "-y", "core_clock_ratio", *HERE),
    "pareto": HERE[:2],
    "clocks": HERE,
    "occupancy": ("-x", "block_size", *HERE),
}


@pytest.mark.parametrize("kind", PLOTS)
def test_plot(folder, said, store, kind):
    out = said("plot", store, kind, *PLOTS[kind])
    assert out == f"wrote {kind}.png\n"
    assert (folder / f"{kind}.png").read_bytes().startswith(b"\x89PNG")
    said("plot", store, kind, *PLOTS[kind], "-o", "picture.svg")
    assert b"<svg" in (folder / "picture.svg").read_bytes()


def test_plot_on_the_screen(folder, said, store, monkeypatch):
    shown = []
    monkeypatch.setattr(plot, "show", shown.append, raising=False)
    assert said("plot", store, "clocks", *HERE, "--show") == ""
    assert len(shown) == 1 and "Time and energy" in shown[0].get_suptitle()
    assert os.listdir(folder) == []


def test_plot_that_cannot_be(folder, capsys, store):
    for words, message in (
        (("clocks", *HERE, "--show"), "no screen to show a picture on"),
        (("heatmap", *HERE), "a heatmap needs two dimensions"),
        (("clocks",), "select one of"),
        (("clocks", *HERE, "-o", "picture.xyz"), "the suffix must be one of"),
        (
            ("clocks", *HERE, "-o", "nowhere/a.png"),
            "nowhere/a.png: cannot be written: there is no directory 'nowhere'",
        ),
    ):
        assert message in refused(capsys, "plot", store, *words)
    assert os.listdir(folder) == []


# ---------------------------------------------------------------------------- what there is


def test_list(said):
    known = {"kernels": list_kernels(), "devices": list_devices(), "plans": list_plans(),
             "models": sorted(model_names(), key="combined".__ne__)}  # fmt: skip
    for what, names in known.items():
        lines = said("list", what).splitlines()
        assert [line.split("  ")[0].strip() for line in lines] == list(names)
        assert all(len(line.split(maxsplit=1)) == 2 for line in lines)
    models = dict(line.split(maxsplit=1) for line in said("list", "models").splitlines())
    for name, text in models.items():
        convolution, xgemm, clocks = get_model(name).accuracy
        assert f"{convolution:g} and {xgemm:g} % slower" in text and f"{clocks:.1f} % off" in text
        assert text.startswith(get_model(name).purpose) and get_model(name).reference in text
    fields = said("list", "fields")
    assert re.search(r"^energy +predicted energy: [a-z ]+ \[J\]$", fields, re.M)
    assert re.search(
        r"^bound .* \(code\)\n(.*\n)+blocks .*; only if `outputs` names it$", fields, re.M
    )
    for name, field in all_fields().items():
        assert field.long_name != field.name.replace("_", " "), f"{name}: its name explains nothing"
    counters = dict(line.split(maxsplit=1) for line in said("list", "counters").splitlines())
    assert counters["flop_count_sp_special"].endswith("(nvprof's name; ncu has none)")
    everything = said("list")
    for what in (*known, "recipes"):
        assert f"{what}:\n{said('list', what)}" in everything


def test_python_dash_m():
    done = subprocess.run(
        [sys.executable, "-m", "sweep", "list", "plans"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "") and "million" in done.stdout
    script = "import sweep; assert sweep.plot.heatmap and sweep.query.best"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_show(said):
    assert 'name = "GeForce GTX 980 (as in Wang & Chu 2017)"' in said("show", "gtx_980_paper")
    assert "[launch]" in said("show", "vector_add")
    assert 'name = "quickstart"' in said("show", "quickstart")
    plan = Path(sweep.__file__).parent / "plans" / "quickstart.toml"
    assert said("show", plan) == said("show", "quickstart")
    model = said("show", "hong_kim")
    assert "hong_kim_eq22" in model and "mem_ld_cycles" in model
    for kind in ("device", "kernel"):
        Draft202012Validator.check_schema(json.loads(said("show", "--schema", kind)))
        assert "schema" in said("show", "--keys", kind)


def test_lint(folder, said, capsys):
    root = Path(sweep.__file__).parents[1]
    plans = sorted((root / "sweep" / "plans").glob("*.toml"))
    out = said("lint", root / "devices", root / "kernels_spec", *plans)
    assert ": 0 errors" in out
    write_plan(folder / "bad.toml", devices=["gtx_208"])
    assert main(["lint", "bad.toml", *map(str, plans)]) == 2
    assert "bad.toml: devices: no device 'gtx_208'" in capsys.readouterr().out


def test_without_an_output__commands_end_well(monkeypatch):
    """Python has none where the shell closed it, as in `sweep list fields >&-`."""
    monkeypatch.setattr("sys.stdout", None)
    assert main(["list", "fields"]) == 0


# ---------------------------------------------------------------------------- as a process


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_nobody_takes(tmp_path, store):
    """A reader that has gone is no error, nor does it hide what the command found.

    A full disk under the output is one, in one line.
    """
    plans = [write_plan(tmp_path / f"{v}.toml", variant=v) for v in ("printed", "revised")]
    slower = ("compare", *plans, "--tolerance", "0")
    read, write = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_WRONLY)
    for words, output, code, error in (
        (("list", "fields"), os.dup(write), 0, ""),
        (slower, os.dup(write), 1, ""),
        ((*slower, "--list", "1000", "--format", "json"), write, 1, ""),
        (("list", "fields"), full, 2, "sweep: output: No space left on device\n"),
    ):
        done = subprocess.run(command(*words), stdout=output, stderr=subprocess.PIPE, text=True,
                              env=environment())  # fmt: skip
        os.close(output)
        assert (done.returncode, done.stderr) == (code, error)

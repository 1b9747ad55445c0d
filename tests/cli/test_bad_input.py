"""Bad input: one clear line, exit code 2, and nothing lost or half-written."""

import errno
import os
import re
import subprocess
import tomllib
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import zarr
from support.refusals import contents, refused
from support.runs import plan, sweep, write_plan
from support.spec_texts import DEVICE, KERNEL, spoilt

from sweep.cli import main
from sweep.errors import PlanError
from sweep.evaluation.chunk import evaluate_box
from sweep.fields import STATUS
from sweep.runs.run_size import check_valid
from sweep.space import resolve

# ---------------------------------------------------------------------------- plans and specs

BAD = tomllib.loads((Path(__file__).parent / "bad_files.toml").read_text(encoding="utf-8"))
BAD_PLANS = {name: (case["changes"], case["error"]) for name, case in BAD["plan"].items()} | {
    "no devices": ({"devices": None}, "devices is missing"),
    "value twice of many": ({"axes": {"block_size": [*range(1, 40_001), 40_000]}},
                            "axes.block_size: the value 40000 stands twice"),
    "words that NumPy cannot tell apart": ({"axes": {"layout": ["x", "x\0"]}},
        "axes.layout: 'x...' holds a character that is not printable"),
    "large": ({"axes": {"block_size": [10**40]}}, "axes.block_size: an integer beyond 2**53"),
    "number of many digits": ({"constraints": [f"{'9' * 3000} > 1"]},
                              "constraints: ... longer than 2000 characters"),
    "constraints without end": (
        {"constraints": [f"{' + '.join(['block_size'] * 150)} > {i}" for i in range(110)]},
        "constraints: ... more than 200000 characters together"),
    "long name": ({"name": "a" * 101}, "name = 'a...': needs a word of at most 100 characters"),
    "syntax": (b"schema = = 1", "not valid TOML: "),
    "encoding": (b"\xff\xfe", "not valid TOML: not UTF-8 text (byte 0)"),
    "byte order mark": (b"\xef\xbb\xbfschema = 2", "schema = 2: this version reads schema = 1"),
    "kernel": (KERNEL.encode(), 'a kernel file, no plan; a plan names it: kernels = ["bad.toml"]'),
    "depth": (b"x = " + b"[" * 5000, "not valid TOML: "),
    "digits": (b"x = " + b"9" * 5000, "not valid TOML: "),
    "empty": (b"", "schema = None: this version reads schema = 1"),
    "size": (b"#" * (1 << 21), "not valid TOML: larger than 1048576 bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD_PLANS.values(), ids=BAD_PLANS)
def test_plan(folder, capsys, content, message):
    if isinstance(content, bytes):
        (folder / "bad.toml").write_bytes(content)
    else:
        write_plan(folder / "bad.toml", **content)
    before = contents(folder)
    line = refused(capsys, "run", "bad.toml")
    pattern = ".*".join(map(re.escape, f"bad.toml: {message}".split("...")))
    assert re.match(pattern, line), line
    assert contents(folder) == before


BAD_SPECS = [(kind, *case.values()) for kind in ("device", "kernel") for case in BAD[kind].values()]


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"), BAD_SPECS, ids=[*BAD["device"], *BAD["kernel"]]
)
def test_spec(folder, capsys, kind, old, new, message):
    Path("bad.toml").write_text(spoilt({"device": DEVICE, "kernel": KERNEL}[kind], old, new))
    write_plan(folder / "small.toml", **{f"{kind}s": ["./bad.toml"], "axes": {}})
    before = contents(folder)
    line = refused(capsys, "run", "small.toml")
    assert "small.toml: " in line and "bad.toml" in line and message in line
    assert contents(folder) == before
    assert main(["lint", "bad.toml"]) == 2
    assert message in capsys.readouterr().out


def test_negative_count_in_some_configurations_is_a_status(folder):
    """An expression that goes below zero disqualifies those configurations alone."""
    text = spoilt(KERNEL, 'count = "tile"', 'count = "8 - tile"')
    Path("mine.toml").write_text(spoilt(text, 'control = "cost"', 'control = "n / abs(tile - 8)"'))
    space = resolve(plan(kernels=["./mine.toml"], axes={}))
    status = evaluate_box(space["mine"], space.plan, space["mine"].grid.whole)["status"]
    assert np.unique(status[..., 0, :, :]).tolist() == [STATUS["valid"]]
    assert np.unique(status[..., 1:, :, :]).tolist() == [STATUS["kernel_expression"]]


# ---------------------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"axes": {"block_size": [2000]}, "kernels": ["sepia"]}, "block_too_large"),
        ({"constraints": ["blocks < 0"]}, "constraint"),
        ({"constraints": ["1 / (blocks - blocks) > 0"]}, "kernel_expression"),
        ({"constraints": ["10 ** 10 ** 9 > blocks"]}, "kernel_expression"),
        ({"axes": {"core_clock": [1.3, 1.4]}}, "core clock 1.3 to 1.4 MHz outside 1040 to 1560"),
        ({"models": ["wang_chu"], "devices": ["gtx_280"]}, "missing_parameters"),
    ],
    ids=["block", "constraint", "division", "power", "clock", "parameters"],
)
def test_no_configuration_can_be_valid(folder, capsys, changes, reason):
    write_plan(folder / "bad.toml", **changes)
    for dry_run in ([], ["--dry-run"]):
        line = refused(capsys, "run", "bad.toml", *dry_run)
        assert line.startswith("bad.toml: no configuration of the plan can be valid (sepia on gtx")
        assert reason in line
    assert os.listdir(folder) == ["bad.toml"]


def test_no_configuration_can_be_valid__unless_on_another_device(folder):
    """Each device is looked at by itself: here one has the clock, and the other too few threads."""
    given = {"kernels": ["sepia"], "axes": {"core_clock": [980], "block_size": [1024]}}
    check_valid(resolve(plan(**given)))
    with pytest.raises(PlanError, match="gtx_280: core clock 980 MHz outside 1040 to 1560 MHz"):
        check_valid(resolve(plan(**given, devices=["gtx_280"])))


@pytest.mark.parametrize("store", [None, False])
def test_larger_than_the_disk(folder, capsys, store):
    axes = {"block_size": {"start": 1, "stop": 200_000, "step": 1}}
    axes |= {
        f"{c}_clock_ratio": {"start": 0.5, "stop": 2, "step": 1e-5} for c in ("core", "memory")
    }
    write_plan(folder / "huge.toml", axes=axes, store=store)
    line = refused(capsys, "run", "huge.toml")
    assert line.startswith("plan huge: ")
    assert ("free at 'huge.zarr'" if store is None else "chunks, more than 1,000,000") in line
    assert os.listdir(folder) == ["huge.toml"]


def test_larger_than_the_limit(folder, capsys):
    write_plan(folder / "small.toml")
    for dry_run in ([], ["--dry-run"]):
        line = refused(capsys, "run", "small.toml", "--limit", "1kB", *dry_run)
        assert "above the limit of 1 kB" in line
    assert refused(capsys, "run", "small.toml", "--limit", "1 furlong").startswith("'1 furlong' is")
    assert os.listdir(folder) == ["small.toml"]


# ---------------------------------------------------------------------------- stores


@pytest.mark.parametrize("flags", [[], ["--overwrite"]], ids=["run", "overwrite"])
@pytest.mark.parametrize("kind", ["directory", "file", "zarr", "damaged", "no parent"])
def test_place_that_is_no_store_of_ours(folder, capsys, kind, flags):
    write_plan(folder / "small.toml")
    place = folder / "place.zarr"
    if kind == "directory":
        place.mkdir()
        (place / "thesis.tex").write_text("the only copy")
    elif kind == "file":
        place.write_text("the only copy")
    elif kind == "zarr":
        zarr.create_group(place).create_array("x", shape=(3,), dtype="f4")
    elif kind == "damaged":
        place.mkdir()
        (place / "zarr.json").write_text('{"zarr_format": 3, "node_type": "gro')
    else:
        place = folder / "nowhere" / "place.zarr"
    before = contents(folder)
    line = refused(capsys, "run", "small.toml", "--store", place, *flags)
    assert str(place) in line or "nowhere" in line
    assert contents(folder) == before
    for command in (["info", place], ["best", place], ["rerun", place]):
        assert "place.zarr'" in refused(capsys, *command)
    assert contents(folder) == before


def test_read_only_directory(folder, capsys, monkeypatch):
    write_plan(folder / "small.toml")
    place = folder / "place"
    place.mkdir()
    mounted = os.geteuid() == 0 and all(
        not subprocess.run(["mount", *options, place], capture_output=True).returncode
        for options in (["--bind", place], ["-o", "remount,ro,bind"])
    )
    if not mounted:
        place.chmod(0o555)
    if not mounted and os.geteuid() == 0:  # root without the right to mount: the error by hand
        read_only = OSError(errno.EROFS, os.strerror(errno.EROFS))
        monkeypatch.setattr(os, "mkdir", Mock(side_effect=read_only))
    try:
        line = refused(capsys, "run", "small.toml", "--store", place / "small.zarr")
    finally:
        if mounted:
            subprocess.run(["umount", place], check=True)
        monkeypatch.undo()
    assert re.fullmatch(r"cannot create '.*small.zarr': (the file system is read-only|permission "
                        r"denied)", line)  # fmt: skip
    assert os.listdir(place) == []


# ---------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("plot quickstart", "the following arguments are required: kind (see"),
        ("rnu quickstart", "invalid choice: 'rnu'; did you mean 'run'?"),
        ("run quickstrat", "quickstrat: no such plan, neither a file nor a shipped one; did you"),
        ("best xgemm", "xgemm: a kernel, no plan; `sweep new plan --kernel xgemm --device "),
        (
            "plan milion",
            "milion: no such plan, neither a file nor a shipped one; did you mean 'mil",
        ),
        ("run quickstart --strore a.zarr", "unrecognised argument '--strore'; did you mean '--st"),
        ("run quickstart --strore=a.zarr", "argument '--strore=a.zarr'; did you mean '--store'?"),
        ("run quickstart --threads two", "invalid int value: 'two'"),
        ("run quickstart --threads 0", "--threads 0: at least 1"),
        ("run quickstart block_size=64", "unrecognised argument 'block_size=64' (see `sweep run"),
        ("top quickstart many", "invalid int value: 'many'"),
        ("best nowhere.zarr", "no store at 'nowhere.zarr'"),
        ("best nowhere", "nowhere: no such plan"),
        ("run .", ".: a folder, no plan (`sweep.open_store` opens a store) (shipped: billion, "),
        ("rerun nowhere.zarr", "no store at 'nowhere.zarr'"),
        ("show gtx_981", "nothing is called 'gtx_981'; did you mean 'gtx_980'?"),
        ("show", "show needs the name"),
        ("list planes", "invalid choice: 'planes'"),
        ("best quickstart --format=", "argument --format: invalid choice: '' (choose from"),
        ("list kernels --device gtx_280", "list kernels: --device and --kernel are for models"),
        ("best quickstart --rename a=b", "--rename: only with --format triton or tilelang"),
        ("new kernel mine", "mine: new kernel takes only name=NAME here"),
        ("new kernel name=a --from a.ptx", "name=a: new kernel takes no KEY=VALUE here"),
        ("new plan n=3", "n=3: new plan takes no KEY=VALUE here"),
        ("new device --like rtx_3080 --device x", "new device takes no --device"),
        ("new device --like rtx_3080 -o x", "x: the file is named KEY.toml"),
        ("new device compute_capability=8,6", "8,6: unknown; did you mean '8.6'? (the table of"),
        ("report quickstart --device rtx_3080", "--device: only with --measured"),
        ("calibrate mt4g.json --no-lock", "--no-lock: only with --gpu"),
        ("calibrate mt4g.json --samples a.json", "--samples: only with --gpu"),
        ("compile a.cu --kernel sepia --trip x=1", "--trip: only with --instructions"),
        ("calibrate-kernel quickstart a.csv -o a.txt", "a.txt: the file is named KEY.toml"),
        ("report quickstart -o no/r.html", "no/r.html: cannot be written: there is no directory"),
        ("info quickstart --include power", "unrecognised argument '--include'"),
        ("histogram quickstart status --include power", "unrecognised argument '--include'"),
    ],
)
def test_command_line(folder, capsys, arguments, message):
    assert message in refused(capsys, *arguments.split())
    assert os.listdir(folder) == []


def test_scheduler_that_does_not_answer_leaves_no_store(folder, capsys):
    write_plan(folder / "small.toml")
    line = refused(capsys, "run", "small.toml", "--scheduler", "nonsense://here")
    assert line.startswith("no Dask scheduler answers at 'nonsense://here': ")
    assert os.listdir(folder) == ["small.toml"]


@pytest.mark.slow
def test_no_traceback_as_people_run_it(tmp_path):
    write_plan(tmp_path / "bad.toml", devices=["gtx_208"])
    done = sweep("run", "bad.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sweep: bad.toml: devices: no device 'gtx_208'; did you mean 'gtx_280'?\n"

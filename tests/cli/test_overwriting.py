"""No command overwrites a file that is not its own, unless asked."""

import tomllib
from pathlib import Path

import pytest

from sweep import cli
from sweep.cli import main
from sweep.importers.files import MARK, write_all, write_whole
from tests.support.refusals import contents, refused

MT4G = Path(__file__).parents[1] / "data" / "calibration" / "mt4g_a100.json"
PLAN = """
schema = 1
name = "p"
kernels = ["mat_tiled"]
devices = ["gtx_980_paper"]
models = ["wang_chu", "hong_kim"]
variant = "revised"
[axes]
tile = [8, 16]
n = 512
core_clock_ratio = [0.8, 1.0]
memory_clock_ratio = [0.9, 1.0]
"""
TIMES = "block_size,time_ms\n64,2\n128,1\n"
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
    ret;
}
"""
PARETO = ["p.toml", "pareto", "model=wang_chu"]
FIGURES = {
    "plot": PARETO, "histogram": ["one.toml", "execution_time"], "compare": ["p.toml"] * 2,
    "compare-models": ["p.toml"], "validate": ["one.toml", "times.csv", "--device=gtx_980_paper"],
}  # fmt: skip
CASES = [
    *((name, words, "f.png", name != "histogram") for name, words in FIGURES.items()),
    ("plot", PARETO, "f.svg", True),
    ("plot", PARETO, "f.pdf", True),
    *(("export", ["one.toml", form], f"f.{form}", True) for form in ("t1", "csv", "parquet")),
    *(("export", ["one.toml", form], "f.py", True) for form in ("kernel_tuner", "triton")),
    ("best", ["one.toml", "--format", "csv"], "f.csv", True),
    ("report", ["p.toml"], "f.html", True),
    ("calibrate-kernel", ["one.toml", "times.csv"], "f.toml", True),
    ("calibrate-power", ["times.csv", "--device", "gtx_980_paper"], "f.toml", True),
    ("ptx", ["k.ptx"], "f.toml", True),
    ("triton", ["k.py:k", "--signature", "i32"], "f.toml", True),
    ("profile", ["k.csv"], "f.toml", True),
    ("compile", ["k.cu", "--kernel", "mat_tiled", "--compute-capability", "8.0"], "f.csv", True),
    ("sensitivity", ["one.toml", "--samples", "64"], "f.png", True),
    ("reproduce", ["lemeire_2016"], "index.html", True),
    ("import", ["vector_add.csv", "--device=gtx_980_paper", "--time", "time_ms"], "f.toml", True),
    ("calibrate", ["mt4g.json"], "f.toml", True),
    ("new", ["plan", "--kernel", "sepia", "--device", "rtx_4090"], "f.toml", True),
]
KEPT = {"f.csv", "f.toml"}
"""Have no place for a mark, or are for people to edit: replaced only if asked."""


@pytest.fixture
def there(folder):
    """Return a folder with the files that commands read."""
    one = PLAN.replace(', "hong_kim"', "").replace("[0.8, 1.0]", "1.0").replace("[0.9, 1.0]", "1.0")
    texts = {
        "p.toml": PLAN, "one.toml": one, "k.ptx": PTX, "times.csv": "tile,time_ms\n8,2\n16,1\n",
        "vector_add.csv": TIMES, "k.cu": "__global__ void k() {}", "k.csv": "",
        "mt4g.json": MT4G.read_text(),
    }  # fmt: skip
    for name, text in texts.items():
        Path(name).write_text(text)
    return folder


def test_every_command_that_writes_is_here():
    text = Path(cli.__file__).with_name("commands.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)

    def usages(arguments):
        for argument in arguments:
            if isinstance(argument, str):
                yield from usages(table["shared"][argument])
            else:
                yield from argument["usage"].split()

    flags = {name: {*usages(c["arguments"])} for name, c in table["commands"].items()}
    writing = {name for name, own in flags.items() if own & {"--output", "--figure"}}
    assert writing == {command for command, *_ in CASES}
    assert all("--overwrite" in flags[name] for name in writing)


@pytest.mark.parametrize(("command", "words", "name", "is_output"), CASES)
def test_a_strangers_file_stays(there, capsys, command, words, name, is_output):
    Path(name).write_text("mine")
    before = contents(there)
    flag = "--output" if is_output else "--figure"
    output = "." if command in ("import", "reproduce") else name
    more = ["--kernel", "f"] if command == "import" else []
    if command == "import":
        Path("f_plan.toml").write_text("mine")
        Path("f.toml").unlink()
        name = "f_plan.toml"
        before = contents(there)
    said = refused(capsys, command, *words, flag, output, *more)
    assert said == f"{name}: is there already; --overwrite replaces it"
    assert contents(there) == before


UNRUN = (
    "profile", "compile", "triton", "import", "reproduce", "calibrate-kernel", "calibrate-power",
)  # fmt: skip
RERUN = [case for case in CASES if case[0] not in UNRUN]


@pytest.mark.parametrize(("command", "words", "name", "is_output"), RERUN)
def test_an_own_file_is_replaced(there, capsys, command, words, name, is_output):
    given = [command, *words, "--output" if is_output else "--figure", name]
    Path(name).write_text("mine")
    assert main([*given, "--overwrite"]) == 0
    first = Path(name).read_bytes()
    assert first != b"mine"
    if name in KEPT:
        assert "is there already" in refused(capsys, *given)
    else:
        assert MARK.encode() in first
        assert main(given) == 0 and Path(name).read_bytes() == first


def test_default_names_are_refused_too(there, capsys):
    defaults = {
        "pareto.png": ["plot", *PARETO],
        "mat_tiled.T1.json": ["export", "one.toml", "t1"],
        "report.html": ["report", "p.toml"],
        "lemeire_2016/index.html": ["reproduce", "lemeire_2016"],
    }
    Path("lemeire_2016").mkdir()
    for name, command in defaults.items():
        Path(name).write_text("mine")
        assert refused(capsys, *command).startswith(f"{name}: is there already")
        assert Path(name).read_text() == "mine"
    assert main(["reproduce", "lemeire_2016", "--overwrite"]) == 0
    assert main(["reproduce", "lemeire_2016"]) == 0  # the page is ours, and so is its folder


def test_figure_of_a_run_leaves_a_strangers_file(there, capsys):
    Path("p.png").write_text("mine")
    assert main(["run", "p.toml"]) == 0
    assert "No figure: p.png: is there already" in capsys.readouterr().out
    assert Path("p.png").read_text() == "mine"
    assert main(["run", "p.toml", "--overwrite"]) == 0
    assert MARK.encode() in Path("p.png").read_bytes()
    assert main(["run", "p.toml"]) == 0 and "No figure" not in capsys.readouterr().out


def test_all_files_or_none(folder):
    Path("b").write_text("mine")
    with pytest.raises(cli.SweepError, match="b: is there already"):
        write_all({Path("a"): "1", Path("b"): "2"})
    assert contents(folder) == {"b": b"mine"}
    Path("b").unlink()
    Path("b").symlink_to("nowhere")
    with pytest.raises(cli.SweepError, match="b: is there already"):
        write_whole(Path("b"), "2")
    write_whole(Path("b"), "2", overwrite=True)
    assert Path("b").read_text() == "2" and not Path("b").is_symlink()

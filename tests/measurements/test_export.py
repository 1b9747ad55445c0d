"""Exported files, read by the tuners themselves if they run without a GPU."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import itertools
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.pages import DOCS, TEXTS
from support.refusals import contents, refused
from support.tuning_files import CACHE, measured

import sweep
from sweep import query
from sweep.cli import main
from sweep.errors import QueryError, SweepError
from sweep.importers.files import read_source
from sweep.importers.tuners.exporting import Chosen, kernel_tuner_text, restriction_texts, t1_text
from sweep.importers.tuners.formats import read_measurements
from sweep.importers.tuners.measurements import MEASURED
from sweep.importers.tuners.search_space import SearchSpace, read_t1
from sweep.measurements.exporting import best_configurations, export
from sweep.measurements.importing import read_measured
from sweep.space import Plan, valid_configurations

KERNEL = Path(__file__).parents[1] / "data" / "tuning" / "convolution_milo.toml"
pytestmark = pytest.mark.usefixtures("folder")


def plan(**more: Any) -> Plan:
    return Plan(**{"kernels": [str(KERNEL)], "devices": ["rtx_a4000"], "models": ["hong_kim"],
                   "outputs": ["execution_time", "occupancy", "regime"]} | more)  # fmt: skip


@pytest.fixture(scope="module")
def predictions() -> xr.DataTree:
    return sweep.evaluate(plan()).load()


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def top(data: Any, n: int, names: tuple[str, ...]) -> list[tuple]:
    return [tuple(row[name] for name in names) for row in query.top(data, n, ties=True)]


# ---------------------------------------------------------------------------- Kernel Tuner


def replayed(restrictions: Any) -> list[dict]:
    """Let the real Kernel Tuner replay the measured cache under restrictions: no GPU needed."""
    kernel_tuner = pytest.importorskip("kernel_tuner")
    Path("cache.json").write_bytes(gzip.decompress(CACHE.read_bytes()))
    cache = json.loads(Path("cache.json").read_text())
    known = (cache["kernel_name"], "", cache["problem_size"], [], cache["tune_params"])
    results, _ = kernel_tuner.tune_kernel(
        *known, restrictions=restrictions, simulation_mode=True, cache="cache.json",
        strategy="brute_force", quiet=True, lang="CUDA",
    )  # fmt: skip
    return results


def timed(results: list[dict]) -> list[float]:
    return [row["time"] for row in results if isinstance(row["time"], float)]


SPACE = [
    "use_padding==0 or block_size_x % 32 != 0",
    "block_size_x*block_size_y<=1024",
    "use_padding==0 or use_shmem != 0",
    "use_shmem == 0 or (block_size_x*tile_size_x+14)*(block_size_y*tile_size_y+14) < 12*1024",
]


@pytest.mark.slow
def test_kernel_tuner_replays_a_space_with_and_without_our_pruning(predictions):
    whole, seconds = replayed(SPACE), measured(CACHE).seconds
    assert len(whole) == 4362
    assert min(timed(whole)) == pytest.approx(np.nanmin(seconds) * 1e3)
    export(predictions, "kernel_tuner", "pruned.py", n=200)
    pruned = module(Path("pruned.py"))
    best = set(top(predictions, 200, pruned.NAMES))
    for restrictions in ([*pruned.TEXTS], pruned.restrictions):
        results = replayed(restrictions)
        assert {tuple(row[name] for name in pruned.NAMES) for row in results} == best
    # The prediction saves 95 % of the measurements; `validate` gives the cost.
    regret = query.validate(predictions, read_measured([CACHE]))[0]["regret_100"]
    assert min(timed(results)) <= min(timed(whole)) * (1 + regret)
    # The documentation's claim about the kernel `convolution`, whose counts come from its source.
    data = sweep.evaluate(Plan(("convolution",), ("rtx_a4000",), ("combined",), layout="stacked"))
    export(data, "kernel_tuner", "ten.py", n=10)
    ten = replayed(module(Path("ten.py")).restrictions)
    assert len(ten) == 10 and min(timed(ten)) == min(timed(whole))
    text = TEXTS[DOCS / "howto" / "auto_tuner.md"]
    assert f"the optimum of all {len(whole):,} configurations, {min(timed(ten)):.2f} ms" in text
    row = query.validate(data, read_measured([CACHE], kernel="convolution"))[0]
    assert row["regret_10"] == 0


@pytest.mark.slow
def test_what_kernel_tuner_writes_is_read_back():
    files = pytest.importorskip("kernel_tuner.file_utils")
    results = replayed([*SPACE, "block_size_x == 256"])
    cache = json.loads(Path("cache.json").read_text())
    files.store_output_file("real.T4.json", results, cache["tune_params"], objective="time")
    found = read_measurements(read_source("real.T4.json"))
    assert sorted(found.seconds[found.valid] * 1e3) == pytest.approx(sorted(timed(results)))
    failed = len(results) - len(timed(results))
    assert np.count_nonzero(found.status == MEASURED["runtime"]) == failed > 0
    assert np.count_nonzero(~found.valid) == failed


def test_restrictions_are_exactly_the_best(predictions):
    done = export(predictions, "kernel_tuner", n=50)
    assert done.path == Path("convolution_milo_kernel_tuner.py")
    pruned = module(done.path)
    best = set(top(predictions, 50, pruned.NAMES))
    assert pruned.CONFIGURATIONS == best
    axes = best_configurations(predictions, 50).axes
    codes = [compile(text, "text", "eval") for text in pruned.TEXTS]
    for row in itertools.product(*(axes[name] for name in pruned.NAMES)):
        p = dict(zip(pruned.NAMES, row, strict=True))
        assert pruned.restrictions(p) == (row in best)
        assert all(eval(code, {"__builtins__": {}}, p) for code in codes) == (row in best)


def test_t1_reads_back_as_the_same_configurations(predictions, capsys):
    done = export(predictions, "t1", n=60)
    assert done.path == Path("convolution_milo.T1.json") and done.notes == ()
    space = read_t1(read_source(done.path))
    assert listed(space) == sorted(top(predictions, 60, tuple(space.parameters)))
    assert main(["import", str(done.path), "--device", "rtx_a4000"]) == 0
    assert "convolution_milo_plan.toml" in capsys.readouterr().out


def listed(space: SearchSpace) -> list[tuple]:
    found = valid_configurations(space.parameters, space.conditions)
    columns = (found.column(name).tolist() for name in space.parameters)
    return sorted(zip(*columns, strict=True))


def chosen(rows: list[tuple], **axes: tuple) -> Chosen:
    return Chosen("k", "d", "m", tuple(axes), axes, rows, [1.0] * len(rows))


@pytest.mark.parametrize(("rows", "axes"), [
    ([(1, 2), (3, 1)], {"x": (1, 2, 3), "y": (1, 2)}),
    ([(-1, 2), (3, -5), (0, 0)], {"x": (-1, 0, 1, 3), "y": (-5, 0, 2)}),
    ([("row", True), ("column", False)], {"kind": ("row", "column"), "on": (True, False)}),
    ([(0.5, 1), (0.25, 2)], {"x": (0.25, 0.5, 1.0), "y": (1, 2)}),
    ([(1, 1), (1, 2), (2, 1), (2, 2)], {"x": (1, 2, 3), "y": (1, 2)}),
    ([(2, 1)], {"x": (1, 2), "y": (1, 2)}),
])  # fmt: skip
def test_any_set_of_configurations_has_its_conditions(rows, axes):
    one = chosen(rows, **axes)
    texts = restriction_texts(one)
    for row in itertools.product(*axes.values()):
        p = dict(zip(axes, row, strict=True))
        assert all(eval(text, {"__builtins__": {}}, p) for text in texts) == (row in rows)
    Path("t.json").write_text(t1_text(one))
    space = read_t1(read_source("t.json"))
    assert set(space.parameters) == set(axes) and listed(space) == sorted(rows)


def pruned_as_triton_does(configs: list[dict], nargs: dict, prune_configs_by: dict) -> list:
    """The steps of Triton's ``Autotuner.prune_configs`` with a model and many configurations."""
    model, top_k = prune_configs_by["perf_model"], prune_configs_by["top_k"]
    estimates = [model(**nargs, **config, num_stages=2) for config in configs]
    order = sorted(range(len(configs)), key=estimates.__getitem__)
    return [configs[i] for i in order[:top_k]]


def test_triton_keeps_the_best(predictions):
    tuned = module(export(predictions, "triton", n=20).path)
    assert tuned.top_k == 20
    rows = query.top(predictions, 400, ties=True)
    every = [{name: row[name] for name in tuned.NAMES} for row in rows]
    kept = pruned_as_triton_does(every[::-1], {"image": object()}, tuned.prune_configs_by)
    assert sorted(map(str, kept)) == sorted(map(str, every[:20]))
    assert tuned.perf_model(**every[0]) == rows[0]["execution_time"]
    assert tuned.perf_model(block_size_x=7) == math.inf


# ---------------------------------------------------------------------------- names as code

CODE = "__import__('os').system('touch gone') or a"
LABEL = 'x"""\nimport os\nos.mkdir("gone")\n"""'


def results(dim: str = "a", device: str = "gtx_980_paper", model: str = "hong_kim") -> xr.Dataset:
    """Return results as they may be in an untrusted store."""
    axes = {"model": [model], "device": [device], dim: [1, 2]}
    time, status = np.array([[[1.0, 2.0]]]), np.zeros((1, 1, 2), np.uint8)
    data = {"execution_time": (tuple(axes), time, {"units": "s"}), "status": (tuple(axes), status)}
    return xr.Dataset(data, axes)


@pytest.mark.parametrize("form", ["kernel_tuner", "triton", "t1"])
@pytest.mark.parametrize(
    ("kernel", "names"),
    [("k", {"dim": CODE}), ("k", {"device": LABEL}), ("k", {"model": LABEL}), (CODE, {}),
     (LABEL, {}), ("../k", {}), ("k", {"device": "x" * 1000})],
)  # fmt: skip
def test_names_from_a_store_never_become_code(form, kernel, names, folder):
    with pytest.raises(SweepError, match="letters, digits and _") as caught:
        export({kernel: results(**names)}, form)
    assert "\n" not in str(caught.value)
    assert contents(folder) == {}


def test_words_stay_words_in_a_module():
    one = chosen([('"""\'', 1)], kind=('"""\'', "b"), x=(1, 2))
    Path("words.py").write_text(kernel_tuner_text(one))
    assert module(Path("words.py")).CONFIGURATIONS == {('"""\'', 1)}
    with pytest.raises(QueryError, match="neither a number nor a word"):
        chosen([("a\n", 1)], kind=("a\n", "b"), x=(1, 2))


def test_csv_parquet_and_dataframe_hold_the_same(predictions):
    pandas = pytest.importorskip("pandas")
    assert export(predictions, "csv", n=30).rows == 30
    rows = list(csv.DictReader(io.StringIO(Path("convolution_milo.csv").read_text())))
    frame = query.top(predictions, 30, ties=True).to_dataframe()
    assert [float(row["execution_time"]) for row in rows] == frame["execution_time"].tolist()
    pytest.importorskip("pyarrow")
    export(predictions, "parquet", n=30)
    read = pandas.read_parquet("convolution_milo.parquet")
    assert read["execution_time"].tolist() == frame["execution_time"].tolist()
    assert read["block_size_x"].tolist() == frame["block_size_x"].tolist()


def test_configurations_count_once_whatever_is_swept_and_in_either_layout():
    axes = {"core_clock_ratio": [0.7, 0.8, 1.0], "image_width": [2048, 4096]}
    data = sweep.evaluate(plan(axes=axes)).load()
    found = best_configurations(data, 40)
    assert len(set(found.rows)) == len(found.rows) == 40
    assert "image_width" not in found.names
    best = data["convolution_milo"]["execution_time"].min(["model", "device", *axes]).values
    assert found.seconds == np.sort(best[np.isfinite(best)])[:40].tolist()
    layouts = (sweep.evaluate(plan(layout=layout)).load() for layout in ("stacked", "grid"))
    stacked, grid = (best_configurations(data, 25) for data in layouts)
    assert (stacked.rows, stacked.seconds, stacked.names) == (grid.rows, grid.seconds, grid.names)


@pytest.mark.parametrize(
    ("more", "form", "message"),
    [({"devices": ["rtx_a4000", "rtx_2080_ti"]}, "t1",
      "about one device: select one of rtx_a4000, rtx_2080_ti"),
     ({"models": ["hong_kim", "wang_chu"]}, "triton",
      "about one model: select one of hong_kim, wang_chu"),
     ({"kernels": [str(KERNEL), "transpose"]}, "kernel_tuner", "about one kernel")],
)  # fmt: skip
def test_several_devices_models_or_kernels_are_refused(more, form, message):
    with pytest.raises(QueryError, match=message):
        export(sweep.evaluate(plan(**more)), form)


def test_command_line(predictions, folder, capsys):
    few = "tile_size_x == 1 and block_size_y == 16 and block_size_x == 64 and tile_size_y == 1"
    done = export(predictions, "triton", n=50, where=few)
    assert 0 < done.rows < 50
    assert f"there are {done.rows} valid configurations, not 50" in done.notes
    Path("conv.toml").write_text(
        f'schema = 1\nkernels = ["{KERNEL}"]\ndevices = ["rtx_a4000"]\nmodels = ["hong_kim"]\n'
    )
    assert main(["export", "conv.toml", "t1", "-n", "10", "tile_size_x=2", "-o", "ten.json"]) == 0
    assert capsys.readouterr().out == "wrote ten.json: 10 configurations\n"
    assert read_t1(read_source("ten.json")).parameters["tile_size_x"] == (2,)
    before = contents(folder)
    arguments = ("export", "conv.toml", "triton")
    assert "a positive integer" in refused(capsys, *arguments, "-n", "0")
    assert "no valid configuration" in refused(capsys, *arguments, "--where", "tile_size_x > 9")
    assert "cannot be written" in refused(capsys, *arguments, "-o", "no/where.py")
    assert "invalid choice" in refused(capsys, "export", "conv.toml", "xml")
    assert contents(folder) == before

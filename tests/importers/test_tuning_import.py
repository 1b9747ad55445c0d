"""Import of tuners' files: search spaces, caches, results and tables, valid and damaged."""

from __future__ import annotations

import csv
import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.refusals import contents, refused
from support.tuning_files import (
    CACHE,
    CONVOLUTION_T1,
    GEMM,
    GEMM_T1,
    KTT,
    entry,
    measured,
    unpacked,
)

from sweep import query
from sweep.cli import main
from sweep.errors import StoreError
from sweep.evaluation.planned import evaluate
from sweep.importers.files import read_source
from sweep.importers.tuners.measurements import MEASURED
from sweep.importers.tuners.search_space import MOST_VALUES, listed, read_t1
from sweep.measurements.importing import device_keys, read_measured
from sweep.query.resting import placeholders_in, resting_note
from sweep.runs.extending import extend
from sweep.space import load_plan, resolve
from sweep.specs import load_device, load_kernel
from sweep.store import open_store

pytestmark = pytest.mark.usefixtures("folder")


def _file(name: str, *lines: str) -> Path:
    path = Path(name)
    path.write_text("\n".join(lines) + "\n")
    return path


# ---------------------------------------------------------------------------- search spaces


@pytest.mark.parametrize(("path", "table"), [(GEMM_T1, GEMM), (CONVOLUTION_T1, CACHE)])
def test_conditions_mean_what_they_mean_in_python(path, table):
    found = measured(table).parameters
    rows = np.random.default_rng(1).choice(len(next(iter(found.values()))), 500, replace=False)
    columns = {name: column[rows] for name, column in found.items()}
    entries = json.loads(path.read_text())["ConfigurationSpace"]["Conditions"]
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    expected = []
    for names in (dict(zip(columns, row, strict=True)) for row in values):
        holds = [eval(e["Expression"], {"__builtins__": {}}, names) for e in entries]  # fixtures
        expected.append(all(holds))
    assert read_t1(read_source(path)).satisfied(columns).tolist() == expected


def test_import_of_a_space_makes_a_kernel_file_and_a_plan_that_run(folder, capsys):
    assert main(["import", str(CONVOLUTION_T1), "--device", "rtx_a4000"]) == 0
    said = capsys.readouterr().out
    assert "10 parameters, 10,240 points, 4 conditions" in said
    assert "next: replace in convolution_milo.toml what is marked 'assumed'" in said
    kernel = load_kernel("convolution_milo.toml")
    assert kernel.sizes == {"problem_size_x": 4096, "problem_size_y": 4096}
    assert kernel.expressions["launch.threads_per_block"].text == "block_size_x * block_size_y"
    assert kernel.expressions["launch.blocks"].text == (
        "ceil(problem_size_x / (block_size_x * tile_size_x))"
        " * ceil(problem_size_y / (block_size_y * tile_size_y))"
    )
    assumed = {"resources.registers_per_thread", "instructions", "global_access"}
    assert set(kernel.assumed()) == assumed == set(kernel.placeholders())
    assert not load_kernel("convolution").placeholders()
    plan = load_plan("convolution_milo_plan.toml")
    assert [d.key for d in resolve(plan).devices] == ["rtx_a4000"]
    assert main(["lint", "convolution_milo.toml", "convolution_milo_plan.toml"]) == 0
    # The initial kernel loads and stores one word for each of 4096 x 4096 elements, so no time is
    # below the one that 448 GB/s allow.
    times = evaluate(replace(plan, models=("combined",)))
    best = float(np.nanmin(times["convolution_milo"].execution_time))
    assert 8 * 4096**2 / 448e9 < best < 2 * 8 * 4096**2 / 448e9
    rows = query.best(times).rows
    assert set(placeholders_in(rows)) == {f"kernel: {path}" for path in assumed}
    assert "kernel: instructions (placeholder)" in resting_note(rows)[1]


def test_import_names_what_it_could_not_take_over(capsys):
    space = read_t1(read_source(GEMM_T1))
    assert (space.cartesian, len(space.parameters), len(space.conditions)) == (663_552, 17, 8)
    assert space.parameters["MDIMC"] == (8, 16, 32)
    assert main(["import", str(GEMM_T1)]) == 0
    said = capsys.readouterr().out
    assert "LocalSize (block_size_x, block_size_y, 1) contains names that are not" in said
    assert "launch.threads_per_block" in load_kernel("gemm.toml").assumed()


# ---------------------------------------------------------------------------- measured times


def test_import_of_measured_times_keeps_and_counts_what_violates_the_conditions(folder, capsys):
    arguments = ["import", str(GEMM_T1), str(GEMM), "--device", "NVIDIA GeForce RTX 2080 Ti"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "17,956 rows, 0 without a time" in said
    assert "rows outside the search space's conditions, kept: 484 of 17,956" in said
    results = open_store("gemm_measured.zarr")["gemm"].to_dataset()
    assert results.sizes == {"device": 1, "configuration": 17_956}
    assert results.device.item() == "rtx_2080_ti"
    assert int((results.within_conditions == 0).sum()) == 484
    assert results.attrs["source_sha256"] == [read_source(GEMM).sha256]
    assert set(np.unique(results.KWG)) == {32}
    assert results.execution_time.attrs["units"] == "s"
    rows = list(csv.DictReader(unpacked(GEMM).splitlines()))
    names = [name for name in rows[0] if name in results.coords]
    assert len(names) == 15
    times = {tuple(int(row[n]) for n in names): float(row["time_ms"]) * 1e-3 for row in rows}
    assert query.best("gemm_measured.zarr")[0]["execution_time"] == min(times.values())
    for found in (results, read_measured([GEMM], device="rtx_2080_ti")):
        labels = zip(*(found[name].values.tolist() for name in names), strict=True)
        assert dict(zip(labels, found.execution_time.values[0], strict=True)) == times


def test_cache_of_kernel_tuner_with_its_failures():
    found = measured(CACHE)
    entries = json.loads(unpacked(CACHE))["cache"]
    assert len(found) == len(entries) == 4362
    times = [entry["time"] for entry in entries.values()]
    statuses = np.bincount(found.status)
    assert statuses[MEASURED["runtime"]] == times.count("RuntimeFailedConfig") == 155
    assert statuses[MEASURED["compilation"]] == times.count("CompilationFailedConfig") == 6
    good = [time * 1e-3 for time in times if not isinstance(time, str)]
    np.testing.assert_array_equal(found.seconds[found.valid], good)
    assert set(found.device) == {"NVIDIA RTX A4000"}


def test_both_layouts_hold_the_same_and_answer_alike():
    grid, stacked = (read_measured([CACHE], layout=layout) for layout in ("grid", "stacked"))
    for results, n_dims in ((grid, 11), (stacked, 2)):
        assert results.device.item() == "rtx_a4000" and results.execution_time.ndim == n_dims
        best = query.best(results)[0]
        assert best["execution_time"] == np.nanmin(measured(CACHE).seconds)
        assert best["block_size_x"] == 256 and best["tile_size_y"] == 4
        assert int((results.status != MEASURED["not_measured"]).sum()) == 4362
    for question in ({"by": ["device"]}, {"by": ["block_size_x", "block_size_y"]}):
        for ask in (query.summary, query.best):
            assert ask(stacked, **question).to_csv() == ask(grid, **question).to_csv()
    statuses = query.summary(stacked)[0]["statuses"]
    assert statuses == {"not_measured": 10240 - 4362, "runtime": 155, "compilation": 6}


def test_full_spaces_become_grids_and_devices_a_dimension():
    lines = ["x,y,time_us", *(f"{x},{y},{x * y + 1}" for x in (1, 2, 4) for y in (3, 5))]
    results = read_measured([_file("full.csv", *lines)], device="gtx_980_paper")
    assert results.execution_time.dims == ("device", "x", "y")
    assert results.execution_time.sel(x=4, y=5).item() == pytest.approx(21e-6)
    expected = {"NVIDIA GeForce RTX 2080 Ti": "rtx_2080_ti", "NVIDIA RTX A4000": "rtx_a4000",
                "gtx_980_paper": "gtx_980_paper", "Other 9": "other_9"}  # fmt: skip
    assert device_keys([*expected]) == expected
    lines = ["device,x,time_ms", "NVIDIA RTX A4000,1,2", "gtx_980_paper,1,4", "gtx_980_paper,2,5"]
    results = read_measured([_file("mixed.csv", *lines)])
    assert sorted(results.device.values.tolist()) == ["gtx_980_paper", "rtx_a4000"]
    assert results.execution_time.sel(device="gtx_980_paper").values.tolist() == [4e-3, 5e-3]
    missing = results.sel(device="rtx_a4000")
    assert missing.status.values.tolist() == [0, MEASURED["not_measured"]]
    assert math.isnan(missing.execution_time.values[1])


def test_ktt_with_counters_and_failures():
    found = measured(KTT)
    results = json.loads(unpacked(KTT))["Results"]
    assert found.kernel == "Convolution"
    assert np.count_nonzero(found.valid) == 240
    assert np.count_nonzero(found.status == MEASURED["runtime"]) == 16
    first = results[0]["ComputationResults"][0]
    assert found.seconds[0] == pytest.approx(first["Duration"] * 1e-6)
    assert found.further["registers_per_thread"][0] == first["CompilationData"]["RegistersCount"]
    counters = {c["Name"]: c["Value"] for c in first["ProfilingData"]["Counters"]}
    assert counters == {name: found.further[name][0] for name in counters}


def test_t4_units_and_invalidity():
    entries = [entry(1, 2.5), entry(2, 40, "us"), entry(4, "", "ms", "compile"),
               entry(8, 0, "ms", "timeout")]  # fmt: skip
    found = measured(_file("a.T4.json", json.dumps({"schema_version": "1", "results": entries})))
    np.testing.assert_allclose(found.seconds[:2], [2.5e-3, 40e-6])
    words = [MEASURED.meaning(int(code)) for code in found.status]
    assert words == ["valid", "valid", "compilation", "timeout"]


def test_a_measured_store_has_the_mean_of_repeated_rows_and_answers_some_questions(capsys):
    _file("twice.csv", "x,time_ms", "1,2", "1,4", "2,nan", "2,8")
    assert main(["import", "twice.csv", "--device", "gtx_980_paper"]) == 0
    assert "rows that repeat a configuration, which has their mean: 2" in capsys.readouterr().out
    results = xr.open_datatree("twice_measured.zarr", engine="zarr")["twice"]
    assert results["execution_time"].values.tolist() == [[3e-3, 8e-3]]
    assert main(["info", "twice_measured.zarr"]) == 0
    assert "measured times, from twice.csv" in capsys.readouterr().out
    for question in ("explain", "rerun"):
        assert "the store holds measured times" in refused(capsys, question, "twice_measured.zarr")
    with pytest.raises(StoreError, match="the store holds measured times"):
        extend("twice_measured.zarr", "quickstart")


def test_the_same_import_again_changes_nothing_unless_asked(folder, capsys):
    arguments = ["import", str(CONVOLUTION_T1), str(CACHE)]
    assert main(arguments) == 0
    before = contents(folder)
    assert refused(capsys, *arguments).startswith("convolution_milo.toml: is there already; ")
    assert contents(folder) == before
    assert main([*arguments, "--overwrite"]) == 0


def test_counters_and_odd_columns_become_arrays_of_the_store(folder):
    assert main(["import", str(KTT)]) == 0
    counters = open_store("convolution_measured.zarr")["convolution"].data_vars
    assert "dram__throughput.avg.pct_of_peak_sustained_elapsed" in counters
    _file("a.csv", "x,time_ms,2nd run,kernel,..,GFLOP/s", "1,2,3,4,5,6")
    assert main(["import", "a.csv", "--device", "gtx_980_paper"]) == 0
    found = open_store("a_measured.zarr")["a"].data_vars
    assert {*found} == {"execution_time", "status", "n_2nd_run", "unnamed", "GFLOP_per_s"}
    assert main(["verify", "a_measured.zarr"]) == 0


# ---------------------------------------------------------------------------- results alone


def test_a_cache_alone_gives_kernel_file_plan_and_store(folder, capsys):
    assert main(["import", str(CACHE)]) == 0
    assert "device: 'NVIDIA RTX A4000' is rtx_a4000" in capsys.readouterr().out
    kernel = load_kernel("convolution_kernel.toml")
    declared = json.loads(unpacked(CACHE))["tune_params"]
    assert {name: list(values) for name, values in kernel.parameters.items()} == declared
    assert kernel.sizes == {"problem_size_x": 4096, "problem_size_y": 4096}
    assert {"instructions", "global_access", "launch.blocks"} <= set(kernel.placeholders())
    plan = resolve(load_plan("convolution_kernel_plan.toml"))
    store = open_store("convolution_kernel_measured.zarr")["convolution_kernel"]
    assert [device.key for device in plan.devices] == store["device"].values.tolist()
    predicted = evaluate(replace(plan.plan, models=("combined",)))
    (pairs,) = query.paired(predicted, "convolution_kernel_measured.zarr")
    assert len(pairs.measured) == int(measured(CACHE).valid.sum()) and not pairs.outside


def test_launches_of_ktt_become_expressions(folder):
    assert main(["import", str(KTT)]) == 0
    kernel, found = load_kernel("convolution.toml"), measured(KTT)
    assert not {"launch.threads_per_block", "launch.blocks"} & set(kernel.placeholders())
    columns = {**found.parameters, **kernel.sizes}
    for path, words in (("threads_per_block", "block"), ("blocks", "grid")):
        expression = kernel.expressions[f"launch.{path}"]
        value, _ = expression.evaluate({name: columns[name] for name in expression.names})
        counted = math.prod(found.further[f"{words}_{axis}"] for axis in "xyz")
        np.testing.assert_array_equal(value[found.valid], counted[found.valid])
    opencl = json.loads(unpacked(KTT))
    opencl["Metadata"]["GlobalSizeType"] = "OpenCL"
    for result in opencl["Results"]:
        for part in result["ComputationResults"]:
            for axis, threads in part["LocalSize"].items():
                part["GlobalSize"][axis] *= threads
    threads = measured(_file("opencl.json", json.dumps(opencl)))
    np.testing.assert_array_equal(threads.further["grid_x"], found.further["grid_x"])


def test_results_leave_a_kernel_file_that_was_counted(folder, capsys):
    lines = ("x,y,time_ms", "1,2,3", "2,2,4")
    _file("a.csv", *lines)
    counted = _file("a.toml", Path(load_kernel("vector_add").path).read_text())
    before = counted.read_text()
    for more in ((), ("--overwrite",)):
        assert main(["import", "a.csv", "--device", "gtx_980", *more]) == 0
        assert "a.toml is there already and stays" in capsys.readouterr().out
        assert counted.read_text() == before and not Path("a_plan.toml").exists()
    counted.unlink()
    for _ in range(2):  # one with placeholders is replaced if asked
        assert main(["import", "a.csv", "--device", "gtx_980", "--overwrite"]) == 0
        assert load_kernel("a.toml").parameters == {"x": (1, 2), "y": (2,)}


def test_plan_and_store_name_a_device_alike(folder, capsys):
    own = _file("mine.toml", Path(load_device("rtx_3080").path).read_text())
    _file("a.csv", "x,device,time_ms", "1,NVIDIA GeForce RTX 3070 Ti,3")
    for given, key in (((), "nvidia_geforce_rtx_3070_ti"), (("--device", str(own)), "mine")):
        assert main(["import", "a.csv", "--overwrite", *given]) == 0
        out = capsys.readouterr().out
        assert ("no device file for 'nvidia_geforce_rtx_3070_ti'" in out) != bool(given)
        store = open_store("a_measured.zarr")["a"]
        assert store["device"].values.tolist() == [key]
        assert load_plan("a_plan.toml").devices == (str(own) if given else key,)
    assert resolve(load_plan("a_plan.toml")).devices[0].key == "mine"


DRIVERS = {
    "Tesla V100-SXM2-16GB": "v100",
    "NVIDIA A100-SXM4-40GB": "a100_40gb",
    "NVIDIA A100-SXM4-80GB": "a100_80gb",
    "NVIDIA A100-PCIE-40GB": "nvidia_a100_pcie_40gb",
    "NVIDIA A100": "nvidia_a100",
    "NVIDIA H100 PCIe": "h100_pcie",
    "Tesla P100-PCIE-16GB": "tesla_p100",
    "NVIDIA TITAN RTX": "titan_rtx",
    "NVIDIA GeForce RTX 2080 SUPER": "nvidia_geforce_rtx_2080_super",
    "NVIDIA GeForce RTX 3080 Ti": "rtx_3080_ti",
    "NVIDIA GeForce RTX 3070 Ti": "nvidia_geforce_rtx_3070_ti",
    "AMD Instinct MI250X": "mi250x",
    "AMD Radeon PRO W7800": "radeon_pro_w7800",
}


def test_devices_are_known_by_the_names_of_drivers():
    assert device_keys([*DRIVERS]) == DRIVERS


# ---------------------------------------------------------------------------- values as Python text

VALUES = tomllib.loads((Path(__file__).parent / "values.toml").read_text("utf-8"))


def test_values__as_python_and_the_kernel_file_have_them():
    parameters = load_kernel("hotspot").parameters
    published = [(text, list(parameters[name])) for name, text in VALUES["hotspot"].items()]
    for text, expected in [*VALUES["parsed"], *published]:
        assert listed(text) == expected, text


@pytest.mark.parametrize("text", [*VALUES["refused"], "(" * 500])
def test_values__what_is_refused(text):
    assert MOST_VALUES == 100_000
    with pytest.raises(ValueError, match="."):
        listed(text)

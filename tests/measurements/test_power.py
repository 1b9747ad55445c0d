"""Power fitted to measured power: known coefficients, the Titan X, bad input."""

import csv
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from support.refusals import contents, refused

import sweep
from sweep.cli import main
from sweep.hardware.clocks import power_inputs
from sweep.importers.files import read_source
from sweep.measurements.calibrating_power import calibrate_power
from sweep.measurements.clock_ranges import clock_range, clocks_not_held
from sweep.measurements.power import PowerFit, energy_losses, fitted
from sweep.measurements.power_table import read_power
from sweep.specs import load_device, parse_device
from sweep.specs.kernel import parse_kernel

FOLDER = Path(__file__).parents[1] / "data" / "dvfs"
MICRO, APPLICATIONS = FOLDER / "microbenchmarks.csv.gz", FOLDER / "applications.csv"
NOMINAL = (1000.0, 3000.0)
CORES, MEMORIES = np.arange(600.0, 1201.0, 100.0), (800.0, 3000.0)
TRUE = PowerFit(
    coefficients=np.array([25.0, 20.0, 60.0, 5.0, 15.0]),
    knots=np.array([[600, 0.8], [700, 0.85], [800, 0.9], [900, 0.95], [1000, 1.0], [1200, 1.15]]),
    floors={800.0: 0.8, 3000.0: 0.9},
    deviations=np.zeros(5),
    unseen=np.zeros((0, 5)),
)
HEADER = "kernel,core_MHz,mem_MHz,time_ms,power_W,core_activity,memory_activity"


def lines_of(kernels=20, noise=0.01, cores=CORES, memories=MEMORIES):
    """Return lines of a table with the power of `TRUE`, and noise."""
    rng = np.random.default_rng(1)
    for k in range(kernels):
        work, traffic = rng.uniform(0.05, 1.0, 2)
        for core in cores:
            for memory in memories:
                time = work * 1000 / core + traffic * 3000 / memory
                shares = work * 1000 / core / time, traffic * 3000 / memory / time
                volts = float(TRUE.voltage(np.array(core), np.array(memory)))
                columns = [1, volts**2 * core / 1e3, volts**2 * core / 1e3 * shares[0],
                           memory / 1e3, memory / 1e3 * shares[1]]  # fmt: skip
                watts = TRUE.coefficients @ columns * (1 + noise * rng.standard_normal())
                numbers = ",".join(f"{x:.9g}" for x in (core, memory, time, watts, *shares))
                yield f"k{k},{numbers}"


def written(path, lines, header=HEADER):
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def test_known_coefficients_and_voltages_are_found(tmp_path):
    source = read_source(written(tmp_path / "t.csv", lines_of()))
    table = read_power(source, load_device("gtx_titan_x"), "combined", "revised")
    fit = fitted(table, NOMINAL)
    assert table.counted and len(table.kernels) == 20
    np.testing.assert_allclose(fit.coefficients, TRUE.coefficients, rtol=0.12)
    cores, memories = np.meshgrid(CORES, MEMORIES)
    found = fit.voltage(cores, memories)
    np.testing.assert_allclose(found, TRUE.voltage(cores, memories), rtol=0.02)
    assert found[list(MEMORIES).index(3000), list(CORES).index(1000)] == pytest.approx(1)
    error = np.abs(fit.unseen.sum(axis=1) / table.power - 1)
    assert np.median(error) < 0.01 and error.max() < 0.06
    assert (fit.deviations < 5).all()


def test_activities_that_tell_the_units_badly_do_not_spoil_what_remains_without_any(tmp_path):
    """As of a model: each kernel's activities are off by a factor, the same at all clocks."""
    rng, off, lines = np.random.default_rng(2), {}, []
    for line in lines_of(40):
        kernel, *cells, busy, moving = line.split(",")
        factor = off.setdefault(kernel, rng.uniform(0.3, 1.0))
        lines.append(",".join([kernel, *cells, f"{float(busy) * factor:.9g}",
                               f"{float(moving) * factor:.9g}"]))  # fmt: skip
    found = calibrate_power(written(tmp_path / "t.csv", lines), device="gtx_titan_x",
                            measured_power=NOMINAL)  # fmt: skip
    static, idle, _, resting, _ = found.fit.coefficients
    assert [static, idle, resting] == pytest.approx([25.0, 20.0, 5.0], rel=0.25)
    plain, known = found.answer.rows[:2]
    assert known["power_mean"] < 0.02 < plain["power_mean"]


def test_units_and_order_of_lines_do_not_matter(tmp_path):
    lines = list(lines_of())
    one = calibrate_power(written(tmp_path / "t.csv", lines), device="gtx_titan_x")
    cells = [line.split(",") for line in lines]
    milli = [",".join([*c[:4], f"{float(c[4]) * 1e3:.12g}", *c[5:]]) for c in cells]
    header = HEADER.replace("power_W", "power_mW")
    other = calibrate_power(written(tmp_path / "t.csv", milli, header), device="gtx_titan_x")
    np.testing.assert_allclose(one.fit.coefficients, other.fit.coefficients, rtol=1e-6)


def test_a_clock_that_was_not_held_is_found_by_cycles(tmp_path):
    """Of 1200 MHz the GPU reached 1150; kernels that also move data do not tell."""
    works = enumerate(np.linspace(1, 9, 20))
    times = {
        f"k{k}": {(f, 3000.0): work / min(f, 1150.0) + (k > 9) * work / 2e3 for f in CORES}
        for k, work in works
    }
    assert clocks_not_held(times) == {1200.0: pytest.approx(1150.0)}
    assert clocks_not_held({k: times[k] for k in [*times][6:]}) == {}
    # Others wait for memory above some clock, each above its own: all clocks were held.
    late = {f"m{k}": {(f, 3000.0): max(1 / f, 1 / edge) for f in CORES}
            for k, edge in enumerate((900, 920, 950, 970, 990, 1010))}  # fmt: skip
    assert clocks_not_held(late) == {}
    # At the lower memory clock these wait: they do not only compute.
    slow = {k: own[600.0, 3000.0] * 600 / 700 for k, own in times.items()}
    twice = {k: own | {(f, 800.0): max(t, slow[k]) for (f, _), t in own.items()}
             for k, own in times.items()}  # fmt: skip
    assert clocks_not_held(twice) == {}
    lines = lines_of(cores=CORES[:-1])
    late = [re.sub(r",1150,", ",1200,", line) for line in lines_of(cores=(1150.0,))]
    more = [
        f"c{k},{core},3000,{1e3 / min(core, 1150.0)},{200 + k},1,0"
        for k in range(5)
        for core in CORES
    ]
    found = calibrate_power(written(tmp_path / "t.csv", [*lines, *late, *more]),
                            device="gtx_titan_x", measured_power=(1200.0, 3000.0))  # fmt: skip
    assert "1200 MHz was not held" in found.answer.notes[0] and found.fit.knots[-1, 0] == 1150
    assert "1200 MHz taken as 1150, by cycles" in found.device.text


def test_clocks_beyond_the_range_of_the_device__are_said(tmp_path):
    def notes(judge=None, **given):
        path = written(tmp_path / "t.csv", lines_of(6, **given))
        found = calibrate_power(path, device="gtx_titan_x", judge=judge)
        low, _, high = clock_range(found.device, "core")
        assert (low, high) == (595.0, max(1164.0, *given.get("cores", CORES)))
        return found.answer.notes

    inside = written(tmp_path / "inside.csv", lines_of(6, memories=(3000.0,)))
    for judge in (None, inside):
        core, memory = notes(judge)
        assert "core clock was measured at 1200 MHz, beyond the range of gtx_titan_x" in core
        assert "memory clock was measured at 800 MHz, beyond" in memory
        assert memory.endswith("the range is widened for these predictions and in the file")
    assert notes(memories=(3000.0,), cores=CORES[:-1]) == ()


def test_one_memory_clock_leaves_out_what_it_cannot_tell(tmp_path):
    path = written(tmp_path / "t.csv", lines_of(memories=(3000.0,)))
    found = calibrate_power(path, device="gtx_titan_x")
    assert found.fit.floors == {} and found.fit.coefficients[3] == 0
    assert "core_voltage_floor" not in found.device.text
    assert found.answer[0]["power_median"] < 0.02


def profiles_of(folder, **computation):
    """Write kernel files of profiles: mixes with some instructions for each load."""
    text = resources.files("sweep.measurements").joinpath("mix.toml").read_text(encoding="utf-8")
    for name, count in computation.items():
        changed = text.replace('"mix"', f'"{name}"').replace("= [16]", f"= [{count}]")
        (folder / f"{name.lower()}.toml").write_text(changed, encoding="utf-8")
    return folder


def test_activities__of_profiles_are_those_of_the_model_over_the_measured_time(tmp_path):
    folder = profiles_of(tmp_path, Copies=1, Both=60, Computes=2000)
    outputs = ("execution_time", "core_activity", "memory_activity")
    plan = sweep.Plan([str(folder / "both.toml")], ["gtx_titan_x"], variant="revised",
                      axes={"core_clock": [700, 900, 1100]}, outputs=outputs)  # fmt: skip
    own = sweep.evaluate(plan)["both"].to_dataset().squeeze()
    times = dict(zip((700, 900, 1100), 1.25e3 * own["execution_time"].values, strict=True))
    lines = [
        f"{name},{core},3505,{time:.9g},{40 + 30 * i + core / 10}"
        for i, name in enumerate(("Both", "COPIES", "computes"))
        for core, time in times.items()
    ]
    source = written(tmp_path / "t.csv", lines, NO_ACTIVITY)
    fit = calibrate_power(source, device="gtx_titan_x", profiles=folder)
    assert "activities of combined, revised, for the counts of profiles" in fit.device.text
    profiled = {k: sweep.load_kernel(folder / f"{k}.toml") for k in ("copies", "both", "computes")}
    table = read_power(read_source(source), load_device("gtx_titan_x"), "combined", "revised",
                       profiled=profiled)  # fmt: skip
    expected = [own[name].values / 1.25 for name in outputs[1:]]
    np.testing.assert_allclose(table.activities[:, :3], expected, rtol=1e-5)


def test_profiles__that_are_missing_are_named(tmp_path):
    source = written(tmp_path / "t.csv", PLAIN, NO_ACTIVITY)
    with pytest.raises(sweep.QueryError, match="no folder with kernel files"):
        calibrate_power(source, device="gtx_titan_x", profiles=tmp_path)
    folder = profiles_of(tmp_path, k0=1, k1=60, k3=2000)
    with pytest.raises(sweep.QueryError, match="kernel 'k2' has no file of its counts"):
        calibrate_power(source, device="gtx_titan_x", profiles=folder)


# ---------------------------------------------------------------------------- the Titan X


@pytest.fixture(scope="module")
def titan():
    """Return the calibrated card. How many parts cross-validate it does not change its numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sweep.measurements.power.FOLDS", 2)
        return calibrate_power(MICRO, device="gtx_titan_x", judge=APPLICATIONS,
                               measured_power=(975.0, 3505.0))  # fmt: skip


def test_applications_that_the_fit_never_saw(titan):
    """From times alone, with a kernel's one measured power, and beside rules without a model."""
    plain, known, clocks, highest, lowest = titan.answer.rows
    assert plain["power_median"] < 0.08 < 0.15 < clocks["power_median"]
    assert plain["power_mean"] < 0.1215 < 0.16 < clocks["power_mean"]
    assert known["power_median"] < 0.025 and known["power_mean"] < 0.03
    for row in (plain, known):
        assert row["energy_median"] < 0.01 and row["energy_mean"] < 0.012
    assert min(highest["energy_median"], lowest["energy_median"]) > 0.1
    assert min(highest["energy_mean"], lowest["energy_mean"]) > 0.2


def test_shipped_power_is_that_of_the_fit(titan):
    shipped = load_device("gtx_titan_x")
    for path in ("static", "core", "memory", "core_idle_share", "memory_idle_share"):
        assert titan.device.values[f"power.{path}"] == pytest.approx(
            shipped.values[f"power.{path}"], rel=0.02
        )
    for name in ("core_voltage", "core_voltage_floor"):
        np.testing.assert_allclose(
            titan.device.tables[f"power.{name}"], shipped.tables[f"power.{name}"], rtol=0.02
        )
    (kind,) = {s.kind for path, s in shipped.sources.items() if path.startswith("power.")}
    assert kind == "fitted" and not shipped.assumed(("power",))


@pytest.mark.parametrize(
    ("key", "clocks", "core", "memory", "watts", "off"),
    [
        # Activities are the published utilisations by the model's weights; the first of each card
        # is without any.
        *(("tesla_k40", (875, 3004), *one, 0.06) for one in (
            (0.0, 0.0, 98.0), (0.326, 0.238, 137.3), (0.6705, 0.0, 147.4), (0.079, 0.696, 144.4))),
        *(("titan_xp", (1404, 5705), *one) for one in (
            (0.0, 0.0, 64.27, 0.05), (0.958, 0.0, 98.33, 0.13), (0.001, 0.691, 123.77, 0.1),
            (0.792, 0.678, 145.99, 0.1))),
        # nn of Wang & Chu's benchmarks, with the activities of its counts.
        *(("tesla_p100", (core, 715), *one) for core, *one in (
            (607, 0.909, 0.774, 94.5, 0.16), (1012, 0.759, 0.977, 101.7, 0.09),
            (1328, 0.577, 0.974, 135.8, 0.09))),
        *(("v100_pcie", (core, 877), *one, 0.09) for core, *one in (
            (802, 0.412, 0.815, 106.6), (1087, 0.352, 0.944, 126.3), (1380, 0.277, 0.944, 159.5))),
        *(("gtx_1080_ti", (core, 4000), *one, 0.09) for core, *one in (
            (1600, 0.296, 0.964, 148.7), (2000, 0.236, 0.962, 153.7))),
    ],
)  # fmt: skip
def test_shipped_power__is_near_what_was_measured(key, clocks, core, memory, watts, off):
    clock, other = (np.array([[mhz * 1e6]]) for mhz in clocks)
    found = power_inputs([load_device(key)], clock, other)
    power = found["static_power"] + core * found["core_watts"] + memory * found["memory_watts"]
    assert power.item() == pytest.approx(watts, rel=off)


def test_the_device_computes_what_the_fit_says(titan):
    """Static power and what remains without activity, then full activity, over the clocks."""
    core, memory = np.meshgrid([595.0, 975.0, 1164.0], [810.0, 3505.0], indexing="ij")
    found = power_inputs([titan.device], core[np.newaxis] * 1e6, memory[np.newaxis] * 1e6)
    squared = titan.fit.voltage(core, memory) ** 2 * core / 1e3
    static, idle, busy, resting, moving = titan.fit.coefficients
    expected = static + idle * squared + resting * memory / 1e3
    np.testing.assert_allclose(found["static_power"][0], expected, rtol=2e-3)
    np.testing.assert_allclose(found["core_watts"][0], busy * squared, rtol=2e-3)
    np.testing.assert_allclose(found["memory_watts"][0], moving * memory / 1e3, rtol=2e-3)


def test_explain_shows_each_part_of_the_power():
    plan = sweep.Plan(["vector_add"], ["gtx_titan_x"], axes={"core_clock": [700.0]})
    row = sweep.best(plan)[0]
    lines = {line.name: line for line in sweep.explain(plan, row.configuration)["Time"].lines}
    total = lines["P_static"].value + sum(
        lines[f"P_{name}"].value * lines[f"{name}_activity"].value for name in ("core", "memory")
    )
    assert row["power"] == pytest.approx(total, rel=1e-6)
    assert "the least one at a memory clock" in lines["V_core"].formula
    assert eval(lines["P_static"].worked.replace("^", "**")) == pytest.approx(
        lines["P_static"].value, rel=1e-3
    )
    assert any("fitted values (power.*" in note for note in sweep.best(plan).notes)


def test_losses_against_brute_force(titan):
    rows = list(csv.DictReader(APPLICATIONS.read_text().splitlines()))
    by_kernel = {}
    for row in rows:
        by_kernel.setdefault(row["kernel"], []).append(row)
    table = read_power(read_source(APPLICATIONS), load_device("gtx_titan_x"), "combined", "revised")
    for order, sign in ((table.core, 1), (-table.core, -1)):
        expected = []
        for own in by_kernel.values():
            energy = [float(r["energy_mJ"]) for r in own]
            first = min(own, key=lambda r: sign * float(r["coreF_MHz"]))
            expected.append(float(first["energy_mJ"]) / min(energy) - 1)
        np.testing.assert_allclose(energy_losses(order, table), expected, rtol=1e-3, atol=1e-6)


# ---------------------------------------------------------------------------- one measured launch

MEASURED = """
[measured]
time_ms = 2
device = "gtx_titan_x"
core_clock_MHz = 975
memory_clock_MHz = 3505
"""


def test_scale__meets_the_measured_power():
    text = sweep.load_kernel("vector_add").text
    kernel = parse_kernel(text + MEASURED, "vector_add")
    options = {"models": ["combined"], "core_clock": [595, 975], "memory_clock": [810, 3505],
               "select": {"block_size": 256, "elements_per_thread": 1,
                          "vector_width": 1}}  # fmt: skip
    plain, known = (sweep.scale(kernel, measured_power=w, **options).rows for w in (None, 150.0))
    assert known[-1]["power"] == pytest.approx(150.0)
    assert known[-1]["energy"] == pytest.approx(150.0 * 2e-3)
    idle = [55.0, 150.0]
    assert all(idle[0] < low["power"] < idle[1] for low in known[:-1])
    assert [row["combined"] for row in known] == [row["combined"] for row in plain]
    with pytest.raises(sweep.QueryError, match="needs a single model"):
        sweep.scale(kernel, measured_power=150.0, select=options["select"])
    bare = parse_kernel(kernel.text.replace("gtx_titan_x", "gtx_1080"), "vector_add")
    with pytest.raises(sweep.QueryError, match=r"no \[power\] to scale"):
        sweep.scale(bare, measured_power=150.0, **options)


# ---------------------------------------------------------------------------- bad input


def changed(lines, column, value):
    first = lines[3].split(",")
    first[column] = value
    return [*lines[:3], ",".join(first), *lines[4:]]


GOOD = list(lines_of(4))
PLAIN = [line.rsplit(",", 2)[0] for line in GOOD]
NO_ACTIVITY = HEADER.rsplit(",", 2)[0]
BAD = {
    "truncated": ([*GOOD, "k9,600,80"], HEADER, "line 58 has 3 cells, the header 7"),
    "comma": (["k0,600,800,1,5,70,1,1,1"], HEADER, "line 2 has 9 cells"),
    "nan": (changed(GOOD, 4, "nan"), HEADER, "line 5: power_W = 'nan': must be 1 to 2000 W"),
    "empty": (changed(GOOD, 4, ""), HEADER, "line 5: power_W = '': must be 1 to 2000 W"),
    "negative": (changed(GOOD, 4, "-5"), HEADER, "power_W = '-5'"),
    "time": (changed(GOOD, 3, "0"), HEADER, "time_ms = '0'"),
    "activity": (changed(GOOD, 5, "1.5"), HEADER, "core_activity = '1.5': must be 0 to 1"),
    "no power": (GOOD, HEADER.replace("power_W", "watts"), "no column 'power_W' of powers"),
    "one activity": (GOOD, HEADER.replace("core_act", "act"), "but none 'core_activity'"),
    "one kernel": (list(lines_of(1)), HEADER, "has one kernel"),
    "two clocks": (list(lines_of(4, cores=CORES[:2])), HEADER, "2 core clocks: a voltage curve"),
    "still": ([re.sub(r",[^,]+,([^,]+)$", r",0.5,\1", x) for x in GOOD], HEADER,
              "core_activity is 0.5 in all lines: a counter that stands still"),
    "sensor": ([",".join([*x.split(",")[:4], "100", *x.split(",")[5:]]) for x in GOOD], HEADER,
               "power is 100 W in all lines: a sensor that stands still"),
    "names": ([*GOOD, *(x.replace("k2", "k9") for x in reversed(GOOD) if "k2" in x)], HEADER,
              "kernels 'k2' and 'k9' are the same measurements under several names"),
    "timer": ([",".join([*x.split(",")[:3], "80", *x.split(",")[4:]]) for x in PLAIN], NO_ACTIVITY,
              "a timer that stands still"),
    "few pairs": ([x for x in PLAIN if ",600," in x], NO_ACTIVITY,
                  "kernel 'k0' was measured at 2 pairs of clocks: its activities need 3"),
    "twice": ([*GOOD, GOOD[-1]], HEADER, "a second time of 'k3'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(case, folder, capsys):
    lines, header, expected = BAD[case]
    written(Path("t.csv"), lines, header)
    before = contents(folder)
    said = refused(capsys, "calibrate-power", "t.csv", "--device", "gtx_titan_x")
    assert expected in said and contents(folder) == before


def test_the_command_writes_a_device_file_that_lints_clean(folder, capsys):
    written(Path("t.csv"), lines_of(6))
    given = [
        "calibrate-power", "t.csv", "--device", "gtx_980_paper", "--measured-power", "1000/3000",
    ]  # fmt: skip
    assert main(given) == 0
    assert "wrote gtx_980_paper_power.toml" in capsys.readouterr().out
    assert main(["lint", "gtx_980_paper_power.toml"]) == 0
    text = Path("gtx_980_paper_power.toml").read_text()
    assert text.count("[power]") == 1 and text.count('"power.static_W" =') == 2  # source, deviation
    assert parse_device(text, "x").sources["power.static_W"].kind == "fitted"
    capsys.readouterr()
    assert "is there already" in refused(capsys, *given)
    missing = refused(capsys, *given[:-1], "999/3000", "--overwrite")
    assert ": kernel 'k0' was not measured at 999/3000 MHz, but at 1000/3000 MHz" in missing
    assert "no column 'a'" in refused(capsys, *given[:-2], "--columns", "a", "-o", "other.toml")
    assert not Path("other.toml").exists()
    assert "no device" in refused(capsys, "calibrate-power", "t.csv", "--device", "gtx_990")
    assert "the fit has seen these" in refused(
        capsys, "calibrate-power", "t.csv", "--device", "gtx_titan_x", "--judge", "t.csv"
    )

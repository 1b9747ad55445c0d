"""Profiles of Nsight Compute and nvprof become kernel files: numbers, formulas, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

import sweep
from sweep.cli import main
from sweep.errors import ProfileError
from sweep.profiles import Given, chosen, inputs_of, kernels_of, read_profile
from sweep.specs import lint, load_device, parse_kernel

FOLDER = Path(__file__).parent / "data" / "profiles"
MATRIX = "matrixMulCUDA"
HEADER = (
    '"ID","Process ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit",'
    '"Metric Value"\n'
)


def path(name):
    return str(FOLDER / f"{name}.csv")


def text(name):
    return Path(path(name)).read_text(encoding="utf-8")


def inputs(*names, kernel=MATRIX, launch=None, given=None):
    launches = [one for name in names for one in read_profile(text(name))]
    return inputs_of(chosen(launches, kernel, launch), given)


def made(*rows, grid="(64, 1, 1)", block="(128, 1, 1)", kernel="k(int)"):
    """Return a profile of one launch with these counters (name, unit, value)."""
    lines = (
        f'"0","1","{kernel}","{block}","{grid}","{name}","{unit}","{value}"\n'
        for name, unit, value in rows
    )
    return HEADER + "".join(lines)


def of(*rows, **options):
    return inputs_of(chosen(read_profile(made(*rows, **options))))


INSTRUCTIONS = ("smsp__inst_executed.sum", "inst", "25,600")


# ---------------------------------------------------------------------------- both profilers

FORMS = {
    "ncu_details": ("ncu_details",),
    "ncu_raw": ("ncu_raw",),
    "nvprof_metrics": ("nvprof_metrics", "nvprof_trace"),
    "nvprof_events": ("nvprof_trace", "nvprof_events"),
}


@pytest.mark.parametrize("names", FORMS.values(), ids=FORMS)
def test_counts__of_the_source_whatever_the_format(names):
    found = inputs(*names)
    # 1024 x 1024 elements, one a thread, in tiles of 32: two loads a tile and one store.
    assert (found.threads, found.blocks, found.warps) == (1024, 1024, 32768)
    assert [(a.kind, a.count) for a in found.global_accesses] == [("load", 64), ("store", 1)]
    # 2911 instructions of a warp in all.
    assert found.computation == 2911 - 65
    assert found.global_accesses[1].transactions == pytest.approx(4, rel=1e-3)
    assert found.shared_memory == 8192  # also where it is printed as 8.19 Kbyte


def test_metrics__by_the_formulas_of_the_profile():
    found = inputs("nvprof_metrics", "nvprof_trace")
    (loads, stores), warps = found.global_accesses, 32768
    assert (loads.count * loads.transactions + stores.count * stores.transactions) == (
        pytest.approx((8391168 + 131093) / warps)
    )
    assert found.l2_hit_rate == pytest.approx(1 - (402820 + 131702) / (8391168 + 131093))
    assert found.registers == 25
    local = {a.kind: (a.count, a.transactions) for a in found.shared_accesses}
    assert local["load"] == (1280, pytest.approx(41943180 / 41943040))
    assert local["store"] == (64, 1)
    assert found.time == pytest.approx((2.213056 + 2.208577 + 2.209089) / 3 * 1e-3)
    assert found.occupancy == pytest.approx(0.99823)
    assert found.launches == 3 and found.device == "GeForce GTX 980"


def test_events__sum_over_the_parts_of_l2_and_dram():
    found = inputs("nvprof_events", "nvprof_trace")
    assert found.global_accesses[0].transactions == pytest.approx((4195520 + 4195648) / 2097152)
    missed, all_of = 201402 + 201418 + 65820 + 65882, 4195520 + 4195648 + 65536 + 65557
    assert found.l2_hit_rate == pytest.approx(1 - missed / all_of)
    assert "(global_load + global_store) / warps" in found.sources["instructions.computation"]


def test_units__of_raw_and_details():
    raw, details = inputs("ncu_raw"), inputs("ncu_details", launch=1)
    assert raw.time == pytest.approx(1357.7e-6) and details.time == pytest.approx(1.36e-3)
    assert raw.core_clock == details.core_clock == 1.55e9
    missed, all_of = (9.32e6 + 3.78e6) / 32, 8112044 + 131072
    assert raw.l2_hit_rate == pytest.approx(1 - missed / all_of)
    assert raw.occupancy == pytest.approx(0.6621)


def test_launches__one_or_the_mean():
    read = [inputs("ncu_details", launch=n).global_accesses[0].transactions for n in (1, 2)]
    assert read == [8112044 / 2097152, 8112108 / 2097152]
    mean = inputs("ncu_details")
    assert mean.global_accesses[0].transactions == pytest.approx(sum(read) / 2)
    assert mean.launches == 2 and mean.time == pytest.approx(1.35e-3)


def test_kernels__are_chosen_by_name_or_part():
    launches = read_profile(text("ncu_details"))
    assert [name.partition("(")[0] for name in kernels_of(launches)] == [
        "vectorAdd",
        "void matrixMulCUDA<32>",
    ]
    for name in (
        MATRIX,
        "matrixMul",
        "void matrixMulCUDA<32>(float *, float *, float *, int, int)",
    ):
        assert len(chosen(launches, name)) == 2


# ---------------------------------------------------------------------------- notations


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1,234,567", "12.5"], [1234567, 12.5]),
        (["1.234.567", "12,5"], [1234567, 12.5]),
        (["1.234", "0,125"], [1234, 0.125]),
        (["1,234", "256"], [1234, 256]),
        (["1.5e+3", "2"], [1500, 2]),
        (["1\u202f234,5", "1\u00a0000"], [1234.5, 1000]),
        (["1'234.5", "7"], [1234.5, 7]),
    ],
)
def test_numbers__of_any_locale(values, expected):
    rows = [(f"counter_{i}", "", value) for i, value in enumerate(values)]
    (launch,) = read_profile(made(*rows))
    assert [launch.counters[name].number for name, *_ in rows] == expected


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [("nsecond", 5e-9), ("ns", 5e-9), ("usecond", 5e-6), ("us", 5e-6), ("msecond", 5e-3),
     ("ms", 5e-3), ("second", 5), ("s", 5)],
)  # fmt: skip
def test_times__of_any_unit(unit, seconds):
    found = of(INSTRUCTIONS, ("gpu__time_duration.sum", unit, "5"))
    assert found.time == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("unit", "value", "size"),
    [("byte/block", "49,152", 49152), ("Kbyte/block", "49.15", 49152),
     ("Kbyte/block", "1.02", 1024), ("Kbyte/block", "32.77", 32768), ("KB", "8.000000", 8192),
     ("byte/block", "100", 100)],
)  # fmt: skip
def test_sizes__of_any_unit(unit, value, size):
    found = of(INSTRUCTIONS, ("launch__shared_mem_per_block_static", unit, value))
    assert found.shared_memory == size


@pytest.mark.parametrize("value", ["n/a", "nan", "", "inf", "<error>", "Low (2)"])
def test_what_is_no_number__is_missing_by_name(value):
    name = "lts__t_sectors_op_read.sum"
    found = of(INSTRUCTIONS, (name, "sector", value),
               ("smsp__inst_executed_op_global_ld.sum", "inst", "512"))  # fmt: skip
    assert found.global_accesses[0].transactions == 4
    assert f"{name} is '{value}': 4 sectors a load are assumed" in "\n".join(found.remarks)


# ---------------------------------------------------------------------------- what is missing


def test_missing__is_told_and_marked_as_assumed():
    found = of(INSTRUCTIONS, ("lts__t_sectors_op_read.sum", "sector", "8,192"))
    told = "\n".join(found.remarks)
    for name in (
        "smsp__inst_executed_op_global_ld.sum",
        "smsp__inst_executed_op_global_st.sum",
        "launch__registers_per_thread",
        "launch__shared_mem_per_block_static",
        "lts__t_sectors_op_write.sum",
    ):
        assert name in told
    assert found.global_accesses[0] == ("loads", "load", 8192 / 4 / 256, 4) or (
        found.global_accesses[0].count == 8192 / 4 / 256
    )
    assumed = {path for path, words in found.sources.items() if words.startswith("assumed: ")}
    assert assumed >= {
        "resources.registers_per_thread",
        "resources.shared_memory_bytes",
        "global_access.loads.count",
        "global_access.loads.transactions",
        "cache.l2_hit_rate",
        "loops.outer",
    }
    assert found.computation == 25600 / 256 - found.global_accesses[0].count


def test_hit_rate__of_l2_itself_where_dram_is_missing():
    found = inputs("ncu_details", kernel="vectorAdd")
    assert found.l2_hit_rate == 0
    assert "dram__sectors_write.sum is 'n/a': the L2 cache is assumed" in "\n".join(found.remarks)
    counters = (("lts__t_sectors_op_read.sum", "sector", "8,192"),
                ("lts__t_sector_hit_rate.pct", "%", "75.5"))  # fmt: skip
    found = of(INSTRUCTIONS, *counters)
    assert found.l2_hit_rate == 0.755
    assert "lts__t_sector_hit_rate.pct" in found.sources["cache.l2_hit_rate"]


def test_hit_rate__is_within_0_and_1():
    found = of(
        INSTRUCTIONS,
        ("lts__t_sectors_op_read.sum", "sector", "1,000"),
        ("lts__t_sectors_op_write.sum", "sector", "0"),
        ("dram__sectors_read.sum", "sector", "1,100"),
        ("dram__sectors_write.sum", "sector", "0"),
    )
    assert found.l2_hit_rate == 0
    assert "-0.1 clipped to 0" in found.sources["cache.l2_hit_rate"]


def test_given__goes_before_the_profile():
    given = Given((64, 1, 1), (10, 2, 1), 20, 1024, 8)
    found = inputs("ncu_details", given=given)
    assert (found.threads, found.blocks, found.registers) == (64, 20, 20)
    assert (found.shared_memory, found.outer) == (1024, 8)
    assert "block and grid make 40 warps" not in found.remarks


def test_remarks__launches_that_differ():
    rows = made(INSTRUCTIONS) + made(("smsp__inst_executed.sum", "inst", "30,000")).replace(
        '"0","1"', '"1","1"'
    ).removeprefix(HEADER)
    found = inputs_of(chosen(read_profile(rows)))
    assert any("differs by 16 % between the launches" in remark for remark in found.remarks)


# ---------------------------------------------------------------------------- the kernel file


@pytest.mark.slow
@pytest.mark.parametrize("names", FORMS.values(), ids=FORMS)
def test_file__is_a_kernel_that_every_model_reads(names, tmp_path):
    found = sweep.read_profile([path(name) for name in names], kernel=MATRIX, device="gtx_980",
                               core_clock=700)  # fmt: skip
    target = tmp_path / f"{found.key}.toml"
    target.write_text(found.text, encoding="utf-8")
    assert lint([target]) == []
    kernel = parse_kernel(found.text, found.key)
    assert kernel.measured is not None
    assert (kernel.measured.device, kernel.measured.core_clock) == ("gtx_980", 700)
    plan = sweep.Plan((str(target),), ("gtx_980",), sweep.model_names(), precision="float64")
    assert len(sweep.best(plan, by=["model"])) == len(sweep.model_names())


def test_file__gives_wang_chu_its_inputs(tmp_path):
    found = sweep.read_profile([path("nvprof_metrics"), path("nvprof_trace")])
    target = tmp_path / f"{found.key}.toml"
    target.write_text(found.text, encoding="utf-8")
    told = sweep.explain(
        None, {"kernel": str(target), "device": "gtx_980", "model": "wang_chu"}
    ).as_dict()
    symbols = {
        line["name"]: line["value"] for part in told["sections"] for line in part.get("lines", [])
    }
    transactions = (8391168 + 131093) / 32768
    assert symbols["gld_trans"] == pytest.approx(transactions)
    assert symbols["comp_inst"] == 2846
    assert symbols["k"] == pytest.approx(transactions / 65)
    assert symbols["i_itrs"] == 1280


def test_device__is_the_profiles_if_there_is_a_file():
    kernel = parse_kernel(sweep.read_profile([path("ncu_raw")], kernel=MATRIX).text, "k")
    assert kernel.measured is not None and kernel.measured.device == "rtx_a4000"
    assert kernel.measured.core_clock == 1550
    assert str(kernel.source_of("measured.core_clock_MHz")).startswith("derived: profile")
    nominal = load_device("rtx_a4000").values["clocks.memory_nominal"] / 1e6
    assert kernel.measured.memory_clock == nominal
    assert kernel.source_of("measured.memory_clock_MHz").kind == "assumed"


# ---------------------------------------------------------------------------- on the command line


def run(capsys, *arguments):
    code = main(["profile", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_command__writes_a_file_and_tells_what_is_assumed(capsys, tmp_path):
    target = tmp_path / "matmul.toml"
    code, out, err = run(
        capsys, path("ncu_details"), "--kernel", "matrixMul", "--launch", "2", "--device",
        "gtx_980", "--core-clock", "900", "--memory-clock", "800", "--measured-time", "2.5ms",
        "--outer", "32", "-o", str(target),
    )  # fmt: skip
    assert (code, out, err) == (0, "", "")
    kernel = parse_kernel(target.read_text(encoding="utf-8"), "matmul")
    assert kernel.measured is not None and kernel.measured.time == 2.5e-3
    assert (kernel.measured.core_clock, kernel.measured.memory_clock) == (900, 800)
    assert kernel.expressions["loops.inner"].text == "40"
    code, _, err = run(capsys, path("ncu_raw"), "--kernel", MATRIX, "-o", str(target))
    assert code == 2 and "is there already; --overwrite replaces it" in err


def test_command__tells_what_is_missing(capsys):
    code, out, err = run(capsys, path("nvprof_metrics"), "--block", "32,32", "--grid", "32,32")
    assert code == 0 and parse_kernel(out, "k").measured is None
    assert "there is no Registers Per Thread: 32 registers a thread are assumed" in err
    assert "no time of the launch: --measured-time anchors predictions to one" in err


BAD = {
    "no file": (None, ["nowhere.csv"], "nowhere.csv: cannot be read: No such file or directory"),
    "empty": ("", [], "the file is empty"),
    "other": ("a,b\n1,2\n", [], "no table of a profiler: wanted is what `ncu --csv` prints"),
    "toml": ('schema = 1\nname = "x"\n', [], "no table of a profiler"),
    "binary": ("\0\1\2", [], "no table of a profiler"),
    "no rows": (HEADER, [], "a table without rows: no kernel was profiled"),
    "cut in quotes": (made(INSTRUCTIONS)[:-4], [], "line 2: cut off, or not valid CSV"),
    "cut between": (
        made(INSTRUCTIONS) + '"0","1","k(int)"\n',
        [],
        "line 3: 3 cells below a header of 8: cut off, or not the profiler's own output",
    ),
    "two notations": (
        made(("a", "", "1.5"), ("b", "", "2,25")),
        [],
        "numbers of two notations: '1.5' and '2,25'; export the profile in one locale",
    ),
    "unit unknown": (
        made(INSTRUCTIONS, ("gpu__time_duration.sum", "furlong", "5")),
        [],
        "gpu__time_duration.sum = 5: unit 'furlong' is not known",
    ),
    "unit of something else": (
        made(INSTRUCTIONS, ("gpu__time_duration.sum", "Kbyte", "5")),
        [],
        "gpu__time_duration.sum = 5: unit 'Kbyte' is not one of a time (such as usecond)",
    ),
    "negative": (
        made(("smsp__inst_executed.sum", "inst", "-5")),
        [],
        "smsp__inst_executed.sum = -5: must not be negative",
    ),
    "zero warps": (made(INSTRUCTIONS, grid="(0, 1, 1)"), [], "0 warps: 0 blocks of 128 threads"),
    "nothing ran": (
        made(INSTRUCTIONS, ("smsp__warps_launched.sum", "warp", "0")),
        [],
        "smsp__warps_launched.sum = 0: nothing ran",
    ),
    "no counters": (
        made(("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "50")),
        [],
        "neither smsp__inst_executed.sum or sm__inst_executed.sum nor counters of L2",
    ),
    "no launch": (
        HEADER.replace('"Block Size","Grid Size",', "")
        + '"0","1","k","smsp__inst_executed.sum","inst","5"\n',
        [],
        "no block of the launch: add its column, or the section LaunchStats, or give --block",
    ),
    "no such kernel": (made(INSTRUCTIONS), ["--kernel", "kk"], "did you mean 'k'?"),
    "no such launch": (
        made(INSTRUCTIONS),
        ["--launch", "2"],
        "--launch 2: 'k' has 1 launches in the profile",
    ),
    "launches differ": (
        made(INSTRUCTIONS)
        + made(INSTRUCTIONS, grid="(8, 1, 1)").removeprefix(HEADER).replace('"0"', '"1"'),
        [],
        "launches of 'k' differ in their grid (8 to 64): choose one with --launch",
    ),
    "time": (made(INSTRUCTIONS), ["--measured-time", "5"], "a time of '5': must be a number above"),
    "registers": (made(INSTRUCTIONS), ["--registers", "0"], "--registers 0: outside the range 1"),
    "outer": (made(INSTRUCTIONS), ["--outer", "nan"], "--outer nan: outside the range 1 to 2**53"),
    "clock": (
        made(INSTRUCTIONS),
        ["--core-clock", "1.2"],
        "--core-clock 1.2: outside the range 50 to 5000 MHz",
    ),
    "device": (
        made(INSTRUCTIONS),
        ["--device", "gtx_981", "--measured-time", "1ms"],
        "did you mean 'gtx_980'?",
    ),
    "block": (
        made(INSTRUCTIONS),
        ["--block", "0"],
        "--block 0: must be one to three whole numbers",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input__one_line_and_exit_code_2(case, capsys, tmp_path):
    content, arguments, message = BAD[case]
    if content is not None:
        (tmp_path / "run.csv").write_text(content, encoding="utf-8")
        arguments = [str(tmp_path / "run.csv"), *arguments]
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and message in err, err


def test_bad_input__means_have_no_single_launch(capsys):
    code, _, err = run(capsys, path("nvprof_metrics"), path("nvprof_trace"), "--launch", "1")
    assert code == 2 and "the counters of 'matrixMulCUDA' are means over 3 launches" in err


def test_bad_input__several_kernels_are_listed(capsys):
    code, _, err = run(capsys, path("ncu_details"))
    assert code == 2
    assert "2 kernels (vectorAdd, matrixMulCUDA): choose one with --kernel NAME" in err


def test_truncated_anywhere__never_more_than_a_line(capsys, tmp_path):
    whole = text("ncu_details")
    target = tmp_path / "cut.csv"
    for length in range(0, len(whole), 397):
        target.write_text(whole[:length], encoding="utf-8")
        code, out, err = run(capsys, str(target), "--kernel", MATRIX)
        assert code in (0, 2)
        if code == 2:
            assert out == "" and err.count("\n") == 1, err
        else:
            parse_kernel(out, "k")


def test_only_copies__no_kernel():
    lines = text("nvprof_trace").splitlines(keepends=True)
    with pytest.raises(ProfileError, match="no kernel in the profile"):
        read_profile("".join(lines[:7]))

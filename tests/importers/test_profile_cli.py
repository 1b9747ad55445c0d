"""``sweep profile``: written files, printed remarks, and errors in one line."""

from __future__ import annotations

import pytest
from support.profile_texts import HEADER, INSTRUCTIONS, MATRIX, made, path, text

from sweep.cli import main
from sweep.errors import ProfileError
from sweep.importers.profiles.launches import read_profile
from sweep.specs import parse_kernel


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
    "cut between": (made(INSTRUCTIONS) + '"0","1","k(int)"\n', [],
        "line 3: 3 cells below a header of 8: cut off, or not the profiler's own output"),
    "two notations": (made(("a", "", "1.5"), ("b", "", "2,25")), [],
        "numbers of two notations: '1.5' and '2,25'; export the profile in one locale"),
    "unit unknown": (made(INSTRUCTIONS, ("gpu__time_duration.sum", "furlong", "5")), [],
        "gpu__time_duration.sum = 5: unit 'furlong' is not known"),
    "unit of something else": (made(INSTRUCTIONS, ("gpu__time_duration.sum", "Kbyte", "5")), [],
        "gpu__time_duration.sum = 5: unit 'Kbyte' is not one of a time (such as usecond)"),
    "negative": (made(("smsp__inst_executed.sum", "inst", "-5")), [],
        "smsp__inst_executed.sum = -5: must not be negative"),
    "grid of 5,000 digits": (made(INSTRUCTIONS, grid=f"({'9' * 5000}, 1, 1)"), [],
        "no grid of the launch: add its"),
    "counter of 5,000 digits": (made(("smsp__inst_executed.sum", "inst", "9" * 5000)), [],
        "neither smsp__inst_executed"),
    "zero warps": (made(INSTRUCTIONS, grid="(0, 1, 1)"), [], "0 warps: 0 blocks of 128 threads"),
    "nothing ran": (made(INSTRUCTIONS, ("smsp__warps_launched.sum", "warp", "0")), [],
        "smsp__warps_launched.sum = 0: nothing ran"),
    "no counters": (made(("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "50")), [],
        "neither smsp__inst_executed.sum or sm__inst_executed.sum nor counters of L2"),
    "no launch": (
        HEADER.replace('"Block Size","Grid Size",', "")
        + '"0","1","k","smsp__inst_executed.sum","inst","5"\n',
        [], "no block of the launch: add its column, or the section LaunchStats, or give --block"),
    "kernels of one name": (
        made(INSTRUCTIONS, kernel="k<8>(int)")
        + made(INSTRUCTIONS, kernel="k<16>(int)").removeprefix(HEADER),
        ["--kernel", "k"],
        "--kernel k: 2 kernels have that name: give one in full, such as 'k<8>(int)'"),
    "beyond what a file holds": (
        made(INSTRUCTIONS, ("launch__shared_mem_per_block_static", "Tbyte", "99999")), [],
        "no kernel file can be made"),
    "no such kernel": (made(INSTRUCTIONS), ["--kernel", "kk"], "did you mean 'k'?"),
    "no such launch": (made(INSTRUCTIONS), ["--launch", "2"],
        "--launch 2: 'k' has 1 launches in the profile"),
    "launches differ": (
        made(INSTRUCTIONS)
        + made(INSTRUCTIONS, grid="(8, 1, 1)").removeprefix(HEADER).replace('"0"', '"1"'),
        [], "launches of 'k' differ in their grid (8 to 64): choose one with --launch"),
    "time": (made(INSTRUCTIONS), ["--measured-time", "5"], "a time of '5': must be a number above"),
    "registers": (made(INSTRUCTIONS), ["--registers", "0"], "--registers 0: outside the range 1"),
    "outer": (made(INSTRUCTIONS), ["--outer", "nan"], "--outer nan: outside the range 1 to 2**53"),
    "clock": (made(INSTRUCTIONS), ["--core-clock", "1.2"],
        "--core-clock 1.2: outside the range 50 to 5000 MHz"),
    "device": (made(INSTRUCTIONS), ["--device", "gtx_981", "--measured-time", "1ms"],
        "did you mean 'gtx_980'?"),
    "block": (made(INSTRUCTIONS), ["--block", "0"],
        "--block 0: must be one to three whole numbers"),
}  # fmt: skip


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

"""``sweep profile``: written files, printed remarks, and errors in one line."""

from __future__ import annotations

import pytest
from support.profile_texts import MATRIX, bad_profiles, path, text

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


BAD = bad_profiles()


@pytest.mark.parametrize("case", BAD)
def test_bad_input__one_line_and_exit_code_2(case, capsys, tmp_path):
    content, arguments = BAD[case]["content"], BAD[case].get("arguments", [])
    if case != "no file":
        (tmp_path / "run.csv").write_text(content, encoding="utf-8")
        arguments = [str(tmp_path / "run.csv"), *arguments]
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and BAD[case]["message"] in err, err


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

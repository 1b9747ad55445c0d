"""``sweep ptx`` and ``sweep profile``: printed text, written files, and errors in one line."""

import pytest
from support.profile_texts import MATRIX, bad_profiles, text
from support.profile_texts import path as profile
from support.ptx_texts import CASES, FOLDER
from support.refusals import refused

from sweep.cli import main
from sweep.cli.parser import parse
from sweep.errors import ProfileError
from sweep.importers.profiles.launches import read_profile
from sweep.importers.ptx.stages import STAGES
from sweep.specs import load_kernel, parse_kernel

TILED = str(FOLDER / "matrix_tiled.ptx")
LOOPS = str(FOLDER / "fixed_loop.ptx")


def run(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr()


def texts_of(file, *names):
    return [file.expressions[name].text for name in names]


def test_ptx__prints_the_file_and_remarks_to_the_error_stream(capsys):
    given = ("--block", "16,16", "--trip", "L__BB0_2=n / 16", "--size", "n=2048")
    out, err = run(capsys, "ptx", TILED, *given)
    file = parse_kernel(out, "k")
    assert file.name == "matrix_tiled" and file.sizes["n"] == 2048
    assert texts_of(file, "loops.outer") == ["trip_L__BB0_2"] and 'trip_L__BB0_2 = "n / 16"' in out
    first, *others = err.splitlines()
    assert first.startswith("sweep: matrix_tiled.ptx: matrix_tiled, PTX ") and len(others) < 10
    assert "blocks of 16x16x1" in first
    assert any("$L__BB0_2 n / 16 times (given)" in line for line in others)
    out, _ = run(capsys, "ptx", LOOPS, "--entry", "fixed_loop", "--device", "gtx_260")
    assert out.count("# On gtx_260, in cycles of one execution: computation ") == 3
    out, _ = run(capsys, "ptx", LOOPS, "--entry", "fixed_loop", "--device", "a100_40gb")
    assert "computation 48, memory 521." in out  # costs that are derived


def test_ptx__choices_are_those_of_the_package():
    found = [parse(["ptx", "a.ptx", "--stages", name]).stages for name in STAGES]
    assert tuple(found) == STAGES


def test_ptx__options_reach_the_file(capsys):
    out, err = run(
        capsys, "ptx", TILED, "--trip", "L__BB0_2=64", "--block", "16x16", "--grid", "64,64",
        "--registers", "32", "--dynamic-shared", "512", "--device", "gtx_260", "--stages", "none",
        "--branch", "L__BB0_3=0",
    )  # fmt: skip
    file = parse_kernel(out, "k")
    assert "32 registers a thread, " in err and not file.stages
    assert file.sizes == {"grid_blocks": 4096, "dynamic_shared_bytes": 512}
    names = ("launch.threads_per_block", "launch.block_y", "resources.registers_per_thread")
    assert texts_of(file, *names, "instructions.fp32") == ["256", "16", "32", "1024"]
    assert "# On gtx_260: computation instruction proportion P = 0." in out
    # The tile is stored in rows of 16 threads, two rows per warp.
    assert {a.pattern for a in file.shared_accesses} == {"affine"}


def test_output__is_a_kernel_that_can_be_named(capsys, tmp_path, monkeypatch):
    path = tmp_path / "kernels_spec" / "loops.toml"
    path.parent.mkdir()
    monkeypatch.setenv("SWEEP_PATH", str(tmp_path))
    assert run(capsys, "ptx", LOOPS, "--entry", "nested_loops", "-o", str(path)).out == ""
    assert load_kernel("loops").name == "nested_loops"
    fixed = ("ptx", LOOPS, "--entry", "fixed_loop", "-o", str(path))
    assert refused(capsys, *fixed) == f"{path}: is there already; --overwrite replaces it"
    assert load_kernel("loops").name == "nested_loops"
    run(capsys, *fixed, "--overwrite")
    assert load_kernel("loops").name == "fixed_loop"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_output__that_cannot_be_finished_leaves_the_old_file(capsys, tmp_path, monkeypatch, error):
    def write_half(path, content):
        with path.open("wb") as file:
            file.write(content[:100])
        raise error

    path = tmp_path / "loops.toml"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr("pathlib.Path.write_bytes", write_half)
    for command, *arguments in (
        ("ptx", LOOPS, "--entry", "nested_loops"),
        ("profile", profile("ncu_raw"), "--kernel", "vectorAdd"),
    ):
        assert main([command, *arguments, "-o", str(path), "--overwrite"]) in (2, 130)
        out, err = capsys.readouterr()
        assert out == "" and len(err.strip().splitlines()) == 1
        assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_ptx__unknown_instructions_are_reported_twice(capsys, tmp_path):
    path = tmp_path / "odd.ptx"
    odd = (FOLDER / "vector_add.ptx").read_text(encoding="utf-8").replace("add.f32", "frob.f32")
    path.write_text(odd.replace("ret;", "zork;"), encoding="utf-8")
    out, err = run(capsys, "ptx", str(path))
    remarks = [
        "Unknown instruction frob.f32 (line 47, 1 in the text) is counted as fp32",
        "Unknown instruction zork (line 53, 1 in the text) is counted as integer, though nothing "
        "tells its class",
    ]
    assert " ".join(err.replace("sweep: ", "").split()).endswith(" ".join(remarks))
    assert all(f"# {remark}." in out for remark in remarks)


@pytest.mark.parametrize(("arguments", "message"), CASES["wrong_arguments"])
def test_ptx__mistakes_are_one_line(capsys, arguments, message):
    for word, path in (("TILED", TILED), ("LOOPS", LOOPS), ("FOLDER", str(FOLDER))):
        arguments = [argument.replace(word, path) for argument in arguments]
        message = message.replace(word, path)
    assert f": {message}" in f": {refused(capsys, 'ptx', *arguments)}"


@pytest.mark.parametrize(("content", "message"), [
    (b"", "the file is empty"),
    (b".version 7.0\n\xff\xfe", "line 2: no text in UTF-8: byte 13 is wrong"),
    (b"\x00" * 100, "line 1: the character U+0000 is not PTX"),
    (b".version 7.0\n.target sm_80\n.entry k() {\n  add.s32 a, b\n", "line 4: 'add.s32' does"),
    (b"/" * (16 * 2**20 + 1), "larger than 16777216 bytes, the most that is read"),
], ids=["empty", "binary", "null", "cut", "large"])  # fmt: skip
def test_ptx__hostile_files_are_one_line_with_their_place(capsys, tmp_path, content, message):
    path = tmp_path / "bad.ptx"
    path.write_bytes(content)
    assert refused(capsys, "ptx", path).startswith(f"{path}: {message}")


def test_profile__writes_a_file(capsys, tmp_path):
    target = tmp_path / "matmul.toml"
    out, err = run(
        capsys, "profile", profile("ncu_details"), "--kernel", "matrixMul", "--launch", "2",
        "--device", "gtx_980_paper", "--core-clock", "900", "--memory-clock", "800",
        "--measured-time", "2.5ms", "--outer", "32", "-o", str(target),
    )  # fmt: skip
    assert out == ""
    barriers, classes = err.splitlines()
    assert "no counter of a profiler tells barriers: none are assumed" in barriers
    assert "op_fp64_pred_on.sum" in classes and "and fp32 for what no counter tells" in classes
    kernel = parse_kernel(target.read_text(encoding="utf-8"), "matmul")
    assert kernel.measured is not None and kernel.measured.time == 2.5e-3
    assert (kernel.measured.core_clock, kernel.measured.memory_clock) == (900, 800)
    assert texts_of(kernel, "loops.inner") == ["40"]
    whole = run(capsys, "profile", profile("ncu_raw"), "--kernel", MATRIX, "--outer", "2000").out
    assert texts_of(parse_kernel(whole, "k"), "loops.inner") == ["1"]  # at least


def test_profile__reports_what_is_missing(capsys):
    sides = ("--block", "32,32", "--grid", "32,32")
    out, err = run(capsys, "profile", profile("nvprof_metrics"), *sides)
    assert parse_kernel(out, "k").measured is None
    assert "there is no Registers Per Thread: 32 registers a thread are assumed" in err
    assert "no time of the launch: --measured-time anchors predictions to one" in err


BAD = bad_profiles()


@pytest.mark.parametrize("case", BAD)
def test_profile__bad_input_is_one_line(case, capsys, tmp_path):
    files = []
    if case != "no file":
        files = [tmp_path / "run.csv"]
        files[0].write_text(BAD[case]["content"], encoding="utf-8")
    arguments = BAD[case].get("arguments", [])
    assert BAD[case]["message"] in refused(capsys, "profile", *files, *arguments)


def test_profile__choices_that_do_not_fit(capsys):
    means = [profile("nvprof_metrics"), profile("nvprof_trace"), "--launch", "1"]
    message = "the counters of 'matrixMulCUDA' are means over 3 launches"
    assert message in refused(capsys, "profile", *means)
    message = "2 kernels (vectorAdd, matrixMulCUDA): choose one with --kernel NAME, or give"
    assert message in refused(capsys, "profile", profile("ncu_details"))


def test_profile__truncated_anywhere_is_at_most_a_line(capsys, tmp_path):
    whole, target = text("ncu_details"), tmp_path / "cut.csv"
    for length in range(0, len(whole), 397):
        target.write_text(whole[:length], encoding="utf-8")
        code = main(["profile", str(target), "--kernel", MATRIX])
        out, err = capsys.readouterr()
        assert code in (0, 2)
        if code == 2:
            assert out == "" and err.count("\n") == 1, err
        else:
            parse_kernel(out, "k")


def test_profile__of_copies_has_no_kernel():
    lines = text("nvprof_trace").splitlines(keepends=True)
    with pytest.raises(ProfileError, match="no kernel in the profile"):
        read_profile("".join(lines[:7]))

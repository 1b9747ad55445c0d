"""``sweep ptx``: printed text, written files, and errors in one line."""

from __future__ import annotations

import pytest
from support.profile_texts import path as profile
from support.ptx_texts import CASES, FOLDER

from sweep.cli import main
from sweep.cli.parser import parse
from sweep.importers.ptx.stages import STAGES
from sweep.specs import load_kernel, parse_kernel

TILED = str(FOLDER / "matrix_tiled.ptx")
LOOPS = str(FOLDER / "fixed_loop.ptx")


def run(capsys, *arguments):
    code = main(["ptx", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_screen__holds_the_file_and_the_error_stream_the_remarks(capsys):
    code, out, err = run(capsys, TILED)
    assert code == 0
    file = parse_kernel(out, "k")
    assert file.name == "matrix_tiled" and file.sizes["trip_L__BB0_2"] == 1
    assert err == (
        "sweep: matrix_tiled.ptx: the loop at $L__BB0_2 (line 77) has no constant trip count:"
        " trip_L__BB0_2 = 1, or give --trip '$L__BB0_2=N'\n"
    )


def test_choices__are_those_of_the_package():
    found = [parse(["ptx", "a.ptx", "--stages", name]).stages for name in STAGES]
    assert tuple(found) == STAGES


def test_options__reach_the_file(capsys):
    code, out, err = run(
        capsys, TILED, "--trip", "L__BB0_2=64", "--block", "16x16", "--grid", "64,64",
        "--registers", "32", "--dynamic-shared", "512", "--device", "gtx_260", "--stages", "none",
        "--branch", "L__BB0_3=0",
    )  # fmt: skip
    assert (code, err) == (0, "")
    file = parse_kernel(out, "k")
    assert file.sizes == {"grid_blocks": 4096, "dynamic_shared_bytes": 512}
    assert file.expressions["launch.threads_per_block"].text == "256"
    assert file.expressions["launch.block_y"].text == "16"
    assert file.expressions["resources.registers_per_thread"].text == "32"
    assert file.expressions["instructions.fp32"].text == "1024"
    assert not file.stages
    assert "# On gtx_260: computation instruction proportion P = 0." in out
    # The tile is stored in rows of 16 threads, two rows per warp.
    assert {a.pattern for a in file.shared_accesses} == {"affine"}


def test_costs__stand_at_the_stages(capsys):
    _, out, _ = run(capsys, LOOPS, "--entry", "fixed_loop", "--device", "gtx_260")
    assert out.count("# On gtx_260, in cycles of one execution: computation ") == 3


def test_output__is_a_kernel_that_can_be_named(capsys, tmp_path, monkeypatch):
    folder = tmp_path / "kernels_spec"
    folder.mkdir()
    path = folder / "loops.toml"
    assert run(capsys, LOOPS, "--entry", "nested_loops", "-o", str(path))[:2] == (0, "")
    monkeypatch.setenv("SWEEP_PATH", str(tmp_path))
    assert load_kernel("loops").name == "nested_loops"
    code, _, err = run(capsys, LOOPS, "--entry", "fixed_loop", "-o", str(path))
    assert (code, err) == (2, f"sweep: {path}: is there already; --overwrite replaces it\n")
    assert load_kernel("loops").name == "nested_loops"
    assert run(capsys, LOOPS, "--entry", "fixed_loop", "-o", str(path), "--overwrite")[0] == 0
    assert load_kernel("loops").name == "fixed_loop"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_output__that_cannot_be_finished_leaves_the_old_file(capsys, tmp_path, monkeypatch, error):
    def write_half(path, text, encoding):
        path.write_bytes(text[:100].encode())
        raise error

    path = tmp_path / "loops.toml"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr("pathlib.Path.write_text", write_half)
    for command, *arguments in (
        ("ptx", LOOPS, "--entry", "nested_loops"),
        ("profile", profile("ncu_raw"), "--kernel", "vectorAdd"),
    ):
        assert main([command, *arguments, "-o", str(path), "--overwrite"]) in (2, 130)
        out, err = capsys.readouterr()
        assert out == "" and len(err.strip().splitlines()) == 1
        assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_unknown_instructions__are_told_twice(capsys, tmp_path):
    text = (FOLDER / "vector_add.ptx").read_text(encoding="utf-8")
    path = tmp_path / "odd.ptx"
    path.write_text(text.replace("add.f32", "frob.f32").replace("ret;", "zork;"), encoding="utf-8")
    code, out, err = run(capsys, str(path))
    assert code == 0
    remarks = err.splitlines()
    assert len(remarks) == 2
    assert "Unknown instruction frob.f32 (line 47, 1 in the text) is counted as fp32" in remarks[0]
    assert "Unknown instruction zork (line " in remarks[1]
    assert "is counted as integer, though nothing tells its class" in remarks[1]
    for remark in remarks:
        assert f"# {remark.split(': ', 2)[2]}." in out


@pytest.mark.parametrize(("arguments", "message"), CASES["wrong_arguments"])
def test_mistakes__are_one_line(capsys, arguments, message):
    for word, path in (("TILED", TILED), ("LOOPS", LOOPS), ("FOLDER", str(FOLDER))):
        arguments = [argument.replace(word, path) for argument in arguments]
        message = message.replace(word, path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"sweep: {message}") or f": {message}" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("content", "message"), [
    (b"", "the file is empty"),
    (b".version 7.0\n\xff\xfe", "line 2: no text in UTF-8: byte 13 is wrong"),
    (b"\x00" * 100, "line 1: the character U+0000 is not PTX"),
    (b".version 7.0\n.target sm_80\n.entry k() {\n  add.s32 a, b\n", "line 4: 'add.s32' does"),
    (b"/" * (16 * 2**20 + 1), "larger than 16777216 bytes, the most that is read"),
], ids=["empty", "binary", "null", "cut", "large"])  # fmt: skip
def test_hostile_files__are_one_line_with_their_place(capsys, tmp_path, content, message):
    path = tmp_path / "bad.ptx"
    path.write_bytes(content)
    code, out, err = run(capsys, str(path))
    assert (code, out) == (2, "")
    assert err.startswith(f"sweep: {path}: {message}") and err.count("\n") == 1

"""``sweep ptx`` with many files: one kernel file over the configurations of a kernel."""

import json
import re
import shutil
from pathlib import Path

import pytest
from support.ptx_texts import TESTS, value, with_derived
from support.refusals import contents, refused

import sweep
from sweep.cli import main
from sweep.cuda.configurations import read_variants
from sweep.cuda.matching import Given, analyses_of
from sweep.fields import STATUS
from sweep.specs import load_kernel

FOLDER = TESTS / "data" / "ptx" / "configurations"
GIVEN = ["--trip", "*=n/BK", "--size", "n=1024", "--grid", "n/BM,ceil(n/BN)"]
DEVICE = {
    "gpu_target": 8.0, "max_threads_per_sm": 2048, "registers_per_sm": 65536,
    "local_l1_bytes": 131072, "l2_bytes": 2e7, "sm_count": 108, "compute_capability": 8,
}  # fmt: skip
TILES = {"rows": "n/BM", "columns": "n/BN", "row_bytes": "BM*n*2", "column_bytes": "BN*n*2"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FOLDER, tmp_path / "texts")
    return tmp_path / "texts"


def written(capsys, *arguments):
    assert main(["ptx", "texts", *GIVEN, *arguments, "-o", "k.toml", "--overwrite"]) == 0
    return capsys.readouterr().err


def evaluated(device="a100_40gb"):
    plan = sweep.Plan(kernels=["./k.toml"], devices=[device], models=["combined"], layout="stacked")
    dataset = sweep.evaluate(plan).children["k"].to_dataset().compute()
    names = ("BM", "BN", "BK", "num_warps", "num_stages", "status", "execution_time")
    columns = [dataset[name].values.ravel() for name in names]
    return {tuple(map(float, row[:5])): row[5:] for row in zip(*columns, strict=True)}


def totals(kernel, configuration):
    """Return a kernel file's counts by class, and its accesses, for one configuration."""
    known = with_derived(kernel, {**kernel.sizes, **configuration, **DEVICE})
    counts = {}
    for stage in kernel.stages:
        for name, expression in stage.expressions.items():
            counts[name] = counts.get(name, 0.0) + value(expression, **known)
    moved = {}
    for section in ("global", "shared"):
        for access in getattr(kernel, f"{section}_accesses"):
            key = section, access.kind
            words = value(access.count, **known) * value(access.bytes, **known)
            moved[key] = moved.get(key, 0.0) + words
    return counts, moved, known


def test_many_files__have_the_counts_of_each(folder, capsys):
    err = written(capsys)
    assert "3 configurations of BM, BN, BK, num_warps, num_stages for sm_80" in err
    kernel = load_kernel("./k.toml")
    assert kernel.parameters["num_stages"] == (1, 2, 4) and kernel.sizes["n"] == 1024
    assert [stage.name for stage in kernel.stages] == ["before", "loop", "after"]
    variants = read_variants([folder])
    given = Given(trips={"*": "n/BK"}, sizes={"n": 1024})
    for variant, analysis in zip(variants, analyses_of(variants, given), strict=True):
        counts, moved, known = totals(kernel, variant.configuration)
        trips = {"trips": 1024 / variant.configuration["BK"]}
        for loop in analysis.graph.loops:
            loop.size = "trips" if loop.formula else loop.size
        expected = analysis.instructions(trips)
        found = {"barrier" if k == "barriers" else k: n for k, n in counts.items()}
        assert {k: found[k] for k in expected} == pytest.approx(expected)
        for (section, kind), total in moved.items():
            own = [n * s.bytes for s, n in analysis.accesses(trips).items()
                   if (s.space, s.direction) == (section, kind)]  # fmt: skip
            assert total == pytest.approx(sum(own)), (section, kind)
        warps = variant.configuration["num_warps"]
        assert value(kernel.expressions["launch.threads_per_block"], **known) == 32 * warps
        products = variant.configuration["BM"] * variant.configuration["BN"] * 1024 / 2048 / warps
        assert counts["matrix"] == products
        assert counts["buffers"] == max(0, variant.configuration["num_stages"] - 1)
    assert value(kernel.expressions["matrix.fp16"], **known) == 2048
    text = Path("k.toml").read_text("utf-8")
    assert 'executions = "trips"' in text and "fp16 = 2048\n" in text  # alike in all files
    assert main(["lint", "k.toml"]) == 0


def test_products_of_two_types__are_a_mean_that_follows_the_sizes(folder, capsys):
    for path in folder.glob("*.ptx"):
        text = path.read_text("utf-8")
        tf32 = re.findall(r"mma.*;", text)[0].replace("k16", "k8").replace("f16.f16", "tf32.tf32")
        path.write_text(text.replace("\tret;", f"{tf32}\n\tret;"), encoding="utf-8")
    written(capsys)
    kernel = load_kernel("./k.toml")
    for n in (1024, 4096):  # all but one are in the loop
        counts, _, known = totals(kernel, {**read_variants([folder])[2].configuration, "n": n})
        mean, total = value(kernel.expressions["matrix.fp16"], **known), counts["matrix"]
        assert mean * total == pytest.approx(2048 * (total - 1))


def test_configurations__are_those_of_the_files_and_older_gpus_have_none(folder, capsys):
    written(capsys)
    found = evaluated()
    assert set(found) == {(16, 16, 16, 1, 1), (32, 16, 16, 1, 2), (32, 32, 32, 2, 4)}
    assert all(status == STATUS["valid"] and time > 0 for status, time in found.values())
    found = evaluated("rtx_2080_ti")  # 7.5 runs no code for 8.0
    assert len(found) == 3
    assert all(status == STATUS["constraint"] for status, _ in found.values())


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_index__says_what_names_do_not(folder, capsys, kind):
    rows = []
    for number, variant in enumerate(read_variants([folder])):
        (folder / variant.name).rename(folder / f"{number}.ptx")
        rows.append({"file": f"{number}.ptx", **variant.configuration, "registers": 40 + number,
                     "spill_store_bytes": 8 * number, "spill_load_bytes": 16 * number,
                     "shared_bytes": 4096, "reason": ""})  # fmt: skip
    why = "ptxas error: too much shared memory"
    rows.append({**rows[0], "file": "", "BM": 64.0, "registers": "", "spill_store_bytes": "",
                 "spill_load_bytes": "", "shared_bytes": "", "reason": why})  # fmt: skip
    lines = [",".join(rows[0]), *(",".join(str(x) for x in row.values()) for row in rows)]
    text = "\n".join(lines) if kind == "csv" else json.dumps(rows)
    (folder / f"index.{kind}").write_text(text, encoding="utf-8")
    err = written(capsys)
    assert f"1 do not compile, such as texts/index.{kind}: row 4: {why}" in err
    kernel = load_kernel("./k.toml")
    _, _, known = totals(kernel, {**rows[2], "file": 0, "reason": 0})
    assert value(kernel.expressions["resources.registers_per_thread"], **known) == 42
    spilled = next(a for a in kernel.global_accesses if a.name == "spilled_loads")
    assert value(spilled.count, **known) == 1024 / 32 * 32 / 4
    found = evaluated()
    assert found.pop((64, 16, 16, 1, 1))[0] == STATUS["constraint"] and len(found) == 3
    assert all(status == STATUS["valid"] for status, _ in found.values())
    assert main(["show", "./k.toml"]) == 0
    assert f"1 of them do not compile: {why}" in capsys.readouterr().out


def test_loads__under_way_together_are_a_column(folder, capsys):
    written(capsys)
    together = load_kernel("./k.toml").expressions["parallelism.memory"]
    values = []
    for variant in read_variants([folder]):
        _, _, known = totals(load_kernel("./k.toml"), variant.configuration)
        values.append(value(together, **known))
    assert values == [1, 3, 4]


def test_tile_order__is_no_matter_without_products(folder, capsys):
    text = (TESTS / "data" / "ptx" / "compilers" / "triton_softmax.ptx").read_text("utf-8")
    for path in folder.iterdir():
        path.unlink()
    (folder / "softmax-BM=1-BN=1-BK=1-num_warps=4.ptx").write_text(text, "utf-8")
    assert "--tile-order" not in written(capsys)
    assert "--tile-order" not in Path("k.toml").read_text("utf-8")


def test_tile_order__gives_loads_of_loops_their_reuse(folder, capsys):
    plain = written(capsys, "--grid", "n/BM*ceil(n/BN)")
    assert "--tile-order" in plain and "--tile-order" not in written(capsys)  # the grid tells it
    counts = totals(load_kernel("./k.toml"), read_variants([folder])[2].configuration)
    words = [f"--tile-order={key}={text}" for key, text in TILES.items()]
    assert "--tile-order" not in written(capsys, *words)
    kernel = load_kernel("./k.toml")
    reused = {access.name: access.reuse for access in kernel.global_accesses if access.reuse}
    assert sorted(set(reused.values())) == ["column", "row"] and "loop_load_1_row" in reused
    assert totals(kernel, read_variants([folder])[2].configuration)[1] == counts[1]
    tiles = TESTS / "data" / "ptx" / "compilers" / "triton_tiles.ptx"  # their pattern is assumed
    Path("tiles").mkdir()
    shutil.copy(tiles, "tiles/tiles-BM=128-BN=128-BK=64-num_warps=8.ptx")
    assert main(["ptx", "tiles", *GIVEN, *words, "-o", "tiles.toml"]) == 0
    sources = load_kernel("./tiles.toml").sources
    assert sources["global_access.loop_load_1_row.pattern"].kind == "assumed"


def test_labels__are_those_of_the_first_file(folder, capsys):
    written(capsys)
    expected = Path("k.compiled.csv").read_text("utf-8")
    for number, path in enumerate(sorted(folder.glob("*.ptx"))):
        text = path.read_text("utf-8").replace("$L__BB0_2", f"$OTHER_{number}")
        path.write_text(text, encoding="utf-8")
    assert main(["ptx", "texts", "--trip", "OTHER_0=n/BK", *GIVEN[2:], "-o", "l.toml"]) == 0
    assert Path("l.compiled.csv").read_text("utf-8") == expected


def test_branches__are_given_by_the_labels_of_the_first_file(folder, capsys):
    variants, counts = read_variants([folder]), []
    for number, path in enumerate(sorted(folder.glob("*.ptx"))):
        more = f"@%p1 bra $DONE_{number};\nbar.sync 0;\n$DONE_{number}:\n\tret;"
        path.write_text(path.read_text("utf-8").replace("\tret;", more), encoding="utf-8")
    for share in (1, 0.25):
        written(capsys, "--branch", f"DONE_0={share}")
        kernel = load_kernel("./k.toml")
        counts.append([totals(kernel, v.configuration)[0]["barriers"] for v in variants])
    assert [b - a for a, b in zip(*counts, strict=True)] == pytest.approx([0.75] * 3)
    assert "there are $L" in refused(capsys, "ptx", "texts", *GIVEN, "--branch", "x=1")
    more = "@%p1 bra $MORE;\nbar.sync 0;\n$MORE:\n\tret;"
    path.write_text(path.read_text("utf-8").replace("\tret;", more), encoding="utf-8")
    message = refused(capsys, "ptx", "texts", *GIVEN, "--branch", "DONE_0=1")
    assert "targets of conditional branches and" in message and "DONE_0 is not clear" in message


def test_totals__are_counted_where_stages_are_not_wanted(folder, capsys):
    variant = read_variants([folder])[2]
    written(capsys)
    _, moved, _ = totals(load_kernel("./k.toml"), variant.configuration)
    written(capsys, "--stages", "none")
    kernel = load_kernel("./k.toml")
    assert totals(kernel, variant.configuration)[1] == pytest.approx(moved)
    assert not kernel.stages and "instructions.matrix" in kernel.expressions
    assert all(status == STATUS["valid"] for status, _ in evaluated().values())


LOOP = "$L__BB0_2:\n"
EXTRA = """mov.b32 %r1, 0;
$MORE:
ld.global.b32 %r2, [%rd1];
add.s32 %r1, %r1, 1;
setp.ne.s32 %p1, %r1, 7;
@%p1 bra $MORE;
"""
LAST = "matmul-BM=32-BN=32-BK=32-num_warps=2-num_stages=4.ptx"
MISTAKES = {
    "no name": ({LAST: "matmul.ptx"}, GIVEN, "matmul.ptx: the name says no configuration: write"),
    "other parameters": ({LAST: "matmul-BM=32.ptx"}, GIVEN, "matmul-BM=32.ptx: its configuration"),
    "no trip": ({}, ["--size", "n=9"], "the text does not tell how often loops repeat: give"),
    "no size": ({}, ["--trip", "*=n/BK"], "--trip '*=n/BK': give the size n, --size n=N"),
    "unused": ({}, [*GIVEN, "--size", "x=1"], "--size x: no trip count, grid or order of tiles"),
    "tile key": ({}, [*GIVEN, "--tile-order", "row=1"], "--tile-order row: no key of [tile_order]"),
    "tile bytes": ({}, [*GIVEN, "--tile-order", "rows=1"], "row_bytes and column_bytes are needed"),
    "registers": ({}, [*GIVEN, "--registers", "9"], "--registers: is for one file; for many, --"),
    "stages": ({}, [*GIVEN, "--stages", "tasks"], "--stages tasks: for many files, loops or none"),
    "grid": ({}, [*GIVEN[:4], "--grid", "n/BM,n/BK/100"], "'n/BK/100' is 0.64: must be a whole"),
    "large_grid": ({}, [*GIVEN[:4], "--grid", "n,n*n"], "'n*n' is 1.04858e+06: 65,535 at most"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes__are_one_line_and_write_nothing(folder, capsys, case):
    renamed, arguments, message = MISTAKES[case]
    for name, other in renamed.items():
        (folder / name).rename(folder / other)
    before = contents(folder.parent)
    assert message in refused(capsys, "ptx", "texts", *arguments, "-o", "k.toml")
    assert contents(folder.parent) == before


def test_different_loops__are_refused_with_what_to_do(folder, capsys):
    path = folder / LAST
    text = path.read_text("utf-8")
    path.write_text(text.replace("\tret;", f"{EXTRA}\tret;"), encoding="utf-8")
    message = refused(capsys, "ptx", "texts", *GIVEN, "-o", "k.toml")
    assert f"has 1 loops with memory accesses or of unknown length, {LAST} has 2" in message
    assert "--stages none counts the totals" in message
    written(capsys, "--stages", "none")
    assert {status for status, _ in evaluated().values()} == {STATUS["valid"]}


def test_index__mistakes_are_one_line(folder, capsys):
    for text, message in (
        ("file,BM\n,16\n", "row 1: 'file' must name a PTX file"),
        (f"file,BM,matrix\n{LAST},16,3\n", "row 1: 'matrix' is counted in the PTX"),
        (f"file,BM,registers\n{LAST},16,-3\n", "row 1: registers = '-3.0': must be a number"),
        (f"file,BM\n{LAST},16\n{LAST},16\n", f"{LAST}: the same configuration as {LAST}"),
        ("file,BM\nnone.ptx,16\n", "none.ptx: cannot be read"),
    ):
        (folder / "index.csv").write_text(text, encoding="utf-8")
        assert message in refused(capsys, "ptx", "texts", *GIVEN)
    (folder / "index.json").write_text("{}", encoding="utf-8")
    assert "several indexes (index.csv, index.json)" in refused(capsys, "ptx", "texts", *GIVEN)
    index = str(folder / "index.json")
    assert "must be a list of objects" in refused(capsys, "ptx", "texts", *GIVEN, "--index", index)

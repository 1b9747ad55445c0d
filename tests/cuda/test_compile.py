"""`sweep compile`: which variants, what is kept, what is refused; and the real compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.pages import shown_files
from support.refusals import contents, refused
from support.runs import ROOT

from sweep.cli import main
from sweep.cuda import compiling, nvrtc
from sweep.cuda.findings import instructions, resources
from sweep.cuda.nvrtc import CompileError, Output
from sweep.cuda.variants import variants_of
from sweep.errors import SweepError
from sweep.space import Plan, resolve
from sweep.specs import load_kernel
from sweep.specs.compiled import parse_table

try:
    nvrtc.load()
    HAS_NVRTC = True
except SweepError:
    HAS_NVRTC = False
needs_nvrtc = pytest.mark.skipif(
    not HAS_NVRTC, reason="NVRTC is not installed: kernel-sweep[compile]"
)

DATA = ROOT / "tests" / "data" / "cuda"
CONVOLUTION = load_kernel("convolution")

KERNEL = """schema = 1
name = "sums"
constraints = ["tile != 3 or mode == 1", "tile < 100 * sm_count"]
[source]
default = "assumed: for tests"
[sizes]
n = 65536
width = 48
[parameters]
tile = [1, 2, 3, 4, 64]
mode = [0, 1]
block_size = [64, 128]
[launch]
threads_per_block = "block_size"
blocks = "n / block_size"
[resources]
registers_per_thread = 32
[instructions]
fp32 = "tile"
"""

SOURCE = """// block_size is no macro here, "mode" neither
extern "C" __global__ void sums(float *out, const float *in, int n) {
    __shared__ float kept[128];
    float x[tile * 4];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int j = 0; j < tile * 4; j++) x[j] = in[i + j * n];
    kept[threadIdx.x] = x[0];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < tile * 4; j++) x[j] = x[j] * x[(j * 7 + 3) % (tile * 4)] + kept[j];
#pragma unroll 1
    for (int k = 0; k < n; k++) x[0] += in[k];
#pragma unroll
    for (int j = 0; j < tile * 4; j++) out[i + j * n] = x[j];
}
"""

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4sumsPf' for 'sm_86'
ptxas info    : Function properties for _Z4sumsPf
ptxas         .     8 bytes stack frame, {0} bytes spill stores, {1} bytes spill loads
ptxas info    : Used {2} registers, used 1 barriers, 372 bytes cmem[0]
ptxas info    : Compiling entry function 'other' for 'sm_86'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 9 registers, 512 bytes smem
"""


class Pretended:
    """A compiler whose registers follow from the macros, and that counts its calls."""

    version = "NVRTC 1.0"
    capabilities = ("7.0", "8.6")

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def compile(self, source, name, capability, options) -> Output:
        self.calls.append((capability, *options))
        tile = int(re.search(r"-Dtile=(\d+)", " ".join(options))[1])
        if tile == 3:
            raise CompileError(f"{name}(4): error: three is too many")
        spill = 4 * max(0, tile - 4)
        return Output(REPORT.format(spill, 2 * spill, min(255, 16 * tile)), "")


@pytest.fixture
def compiler(monkeypatch) -> Pretended:
    pretended = Pretended()
    monkeypatch.setattr(compiling, "load", lambda *_: pretended)
    return pretended


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "sums.toml").write_text(KERNEL)
    (tmp_path / "sums.cu").write_text(SOURCE)
    return tmp_path


COMMAND = ("compile", "sums.cu", "--kernel", "./sums.toml", "--processes", "1")
ENTRY = (*COMMAND, "--entry", "sums", "--compute-capability", "8.6")


def rows(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_variants__are_distinct_sources(folder):
    from sweep.specs import parse_kernel

    kernel = parse_kernel(KERNEL, "sums")
    text = {"devices": {}, "kernels": {"sums": kernel.text}}
    plan = Plan(("sums",), ("gtx_980_paper",), ("hong_kim",), layout="stacked")
    text["devices"]["gtx_980_paper"] = (
        resolve(Plan(("sepia",), ("gtx_980_paper",), ("hong_kim",))).devices[0].text
    )
    (space,) = resolve(plan, text).kernels
    variants = variants_of(SOURCE, space)
    assert [variants[i] for i in range(len(variants))] == [{"tile": t} for t in (1, 2, 3, 4, 64)]
    both = variants_of("mode tile width", space, ["width"])
    assert len(both) == 9 and both[0] == {"tile": 1, "mode": 0, "width": 48}
    assert both.block(0) is None  # no macro says the block's size
    sized = variants_of("block_size", space)
    assert [sized.block(i) for i in range(2)] == [(64, 1, 1), (128, 1, 1)]
    assert variants_of("no macro", space).sample(10) == [0]
    assert len(set(both.sample(4))) == 4
    # another mode is farther than any tile
    numbers = {tuple(both[i].values())[:2]: i for i in range(len(both))}
    known = [numbers[1, 1], numbers[64, 0]]
    assert both.nearest(numbers[2, 0], known) == numbers[64, 0]
    assert both.nearest(numbers[2, 1], known) == numbers[1, 1]
    with pytest.raises(SweepError, match="did you mean 'width'"):
        variants_of("tile", space, ["with"])


def test_report():
    name, found = resources(REPORT.format(12, 24, 255), "sums")
    assert name == "_Z4sumsPf"
    assert list(found.values()) == [255, 12, 24, 0]
    assert resources(REPORT.format(0, 0, 1), "other")[1]["shared_bytes"] == 512
    for entry in ("", "sum", "third"):
        with pytest.raises(CompileError, match="there are _Z4sumsPf, other"):
            resources(REPORT.format(0, 0, 1), entry)


def test_table__each_variant_once_and_kept(folder, compiler, capsys):
    assert main([*ENTRY]) == 0
    out, error = capsys.readouterr()
    assert "all 5 compiled for each compute capability, for 8.6" in out
    assert 'in sums.toml, write [compiled] and table = "sums.compiled.csv"' in out
    assert "1 do not compile, such as sums.cu(4): error: three is too many (8.6: -Dtile=3)" in error
    table = folder / "sums.compiled.csv"
    names = "compute_capability,tile,registers,spill_store_bytes,spill_load_bytes,shared_bytes"
    assert rows(table) == [names, "8.6,1,16,0,0,0", "8.6,2,32,0,0,0", "8.6,4,64,0,0,0",
                           "8.6,64,255,240,480,0"]  # fmt: skip
    assert len(compiler.calls) == 5
    first = table.read_bytes()
    assert main([*ENTRY, "--overwrite"]) == 0
    assert len(compiler.calls) == 5 and table.read_bytes() == first
    assert main([*ENTRY, "--overwrite", "--option=-O1"]) == 0  # other options, other findings
    assert len(compiler.calls) == 10
    for kept in (folder / "cache" / "compiled").iterdir():
        kept.write_text('{"registers": -1}')
    assert main([*ENTRY, "--overwrite"]) == 0
    assert len(compiler.calls) == 15 and table.read_bytes() == first
    (folder / "sums.toml").write_text(KERNEL + '[compiled]\ntable = "sums.compiled.csv"\n')
    assert load_kernel("./sums.toml").compiled.head["compiler"] == "NVRTC 1.0"


def test_table__is_beside_the_kernel_file_that_reads_it(folder, compiler, capsys, monkeypatch):
    text = KERNEL.replace("registers_per_thread = 32", 'registers_per_thread = "{}"').format(
        "compiled_registers + 1 if compiled else 32"
    )
    (folder / "sums.toml").write_text(text + '[compiled]\ntable = "own.csv"\n')
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    command = ("compile", "../sums.cu", "--kernel", "../sums.toml", *ENTRY[4:])
    assert main([*command]) == 0
    table = folder / "own.csv"
    assert len(rows(table)) == 5 and not list(elsewhere.iterdir())
    assert "use it" not in capsys.readouterr().out
    kernel = load_kernel("../sums.toml")
    assert kernel.expressions["resources.registers_per_thread"].text.startswith("compiled_reg")
    before = table.read_bytes()
    assert "is there already; --overwrite" in refused(capsys, *command)
    table.write_text("no table")  # what is to be replaced is not read
    assert main([*command, "--overwrite"]) == 0 and table.read_bytes() == before


def test_capabilities_with_equal_rows_are_written_once(folder, compiler, capsys):
    assert main([*ENTRY[:-1], "7.0,8.6"]) == 0
    table = folder / "sums.compiled.csv"
    assert {row.split(",")[0] for row in rows(table)[1:]} == {"7.0"}
    assert "# capabilities: 7.0, 8.6 as 7.0\n" in table.read_text()
    assert len(compiler.calls) == 10
    assert "for 7.0, 8.6" in capsys.readouterr().out


def test_sample__is_stated(folder, compiler, capsys):
    assert main([*ENTRY, "--most", "2"]) == 0
    assert "2 of 5 compiled for each compute capability; the others" in capsys.readouterr().out
    found = rows(folder / "sums.compiled.csv")
    assert len(compiler.calls) == 2
    exact = [row.split(",")[2] for row in found[1:]]
    assert found[0].startswith("compute_capability,tile,exact,") and exact.count("1") <= 2


def test_blocks_that_no_gpu_launches_are_not_compiled(folder, compiler, capsys):
    text = KERNEL.replace('block = "block_size"', 'block = "tile * 512"')
    (folder / "sums.toml").write_text(text)
    assert main([*ENTRY]) == 0
    assert {line.split(",")[1] for line in rows(folder / "sums.compiled.csv")[1:]} == {"1", "2"}
    (folder / "sums.toml").write_text(text.replace("512", "2048"))
    said = refused(capsys, *ENTRY, "--overwrite")
    assert "every variant has more than 1,024 threads a block" in said


def test_sample__too_many_to_fill(folder, compiler, capsys, monkeypatch):
    monkeypatch.setattr(compiling, "MOST_FILLED", 4)
    assert main([*ENTRY, "--most", "2"]) == 0
    assert "2 of 5 compiled for each compute capability; formulas" in capsys.readouterr().out
    found = rows(folder / "sums.compiled.csv")
    assert len(found) == 3 and all(row.split(",")[2] == "1" for row in found[1:])


def test_plan_gives_values_and_capabilities(folder, compiler):
    (folder / "plan.toml").write_text(
        'schema = 1\nname = "p"\nkernels = ["./sums.toml"]\nmodels = ["combined"]\n'
        'devices = ["v100", "rtx_3090"]\n[axes]\ntile = [2, 5]\n'
    )
    assert main(["compile", "sums.cu", "--plan", "plan.toml", *COMMAND[4:], "--entry", "sums"]) == 0
    assert sorted(compiler.calls) == [("7.0", "-Dtile=2"), ("7.0", "-Dtile=5"),
                                      ("8.6", "-Dtile=2"), ("8.6", "-Dtile=5")]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (COMMAND, "give --compute-capability, such as 7.0,8.6"),
        (COMMAND[:2], "give --kernel NAME or --plan PLAN"),
        ((*COMMAND, "--compute-capability", "3.5"), "NVRTC 1.0 does not compile for 3.5, but for"),
        ((*COMMAND, "--compute-capability", "3.5"), "3.5: pip install nvidia-cuda-nvrtc-cu11)"),
        ((*COMMAND, "--compute-capability", "sm_86"), "NVRTC 1.0 does not compile for sm_86"),
        ((*COMMAND, "--compute-capability", "hip:gfx942"), "clang for AMD's, such as gfx942"),
        ((*ENTRY, "--trip", "*=3"), "only with --instructions"),
        ((*ENTRY, "--argument", "0=3"), "only with --instructions"),
        ((*ENTRY, "-o", "x.txt"), "x.txt: a table is named KEY.csv"),
        ((*ENTRY, "--define", "tlie"), "--define tlie: no problem size or parameter of sums"),
        (
            (*ENTRY, "--entry", "third"),
            "no kernels named 'third' (choose one by --entry NAME): there are _Z4sums",
        ),
        ((*ENTRY, "--most", "0"), "--most 0: at least 1"),
    ],
)
def test_refused(folder, compiler, capsys, arguments, error):
    before = set(contents(folder))
    assert error in refused(capsys, *arguments)
    assert {name for name in contents(folder) if "cache" not in name} <= before


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(nvrtc, "_libraries", lambda: iter([(__file__, "")]))  # no library
    with pytest.raises(SweepError, match=r"pip install kernel-sweep\[compile\]"):
        nvrtc.load.__wrapped__()


# ---------------------------------------------------------------------------- the real compiler


@needs_nvrtc
def test_real__registers_and_spills(folder, capsys):
    capability = ("--compute-capability", "8.6")
    assert main([*COMMAND, *capability, "--instructions", "--trip", "*=100"]) == 0
    names, *found = (row.split(",") for row in rows(folder / "sums.compiled.csv"))
    table = {r[1]: dict(zip(names[2:], map(float, r[2:]), strict=True)) for r in found}
    assert list(table) == ["1", "2", "3", "4", "64"]
    few, many = table["1"], table["64"]
    assert few["registers"] < 64 and few["spill_store_bytes"] == 0
    assert many["registers"] == 255 and many["spill_load_bytes"] > 100
    assert few["shared_bytes"] == many["shared_bytes"] == 512
    # A multiply-add for each word, and an addition for each turn of the loop.
    assert (few["fp32"], many["fp32"]) == (4 + 100, 256 + 100)
    assert few["barriers"] == 1


@needs_nvrtc
def test_real__convolution_as_recorded(folder):
    """Spilled registers appear where a thread computes four pixels with unrolled loads."""
    source, plan = (DATA / f"convolution.{end}" for end in ("cu", "plan.toml"))
    command = ("compile", source, "--plan", plan, "--processes", "1", "-o", "found.csv")
    assert main([str(word) for word in (*command, "--instructions")]) == 0
    recorded, found = (
        parse_table(path.read_text(), path.name, CONVOLUTION.parameters, CONVOLUTION.sizes)
        for path in (DATA / "convolution.csv", folder / "found.csv")
    )
    assert recorded.head["source_sha256"] == found.head["source_sha256"]
    assert recorded.columns["registers"].tolist() == [48, 168, 88, 255]
    assert recorded.columns["spill_load_bytes"].tolist() == [0, 0, 0, 668]
    if found.head["compiler"] == recorded.head["compiler"]:
        assert (folder / "found.csv").read_bytes() == (DATA / "convolution.csv").read_bytes()
    for name in ("registers", "fp32"):
        assert found.columns[name] == pytest.approx(recorded.columns[name], rel=0.25)
    spilled = [table.columns["spill_load_bytes"] > 0 for table in (recorded, found)]
    assert spilled[0].tolist() == spilled[1].tolist()
    # A multiply-add of each pixel and weight.
    tiles = [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert found.columns["fp32"].tolist() == [225 * x * y for x, y in tiles]


@needs_nvrtc
def test_real__readme(folder, capsys):
    """The source, the kernel file and the output that the documentation shows."""
    text = (ROOT / "docs/howto/own_files.md").read_text(encoding="utf-8")
    (folder / "saxpy.cu").write_text(re.search(r"```cuda\n(.*?)```", text, re.DOTALL)[1])
    kernel = shown_files()["saxpy.toml"]
    (folder / "saxpy.toml").write_text(kernel)
    shown = re.search(r"\$ (sweep compile [^\n]*)\n(.*?)```", text, re.DOTALL)
    assert main([*shown[1].split()[1:], "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert re.sub(r"NVRTC \S+", "", printed) == re.sub(r"NVRTC \S+", "", shown[2])
    table = (folder / "saxpy.compiled.csv").read_text()
    parsed = parse_table(table, "saxpy.compiled.csv", load_kernel("./saxpy.toml").parameters, {})
    assert set(parsed.columns["registers"]) == {10}  # as the shown kernel file says
    assert "registers_per_thread = 10" in kernel


@needs_nvrtc
def test_real__errors(folder, capsys):
    (folder / "sums.cu").write_text("tile __global__")
    text = refused(capsys, *COMMAND, "--compute-capability", "8.6")
    assert "no variant compiles: sums.cu(1): error" in text
    (folder / "sums.cu").write_text(SOURCE)
    (folder / "sums.toml").write_text(KERNEL.replace("[1, 2, 3, 4, 64]", "[1, 2, 3]"))
    assert main([*COMMAND, "--compute-capability", "8.6", "--instructions"]) == 0
    assert "instructions are not counted: the loop at " in capsys.readouterr().err
    assert "fp32" not in rows(folder / "sums.compiled.csv")[0]
    output = nvrtc.load().compile(SOURCE, "sums.cu", "8.6", ["-Dtile=1"])
    with pytest.raises(CompileError, match="has no constant trip count"):
        instructions(output.ptx, "sums", {}, (128, 1, 1))

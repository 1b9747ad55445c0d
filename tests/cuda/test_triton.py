"""``sweep triton``: what is compiled, kept and refused; and the real Triton."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from support.ptx_texts import TESTS
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.cuda import triton, triton_compiling
from sweep.cuda.configurations import read_variants
from sweep.fields import STATUS
from sweep.specs import load_kernel

FOLDER = TESTS / "data" / "ptx" / "configurations"
KERNELS = TESTS / "data" / "ptx" / "compilers" / "kernels_triton.py"
GIVEN = ["--trip", "*=N/BK", "--size", "N=1024", "--grid", "N/BM,N/BN"]
SIGNATURE = "*fp16:16,*fp16:16,*fp32:16,i32:16,i32:16,i32:16"
ARGUMENTS = ["a", "b", "c", "M", "N", "K", "BM", "BN", "BK"]
CONFIGS = [
    {"BM": 16, "BN": 16, "BK": 16, "num_warps": 1, "num_stages": 1},
    {"BM": 32, "BN": 16, "BK": 16, "num_warps": 1, "num_stages": 2},
    {"kwargs": {"BM": 32, "BN": 32, "BK": 32}, "num_warps": 2, "num_stages": 4},
    {"BM": 48, "BN": 32, "BK": 32, "num_warps": 2, "num_stages": 4},
]
WHY = "CompilationError: arange's range must be a power of 2"


def jit_function(arguments=ARGUMENTS):
    params = [SimpleNamespace(name=n, is_constexpr=n.startswith("B")) for n in arguments]
    return SimpleNamespace(cache_key="0", arg_names=arguments, params=params)


def jobs(signature, kernel=None, configs=CONFIGS[:1], target="sm_80"):
    kernel = kernel or triton.Kernel(jit_function(), [], {})
    configs = [{**triton._DEFAULTS, **config} for config in configs]
    return triton.jobs_of("m:k", kernel, signature, configs, target)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Stand in for Triton: recorded texts for three configurations, and none for the fourth."""
    texts = {tuple(v.configuration.values())[:3]: v.text for v in read_variants([FOLDER])}
    compiled = []

    def results(waiting, _):
        for job in waiting:
            compiled.append(job)
            sides = tuple(float(job.constants[name]) for name in ("BM", "BN", "BK"))
            found = {"registers": 80, "spill_store_bytes": 0, "spill_load_bytes": 0}
            made = {
                "ptx": texts.get(sides, "").replace("sm_80", job.target),
                "found": {**found, "shared_bytes": 2048},
            }
            yield job.key, made if sides in texts else {"error": WHY}

    monkeypatch.setattr(triton, "import_triton", lambda: SimpleNamespace(__version__="3.9.0"))
    monkeypatch.setattr(triton, "attribute_of", lambda place: jit_function())
    monkeypatch.setattr(triton_compiling, "_results", results)
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("configs.json").write_text(json.dumps(CONFIGS), encoding="utf-8")
    return compiled


COMMAND = ["triton", "m:k", "--signature", SIGNATURE, "--configs", "configs.json", *GIVEN]


def statuses(path, device="a100_40gb"):
    plan = sweep.Plan(kernels=[path], devices=[device], models=["combined"], layout="stacked")
    (result,) = sweep.evaluate(plan).children.values()
    return sorted(result.to_dataset().compute()["status"].values.ravel().tolist())


def test_command__writes_a_kernel_file_and_compiles_once(fake, capsys):
    assert main([*COMMAND, "-o", "k.toml"]) == 0
    err = capsys.readouterr().err
    assert "3 configurations of BM, BN, BK, num_warps, num_stages for sm_80" in err
    assert f"BM=48 BN=32 BK=32 num_warps=2 num_stages=4: {WHY}" in err and len(fake) == 4
    kernel = load_kernel("./k.toml")
    assert kernel.compiled.head["compiler"] == "Triton 3.9.0 and its ptxas"
    assert kernel.expressions["resources.shared_memory_bytes"].text == "compiled_shared_bytes"
    assert statuses("./k.toml") == [STATUS["valid"]] * 3 + [STATUS["constraint"]]
    assert main([*COMMAND, "-o", "l.toml"]) == 0 and len(fake) == 4  # kept between runs
    assert main([*COMMAND, "--target", "sm_80,sm_86", "-o", "l.toml", "--overwrite"]) == 0
    assert [job.target for job in fake[4:]] == ["sm_86"] * 4
    assert "no conditional branch to 'x' (there are" in refused(capsys, *COMMAND, "--branch", "x=1")
    assert "argument 99: the kernel has" in refused(capsys, *COMMAND, "--argument", "99=1")


def test_command__is_refused_where_nothing_compiles(fake, capsys):
    Path("configs.json").write_text(json.dumps(CONFIGS[3:]), encoding="utf-8")
    assert refused(capsys, *COMMAND, "-o", "k.toml") == f"no configuration compiles: {WHY}"
    assert not Path("k.toml").exists()


def test_command__tries_again_what_the_machine_lacked(fake, monkeypatch, capsys):
    denied = Mock(side_effect=PermissionError(13, "no right", "ptxas"))
    fakes = {"importlib": SimpleNamespace(import_module=denied), "import_triton": lambda: None,
             "_results": lambda waiting, _: map(triton_compiling._compile, waiting)}  # fmt: skip
    for name, stand_in in fakes.items():
        monkeypatch.setattr(triton_compiling, name, stand_in)
    for n in (4, 8):
        assert refused(capsys, *COMMAND).startswith("no configuration compiles: PermissionError: ")
        assert denied.call_count == n


def test_missing_triton__is_one_line_with_what_to_install(monkeypatch, capsys):
    for found in (None, SimpleNamespace()):
        monkeypatch.setitem(sys.modules, "triton", found)
        message = refused(capsys, *COMMAND)
        assert message == "Triton is not installed: pip install 'kernel-sweep[compilers]'"
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.2.0"))
    assert refused(capsys, *COMMAND) == "Triton 3.2.0 is too old: 3.4 or later is needed"
    assert refused(capsys, *COMMAND, "--target", "").startswith("--target: names none")


def test_signature__has_types_constants_and_multiples(fake):
    (job,) = jobs("*fp16:16, *fp16, *fp32:16, i32:1, 64, i32")
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"}
    assert job.signature == {n: types.get(n, "constexpr") for n in ARGUMENTS}
    assert job.constants == {"M": 1, "N": 64, "BM": 16, "BN": 16, "BK": 16}
    assert job.divisible == (0, 2) and job.options["num_stages"] == 1
    named = "c=*fp32:16,a=*fp16:16,b=*fp16,K=i32,M=1,N=64"
    assert jobs(named)[0].signature == job.signature
    assert jobs(named, target="sm_90")[0].key != job.key


def test_heuristics__decide_constants(fake):
    kernel = triton.Kernel(jit_function([*ARGUMENTS, "EVEN"]), [], {
        "EVEN": lambda arguments: arguments["K"] % arguments["BK"] == 0})  # fmt: skip
    (job,) = jobs("*fp16,*fp16,*fp32,i32,i32,64", kernel)
    assert job.constants["EVEN"] is True and job.signature["EVEN"] == "constexpr"
    with pytest.raises(sweep.errors.SweepError, match="heuristic of EVEN reads 'K': give it a c"):
        jobs("*fp16,*fp16,*fp32,i32,i32,i32", kernel)


def test_heuristics__know_pointers_and_leave_what_is_given(fake):
    kernel = triton.Kernel(jit_function([*ARGUMENTS, "BIAS", "ROWS"]), [], {
        "BIAS": lambda arguments: arguments["c"] is not None,
        "ROWS": lambda arguments: arguments["a"].stride(0)})  # fmt: skip
    for c, has_bias in (("*fp32", True), ("None", False)):
        signature = f"a=*fp16,b=*fp16,c={c},M=i32,N=i32,K=i32"
        (job,) = jobs(f"{signature},ROWS=8", kernel)
        assert (job.constants["BIAS"], job.constants["ROWS"]) == (has_bias, 8)
        with pytest.raises(sweep.errors.SweepError, match="of ROWS fails .*give ROWS=CONSTANT"):
            jobs(signature, kernel)


@pytest.mark.parametrize(("signature", "configs", "target", "message"), [
    ("*fp16", CONFIGS[:1], "sm_80", "1 words for 6 arguments: a, b, c, M, N, K"),
    ("a=*fp16", CONFIGS[:1], "sm_80", "b has no type or value: give it a type, such as i32:16"),
    (SIGNATURE, [{"BM": 1, "BN": 1, "X": 2, "BK": 1}], "sm_80", "X is no argument of the kernel"),
    (SIGNATURE, [{"waves_per_eu": 2}], "sm_80", "waves_per_eu is no argument of the kernel, but an "
     "option of AMD's compiler: leave it out for sm_80"),
    (SIGNATURE, [{"BM": 1, "BN": 1, "Bk": 1}], "sm_80", "Bk is no argument of the kernel"),
    (SIGNATURE.replace("*fp32:16", "float*"), CONFIGS[:1], "sm_80", "c=float*: must be a type"),
    (SIGNATURE.replace("*fp32:16", "*fp33"), CONFIGS[:1], "sm_80", "c=*fp33: must be a type"),
    (SIGNATURE, CONFIGS[:1], "gfx90a", "sm_80 or sm_90; AMD's machine code is not"),
    (SIGNATURE, CONFIGS[:1], "hip:gfx942", "read, but kernel files such as triton_matmul know it"),
])  # fmt: skip
def test_signature__mistakes_are_named(fake, signature, configs, target, message):
    with pytest.raises(sweep.errors.SweepError) as error:
        jobs(signature, None, configs, target)
    assert message in str(error.value)


def test_configs__come_from_the_kernel_a_list_or_a_file(fake, monkeypatch):
    one = SimpleNamespace(all_kwargs=lambda: {"BM": 8, "num_warps": 2, "num_ctas": 1})
    kernel = triton.Kernel(jit_function(), [one, one], {})
    expected = {"BM": 8, "num_warps": 2, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
    assert triton.read_configs(kernel, None) == [expected]
    monkeypatch.setattr(triton, "attribute_of", lambda place: lambda: [{"BM": 8, "num_warps": 2}])
    assert triton.read_configs(kernel, "m:configs") == [expected]
    assert triton.read_configs(kernel, "configs.json")[2]["BN"] == 32
    for given, message in (("configs.json", "is no list"), (None, "has no @triton.autotune")):
        Path("configs.json").write_text("{}", encoding="utf-8")
        with pytest.raises(sweep.errors.SweepError, match=message):
            triton.read_configs(triton.Kernel(jit_function(), [], {}), given)


@pytest.mark.parametrize(("place", "message"), [
    ("kernels", "must be MODULE:NAME"), ("nothing_here:k", "nothing_here: cannot be imported"),
    ("bad.py:k", "bad.py: cannot be imported: ZeroDivisionError"), ("json:dumpz", "json has no 'd"),
    ("ends.py:k", "ends.py: cannot be imported: SystemExit: 3"),
])  # fmt: skip
def test_places__mistakes_are_named(folder, monkeypatch, capsys, place, message):
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("bad.py").write_text("1 / 0", encoding="utf-8")
    Path("ends.py").write_text("print('begins')\nraise SystemExit(3)", encoding="utf-8")
    with pytest.raises(sweep.errors.SweepError) as error:
        triton.attribute_of(place)
    assert message in str(error.value)
    assert capsys.readouterr().out == ""  # where the kernel file goes


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is not installed")
def test_real_triton__writes_what_is_on_record(folder, monkeypatch, capsys):
    """With ``pip install -e '.[compilers]'``."""
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(folder / "cache"))
    Path("configs.json").write_text(json.dumps(CONFIGS), encoding="utf-8")
    place = ["triton", f"{KERNELS}:matmul", "--signature", SIGNATURE, "--configs", "configs.json"]
    assert main([*place, *GIVEN, "-o", "k.toml"]) == 0
    assert "1 do not compile, such as BM=48" in capsys.readouterr().err
    recorded = ["ptx", str(FOLDER), "--trip", "*=N/BK", *GIVEN[2:]]
    assert main([*recorded, "-o", "recorded.toml"]) == 0
    found, expected = (load_kernel(f"./{name}.toml").compiled for name in ("k", "recorded"))
    works = found.reasons == ""
    for name in ("loop_matrix", "loop_buffers", "loop_load_1", "loop_load_2"):
        assert found.columns[name][works].tolist() == expected.columns[name].tolist()
    assert (found.columns["registers"][works] >= 24).all()
    assert found.columns["shared_bytes"][works].tolist()[-1] == 3 * 2 * 2 * 32 * 32
    assert statuses("./k.toml") == [STATUS["valid"]] * 3 + [STATUS["constraint"]]

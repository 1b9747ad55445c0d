"""A model of another package: registered by its entry point, evaluated and explained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = '''
"""A roofline."""

from sweep.fields import BOUND, Field
from sweep.models.base import Finding, Input, Model, Symbol, equations, symbols_of
from sweep.models.terms import parameter

INPUTS = (
    Input("issued", "W", "1", "warp instructions of an SM", "kernel instructions"),
    Input("moved", "Q", "B", "bytes moved", "kernel accesses"),
    Input("core_freq", "f", "Hz", "core clock", "swept core clock", clocked=True),
    Input("bandwidth", "B", "B/s", "DRAM bandwidth", "device", ("chip.memory_bandwidth_GBps",)),
)
SYMBOLS = symbols_of(INPUTS) | {"transfer": Symbol("T_mem", "cycle", "time of the transfers")}
_equation = equations("roofline", SYMBOLS)
COMPUTE, MEMORY = float(BOUND["compute"]), float(BOUND["memory"])


@_equation("1")
def transfer(moved, core_freq, bandwidth):
    """Time of the transfers in core cycles."""
    return moved * core_freq / bandwidth


def body(issued, moved, core_freq, bandwidth):
    STATEMENT
    cycles = max(issued, T)
    by_memory = T > issued
    return {
        "execution_cycles": cycles, "cycles_per_instruction": cycles / issued,
        "core_activity": issued / cycles, "memory_activity": T / cycles,
        "regime": 129.0 if by_memory else 128.0, "bound": MEMORY if by_memory else COMPUTE,
        "transfer_cycles": T,
    }  # fmt: skip


def prepare(work, variant):
    warps = work.blocks * work.occupancy.warps_per_block
    return {
        "issued": work.computation_instructions * warps / work.n_sm,
        "moved": work.total("count", "moved_bytes") * warps,
        "core_freq": work.clocks.core,
        "bandwidth": work.memory_bandwidth,
    }


def lag(device):
    """Nine cycles on every device, for nobody knows better."""
    return 9.0


MODEL = Model(
    name="NAME", title="roofline", reference="nobody", doi="", symbols=SYMBOLS, inputs=INPUTS,
    fields=(Field("transfer_cycles", "cycle", "time of the transfers", "T_mem", "roofline (1)"),),
    regimes={"roofline_compute": CODE, "roofline_memory": 129},
    bodies={"corrected": body, "printed": body}, prepare=prepare, errata={},
    parameters=(parameter("lag_cycles", ("l", "cycle", "a lag"), 1, 100, lag),),
    findings=lambda work, variant, results, write: [
        Finding("Roof", notes=(f"{write(results['transfer_cycles'])} cycles of transfers.",))],
)
'''
COMMAND = "import sys; from sweep.cli import main; sys.exit(main())"
RUN = """
import sweep
plan = sweep.Plan(["vector_add"], ["gtx_980_paper"], ["roofline"], precision="float64",
                  axes={"core_clock_ratio": [1.0]}, outputs=("execution_cycles", "transfer_cycles"),
                  kernel_axes={"vector_add": {"block_size": [256], "elements_per_thread": [1],
                                              "vector_width": [1]}})
found = sweep.evaluate(plan)["vector_add"].compute()
explained = sweep.explain(plan, {})
assert explained["Equations"].lines[0].number == "1"
assert explained["Roof"].notes[0].endswith(" cycles of transfers.")
print(found["roofline_transfer_cycles"].item(), explained.results["roofline_transfer_cycles"],
      explained.results["execution_cycles"], found["execution_cycles"].item())
"""


def installed(folder: Path, **changes: str) -> dict[str, str]:
    """Install the model as a package in a folder; return the environment that sees it."""
    values = {"STATEMENT": "T = transfer(moved, core_freq, bandwidth)", "NAME": "roofline",
              "CODE": "128"} | changes  # fmt: skip
    text = SOURCE
    for word, value in values.items():
        text = text.replace(word, value)
    (folder / "roofline_model.py").write_text(text, encoding="utf-8")
    info = folder / "roofline_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: roofline-model\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sweep.models]\nroofline = roofline_model:MODEL\n")
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return {**os.environ, "PYTHONPATH": path, "SWEEP_CACHE_DIR": ""}


def test_evaluated_and_explained(tmp_path):
    done = subprocess.run([sys.executable, "-c", RUN], env=installed(tmp_path), text=True,
                          capture_output=True, check=True)  # fmt: skip
    transfer, explained, cycles, stored = map(float, done.stdout.split())
    assert transfer == explained > 0
    assert cycles == stored >= transfer


def test_versions_of_its_package_do_not_mix(tmp_path):
    environment = installed(tmp_path)
    head = 'schema = 1\nkernels = ["svm"]\ndevices = ["gtx_980_paper"]\nmodels = ["roofline"]\n'
    small, large = (tmp_path / f"{name}.toml" for name in ("small", "large"))
    small.write_text(f"{head}[axes]\ncore_clock = [700]\n")
    large.write_text(f"{head}[axes]\ncore_clock = [600, 700]\n")

    def errors(command, plan, *more, before=""):
        asked = [command, *(["small.zarr"] if command == "extend" else []), plan.name, *more]
        return subprocess.run([sys.executable, "-c", before + COMMAND, *asked], env=environment,
                              text=True, capture_output=True, cwd=tmp_path).stderr  # fmt: skip

    older = "import sweep.runs.record as r; r.packages_of = lambda models: {}\n"  # named none
    assert errors("run", small, before=older) == errors("run", small) == ""
    assert errors("run", small, "--overwrite") == ""
    (next(tmp_path.glob("*.dist-info")) / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: roofline-model\nVersion: 2.0\n"
    )
    assert "packages.roofline-model ('1.0' there, '2.0' here)" in errors("run", small)
    assert "was computed by roofline-model 1.0, which is 2.0 here" in errors("extend", large)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"STATEMENT": "T = transfer(moved, core_freq, bandwidth=bandwidth)"},
         "roofline_model.py:26: body: `transfer(moved, core_freq, bandwidth=bandwidth)`:"),
        ({"STATEMENT": "while moved > 1.0: moved = 0.0"}, "a body cannot have `while moved >"),
        ({"STATEMENT": "import nothing_like_this; T = 0.0"}, "a body cannot have `import"),
        ({"NAME": "other"}, "calls itself 'other'"),
        ({"CODE": "10"}, "regime 'roofline_compute' = 10"),
        ({"CODE": "1 / 0"}, "cannot be imported: ZeroDivisionError"),
        ({"CODE": "129"}, "has the regime's code '129', which is taken"),
        ({'"transfer_cycles", "cycle"': '"bound", "cycle"'}, "has the field 'bound', which is"),
        ({"symbols=SYMBOLS": "symbols={}"}, "has no symbol for its input '"),
        ({'("chip.memory_bandwidth_GBps",)': '("bandwith_GBps",)'},
         "has no parameter 'bandwith_GBps' for its input 'bandwidth'"),
        ({"errata={}": 'errata=["RO-1"]'}, "is declared wrongly: 'list' object"),
        ({"100, lag": "100, lambda d: 9.0"}, "has a rule of 'lag_cycles' without a docstring"),
        ({"return 9.0": "return -9.0"}, "rule of 'lag_cycles' gives -9.0, beyond 1 to 100"),
        ({"return 9.0": "return device.valuess"},
         "rule of 'lag_cycles': AttributeError: 'DeviceFacts' object has no attribute 'valuess'"),
        ({"work.memory_bandwidth,": "[1.0],"}, "prepare needs arrays of numbers with 4 axes"),
        ({'"moved": work': '"mvd": work'}, "prepare gives no 'moved'"),
        ({"work.n_sm,": "work.n_sms,"}, "roofline_model.py:40)"),
        ({"work.n_sm,": "__import__('numpy').stack([]),"}, "roofline_model.py:40)"),
        ({'"kernel instructions")': '"a", sequence=True), Input(*"oo1aa", sequence=True)',
          '"issued": work': '"o": [], "issued": [work.n_sm] or work'},
         "prepare gives sequences of different lengths"),
        ({'"kernel instructions")': '"a", factor="f")', '"moved": work': '"f": 2.0, "moved": work'},
         "prepare needs arrays of numbers with 4 axes"),
        ({'doi=""': "doi=None"}, "has None where a text belongs"),
        ({"Finding(": "None and Finding("}, "findings: TypeError"),
        ({"work.n_sm,": "work.n_sm * work.clocks.core,"}, "input 'issued' depends on the clocks"),
        ({"work.clocks.core,": "work.clocks.core * warps,"}, "'core_freq' depends on launch and"),
        ({"Finding(": "no_finding("}, "findings: NameError: name 'no_finding'"),
    ],
)  # fmt: skip
def test_refused_in_one_line(tmp_path, changes, words):
    environment = installed(tmp_path, **changes)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'schema = 1\nkernels = ["svm"]\ndevices = ["gtx_980_paper"]\nmodels = ["roofline"]\n'
        "[axes]\ncore_clock = [600, 700]\n"
    )
    asked = ["explain", str(plan), "block_size=64", "core_clock=600"]
    done = subprocess.run([sys.executable, "-c", COMMAND, *asked], env=environment, text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

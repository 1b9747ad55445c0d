"""Every shipped kernel under every model on every shipped device: a time, or a reason."""

import numpy as np
import pytest

from sweep import Plan
from sweep.cli import main
from sweep.evaluation.chunk import evaluate_box
from sweep.explanation.explaining import applicability
from sweep.fields import STATUS
from sweep.models import get_model, model_names
from sweep.space import resolve, what_is_missing, with_derived
from sweep.specs import list_devices, list_kernels, load_device

pytestmark = pytest.mark.slow

CLOCKS = {"core_clock_ratio": [0.9, 1.0, 1.1], "memory_clock_ratio": [0.9, 1.0, 1.1]}
# Of published spaces a few values of each parameter: all devices and clocks times all of them would
# take minutes.
FEW = {
    "convolution": {"tile_size_x": [1, 4], "tile_size_y": [1, 3], "use_padding": [0]},
    "convolution_ktt": {"BLOCK_SIZE_X": [4, 32, 112], "TILE_SIZE_X": [1, 3], "PADDING": [0]},
    "dedispersion": {"block_size_y": [32, 96], "tile_size_x": [1, 3], "tile_size_y": [1, 4]},
    "expdist": {"block_size_x": [32, 1024], "block_size_y": [1, 4], "tile_size_x": [1, 4],
                "tile_size_y": [1, 7], "loop_unroll_factor_x": [1], "n_y_blocks": [1, 64]},
    "hotspot": {"block_size_x": [1, 32, 96, 512], "tile_size_x": [1, 3], "tile_size_y": [1, 2],
                "temporal_tiling_factor": [1, 4, 10], "loop_unroll_factor_t": [1, 2]},
    "triton_matmul": {"k": [16384], "bits": [8, 16], "is_integer": [0, 1], "num_stages": [1, 3]},
    "xgemm": {"KWG": [32], "STRM": [0], "STRN": [0], "MWG": [32, 128], "NWG": [64]},
}  # fmt: skip
BUSIEST = tuple(f"combined_{station}_cycles" for station in ("arithmetic", "load_store", "memory"))


@pytest.fixture(scope="module", params=model_names())
def everything(request):
    """Return a model's name, the names of all devices, and by kernel what it gives on them all."""
    outputs = ("execution_time", "status", "regime", "bound", "execution_cycles")
    outputs += BUSIEST if request.param == "combined" else ()
    # The other variants of some models let a higher clock be slower (`tests/support/promises.py`).
    more = {"axes": CLOCKS, "kernel_axes": FEW, "precision": "float64", "outputs": outputs,
            "variant": "revised"}  # fmt: skip
    plan = Plan(list_kernels(), list_devices(), [request.param], **more)
    spaces = resolve(plan).kernels
    found = {s.kernel.key: evaluate_box(s, plan, s.grid.whole) for s in spaces}
    return request.param, list_devices(), found


def test_a_time_or_a_reason(everything):
    model, devices, found = everything
    runs = 0
    for i, name in enumerate(devices):
        device = with_derived(load_device(name), model_names())
        missing = what_is_missing(device, model, device)
        for kernel, results in found.items():
            timed = (results["status"][0, i] == STATUS["valid"]).any()
            # What `sweep list models --device NAME`, with `--kernel KERNEL`, prints.
            if not timed and not missing:
                reason = applicability(kernel, name, model)[1]
                # A row of Triton's softmax takes more registers than a thread of 2008 has, and no
                # instruction converts to fp8 before compute capability 8.9.
                told = "has no number for", "lacks what", "registers; compute capability"
                told += ("`compute_capability >= 8.9` of kernels_spec/fp8_quantize.toml",)
                assert any(words in reason for words in told), (kernel, name, reason)
            runs += timed
    assert runs > 20 * len(found)


def test_finite_or_flagged_and_higher_clocks_never_slower(everything):
    model, _, found = everything
    codes, steps = list(get_model(model).regimes.values()), 0
    for kernel, results in found.items():
        time, timed = results["execution_time"], results["status"] == STATUS["valid"]
        assert (np.isfinite(time) == timed).all(), kernel
        assert (time[timed] > 0).all(), kernel
        assert np.isin(results["regime"][timed], codes).all(), kernel
        assert not results["regime"][~timed].any(), kernel
        assert (results["bound"] > 0)[timed].all(), kernel
        for station in BUSIEST if model == "combined" else ():  # it is never faster than one
            assert (results[station] <= results["execution_cycles"] * (1 + 1e-11))[timed].all()
        for axis in (-2, -1):
            slow, fast = np.delete(time, -1, axis), np.delete(time, 0, axis)
            known = np.isfinite(slow) & np.isfinite(fast)
            assert (fast <= slow * (1 + 1e-12))[known].all(), kernel
            steps += known.sum()
    assert steps > 10_000


# --- What the command says ------------------------------------------------------------------------

DOUBLE = """schema = 1
name = "double"
source = {default = "derived: made up"}
sizes = {n = 1024}
parameters = {block_size = [64, 2048]}
launch = {threads_per_block = "block_size", blocks = "ceil(n / block_size)"}
resources = {registers_per_thread = 10}
instructions = {fp64 = 1}
global_access = [{name = "x", kind = "store", count = 1, bytes = 8, pattern = "coalesced"}]
"""


def test_list_models__says_why_a_model_does_not_run(tmp_path, capsys):
    def listed(device, kernel):
        assert main(["list", "models", "--device", device, "--kernel", str(kernel)]) == 0
        return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())

    path = tmp_path / "double.toml"
    path.write_text(DOUBLE, encoding="utf-8")
    found = listed("gtx_260", path)
    assert "1 of 2 configurations of double have a time" in found["hong_kim"]
    # Table 1 of Luo & Suda has no costs of double precision.
    assert found["luo_suda"].startswith("does not run: 0 of 2 configurations of double have a time")
    assert found["luo_suda"].endswith("model.luo_suda.class_cost has no row for fp64.")
    path.write_text(DOUBLE.replace("64, 2048", "1536, 2048"), encoding="utf-8")
    for text in listed("gtx_280", path).values():
        assert "0 of 2 configurations of double have a time (block_too_large 2). A block of" in text
    found = listed("gt_640", "vector_add")
    assert all("; assumed: " in text or "(assumed: " in text for text in found.values())
    assert "; assumed: mem_ld_cycles); " in found["hong_kim"]  # nobody measured its DRAM


def test_applicability__counts_and_reason():
    assert applicability("mat_tiled", "gtx_280", "hong_kim") == ({"valid": 17}, "")
    statuses, reason = applicability("mat_tiled", "gtx_8800", "wang_chu", derive=False)
    assert statuses == {"missing_parameters": 17}
    assert reason.startswith("devices/gtx_8800.toml lacks what wang_chu needs: ")

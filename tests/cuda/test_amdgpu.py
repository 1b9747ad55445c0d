"""Machine code of AMD's GPUs: what wavefronts execute, by hand-written code and by clang itself."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from support.runs import ROOT

from sweep.cli import main
from sweep.cuda import amdgpu
from sweep.cuda.machine_code import Code, parse, registers
from sweep.cuda.nvrtc import CompileError
from sweep.cuda.wave import Wave
from sweep.specs import load_kernel
from sweep.specs.compiled import TARGET, parse_table, target_number

needs_clang = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed"
)

# A block copies 200 columns and 7 rows, 64 threads at a time; rows in a scalar loop.
COPY = """
	s_mov_b32 s2, 0
.rows:
	v_mov_b32_e32 v1, v0
	s_mov_b64 s[4:5], 0
.columns:
	global_load_dword v4, v[2:3], off
	s_waitcnt vmcnt(0)
	ds_write_b32 v1, v4
	v_add_u32_e32 v1, STEP, v1
	v_cmp_le_u32_e32 vcc, 200, v1
	s_or_b64 s[4:5], vcc, s[4:5]
	s_andn2_b64 exec, exec, s[4:5]
	s_cbranch_execnz .columns
	s_or_b64 exec, exec, s[6:7]
	s_add_i32 s2, s2, 1
	s_cmp_lt_u32 s2, 7
	s_cbranch_scc1 .rows
	s_endpgm
"""


def run(text, lanes=64, **scalars):
    code = Code.of(text.splitlines())
    full = {"exec_lo": 2**32 - 1, "exec_hi": 2**32 - 1, "s6": 2**32 - 1, "s7": 2**32 - 1}
    wave = Wave(lanes, full | scalars, {"v0": np.arange(lanes)}, ("s0", "s1"), {0: 5})
    counts = wave.run(code)
    names = [line[0].name for line in code.lines]
    return {name: int(counts[names.index(name)]) for name in names}, wave


@pytest.mark.parametrize("step", [64, 100, 7])
def test_loop__ends_with_the_last_lane(step):
    found, wave = run(COPY.replace("STEP", str(step)))
    turns = max(len(range(lane, 200, step)) for lane in range(64))
    assert found["global_load_dword"] == 7 * turns == wave.waits
    assert found["s_cmp_lt_u32"] == 7


def test_waits__loads_under_way_together_are_waited_for_once():
    text = "global_load_dword v1, v[2:3], off\n" * 3
    text += "s_waitcnt vmcnt(2)\ns_waitcnt vmcnt(1)\ns_waitcnt vmcnt(0)\n"
    assert run(f"{text}s_endpgm")[1].waits == 1
    assert run(f"{text}{text}s_endpgm")[1].waits == 2


def test_arguments_decide_branches_and_loaded_data_stop():
    text = "s_load_dword s8, s[0:1], 0x0\ns_cmp_eq_u32 s8, 5\ns_cbranch_scc0 .end\nv_nop\n.end:\n"
    assert run(f"{text}s_endpgm")[0]["v_nop"] == 1
    elsewhere = "s_add_u32 s10, s0, 8\ns_addc_u32 s11, s1, 0\n" + text.replace("0x0", "-0x8")
    assert run(f"{elsewhere.replace('s[0:1]', 's[10:11]')}s_endpgm")[0]["v_nop"] == 1
    with pytest.raises(CompileError, match="not part of it"):
        amdgpu.executions(SimpleNamespace(code=Code.of(["s_swappc_b64 s[30:31], s[4:5]"])), (), {})
    with pytest.raises(CompileError, match="loaded data"):
        run(f"{text.replace('s[0:1]', 's[2:3]')}s_endpgm")
    with pytest.raises(CompileError, match="loaded data"):
        run("global_load_dword v1, v[2:3], off\nv_cmp_eq_u32_e32 vcc, 1, v1\n"
            "s_and_saveexec_b64 s[4:5], vcc\ns_cbranch_execz .end\n.end:\ns_endpgm")  # fmt: skip


def test_words_of_64_bits__carry_and_are_compared():
    text = """
	v_mov_b32_e32 v2, 0
	v_add_co_u32_e32 v1, vcc, -32, v0
	v_addc_co_u32_e32 v2, vcc, 0, v2, vcc
	v_lshl_add_u64 v[4:5], v[1:2], 1, v[1:2]
	v_pk_mov_b32 v[6:7], v[4:5], v[4:5] op_sel:[0,1]
	v_cmp_lt_u64_e32 vcc, s[8:9], v[6:7]
	s_and_saveexec_b64 s[4:5], vcc
	s_endpgm
"""
    # Lane 32 has 3 times 2 ** 32.
    for most, chosen in ((3 * 2**32 - 1, 32), (3 * 2**32, 31), (0, 64)):
        wave = run(text, s8=most % 2**32, s9=most >> 32)[1]
        assert wave.mask("exec") == 2**64 - 2 ** (64 - chosen)


def test_products_with_a_carry__are_unknown_but_no_sums():
    text = "v_mov_b32_e32 v1, 5\nv_mad_co_u64_u32 v[1:2], vcc_lo, v0, v0, v[4:5]\n"
    with pytest.raises(CompileError, match="loaded data"):
        run(f"{text}v_cmp_eq_u32_e32 vcc, 5, v1\ns_cbranch_vccz .end\n.end:\ns_endpgm")


def test_masks_survive_lanes_of_registers_and_scratch_memory():
    text = """
	v_cmp_gt_u32_e32 vcc, 10, v0
	v_writelane_b32 v9, vcc_lo, 3
	v_accvgpr_write_b32 a1, v9
	v_accvgpr_read_b32 v8, a1
	buffer_store_dword v8, off, s[96:99], 0 offset:4
	buffer_load_dword v7, off, s[96:99], 0 offset:4
	v_readlane_b32 s4, v7, 3
	v_mov_b32_e32 v6, vcc_hi
	v_readlane_b32 s5, v6, 3
	s_and_saveexec_b64 s[8:9], s[4:5]
	s_endpgm
"""
    assert run(text)[1].mask("exec") == 2**10 - 1


def test_parse__operands_and_pairs():
    assert registers("s[4:5]") == ["s4", "s5"]
    first, second = parse("v_dual_mov_b32 v2, 0 :: v_dual_add_nc_u32 v3, s1, v10")
    assert (first.name, second.name) == ("v_mov_b32", "v_add_nc_u32")
    assert second.writes == ("v3",)
    assert set(second.reads) == {"s1", "v10"}
    (exchanged,) = parse("s_and_saveexec_b32 s5, vcc_lo")
    assert {"exec_lo", "scc", "s5"} <= set(exchanged.writes)


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [("v_fmac_f32_e32 v1, v2, v3", "gfx1100", "fp32"),
     ("v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, 0", "gfx1100", "fp32"),
     ("v_dual_mov_b32 v1, 0 :: v_dual_mov_b32 v2, 0", "gfx1100", "move"),
     ("v_rcp_f32_e32 v1, v2", "gfx906", "special"),
     ("v_mul_lo_u32 v1, v2, v3", "gfx906", "special"),
     ("v_mul_lo_u32 v1, v2, v3", "gfx90a", "integer"),
     ("v_cvt_f64_f32_e32 v[1:2], v3", "gfx90a", "fp64"),
     ("v_cvt_f32_ubyte0_e32 v1, v2", "gfx1032", "conversion"),
     ("v_cmp_lt_f32_e32 vcc, v1, v2", "gfx90a", "integer"),
     ("s_cbranch_execz .x", "gfx90a", "control"), ("s_waitcnt vmcnt(0)", "gfx90a", None),
     ("ds_read_b32 v1, v2", "gfx90a", None)],
)  # fmt: skip
def test_classes(text, target, expected):
    assert amdgpu.class_of(parse(text), target) == expected


@needs_clang
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1032", "gfx1100"])
def test_clang__instructions_of_a_convolution(target):
    macros = {"block_size_x": 32, "block_size_y": 4, "tile_size_x": 2, "tile_size_y": 2,
              "filter_width": 5, "filter_height": 5, "use_shmem": 1, "read_only": 0}  # fmt: skip
    source = (ROOT / "tests" / "data" / "cuda" / "convolution.cu").read_text()
    options = [f"-D{name}={value}" for name, value in macros.items()]
    text = amdgpu.load().compile(source, "convolution.cu", target, options)
    found = amdgpu.findings(amdgpu.kernel_in(text), (32, 4, 1), {}, count=True)
    products = 5 * 5 * 4
    assert found["shared_bytes"] == 4 * (64 + 4) * (8 + 4)
    if target == "gfx1032":
        assert found["fp32"] == pytest.approx(products, abs=8)
    else:  # pairs of RDNA 3, packed arithmetic of CDNA 2
        assert products / 2 <= found["fp32"] <= products + 8
    # 12 rows by 4 threads in y, 68 columns by 32 in x: 3 rows of 3 or, of other lanes, 2.
    assert found["barriers"] == 1
    assert 1 <= found["load_waits"] <= 9
    with pytest.raises(CompileError, match="nonsense"):
        amdgpu.load().compile("nonsense", "wrong.cu", target, [])


@needs_clang
def test_command__writes_rows_of_targets(tmp_path):
    source, table = tmp_path / "scaled.hip", tmp_path / "table.csv"
    source.write_text(
        '#include "hip/hip_runtime.h"\nextern "C" __global__ void scaled(float *x) {\n'
        "x[threadIdx.x] *= tile_size_x * block_size_x * block_size_y;\n}\n"
    )
    words = ["compile", str(source), "--kernel", "convolution", "--compute-capability",
             "gfx90a,gfx1100", "--most", "1", "--instructions", "--processes", "1"]  # fmt: skip
    assert main([*words, "-o", str(table)]) == 0
    kernel = load_kernel("convolution")
    found = parse_table(table.read_text(), "table.csv", kernel.parameters, kernel.sizes)
    assert "clang" in found.described
    values = {"block_size_x": 16.0, "block_size_y": 1.0, "tile_size_x": 1.0}
    for target, is_known in (("gfx90a", 1), ("gfx1100", 1), ("gfx906", 0), ("8.6", 0)):
        given = values | {TARGET: target_number(target)}
        assert found.look_up("", given)[0] == is_known
    given = values | {TARGET: target_number("gfx90a")}
    assert found.look_up("fp32", given)[0] == 1


OPENCL = """
float total(float4 v) { return dot(v, (float4)(1.0f)) + v.s3; }
__kernel void sums(__global const float4 *in, __global float *out, ulong n, uint width,
                   __local float *kept) {
    const size_t lane = get_local_id(0);
    float sum = 0.0f;
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) sum += total(in[i].wzyx);
    kept[lane] = sum;
    for (size_t half_of = get_local_size(0) / 2; half_of > 0; half_of >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_of) kept[lane] += kept[lane + half_of];
    }
    if (get_global_id(0) / width < 10) out[get_global_id(0)] = native_exp(kept[0]);
}
"""

HIP = """
extern "C" __global__ void sums(const float4 *in, float *out, unsigned long n, uint width) {
    extern __shared__ float kept[];
    const unsigned long lane = threadIdx.x, all = blockDim.x, id = blockIdx.x * all + lane;
    float sum = 0.0f;
    for (unsigned long i = id; i < n; i += gridDim.x * all) {
        const float4 v = in[i];
        sum += fmaf(v.w, 1.0f, fmaf(v.z, 1.0f, v.y + v.x)) + v.x;
    }
    kept[lane] = sum;
    for (unsigned long half = all / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (lane < half) kept[lane] += kept[lane + half];
    }
    if ((uint) id / width < 10) out[id] = __builtin_amdgcn_exp2f(kept[0] * 1.442695f);
}
"""


@needs_clang
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1030", "gfx1100"])
def test_opencl__executes_what_hip_does(target):
    """Loops over blocks of the grid, 64-bit indices, and a quotient that decides who stores."""
    found = []
    for name, source in (("sums.cl", OPENCL), ("sums.hip", HIP)):
        kernel = amdgpu.kernel_in(amdgpu.load().compile(source, name, target, ["-DT=1"]))
        for width in (1000, 7):  # block 3 begins with thread 768: all store or none does
            arguments = {"2": 2**20, "3": width, "blocks": 1024}
            found.append(amdgpu.findings(kernel, (256, 1, 1), arguments, count=True))
    for ours, hip in zip(found[:2], found[2:], strict=True):
        assert ours["barriers"] == hip["barriers"] == 8
        assert "shared_bytes" not in ours  # which the host chooses
        assert ours["load_waits"] == hip["load_waits"] == 4
        assert 4 * 4 <= ours["fp32"] == pytest.approx(hip["fp32"], abs=1)
        assert ours["registers"] == pytest.approx(hip["registers"], abs=2)
        assert ours["integer"] == pytest.approx(hip["integer"], rel=0.1)
    assert found[1]["special"] < found[0]["special"]


@needs_clang
def test_opencl__what_clang_does_not_know_is_named_by_the_users_file():
    source = "kernel void f(global float *x) {\n*x = sin(*x);\n}"
    with pytest.raises(CompileError, match=r"^k\.cl:2:6: error: .*'sin'"):
        amdgpu.load().compile(source, "k.cl", "gfx942", [])


@needs_clang
def test_hip__launch_bounds_decide_how_many_registers_there_are():
    body = (
        "{ float v[160] = {}; for (int k = 0; k < n; k++) for (int i = 0; i < 160; i++)"
        " v[i] += x[k] * x[i]; for (int i = 0; i < 160; i++) x[i] = v[i]; }"
    )
    registers = []
    for bounds in ("", "__launch_bounds__(64)", "__launch_bounds__(64, 4)"):
        source = f'extern "C" __global__ void {bounds} f(float *x, int n) {body}'
        kernel = amdgpu.kernel_in(amdgpu.load().compile(source, "k.hip", "gfx90a", []))
        found = amdgpu.findings(kernel, (64, 1, 1), {}, count=False)
        assert (found["registers"] <= 128) == (found["spill_store_bytes"] > 0)
        registers.append(found["registers"])
    assert registers[0] == registers[2] == 128 < 160 < registers[1]

"""Kernel files from profiles of Nsight Compute and nvprof: numbers, formulas, missing counters."""

import pytest
from support.launches import accesses_of, launched
from support.profile_texts import FOLDER, INSTRUCTIONS, MATRIX, cases_of, made, of, path, text

import sweep
from sweep.importers.profiles.inputs import inputs_of
from sweep.importers.profiles.kernel_file import Given
from sweep.importers.profiles.launches import chosen, kernels_of, read_profile
from sweep.specs import lint, load_device, parse_kernel


def inputs(*names, kernel=MATRIX, launch=None, given=None):
    launches = [one for name in names for one in read_profile(text(name))]
    return inputs_of(chosen(launches, kernel, launch), given)


def saved(folder, key, content):
    """Return the path of a kernel file with this content."""
    (folder / f"{key}.toml").write_text(content, encoding="utf-8")
    return str(folder / f"{key}.toml")


# ---------------------------------------------------------------------------- both profilers

FORMS = {
    "ncu_details": ("ncu_details",),
    "ncu_raw": ("ncu_raw",),
    "nvprof_metrics": ("nvprof_metrics", "nvprof_trace"),
    "nvprof_events": ("nvprof_trace", "nvprof_events"),
}


@pytest.mark.parametrize("names", FORMS.values(), ids=FORMS)
def test_counts__of_the_source_whatever_the_format(names):
    found = inputs(*names)
    # 1024 x 1024 elements, one per thread, in tiles of 32: two loads per tile and one store.
    assert (found.threads, found.blocks, found.warps) == (1024, 1024, 32768)
    assert [(a.kind, a.count) for a in found.global_accesses] == [("load", 64), ("store", 1)]
    # 2911 instructions per warp in total.
    assert found.computation == 2911 - 65
    assert found.global_accesses[1].transactions == pytest.approx(4, rel=1e-3)
    assert found.shared_memory == 8192  # also if printed as 8.19 Kbyte


def test_metrics__by_the_formulas_of_the_profile():
    found = inputs("nvprof_metrics", "nvprof_trace")
    transactions = sum(a.count * a.transactions for a in found.global_accesses)
    assert transactions == pytest.approx((8391168 + 131093) / 32768)
    assert found.l2_hit_rate == pytest.approx(1 - (402820 + 131702) / (8391168 + 131093))
    assert found.registers == 25
    shared = {a.kind: (a.count, a.transactions) for a in found.shared_accesses}
    assert shared == {"load": (1280, pytest.approx(41943180 / 41943040)), "store": (64, 1)}
    assert found.time == pytest.approx((2.213056 + 2.208577 + 2.209089) / 3 * 1e-3)
    assert found.occupancy == pytest.approx(0.99823)
    assert found.launches == 3 and found.device == "GeForce GTX 980"


def test_events__sum_over_the_parts_of_l2_and_dram():
    found = inputs("nvprof_events", "nvprof_trace")
    assert found.global_accesses[0].transactions == pytest.approx((4195520 + 4195648) / 2097152)
    missed, all_of = 201402 + 201418 + 65820 + 65882, 4195520 + 4195648 + 65536 + 65557
    assert found.l2_hit_rate == pytest.approx(1 - missed / all_of)
    assert "(global_load + global_store) / warps" in found.sources["instructions.computation"]


def test_units__of_raw_and_details():
    raw, details = inputs("ncu_raw"), inputs("ncu_details", launch=1)
    assert raw.time == pytest.approx(1357.7e-6) and details.time == pytest.approx(1.36e-3)
    assert raw.core_clock == details.core_clock == 1.55e9
    missed, all_of = (9.32e6 + 3.78e6) / 32, 8112044 + 131072
    assert raw.l2_hit_rate == pytest.approx(1 - missed / all_of)
    assert raw.occupancy == pytest.approx(0.6621)


def test_launches__one_or_the_mean():
    read = [inputs("ncu_details", launch=n).global_accesses[0].transactions for n in (1, 2)]
    assert read == [8112044 / 2097152, 8112108 / 2097152]
    mean = inputs("ncu_details")
    assert mean.global_accesses[0].transactions == pytest.approx(sum(read) / 2)
    assert mean.launches == 2 and mean.time == pytest.approx(1.35e-3)


def test_kernels__are_chosen_by_name_or_part():
    launches = read_profile(text("ncu_details"))
    names = kernels_of(launches)
    assert [name.partition("(")[0] for name in names] == ["vectorAdd", "void matrixMulCUDA<32>"]
    for name in (MATRIX, "matrixMul", names[1]):
        assert len(chosen(launches, name)) == 2


def test_nvprof__summary_and_trace_of_counters():
    traced = read_profile(text("nvprof_counters"))
    launches = [*read_profile(text("nvprof_summary")), *traced]
    assert kernels_of(launches) == ("k(int)",)
    given = Given(block=(128, 1, 1), grid=(64, 1, 1))
    found = inputs_of(chosen(launches), given)
    assert found.computation == 25700 / 256 and found.launches == 2
    assert found.time == pytest.approx(380e-6) and found.device == "GeForce GTX 980"
    assert inputs_of(chosen(traced, None, 2), given).computation == 25800 / 256


# ---------------------------------------------------------------------------- notations


@pytest.mark.parametrize(("values", "expected"), [
    (["1,234,567", "12.5"], [1234567, 12.5]), (["1.234.567", "12,5"], [1234567, 12.5]),
    (["1.234", "0,125"], [1234, 0.125]), (["1,234", "256"], [1234, 256]),
    (["1.5e+3", "2"], [1500, 2]), (["1\u202f234,5", "1\u00a0000"], [1234.5, 1000]),
    (["1'234.5", "7"], [1234.5, 7]),
])  # fmt: skip
def test_numbers__of_any_locale(values, expected):
    rows = [(f"counter_{i}", "", value) for i, value in enumerate(values)]
    (launch,) = read_profile(made(*rows))
    assert [launch.counters[name].number for name, *_ in rows] == expected


CASES = cases_of("counter_cases")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_counters__give_values_sources_and_remarks(case):
    found = of(INSTRUCTIONS, *case["counters"])
    values = vars(found) | {
        f"{access.name}.{name}": value
        for access in (*found.global_accesses, *found.shared_accesses)
        for name, value in vars(access).items()
    }
    for name, value in case["values"].items():
        assert values[name] == (value if isinstance(value, str) else pytest.approx(value))
    remarks = "\n".join(found.remarks)
    assert all(text in remarks for text in case.get("remarks", []))
    assert all(text in found.sources[path] for path, text in case.get("sources", {}).items())


def test_nvprof__classes_of_threads_and_barriers(tmp_path):
    rows = {"inst_fp_64": 64 * 81920, "flop_count_sp_special": 8192, "inst_fp_32": 32 * 8192,
            "inst_integer": 8192, "inst_executed": 256 * 1400}  # fmt: skip
    head = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'
    lines = [f'"GeForce GTX 980 (0)","k(int)",1,"{n}","",{v},{v},{v}' for n, v in rows.items()]
    lines.append('"GeForce GTX 980 (0)","k(int)",1,"warp_nonpred_execution_efficiency",""'
                 + 3 * ',"50.000000%"')  # fmt: skip
    run = tmp_path / "run.csv"
    run.write_text("\n".join([head, *lines]), encoding="utf-8")
    given = Given((128, 1, 1), (64, 1, 1), barriers=7)
    kernel = parse_kernel(sweep.read_profile([run], given=given).text, "k")
    found = {name: float(kernel.expressions[f"instructions.{name}"].text) for name in
             ("fp32", "fp64", "integer", "special", "move")}  # fmt: skip
    assert found == {"fp32": 64, "fp64": 1280, "integer": 2, "special": 2, "move": 45}
    assert kernel.expressions["synchronisation.barriers"].text == "7"
    assert str(kernel.source_of("instructions.fp64")).endswith(
        "inst_fp_64 / (32 warp_nonpred_execution_efficiency) / warps")  # fmt: skip


NVPROF = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'


def nvprof(folder, **counters):
    """Return the path of a profile of one launch with these counters."""
    lines = [f'"GeForce GTX 980 (0)","k(int)",1,"{n}","",{v},{v},{v}' for n, v in counters.items()]
    run = folder / "run.csv"
    run.write_text("\n".join([NVPROF, *lines]), encoding="utf-8")
    return run


def test_nvprof__textures_share_the_unified_cache_with_loads(tmp_path):
    run = nvprof(tmp_path, inst_executed=64 * 400, inst_executed_tex_ops=64 * 6,
                 inst_executed_global_loads=64 * 2, tex_cache_transactions=64 * 64,
                 tex_cache_hit_rate="75.000000%", l2_read_transactions=64 * 20)  # fmt: skip
    found = sweep.read_profile([run], given=Given((32, 1, 1), (64, 1, 1)))
    assert "tex_cache_transactions also counts loads: shared out by instructions" in found.remarks
    textures, loads = parse_kernel(found.text, "k").global_accesses
    assert (textures.memory, loads.memory) == ("texture", "global")
    # 64 sectors for 8 instructions. L2 reads 20, of which 6 fetches miss 12.
    texts = textures.count.text, textures.transactions.text, textures.l1_hit_rate.text
    assert texts == ("6", "8", "0.75")
    assert (loads.count.text, loads.transactions.text) == ("2", "4")


def test_nvprof__textures_are_what_the_unified_cache_counts_without_loads(tmp_path):
    run = nvprof(tmp_path, inst_executed=64 * 400, inst_executed_global_loads=0,
                 tex_cache_transactions=64 * 48, tex_cache_hit_rate="75.000000%",
                 l2_read_transactions=64 * 12)  # fmt: skip
    found = sweep.read_profile([run], given=Given((32, 1, 1), (64, 1, 1)))
    assert any("are assumed to be of textures, 8 a fetch" in text for text in found.remarks)
    (textures,) = parse_kernel(found.text, "k").global_accesses
    assert (textures.memory, textures.count.text, textures.transactions.text) == (
        "texture",
        "6",
        "8",
    )


@pytest.mark.parametrize(
    ("loads", "counters", "fp64", "conversion"),
    [(4, {}, 20, 0), (8, {}, 10, 0), (6.1, {}, 10, 0),
     (8, {"inst_bit_convert": 32 * 64 * 4}, 14, 0), (8, {"inst_bit_convert": 32 * 64 * 12}, 20, 2)],
)  # fmt: skip
def test_nvprof__doubles_of_floats_are_converted(loads, counters, fp64, conversion, tmp_path):
    run = nvprof(tmp_path, inst_executed=64 * 400, inst_executed_global_loads=64 * 2,
                 l2_read_transactions=int(64 * 2 * loads), inst_fp_64=32 * 64 * 10,
                 **counters)  # fmt: skip
    kernel = parse_kernel(sweep.read_profile([run], given=Given((32, 1, 1), (64, 1, 1))).text, "k")
    found = [
        float(kernel.expressions[f"instructions.{one}"].text) for one in ("fp64", "conversion")
    ]
    assert found == [fp64, conversion]
    source = str(kernel.source_of("instructions.fp64"))
    assert source.startswith("assumed") == (loads == 4) and ("conversion" in source) == (fp64 > 10)
    assert kernel.expressions["parallelism.memory"].text == "2"


@pytest.mark.parametrize("hit_rate", ["0.000000%", "100.000000%"])
def test_textures__are_for_every_model_what_their_cache_passes_on(hit_rate, tmp_path):
    run = nvprof(tmp_path, inst_executed=64 * 400, inst_executed_tex_ops=64 * 6,
                 tex0_cache_sector_queries=64 * 48, tex_cache_hit_rate=hit_rate,
                 l2_read_transactions=0)  # fmt: skip
    text = sweep.read_profile([run], given=Given((32, 1, 1), (64, 1, 1))).text
    (fetched,) = accesses_of(launched("k", "gtx_980_paper", text=text)).values()
    passed_on = 0 if hit_rate.startswith("1") else 8
    assert fetched.sectors == fetched.transactions == fetched.moved_bytes / 32 == passed_on
    assert fetched.wavefronts == 2  # eight texture units, of a fetch each a cycle


@pytest.mark.parametrize(
    ("counters", "remark"),
    [({"flop_count_dp_add": 1000, "flop_count_dp_mul": 400, "flop_count_dp_fma": 648}, ""),
     ({"flop_count_dp": 2048}, "flop_count_dp counts a multiply-add twice: fp64 instructions"),
     ({"flops_dp": 4096, "inst_fp_64": 2048}, "")],
)  # fmt: skip
def test_nvprof__double_precision_from_operations(counters, remark, tmp_path):
    head = '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"'
    rows = {name: 64 * value for name, value in counters.items()} | {"inst_executed": 64 * 400}
    lines = [f'"GeForce GTX 980 (0)","k(int)",1,"{n}","",{v},{v},{v}' for n, v in rows.items()]
    run = tmp_path / "run.csv"
    run.write_text("\n".join([head, *lines]), encoding="utf-8")
    found = sweep.read_profile([run], given=Given((32, 1, 1), (64, 1, 1)))
    kernel = parse_kernel(found.text, "k")
    assert float(kernel.expressions["instructions.fp64"].text) == 64
    assert any(text.startswith("flop_count_dp counts") for text in found.remarks) == bool(remark)
    assert float(kernel.expressions["instructions.fp32"].text) == 336


def test_occupancy__that_was_not_achieved_is_told():
    given = Given(registers=25)
    found = sweep.read_profile(
        [path("ncu_raw")], kernel=MATRIX, device="gtx_980_paper", given=given
    )
    (told,) = (text for text in found.remarks if "occupancy" in text)
    assert told.startswith(
        "the achieved occupancy is 0.66, the launch allows 1.00 on gtx_980_paper"
    )
    found = sweep.read_profile([path("nvprof_metrics"), path("nvprof_trace")])
    assert not any("occupancy" in text for text in found.remarks)


@pytest.mark.parametrize(("executed", "registers"), [(400, 85), (40, 40), (20, 32)])
def test_occupancy__explains_registers_that_are_missing(executed, registers, tmp_path):
    # 6 of 16 blocks of 4 warps on a multiprocessor: 65,536 registers are 85 a thread.
    run = nvprof(tmp_path, inst_executed=16384 * executed, inst_fp_32=32 * 16384 * executed,
                 achieved_occupancy=0.375)  # fmt: skip
    found = sweep.read_profile(
        [run], device="gtx_980", time=1e-3, given=Given((128, 1, 1), (4096, 1, 1))
    )
    kernel = parse_kernel(found.text, "k")
    counted = int(kernel.expressions["resources.registers_per_thread"].text)
    assert counted == (80 if registers == 85 else registers)  # in units of 8
    assert any("which explain it" in text for text in found.remarks) == (registers > 32)
    source = kernel.source_of("resources.registers_per_thread")
    assert str(source).startswith("assumed")


def test_hit_rate__is_0_where_dram_is_missing():
    found = inputs("ncu_details", kernel="vectorAdd")
    why = "dram__sectors_write.sum is 'n/a': the L2 cache is assumed"
    assert found.l2_hit_rate == 0 and why in "\n".join(found.remarks)


def test_given__goes_before_the_profile():
    given = Given((64, 1, 1), (10, 2, 1), 20, 1024, 8)
    found = inputs("ncu_details", given=given)
    values = (found.threads, found.blocks, found.registers, found.shared_memory, found.outer)
    assert values == (64, 20, 20, 1024, 8)


@pytest.mark.parametrize("name", [INSTRUCTIONS[0], "lts__t_sectors_op_read.sum"])
def test_remarks__launches_that_differ(name):
    counters = INSTRUCTIONS, ("smsp__inst_executed_op_global_ld.sum", "inst", "512")
    texts = [made((name, "", value), *counters) for value in ("25,600", "30,000")]
    found = inputs_of([launch for text in texts for launch in read_profile(text)])
    assert any(f"{name} differs by 16 % between the launches" in one for one in found.remarks)


def test_means_of_the_profiler__stand_behind_single_launches():
    single, mean = (read_profile(made((INSTRUCTIONS[0], "", n)))[0] for n in ("256", "512"))
    mean.is_mean = True
    assert [inputs_of(some).computation for some in ([mean, single], [mean])] == [1, 2]


# ---------------------------------------------------------------------------- the kernel file


@pytest.mark.slow
@pytest.mark.parametrize("names", FORMS.values(), ids=FORMS)
def test_file__is_a_kernel_that_every_model_reads(names, tmp_path):
    found = sweep.read_profile([path(name) for name in names], kernel=MATRIX,
                               device="gtx_980_paper", core_clock=700)  # fmt: skip
    target = saved(tmp_path, found.key, found.text)
    assert lint([target]) == []
    measured = parse_kernel(found.text, found.key).measured
    assert (measured.device, measured.core_clock) == ("gtx_980_paper", 700)
    plan = sweep.Plan((target,), ("gtx_980_paper",), sweep.model_names(), precision="float64")
    assert len(sweep.best(plan, by=["model"])) == len(sweep.model_names())


@pytest.mark.slow
def test_file__predicts_what_the_same_counts_by_hand_do(tmp_path):
    warps = 4096 * 8
    counts = {
        "smsp__inst_executed": 12 + 3, "smsp__inst_executed_op_global_ld": 2,
        "smsp__inst_executed_op_global_st": 1, "lts__t_sectors_op_read": 8,
        "lts__t_sectors_op_write": 4, "dram__sectors_read": 6, "dram__sectors_write": 3,
    }  # fmt: skip
    rows = [(f"{name}.sum", "", f"{count * warps:,}") for name, count in counts.items()]
    rows += [("launch__registers_per_thread", "register/thread", "16"),
             ("launch__shared_mem_per_block_static", "byte/block", "0")]  # fmt: skip
    run = tmp_path / "run.csv"
    run.write_text(made(*rows, grid="(4096, 1, 1)", block="(256, 1, 1)"), encoding="utf-8")
    kernels = [saved(tmp_path, "profiled", sweep.read_profile([run]).text), FOLDER / "by_hand.toml"]
    clocks = {"core_clock": [400, 700, 1000], "memory_clock": [400, 1000]}
    plan = sweep.Plan([*map(str, kernels)], ["gtx_980_paper"], sweep.model_names(), axes=clocks,
                      precision="float64")  # fmt: skip
    tree = sweep.evaluate(plan)
    profiled, by_hand = (tree[name]["execution_time"].values for name in ("profiled", "by_hand"))
    assert (by_hand > 0).all()
    assert profiled == pytest.approx(by_hand, rel=1e-9)


def test_file__gives_wang_chu_its_inputs(tmp_path):
    found = sweep.read_profile([path("nvprof_metrics"), path("nvprof_trace")])
    where = {"kernel": saved(tmp_path, found.key, found.text), "device": "gtx_980_paper"}
    told = sweep.explain(None, where | {"model": "wang_chu"}).as_dict()
    lines = [line for part in told["sections"] for line in part.get("lines", [])]
    symbols = {line["name"]: line["value"] for line in lines}
    transactions = (8391168 + 131093) / 32768
    expected = {"gld_trans": transactions, "k": transactions / 65}
    assert {name: symbols[name] for name in expected} == pytest.approx(expected)
    assert (symbols["comp_inst"], symbols["i_itrs"]) == (2846, 1280)


def test_device__is_the_profiles_if_there_is_a_file():
    kernel = parse_kernel(sweep.read_profile([path("ncu_raw")], kernel=MATRIX).text, "k")
    nominal = load_device("rtx_a4000").values["clocks.memory_nominal"] / 1e6
    measured = kernel.measured
    found = (measured.device, measured.core_clock, measured.memory_clock)
    assert found == ("rtx_a4000", 1550, nominal)
    assert str(kernel.source_of("measured.core_clock_MHz")).startswith("derived: profile")
    assert kernel.source_of("measured.memory_clock_MHz").kind == "assumed"

"""What every registered model declares: fields, codes that stay, equations with their numbers."""

import importlib
import inspect
import pathlib
import platform
import re
from dataclasses import replace

import numpy as np
import pytest
from numba import config
from support.standard import devices_of, plan_for, whole

from sweep.compiler import passes as _passes
from sweep.errors import ModelError, PlanError
from sweep.evaluation.variables import all_fields, regime_attributes
from sweep.fields import BOUND, COMMON_FIELDS, LIMITER, POWER_STATUS, STATUS, VARIANTS
from sweep.hardware.clocks import dynamic_power
from sweep.hardware.derived import DeviceFacts
from sweep.models import MODULES, get_model, model_names
from sweep.models.base import HEAD, EquationInfo
from sweep.space import Plan, what_is_missing, with_derived
from sweep.specs import check_model_parameters, list_devices, load_device, load_kernel

models = pytest.mark.parametrize("model", model_names())
SEQUENCES = {m: any(i.sequence for i in get_model(m).inputs) for m in model_names()}


def equations_of(model):
    """Return the functions of a paper that know their equation, by name."""
    values = vars(importlib.import_module(MODULES[model])).values()
    one = next(value for value in values if isinstance(getattr(value, "info", None), EquationInfo))
    return {function.__name__: function for function in one.info.functions}


# --- Equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "first", "last"),
    [("hong_kim", 1, 27), ("luo_suda", 1, 14), ("wang_chu", 2, 21), ("lemeire", 1, 7)],
)
def test_every_numbered_equation_is_a_function(model, first, last):
    numbers = " ".join(function.info.number for function in equations_of(model).values())
    assert {int(n) for n in re.findall(r"\d+", numbers)} == {*range(first, last + 1)}


# Every number of the papers whose equations are numbered throughout. Not functions of the module:
# (1) of wang_chu, the power of all models, is sweep.hardware.clocks.dynamic_power.
NUMBERS = {
    "hong_kim": {str(n) for n in range(1, 28)},
    "wang_chu": {str(n) for n in range(2, 22) if n not in (5, 7)} | {"5a", "5b", "7a", "7b"},
}
CONDITIONS = {"hong_kim": {"22", "23"}, "wang_chu": {"8", "10", "12", "14", "16"}}


def numbers_of(infos):
    """Return the paper's numbers of equation functions; a function may stand for two."""
    texts = (i.number.removesuffix(" as printed").removesuffix(" revised") for i in infos)
    return {n for text in texts for n in text.split(", ") if n[0].isdigit()}


@models
def test_hertz_are_of_clocks(model):
    declared = [*get_model(model).symbols.values()]
    declared += [f.info.result for f in equations_of(model).values()]
    assert not [one for one in declared if one.units == "Hz" and "per second" in one.meaning]


@models
def test_every_equation_is_a_function(model):
    infos = [f.info for f in equations_of(model).values()]
    found = numbers_of(infos)
    assert found == NUMBERS.get(model, found) != set()
    conditions = numbers_of(i for i in infos if i.kind == "condition")
    assert conditions == CONDITIONS.get(model, conditions)
    assert "equation (1)" in dynamic_power.__doc__  # of wang_chu


@models
def test_every_equation_knows_its_symbols_and_units(model):
    symbols = get_model(model).symbols
    for name, function in equations_of(model).items():
        info = function.info
        assert info.model == model
        assert list(info.arguments) == list(inspect.signature(function).parameters), name
        assert all(all(symbol) for symbol in (info.result, *info.arguments.values())), name
        assert f"Equation ({info.number})" in function.__doc__
        for argument in info.arguments:
            assert f"``{symbols[argument].symbol}``" in function.__doc__


# --- Inputs, fields, variants ---------------------------------------------------------------------


@models
def test_declaration_is_whole(model):
    declared = get_model(model)
    assert declared.name == model
    assert set(declared.bodies) == set(VARIANTS)
    assert declared.title and declared.reference
    assert {i.symbol for i in declared.inputs} <= set(declared.symbols)
    assert len({i.symbol for i in declared.inputs}) == len(declared.inputs)
    read = set().union(*(inspect.signature(b).parameters for b in declared.bodies.values()))
    assert read - {"corrected", "revised"} == {i.symbol for i in declared.inputs}
    paper = importlib.import_module(MODULES[model])
    assert not set(declared.errata) & set(declared.revisions)
    for erratum in declared.errata_in("revised"):
        assert re.search(rf"^{erratum} ", paper.__doc__, re.MULTILINE), erratum
    for allowed in declared.options.values():
        assert len(set(allowed)) == len(allowed) > 1
    for rule in (parameter.rule for parameter in declared.parameters if parameter.rule):
        first = (rule.__doc__ or "").strip().splitlines()[0]
        assert first.endswith(".") and len(first) > 20
    assert devices_of(model)  # some shipped device has its parameters


@pytest.mark.slow
@models
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_field_is_produced(model, variant):
    own = [field.name for field in get_model(model).fields]
    found = whole(plan_for(model, variant))
    has_power = any("power.static" in load_device(d).values for d in devices_of(model))
    for name in (*COMMON_FIELDS, *(f"{model}_{field}" for field in own)):
        known = any(np.isfinite(kernel[name]).any() for kernel in found.values())
        assert known == (has_power or name not in ("power", "energy")), name
    assert not set(own) & (set(HEAD) | set(COMMON_FIELDS))
    assert len(set(own)) == len(own)


def test_fields_are_named_once():
    own = [f"{m}_{field.name}" for m in model_names() for field in get_model(m).fields]
    assert len(all_fields()) == len(COMMON_FIELDS) + len(own)
    for field in all_fields().values():
        assert field.units
        assert field.long_name


def test_unknown_model():
    with pytest.raises(PlanError, match="unknown model 'hong_kin'.*hong_kim"):
        get_model("hong_kin")


# --- Codes that are stored: permanent -------------------------------------------------------------

REGIMES = {  # the first code of a model, and what has it and those after it
    "hong_kim": (10, "eq22 eq23 eq24 no_memory"),
    "wang_chu": (20, "eq9 eq11 eq13 eq15 eq17 eq21 no_memory"),
    "luo_suda": (30, "type1 type2 type3 type4"),
    "zhang_owens": (40, "instruction_serial shared_serial global_serial instruction_overlapped"
                        " shared_overlapped global_overlapped"),
    "lemeire": (60, "computation memory latency"),
    "combined": (70, "arithmetic load_store memory latency"),
}  # fmt: skip


def test_codes__regime():
    attributes = regime_attributes()
    words = attributes["flag_meanings"].split()
    found = dict(zip(words, attributes["flag_values"], strict=True))
    permanent = {"none": 0} | {
        f"{model}_{word}": code
        for model, (first, words) in REGIMES.items()
        for code, word in enumerate(words.split(), first)
    }
    assert found.items() >= permanent.items()
    assert len(set(found.values())) == len(found)
    for name in model_names():
        assert all(word.startswith(f"{name}_") for word in get_model(name).regimes)


def test_codes__regime_of_two_packages(monkeypatch):
    monkeypatch.setattr("sweep.evaluation.variables.model_names", lambda: ("lemeire", "lemeire"))
    with pytest.raises(ModelError, match="'lemeire_computation' has the code 60 of 'lemeire_com"):
        regime_attributes()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (STATUS, "valid constraint block_too_large registers shared_memory no_active_block "
                 "clock_out_of_range missing_parameters model_domain kernel_expression "
                 "tensor_memory"),
        (POWER_STATUS, "valid no_time missing_parameters clock_out_of_range"),
        (BOUND, "none compute memory shared latency synchronisation"),
        (LIMITER, "none blocks_per_sm warps registers shared_memory grid tensor_memory"),
    ],
)  # fmt: skip
def test_codes__flags(flags, words):
    permanent = {word: code for code, word in enumerate(words.split())}
    assert flags.codes.items() >= permanent.items()
    assert len(set(flags.codes.values())) == len(flags.codes)


# --- Machine code ---------------------------------------------------------------------------------


machine_code = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or bool(config.DISABLE_JIT),
    reason="names of x86 instructions, in compiled code",
)


def compiled_passes(plan):
    """Evaluate a plan in both forms and return the passes that it needed."""
    passes = {}
    get_pass = _passes.get_pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "sweep.evaluation.chunk.get_pass", lambda key: passes.setdefault(key, get_pass(key))
        )
        for pairs in (1, 10**9):  # both forms
            patch.setattr("sweep.evaluation.limits.CLOCKS_FORM", pairs)
            whole(plan)
    assert {which.form for which in passes} == {"clocks", "rows"}
    return passes


@pytest.mark.slow
@machine_code
@models
@pytest.mark.parametrize("variant", VARIANTS)
def test_pass_is_vectorised(model, variant, compiled_anew):
    for compiled in compiled_passes(plan_for(model, variant, kernels=["micro_coalesced"])).values():
        for assembly in compiled.inspect_asm().values():
            assert re.search(r"\bv?divpd\b", assembly), "no packed division"


@pytest.mark.slow
@machine_code
@pytest.mark.parametrize("model", [m for m in model_names() if SEQUENCES[m]])
def test_pass_is_vectorised__ten_stages(model, compiled_anew):
    # Cyclic reduction has a stage for each of its steps.
    plan = Plan(["cyclic_reduction"], ["gtx_285"], [model], axes={"core_clock_ratio": [0.9, 1]})
    stages = len(load_kernel("cyclic_reduction").stages)
    assert stages > 5
    for which, compiled in compiled_passes(plan).items():
        assert which.length >= stages or model == "lemeire"  # whose sequence are instruction types
        for assembly in compiled.inspect_asm().values():
            packed, single = (len(re.findall(rf"\bv?div{k}d\b", assembly)) for k in "ps")
            # The remainder of a row is scalar, and so is what is constant along it.
            assert packed > single / 4


# --- Errata ---------------------------------------------------------------------------------------


def test_every_erratum_has_a_test_of_its_name():
    folder = pathlib.Path(__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("test_*.py")]
    names = {n for text in texts for n in re.findall(r"^def test_(\w+?)__", text, re.MULTILINE)}
    tested = {word for name in names for word in name.split("_")}
    known = {code for model in model_names() for code in get_model(model).errata_in("revised")}
    assert {erratum.lower().replace("-", "") for erratum in known} <= tested


@pytest.mark.slow
@pytest.mark.parametrize("model", [m for m in model_names() if "CLK" in get_model(m).errata])
def test_clk__slower_memory_takes_longer_in_corrected_only(model):
    times = {}
    for variant in VARIANTS:
        plan = plan_for(model, variant, {"memory_clock_ratio": [0.8, 1.0]}, kernels=["transpose"])
        plan = replace(plan, devices=("gtx_280",))
        times[variant] = whole(plan)["transpose"]["execution_time"][0, 0]
    known = np.isfinite(times["printed"]).all(axis=-1)
    assert known.any() or model == "luo_suda"  # whose MPD is 0 as printed (LS-2)
    slow, fast = times["printed"][known].T
    assert (slow == fast).all()  # as if DRAM had no clock of its own
    for variant in ("corrected", "revised"):
        slow, fast = times[variant][np.isfinite(times[variant]).all(axis=-1)].T
        assert (slow >= fast).all() and (slow > fast).any()


# --- Derived device parameters --------------------------------------------------------------------

MODERN = ("v100", "a100_40gb", "a100_80gb", "rtx_2080_ti", "rtx_3090", "rtx_a4000", "rtx_4090",
          "h100_sxm", "h100_pcie", "h200", "b200", "mi210", "mi250x")  # fmt: skip


def derived(key):
    return with_derived(load_device(key), model_names())


@pytest.mark.parametrize("key", list_devices())
def test_derived_values__are_plausible_and_say_so(key):
    given, device = load_device(key), derived(key)
    for name in model_names():
        own = given.model_parameters.get(name, {})
        for parameter, value in device.model_parameters.get(name, {}).items():
            if parameter in own:
                assert value == own[parameter]
                continue
            source = device.sources[f"model.{name}.{parameter}"]
            assert source.kind in ("derived", "assumed") and len(source.reference) > 20
            numbers = [v for row in value for v in row] if isinstance(value, tuple) else [value]
            assert all(np.isfinite(v) for v in numbers if not isinstance(v, str))
        # In the range that the model declares, like values of a file.
        check_model_parameters(device, name, get_model(name).parameters)


def test_lanes__of_one_scheduler_and_of_conversions():
    found = {key: derived(key).model_parameters["combined"] for key in ("v100", "mi210", "gtx_280")}
    assert [found[key]["schedulers"] for key in found] == [4, 4, 1]
    assert [found[key]["special_conversions"] for key in found] == [1, 0, 1]


@pytest.mark.parametrize("key", MODERN)
def test_modern_devices__run_every_model(key):
    device = derived(key)
    assert not any(what_is_missing(device, name, device) for name in model_names())


def test_rules__give_the_papers_numbers_where_both_exist():
    def rule(model, key, device):
        spec = load_device(device)
        facts = DeviceFacts(spec.values, spec.compute_capability, spec.vendor, {})
        return next(p.rule for p in get_model(model).parameters if p.key == key)(facts)

    # Eight lanes for 32 threads: the 4 cycles of Hong & Kim's Table 1.
    for key in ("gtx_8800", "quadro_fx_5600", "gt_8800", "gtx_280"):
        printed = load_device(key).model_parameters["hong_kim"]["issue_cycles"]
        assert rule("hong_kim", "issue_cycles", key) == printed == 4
    ((warps, rate),) = rule("zhang_owens", "instruction_throughput", "gtx_285")
    assert warps == pytest.approx(6)  # Section 5.1: saturation near 6 warps
    assert rate == pytest.approx(9.33, abs=0.05)  # Section 5.1: sustained at 32 warps
    ((_, shared),) = rule("zhang_owens", "shared_bandwidth", "gtx_285")
    assert shared == pytest.approx(1165, abs=1)
    assert rule("zhang_owens", "cluster_count", "gtx_285") == 10

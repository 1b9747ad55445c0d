"""Answers as vLLM's JSON and as a list of triton.Config."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path

import pytest

from sweep.cli import main
from sweep.errors import QueryError
from sweep.importers.tuners.configurations import MOE, text_of_form, triton_configs_text, vllm_text
from sweep.specs import load_kernel

PLAN = """schema = 1
kernels = ["{kernel}"]
devices = ["a100_80gb"]
models = ["combined"]
[axes]
{sizes}
"""


@pytest.fixture
def asked(tmp_path, capsys):
    def ask(kernel, sizes, *words):
        plan = tmp_path / "plan.toml"
        plan.write_text(PLAN.format(kernel=kernel, sizes=sizes), "utf-8")
        code = main(["best", str(plan), *words])
        return code, *capsys.readouterr()

    return ask


def test_vllm__a_configuration_for_each_number_of_tokens(asked):
    sizes = "tokens = [1, 64, 4096]\nexperts = [8]\nn = [1024]\nk = [1024]"
    code, text, _ = asked("triton_moe", sizes, "--by", "tokens", "--format", "vllm")
    found = json.loads(text)
    assert code == 0
    assert list(found) == ["1", "64", "4096"]
    assert all(tuple(row) == MOE and set(map(type, row.values())) == {int}
               for row in found.values())  # fmt: skip
    # One token: a tile of 32 rows reads no more than one of 16, and their times differ by 0.02 %.
    assert found["1"]["BLOCK_SIZE_M"] in (16, 32)
    assert found["4096"]["BLOCK_SIZE_M"] > 32


def test_options_of_amds_compiler__are_written_where_one_is_chosen():
    row = dict.fromkeys((*MOE, "BLOCK_M"), 16.0) | {"tokens": 8.0}
    own = {"waves_per_eu": 0.0, "matrix_instr_nonkdim": 0.0, "kpack": 1.0}
    assert set(json.loads(vllm_text([row | own]))["8"]) == set(MOE)
    own["kpack"] = 2.0
    (found,) = json.loads(vllm_text([row | own])).values()
    assert {name: found[name] for name in own} == own
    assert '"BLOCK_M": 16, "kpack": 2}, num_warps=16' in triton_configs_text([row | own])


def test_triton__each_configuration_once(asked):
    sizes = "m = [1024, 8192]\nn = [1024, 8192]\nk = [512]"
    code, text, _ = asked("triton_matmul", sizes, "--by", "m,n", "--format", "triton")
    assert code == 0
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert 1 <= len(calls) == len({ast.unparse(call) for call in calls}) <= 4
    for call in calls:
        assert {k.arg for k in call.keywords} == {"num_warps", "num_stages"}
        assert {"BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"} <= ast.literal_eval(call.args[0]).keys()


def test_triton__sizes_in_capitals_are_no_parameters(asked, tmp_path):
    text = load_kernel("triton_matmul").text.replace('name = "triton_matmul"', 'name = "own"')
    own = tmp_path / "own.toml"
    own.write_text(text.replace("[sizes]", "[sizes]\nROWS = 4096", 1), "utf-8")
    code, text, _ = asked("./own.toml", "m = [1024]", "--by", "ROWS", "--format", "triton")
    assert code == 0 and "ROWS" not in text and '"BLOCK_M": ' in text


def test_triton__of_what_changed_between_two_plans(tmp_path, capsys):
    """The question has no DATA, but two results."""
    (plan := tmp_path / "plan.toml").write_text(
        PLAN.format(kernel="triton_matmul", sizes="m = [1024]"), "utf-8"
    )
    assert main(["compare", *[str(plan)] * 2, "--list", "1", "--format", "triton"]) == 0
    assert capsys.readouterr().out.count("triton.Config(") == 1


def test_what_is_lacking_is_named(asked):
    code, text, error = asked("transpose", "n = [256]", "--format", "vllm")
    assert (code, text) == (2, "")
    assert error.startswith("sweep: --format vllm: no column tokens, BLOCK_SIZE_M")
    row = dict.fromkeys(("tokens", *MOE), 16.0)
    with pytest.raises(QueryError, match="several rows for 16 tokens: choose one device"):
        vllm_text([row, row])
    with pytest.raises(QueryError, match="no column num_warps"):
        triton_configs_text([{"BLOCK_M": 1.0}])


LIST = ("--by", "m,n,k", "--most", "3")
SHAPES = "m = [16, 1024, 8192]\nn = [1024, 8192]\nk = [512, 4096]"


def listed(text: str) -> list[ast.expr]:
    (configs,) = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    assert isinstance(configs.value, ast.List)
    return configs.value.elts


def test_helion__makes_its_own_configurations_of_the_list(asked):
    spec = importlib.util.find_spec("helion")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("Helion is not installed")
    # Its package imports PyTorch, this module of it does not.
    path = Path(spec.submodule_search_locations[0]) / "runtime" / "config.py"
    own = importlib.util.spec_from_file_location("helion_config", path)
    module = importlib.util.module_from_spec(own)
    own.loader.exec_module(module)
    code, text, _ = asked("triton_matmul", SHAPES, *LIST, "--format", "helion")
    assert code == 0
    found = [module.Config(**{k.arg: ast.literal_eval(k.value) for k in call.keywords})
             for call in listed(text)]  # fmt: skip
    for config in found:
        assert len(config.block_sizes) == 3 and config.l2_groupings[0] in (1, 8)
        assert {"num_warps", "num_stages"} <= config.keys()


def test_helion__lists_tiles_in_the_order_of_its_loops(asked):
    _, text, _ = asked("triton_matmul", SHAPES, *LIST, "--format", "helion")
    _, rows, _ = asked("triton_matmul", SHAPES, *LIST, "--format", "json")
    found = [{k.arg: ast.literal_eval(k.value) for k in call.keywords} for call in listed(text)]
    assert found == [
        {"block_sizes": [row["BLOCK_M"], row["BLOCK_N"], row["BLOCK_K"]],
         "l2_groupings": [row["GROUP_M"]],
         "num_warps": row["num_warps"], "num_stages": row["num_stages"]}
        for row in json.loads(rows)["rows"]
    ]  # fmt: skip
    assert 1 < len(found) <= 3


def test_tilelang__lists_the_parameters_of_its_example(asked):
    _, text, _ = asked("triton_matmul", SHAPES, *LIST, "--format", "tilelang")
    _, rows, _ = asked("triton_matmul", SHAPES, *LIST, "--format", "json")
    for config, row in zip(map(ast.literal_eval, listed(text)), json.loads(rows)["rows"],
                           strict=True):  # fmt: skip
        assert config == {
            "block_M": row["BLOCK_M"], "block_N": row["BLOCK_N"], "block_K": row["BLOCK_K"],
            "num_stages": row["num_stages"] if row["num_stages"] > 1 else 0,
            "thread_num": 32 * row["num_warps"], "enable_rasteration": row["GROUP_M"] > 1,
        }  # fmt: skip
    with pytest.raises(QueryError, match="SPLIT_K=2 has no place"):
        text_of_form("tilelang", [dict.fromkeys((*MATMUL, "num_warps", "num_stages"), 2)])


@pytest.mark.parametrize("form", ["triton", "helion", "tilelang"])
def test_problems_without_a_result__are_left_out_with_a_note(asked, form):
    words = (*LIST[:2], "--format", form)
    sizes = "m = [1024]\nn = [1024]\nk = [512]\nbits = {}"
    whole = asked("triton_matmul", sizes.format([16]), *words)
    found = asked("triton_matmul", sizes.format([128, 16]), "--by", "bits", *words[2:])
    assert found[:2] == whole[:2] and found[0] == 0
    assert found[2] == "sweep: no result for 1 of 2 groups: bits=128 (constraint)\n"
    _, text, note = asked("triton_matmul", sizes.format([128, 16]), *words, "--by", "bits",
                          "--most", "2")  # fmt: skip
    assert text == whole[1] and note == "sweep: left out, as nothing has a time: 1 problem\n"
    code, text, error = asked("triton_matmul", sizes.format([128]), *words)
    assert (code, text, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"sweep: --format {form}: no result: ")


MATMUL = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "SPLIT_K")


def test_rename__takes_the_names_of_the_readers_kernel(asked):
    words = ("--format", "triton", "--rename", "BLOCK_M=BM,BLOCK_N=BN")
    _, text, _ = asked("triton_matmul", SHAPES, *LIST, *words)
    keys = {frozenset(ast.literal_eval(call.args[0])) for call in listed(text)}
    assert keys == {frozenset({"BM", "BN", "BLOCK_K", "GROUP_M"})}
    for rename, message in (("BLOK_M=B", "did you mean 'BLOCK_M'"), ("BLOCK_M", "OLD=NEW")):
        code, _, error = asked("triton_matmul", SHAPES, *LIST, *words[:3], rename)
        assert code == 2 and message in error and error.count("\n") == 1


def test_output__is_a_file_and_is_not_overwritten(asked, tmp_path):
    path = tmp_path / "configs.py"
    words = (*LIST, "--format", "triton", "-o", str(path))
    assert asked("triton_matmul", SHAPES, *words)[0] == 0
    text = path.read_text("utf-8")
    assert len(listed(text)) == 3
    code, _, error = asked("triton_matmul", SHAPES, *words)
    assert code == 2 and "--overwrite replaces it" in error and path.read_text("utf-8") == text
    assert asked("triton_matmul", SHAPES, *words, "--overwrite")[0] == 0

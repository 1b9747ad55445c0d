"""Answers as vLLM's JSON and as a list of triton.Config."""

from __future__ import annotations

import ast
import json

import pytest

from sweep.cli import main
from sweep.errors import QueryError
from sweep.importers.tuners.configurations import triton_configs_text, vllm_text

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
    names = "BLOCK_SIZE_M BLOCK_SIZE_N BLOCK_SIZE_K GROUP_SIZE_M num_warps num_stages".split()
    assert all(list(row) == names and set(map(type, row.values())) == {int}
               for row in found.values())  # fmt: skip
    assert found["1"]["BLOCK_SIZE_M"] == 16 < found["4096"]["BLOCK_SIZE_M"]


def test_triton__each_configuration_once(asked):
    sizes = "m = [1024, 8192]\nn = [1024, 8192]\nk = [512]"
    code, text, _ = asked("triton_matmul", sizes, "--by", "m,n", "--format", "triton")
    assert code == 0
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert 1 <= len(calls) == len({ast.unparse(call) for call in calls}) <= 4
    for call in calls:
        assert {k.arg for k in call.keywords} == {"num_warps", "num_stages"}
        assert {"BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"} <= ast.literal_eval(call.args[0]).keys()


def test_what_is_lacking_is_named(asked):
    code, text, error = asked("transpose", "n = [256]", "--format", "vllm")
    assert (code, text) == (2, "")
    assert error.startswith("sweep: --format vllm: no column tokens, BLOCK_SIZE_M")
    row = dict.fromkeys(("tokens", "BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M",
                         "num_warps", "num_stages"), 16.0)  # fmt: skip
    with pytest.raises(QueryError, match="several rows for 16 tokens: choose one device"):
        vllm_text([row, row])
    with pytest.raises(QueryError, match="no column num_warps"):
        triton_configs_text([{"BLOCK_M": 1.0}])

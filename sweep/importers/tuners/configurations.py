"""Answers as those read them who launch Triton's kernels: vLLM's and SGLang's JSON, autotune lists.

vLLM and SGLang look the configuration of their fused mixture of experts up in a file for the number
of experts, the size of a layer and the GPU; its keys are numbers of tokens
(``vllm/model_executor/layers/fused_moe/configs/README``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sweep.errors import QueryError

MOE = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
"""What vLLM's files say of each number of tokens, in their order."""

OPTIONS = ("num_warps", "num_stages")
"""Arguments of ``triton.Config`` beside the kernel's own parameters."""

Rows = Sequence[Mapping[str, Any]]


def vllm_text(rows: Rows) -> str:
    """Return vLLM's JSON: for each number of tokens the first configuration.

    Parameters
    ----------
    rows : sequence of mapping
        An answer by ``tokens``, of one kernel, device and layer.

    Raises
    ------
    QueryError
        The rows lack a column, or there are several for a number of tokens.
    """
    found: dict[str, dict[str, int]] = {}
    _check(rows, ("tokens", *MOE), "vllm", "a kernel such as triton_moe, --by tokens")
    for row in sorted(rows, key=lambda row: float(row["tokens"])):
        key = str(int(row["tokens"]))
        if key in found:
            raise QueryError(
                f"--format vllm: several rows for {key} tokens: choose one device and layer"
                " (device=NAME experts=E n=N k=K) and ask --by tokens"
            )
        found[key] = {name: int(row[name]) for name in MOE}
    return json.dumps(found, indent=4) + "\n"


def triton_configs_text(rows: Rows) -> str:
    """Return a list of ``triton.Config``, each configuration of the rows once, for autotune.

    The kernel's own parameters are those in capitals, as Triton's ``constexpr`` arguments are.

    Raises
    ------
    QueryError
        The rows lack a column.
    """
    _check(rows, OPTIONS, "triton", "a kernel such as triton_matmul")
    lines: dict[str, None] = {}
    for row in rows:
        own = {name: _number(value) for name, value in row.items() if name.isupper()}
        options = ", ".join(f"{name}={_number(row[name])}" for name in OPTIONS)
        lines[f"    triton.Config({json.dumps(own)}, {options}),"] = None
    return "\n".join(["import triton", "", "configs = [", *lines, "]", ""])


def _check(rows: Rows, names: Sequence[str], form: str, needed: str) -> None:
    lacking = [name for name in names if not rows or rows[0].get(name) is None]
    if lacking:
        raise QueryError(f"--format {form}: no column {', '.join(lacking)}: ask for {needed}")


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


FORMS = {"vllm": vllm_text, "triton": triton_configs_text}
"""Texts by the name of their format."""

"""Answers as those read them who launch Triton's, Helion's and TileLang's kernels.

vLLM and SGLang look the configuration of their fused mixture of experts up in a file for the number
of experts, the size of a layer and the GPU; its keys are numbers of tokens (vllm-project/vllm,
vllm/model_executor/layers/fused_moe/fused_moe.py, ``get_moe_configs``). Triton's ``autotune`` takes
a list of ``triton.Config`` (triton-lang/triton, python/triton/runtime/autotuner.py); Helion's
``kernel`` a list of ``helion.Config``, whose ``block_sizes`` are those of the kernel's
``hl.tile`` calls in their order (pytorch/helion, helion/runtime/config.py and examples/matmul.py);
TileLang's ``autotune`` a list of dicts, each key of which is a parameter of the kernel's function
(tile-ai/tilelang, tilelang/autotuner/tuner.py, names as in examples/gemm/example_gemm_autotune.py).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from sweep.errors import QueryError, SpecError, check_known
from sweep.specs import load_device

DRIVER_NAMES: Mapping[str, str] = tomllib.loads(
    (files("sweep.importers.tuners") / "driver_names.toml").read_text("utf-8")
)

MOE = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
"""What vLLM's files say of each number of tokens, in their order."""

OPTIONS = ("num_warps", "num_stages")
"""Arguments of ``triton.Config`` beside the kernel's own parameters."""

TILES = {
    "m": ("BLOCK_M", "BLOCK_SIZE_M"),
    "n": ("BLOCK_N", "BLOCK_SIZE_N"),
    "k": ("BLOCK_K", "BLOCK_SIZE_K"),
    "group": ("GROUP_M", "GROUP_SIZE_M"),
}
"""Names of a product's tile and of the rows of a group, in kernel files."""

AMD = {"waves_per_eu": 0, "matrix_instr_nonkdim": 0, "kpack": 1}
"""Options of AMD's compiler alone, and what it takes without them."""

WITHOUT = {"SPLIT_K": 1, "PERSISTENT": 0, "STREAM_K": 0, "REDUCTION": 0, **AMD}
"""The values of parameters of kernel files that stand for a kernel without them."""

Rows = Sequence[Mapping[str, Any]]


def text_of_form(form: str, rows: Rows, names: Mapping[str, str] | None = None) -> str:
    """Return rows in one of the formats :data:`FORMS`.

    Parameters
    ----------
    form : str
        The format.
    rows : sequence of mapping
        An answer.
    names : mapping of str to str, optional
        What parameters of the list are called in the reader's kernel, where that differs.

    Raises
    ------
    QueryError
        The rows lack a column, or the list has no such parameter.
    """
    if not names:
        return FORMS[form](rows)
    if form not in RENAMED:
        raise QueryError(f"--rename: --format {form} has names of its own")
    return RENAMED[form](rows, names)


def vllm_text(rows: Rows) -> str:
    """Return vLLM's JSON: for each number of tokens the first configuration.

    AMD's options stand there if a configuration has one of them that is not the compiler's own.

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
    names = [*MOE, *(n for n in AMD if n in rows[0] and not AMD.keys() <= _unused(rows))]
    for row in sorted(rows, key=lambda row: float(row["tokens"])):
        key = str(int(row["tokens"]))
        if key in found:
            raise QueryError(
                f"--format vllm: several rows for {key} tokens: choose one device and layer"
                " (device=NAME experts=E n=N k=K) and ask --by tokens, or write a file for each: -o"
            )
        found[key] = {name: int(row[name]) for name in names}
    return json.dumps(found, indent=4) + "\n"


def triton_configs_text(rows: Rows, names: Mapping[str, str] | None = None) -> str:
    """Return a list of ``triton.Config``, each configuration of the rows once, for autotune.

    The kernel's own parameters are those in capitals, as Triton's ``constexpr`` arguments are;
    AMD's options stand beside them. What a kernel need not have is left out where all rows are
    without it: ``SPLIT_K`` of 1, say.

    Parameters
    ----------
    rows, names
        As for :func:`text_of_form`.

    Raises
    ------
    QueryError
        The rows lack a column.
    """
    _check(rows, OPTIONS, "triton", "a kernel such as triton_matmul")
    unused, lines = _unused(rows), []
    for row in rows:
        own = {name: _number(value) for name, value in row.items()
               if (name.isupper() or name in AMD) and name not in unused}  # fmt: skip
        own = _renamed(own, names or {}, "triton")
        options = ", ".join(f"{name}={_number(row[name])}" for name in OPTIONS)
        lines.append(f"triton.Config({json.dumps(own)}, {options})")
    return _module(["import triton", ""], lines)


def helion_text(rows: Rows) -> str:
    """Return a list of ``helion.Config``, each configuration of the rows once.

    ``block_sizes`` are M, N and K, as of a kernel with ``hl.tile([m, n])`` around ``hl.tile(k)``.

    Raises
    ------
    QueryError
        The rows lack a tile or an option, or split k.
    """
    lines = []
    for row, tile in _tiles(rows, "helion"):
        tiles = f"block_sizes={[tile[side] for side in 'mnk']}, l2_groupings=[{tile['group']}]"
        options = ", ".join(f"{name}={_number(row[name])}" for name in OPTIONS)
        lines.append(f"helion.Config({tiles}, {options})")
    return _module(["import helion", ""], lines)


def tilelang_text(rows: Rows, names: Mapping[str, str] | None = None) -> str:
    """Return a list of dicts for TileLang's ``autotune``, each configuration of the rows once.

    Blocks of a group of rows are TileLang's rasterization, and one stage is none (0) there.

    Parameters
    ----------
    rows, names
        As for :func:`text_of_form`.

    Raises
    ------
    QueryError
        The rows lack a tile or an option, or split k.
    """
    lines = []
    for row, tile in _tiles(rows, "tilelang"):
        stages = int(row["num_stages"])
        config = {
            "block_M": tile["m"],
            "block_N": tile["n"],
            "block_K": tile["k"],
            "num_stages": stages if stages > 1 else 0,
            "thread_num": _warp_size(row) * int(row["num_warps"]),
            "enable_rasteration": tile["group"] > 1,  # the name in TileLang's example
        }
        lines.append(repr(_renamed(config, names or {}, "tilelang")))
    return _module([], lines)


def _tiles(rows: Rows, form: str) -> Iterator[tuple[Mapping[str, Any], dict[str, int]]]:
    """Yield the rows, each with the sides of its tile and its group of rows."""
    needed = "a kernel of products such as triton_matmul, with BLOCK_M or BLOCK_SIZE_M"
    _check(rows, OPTIONS, form, needed)
    names = {part: next((n for n in known if rows[0].get(n) is not None), known[0])
             for part, known in TILES.items()}  # fmt: skip
    _check(rows, tuple(names.values()), form, needed)
    for row in rows:
        for name in sorted(WITHOUT.keys() - _unused([row])):
            word = f"{name}={row[name]:g} has no place: {name}={WITHOUT[name]}"
            raise QueryError(f"--format {form}: {word}")
        yield row, {part: int(row[name]) for part, name in names.items()}


def _unused(rows: Rows) -> set[str]:
    """Return what all rows are without."""
    return {n for n, none in WITHOUT.items() if all(row.get(n, none) == none for row in rows)}


def _renamed(config: Mapping[str, Any], names: Mapping[str, str], form: str) -> dict[str, Any]:
    for name in names:
        check_known(name, config, f"--rename {name}: the list has none", f"--format {form} has")
    return {names.get(name, name): value for name, value in config.items()}


def _warp_size(row: Mapping[str, Any]) -> int:
    """Return the threads of a warp on a row's device, 32 where its file is not at hand."""
    try:
        return int(load_device(str(row.get("device"))).values.get("chip.warp_size", 32))
    except SpecError:
        return 32


def _module(head: Sequence[str], lines: Sequence[str]) -> str:
    """Return a Python module with a list of configurations, each once."""
    inside = (f"    {line}," for line in dict.fromkeys(lines))
    return "\n".join([*head, "configs = [", *inside, "]", ""])


def _check(rows: Rows, names: Sequence[str], form: str, needed: str) -> None:
    lacking = [name for name in names if not rows or rows[0].get(name) is None]
    if lacking:
        raise QueryError(f"--format {form}: no column {', '.join(lacking)}: ask for {needed}")


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


FORMS = {
    "vllm": vllm_text,
    "triton": triton_configs_text,
    "helion": helion_text,
    "tilelang": tilelang_text,
}
"""Texts by the name of their format."""

RENAMED = {"triton": triton_configs_text, "tilelang": tilelang_text}
"""Those whose parameters may have other names."""

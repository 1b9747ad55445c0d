"""Files of vLLM and SGLang for a fused mixture of experts: one for each layer and device of a plan.

A layer has two products: of the tokens with the first weights, n columns that hold gate and value,
and of n / 2 activated columns with the second weights. Both run with one configuration
(vllm-project/vllm, vllm/model_executor/layers/fused_moe/fused_moe.py, ``fused_experts_impl``: the
second with ``top_k`` 1), so the file has the one whose two times have the smallest sum. The name of
a file has the experts, n / 2 (``w2.shape[2]`` in ``try_get_optimal_moe_config``), the device as its
driver calls it, the type, if it is not one of 16 bits, and the weights that share a scale
(``get_config_file_name``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.errors import QueryError, counted
from sweep.evaluation.problems import Problems, narrowed
from sweep.evaluation.reducing import Progress
from sweep.fields import Array
from sweep.importers.tuners.configurations import DRIVER_NAMES, MOE, vllm_text
from sweep.runs.covering import groups_of
from sweep.runs.record import Source, space_of
from sweep.space import Space

LAYER = ("experts", "topk", "n", "k", "bits")
SIZES = ("tokens", *LAYER)


@dataclass(frozen=True)
class MoeFiles:
    """Contents of files by their names, and remarks for the reader."""

    texts: Mapping[str, str]
    notes: tuple[str, ...]


def moe_files(
    source: Source,
    *,
    by: Sequence[str] = (),
    select: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> MoeFiles:
    """Return a file for each layer and device of a plan of the fused mixture of experts.

    Parameters
    ----------
    source : Plan, Space, str or path
        A plan of a kernel such as ``triton_moe``: ``n`` is the first product's, twice the size in
        the file's name.
    by : sequence of str
        Sizes whose values tell files, or tokens in them, apart; all with several values by default.
    select, progress
        As in :func:`sweep.runs.covering.best_few`.

    Raises
    ------
    QueryError
        The kernel is another one, ``n`` is odd, two layers have one file, or nothing has a time.
    """
    texts: dict[str, str] = {}
    origin: dict[str, str] = {}
    notes: dict[str, None] = {}
    space = space_of(source)
    for own, sizes in groups_of(space, by, dict(select or {})):
        first, columns, block_shape = _first_product(space, own, sizes)
        chosen, without = _chosen(first, columns, progress)
        key = own["device"]
        name = DRIVER_NAMES.get(key)
        if name is None:
            name = driver_name(next(d.name for d in space.devices if d.key == key))
            tool = "rocm-smi --showproductname" if name.startswith("AMD_") else "nvidia-smi -L"
            notes[f"the driver is taken to call {key} {name}: compare `{tool}`"] = None
        layers = np.stack([columns[part] for part in LAYER], axis=1)
        for layer in np.unique(layers, axis=0):
            values = dict(zip(LAYER, layer.tolist(), strict=True)) | {"block_shape": block_shape}
            words = (f"{part}={value:g}" for part, value in values.items())
            what, file = f"{key}, {own['model']}, {' '.join(words)}", file_name(values, name)
            if file in origin:
                raise QueryError(
                    f"{file}: two layers need it ({origin[file]}; {what}): select one, NAME=VALUE"
                )
            origin[file] = what
            inside = (layers == layer).all(axis=1) & (chosen >= 0)
            if rows := [{"tokens": columns["tokens"][i]} | first.configurations[chosen[i]]
                        for i in np.flatnonzero(inside)]:  # fmt: skip
                texts[file] = vllm_text(rows)
        if without:
            notes[f"{key}: left out, as nothing has a time: {counted(without, 'problem')}"] = None
    if not texts:
        raise QueryError("no configuration has a time: there is nothing to write")
    return MoeFiles(texts, tuple(notes))


def _first_product(
    space: Space, own: Mapping[str, Any], sizes: Mapping[str, Array]
) -> tuple[Problems, dict[str, Array], float]:
    """Return the problems of the first product, their sizes, and the weights that share a scale."""
    kernel = space[own["kernel"]].kernel
    lacking = [n for n in (*SIZES, *MOE) if n not in (*kernel.sizes, *kernel.parameters)]
    if lacking:
        raise QueryError(
            f"--format vllm: kernel '{kernel.key}' has no {', '.join(lacking)}: choose one such"
            " as triton_moe"
        )
    fixed = narrowed(space, tuple(sizes), dict(own))[0].fixed
    ones = np.ones(len(next(iter(sizes.values()))))
    columns = {n: ones * (sizes[n] if n in sizes else fixed[n]) for n in SIZES}
    first = Problems.of(space, columns, select=own)
    if "block_shape" not in kernel.parameters:
        return first, columns, 0.0
    block_shape, *others = np.unique(first.configurations.column("block_shape"))
    if others:
        raise QueryError("a file has one block_shape: select it, as in block_shape=128")
    return first, columns, block_shape


def _chosen(
    first: Problems, columns: Mapping[str, Array], progress: Progress | None
) -> tuple[Array, int]:
    """Return the configuration of smallest time over both products, -1 for none; and how many."""
    if (columns["n"] % 2 != 0).any():
        raise QueryError("n is the first product's: twice that of the file, so an even number")
    half = {"n": columns["k"], "k": columns["n"] / 2.0}
    tokens = {"tokens": columns["tokens"] * columns["topk"], "topk": np.ones(len(columns["n"]))}
    second = first.with_sizes({**columns, **half, **tokens})
    times = first.times()
    for part, more in second.batches(progress):
        times[part] += more
    known = np.where(np.isfinite(times), times, np.inf)
    there = np.isfinite(known.min(axis=1))
    return np.where(there, known.argmin(axis=1), -1), int((~there).sum())


def file_name(layer: Mapping[str, float], device: str) -> str:
    """Return the name under which vLLM looks for the file of a layer.

    Parameters
    ----------
    layer : mapping
        ``experts``, the first product's ``n``, ``bits``, and ``block_shape``.
    device : str
        The device as its driver calls it, with ``_`` for spaces.
    """
    kind = ",dtype=fp8_w8a8" if layer["bits"] == 8 else ""
    if block := int(layer["block_shape"]):
        kind += f",block_shape=[{block},{block}]"
    return f"E={int(layer['experts'])},N={int(layer['n'] // 2)},device_name={device}{kind}.json"


def driver_name(name: str) -> str:
    """Return what a driver probably calls a device.

    >>> driver_name("GeForce RTX 3090"), driver_name("Radeon PRO W7900")
    ('NVIDIA_GeForce_RTX_3090', 'AMD_Radeon_PRO_W7900')
    """
    plain = name.partition("(")[0].split()
    if plain[:1] not in (["NVIDIA"], ["AMD"], ["Tesla"]):
        plain = ["AMD" if plain[:1] in (["Radeon"], ["Instinct"]) else "NVIDIA", *plain]
    return "_".join(plain)

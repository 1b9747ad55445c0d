"""Configurations that are worth measuring, in the forms that auto-tuners take."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep.expressions import MAX_LENGTH
from sweep.importers.tuners.measurements import Value

__all__ = ["Chosen", "kernel_tuner_text", "restriction_texts", "t1_text", "triton_text"]


@dataclass(frozen=True)
class Chosen:
    """The best configurations of a kernel, the best first.

    Attributes
    ----------
    kernel, device, model : str
        What they are the best of.
    names : tuple of str
        The tuning parameters.
    axes : mapping of str to tuple
        All values of each parameter.
    rows : sequence of tuple
        The configurations: a value for each parameter.
    seconds : sequence of float
        Their predicted times [s].
    conditions : tuple of str
        The constraints of the whole space.
    """

    kernel: str
    device: str
    model: str
    names: tuple[str, ...]
    axes: Mapping[str, tuple[Value, ...]]
    rows: Sequence[tuple[Value, ...]]
    seconds: Sequence[float]
    conditions: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What they are, in words."""
        return (
            f"The {len(self.rows)} fastest configurations of {self.kernel} on {self.device}, as"
            f" {self.model} predicts them."
        )


def kernel_tuner_text(chosen: Chosen) -> str:
    """Return a Python module with ``restrictions`` for Kernel Tuner's ``tune_kernel``.

    Parameters
    ----------
    chosen : Chosen
        What may be measured.
    """
    lines = [
        f'"""{chosen.title}',
        "",
        "For Kernel Tuner: tune_kernel(..., restrictions=restrictions), or beside others as text:",
        "tune_kernel(..., restrictions=[*TEXTS, ...]).",
        '"""',
        "",
        f"NAMES = {chosen.names!r}",
        "CONFIGURATIONS = frozenset([",
        *(f"    {row!r}," for row in chosen.rows),
        "])",
        "",
        "",
        "def restrictions(p):",
        '    """Return whether a configuration (a dict) is one of them."""',
        "    return tuple(p[name] for name in NAMES) in CONFIGURATIONS",
        "",
        "",
        "TEXTS = [",
        *(f"    {text!r}," for text in restriction_texts(chosen)),
        "]",
    ]
    return "\n".join(lines) + "\n"


def restriction_texts(chosen: Chosen) -> tuple[str, ...]:
    """Return conditions that together hold for exactly the chosen configurations.

    Parameters
    ----------
    chosen : Chosen
        What may be measured.
    """
    used = _used(chosen)
    texts = [
        f"{name} in ({', '.join(map(repr, values))},)"
        for name, values in used.items()
        if len(values) < len(chosen.axes[name])
    ]
    joint = _membership(chosen, used)
    return (*texts, *([joint] if joint else []))


def triton_text(chosen: Chosen) -> str:
    """Return a Python module with ``perf_model`` and ``top_k`` for Triton's ``prune_configs_by``.

    Parameters
    ----------
    chosen : Chosen
        What may be measured, with its times.
    """
    lines = [
        f'"""{chosen.title}',
        "",
        "For Triton: @triton.autotune(configs, key, prune_configs_by=prune_configs_by).",
        '"""',
        "",
        f"NAMES = {chosen.names!r}",
        "SECONDS = {",
        *(f"    {r!r}: {t!r}," for r, t in zip(chosen.rows, chosen.seconds, strict=True)),
        "}",
        f"top_k = {len(chosen.rows)}",
        "",
        "",
        "def perf_model(**arguments):",
        '    """Return the predicted time [s] of a configuration, infinite for one not listed."""',
        "    key = tuple(arguments.get(name) for name in NAMES)",
        '    return SECONDS.get(key, float("inf"))',
        "",
        "",
        'prune_configs_by = {"perf_model": perf_model, "top_k": top_k}',
    ]
    return "\n".join(lines) + "\n"


def t1_text(chosen: Chosen) -> tuple[str, tuple[str, ...]]:
    """Return the configurations as a search space in the T1 format, and notes about it.

    Parameters
    ----------
    chosen : Chosen
        What may be measured.
    """
    used = _used(chosen)
    condition = _membership(chosen, used)
    conditions = [{"Expression": condition, "Parameters": _varied(used)}] if condition else []
    document = {
        "General": {"BenchmarkName": chosen.kernel, "OutputFormat": "JSON"},
        "ConfigurationSpace": {
            "TuningParameters": [
                {
                    "Name": name,
                    "Type": _type(values),
                    "Values": repr(list(values)),
                    "Default": chosen.rows[0][i],
                }
                for i, (name, values) in enumerate(used.items())
            ],
            "Conditions": conditions,
        },
        "KernelSpecification": {"KernelName": chosen.kernel},
    }  # fmt: skip
    notes: tuple[str, ...] = ()
    if len(condition) > MAX_LENGTH:
        notes = (f"the condition has more than {MAX_LENGTH} characters: `sweep import` refuses it",)
    return json.dumps(document, indent=2) + "\n", notes


def _used(chosen: Chosen) -> dict[str, tuple[Value, ...]]:
    """Return the values of each parameter that occur."""
    found = {}
    for i, name in enumerate(chosen.names):
        occurring = {row[i] for row in chosen.rows}
        found[name] = tuple(value for value in chosen.axes[name] if value in occurring)
    return found


def _type(values: Sequence[Value]) -> str:
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if all(isinstance(value, int) for value in values):
        return "int"
    return "string" if isinstance(values[0], str) else "float"


def _varied(used: Mapping[str, Sequence[Value]]) -> list[str]:
    return [name for name, values in used.items() if len(values) > 1]


def _membership(chosen: Chosen, used: Mapping[str, Sequence[Value]]) -> str:
    """Return the condition that holds for exactly the chosen configurations.

    Whole numbers are joined to one, each parameter with its own weight; anything else is listed.
    """
    varied = _varied(used)
    if math.prod(len(values) for values in used.values()) == len(set(chosen.rows)):
        return ""
    at = {name: i for i, name in enumerate(chosen.names)}
    rows = list(dict.fromkeys(chosen.rows))
    if all(_type(used[name]) == "int" for name in varied):
        weights: dict[str, int] = {}
        weight = 1
        for name in reversed(varied):
            weights[name] = weight
            weight *= max(map(int, used[name])) - min(map(int, used[name])) + 1
        if weight < 1 << 53:
            terms = [f"{n} * {w}" if w != 1 else n for n, w in weights.items()]
            keys = sorted(sum(int(row[at[n]]) * w for n, w in weights.items()) for row in rows)
            return f"{' + '.join(reversed(terms))} in ({', '.join(map(str, keys))},)"
    texts = (" and ".join(f"{n} == {row[at[n]]!r}" for n in varied) for row in rows)
    return " or ".join(f"({text})" for text in texts)

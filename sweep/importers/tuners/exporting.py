"""Write the best configurations in the formats of auto-tuners.

Two of the formats are Python modules. Names of kernels, devices, models and parameters may come
from an untrusted store, so :class:`Chosen` accepts only identifiers, which are safe anywhere in a
module, and values whose ``repr`` is a literal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import QueryError
from sweep.expressions import MAX_LENGTH
from sweep.importers.tuners.measurements import Value
from sweep.specs.names import check_name, is_word

__all__ = ["Chosen", "kernel_tuner_text", "restriction_texts", "t1_text", "triton_text"]


@dataclass(frozen=True)
class Chosen:
    """The best configurations of a kernel, best first.

    Attributes
    ----------
    kernel, device, model : str
        The kernel, device and model to which they belong.
    names : tuple of str
        The tuning parameters.
    axes : mapping of str to tuple
        All values of each parameter.
    rows : sequence of tuple
        The configurations, with a value for each parameter.
    seconds : sequence of float
        Their predicted times [s].

    Raises
    ------
    QueryError
        A name is not an identifier, or a value is neither a number nor a printable word.
    """

    kernel: str
    device: str
    model: str
    names: tuple[str, ...]
    axes: Mapping[str, tuple[Value, ...]]
    rows: Sequence[tuple[Value, ...]]
    seconds: Sequence[float]

    def __post_init__(self) -> None:
        for what in ("kernel", "device", "model"):
            check_name(getattr(self, what), what, error=QueryError)
        for name in self.names:
            check_name(name, "parameter", error=QueryError)
            for value in {*self.axes[name], *(row[self.names.index(name)] for row in self.rows)}:
                usable = is_word(value) if isinstance(value, str) else math.isfinite(value)
                if type(value) not in (bool, int, float, str) or not usable:
                    raise QueryError(f"{name} = {repr(value)[:60]}: neither a number nor a word")
        if not all(type(time) is float for time in self.seconds):
            raise QueryError("a time is no number")

    def module(self, use: Sequence[str], lines: Sequence[str]) -> str:
        """Return a Python module with a docstring, the names and some lines."""
        title = (
            f"The {len(self.rows)} fastest configurations of {self.kernel} on {self.device}, as"
            f" {self.model} predicts them."
        )
        head = [f'"""{title}', "", *use, '"""', "", f"NAMES = {self.names!r}"]
        return "\n".join([*head, *lines]) + "\n"


def kernel_tuner_text(chosen: Chosen) -> str:
    """Return a Python module with ``restrictions`` for Kernel Tuner's ``tune_kernel``.

    Parameters
    ----------
    chosen : Chosen
        The configurations.
    """
    lines = [
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
    use = [
        "For Kernel Tuner: tune_kernel(..., restrictions=restrictions), or beside others as text:",
        "tune_kernel(..., restrictions=[*TEXTS, ...]).",
    ]
    return chosen.module(use, lines)


def triton_text(chosen: Chosen) -> str:
    """Return a Python module with ``perf_model`` and ``top_k`` for Triton's ``prune_configs_by``.

    Parameters
    ----------
    chosen : Chosen
        The configurations with their times.
    """
    lines = [
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
    use = ["For Triton: @triton.autotune(configs, key, prune_configs_by=prune_configs_by)."]
    return chosen.module(use, lines)


def restriction_texts(chosen: Chosen) -> tuple[str, ...]:
    """Return conditions that together are true for exactly the chosen configurations.

    Parameters
    ----------
    chosen : Chosen
        The configurations.
    """
    used = _used(chosen)
    texts = [
        f"{name} in ({', '.join(map(repr, values))},)"
        for name, values in used.items()
        if len(values) < len(chosen.axes[name])
    ]
    joint = _membership(chosen, used)
    return (*texts, *([joint] if joint else []))


def t1_text(chosen: Chosen) -> tuple[str, tuple[str, ...]]:
    """Return the configurations as a search space in the T1 format, and notes about it.

    Parameters
    ----------
    chosen : Chosen
        The configurations.
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
    """Return the values of each parameter that occur in the configurations."""
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
    """Return the condition that is true for exactly the chosen configurations, if one is needed.

    Integers are combined into one number, with a weight per parameter; other values are listed.
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

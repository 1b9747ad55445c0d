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
from functools import cached_property

from sweep.errors import QueryError
from sweep.importers.files import MARK
from sweep.importers.tuners.search_space import Value
from sweep.specs.names import check_name, is_word


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
    notes : sequence of str
        Remarks for the reader.

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
    notes: Sequence[str] = ()

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

    @cached_property
    def used(self) -> dict[str, tuple[Value, ...]]:
        """The values of each parameter that occur in the configurations."""
        columns = zip(self.names, map(set, zip(*self.rows, strict=True)), strict=True)
        return {name: tuple(v for v in self.axes[name] if v in found) for name, found in columns}

    @property
    def varied(self) -> list[str]:
        """The parameters with several values."""
        return [name for name, values in self.used.items() if len(values) > 1]

    @cached_property
    def membership(self) -> str:
        """The condition that is true for exactly the chosen configurations, if one is needed.

        Integers are combined into one number, with a weight per parameter; other values are listed.
        """
        used, varied = self.used, self.varied
        if math.prod(map(len, used.values())) == len(set(self.rows)):
            return ""
        rows = [dict(zip(self.names, row, strict=True)) for row in dict.fromkeys(self.rows)]
        if all(_type(used[name]) == "int" for name in varied):
            weights: dict[str, int] = {}
            weight = 1
            for name in reversed(varied):
                weights = {name: weight, **weights}
                weight *= max(map(int, used[name])) - min(map(int, used[name])) + 1
            if weight < 1 << 53:
                terms = [f"{name} * {w}" if w != 1 else name for name, w in weights.items()]
                keys = sorted(sum(int(row[n]) * w for n, w in weights.items()) for row in rows)
                return f"{' + '.join(terms)} in ({', '.join(map(str, keys))},)"
        texts = (" and ".join(f"{name} == {row[name]!r}" for name in varied) for row in rows)
        return " or ".join(f"({text})" for text in texts)

    def head(self, use: str) -> str:
        """Return the beginning of a Python module: a docstring and the names."""
        what = f"{len(self.rows)} fastest configurations of {self.kernel} on {self.device}"
        title = f"The {what}, as {self.model} predicts them."
        return f'"""{title}\n\n{use}\n\n({MARK})\n"""\n\nNAMES = {self.names!r}'


def kernel_tuner_text(chosen: Chosen) -> str:
    """Return a Python module with ``restrictions`` for Kernel Tuner's ``tune_kernel``.

    Parameters
    ----------
    chosen : Chosen
        The configurations.
    """
    use = """\
For Kernel Tuner: tune_kernel(..., restrictions=restrictions), or beside others as text:
tune_kernel(..., restrictions=[*TEXTS, ...])."""
    rows = "".join(f"    {row!r},\n" for row in chosen.rows)
    texts = "".join(f"    {text!r},\n" for text in restriction_texts(chosen))
    return f'''{chosen.head(use)}
CONFIGURATIONS = frozenset([
{rows}])


def restrictions(p):
    """Return whether a configuration (a dict) is one of them."""
    return tuple(p[name] for name in NAMES) in CONFIGURATIONS


TEXTS = [
{texts}]
'''


def triton_text(chosen: Chosen) -> str:
    """Return a Python module with ``perf_model`` and ``top_k`` for Triton's ``prune_configs_by``.

    Parameters
    ----------
    chosen : Chosen
        The configurations with their times.
    """
    use = "For Triton: @triton.autotune(configs, key, prune_configs_by=prune_configs_by)."
    pairs = zip(chosen.rows, chosen.seconds, strict=True)
    seconds = "".join(f"    {row!r}: {time!r},\n" for row, time in pairs)
    return f'''{chosen.head(use)}
SECONDS = {{
{seconds}}}
top_k = {len(chosen.rows)}


def perf_model(**arguments):
    """Return the predicted time [s] of a configuration, infinite for one not listed."""
    key = tuple(arguments.get(name) for name in NAMES)
    return SECONDS.get(key, float("inf"))


prune_configs_by = {{"perf_model": perf_model, "top_k": top_k}}
'''


def restriction_texts(chosen: Chosen) -> tuple[str, ...]:
    """Return conditions that together are true for exactly the chosen configurations.

    Parameters
    ----------
    chosen : Chosen
        The configurations.
    """
    texts = [
        f"{name} in ({', '.join(map(repr, values))},)"
        for name, values in chosen.used.items()
        if len(values) < len(chosen.axes[name])
    ]
    return tuple(text for text in (*texts, chosen.membership) if text)


def t1_text(chosen: Chosen) -> str:
    """Return the configurations as a search space in the T1 format.

    Parameters
    ----------
    chosen : Chosen
        The configurations.
    """
    condition = chosen.membership
    parameters = [
        {"Name": name, "Type": _type(values), "Values": repr(list(values)), "Default": default}
        for (name, values), default in zip(chosen.used.items(), chosen.rows[0], strict=True)
    ]
    conditions = [{"Expression": condition, "Parameters": chosen.varied}] if condition else []
    document = {
        "General": {"BenchmarkName": chosen.kernel, "OutputFormat": "JSON", "Creator": MARK},
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": {"KernelName": chosen.kernel},
    }
    return json.dumps(document, indent=2) + "\n"


def _type(values: Sequence[Value]) -> str:
    names = {bool: "bool", int: "int", str: "string"}
    types = {type(value) for value in values}
    return names.get(types.pop(), "float") if len(types) == 1 else "float"

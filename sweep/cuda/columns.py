"""Compiled tables as text: from what varies between configurations, or from finished rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from sweep.cuda.configurations import Setting, Variant
from sweep.specs.compiled import CAPABILITY, OWN, QUANTITIES, REASON
from sweep.specs.kernel import toml


def table_of(
    columns: Mapping[str, Sequence[float]],
    variants: Sequence[Variant],
    capabilities: Sequence[str],
    head: Mapping[str, str],
) -> str:
    """Return a compiled table: a row for each configuration, blank where it does not compile.

    Parameters
    ----------
    columns : mapping of str to sequence of float
        Numbers of the configurations that compile.
    variants : sequence of Variant
        All configurations.
    capabilities : sequence of str
        The compute capability of each of those that compile.
    head : mapping of str to str
        What the first lines say.
    """
    keys = list(variants[0].configuration)
    names = [name for name in QUANTITIES if name in columns]
    own = [name for name in columns if name not in names]
    reason = [REASON] * any(variant.reason for variant in variants)
    lines: list[Sequence[str]] = [[CAPABILITY, *keys, *names, *own, *reason]]
    compiled = zip(capabilities, *(columns[name] for name in (*names, *own)), strict=True)
    for variant in variants:
        settings = [cell(variant.configuration[key]) for key in keys]
        if variant.reason:
            words = " ".join(variant.reason.replace("'''", '"').split())
            blank = [""] * (len(names) + len(own))
            lines.append([variant.capability or capabilities[0], *settings, *blank, words])
        else:
            capability, *numbers = next(compiled)
            lines.append([capability, *settings, *map(cell, numbers), *([""] * len(reason))])
    return csv_text({**head, OWN: str(len(own))}, lines)


def csv_text(head: Mapping[str, str], lines: Iterable[Sequence[str]]) -> str:
    """Return a compiled table: what it says of itself, then the names of columns and the rows."""
    text = io.StringIO()
    text.writelines(f"# {key}: {' '.join(value.split())}\n" for key, value in head.items())
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def cell(value: Setting) -> str:
    """Return a value as a compiled table has it: whole numbers without a point."""
    if isinstance(value, str):
        return value
    return toml(value if isinstance(value, bool) else float(value))

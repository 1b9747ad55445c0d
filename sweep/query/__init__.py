"""Questions to results: best, top, Pareto front, summary, histogram, comparisons.

Results are a DataTree or Dataset in memory, a lazy one, the path of a store, or a plan that has not
been run. They are reduced group by group, so that memory does not grow with the number of
configurations; nothing here compiles.
"""

from __future__ import annotations

from sweep.query.agreement import compare_models
from sweep.query.answer import Answer, Row
from sweep.query.changes import (
    changed_configurations,
    changed_table,
    changes,
    changes_table,
    compare_results,
)
from sweep.query.counts import histogram, summary
from sweep.query.filters import parse_selection
from sweep.query.optima import best, pareto, top
from sweep.query.pairing import paired
from sweep.query.validation import misses, validate, validation

__all__ = [
    "Answer",
    "Row",
    "best",
    "changed_configurations",
    "changed_table",
    "changes",
    "changes_table",
    "compare_models",
    "compare_results",
    "histogram",
    "misses",
    "paired",
    "pareto",
    "parse_selection",
    "summary",
    "top",
    "validate",
    "validation",
]

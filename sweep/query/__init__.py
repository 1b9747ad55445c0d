"""Questions to results: best, top, Pareto front, summary.

Results are a DataTree or Dataset in memory, a lazy one, or the path of a store. They are read in
blocks, so that memory does not grow with the number of configurations; nothing here compiles.
"""

from __future__ import annotations

from sweep.query.agreement import compare_models
from sweep.query.answer import Answer, Row
from sweep.query.ask import best, pareto, top
from sweep.query.changed import changed_configurations, changed_table
from sweep.query.changes import changes, changes_table, compare_results
from sweep.query.histogram import histogram
from sweep.query.selection import parse_selection
from sweep.query.summary import summary
from sweep.query.validation import misses, paired, validate, validation

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

"""Runs: evaluate a plan into a store, continue, extend, verify, and forecast the cost.

The questions here take results, or a plan, which need not have been run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sweep import query

__all__ = ["best", "histogram", "pareto", "summary", "top"]

F = TypeVar("F", bound=Callable[..., Any])


def of_plans(question: F) -> F:
    """Make a question accept a plan or a space, which is evaluated and reduced without a store."""

    @wraps(question)
    def answered(data: Any, *arguments: Any, **options: Any) -> Any:
        # Callers with a plan have imported sweep.space; others need not load the compiler.
        space = sys.modules.get("sweep.space")
        if space is not None and isinstance(data, space.Plan | space.Space):
            from sweep.evaluation.planned import Planned

            data = Planned.of(data)
        return question(data, *arguments, **options)

    return answered  # type: ignore[return-value]


best = of_plans(query.best)
histogram = of_plans(query.histogram)
top = of_plans(query.top)
pareto = of_plans(query.pareto)
summary = of_plans(query.summary)

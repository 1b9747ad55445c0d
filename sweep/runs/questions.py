"""Questions to results or, in their place, to a plan that nobody has run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sweep import query

__all__ = ["best", "histogram", "pareto", "summary", "top"]

F = TypeVar("F", bound=Callable[..., Any])


def _of_plans(question: F) -> F:
    """Let a question take a plan or a space too, evaluated and reduced without being stored."""

    @wraps(question)
    def answered(data: Any, *arguments: Any, **options: Any) -> Any:
        # Whoever has a plan has imported sweep.space; everybody else need not load a compiler.
        space = sys.modules.get("sweep.space")
        if space is not None and isinstance(data, space.Plan | space.Space):
            from sweep.evaluation.planned import Planned

            data = Planned.of(data)
        return question(data, *arguments, **options)

    return answered  # type: ignore[return-value]


best = _of_plans(query.best)
histogram = _of_plans(query.histogram)
top = _of_plans(query.top)
pareto = _of_plans(query.pareto)
summary = _of_plans(query.summary)

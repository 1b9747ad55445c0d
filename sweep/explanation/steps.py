"""What following a model's equations gives: steps, decisions, and which of them matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep._jit import Symbol
from sweep.explanation.operands import Comparison, Operand

__all__ = ["Decision", "Frame", "Statement", "Step", "Trace"]


@dataclass
class Step:
    """One thing worked out.

    Attributes
    ----------
    name : str
        Variable of the joining function that took the value, ``""`` inside an expression.
    symbol : Symbol
        How it is printed, its unit, its meaning.
    value : float or bool
        The result.
    number : str
        The equation's number; ``""`` for what only joins equations.
    kind : str
        ``"equation"``, ``"condition"`` (its value is a truth value), ``"intermediate"``,
        ``"choice"`` (one of several values, by a condition) or ``"code"`` (of a regime or status).
    formula, worked : str
        The right-hand side in symbols and in numbers.
    comparisons : tuple of Comparison
        What was compared, with both sides.
    comment : str
        The words beside the line in the source: mostly the erratum that it applies.
    used : bool
        Whether the results rest on it.
    """

    name: str
    symbol: Symbol
    value: Any
    number: str
    kind: str
    formula: str
    worked: str
    comparisons: tuple[Comparison, ...] = ()
    comment: str = ""
    used: bool = False


@dataclass(frozen=True)
class Decision:
    """A condition that chose between two values: what it was, and whether it held."""

    condition: str
    holds: bool
    comparisons: tuple[Comparison, ...]
    number: str = ""
    comment: str = ""


@dataclass(eq=False)
class Statement:
    """What one statement read and did: the trail from the results back to what they rest on."""

    target: str = ""
    comment: str = ""
    steps: list[Step] = field(default_factory=list)
    reads: list[Statement] = field(default_factory=list)
    calls: list[Frame] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    chosen: Statement | None = None  # whose value a variable took over
    used: bool = False

    def use(self) -> None:
        """Mark this statement's steps, and whatever it rests on, as part of the results."""
        if not self.used:
            self.used = True
            for step in self.steps:
                step.used = True
            for before in self.reads:
                before.use()
            for call in self.calls:
                call.use()


@dataclass(eq=False)
class Frame:
    """A call being followed: its variables, and which statement set each of them."""

    function: Callable[..., Any]
    variables: dict[str, Operand]
    comments: Mapping[int, str]
    inside: Statement | None  # the statement that calls an equation, None elsewhere
    returned: tuple[tuple[str, Symbol | None], ...] = ()
    statements: list[Statement] = field(default_factory=list)
    set_by: dict[str, Statement] = field(default_factory=dict)

    def use(self) -> None:
        """Mark what the results rest on: the return, and the tests that led to it."""
        for statement in self.statements:
            if not statement.target:
                statement.use()


@dataclass(frozen=True)
class Trace:
    """A function followed to its results.

    Attributes
    ----------
    results : tuple of float
        What the function returned.
    names : tuple of str
        The variables that it returned, ``""`` for expressions.
    steps : tuple of Step
        In the order of evaluation.
    """

    results: tuple[float, ...]
    names: tuple[str, ...]
    steps: tuple[Step, ...]
    _frame: Frame = field(repr=False)

    def decisions(self, name: str) -> tuple[Decision, ...]:
        """Return the conditions that chose the value of a variable, in order."""
        found: list[Decision] = []
        statement = self._frame.set_by.get(name)
        while statement is not None:
            found[:0] = statement.decisions
            statement = statement.chosen
        return tuple(found)

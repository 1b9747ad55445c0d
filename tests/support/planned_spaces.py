"""Spaces for questions to plans, and what shows whether compiled passes answered them."""

from __future__ import annotations

from sweep.evaluation.planned import Planned
from sweep.space import Plan, resolve

CLOCKS = {
    "core_clock_ratio": {"start": 0.7, "stop": 1.2, "step": 0.1},
    "memory_clock_ratio": {"start": 0.7, "stop": 1.2, "step": 0.1},
}
FEW_CLOCKS = {"core_clock_ratio": [0.9, 1.0], "memory_clock_ratio": [1.0, 1.1]}
"""So few that the inner loop of a pass runs over rows instead of clocks."""

OWN = {"tile": [8, 16, 32], "unroll": [1, 4], "block_size": [64, 96, 256]}
"""Parameters of the kernels of :func:`laid_out`."""

DIMENSIONS = ["kernel", "device", "model", "core_clock_ratio", "memory_clock_ratio"]


def laid_out(**changes):
    """Return the space of two kernels, two devices and two models, with changes of the plan."""
    plan = {
        "kernels": ["matrixmul_shared", "sepia"],
        "devices": ["gtx_280", "gtx_980_paper"],
        "models": ["hong_kim", "wang_chu"],
    }
    return resolve(Plan(**{**plan, **changes}))


def noted_reductions(monkeypatch) -> list[bool]:
    """Return a list to which every reduction of a plan adds whether compiled passes answered."""
    seen = []
    reduce = Planned.reduce

    def noted(self, reduction):
        found = reduce(self, reduction)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(Planned, "reduce", noted)
    return seen


def assert_same(question, one, other, *arguments, **options):
    """Check that a question to two kinds of results has the same answer; return it."""
    answer = question(other, *arguments, **options)
    assert question(one, *arguments, **options).to_json() == answer.to_json()
    return answer

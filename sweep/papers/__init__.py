"""Reproduction of the papers' experiments from their own data: ``sweep reproduce PAPER``."""

from __future__ import annotations

import importlib
from itertools import chain

from sweep.errors import SweepError, check_known
from sweep.papers.report import Reproduction, assembled

__all__ = ["PAPERS", "Reproduction", "reproduce"]

PAPERS = (
    "hong_kim_2009", "luo_suda_2011", "wang_chu_2017", "zhang_owens_2011", "lemeire_2016",
)  # fmt: skip
"""The papers, each with a module of its name that computes its tables and figures."""


def reproduce(paper: str) -> Reproduction:
    """Compute the tables and figures of a paper that follow from its own data.

    Parameters
    ----------
    paper : str
        One of :data:`PAPERS`.

    Raises
    ------
    SweepError
        There is no such paper; the message gives the nearest name.
    """
    check_known(paper, PAPERS, f"no paper '{paper}'", "papers:", SweepError)
    module = importlib.import_module(f"{__name__}.{paper}")
    numbers = ((table, compute()) for table, compute in module.NUMBERS.items())
    return assembled(paper, chain(numbers, module.build()))

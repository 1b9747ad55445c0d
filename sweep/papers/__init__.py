"""Reproduction of the papers' experiments from their own data: ``sweep reproduce PAPER``."""

from __future__ import annotations

import importlib

from sweep.errors import SweepError, nearest
from sweep.papers.report import Reproduction, assembled, declared

__all__ = ["PAPERS", "Reproduction", "reproduce"]

PAPERS = {
    "hong_kim_2009": "hong_kim",
    "luo_suda_2011": "luo_suda",
    "wang_chu_2017": "wang_chu",
    "zhang_owens_2011": "zhang_owens",
    "lemeire_2016": "lemeire",
}
"""Maps each paper to the module that computes its tables and figures."""


def reproduce(paper: str) -> Reproduction:
    """Compute the tables and figures of a paper that follow from its own data.

    Parameters
    ----------
    paper : str
        A key of :data:`PAPERS`.

    Raises
    ------
    SweepError
        There is no such paper; the message gives the nearest name.
    """
    if paper not in PAPERS:
        raise SweepError(
            f"no paper '{paper}'{nearest(paper, PAPERS)} (papers: {', '.join(PAPERS)})"
        )
    module = importlib.import_module(f"{__name__}.{PAPERS[paper]}")
    return assembled(declared(module.__file__ or ""), module.build())

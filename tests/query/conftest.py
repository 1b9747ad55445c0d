"""Spaces whose plans, results and stores are asked the same questions."""

import pytest
from support.planned_spaces import CLOCKS, FEW_CLOCKS, OWN, laid_out

from sweep.evaluation import limits
from sweep.evaluation.planned import evaluate
from sweep.runs.running import run


@pytest.fixture(scope="module")
def spaces(tmp_path_factory):
    """Spaces whose inner loop runs over clocks, and over rows, with their results and stores.

    No group is too small for compiled passes.
    """
    found = {}
    for form, clocks in (("clocks", CLOCKS), ("rows", FEW_CLOCKS)):
        space = laid_out(axes={**OWN, **clocks}, chunk_points=100)
        path = tmp_path_factory.mktemp(form) / "run.zarr"
        run(space, path, threads=1)
        found[form] = space, evaluate(space).compute(), path
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "FEW", 0)
        yield found

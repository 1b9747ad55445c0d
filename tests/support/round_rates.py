"""Rates with round numbers."""

from dataclasses import replace

from sweep.runs import rates as kept
from sweep.runs.rates import Rates, Sample


def sample(**changes):
    found = Sample(
        kind="run", kernel="sepia", sha256="", models=("hong_kim",), settings="", clocks=1,
        points=10_000_000, first_s=1.0, point_s=1e-8, byte_s=1e-9, stored=0.3, process_bytes=1e8,
    )  # fmt: skip
    return replace(found, **changes)


def rates(**changes):
    samples = tuple(
        sample(kind=kind, models=models, clocks=clocks)
        for kind in ("run", "question")
        for models in (("hong_kim",), ("wang_chu", "hong_kim"), ("hong_kim", "zhang_owens"))
        for clocks in (1, 100)
    )
    found = Rates(
        version=kept.__version__, processor=kept.processor(), load=0.0, start_s=1.0, store_s=0.1,
        journal_s=1e-4, cluster_s=1.5, worker_s=0.2, dask_s=1.0, task_s=1e-3, samples=samples,
    )  # fmt: skip
    return replace(found, **changes)

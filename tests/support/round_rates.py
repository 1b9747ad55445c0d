"""A calibration of round numbers."""

from __future__ import annotations

from dataclasses import replace

from sweep.runs import rates as kept
from sweep.runs.rates import PassRates, Rates


def pass_rates(**changes):
    found = PassRates(
        kernel="sepia", sha256="", model="hong_kim", form="rows", length=0, compile_s=1.0,
        compile_reducing_s=0.8, launch_call_s=1e-3, launch_s=1e-6, inputs_call_s=1e-3,
        inputs_s=1e-6, evaluate_s=1e-8, reduce_s=5e-9, point_bytes=40.0, write_s=1e-9, stored=0.3,
        launch_bytes=400.0,
    )  # fmt: skip
    return replace(found, **changes)


def rates(**changes):
    passes = [
        pass_rates(model=model, form=form)
        for model in ("hong_kim", "wang_chu", "zhang_owens")
        for form in ("rows", "clocks")
    ]
    found = Rates(
        version=kept.__version__, processor=kept.processor(), measured="2026-01-01T00:00:00+00:00",
        load=0.0, start_s=1.0, compiler_s=0.5, cluster_s=1.5, worker_s=0.2, task_s=1e-3,
        chunk_s=1e-4, journal_s=1e-4, store_s=0.1, file_s=2e-4, disk=1e12, held_bytes=0.0,
        fresh_s=0.0, process_bytes=1e8, pass_bytes=2e7,
        passes=tuple(passes),
    )  # fmt: skip
    return replace(found, **changes)

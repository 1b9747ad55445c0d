"""Processes that tests kill, forked from a server that has imported and compiled everything.

This is a separate module, because the server imports it by name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Any

import dask
import distributed
from support.runs import plan

from sweep.errors import SweepError
from sweep.evaluation.chunk import warm_up
from sweep.runs.running import run
from sweep.space import resolve

LONG: dict[str, Any] = {
    "name": "long",
    "kernels": ["sepia"],
    "outputs": ["execution_time", "energy", "occupancy"],
    "chunk_points": 200,
    "axes": {
        "block_size": {"start": 1, "stop": 512, "step": 1},
        "core_clock_ratio": {"start": 0.9, "stop": 1.1, "step": 0.02},
        "memory_clock_ratio": {"start": 0.9, "stop": 1.1, "step": 0.02},
    },
}
"""A thousand chunks: some seconds of writing."""

CHUNKS = 1024

SPACE = resolve(plan(**LONG))
if os.environ.get("SWEEP_FAULTS"):  # only in the server
    warm_up(SPACE.kernels, SPACE.plan)
    dask.config.set({"distributed.comm.timeouts.connect": "5s"})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def run_child(path: Path, scheduler: str | None) -> None:
    """Run or continue the plan; exit with code 2 if the cluster failed."""
    try:
        run(SPACE, path, scheduler=scheduler, threads=None if scheduler else 2)
    except SweepError as error:
        assert "the same command continues" in str(error), error
        os._exit(2)
    os._exit(0)


def scheduler_child(address: str) -> None:
    async def main() -> None:
        async with distributed.Scheduler(host=address, dashboard_address=":0") as scheduler:
            await scheduler.finished()

    _forever(main())


def worker_child(address: str) -> None:
    async def main() -> None:
        async with distributed.Worker(address, nthreads=1, dashboard_address=":0") as worker:
            await worker.finished()

    _forever(main())


def _forever(main: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(main)
    os._exit(0)

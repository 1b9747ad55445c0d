"""``sweep verify``."""

from __future__ import annotations

import argparse

from sweep.errors import SweepError
from sweep.runs.forecasting import counted
from sweep.runs.verifying import repair
from sweep.runs.verifying import verify as look

__all__ = ["verify"]


def verify(arguments: argparse.Namespace) -> int:
    """Check a store's files; 1 where some are damaged and not mended."""
    if arguments.threads is not None and arguments.threads < 1:
        raise SweepError(f"--threads {arguments.threads}: at least 1")
    damages = look(arguments.store)
    for damage in damages:
        print(f"{arguments.store.rstrip('/')}/{damage.key}: {damage.problem}")
    if not damages:
        print(f"{arguments.store}: sound")
        return 0
    if not arguments.repair:
        return 1
    computed = repair(arguments.store, damages, threads=arguments.threads)
    left = look(arguments.store)
    if left:
        raise SweepError(f"{arguments.store}/{left[0].key}: {left[0].problem}, after the repair")
    print(
        f"{arguments.store}: mended {counted(len(damages), 'file')}, "
        f"{computed:,} configurations computed again"
    )
    return 0

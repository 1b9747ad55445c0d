"""Peak memory of a run of about N configurations and two models: ``python -m benchmarks.peak N``.

A process of its own for each size: a process's peak never falls.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.spaces import space
from benchmarks.storing import THREADS
from sweep.workflows import run

__all__ = ["peak_bytes"]


def peak_bytes(points: int, directory: Path) -> int:
    """Return the peak resident memory of a run of so many points in a new process [B]."""
    command = [sys.executable, "-m", "benchmarks.peak", str(points), str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as place:
        run(space("clocks", int(sys.argv[1])), Path(place) / "peak.zarr", threads=THREADS)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

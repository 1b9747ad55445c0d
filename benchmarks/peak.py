"""Peak memory of a run of about N configurations and two models: ``python -m benchmarks.peak N``.

Each size runs in a new process, because a process's peak never falls. The peak comes from Linux's
``/proc``; ``getrusage`` would include the memory of the parent process.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.spaces import space
from benchmarks.storing import THREADS
from sweep.runs.running import run

__all__ = ["own_peak", "peak_bytes"]


def peak_bytes(points: int, directory: Path) -> int:
    """Return the peak resident memory of a run of ``points`` points in a new process [B]."""
    command = [sys.executable, "-m", "benchmarks.peak", str(points), str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def own_peak() -> int:
    """Return this process's peak resident memory [B]."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError("the system does not tell a process's peak memory")
    return int(found[1]) * 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as place:
        run(space("clocks", int(sys.argv[1])), Path(place) / "peak.zarr", threads=THREADS)
    print(own_peak())

"""Run a plan on workers that are jobs of SLURM, PBS or LSF, through dask-jobqueue.

Start it where jobs can be submitted, in a directory that all nodes share. The keys with which the
workers connect are kept there during the run, readable only by their owner::

    python -m sweep.recipes.jobqueue slurm PLAN --store /scratch/me/NAME.zarr --jobs 8 --cores 4

It needs ``pip install dask-jobqueue``. Settings of a site (network interface, modules to load) go
into Dask's configuration, as dask-jobqueue documents. The same command continues an interrupted
run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

CLUSTERS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster"}


def main(argv: Sequence[str] | None = None) -> int:
    """Submit jobs, run the plan on them, and end them.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        0, or 2 after an error, which is reported in one line on standard error.
    """
    given = _parse(argv)
    import dask_jobqueue
    from distributed import Client, Security

    import sweep

    options: dict[str, Any] = {
        "cores": given.cores,
        "processes": 1,
        "memory": given.memory,
        # Only processes with these temporary keys can connect to the scheduler.
        "security": Security.temporary(),
        "shared_temp_directory": os.getcwd(),
    }
    account = "project" if given.system == "lsf" else "account"
    asked = {"queue": given.queue, account: given.account, "walltime": given.walltime}
    options |= {name: value for name, value in asked.items() if value is not None}
    cluster_class = getattr(dask_jobqueue, CLUSTERS[given.system])
    with cluster_class(**options) as cluster:
        cluster.scale(jobs=given.jobs)
        with Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(1)  # waits for the queue; other workers may join later
        try:
            done = sweep.run(given.plan, given.store, scheduler=cluster)
        except sweep.SweepError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    sys.stdout.write(f"{done.path}: {done.computed:,} configurations in {done.seconds:.1f} s\n")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sweep.recipes.jobqueue", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("system", choices=sorted(CLUSTERS))
    parser.add_argument("plan", metavar="PLAN", help="a plan's file, or the name of a shipped plan")
    parser.add_argument("--store", metavar="PATH", help="the store (default: ./NAME.zarr)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="jobs to submit")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="threads of each job")
    parser.add_argument("--memory", default="4GB", help="memory of each job (default: %(default)s)")
    parser.add_argument("--walltime", metavar="HH:MM:SS", help="time limit of each job")
    parser.add_argument("--queue", metavar="NAME", help="queue or partition")
    parser.add_argument("--account", metavar="NAME", help="who pays")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

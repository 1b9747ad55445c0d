"""Run a plan on workers that are pods, through dask-kubernetes and its operator.

Start it where ``kubectl`` works, with a store that all pods can access::

    python -m sweep.recipes.kubernetes PLAN --store s3://bucket/NAME.zarr --image IMAGE --workers 8

It needs ``pip install dask-kubernetes``, the Dask operator in the cluster, and an image with the
same version of this package. Credentials come from the pods' environment; ``--env`` names variables
to copy from this process. The same command continues an interrupted run.

The operator has no TLS: everyone who can connect to the scheduler's service can run code in the
pods and on this machine. Use your own namespace and a network policy that admits only its pods.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Start pods, run the plan on them, and end them.

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
    from dask_kubernetes.operator import KubeCluster
    from distributed import Client

    import sweep

    resources = {"cpu": str(given.threads), "memory": given.memory}
    with KubeCluster(
        name=given.name,
        image=given.image,
        n_workers=given.workers,
        env={name: os.environ[name] for name in given.env if name in os.environ},
        resources={"requests": resources, "limits": resources},
    ) as cluster:
        with Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(1)  # other workers may join later
        try:
            done = sweep.run(given.plan, given.store, scheduler=cluster)
        except sweep.SweepError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    sys.stdout.write(f"{done.path}: {done.computed:,} configurations in {done.seconds:.1f} s\n")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sweep.recipes.kubernetes", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("plan", metavar="PLAN", help="a plan's file, or the name of a shipped plan")
    parser.add_argument("--store", required=True, metavar="URL", help="the store")
    parser.add_argument("--image", required=True, help="container image with this package")
    parser.add_argument(
        "--name", default="sweep", help="name of the cluster (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="pods")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="cores of each pod")
    parser.add_argument("--memory", default="4G", help="memory of each pod (default: %(default)s)")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME", help="variable to give to the pods"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

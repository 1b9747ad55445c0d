"""Recipes: runs on the nodes of a cluster, and on a build server.

``slurm.sh``
    a batch script: scheduler, workers and run in one SLURM job, joined by ``--scheduler-file``
``jobqueue.py``
    workers as jobs of SLURM, PBS or LSF, through dask-jobqueue
``kubernetes.py``
    workers as pods, through dask-kubernetes
``github_performance.yml``
    a workflow that fails where a change makes a kernel slower
"""

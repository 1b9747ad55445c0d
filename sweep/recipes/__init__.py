"""Recipes for runs on clusters and build servers.

``slurm.sh``
    a batch script: scheduler, workers and run in one SLURM job, joined by ``--scheduler-file``
``jobqueue.py``
    workers as jobs of SLURM, PBS or LSF, through dask-jobqueue
``kubernetes.py``
    workers as pods, through dask-kubernetes
``github_performance.yml``
    a workflow that fails if a change makes a kernel slower
"""

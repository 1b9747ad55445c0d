"""Recipes: starting a run on the nodes of a cluster.

``slurm.sh``
    a batch script: scheduler, workers and run in one SLURM job, joined by ``--scheduler-file``
``jobqueue.py``
    workers as jobs of SLURM, PBS or LSF, through dask-jobqueue
``kubernetes.py``
    workers as pods, through dask-kubernetes
"""

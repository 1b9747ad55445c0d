"""Launches of a kernel, for chosen sizes and parameters or from the text of its file."""

import numpy as np

from sweep.evaluation.launch import build_launch
from sweep.space import Plan, resolve
from sweep.specs import load_device


def space_of(kernel, *devices, text=None, **chosen):
    """Return the space of a kernel with fixed axes; ``text`` stands for its file."""
    axes = {name: (value,) for name, value in chosen.items()}
    plan = Plan((kernel,), devices, ("hong_kim",), axes=axes, store=False)
    texts = {"devices": {d: load_device(d).text for d in devices}, "kernels": {kernel: text}}
    return resolve(plan, texts if text else None).kernels[0]


def launched(kernel, *devices, text=None, **chosen):
    """Return the launch of the whole space."""
    return build_launch(space_of(kernel, *devices, text=text, **chosen))


def numbers_of(launch):
    """Return the names of a single configuration and their numbers."""
    return {name: np.asarray(array).item() for name, array in launch.values.items()}


def accesses_of(launch):
    """Return all accesses by name."""
    work = launch.workload
    return {access.name: access for access in (*work.global_accesses, *work.shared_accesses)}

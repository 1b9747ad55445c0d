"""Launches of a kernel, for chosen sizes and parameters or from the text of its file."""

from __future__ import annotations

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

"""What the shell can complete: names of plans, kernels, devices and models, and files.

The shell calls ``sweep`` itself, by argcomplete (https://kislyuk.github.io/argcomplete), so that
files of the user's own stand beside the shipped ones.
"""

from __future__ import annotations

import argparse
import importlib
import os
from functools import partial
from typing import Any

PLANS, KERNELS, DEVICES, MODELS = (
    "sweep.space.list_plans", "sweep.specs.list_kernels", "sweep.specs.list_devices",
    "sweep.models.model_names",
)  # fmt: skip
"""Functions that return names; their modules are imported when the shell asks."""

NAMES = {
    "kernel": [KERNELS], "device": [DEVICES], "like": [DEVICES], "model": [MODELS],
    "models": [MODELS], "plan": [PLANS], "data": [PLANS],
    "name": [PLANS, KERNELS, DEVICES, MODELS],
}  # fmt: skip
"""Which names an argument takes, by the argument."""

WITH_FILES = ("plan", "data", "kernel", "device", "like")
"""Arguments that take files too: plans, stores, kernels and devices of the user."""


def add_names(action: Any) -> None:
    """Tell an argument which names it takes, where these are known."""
    if action.dest in NAMES:
        action.completer = partial(_names, action.dest)
    elif action.dest == "select":
        action.completer = _selected


def _names(kind: str, prefix: str, **_: Any) -> list[str]:
    """Return the names, and files, that a text begins; behind a comma, those that go on from it."""
    before, comma, _last = prefix.rpartition(",")
    parts = (function.rpartition(".") for function in NAMES[kind])
    listed = (getattr(importlib.import_module(module), name)() for module, _, name in parts)
    names = [f"{before}{comma}{name}" for some in listed for name in some]
    if kind in WITH_FILES and not comma:
        from argcomplete.completers import FilesCompleter

        names += FilesCompleter(["toml"])(prefix)
    return names


def _selected(prefix: str, **_: Any) -> list[str]:
    """Return ``NAME=VALUE`` for names of kernels, devices and models."""
    name, is_named, value = prefix.partition("=")
    if not is_named:
        return ["kernel=", "device=", "model="]
    return [f"{name}={one}" for one in _names(name, value)] if name in NAMES else []


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and end, if it is the shell that asks."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)

"""What the shell can complete: names of plans, kernels, devices and models, and files.

The shell calls ``sweep`` itself, by argcomplete (https://kislyuk.github.io/argcomplete), so that
files of the user's own stand beside the shipped ones.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any


def _plans() -> Iterable[str]:
    from sweep.space import list_plans

    return list_plans()


def _kernels() -> Iterable[str]:
    from sweep.specs import list_kernels

    return list_kernels()


def _devices() -> Iterable[str]:
    from sweep.specs import list_devices

    return list_devices()


def _models() -> Iterable[str]:
    from sweep.models import model_names

    return model_names()


def _everything() -> Iterable[str]:
    return [*_plans(), *_kernels(), *_devices(), *_models()]


NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "kernel": _kernels, "device": _devices, "like": _devices, "model": _models, "models": _models,
    "plan": _plans, "data": _plans, "name": _everything,
}  # fmt: skip
"""The names that an argument takes, by the argument."""

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
    names = [f"{before}{comma}{name}" for name in NAMES[kind]()]
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

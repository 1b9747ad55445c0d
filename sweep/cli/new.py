"""``sweep new plan``: begin a file of your own."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from sweep.errors import printable
from sweep.importers.files import write_whole
from sweep.space import parse_plan, resolve
from sweep.specs import load_kernel
from sweep.specs.kernel import Kernel, toml
from sweep.specs.reading import load_toml

PLAN = """\
# Ask it at once: sweep best {path}
# Keep all results: sweep run {path}
# All keys: sweep show --keys plan
schema = 1
kernels = [{kernel}]
devices = [{device}] # further ones: sweep list devices
models = [{model}] # others: sweep list models
variant = "revised" # the variant to predict with

# Conditions that configurations meet, besides those of the kernel file:
# constraints = ["{names} > 0"]

# What is left out, or is a comment, takes the kernel file's values and nominal clocks.
[axes]
{axes}
# Clocks, relative to nominal; or core_clock and memory_clock, in MHz.
# core_clock_ratio = {{ start = 0.7, stop = 1.0, step = 0.1 }}
# memory_clock_ratio = 1.0
"""


def new(arguments: argparse.Namespace) -> int:
    """Write a commented plan for a kernel and a device."""
    kernel = load_kernel(arguments.kernel)
    path = Path(arguments.output or f"{kernel.key}_plan.toml")
    words = {
        "kernel": toml(_named(arguments.kernel, path)),
        "device": toml(_named(arguments.device, path)),
        "model": toml(arguments.model),
        "names": next(iter({**kernel.parameters, **kernel.sizes}), "threads_per_block"),
    }
    text = PLAN.format(path=printable(str(path)), axes=_axes(kernel), **words)
    resolve(parse_plan(load_toml(text), origin=str(path), folder=path.parent))
    write_whole(path, text, overwrite=arguments.overwrite)
    print(f"wrote {path}: next, sweep best {path}")
    return 0


def _axes(kernel: Kernel) -> str:
    """Return all problem sizes and parameters, as comments with the kernel file's values."""
    lines = []
    for title, values in (
        ("Problem sizes", {name: [value] for name, value in kernel.sizes.items()}),
        ("Tuning parameters", {name: list(of) for name, of in kernel.parameters.items()}),
    ):
        lines += [f"# {title}:"] * bool(values)
        lines += [f"# {name} = {toml(of)}" for name, of in values.items()]
    return "\n".join(lines)


def _named(name: str, plan: Path) -> str:
    """Return the name of a shipped file, or the path of another one from the plan's folder."""
    if not name.endswith(".toml") and os.sep not in name:
        return name
    found = os.path.relpath(Path(name).expanduser(), plan.parent)
    return found if os.sep in found else f"./{found}"

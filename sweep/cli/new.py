"""``sweep new plan | device | kernel``: begin a file of your own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.errors import SweepError, nearest, printable
from sweep.importers.files import write_whole
from sweep.space import parse_plan, resolve
from sweep.specs import load_kernel
from sweep.specs.kernel import Kernel, toml
from sweep.specs.reading import load_toml

if TYPE_CHECKING:
    from sweep.importers.microbenchmarks.measurement import Measurement
    from sweep.specs.formats import Key

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
{problems}"""


KERNEL = """\
# {name}: what a thread does. Replace what is marked 'assumed' in [source]; a placeholder kernel
# reads two words and writes one. Any number may be an expression over sizes and parameters.
# Check: sweep lint {path}. All keys: sweep show --keys kernel
schema = 1
name = "{name}"
description = "what it computes, and where its source is"
# constraints = ["block_size <= n"] # of its parameters

[source]
default = "assumed: placeholder, to be counted"

[sizes] # problem sizes, with their usual values
n = 16777216

[parameters] # tuning parameters, with all their values
block_size = [64, 128, 256, 512, 1024]

[launch]
threads_per_block = "block_size"
blocks = "ceil(n / block_size)"

[resources] # the compiler decides them: sweep compile
registers_per_thread = 32
shared_memory_bytes = 0 # of a block

[instructions] # of a thread, over its whole run, without accesses to global memory
fp32 = 1 # additions, multiplications, multiply-adds
integer = 4
control = 1 # branches
# fp64, special, move, conversion: sweep show --keys kernel

[[global_access]] # one for each array and kind
name = "input"
kind = "load"
count = 2 # of a thread
bytes = 4 # of a word
pattern = "coalesced" # or strided, affine, random, ...
l1_hit_rate = 0 # combined: the share that the first-level cache serves
l2_hit_rate = 0 # combined: the share of the rest that L2 serves

[[global_access]]
name = "output"
kind = "store"
count = 1
bytes = 4
pattern = "coalesced"

# [[shared_access]] # name, kind, count, stride: bank conflicts follow
# [synchronisation] # barriers
# [loops] # outer, inner: how often it loads and computes in turn (wang_chu, with shared memory)
# [cache] # l2_hit_rate of all accesses together (wang_chu)
# [[stage]] # instructions between barriers, in their order (luo_suda)
"""


def new(arguments: argparse.Namespace) -> int:
    """Write a commented plan, device or kernel file."""
    for name, where in (
        ("kernel", ("plan",)),
        ("like", ("device",)),
        ("source", ("device", "kernel")),
    ):
        if getattr(arguments, name) is not None and arguments.what not in where:
            word = {"source": "from"}.get(name, name)
            raise SweepError(f"new {arguments.what} takes no --{word}")
    words = {"plan": _plan, "device": _device, "kernel": _kernel}
    return words[arguments.what](arguments)


def _plan(arguments: argparse.Namespace) -> int:
    """Write a commented plan for a kernel and a device."""
    for name in ("kernel", "device"):
        if getattr(arguments, name) is None:
            raise SweepError(f"new plan needs a --{name}: `sweep list {name}s` names them")
    kernel = load_kernel(arguments.kernel)
    path = Path(arguments.output or f"{kernel.key}_plan.toml")
    words = {
        "kernel": toml(_named(arguments.kernel, path)),
        "device": toml(_named(arguments.device, path)),
        "model": toml(arguments.model),
        "names": next(iter({**kernel.parameters, **kernel.sizes}), "threads_per_block"),
    }
    text = PLAN.format(
        path=printable(str(path)), axes=_axes(kernel), problems=_problems(kernel), **words
    )
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


def _problems(kernel: Kernel) -> str:
    """Return a list of one problem, as comments, for a kernel with several sizes."""
    lines = [
        "",
        "# Sizes that belong together, a row for each problem, in place of axes. A file is",
    ]
    lines += ['# named before the first table: problems = "shapes.csv".', "# [problems]"]
    lines += [f"# {name} = [{toml(value)}]" for name, value in kernel.sizes.items()]
    return "".join(f"{line}\n" for line in lines) if len(kernel.sizes) > 1 else ""


def _named(name: str, plan: Path) -> str:
    """Return the name of a shipped file, or the path of another one from the plan's folder."""
    if not name.endswith(".toml") and os.sep not in name:
        return name
    found = os.path.relpath(Path(name).expanduser(), plan.parent)
    return found if os.sep in found else f"./{found}"


# ---------------------------------------------------------------------------- devices


def _device(arguments: argparse.Namespace) -> int:
    """Write a commented device file from little; print what models lack."""
    from sweep.cli.calibrate import write_device
    from sweep.importers.microbenchmarks.device_file import lacking
    from sweep.importers.microbenchmarks.files import read_measurements
    from sweep.importers.microbenchmarks.merging import merged
    from sweep.specs import load_device

    given = [_given(word) for word in arguments.select]
    given += read_measurements([arguments.source] if arguments.source else [])
    like = load_device(arguments.like) if arguments.like else None
    known = merged(given, like)
    while sys.stdin.isatty() and (lacks := [k for k in lacking(known) if k.name != "architecture"]):
        given.append(_asked(lacks[0]))
        known = merged(given, like)
    path = Path(arguments.output or "my_gpu.toml")
    comments = ["Begun by `sweep new device`: complete it, and say where each value comes from."]
    write_device(path, known, comments, arguments.overwrite, blanks=True)
    print(f"wrote {path}: next, sweep show {path}")
    return 0


def _given(word: str) -> Measurement:
    """Return what a word KEY=VALUE says of a device."""
    from sweep.importers.microbenchmarks.measurement import Measurement
    from sweep.importers.microbenchmarks.shipped import keys
    from sweep.specs.check import check_value
    from sweep.specs.formats import DEVICE

    name, _, text = word.partition("=")
    numbers = {key.name: (path, key) for path, key in keys()}
    texts = [key.name for key in DEVICE[""].keys if key.name != "schema"]
    if name in texts:
        return Measurement(name, text, "", None, "given", "", source=_BY_HAND)
    if name not in numbers:
        raise SweepError(f"{word}: no key of device files{nearest(name, [*texts, *numbers])}")
    path, key = numbers[name]
    try:
        value = float(text)
    except ValueError:
        raise SweepError(f"{word}: must be a number, {key.range}") from None
    if reason := check_value(key, value)[1]:
        raise SweepError(f"{word}: {reason}")
    unit = key.unit.suffix if key.unit else ""
    return Measurement(path, value, unit, None, "given", "", place=word, source=_BY_HAND)


_BY_HAND = "assumed: given when the file was begun; write where it comes from"


def _asked(key: Key) -> Measurement:
    """Ask for a value on the terminal."""
    ends = f" ({key.range})" if key.type in ("number", "integer") else ""
    while True:
        try:
            return _given(f"{key.name}={input(f'{key.meaning}{ends}: ')}")
        except EOFError:
            raise SweepError(f"{key.path} is needed") from None
        except SweepError as error:
            print(error, file=sys.stderr)


# ---------------------------------------------------------------------------- kernels


def _kernel(arguments: argparse.Namespace) -> int:
    """Write a commented kernel file, or have one made from PTX or a profile."""
    from sweep.cli.parser import parse
    from sweep.specs.kernel import key_of, parse_kernel

    source = arguments.source
    if source is not None:
        command = {".ptx": "ptx", ".csv": "profile"}.get(Path(source).suffix)
        if command is None:
            raise SweepError(f"{source}: a kernel file is made from PTX (.ptx) or a profile (.csv)")
        path = Path(arguments.output or f"{key_of(Path(source).stem)}.toml")
        again = parse([command, source, "-o", str(path), *["--overwrite"] * arguments.overwrite])
        code: int = again.command(again)
    else:
        names = [word.partition("=")[2] for word in arguments.select if word.startswith("name=")]
        path = Path(arguments.output or f"{key_of(names[-1]) if names else 'my_kernel'}.toml")
        text = KERNEL.format(name=toml(names[-1] if names else path.stem)[1:-1], path=path)
        parse_kernel(text, path.stem, path)
        write_whole(path, text, overwrite=arguments.overwrite)
        code = 0
    print(f"wrote {path}: next, sweep lint {path}")
    for line in _lacks_of_kernel(str(path), arguments.device or "a100_40gb"):
        print(f"sweep: {printable(line)}", file=sys.stderr)
    return code


def _lacks_of_kernel(path: str, device: str) -> list[str]:
    """Return a line for each model that gives a kernel file no time on a device."""
    from sweep.explanation.explaining import applicability
    from sweep.models import model_names

    lines = []
    for model in model_names():
        statuses, reason = applicability(path, device, model, True)
        if not statuses["valid"]:
            lines.append(f"{model} gives no time on {device}: {reason}")
    return lines

"""``sweep new plan | device | kernel``: begin a file of your own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.errors import SweepError, check_known, printable
from sweep.importers.files import write_whole
from sweep.space import parse_plan, resolve
from sweep.specs import load_kernel
from sweep.specs.kernel import Kernel, toml
from sweep.specs.reading import load_toml

if TYPE_CHECKING:
    from sweep.importers.microbenchmarks.measurement import Measurement
    from sweep.specs.formats import Key


def _template(what: str) -> str:
    return Path(__file__).with_name(f"new_{what}.txt").read_text(encoding="utf-8")


def new(arguments: argparse.Namespace) -> int:
    """Write a commented plan, device or kernel file."""
    takes = {"kernel": ("plan",), "device": ("plan", "kernel"), "like": ("device",),
             "source": ("device", "kernel")}  # fmt: skip
    for name, where in takes.items():
        if getattr(arguments, name) is not None and arguments.what not in where:
            word = {"source": "from"}.get(name, name)
            raise SweepError(f"new {arguments.what} takes no --{word}")
    for word in arguments.select:
        takes_name = arguments.what == "kernel" and arguments.source is None
        if arguments.what != "device" and not (takes_name and word.startswith("name=")):
            only = "only name=NAME" if takes_name else "no KEY=VALUE"
            raise SweepError(f"{word}: new {arguments.what} takes {only} here")
    return {"plan": _plan, "device": _device, "kernel": _kernel}[arguments.what](arguments)


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
    text = _template("plan").format(
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
    given += read_measurements(arguments.source or [])
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
    from sweep.specs.device import reason_against
    from sweep.specs.formats import DEVICE

    name, _, text = word.partition("=")
    numbers = {key.name: (path, key) for path, key in keys()}
    texts = [key.name for key in DEVICE[""].keys if key.name != "schema"]
    if name == "compute_capability" and (reason := reason_against(text)):
        raise SweepError(f"{word}: {reason}")
    if name in texts:
        return Measurement(name, text, method="given", place=word, source=_BY_HAND)
    check_known(name, (*texts, *numbers), f"{word}: no key of device files", error=SweepError)
    path, key = numbers[name]
    try:
        value = float(text)
    except ValueError:
        raise SweepError(f"{word}: must be a number, {key.range}") from None
    if reason := check_value(key, value)[1]:
        raise SweepError(f"{word}: {reason}")
    unit = key.unit.suffix if key.unit else ""
    return Measurement(path, value, unit, method="given", place=word, source=_BY_HAND)


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

    if arguments.source is not None:
        source = arguments.source[-1]
        command = {".ptx": "ptx", ".csv": "profile"}.get(Path(source).suffix)
        if command is None:
            raise SweepError(f"{source}: a kernel file is made from PTX (.ptx) or a profile (.csv)")
        path = Path(arguments.output or f"{key_of(Path(source).stem)}.toml")
        again = parse([command, source, "-o", str(path), *["--overwrite"] * arguments.overwrite])
        code: int = again.command(again)
    else:
        names = [word.partition("=")[2] for word in arguments.select if word.startswith("name=")]
        path = Path(arguments.output or f"{key_of(names[-1]) if names else 'my_kernel'}.toml")
        name = toml(names[-1] if names else path.stem)[1:-1]
        text = _template("kernel").format(name=name, path=path)
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
        statuses, reason = applicability(path, device, model)
        if not statuses["valid"]:
            lines.append(f"{model} gives no time on {device}: {reason}")
    return lines

"""``sweep list | show | lint | verify``: what there is, what it says, and whether it is right."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from sweep.errors import PlanError, SweepError, nearest
from sweep.models import get_model, model_names
from sweep.space import list_plans, load_plan, resolve
from sweep.specs import (
    format_table,
    json_schema,
    list_devices,
    list_kernels,
    load_device,
    load_kernel,
)

__all__ = ["lint", "list_", "show", "verify"]


def list_(arguments: argparse.Namespace) -> int:
    """List one kind of thing, a line each."""
    rows: Iterable[tuple[str, str]]
    if arguments.what == "kernels":
        rows = ((key, load_kernel(key).name) for key in list_kernels())
    elif arguments.what == "devices":
        devices = (load_device(key) for key in list_devices())
        rows = ((d.key, f"{d.name}, {d.generation}") for d in devices)
    elif arguments.what == "models" and (arguments.device or arguments.kernel):
        rows = _applicable(arguments)
    elif arguments.what == "models":
        rows = ((name, f"{get_model(name).reference}") for name in model_names())
    elif arguments.what == "plans":
        rows = ((name, load_plan(name).description) for name in list_plans())
    elif arguments.what == "counters":
        from sweep.importers.profiles.counters import QUANTITIES

        rows = (
            (q.ncu[0], f"{q.meaning}{f' (nvprof: {q.nvprof[0]})' if q.nvprof else ''}")
            for q in QUANTITIES.values()
        )
    elif arguments.what == "recipes":
        rows = ((path.name, _first_comment(path)) for path in _recipes())
    else:
        from sweep.evaluation import all_fields

        rows = (
            (name, f"{field.long_name} [{field.units}] {field.equation}".rstrip())
            for name, field in all_fields().items()
        )
    found = list(rows)
    width = max(len(name) for name, _ in found)
    for name, text in found:
        print(f"{name:<{width}}  {text}")
    return 0


def _applicable(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return every model with whether it runs, on what derived parameters, or what is missing."""
    from sweep.explanation.explaining import applicability
    from sweep.space import missing_parameters, with_derived

    if not arguments.device:
        raise SweepError("list models: --kernel needs a --device to run on")
    given = load_device(arguments.device)
    kernel = load_kernel(arguments.kernel) if arguments.kernel else None
    device = given if arguments.no_derive else with_derived(given, model_names())
    rows = []
    for name in model_names():
        missing = missing_parameters(device, name)
        derived = [
            key for key in device.model_parameters.get(name, {})
            if key not in given.model_parameters.get(name, {})
        ]  # fmt: skip
        text = f"missing: {', '.join(missing)}" if missing else "runs"
        if derived and not missing:
            text += f" (derived: {', '.join(derived)})"
        if kernel is not None:
            found = applicability(
                kernel.key if kernel.path is None else str(kernel.path),
                str(given.path or given.key),
                name,
                not arguments.no_derive,
            )
            share = f"{found.valid:,} of {found.total:,} configurations of {kernel.key} have a time"
            if found.valid and missing:
                text = f"runs without {', '.join(missing)}; {share}"
            elif found.valid:
                text += f"; {share}"
            elif not missing:
                causes = ", ".join(f"{word} {n:,}" for word, n in found.statuses.items())
                text = f"does not run: {share} ({causes}). {found.reason}"
        rows.append((name, text))
    return rows


def show(arguments: argparse.Namespace) -> int:
    """Print a file, a model's summary, a schema or a table of keys."""
    if arguments.schema:
        print(json.dumps(json_schema(arguments.schema, _declared()), indent=2))
    elif arguments.keys:
        print(format_table(arguments.keys))
    elif arguments.name is None:
        raise SweepError("show needs the name of a kernel, device, plan or model")
    else:
        print(_text_of(arguments.name).rstrip("\n"))
    return 0


def _text_of(name: str) -> str:
    if name in list_devices():
        return load_device(name).text
    if name in list_kernels():
        return load_kernel(name).text
    if name in model_names():
        return _model_text(name)
    if name in list_plans():
        plan = load_plan(name)
        return Path(plan.origin).read_text(encoding="utf-8")
    recipes = {path.name: path for path in _recipes()}
    if name in recipes:
        return recipes[name].read_text(encoding="utf-8")
    known = [*list_kernels(), *list_devices(), *model_names(), *list_plans(), *recipes]
    raise SweepError(f"nothing is called '{name}'{nearest(name, known)} (see `sweep list`)")


def _recipes() -> list[Path]:
    """Return the files that start runs on clusters and build servers."""
    folder = Path(__file__).parents[1] / "recipes"
    kinds = (".sh", ".py", ".yml")
    return sorted(p for p in folder.iterdir() if p.suffix in kinds and p.stem[0] != "_")


def _first_comment(path: Path) -> str:
    """Return what a recipe says of itself in its first sentence."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if not line.startswith("#!")).strip('#":. ')


def _model_text(name: str) -> str:
    model = get_model(name)
    module = sys.modules[model.bodies["printed"].__module__]
    lines = [(module.__doc__ or "").strip(), "", "Regimes:"]
    lines += [f"  {code:>3}  {regime}" for regime, code in model.regimes.items()]
    lines += ["", f"Parameters in [model.{name}] of a device file:"]
    lines += [
        f"  {p.key:<28} {p.symbol:<22} {p.long_name}{'' if p.required else ' (optional)'}"
        for p in model.parameters
    ]
    return "\n".join(lines)


def lint(arguments: argparse.Namespace) -> int:
    """Check files; all findings of all files, exit code 2 if one of them is an error."""
    from sweep.specs import lint as lint_specs

    plans = [name for name in arguments.files if _is_plan(Path(name))]
    messages = []
    for name in plans:
        try:
            resolve(load_plan(name))
        except SweepError as error:
            messages.append((str(error), True))
    others = [name for name in arguments.files if name not in plans]
    for finding in lint_specs(others, _declared()):
        messages.append((str(finding), finding.severity == "error"))
    for message, _ in messages:
        print(message)
    errors = sum(is_error for _, is_error in messages)
    checked = f"{len(arguments.files)} given"
    print(f"{checked}: {errors} errors, {len(messages) - errors} warnings")
    return 2 if errors else 0


def _is_plan(path: Path) -> bool:
    """Whether a file looks like a plan: it names kernels and devices."""
    from sweep.specs.reading import load_toml

    try:
        data = load_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, PlanError):
        return False
    return "kernels" in data or "devices" in data


def _declared() -> dict[str, tuple]:
    return {name: get_model(name).parameters for name in model_names()}


def verify(arguments: argparse.Namespace) -> int:
    """Check a store's files; 1 where some are damaged and not mended."""
    from sweep.runs.forecasting import counted
    from sweep.runs.running import repair
    from sweep.runs.running import verify as look

    damages = look(arguments.store)
    for damage in damages:
        print(f"{arguments.store.rstrip('/')}/{damage.key}: {damage.problem}")
    if not damages:
        print(f"{arguments.store}: sound")
        return 0
    if not arguments.repair:
        return 1
    computed = repair(arguments.store, damages, threads=arguments.threads)
    left = look(arguments.store)
    if left:
        raise SweepError(f"{arguments.store}/{left[0].key}: {left[0].problem}, after the repair")
    print(
        f"{arguments.store}: mended {counted(len(damages), 'file')}, "
        f"{computed:,} configurations computed again"
    )
    return 0

"""``sweep list | show | lint | verify``: show and check files and stores."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from sweep.errors import SweepError, counted, nearest
from sweep.fields import COMMON_FIELDS, VARIANTS, Field
from sweep.models import get_model, model_names
from sweep.query.table import aligned
from sweep.query.texts import is_terminal, terminal_width, wrapped
from sweep.query.tuning import PREFERRED
from sweep.space import list_plans, load_plan, resolve
from sweep.specs import (
    format_table,
    json_schema,
    list_devices,
    list_kernels,
    load_device,
    load_kernel,
)
from sweep.specs.compiled import own_text

RECIPES = Path(__file__).parents[1] / "recipes"


def _device_line(key: str) -> str:
    device = load_device(key)
    return f"{device.name}, {device.generation}"


def _device_text(key: str) -> str:
    """Return a device file, and as comments where each parameter of a model comes from."""
    from sweep.space import origins

    device = load_device(key)
    lines = [device.text.rstrip("\n"), "", "# Parameters of models, and where they come from:"]
    for model in model_names():
        rows = [(f"#   {name}", value, origin) for name, value, origin in origins(device, model)]
        lines += [f"# [model.{model}]", *aligned(rows)]
    return "\n".join(lines)


def _kernel_text(key: str) -> str:
    kernel = load_kernel(key)
    table = kernel.compiled
    note = f"\n# {table.described}, {table.counted}\n" if table else ""
    return own_text(kernel.text) + note


def _plan_text(name: str) -> str:
    return Path(load_plan(name).origin).read_text(encoding="utf-8")


def _recipes() -> dict[str, Path]:
    """Return the scripts for clusters and build servers, by name."""
    kinds = (".sh", ".py", ".yml")
    found = (p for p in RECIPES.iterdir() if p.suffix in kinds and p.stem[0] != "_")
    return {path.name: path for path in sorted(found)}


def _recipe_text(name: str) -> str:
    return _recipes()[name].read_text(encoding="utf-8")


def _recipe_line(name: str) -> str:
    """Return the first sentence of a recipe."""
    lines = _recipe_text(name).splitlines()
    return next(line for line in lines if not line.startswith("#!")).strip('#":. ')


def _model_line(name: str) -> str:
    """Return what a model is for, how accurate it was seen to be, and its paper."""
    model = get_model(name)
    parts = [model.purpose] if model.purpose else []
    if model.accuracy:
        convolution, xgemm, clocks = model.accuracy
        parts.append(
            f"best of its first ten {convolution:g} and {xgemm:g} % slower than the optimum"
            f" (convolution, SGEMM), {clocks:.1f} % off at other clocks"
        )
    if model.revisions:
        parts.append(f"predict with variant revised ({', '.join(model.revisions)})")
    return "; ".join([*parts, model.reference])


def _model_text(name: str) -> str:
    model = get_model(name)
    module = sys.modules[model.bodies["printed"].__module__]
    lines = [(module.__doc__ or "").strip(), "", "Regimes:"]
    lines += [f"  {code:>3}  {regime}" for regime, code in model.regimes.items()]
    lines += ["", "Variants, and what acts in them:"]
    for variant, meaning in VARIANTS.items():
        lines.append(
            f"  {variant:<9}  {meaning}: {', '.join(model.errata_in(variant)) or 'nothing'}"
        )
    lines += ["", f"Parameters in [model.{name}] of a device file:"]
    lines += [
        f"  {p.key:<28} {p.symbol:<22} {p.long_name}{'' if p.required else ' (optional)'}"
        for p in model.parameters
    ]
    return "\n".join(lines)


def _models() -> list[str]:
    """Return the models, first the one to begin with."""
    return sorted(model_names(), key=lambda name: name != PREFERRED)


KINDS: dict[str, tuple[Callable[[], Iterable[str]], Callable[[str], str], Callable[[str], str]]] = {
    "kernels": (list_kernels, lambda key: load_kernel(key).name, _kernel_text),
    "devices": (list_devices, _device_line, _device_text),
    "models": (_models, _model_line, _model_text),
    "plans": (list_plans, lambda name: load_plan(name).description, _plan_text),
    "recipes": (_recipes, _recipe_line, _recipe_text),
}
"""For each kind of entry the functions for its names, a line about one, and its text."""


def list_(arguments: argparse.Namespace) -> int:
    """List all entries of one kind, or of all kinds that have files, one per line."""
    what, is_about_models = arguments.what, arguments.device or arguments.kernel
    if what is None:
        for number, kind in enumerate(KINDS):
            print(f"\n{kind}:" if number else f"{kind}:")
            more = {} if kind == "models" else {"device": None, "kernel": None}
            list_(argparse.Namespace(**{**vars(arguments), "what": kind, **more}))
        return 0
    if what != "models" and is_about_models:
        raise SweepError(f"list {what}: --device and --kernel are for models")
    if is_about_models:
        rows = _applicable(arguments)
    elif what == "counters":
        from sweep.importers.profiles.counters import QUANTITIES

        rows = [
            (q.ncu[0], q.meaning + (f" (nvprof: {q.nvprof[0]})" if q.nvprof else ""))
            if q.ncu
            else (q.nvprof[0], f"{q.meaning} (nvprof's name; ncu has none)")
            for q in QUANTITIES.values()
        ]
    elif what == "fields":
        from sweep.evaluation.variables import all_fields

        rows = [(name, _field_text(field)) for name, field in all_fields().items()]
    else:
        names, describe, _ = KINDS[what]
        rows = [(name, describe(name)) for name in names()]
    indent = 2 + max(len(name) for name, _ in rows)
    for line in aligned(rows):  # a line each in a pipe, for grep
        print(
            "\n".join(wrapped(line, terminal_width(), indent=indent) if is_terminal() else [line])
        )
    return 0


def _field_text(field: Field) -> str:
    """Return what a variable is, its unit or that it is a code, and its equation."""
    from sweep.evaluation.variables import DEFAULT_OUTPUTS

    is_kept = field.name in DEFAULT_OUTPUTS or field.name not in COMMON_FIELDS
    unit = " (code)" if field.kind == "code" else "" if field.units == "1" else f" [{field.units}]"
    left_out = "" if is_kept else "only if `outputs` names it"
    return "; ".join(filter(None, (field.long_name + unit, field.equation, left_out)))


def _applicable(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return for every model whether it runs, its derived parameters, or its missing ones."""
    from sweep.explanation.explaining import applicability
    from sweep.space import what_is_missing, with_derived

    if not arguments.device:
        raise SweepError("list models: --kernel needs a --device to run on")
    given = load_device(arguments.device)
    kernel = load_kernel(arguments.kernel) if arguments.kernel else None
    device = with_derived(given, model_names())
    rows = []
    for name in model_names():
        missing = what_is_missing(device, name, device)
        origins: dict[str, list[str]] = {}
        own = given.model_parameters.get(name, {})
        for key in [key for key in device.model_parameters.get(name, {}) if key not in own]:
            origins.setdefault(device.sources[f"model.{name}.{key}"].kind, []).append(key)
        text = f"missing: {', '.join(missing)}" if missing else "runs"
        if origins and not missing:
            listed = (f"{kind}: {', '.join(keys)}" for kind, keys in origins.items())
            text += f" ({'; '.join(listed)})"
        if kernel is not None:
            place = str(kernel.path or kernel.key), str(given.path or given.key)
            statuses, reason = applicability(*place, name)
            valid, total = statuses["valid"], statuses.total()
            share = f"{valid:,} of {total:,} configurations of {kernel.key} have a time"
            if valid and missing:
                text = f"runs without {', '.join(missing)}; {share}"
            elif valid:
                text += f"; {share}"
            elif not missing:
                causes = ", ".join(f"{word} {n:,}" for word, n in statuses.items())
                text = f"does not run: {share} ({causes}). {reason}"
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
    if name.endswith(".toml"):
        from sweep.specs.reading import load_toml, read_text

        try:
            document = load_toml(read_text(Path(name)))
        except ValueError as error:
            raise SweepError(f"{name}: {error}") from None
        if "chip" in document:
            return _device_text(name)
        return _plan_text(name) if "kernels" in document else _kernel_text(name)
    known = {one: text for names, _, text in KINDS.values() for one in names()}
    if name not in known:
        raise SweepError(f"nothing is called '{name}'{nearest(name, known)} (see `sweep list`)")
    return known[name](name)


def lint(arguments: argparse.Namespace) -> int:
    """Print all findings in all files; return 2 if one of them is an error."""
    from sweep.specs import lint as lint_specs

    plans = [name for name in arguments.files if _is_plan(Path(name))]
    messages = []
    for name in plans:
        try:
            resolve(load_plan(name))
        except SweepError as error:
            messages.append((str(error), "error"))
    findings = lint_specs([name for name in arguments.files if name not in plans], _declared())
    messages += [(str(finding), finding.severity) for finding in findings]
    for message, _ in messages:
        print(message)
    errors, warnings = (sum(s == kind for _, s in messages) for kind in ("error", "warning"))
    found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    print(f"{len(arguments.files)} given: {found}")
    return 2 if errors else 0


def _is_plan(path: Path) -> bool:
    """Return whether a file looks like a plan, with kernels or devices."""
    from sweep.specs.reading import load_toml, read_text

    try:
        data = load_toml(read_text(path))
    except ValueError:
        return False
    return "kernels" in data or "devices" in data


def _declared() -> dict[str, tuple]:
    return {name: get_model(name).parameters for name in model_names()}


def verify(arguments: argparse.Namespace) -> int:
    """Check a store's files; return 1 if some are damaged and were not repaired."""
    from sweep.runs.verifying import verify as look
    from sweep.store.root import inspect

    damages = look(arguments.store)
    for damage in damages:
        print(f"{arguments.store.rstrip('/')}/{damage.key}: {damage.problem}")
    if not damages:
        unfinished = "" if inspect(arguments.store).is_finished else " so far, but not finished"
        print(f"{arguments.store}: sound{unfinished}")
        return 0
    if not arguments.repair:
        return 1
    from sweep.runs.running import repair

    computed = repair(arguments.store, damages, threads=arguments.threads)
    left = look(arguments.store)
    if left:
        raise SweepError(f"{arguments.store}/{left[0].key}: {left[0].problem}, after the repair")
    print(
        f"{arguments.store}: mended {counted(len(damages), 'file')}, "
        f"{counted(computed, 'configuration')} computed again"
    )
    return 0

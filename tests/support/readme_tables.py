"""Generated tables of docs/; ``python tests/support/readme_tables.py`` updates them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sweep
from sweep import plot
from sweep.evaluation.variables import DEFAULT_OUTPUTS
from sweep.fields import COMMON_FIELDS, LIMITER, POWER_STATUS, STATUS, VARIANTS
from sweep.space import what_is_missing
from sweep.specs import list_devices, load_device

ROOT = Path(__file__).resolve().parents[2]

RETURNED = {
    "Finished": "sweep.runs.running", "Damage": "sweep.store.verify",
    "Imported": "sweep.measurements.importing", "Profiled": "sweep.measurements.profiled",
    "Exported": "sweep.measurements.exporting", "Explanation": "sweep.explanation.sections",
    "Reproduction": "sweep.papers",
}  # fmt: skip
"""Classes that public functions return, and the modules that define them."""


# ---------------------------------------------------------------------------- the interface


def signature(function: Any) -> str:
    """Return a signature without annotations; default factories are shown as their value."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]
    return str(inspect.Signature(parameters)).replace("<factory>", "{}")


def first_line(thing: Any) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def members(cls: type) -> Iterator[str]:
    """Yield a class's public attributes, then its methods with their arguments."""
    if dataclasses.is_dataclass(cls):
        yield from (field.name for field in dataclasses.fields(cls))
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield name
        elif inspect.isfunction(member):
            yield f"{name}{signature(member)}"


def is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def interface(prefix: str, names: list[str], module: Any) -> list[str]:
    rows = []
    for name in names:
        thing = getattr(module, name)
        shown = name
        if inspect.isfunction(thing) or thing is sweep.Plan:
            shown += signature(thing)
        elif is_error(thing):
            shown += f"({thing.__base__.__name__})"
        rows.append(row(f"`{prefix}{shown}`", first_line(thing)))
    return rows


def functions() -> str:
    """Return the public names of ``sweep`` and ``sweep.plot`` with signatures."""
    public = [name for name in sorted(sweep.__all__, key=str.lower) if name != "__version__"]
    errors = [name for name in public if is_error(getattr(sweep, name))]
    classes = [n for n in public if inspect.isclass(getattr(sweep, n)) and n not in errors]
    calls = [name for name in public if name not in (*errors, *classes)]
    rows = interface("sweep.", [*classes, *calls], sweep)
    rows += interface("sweep.plot.", sorted(plot.__all__), plot)
    rows += interface("sweep.", errors, sweep)
    return "\n".join(["| name | what it is |", "| --- | --- |", *rows])


def attributes() -> str:
    """Return the public attributes and methods of the classes that functions return."""
    found = {
        name: getattr(importlib.import_module(module), name) for name, module in RETURNED.items()
    }
    classes = {"Answer": sweep.Answer, "Device": sweep.Device, "Kernel": sweep.Kernel, **found}
    rows = [
        row(f"`{name}`", ", ".join(f"`{member}`" for member in members(cls)))
        for name, cls in classes.items()
    ]
    return "\n".join(["| class | attributes and methods |", "| --- | --- |", *rows])


# ---------------------------------------------------------------------------- models


def models() -> str:
    """Return the models: paper, cases with their codes, parameters, devices that have them."""
    rows = []
    devices = [load_device(key) for key in list_devices()]
    for name in sweep.model_names():
        model = sweep.get_model(name)
        paper = f"[{model.reference}](https://doi.org/{model.doi})" if model.doi else (
            model.reference)  # fmt: skip
        cases = ", ".join(
            f"{code} {case.removeprefix(f'{name}_')}" for case, code in model.regimes.items()
        )
        needed = ", ".join(f"`{p.key}`" for p in model.parameters if p.required)
        having = ", ".join(f"`{d.key}`" for d in devices if not what_is_missing(d, name, d))
        rows.append(row(f"`{name}`", f"{paper}: {model.title}", cases, needed, having))
    head = ("model", "paper", "regimes, with their codes", "required parameters", "on file for")
    return "\n".join([row(*head), row(*["---"] * len(head)), *rows])


def choice() -> str:
    """Return what each model is for, and how accurate it was seen to be."""
    rows = []
    for name in ("combined", *(n for n in sweep.model_names() if n != "combined")):
        model = sweep.get_model(name)
        assert model.accuracy is not None
        convolution, xgemm, clocks = model.accuracy
        rows.append(row(f"[`{name}`](docs/models/{name}.md)", model.purpose,
                        f"{convolution:g} / {xgemm:g} %", f"{clocks:.1f} %"))  # fmt: skip
    head = ("model", "use it for", "what the best of its first ten loses to the optimum",
            "error at other clocks")  # fmt: skip
    return "\n".join([row(*head), row(*["---"] * len(head)), *rows])


def errata() -> str:
    """Return how the variants of each model differ from the paper, and which do."""
    rows = []
    for name in sweep.model_names():
        model = sweep.get_model(name)
        for code, text in {**model.errata, **model.revisions}.items():
            acting = [variant for variant in VARIANTS if code in model.errata_in(variant)]
            rows.append(row(f"`{name}`", code, ", ".join(f"`{v}`" for v in acting), text))
    head = ("model", "erratum", "acts in", "what it takes")
    return "\n".join([row(*head), row(*["---"] * len(head)), *rows])


def promises() -> str:
    """Return what variants of models do not promise, each with a counter-example."""
    from support.promises import BROKEN, PROMISES  # the tests' folder must be on the path

    rows = [
        row(f"`{case.model}`", f"`{variant}`", PROMISES[case.change], case.words)
        for variant in VARIANTS
        for case in BROKEN
        if variant in case.variants
    ]
    head = ("model", "variant", "not kept", "counter-example")
    return "\n".join([row(*head), row(*["---"] * len(head)), *rows])


# ---------------------------------------------------------------------------- results


def variables() -> str:
    """Return the variables that all models share."""
    where = {"model": "model and everything", "launch": "device, sizes, tuning parameters"}
    rows = [
        row(
            f"`{f.name}`{'' if f.name in DEFAULT_OUTPUTS else ' *'}",
            "" if f.units == "1" else f.units,
            where[f.depends],
            f.long_name,
        )
        for f in COMMON_FIELDS.values()
    ]
    return "\n".join(["| variable | unit | depends on | meaning |", row(*["---"] * 4), *rows])


def codes() -> str:
    """Return the permanent codes."""
    tables = {"status": STATUS, "power_status": POWER_STATUS, "occupancy_limiter": LIMITER,
              "bound": COMMON_FIELDS["bound"].flags}  # fmt: skip
    rows = [
        row(f"`{name}`", ", ".join(f"{code} {word}" for word, code in flags.codes.items()))
        for name, flags in tables.items()
        if flags is not None
    ]
    return "\n".join(["| variable | codes |", "| --- | --- |", *rows])


# ---------------------------------------------------------------------------- the file


def ranges() -> str:
    """Return how far numbers may be off, by the kind of their source."""
    folder = Path(sweep.__file__).parent / "uncertainty"
    kinds = tomllib.loads((folder / "ranges.toml").read_text(encoding="utf-8"))
    rows = [f"| `{kind}` | {t['share']:.0%} | {t['why']} |" for kind, t in kinds.items()]
    return "\n".join(["| source | +- | why |", "| --- | --- | --- |", *rows])


TABLES: dict[str, Callable[[], str]] = {
    "choice": choice, "models": models, "errata": errata, "promises": promises,
    "variables": variables, "codes": codes, "functions": functions, "attributes": attributes,
    "ranges": ranges,
}  # fmt: skip

MARKED = re.compile(
    r"(<!-- (\w+): made by tests/support/readme_tables.py -->\n)(.*?)(<!-- end -->)", re.DOTALL
)


def tables_in(text: str) -> dict[str, str]:
    """Return the current tables of a page by name."""
    return {match[2]: match[3].strip() for match in MARKED.finditer(text)}


def renewed(text: str) -> str:
    """Return a page with up-to-date tables."""
    return MARKED.sub(lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n\n{match[4]}", text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")

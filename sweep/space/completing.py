"""Parameters of models that a device's file lacks: what follows from it, and from where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sweep.fields import Parameter
from sweep.hardware.derived import DeviceFacts
from sweep.hardware.rule_inputs import lacked_by, read_by, with_assumptions
from sweep.models import derived_parameters, get_model, model_names, stated_facts
from sweep.specs import Device, Source
from sweep.specs.formats import DEVICE


def with_derived(device: Device, models: Iterable[str]) -> Device:
    """Return a device with every parameter that the models lack and a rule can derive.

    Parameters
    ----------
    device : Device
        A device as its file describes it; values of the file are never replaced.
    models : iterable of str
        The models whose parameters to complete.

    Returns
    -------
    Device
        The same device with further ``model_parameters``, each with a source of kind ``derived``,
        or ``assumed`` where it takes a fact that no data sheet states.
    """
    own = device.model_parameters
    parameters = {name: dict(values) for name, values in own.items()}
    sources = dict(device.sources)
    for name, key, value, source in derived_parameters(_facts_of(device), models, own):
        parameters.setdefault(name, {})[key] = value
        sources[f"model.{name}.{key}"] = Source(*source)
    return replace(device, model_parameters=parameters, sources=sources)


def with_assumed(device: Device) -> Device:
    """Return a device with the facts that rules assume of it as values of its own, to be varied.

    They stand in ``assumed``, such as ``assumed.dram_latency``, a table that no file has.
    """
    values, sources, before = dict(device.values), dict(device.sources), _facts_of(device)
    for facts, words in with_assumptions(before):
        (fact,) = facts.stated.keys() - before.stated.keys()
        values[f"assumed.{fact}"] = facts.stated[fact]
        unit = "" if fact.endswith("_factor") else "_cycles"
        sources[f"assumed.{fact}{unit}"] = Source("assumed", words)
        before = facts
    return replace(device, values=values, sources=sources)


def _facts_of(device: Device) -> DeviceFacts:
    """Return what rules read of a device."""
    assumed = set(device.assumed(("model",)))
    own = device.model_parameters
    measured = {
        name: {key: value for key, value in values.items() if f"model.{name}.{key}" not in assumed}
        for name, values in own.items()
    }
    return DeviceFacts(device.values, device.compute_capability, device.vendor, stated_facts(own),
                       stated_facts(measured))  # fmt: skip


def keys_that_give(device: Device, parameter: Parameter | None) -> tuple[str, ...]:
    """Return the keys that a device's file lacks for the rule of a model's parameter, if any."""
    if parameter is None or parameter.rule is None:
        return ()
    return tuple(_KEYS[path] for path in lacked_by(parameter.rule, _facts_of(device)))


def what_is_missing(device: Device, model: str, file: Device) -> list[str]:
    """Return the required parameters of a model that a device lacks, with what its file lacks."""
    own, found = device.model_parameters.get(model, {}), []
    for parameter in get_model(model).parameters:
        if parameter.required and parameter.key not in own:
            keys = keys_that_give(file, parameter)
            found.append(parameter.key + (f" (give {' and '.join(keys)})" if keys else ""))
    return found


_KEYS = {f"{table}.{key.stem}": key.path for table, s in DEVICE.items() for key in s.keys}
"""The paths of device files with their units, by those without."""

_SCALES = {"microbenchmark.core_clock", "clocks.core_nominal", "chip.sm_count",
           "chip.memory_bandwidth"}  # fmt: skip
"""What takes a measured number to another unit or clock, and leaves it measured."""


def origins(device: Device, model: str) -> list[tuple[str, str, str]]:
    """Return key, value and origin of each parameter of a model.

    An origin begins with ``measured`` (the number, at most in another unit or at another clock),
    ``derived from`` with the keys of the file, among them numbers that stand in for one that was
    not measured, ``assumed``, or the kind of the file's own source.

    Parameters
    ----------
    device : Device
        A device as its file describes it.
    model : str
        The model.
    """
    complete, facts = with_derived(device, model_names()), _facts_of(device)
    own, values = (one.model_parameters.get(model, {}) for one in (device, complete))
    rows = []
    for parameter in (p for p in get_model(model).parameters if p.key in values):
        source, value = complete.sources[f"model.{model}.{parameter.key}"], values[parameter.key]
        rule = None if parameter.key in own else parameter.rule
        read, is_own = read_by(rule, facts) if rule is not None else ((), False)
        measured = [_KEYS[path] for path in read if is_own and path not in _SCALES
                    and _KEYS[path].startswith("microbenchmark.")
                    and device.sources[_KEYS[path]].kind == "microbenchmark"]  # fmt: skip
        others = {path for path in read if not path.startswith("microbenchmark.")}
        if source.kind == "derived" and measured and others <= _SCALES:
            off = {path: f" ± {device.deviations[path]:g}" for path in device.deviations}
            numbers = ", ".join(path + off.get(path, "") for path in measured)
            origin = f"measured: {numbers}: {source.reference}"
        elif source.kind == "derived" and read:
            origin = f"derived from {', '.join(_KEYS[p] for p in read)}: {source.reference}"
        else:
            origin = str(source)
        if assumed := [_KEYS[p] for p in read if device.sources[_KEYS[p]].kind == "assumed"]:
            origin += f"; assumed: {', '.join(assumed)}"
        shown = f"{value:.6g}" if isinstance(value, float) else f"{value!s:.30}"
        rows.append((parameter.key, shown, origin))
    return rows

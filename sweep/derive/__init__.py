"""Derived device parameters: what a model needs and a device file does not give.

A derivation is an explicit rule (:mod:`sweep.derive.rules`), recorded per value with the source
kind ``derived`` and the rule's words, and left out altogether by a plan with ``derive = false``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sweep.derive.rules import RULES
from sweep.models import get_model
from sweep.specs import Device, Source

__all__ = ["RULES", "missing_parameters", "with_derived"]


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
        The same device with further ``model_parameters``, each with a source of kind ``derived``.
    """
    parameters = {name: dict(values) for name, values in device.model_parameters.items()}
    sources = dict(device.sources)
    for name in models:
        for parameter in get_model(name).parameters:
            rule = RULES.get((name, parameter.key))
            if rule is None or parameter.key in device.model_parameters.get(name, {}):
                continue
            value = rule(device)
            if value is None:
                continue
            parameters.setdefault(name, {})[parameter.key] = value
            words = (rule.__doc__ or "").strip().splitlines()[0]
            sources[f"model.{name}.{parameter.key}"] = Source("derived", words.rstrip("."))
    return replace(device, model_parameters=parameters, sources=sources)


def missing_parameters(device: Device, model: str) -> tuple[str, ...]:
    """Return the required parameters of a model that a device lacks."""
    given = device.model_parameters.get(model, {})
    return tuple(p.key for p in get_model(model).parameters if p.required and p.key not in given)

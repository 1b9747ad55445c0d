"""What a paper's module hands to the rest of the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep._jit import Symbol
from sweep.fields import Field, Parameter
from sweep.models.workload import Array, Workload

__all__ = ["HEAD", "VARIANTS", "Input", "Model"]

VARIANTS = ("corrected", "printed")
"""``printed`` follows the paper to the letter, ``corrected`` applies the documented errata."""

HEAD = (
    "execution_cycles",
    "cycles_per_instruction",
    "core_activity",
    "memory_activity",
    "regime",
    "bound",
)
"""What every body returns first, in this order; the model's own fields follow."""


@dataclass(frozen=True)
class Input:
    """One argument of a model's body.

    ``symbol`` is its key in the model's symbols; ``origin`` says in words where the number comes
    from; ``device_keys`` are the dotted paths in the device file that it rests on. ``clocked``
    inputs depend on the clocks; the others are constant along the clock axes. A ``sequence`` input
    reaches the body as a tuple with one number per part of the kernel (period, stage, instruction
    type); ``prepare`` gives it as a list of arrays, as long for all sequence inputs of the model.
    A pass is compiled per length.

    An input that depends on both the launch and the clocks is the product of two numbers:
    ``prepare`` gives it at the nominal clocks, and what the clocks multiply it with under the name
    ``factor``. The pass multiplies, so that no table has a number for each launch and pair of
    clocks.
    """

    symbol: str
    origin: str
    device_keys: tuple[str, ...] = ()
    clocked: bool = False
    sequence: bool = False
    factor: str = ""


@dataclass(frozen=True)
class Model:
    """A published model, ready to be evaluated, explained and documented.

    Attributes
    ----------
    name : str
        Short name, the coordinate label in results.
    title, reference, doi : str
        The paper.
    symbols : mapping
        Symbols of the paper by snake-case name.
    inputs : tuple of Input
        The arguments of the bodies, in their order.
    fields : tuple of Field
        The model's own outputs, in the order in which bodies return them after :data:`HEAD`.
    regimes : mapping
        Permanent codes of the model's cases, unique over all models.
    bodies : mapping
        Variant to the compiled function that joins the equations.
    prepare : callable
        ``prepare(workload, variant)`` returns the inputs by symbol, and their factors by name, as
        broadcastable arrays; an input that a device cannot give is NaN there.
    parameters : tuple of Parameter
        What the model reads from ``[model.NAME]`` of a device file.
    options : mapping
        Option name to its allowed values, the default first.
    errata : mapping
        Documented differences between the variants.
    """

    name: str
    title: str
    reference: str
    doi: str
    symbols: Mapping[str, Symbol]
    inputs: tuple[Input, ...]
    fields: tuple[Field, ...]
    regimes: Mapping[str, int]
    bodies: Mapping[str, Callable[..., Any]]
    prepare: Callable[[Workload, str], Mapping[str, Array | Sequence[Array]]]
    parameters: tuple[Parameter, ...]
    errata: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

"""The only place with compiler options, and how an equation says which one it is.

Every equation is a small scalar function, compiled by Numba and inlined by force into the one
loop that joins a model (:func:`compile_pass`): only then do LLVM's passes see a single loop that
they can vectorise. Floating-point flags stay strict: a result must not change when a grid is
chunked differently, and contraction alone was seen to change it.

Compiled code is kept on disk between processes (:mod:`sweep.jit_cache`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.extending import register_jitable

from sweep.jit_cache import keep_on_disk

__all__ = [
    "EquationInfo",
    "Symbol",
    "compilable",
    "compile_pass",
    "compiled",
    "equations",
    "joined",
]


class Symbol(NamedTuple):
    """One symbol of a paper: how it is printed, its unit and what it means."""

    symbol: str
    units: str
    meaning: str


@dataclass(frozen=True)
class EquationInfo:
    """What an equation function knows about itself.

    ``kind`` is ``"equation"`` or ``"condition"`` (a regime's condition, which returns a truth
    value).
    """

    model: str
    number: str
    result: Symbol
    arguments: Mapping[str, Symbol]
    kind: str


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let the garbage collector rest.

    All that a compiler makes is alive until it has done, and to look through it again and again was
    an eighth of the first run's time. Numba's own lock lets one thread compile at a time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _NoAliasCompiler(CompilerBase):
    """Numba's default pipeline with array arguments declared not to overlap.

    A pass reads one buffer of inputs and writes others; without the promise the vectoriser gives
    up, because it would need more overlap checks at run time than it allows.
    """

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile while the garbage collector rests."""
        with _uncollected():
            return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        self.state.flags.noalias = True
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


# error_model: with Python's, one x/0 in a million configurations would raise out of the whole pass.
# Nothing is called from C: the wrapper for that would be a tenth of the time of compilation.
_OPTIONS = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_INLINED = numba.njit(**_OPTIONS, forceinline=True)
_PASS = numba.njit(**_OPTIONS, pipeline_class=_NoAliasCompiler)


def compile_pass(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """Compile the loop that evaluates one model over a block; releases the GIL while it runs.

    The caller promises that no two array arguments overlap. ``text`` is the function's source and
    all that it calls but what the package's modules define.
    """
    return keep_on_disk(_PASS(function), text)


def joined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only joins equations (it has no number of its own)."""
    compiled = _INLINED(function)
    compiled.is_joined = True  # lets the tracer of ``sweep explain`` look inside
    return compiled


def equations(
    model: str, symbols: Mapping[str, Symbol]
) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return the decorator of one paper's equations.

    Parameters
    ----------
    model : str
        The model's name.
    symbols : mapping
        Every argument name (and result name) to its :class:`Symbol`: meaning and unit are said
        once, there; docstrings are completed from it.

    Returns
    -------
    callable
        ``decorator(number, result=None, kind="equation")``. ``result`` names the symbol of the
        returned value (the function's own name by default).

    Raises
    ------
    KeyError
        An argument or result has no symbol.
    """

    def decorator(
        number: str, result: str | None = None, kind: str = "equation"
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            names = function.__code__.co_varnames[: function.__code__.co_argcount]
            arguments = {name: symbols[name] for name in names}
            if kind == "condition":
                returned = Symbol(f"condition ({number})", "1", "whether the case applies")
            else:
                returned = symbols[result or function.__name__]
            info = EquationInfo(model, number, returned, arguments, kind)
            function.__doc__ = _docstring(function.__doc__ or "", info)
            compiled = _INLINED(function)
            compiled.info = info
            compiled.__doc__ = function.__doc__
            return compiled

        return wrap

    return decorator


def _docstring(text: str, info: EquationInfo) -> str:
    """Append the units of arguments and result to an equation's own words."""
    lines = [f"{text.strip()}", "", f"Equation ({info.number}) of {info.model}.", ""]
    if info.arguments:
        lines += ["Parameters", "----------"]
    for name, symbol in info.arguments.items():
        lines += [f"{name} : float", f"    ``{symbol.symbol}``: {symbol.meaning} [{symbol.units}]"]
    kind = "bool" if info.kind == "condition" else "float"
    lines += ["", "Returns", "-------", kind]
    lines += [f"    ``{info.result.symbol}``: {info.result.meaning} [{info.result.units}]", ""]
    return "\n".join(lines)


# ---------------------------------------------------------------------------- simulators


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is no equation, such as a loop over a table; releases the GIL."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    names = [f"{part.__module__}.{part.__qualname__}" for part in (function, *cells)]
    return keep_on_disk(numba.njit(error_model="numpy", nogil=True)(function), " ".join(names))


def compilable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Leave a function to Python as it is, and let compiled functions call it."""
    return register_jitable(error_model="numpy", nogil=True)(function)

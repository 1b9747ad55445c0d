"""The only place with compiler options.

Floating-point flags stay strict: a result must not change when a grid is chunked differently, and
contraction alone was seen to change it.

Compiled code is kept on disk between processes (:mod:`sweep.jit_cache`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numba
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.extending import register_jitable

from sweep.jit_cache import keep_on_disk


class _NoAliasCompiler(CompilerBase):
    """Numba's default pipeline with array arguments declared not to overlap.

    A pass reads one buffer of inputs and writes others; without the promise the vectoriser gives
    up, because it would need more overlap checks at run time than it allows.
    """

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile while the garbage collector rests.

        All that a compiler makes is alive until it has done, and to look through it again and again
        was an eighth of the first run's time. Numba's own lock lets one thread compile at a time.
        """
        was_on = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if was_on:
                gc.enable()

    def define_pipelines(self) -> list[Any]:
        self.state.flags.noalias = True
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


# error_model: with Python's, one x/0 in a million configurations would raise out of the whole pass.
# Nothing is called from C: the wrapper for that would be a tenth of the time of compilation.
_OPTIONS = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_PASS = numba.njit(**_OPTIONS, pipeline_class=_NoAliasCompiler)


def compile_pass(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """Compile the loop that evaluates one model over a block; releases the GIL while it runs.

    The caller promises that no two array arguments overlap. ``text`` is the function's source and
    all that it calls but what the package's modules define.
    """
    return keep_on_disk(_PASS(function), text)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is no pass, such as a loop over a table; releases the GIL."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    names = [f"{part.__module__}.{part.__qualname__}" for part in (function, *cells)]
    return keep_on_disk(numba.njit(error_model="numpy", nogil=True)(function), " ".join(names))


def compilable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Leave a function to Python as it is, and let compiled functions call it."""
    return register_jitable(error_model="numpy", nogil=True)(function)

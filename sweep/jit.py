"""The only place with compiler options, and compiled functions that are kept on disk.

Floating-point flags stay strict: a result must not change when a grid is chunked differently, and
contraction alone was seen to change it.

Numba's own cache needs a source file for each function and an index that processes share. Here
each compiled function is one file, named after the hash of everything that its machine code
depends on: the function's text, the text of all modules that it may call, its argument types, the
processor and its features, and the versions of Python, Numba, LLVM, NumPy and this package. Files
that cannot be trusted are ignored (:mod:`sweep.disk_cache`): reading them would run their content.
"""

from __future__ import annotations

import gc
import hashlib
import pickle
import platform
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import serialize
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.runtime import rtsys
from numba.extending import register_jitable

from sweep import __version__
from sweep.disk_cache import cache_directory, drop_oldest, keep, kept

COMPILED_MODULES = ("jit.py", "compiler/**/*.py", "hardware/**/*.py")
"""The modules that compiled code, or the text of a pass, comes from."""

HEADER = b"sweep compiled function 1\n"


_COMPILED: list[tuple[float, float]] = []
"""When this process began to compile each pass, and when it had done [s]."""


def compile_seconds(since: float) -> float:
    """Return for how long this process compiled passes since a time of ``perf_counter`` [s]."""
    return sum(end - start for start, end in _COMPILED if start >= since)


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
        was_on, started = gc.isenabled(), time.perf_counter()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            _COMPILED.append((started, time.perf_counter()))
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


# ---------------------------------------------------------------------------- on disk


def keep_on_disk(dispatcher: Any, text: str) -> Any:
    """Let a function that Numba compiles look for its machine code on disk first.

    Parameters
    ----------
    dispatcher : numba dispatcher
        The function, not compiled yet.
    text : str
        Its source, which is part of the key.

    Returns
    -------
    numba dispatcher
        The same.
    """
    if hasattr(dispatcher, "_cache"):  # not where NUMBA_DISABLE_JIT leaves functions as they are
        dispatcher._cache = _FunctionOnDisk(text)
    return dispatcher


class _FunctionOnDisk:
    """What a dispatcher of Numba takes for its cache."""

    cache_path = None

    def __init__(self, text: str) -> None:
        self.text = text

    def load_overload(self, signature: Any, target: Any) -> CompileResult | None:
        """Return the function compiled for these argument types, ``None`` if it is not there."""
        if cache_directory() is None:
            return None
        # Numba's registries, which take half a second to load, are needed only for compilation.
        rtsys.initialize(target)
        content = kept("", self._name(signature, target.codegen()), HEADER)
        if content is None:
            return None
        try:
            found: CompileResult = CompileResult._rebuild(target, *pickle.loads(content))
        except Exception:  # whatever the content is, compiling again is right
            return None
        return found

    def save_overload(self, signature: Any, compiled: CompileResult) -> None:
        """Keep a function that was just compiled."""
        if cache_directory() is None or compiled.library.has_dynamic_globals:
            return
        name = self._name(signature, compiled.library.codegen)
        keep("", name, HEADER, serialize.dumps(compiled._reduce()))
        drop_oldest("")

    def enable(self) -> None:
        """Do nothing: the environment decides."""

    disable = flush = enable

    def _name(self, signature: Any, codegen: Any) -> str:
        parts = (self.text, str(signature), repr(codegen.magic_tuple()), _versions())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _versions() -> str:
    """Return versions of all that decides what machine code a text becomes."""
    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    package, source = Path(__file__).parent, hashlib.sha256()
    for pattern in COMPILED_MODULES:
        for module in sorted(package.glob(pattern)):
            source.update(module.read_bytes())
    return "\n".join([
        platform.python_implementation(), platform.python_version(), platform.platform(),
        numba.__version__, llvmlite.__version__, llvm, np.__version__, __version__,
        source.hexdigest(),
    ])  # fmt: skip

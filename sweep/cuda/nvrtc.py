"""NVIDIA's run-time compiler NVRTC, which needs neither a GPU nor a toolkit.

The library comes with the extra ``kernel-sweep[compile]``, or from a toolkit that the loader finds.
For a real architecture it runs ptxas, whose report (registers, spills, shared memory) stands in
its log.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sweep.errors import SweepError

WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11")
"""Distributions with the library, the newest first."""

LEAST_OF_NEW = 5.0
"""Compute capability at which NVRTC 12 begins; the last of `WHEELS` compiles for older ones."""

_NO_LIBRARY = (
    "NVRTC is not installed: `pip install kernel-sweep[compile]`, or the wheel"
    " nvidia-cuda-nvrtc-cu11 for compute capabilities below 5.0"
)
_LONGEST_LOG = 1 << 24
_USED = re.compile(r"Used (\d+) registers")

STANDS_IN = {"3.0": ("3.5", 63)}
"""Capabilities that no library of a wheel compiles for: the next one stands in, with the most
registers of a thread that the CUDA C++ Programming Guide gives (technical specifications)."""


class CompileError(SweepError):
    """A source does not compile; the message has the first error of the compiler."""


@dataclass(frozen=True)
class Output:
    """What the compiler returns for one source.

    Attributes
    ----------
    log : str
        Its messages, with the report of ptxas.
    ptx : str
        The PTX text.
    """

    log: str
    ptx: str


def _libraries() -> Iterator[tuple[str, str]]:
    """Yield paths of the library, each with the version of its wheel, or ``""``."""
    for wheel in WHEELS:
        try:
            found = importlib.metadata.distribution(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in found.files or ():
            if file.name.startswith("libnvrtc.so"):
                yield str(Path(str(found.locate_file(file)))), found.version
    if name := ctypes.util.find_library("nvrtc"):
        yield name, ""


class Compiler:
    """A loaded library.

    Attributes
    ----------
    version : str
        Its name and version: ``NVRTC 12.9.86``.
    capabilities : tuple of str
        The compute capabilities that it compiles for, in rising order: ``"8.6"``, and before them
        those for which one of these stands in (`STANDS_IN`).
    """

    def __init__(self, library: Any, version: str) -> None:
        self._library = library
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version = f"NVRTC {version or f'{major.value}.{minor.value}'}"
        count = ctypes.c_int()
        self._check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        numbers = (ctypes.c_int * max(0, count.value))()
        self._check(library.nvrtcGetSupportedArchs(numbers))
        own = [f"{n // 10}.{n % 10}" for n in sorted(numbers)]
        self.capabilities = (*(c for c, (other, _) in STANDS_IN.items() if other in own), *own)

    def _check(self, code: int) -> None:
        if code:
            text = self._library.nvrtcGetErrorString
            text.restype = ctypes.c_char_p
            raise CompileError(f"NVRTC: {text(code).decode(errors='replace')}")

    def _text(self, program: Any, what: str) -> str:
        """Return one of the texts that the library keeps of a program."""
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        if size.value > _LONGEST_LOG:
            raise CompileError(f"NVRTC: the {what} has {size.value} bytes")
        buffer = ctypes.create_string_buffer(max(1, size.value))
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.value.decode(errors="replace")

    def compile(self, source: str, name: str, capability: str, options: Sequence[str]) -> Output:
        """Compile a source for one compute capability.

        Parameters
        ----------
        source, name : str
            The text, and its name for messages.
        capability : str
            For example ``"8.6"``.
        options : sequence of str
            Further options of NVRTC, such as ``-DN=4``.

        Raises
        ------
        CompileError
            It does not compile.
        """
        target, most = STANDS_IN.get(capability, (capability, 0))
        output = self._compiled(source, name, target, options)
        # The limit is given where it is needed only: with one, ptxas uses what it allows.
        if most and max(map(int, _USED.findall(output.log)), default=0) > most:
            return self._compiled(source, name, target, [f"--maxrregcount={most}", *options])
        return output

    def _compiled(self, source: str, name: str, target: str, options: Sequence[str]) -> Output:
        """Compile a source for a capability that the library knows.

        Macros are defined in the text: as options they would change NVRTC's own header, too.
        """
        macros = [option[2:].partition("=") for option in options if re.match("-D.", option)]
        options = [option for option in options if not re.match("-D.", option)]
        lines = (f"#define {macro} {value if sign else 1}" for macro, sign, value in macros)
        source = "\n".join([*lines, "#line 1", source])
        program = ctypes.c_void_p()
        create = self._library.nvrtcCreateProgram
        self._check(create(ctypes.byref(program), source.encode(), name.encode(), 0, None, None))
        try:
            words = [f"--gpu-architecture=sm_{target.replace('.', '')}", "--ptxas-options=-v"]
            words += options
            given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
            failed = self._library.nvrtcCompileProgram(program, len(words), given)
            log = self._text(program, "ProgramLog")
            if failed:
                raise CompileError(first_error(log, name))
            return Output(log, self._text(program, "PTX"))
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))


def first_error(log: str, name: str) -> str:
    """Return the first error in a log in one line."""
    lines = [" ".join(line.split()) for line in log.splitlines()]
    found = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
    return found[:500] if name in found else f"{name}: {found[:500]}"


@cache
def load(capability: str = "") -> Compiler:
    """Return the compiler of the first library that is installed.

    Parameters
    ----------
    capability : str
        A compute capability: a library that compiles for it comes first.

    Raises
    ------
    SweepError
        There is none.
    """
    first = None
    for path, version in _libraries():
        try:
            found = Compiler(ctypes.CDLL(path), version)
        except (OSError, AttributeError):
            continue
        if not capability or capability in found.capabilities:
            return found
        first = first or found
    if first is None:
        raise SweepError(_NO_LIBRARY)
    return first

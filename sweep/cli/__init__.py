"""The command line: ``sweep run | best | top | pareto | explain | ...``.

Nothing heavy is imported before a command needs it, so that ``--help`` is immediate.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TextIO, cast

from sweep.cli.ending import Interrupts, leave, report_unforeseen
from sweep.cli.parser import parse
from sweep.errors import SweepError, UnfinishedWarning, printable

__all__ = ["main"]

STARTED = time.perf_counter()
"""When this module was loaded, first of all that a command loads [s]."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        0, 2 for a mistake that one line on the error stream explains, 130 after Ctrl-C, 128 and
        the signal's number after another one that interrupts.
    """
    try:
        arguments = parse(argv)
    except SweepError as error:
        return _explain(error)
    interrupts = Interrupts(arguments)
    if argv is None:
        interrupts.install()
    try:
        stdout = cast(TextIO, _PrintableStream(sys.stdout or io.StringIO()))
        with contextlib.redirect_stdout(stdout), warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning, set())
            warnings.simplefilter("default", UnfinishedWarning)
            arguments.interrupts = interrupts
            arguments.started = STARTED if argv is None else time.perf_counter()
            code: int = arguments.command(arguments)
            sys.stdout.flush()
        return code
    except BaseException as error:
        if interrupts.seen or isinstance(error, KeyboardInterrupt):
            code = interrupts.say()
            if argv is None:
                leave(code)
            return code
        return _explain(error)


def _explain(error: BaseException) -> int:
    """Print one line about why a command failed; return its exit code."""
    if isinstance(error, SweepError):
        print(f"sweep: {' '.join(str(error).split())}", file=sys.stderr)
    elif isinstance(error, BrokenPipeError):
        _drop_output()  # its reader, such as head or less, has closed it
        return 0
    elif isinstance(error, OSError):
        # Errors of stores and files are explained where they occur; this one is of the output.
        _drop_output()
        print(f"sweep: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
    elif isinstance(error, ModuleNotFoundError) and not f"{error.name}".startswith("sweep"):
        package = f"{error.name}".partition(".")[0]
        print(f"sweep: this needs the Python package '{package}', which is not installed here "
              "(`pip install kernel-sweep` brings it)", file=sys.stderr)  # fmt: skip
    elif isinstance(error, Exception):
        report_unforeseen(error)
    else:
        raise error
    return 2


def _show_warning(
    show: Callable[..., None],
    told: set[str],
    message: Warning | str,
    category: type[Warning],
    *place: Any,
    **more: Any,
) -> None:
    """Show a warning; that of an unfinished store, once for each store, as one line."""
    if category is not UnfinishedWarning:
        show(message, category, *place, **more)
    elif str(message) not in told:  # an import that adds a filter makes Python forget
        told.add(str(message))
        print(f"sweep: {message}", file=sys.stderr)


class _PrintableStream:
    """The output, in its encoding and with control characters escaped, which names may contain.

    Once its reader, such as ``head``, has closed it, nothing is written; the command and its exit
    code remain those of the whole output.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        shown = printable(text, keep="\n\t")
        with _until_closed():
            try:
                self._stream.write(shown)
            except UnicodeEncodeError:
                from sweep.query.texts import encodable

                self._stream.write(encodable(shown, self._stream.encoding))
        return len(text)

    def flush(self) -> None:
        with _until_closed():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _until_closed() -> Iterator[None]:
    """Drop the output once its reader, such as ``head`` or ``less``, has closed it."""
    try:
        yield
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Redirect the output to nowhere, so that flushing it at exit does not fail."""
    with contextlib.suppress(OSError):  # an output in memory has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

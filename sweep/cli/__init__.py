"""The command line: ``sweep run | best | top | pareto | explain | ...``.

Nothing heavy is imported before a command needs it, so that ``--help`` is immediate.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO, cast

from sweep.cli.parser import parse
from sweep.errors import SweepError, printable

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        0, 2 for a mistake that one line on the error stream explains, 130 after Ctrl-C.
    """
    arguments = parse(argv)
    try:
        with contextlib.redirect_stdout(cast(TextIO, _PrintableStream(sys.stdout))):
            code: int = arguments.command(arguments)
            sys.stdout.flush()
        return code
    except SweepError as error:
        print(f"sweep: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if argv is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one changes nothing
        hint = getattr(arguments, "interrupted", "")
        print(f"\nsweep: interrupted{hint}", file=sys.stderr)
        if argv is None:
            _leave(130)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone.
        _drop_output()
        return 0
    except OSError as error:
        # What belongs to stores and files is explained there; here the output itself has failed.
        _drop_output()
        print(f"sweep: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        return 2


class _PrintableStream:
    """The output, with control characters from names and texts of files escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text, keep="\n\t"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _leave(code: int) -> NoReturn:
    """End the process at once, as Ctrl-C asks.

    Threads are still computing, and reading stores; they would complain about the interpreter's
    end. A store takes no harm: it may be killed at any moment.
    """
    # Not imported for it: where the module is not loaded, nothing is locked.
    if release_all := getattr(sys.modules.get("sweep.store.lock"), "release_all", None):
        release_all()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _drop_output() -> None:
    """Keep Python from complaining when it flushes at exit what nobody takes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

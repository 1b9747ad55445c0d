"""Commands that do not succeed: signals that end them, and unforeseen errors."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

from sweep.errors import printable

GRACE_S = 10.0
"""Time in which an interrupted command must stop its workers and release its locks [s]."""
RETRY_S = 0.01

ENDING = signal.SIGTERM, signal.SIGHUP
"""What a scheduler, ``timeout`` or a terminal that closes sends to end a process."""


class Interrupts:
    """Ends a command on Ctrl-C, whatever it is doing, with one line on the error stream.

    Python drops a ``KeyboardInterrupt`` in a callback of the compiler, and libraries
    print their own traces while it passes through them. So an interrupt that was dropped is raised
    again, other messages are suppressed from the first one on, and the process ends after
    :data:`GRACE_S` seconds in any case.

    Parameters
    ----------
    arguments : Namespace
        The command's arguments; ``interrupted`` ends the message.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.seen = 0
        self._owns_process = False
        self._arguments = arguments

    def install(self) -> None:
        """Handle SIGINT, if this is the main thread and nothing else handles it."""
        self._owns_process = threading.current_thread() is threading.main_thread()
        if self._owns_process:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._handle)

    @contextlib.contextmanager
    def by_all(self) -> Iterator[None]:
        """Let signals of :data:`ENDING` interrupt, too, where something has to be undone."""
        chosen = [one for one in ENDING if signal.getsignal(one) is signal.SIG_DFL]
        chosen = chosen if self._owns_process else []
        for one in chosen:
            signal.signal(one, self._handle)
        try:
            yield
        finally:
            for one in chosen:
                signal.signal(one, signal.SIG_DFL)

    def say(self) -> int:
        """Print the line, where there is still a terminal, and return the exit code."""
        by = f" by {signal.Signals(self.seen).name}" if self.seen in ENDING else ""
        with contextlib.suppress(OSError):
            hint = getattr(self._arguments, "interrupted", "")
            print(f"\nsweep: interrupted{by}{hint}", file=sys.stderr)
        return 128 + (self.seen or signal.SIGINT)

    def _handle(self, number: int, _: object) -> None:
        if self.seen:
            return  # a second interrupt has no effect
        self.seen = number
        logging.disable()
        threading.excepthook = lambda _: None
        sys.unraisablehook = self._raise_again
        watchdog = threading.Timer(GRACE_S, lambda: leave(self.say()))
        watchdog.daemon = True
        watchdog.start()
        raise KeyboardInterrupt

    def _raise_again(self, dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, RETRY_S)


def leave(code: int) -> NoReturn:
    """End the process at once.

    Threads may still compute or read stores, and would print errors while the interpreter shuts
    down. Stores remain valid if a process is killed.
    """
    # If the module is not loaded, this process has no lock.
    if release_all := getattr(sys.modules.get("sweep.store.lock"), "release_all", None):
        release_all()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def report_unforeseen(error: Exception) -> None:
    """Print one line about a defect of this package; write the traceback to a file."""
    text = "".join(traceback.format_exception(error))
    name = f"{type(error).__name__}: {error}"
    try:
        descriptor, path = tempfile.mkstemp(prefix="sweep-error-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{sys.argv}\n{text}")
        where = f"the trace in '{path}'"
    except OSError:
        where = "the command that failed"
    shown = printable(" ".join(name.split())[:200])
    print(
        f"sweep: unforeseen {shown}; please report it to the issue tracker of sweep, with {where}",
        file=sys.stderr,
    )

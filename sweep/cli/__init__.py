"""The command line: ``sweep run | best | top | pareto | explain | ...``.

Nothing heavy is imported before a command needs it, so that ``--help`` is immediate.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from sweep.cli.parser import parse
from sweep.errors import SweepError

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
        code: int = arguments.command(arguments)
        sys.stdout.flush()
        return code
    except SweepError as error:
        print(f"sweep: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = getattr(arguments, "interrupted", "")
        print(f"\nsweep: interrupted{hint}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone; keep Python from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0

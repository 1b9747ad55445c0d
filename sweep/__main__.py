"""``sweep`` and ``python -m sweep``: the command line, which Ctrl-C may end while it is loaded."""

import sys


def main() -> int:
    """Run the command of this process and return its exit code."""
    try:
        from sweep.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("\nsweep: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())

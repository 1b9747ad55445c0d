"""``python -m sweep``: the command line."""

from sweep.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

"""What the commands share that write a kernel file: a launch as it is typed, and the file."""

from __future__ import annotations

import re
from pathlib import Path

from sweep.errors import SweepError

__all__ = ["sides", "write_kernel"]


def write_kernel(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a kernel file, unless it is there or its name is no key."""
    from sweep.specs import parse_kernel

    if path.suffix != ".toml":
        raise SweepError(f"{path}: a kernel file is named KEY.toml")
    parse_kernel(text, path.stem, path)  # the name must be a key
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SweepError(f"{path}: is there already; --overwrite replaces it") from None
    except OSError as error:
        raise SweepError(f"{path}: cannot be written: {error.strerror}") from None


def sides(option: str, text: str | None) -> tuple[int, int, int] | None:
    """Return three sides of a block or grid; those that are left out are 1."""
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if len(parts) > 3 or not all(re.fullmatch(r"[1-9][0-9]{0,9}", part) for part in parts):
        raise SweepError(f"{option} {text}: must be one to three whole numbers, such as 16,16")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    return x, y, z

"""``sweep reproduce``."""

from __future__ import annotations

import argparse

from sweep.papers import reproduce as compute

__all__ = ["reproduce"]


def reproduce(arguments: argparse.Namespace) -> int:
    """Write a paper's tables and figures, as computed here, beside the printed values."""
    found = compute(arguments.paper)
    page = found.write(arguments.output or arguments.paper)
    print(found.summary())
    print(f"wrote {page} with {len(found.tables)} tables and {len(found.figures)} figures")
    return 0

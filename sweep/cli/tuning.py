"""``sweep import``: tuners' files in."""

from __future__ import annotations

import argparse

from sweep.importers.tuners import Columns

__all__ = ["import_"]


def import_(arguments: argparse.Namespace) -> int:
    """Import search spaces and measured times."""
    from sweep.measurements.importing import import_files

    imported = import_files(
        arguments.files,
        arguments.output,
        kernel=arguments.kernel,
        device=arguments.device,
        layout=arguments.layout,
        columns=Columns(
            [name.strip() for name in (arguments.parameters or "").split(",") if name.strip()],
            arguments.time or "",
            arguments.unit or "",
        ),
        overwrite=arguments.overwrite,
    )
    for line in imported.lines:
        print(line)
    for path in imported.files:
        print(f"wrote {path}")
    return 0

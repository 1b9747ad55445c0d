"""Device and kernel files of tests, and a function that changes them.

DEVICE and KERNEL are complete. AFFINE lacks the keys of its accesses, GLOBAL and SHARED, and
STAGES the number of THREADS of its second stage.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "data" / "specs"
DEVICE, KERNEL, AFFINE, STAGES = (
    (_FOLDER / name).read_text("utf-8")
    for name in ("device.toml", "kernel.toml", "affine.toml.in", "stages.toml.in")
)


def spoilt(text: str, old: str, new: str) -> str:
    """Return the text with one passage replaced; it must occur exactly once."""
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)

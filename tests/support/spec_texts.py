"""A complete device file and a complete kernel file, and a function that changes them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "specs"
DEVICE, KERNEL = ((FOLDER / f"{name}.toml").read_text("utf-8") for name in ("device", "kernel"))


def spoilt(text: str, old: str, new: str) -> str:
    """Return the text with one passage replaced; it must occur exactly once."""
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)

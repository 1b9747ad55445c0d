"""Pieces of text for whoever writes a kernel file: names, quotes, comments."""

from __future__ import annotations

import json

__all__ = ["key_of", "plain", "quoted"]


def key_of(name: str) -> str:
    """Return the key of a kernel's file for a name: lower-case letters, digits and _.

    >>> key_of("2D convolution")
    'kernel_2d_convolution'
    """
    text = "".join(c if c.isalnum() and c.isascii() else "_" for c in name.lower()).strip("_")
    return text if text[:1].isalpha() else f"kernel_{text}".rstrip("_")


def plain(text: str) -> str:
    """Return a text that can stand in a comment."""
    return "".join(c if c.isprintable() else "?" for c in text)


def quoted(text: str) -> str:
    """Return a text as TOML writes it, on one line."""
    return json.dumps(plain(text), ensure_ascii=False)

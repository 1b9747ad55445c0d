"""The kernels of kernels.cu, and their PTX; no GPU is needed."""

import re
from pathlib import Path

from sweep.cuda.nvrtc import load

SOURCE = Path(__file__).with_name("kernels.cu")


def all_texts():
    """Return the PTX of every kernel by name, for an A100."""
    text = load("8.0").compile(SOURCE.read_text(encoding="utf-8"), SOURCE.name, "8.0", []).ptx
    text = re.sub(r"BB\d+_", "BB0_", text)  # as if each was compiled alone
    head, *parts = re.split(r"^(?=\.visible \.entry )|^\s*// \.globl.*$", text, flags=re.MULTILINE)
    named = {found[1]: part for part in parts if (found := re.search(r"\.entry (\w+)", part))}
    return {name: head + part for name, part in named.items()}

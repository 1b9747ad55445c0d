"""Compile the sources in this folder again: ``python make.py [cuda] [numba] [triton]``.

Tests read the .ptx files only. This needs ``pip install -e '.[compilers]'`` and no GPU; the texts
are those of the installed versions, without comments, empty lines and debug sections.
"""

import importlib
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
COMPILERS = {
    "cuda": ("kernels.cu", "nvidia-cuda-nvrtc-cu12"),
    "numba": ("kernels_numba.py", "numba-cuda"),
    "triton": ("kernels_triton.py", "triton"),
}


def main():
    """Write the texts of the compilers that are named, or of all."""
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
    sys.path.insert(0, str(FOLDER))
    for name in sys.argv[1:] or COMPILERS:
        source, package = COMPILERS[name]
        module = importlib.import_module(f"kernels_{name}")
        texts = {FOLDER / f"{name}_{k}.ptx": text for k, text in module.all_texts().items()}
        if name == "triton":
            folder = FOLDER.parent / "configurations"
            texts |= {folder / f"{k}.ptx": text for k, text in module.all_configurations().items()}
        for path, text in texts.items():
            target = re.search(r"^\.target (\w+)", text, re.MULTILINE)[1]
            lines = [
                re.sub(r"\s*//.*", "", line) for line in text.split(".section")[0].splitlines()
            ]
            lines = [re.sub(r'"[^"]*/', '"', line.rstrip()) for line in lines if line.strip()]
            head = f"// {source}, {package} {version(package)}, {target}"
            path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Run the commands of gallery.md and replace its pictures: ``python docs/pictures.py``."""

import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent / "tests"), str(DOCS.parent)]

from support.pages import TEXTS, blocks, commands, shown_files  # noqa: E402

from sweep.cli import main  # noqa: E402

MEASURED = DOCS.parent / "notebooks/data/convolution_rtx_a4000.json.gz"
PLAN = """\
schema = 1
kernels = ["convolution"]
devices = ["rtx_a4000"]
models = ["combined"]
variant = "revised"
"""

with tempfile.TemporaryDirectory() as folder, chdir(folder):
    for name, text in shown_files().items():
        Path(name).write_text(text, encoding="utf-8")
    Path("tuned.toml").write_text(PLAN, encoding="utf-8")
    shutil.copy(MEASURED, ".")
    for block in blocks("sh", TEXTS[DOCS / "gallery.md"]):
        for arguments in commands(block):
            if main(arguments):
                sys.exit(f"failed: sweep {' '.join(arguments)}")
    for picture in Path().glob("*.png"):  # flat colours: a palette takes a third of the bytes
        colours = Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        colours.save(DOCS / "pictures" / picture.name, optimize=True)

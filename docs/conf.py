"""The site: ``python -m sphinx -W docs site`` builds it (``pip install '.[docs]'``)."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
os.environ["COLUMNS"] = "80"  # of the commands' help
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

project = "sweep"
author = copyright = "the sweep developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated"]
html_theme = "furo"
html_title = "sweep"
html_theme_options = {"light_css_variables": {"code-font-size": "73%"}}  # tables have 100 columns
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
exclude_patterns = ["site"]
autodoc_typehints = "none"

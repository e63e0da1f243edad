"""Sphinx: `make docs` builds the documentation from these pages, and the reference from the code."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "calmix"
author = copyright = "the calmix authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "calmix"
# The notes in methods/ are read into the generated page of each method.
exclude_patterns = ["_build", "methods/*"]
# Blocks of shell sessions hold what a command printed, which no lexer knows.
highlight_language = "none"


def setup(app):
    import generate

    app.connect("builder-inited", lambda _: generate.main())

"""Sphinx configuration of the operator's guide."""

import sys
from importlib.metadata import version as _version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "placement_sched"
author = copyright = "the placement_sched authors"  # noqa: A001 - Sphinx's name
release = version = _version("placement_sched")

extensions = ["generated", "questions", "eras", "oslo_config.sphinxext"]

html_theme = "alabaster"
html_title = "placement_sched"
html_theme_options = {
    "description": "Where a virtual machine goes, and why not elsewhere",
    "page_width": "68rem",
    "sidebar_width": "16rem",
}

# Options and names are to be copied as they stand.
smartquotes = False

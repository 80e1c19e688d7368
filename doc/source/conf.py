# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the operator's guide."""

import sys
from importlib.metadata import version as _version
from pathlib import Path

from placement_sched.api.placement.microversions import VERSIONING

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "placement-sched"
author = copyright = "the placement-sched authors"  # noqa: A001 - Sphinx's name
release = version = _version("placement_sched")

extensions = [
    "generated",
    "questions",
    "eras",
    "oslo_config.sphinxext",
    "sphinx.ext.extlinks",
    "sphinx_copybutton",
]
# The copy button leaves out prompts and printed lines.
copybutton_prompt_text = r"[$#] "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = "placement-sched"
html_static_path = ["../theme/_static"]
html_css_files = ["guide.css"]
templates_path = ["../theme/_templates"]
# The API reference is built into the folder api-ref of this guide ("make docs").
html_context = {"sibling_title": "API reference", "sibling": "api-ref/index.html"}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/sibling.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# :api-ref:`placement/traits` links to that page of the API reference.
extlinks = {"api-ref": ("api-ref/%s.html", "API reference: %s")}

# A block without a language is a console, a diagram or a value: not Python.
highlight_language = "none"

# The newest microversion is written once, in the code.
rst_epilog = f".. |placement_microversion| replace:: {VERSIONING.newest}"

# Options and names are to be copied as they stand.
smartquotes = False
#: ``sphinx-build -b man doc/source DIRECTORY``.
man_pages = [("commands", "placement-sched", "Placement API and scheduler", author, 8)]

# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the API reference."""

import sys
from importlib.metadata import version as _version
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils import unescape
from sphinx.application import Sphinx
from sphinx.util.docutils import ReferenceRole

from placement_sched.api.placement.microversions import VERSIONING

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "placement-sched"
author = copyright = "the placement-sched authors"  # noqa: A001 - Sphinx's name
release = version = _version("placement_sched")

extensions = ["os_api_ref", "openapi_operations"]
nitpicky = True

# Not OpenStack's own theme: it would bring that site's navigation and trackers along.
html_theme = "furo"
html_title = "placement-sched API reference"
html_static_path = ["../../doc/theme/_static", "_static"]
html_css_files = ["guide.css", "reference.css"]
templates_path = ["../../doc/theme/_templates"]
# This reference is built into the folder api-ref of the operator's guide ("make docs").
html_context = {"sibling_title": "Operator's guide", "sibling": "../index.html"}
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
# The newest microversion is written once, in the code.
rst_epilog = f".. |placement_microversion| replace:: {VERSIONING.newest}"

# Options and names are to be copied as they stand.
smartquotes = False


class Guide(ReferenceRole):
    """:guide:`the title <explain>` links to that page of the operator's guide.

    The reference is built into a folder of the guide ("make docs"), and its pages lie at different
    depths there.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link."""
        up = "../" * (self.env.docname.count("/") + 1)
        page, mark, section = self.target.partition("#")
        address = f"{up}{page}.html{mark}{section}"
        return [nodes.reference("", unescape(self.title), refuri=address)], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the role known to Sphinx."""
    app.add_role("guide", Guide())
    return {"parallel_read_safe": True}

"""Sphinx configuration of the API reference."""

from importlib.metadata import version as _version

project = "placement_sched"
author = copyright = "the placement_sched authors"  # noqa: A001 - Sphinx's name
release = version = _version("placement_sched")

extensions = ["os_api_ref"]
nitpicky = True

# Not OpenStack's own theme: it would bring that site's navigation and trackers along.
html_theme = "alabaster"
html_title = "placement_sched API reference"
html_theme_options = {
    "description": "API reference",
    "page_width": "75rem",
    "sidebar_width": "18rem",
}
html_static_path = ["_static"]
html_css_files = ["reference.css"]

# Options and names are to be copied as they stand.
smartquotes = False

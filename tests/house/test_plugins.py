# SPDX-License-Identifier: Apache-2.0
"""Every shipped plugin has a docstring that names its options, and a test module."""

import inspect
import re
from pathlib import Path

import pytest

from placement_sched.scheduler.drivers import all_drivers
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.request_filters import all_request_filters
from placement_sched.scheduler.weights import all_weighers
from tests.support.repository import PACKAGE, ROOT

pytestmark = pytest.mark.slow

PLUGINS = [*all_filters(), *all_weighers(), *all_request_filters(), *all_drivers()]
#: Modules of the plugin folders without plugins.
MODULES_WITHOUT_PLUGINS = {"__init__.py", "extra_specs_ops.py", "utils.py"}


def read_plugin_docstrings(plugin):
    """Return the docstrings of a plugin and of its module, which operators read."""
    return f"{inspect.getmodule(plugin).__doc__}\n{vars(plugin).get('__doc__')}"


def test_plugins_have_docstrings_of_their_own():
    """Without its own docstring a class shows that of its base."""
    undocumented = [
        plugin.__name__ for plugin in PLUGINS if len(str(vars(plugin).get("__doc__")).split()) < 5
    ]
    assert undocumented == []


def test_docstrings_of_plugins_name_their_options():
    unnamed = [
        f"{plugin.__name__}: [{group}] {option.dest}"
        for plugin in PLUGINS
        for group, option in getattr(plugin, "options", ())
        if not re.search(rf"\b{option.dest}\b", read_plugin_docstrings(plugin))
    ]
    assert unnamed == []


def test_plugins_have_test_modules():
    assert [plugin.__name__ for plugin in PLUGINS if not has_test_module(plugin)] == []


def has_test_module(plugin):
    module = Path(inspect.getfile(plugin)).relative_to(PACKAGE)
    own = ROOT / "tests" / module.parent / f"test_{module.name}"
    return own.exists() and "def test_" in own.read_text()


def test_every_module_of_the_plugin_folders_is_loaded():
    files = {Path(inspect.getfile(plugin)) for plugin in PLUGINS}
    folders = ("filters", "weights", "request_filters", "drivers")
    written = {
        path
        for folder in folders
        for path in (PACKAGE / "scheduler" / folder).glob("*.py")
        if path.name not in MODULES_WITHOUT_PLUGINS
    }
    assert files == written

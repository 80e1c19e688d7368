# SPDX-License-Identifier: Apache-2.0
"""Names and docstrings of modules."""

import pytest

from tests.house.spdx import LICENSE_TEXT
from tests.support.repository import format_relative_path, list_modules

pytestmark = pytest.mark.slow

NONDESCRIPT_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib"}
#: Plugins that were written for nova import these modules.
MODULES_FOR_NOVA_PLUGINS = {
    "placement_sched/scheduler/filters/utils.py",
    "placement_sched/scheduler/utils.py",
}


def test_module_names_are_descriptive():
    nondescript = {
        format_relative_path(path)
        for path in list_modules()
        if path.stem in NONDESCRIPT_NAMES or path.parent.name in NONDESCRIPT_NAMES
    }
    assert nondescript <= MODULES_FOR_NOVA_PLUGINS


def test_every_module_has_a_docstring():
    undocumented = [
        format_relative_path(path)
        for path in list_modules()
        if not path.read_text().removeprefix(f"# {LICENSE_TEXT}\n").startswith('"""')
    ]
    assert undocumented == []

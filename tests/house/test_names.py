# SPDX-License-Identifier: Apache-2.0
"""Names and docstrings of modules."""

import pytest

from tests.house.spdx import LICENSE
from tests.support.repository import modules, relative_name

pytestmark = pytest.mark.slow

NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib"}
#: Plugins written for nova import these by their names.
KNOWN_TO_PLUGINS = {
    "placement_sched/scheduler/filters/utils.py",
    "placement_sched/scheduler/utils.py",
}


def test_module_names_are_descriptive():
    nameless = {
        relative_name(path)
        for path in modules()
        if path.stem in NAMELESS or path.parent.name in NAMELESS
    }
    assert nameless <= KNOWN_TO_PLUGINS


def test_every_module_has_a_docstring():
    undocumented = [
        relative_name(path)
        for path in modules()
        if not path.read_text().removeprefix(f"# {LICENSE}\n").startswith('"""')
    ]
    assert undocumented == []

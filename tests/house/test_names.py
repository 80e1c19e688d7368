# SPDX-License-Identifier: Apache-2.0
"""Names and docstrings of modules."""

import pytest

from tests.support.repository import modules, shown

pytestmark = pytest.mark.slow

NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib"}
#: Plugins written for nova import these by their names.
KNOWN_TO_PLUGINS = {
    "placement_sched/scheduler/filters/utils.py",
    "placement_sched/scheduler/utils.py",
}


def test_no_module_has_an_empty_name():
    nameless = {
        shown(path) for path in modules() if path.stem in NAMELESS or path.parent.name in NAMELESS
    }
    assert nameless <= KNOWN_TO_PLUGINS


def test_every_module_has_a_docstring():
    undocumented = [shown(path) for path in modules() if not path.read_text().startswith('"""')]
    assert undocumented == []

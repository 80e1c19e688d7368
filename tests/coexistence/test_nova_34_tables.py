# SPDX-License-Identifier: Apache-2.0
"""The options and plugins of nova 34 equal the tables of the guide."""

import json
import subprocess

import pytest

from tests.differential.comparison import PEER_PYTHON
from tests.docs.eras import era_table  # noqa: F401 - a fixture

pytestmark = pytest.mark.system

_PRINT_NOVA_OPTIONS_PROGRAM = """
import json
from nova.conf import CONF, availability_zone, compute, scheduler, service
from nova.scheduler.filters import all_filters
from nova.scheduler.weights import all_weighers

options = {}
for module in (availability_zone, compute, scheduler, service):
    for group, members in module.list_opts().items():
        for option in members:
            options[f"{getattr(group, 'name', group)}.{option.dest}"] = option.default
# This is an option of oslo.service with nova's own default.
options["DEFAULT.graceful_shutdown_timeout"] = CONF.graceful_shutdown_timeout
names = [sorted(kind.__name__ for kind in every()) for every in (all_filters, all_weighers)]
print(json.dumps([options, *names]))
"""


@pytest.fixture(scope="module")
def nova_34_options():
    command = [PEER_PYTHON, "-W", "ignore", "-c", _PRINT_NOVA_OPTIONS_PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_options_and_defaults_of_nova_34_are_correct_in_the_guide(era_table, nova_34_options):  # noqa: F811
    options = nova_34_options[0]
    documented = {
        f"{group}.{name}": defaults[-1]
        for (group, name), defaults in era_table.DEFAULTS.items()
        if defaults[-1] != era_table.NONE
    }
    assert documented == {name: era_table.shown(options[name]) for name in documented}


def test_options_removed_before_nova_34_are_marked_in_the_guide(era_table, nova_34_options):  # noqa: F811
    removed = {
        f"{g}.{n}" for (g, n), row in era_table.DEFAULTS.items() if row[-1] == era_table.NONE
    }
    assert removed.isdisjoint(nova_34_options[0])


@pytest.mark.parametrize(("family", "position"), [("FILTERS", 1), ("WEIGHERS", 2)])
def test_plugins_of_nova_34_are_correct_in_the_guide(era_table, nova_34_options, family, position):  # noqa: F811
    plugins = [
        name for name, (eras, _) in getattr(era_table, family).items() if "34" in eras.split()
    ]
    assert sorted(plugins) == nova_34_options[position]

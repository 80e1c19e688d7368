# SPDX-License-Identifier: Apache-2.0
"""What the guide tells of nova 34 is what nova 34 has."""

import json
import subprocess

import pytest

from tests.differential.duel import PEER_PYTHON
from tests.docs.test_eras import era_table  # noqa: F401 - a fixture

pytestmark = pytest.mark.system

_ASK = """
import json
from nova.conf import CONF, availability_zone, compute, scheduler, service
from nova.scheduler.filters import all_filters
from nova.scheduler.weights import all_weighers

options = {}
for module in (availability_zone, compute, scheduler, service):
    for group, members in module.list_opts().items():
        for option in members:
            options[f"{getattr(group, 'name', group)}.{option.dest}"] = option.default
# oslo.service has this one, and nova gives it a default of its own.
options["DEFAULT.graceful_shutdown_timeout"] = CONF.graceful_shutdown_timeout
names = [sorted(kind.__name__ for kind in every()) for every in (all_filters, all_weighers)]
print(json.dumps([options, *names]))
"""


@pytest.fixture(scope="module")
def nova_34_options():
    command = [PEER_PYTHON, "-W", "ignore", "-c", _ASK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_options_and_defaults_equal_nova_34(era_table, nova_34_options):  # noqa: F811
    options = nova_34_options[0]
    told = {
        f"{group}.{name}": defaults[-1]
        for (group, name), defaults in era_table.DEFAULTS.items()
        if defaults[-1] != era_table.NONE
    }
    assert told == {name: era_table.shown(options[name]) for name in told}


def test_options_missing_in_nova_34_are_marked(era_table, nova_34_options):  # noqa: F811
    gone = {f"{g}.{n}" for (g, n), row in era_table.DEFAULTS.items() if row[-1] == era_table.NONE}
    assert gone.isdisjoint(nova_34_options[0])


@pytest.mark.parametrize(("family", "position"), [("FILTERS", 1), ("WEIGHERS", 2)])
def test_plugins_equal_nova_34(era_table, nova_34_options, family, position):  # noqa: F811
    told = [
        name
        for name, (era_table, _) in getattr(era_table, family).items()
        if "34" in era_table.split()
    ]
    assert sorted(told) == nova_34_options[position]

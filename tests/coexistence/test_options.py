# SPDX-License-Identifier: Apache-2.0
"""Every option of OpenStack placement is an option here, or listed as ignored."""

import json
import subprocess

import pytest

from placement_sched.config.options.ignored import WITHOUT_MEANING
from placement_sched.operations.config_check import Catalogue
from placement_sched.scheduler.plugins import make_full_conf
from tests.differential.comparison import PEER_PYTHON

pytestmark = pytest.mark.system


def test_every_option_of_the_peer_is_supported_or_ignored():
    command = PEER_PYTHON.with_name("oslo-config-generator")
    done = subprocess.run(
        [command, "--namespace", "placement.conf", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    groups = json.loads(done.stdout)["options"]
    theirs = {
        (group, option["name"].replace("-", "_"))
        for group, members in groups.items()
        for option in members["opts"]
    }
    assert ("placement", "max_allocation_candidates") in theirs
    ours = Catalogue(make_full_conf())
    unknown = {option for option in theirs if ours.find(*option) is None}
    assert unknown <= set(WITHOUT_MEANING)

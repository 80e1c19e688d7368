# SPDX-License-Identifier: Apache-2.0
"""The policy rules of the Placement API have OpenStack placement's names and defaults."""

import subprocess

import pytest
import yaml

from placement_sched.api.policy_rules import PLACEMENT_RULES
from tests.differential.comparison import PEER_PYTHON

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def peer_rules() -> dict[str, str]:
    done = subprocess.run(
        [PEER_PYTHON.with_name("oslopolicy-policy-generator"), "--namespace", "placement"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    rules: dict[str, str] = yaml.safe_load(done.stdout)
    return rules


def test_policy_names_and_defaults_equal_the_peers(peer_rules):
    assert {rule.name: rule.check_str for rule in PLACEMENT_RULES} == peer_rules

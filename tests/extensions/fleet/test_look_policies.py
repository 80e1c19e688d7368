# SPDX-License-Identifier: Apache-2.0
"""API policy rules in the guide."""

import json
import re

import pytest

from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.support.commands import run_captured
from tests.support.repository import ROOT

PROGRAM = """
import json
from nova import policies
from placement import policies as placement
print(json.dumps([rule.name for rule in (*policies.list_rules(), *placement.list_rules())]))
"""


@pytest.mark.system
def test_rules_of_the_guide_exist():
    skip_without_peer()
    done = run_captured([PEER_PYTHON, "-c", PROGRAM], check=True)
    text = (ROOT / "doc/source/look.rst").read_text()
    rules = set(
        re.findall(r"^   ((?:os_compute_api|placement):[a-z0-9:_-]+): ", text, re.MULTILINE)
    )
    assert len(rules) == 16
    assert rules - set(json.loads(done.stdout.splitlines()[-1])) == set()

# SPDX-License-Identifier: Apache-2.0
"""nova 34's API accepts all our extra specs except preferred traits."""

import json
import subprocess

import pytest

from placement_sched.scheduler.extra_specs import all_validators
from tests.differential.comparison import PEER_PYTHON, needs_peer

pytestmark = pytest.mark.system

#: Prints the keys that nova rejects.
_CHECK = """
import json
import sys
from nova import exception
from nova.api.validation.extra_specs import validators

rejected = []
for key, value in json.loads(sys.argv[1]).items():
    try:
        validators.validate(key, value)
    except exception.ValidationError:
        rejected.append(key)
print(json.dumps(rejected))
"""

OURS = {
    "scheduler:prefer_traits": "CUSTOM_A,HW_CPU_X86_AVX2",
    "scheduler:avoid_traits": "CUSTOM_A",
    "scheduler:spread_by": "rack",
    "scheduler:max_skew": "1",
    "scheduler:spread_mode": "soft",
}


def rejected_by_nova(extra_specs):
    needs_peer()
    command = [PEER_PYTHON, "-W", "ignore", "-c", _CHECK, json.dumps(extra_specs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_nova_accepts_the_extra_specs_of_this_service():
    names = {each.name for each in all_validators() if each.name.startswith("scheduler:")}
    assert names == OURS.keys()
    traits = {"trait:CUSTOM_A": "preferred", "trait:CUSTOM_B": "required"}
    assert rejected_by_nova({**OURS, **traits}) == ["trait:CUSTOM_A"]

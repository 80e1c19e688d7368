# SPDX-License-Identifier: Apache-2.0
"""Options and policy rules of OpenStack placement, and extra specs of nova, equal ours."""

import json
import subprocess
from typing import Any

import pytest
import yaml

from placement_sched.api.policy_rules import PLACEMENT_RULES
from placement_sched.config.options.ignored import WITHOUT_MEANING
from placement_sched.operations.config_check import Catalogue, check_lines
from placement_sched.scheduler.extra_specs import list_validators
from placement_sched.scheduler.plugins import make_full_conf
from tests.differential.comparison import PEER_PYTHON
from tests.support.states import read_settings_text

pytestmark = pytest.mark.system

#: The namespaces of the files that the sample configurations of OpenStack's services document.
NAMESPACES = {
    "nova": [
        *("nova.conf", "oslo.log", "oslo.messaging", "oslo.policy", "oslo.privsep", "oslo.db"),
        *("oslo.service.periodic_task", "oslo.service.service", "oslo.cache", "oslo.middleware"),
        *("oslo.concurrency", "oslo.reports", "osprofiler", "oslo.limit"),
        *("oslo.versionedobjects", "keystonemiddleware.auth_token"),
    ],
    "placement": [
        *("placement.conf", "oslo.log", "oslo.middleware.cors", "oslo.policy"),
        *("oslo.middleware.http_proxy_to_wsgi", "keystonemiddleware.auth_token"),
    ],
}
#: Prints the keys that nova rejects.
_CHECK_EXTRA_SPECS_PROGRAM = """
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
OUR_EXTRA_SPECS = {
    "scheduler:prefer_traits": "CUSTOM_A,HW_CPU_X86_AVX2",
    "scheduler:avoid_traits": "CUSTOM_A",
    "scheduler:spread_by": "rack",
    "scheduler:max_skew": "1",
    "scheduler:spread_mode": "soft",
}


def run_peer_program(name: str, *arguments: str) -> str:
    command = [PEER_PYTHON.with_name(name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout


def test_every_option_of_openstack_placement_is_supported_or_ignored():
    arguments = ("--namespace", "placement.conf", "--format", "json")
    groups = json.loads(run_peer_program("oslo-config-generator", *arguments))["options"]
    theirs = {
        (group, option["name"].replace("-", "_"))
        for group, members in groups.items()
        for option in members["opts"]
    }
    assert ("placement", "max_allocation_candidates") in theirs
    ours = Catalogue(make_full_conf())
    unknown = {(group, name) for group, name in theirs if name not in ours.options.get(group, {})}
    assert unknown <= set(WITHOUT_MEANING)


def list_peer_options(namespaces: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the options of the peer by group, with type and range."""
    arguments = [word for name in namespaces for word in ("--namespace", name)]
    printed = run_peer_program("oslo-config-generator", *arguments, "--format", "json")
    return {name: group["opts"] for name, group in json.loads(printed)["options"].items()}


def find_limit(option: dict[str, Any], limit: str) -> object:
    """Return the least or greatest value of an option, None for a text."""
    if option["choices"]:
        return option["choices"][0 if limit == "min" else -1][0]
    if option["type"] in {"integer value", "floating point value"}:
        unlimited = 10**12 if limit == "max" else -(10**12)
        return unlimited if option[limit] is None else option[limit]
    return {"boolean value": limit == "max", "port value": 80}.get(option["type"])


def write_limits(options: dict[str, list[dict[str, Any]]], limit: str) -> str:
    """Return a file with numbers, choices and booleans at a limit."""
    lines = []
    for group, members in options.items():
        lines.append(f"[{group}]")
        for option in members:
            value = find_limit(option, limit)
            if value is not None:
                lines.append(f"{option['dest']} = {value}")
    return "\n".join(lines)


@pytest.mark.parametrize("limit", ["min", "max"])
@pytest.mark.parametrize("service", NAMESPACES)
def test_options_of_openstack_are_accepted_in_their_whole_range(tmp_path, service, limit):
    options = list_peer_options(NAMESPACES[service])
    settings = read_settings_text(tmp_path, write_limits(options, limit))
    problems = check_lines(settings.conf, {}, settings)
    assert [str(problem) for problem in problems if problem.fatal] == []


def test_policy_names_and_defaults_equal_those_of_openstack_placement():
    rules = yaml.safe_load(
        run_peer_program("oslopolicy-policy-generator", "--namespace", "placement")
    )
    assert {rule.name: rule.check_str for rule in PLACEMENT_RULES} == rules


def test_nova_accepts_all_our_extra_specs_except_preferred_traits():
    names = {each.name for each in list_validators() if each.name.startswith("scheduler:")}
    assert names == OUR_EXTRA_SPECS.keys()
    traits = {"trait:CUSTOM_A": "preferred", "trait:CUSTOM_B": "required"}
    printed = run_peer_program(
        PEER_PYTHON.name,
        "-W",
        "ignore",
        "-c",
        _CHECK_EXTRA_SPECS_PROGRAM,
        json.dumps({**OUR_EXTRA_SPECS, **traits}),
    )
    assert json.loads(printed.splitlines()[-1]) == ["trait:CUSTOM_A"]

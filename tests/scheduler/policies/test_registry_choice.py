# SPDX-License-Identifier: Apache-2.0
"""Selections of a policy for a request, and their reports."""

import pytest

from placement_sched.errors import PluginFailed
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.policies.registry import choose, choose_named, get_policies
from placement_sched.scheduler.policies.selectors import BasePolicySelector, all_selectors
from tests.scheduler.policies.conftest import (
    DENSE_POLICY,
    POLICY_AGGREGATES,
    SPARSE_POLICY,
    choose_policy,
    find_policy,
)
from tests.support.states import build_spec


@pytest.mark.parametrize("kind", all_selectors())
def test_request_that_no_selector_applies_to_has_the_default_policy(policies, kind):
    assert find_policy(policies, build_spec(), kind.name) == ("default", [])


@pytest.mark.parametrize(
    ("names", "policy"),
    [
        (["availability_zone", "hint"], DENSE_POLICY),
        (["hint", "availability_zone"], SPARSE_POLICY),
        (["tenant", "extra_specs"], "default"),
    ],
)
def test_first_selector_that_finds_a_single_policy_decides(policies, names, policy):
    spec = build_spec(availability_zone="az1", scheduler_hints={"sched_policy": SPARSE_POLICY})
    assert choose_policy(policies, spec, *names).policy.name == policy


def test_policy_report_has_the_result_of_each_selector(policies):
    spec = build_spec(availability_zone="az1,az3", project_id="nobody")
    result = choose_policy(policies, spec).report.as_json()
    assert result["name"] == "default"
    assert {item["name"]: item["outcome"] for item in result["selectors"]} == {
        "hint": "not set in the request",
        "availability_zone": f"several policies match: {DENSE_POLICY}, {SPARSE_POLICY}",
        "tenant": "no aggregate with a policy matches",
        "extra_specs": "not set in the request",
    }
    (zone,) = [
        selector for selector in result["selectors"] if selector["name"] == "availability_zone"
    ]
    assert zone["requested"] == "az1,az3"
    assert [entry["aggregate"] for entry in zone["matched"]] == ["agg1", "agg3"]


def test_default_policy_applies_for_an_invalid_policy(policies):
    result = choose_policy(policies, build_spec(availability_zone="az4"), "availability_zone")
    assert result.policy.name == "default"
    (selector,) = result.report.as_json()["selectors"]
    names = f"default, {DENSE_POLICY}, {SPARSE_POLICY}"
    expected = f"it cannot be used: there is no policy 'gone'. There are: {names}"
    assert selector["outcome"] == expected


def test_request_requires_the_aggregates_of_its_policy_unless_it_is_a_rebuild(policies):
    uuids = ["6e3f0f52-9f5d-4e0a-8a7b-0e2f1d0c9b8a"]
    spec = build_spec(availability_zone="az1", requested_destination={"aggregates": uuids})
    confined = choose_policy(policies, spec, "availability_zone").confine(spec)
    assert confined.destination.aggregates == (*uuids, POLICY_AGGREGATES[0].uuid)
    hints = {"_nova_check_type": ["rebuild"]}
    spec = build_spec(availability_zone="az1", scheduler_hints=hints)
    choice = choose_policy(policies, spec, "availability_zone")
    assert choice.policy.name == DENSE_POLICY
    assert choice.confine(spec) is spec


@pytest.mark.parametrize(("is_enabled", "number"), [(False, 0), (True, 4)])
def test_option_forbids_aggregates_with_policies_to_requests_of_the_default_policy(
    policies, is_enabled, number
):
    settings = policies.default.settings.with_overrides(
        {"scheduler.default_policy_avoids_policy_aggregates": is_enabled}
    )
    result = choose(
        build_spec(), get_policies(settings), get_plugins(settings).selectors, POLICY_AGGREGATES
    )
    assert len(result.avoided) == number
    assert len(result.confine(build_spec()).destination.forbidden_aggregates) == number


def test_request_for_a_named_policy_is_confined_to_all_its_aggregates(policies):
    uuids = choose_named(DENSE_POLICY, policies, POLICY_AGGREGATES).confined
    assert uuids == tuple(entry.uuid for entry in POLICY_AGGREGATES[:2])
    assert choose_named("default", policies, POLICY_AGGREGATES).confined == ()


def test_policy_selection_option_accepts_every_name_of_each_selector(policies):
    settings = policies.default.settings
    for kind in all_selectors():
        for name in (kind.name, kind.__name__, *kind.aliases):
            named = settings.with_overrides({"scheduler.policy_selection": [name]})
            assert [type(selector) for selector in get_plugins(named).selectors] == [kind]


class FailingSelector(BasePolicySelector):
    def find_requested_value(self, _spec_obj):
        raise ValueError("out of order")


def test_error_of_a_failing_selector_names_the_selector(policies):
    with pytest.raises(PluginFailed, match="FailingSelector failed: ValueError: out of order"):
        choose(build_spec(), policies, [FailingSelector()], POLICY_AGGREGATES)

# SPDX-License-Identifier: Apache-2.0
"""Selections of a policy for a request, and their reports."""

import pytest

from placement_sched.errors import PluginFailed
from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.policies.registry import choose, choose_named, policies_for
from placement_sched.scheduler.policies.selectors import BasePolicySelector, all_selectors
from tests.support.states import build_aggregate, build_spec, read_settings_text

DENSE, ROOMY = "high_cpu_density", "low_cpu_density"
AGGREGATES = (
    build_aggregate(
        1, sched_policy=DENSE, availability_zone="az1", filter_tenant_id="acme, other", ssd="true"
    ),
    build_aggregate(2, sched_policy=DENSE, availability_zone="az2", ssd="true", gpu="8"),
    build_aggregate(3, sched_policy=ROOMY, availability_zone="az3", filter_tenant_id2="acme2"),
    build_aggregate(4, sched_policy="gone", availability_zone="az4"),
)


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    text = (
        f"[scheduler]\npolicies = {DENSE}, {ROOMY}\n"
        f"[{DENSE}]\nram_weight_multiplier = -1\n[{ROOMY}]\ncpu_allocation_ratio = 1.0\n"
    )
    return policies_for(read_settings_text(tmp_path_factory.mktemp("policies"), text))


def choose_policy(policies, spec, *names):
    settings = policies.default.settings
    if names:
        settings = settings.with_overrides({"scheduler.policy_selection": list(names)})
    return choose(spec, policies, plugins_for(settings).selectors, AGGREGATES)


def spec_with_hint(policy):
    return build_spec(scheduler_hints={"sched_policy": policy})


@pytest.mark.parametrize(
    ("selector", "spec", "policy", "confined"),
    [
        ("availability_zone", build_spec(availability_zone="az1"), DENSE, [1]),
        ("availability_zone", build_spec(availability_zone="az2,az1"), DENSE, [1, 2]),
        ("availability_zone", build_spec(availability_zone="az3"), ROOMY, [3]),
        ("availability_zone", build_spec(availability_zone="az1,az3"), "default", []),
        ("availability_zone", build_spec(availability_zone="nova"), "default", []),
        ("extra_specs", build_spec({"ssd": "true"}), DENSE, [1, 2]),
        ("extra_specs", build_spec({"aggregate_instance_extra_specs:gpu": ">= 4"}), DENSE, [2]),
        ("extra_specs", build_spec({"ssd": "true", "gpu": "4"}), "default", []),
        ("extra_specs", build_spec({"ssd": "<or> no <or> true", "gpu": "8"}), DENSE, [2]),
        ("extra_specs", build_spec({"hw:cpu_policy": "shared"}), "default", []),
        ("hint", spec_with_hint(DENSE), DENSE, [1, 2]),
        ("hint", spec_with_hint(ROOMY.upper()), ROOMY, [3]),
        *(("hint", spec_with_hint(name), "default", []) for name in ("default", "nowhere", "gone")),
        ("tenant", build_spec(project_id="acme"), DENSE, [1]),
        ("tenant", build_spec(project_id="acme2"), ROOMY, [3]),
        ("tenant", build_spec(project_id="nobody"), "default", []),
        *((kind.name, build_spec(), "default", []) for kind in all_selectors()),
    ],
)
def test_selector_finds_the_policy_and_its_aggregates(policies, selector, spec, policy, confined):
    result = choose_policy(policies, spec, selector)
    assert result.policy.name == policy
    assert result.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)


@pytest.mark.parametrize(
    ("names", "policy"),
    [
        (["availability_zone", "hint"], DENSE),
        (["hint", "availability_zone"], ROOMY),
        (["tenant", "extra_specs"], "default"),
    ],
)
def test_first_selector_with_one_policy_decides(policies, names, policy):
    spec = build_spec(availability_zone="az1", scheduler_hints={"sched_policy": ROOMY})
    assert choose_policy(policies, spec, *names).policy.name == policy


def test_report_has_the_result_of_each_selector(policies):
    spec = build_spec(availability_zone="az1,az3", project_id="nobody")
    answer = choose_policy(policies, spec).report.as_json()
    assert answer["name"] == "default"
    assert {item["name"]: item["outcome"] for item in answer["selectors"]} == {
        "hint": "not set in the request",
        "availability_zone": f"several policies match: {DENSE}, {ROOMY}",
        "tenant": "no aggregate with a policy matches",
        "extra_specs": "not set in the request",
    }
    (zone,) = [
        selector for selector in answer["selectors"] if selector["name"] == "availability_zone"
    ]
    assert zone["asked"] == "az1,az3"
    assert [entry["aggregate"] for entry in zone["matched"]] == ["agg1", "agg3"]


def test_default_policy_applies_for_an_invalid_policy(policies):
    result = choose_policy(policies, build_spec(availability_zone="az4"), "availability_zone")
    assert result.policy.name == "default"
    (selector,) = result.report.as_json()["selectors"]
    expected = f"it cannot be used: there is no policy 'gone'; there are: default, {DENSE}, {ROOMY}"
    assert selector["outcome"] == expected


def test_request_requires_the_aggregates_of_its_policy_unless_it_is_a_rebuild(policies):
    uuids = ["6e3f0f52-9f5d-4e0a-8a7b-0e2f1d0c9b8a"]
    spec = build_spec(availability_zone="az1", requested_destination={"aggregates": uuids})
    confined = choose_policy(policies, spec, "availability_zone").confine(spec)
    assert confined.destination.aggregates == (*uuids, AGGREGATES[0].uuid)
    hints = {"_nova_check_type": ["rebuild"]}
    spec = build_spec(availability_zone="az1", scheduler_hints=hints)
    choice = choose_policy(policies, spec, "availability_zone")
    assert choice.policy.name == DENSE
    assert choice.confine(spec) is spec


@pytest.mark.parametrize(("is_enabled", "number"), [(False, 0), (True, 4)])
def test_option_forbids_policy_aggregates_to_default_requests(policies, is_enabled, number):
    settings = policies.default.settings.with_overrides(
        {"scheduler.default_policy_avoids_policy_aggregates": is_enabled}
    )
    result = choose(
        build_spec(), policies_for(settings), plugins_for(settings).selectors, AGGREGATES
    )
    assert len(result.avoided) == number
    assert len(result.confine(build_spec()).destination.forbidden_aggregates) == number


def test_request_for_a_named_policy_is_confined_to_all_its_aggregates(policies):
    uuids = choose_named(DENSE, policies, AGGREGATES).confined
    assert uuids == tuple(entry.uuid for entry in AGGREGATES[:2])
    assert choose_named("default", policies, AGGREGATES).confined == ()


def test_policy_selection_option_accepts_every_name_of_each_selector(policies):
    settings = policies.default.settings
    for kind in all_selectors():
        for name in (kind.name, kind.__name__, *kind.aliases):
            named = settings.with_overrides({"scheduler.policy_selection": [name]})
            assert [type(selector) for selector in plugins_for(named).selectors] == [kind]


class FailingSelector(BasePolicySelector):
    def asked(self, _spec_obj):
        raise ValueError("out of order")


def test_error_of_a_failing_selector_names_the_selector(policies):
    with pytest.raises(PluginFailed, match="FailingSelector failed: ValueError: out of order"):
        choose(build_spec(), policies, [FailingSelector()], AGGREGATES)

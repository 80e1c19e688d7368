# SPDX-License-Identifier: Apache-2.0
"""Selection: which policy a request comes under, and what is told of the choice."""

import pytest

from placement_sched.errors import PluginFailed
from placement_sched.scheduler.plugins import make_full_conf, plugins_for, read_settings
from placement_sched.scheduler.policies.registry import choose, choose_named, policies_for
from placement_sched.scheduler.policies.selectors import BasePolicySelector, all_selectors
from tests.support.states import a_spec, an_aggregate

DENSE, ROOMY = "high_cpu_density", "low_cpu_density"
AGGREGATES = (
    an_aggregate(
        1, sched_policy=DENSE, availability_zone="az1", filter_tenant_id="acme, other", ssd="true"
    ),
    an_aggregate(2, sched_policy=DENSE, availability_zone="az2", ssd="true", gpu="8"),
    an_aggregate(3, sched_policy=ROOMY, availability_zone="az3", filter_tenant_id2="acme2"),
    an_aggregate(4, sched_policy="gone", availability_zone="az4"),
)


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    file = tmp_path_factory.mktemp("policies") / "nova.conf"
    file.write_text(
        f"[scheduler]\npolicies = {DENSE}, {ROOMY}\n"
        f"[{DENSE}]\nram_weight_multiplier = -1\n[{ROOMY}]\ncpu_allocation_ratio = 1.0\n"
    )
    return policies_for(read_settings([str(file)], make_full_conf()))


def chosen(policies, spec, *names):
    settings = policies.default.settings
    if names:
        settings = settings.with_overrides({"scheduler.policy_selection": list(names)})
    return choose(spec, policies, plugins_for(settings).selectors, AGGREGATES)


@pytest.mark.parametrize(
    ("names", "policy"),
    [
        (["availability_zone", "hint"], DENSE),
        (["hint", "availability_zone"], ROOMY),
        (["tenant", "extra_specs"], "default"),
    ],
)
def test_the_first_selector_that_finds_one_policy_decides(policies, names, policy):
    spec = a_spec(availability_zone="az1", scheduler_hints={"sched_policy": ROOMY})
    assert chosen(policies, spec, *names).policy.name == policy


def test_it_is_told_which_matched_and_why_none_was_chosen(policies):
    spec = a_spec(availability_zone="az1,az3", project_id="nobody")
    told = chosen(policies, spec).report.as_json()
    assert told["name"] == "default"
    assert {one["name"]: one["outcome"] for one in told["selectors"]} == {
        "hint": "not set in the request",
        "availability_zone": f"several policies match: {DENSE}, {ROOMY}",
        "tenant": "no aggregate with a policy matches",
        "extra_specs": "not set in the request",
    }
    (zone,) = [one for one in told["selectors"] if one["name"] == "availability_zone"]
    assert zone["asked"] == "az1,az3"
    assert [one["aggregate"] for one in zone["matched"]] == ["agg1", "agg3"]


def test_a_policy_that_cannot_be_used_is_told_and_the_default_holds(policies):
    found = chosen(policies, a_spec(availability_zone="az4"), "availability_zone")
    assert found.policy.name == "default"
    (told,) = found.report.as_json()["selectors"]
    assert told["outcome"] == (
        f"it cannot be used: there is no policy 'gone'; there are: default, {DENSE}, {ROOMY}"
    )


def test_the_request_is_confined_to_what_matched_and_keeps_what_it_asked(policies):
    uuids = ["6e3f0f52-9f5d-4e0a-8a7b-0e2f1d0c9b8a"]
    spec = a_spec(availability_zone="az1", requested_destination={"aggregates": uuids})
    confined = chosen(policies, spec, "availability_zone").confine(spec)
    assert confined.destination.aggregates == (*uuids, AGGREGATES[0].uuid)


def test_a_rebuild_stays_where_it_is(policies):
    hints = {"_nova_check_type": ["rebuild"]}
    spec = a_spec(availability_zone="az1", scheduler_hints=hints)
    found = chosen(policies, spec, "availability_zone")
    assert found.policy.name == DENSE
    assert found.confine(spec) is spec


@pytest.mark.parametrize(("avoids", "avoided"), [(False, 0), (True, 4)])
def test_default_requests_stay_out_of_policy_aggregates_by_option(policies, avoids, avoided):
    settings = policies.default.settings.with_overrides(
        {"scheduler.default_policy_avoids_policy_aggregates": avoids}
    )
    found = choose(a_spec(), policies_for(settings), plugins_for(settings).selectors, AGGREGATES)
    assert len(found.avoided) == avoided
    assert len(found.confine(a_spec()).destination.forbidden_aggregates) == avoided


def test_under_a_policy_by_name_all_its_aggregates_are_open(policies):
    assert choose_named(DENSE, policies, AGGREGATES).confined == tuple(
        one.uuid for one in AGGREGATES[:2]
    )
    assert choose_named("default", policies, AGGREGATES).confined == ()


def test_each_selector_is_known_by_the_names_of_the_document(policies):
    settings = policies.default.settings
    for kind in all_selectors():
        for name in (kind.name, kind.__name__, *kind.aliases):
            named = settings.with_overrides({"scheduler.policy_selection": [name]})
            assert [type(one) for one in plugins_for(named).selectors] == [kind]


class Raises(BasePolicySelector):
    def asked(self, _spec_obj):
        raise ValueError("out of order")


def test_a_selector_that_raises_is_named(policies):
    with pytest.raises(PluginFailed, match="Raises failed: ValueError: out of order"):
        choose(a_spec(), policies, [Raises()], AGGREGATES)

# SPDX-License-Identifier: Apache-2.0
"""User stories of the founding document, with its example configuration.

The document is "Multiple Active Scheduler Configurations/Drivers/Policies". Missing section headers
are added, and AvailabilityFilter is replaced by AvailabilityZoneFilter.
"""

import pytest

from placement_sched.model.hardware.request import RequestedHardware
from tests.api.scheduler.policy_clouds import (
    AGGREGATES_BY_POLICY,
    EXTRA_SPECS_SELECTOR,
    FILTERS_BY_SELECTOR,
    HINT_SELECTOR,
    POLICIES_CONFIG,
    TENANT_SELECTOR,
    ZONE_SELECTOR,
    create_aggregate,
    report_hosts,
)
from tests.api.scheduler.policy_clouds import make_policy_app as make_policy_app  # noqa: PLC0414 - a fixture
from tests.api.scheduler.policy_clouds import start_app as start_app  # noqa: PLC0414 - a fixture
from tests.support.scheduling import get_selected_hosts, make_flavor, make_spec, make_uuid

pytestmark = pytest.mark.slow


#: Request fields that select the policy, by selector and policy.
REQUEST_FIELDS_BY_SELECTOR = {
    ZONE_SELECTOR: {
        "low_cpu_density": {"availability_zone": "cpu_intensive_az"},
        "high_cpu_density": {"availability_zone": "shared_az"},
    },
    TENANT_SELECTOR: {
        "low_cpu_density": {"project_id": "engineers"},
        "high_cpu_density": {"project_id": "students"},
    },
    EXTRA_SPECS_SELECTOR: {
        "low_cpu_density": {
            "flavor": make_flavor(extra_specs={"aggregate_instance_extra_specs:cpus": "own"})
        },
        "high_cpu_density": {
            "flavor": make_flavor(extra_specs={"aggregate_instance_extra_specs:cpus": "shared"})
        },
    },
    HINT_SELECTOR: {
        "low_cpu_density": {"scheduler_hints": {"sched_policy": "low_cpu_density"}},
        "high_cpu_density": {"scheduler_hints": {"sched_policy": "high_cpu_density"}},
    },
}
HOSTS_BY_POLICY = {policy: set(hosts) for policy, (_, hosts, _) in AGGREGATES_BY_POLICY.items()}


def explain_request(app, **fields):
    body = {"request_spec": make_spec(**fields)}
    return app.post_json("/scheduler/v1/explain", body).json


def list_passing_hosts(explanation):
    return {host["host"] for host in explanation["hosts"]}


def list_selector_outcomes(explanation):
    selectors = explanation["funnel"]["policy"]["selectors"]
    return {selector["name"]: selector["outcome"] for selector in selectors}


def test_policies_show_the_options_of_their_sections_and_defaults(make_policy_app):
    app = make_policy_app()
    shown = app.get("/scheduler/v1/policies").json["policies"]
    option = "DEFAULT.cpu_allocation_ratio"
    ratios = {policy["name"]: policy["options"][option]["value"] for policy in shown}
    assert ratios == {"default": 4.0, "low_cpu_density": 1.0, "high_cpu_density": 8.0}
    # Options that a section does not set have the default's values, as the document requires.
    filters = [one["options"]["filter_scheduler.enabled_filters"]["value"] for one in shown]
    assert filters == [["AvailabilityZoneFilter", "CoreFilter"]] * 3


def test_number_of_instances_is_limited_by_the_allocation_ratio_of_the_policy(make_policy_app):
    app = make_policy_app()
    room = {"low_cpu_density": 16, "high_cpu_density": 128}
    for policy, zone in (
        ("low_cpu_density", "cpu_intensive_az"),
        ("high_cpu_density", "shared_az"),
    ):
        for count in (2 * room[policy] // 16, 2 * room[policy] // 16 + 1):
            request = make_spec(
                *(make_uuid(number + 1) for number in range(count)),
                availability_zone=zone,
                flavor=make_flavor(vcpus=16, memory_mb=1, root_gb=1),
            )
            explanation = app.post_json("/scheduler/v1/explain", {"request_spec": request}).json
            fits = count * 16 <= 2 * room[policy]
            assert (explanation["outcome"] == "selected") == fits, (policy, count)


@pytest.mark.parametrize("selection", FILTERS_BY_SELECTOR)
def test_request_uses_the_selected_policy_or_the_default_policy(make_policy_app, selection):
    app = make_policy_app(selection)
    for policy, fields in REQUEST_FIELDS_BY_SELECTOR[selection].items():
        explanation = explain_request(app, **fields)
        assert explanation["policy"] == explanation["funnel"]["policy"]["name"] == policy
        assert list(list_selector_outcomes(explanation).values()) == ["chosen"]
        (matched,) = explanation["funnel"]["policy"]["selectors"][0]["matched"]
        assert (matched["aggregate"], matched["policy"]) == (
            AGGREGATES_BY_POLICY[policy][0],
            policy,
        )
        assert list_passing_hosts(explanation) == HOSTS_BY_POLICY[policy]
        # The aggregate is a condition of the candidates query, not only of a filter.
        candidates = explanation["funnel"]["allocation_candidates"]
        assert f"member_of=in%3A{matched['uuid']}" in candidates["query"]
        body = {"request_spec": make_spec(**fields), "claim": False}
        response = app.post_json("/scheduler/v1/select_destinations", body).json
        assert set(get_selected_hosts(response)) <= HOSTS_BY_POLICY[policy]
        decision = app.get(f"/scheduler/v1/decisions/{response['decision']}").json
        assert decision["policy"] == policy
    explanation = explain_request(app, project_id="other")
    assert explanation["policy"] == "default"
    (outcome,) = list_selector_outcomes(explanation).values()
    assert outcome in {"not set in the request", "no aggregate with a policy matches"}
    # The filter of the default policy accepts the host without an aggregate, as in nova.
    assert "cn5" in list_passing_hosts(explanation)


def test_request_that_matches_several_policies_uses_the_default_policy(make_policy_app):
    explanation = explain_request(make_policy_app(), availability_zone="cpu_intensive_az,shared_az")
    assert explanation["policy"] == "default"
    (selector,) = explanation["funnel"]["policy"]["selectors"]
    assert selector["outcome"] == "several policies match: high_cpu_density, low_cpu_density"
    assert [one["aggregate"] for one in selector["matched"]] == ["rack1", "rack2"]
    assert list_passing_hosts(explanation) == {"cn1", "cn2", "cn3", "cn4"}


def test_request_may_use_hosts_of_all_aggregates_of_its_policy(make_policy_app):
    app = make_policy_app()
    tags = {"sched_policy": "low_cpu_density", "availability_zone": "cpu_intensive_az"}
    create_aggregate(app, "rack3", ["cn5"], **tags)
    explanation = explain_request(app, availability_zone="cpu_intensive_az")
    assert explanation["policy"] == "low_cpu_density"
    assert list_passing_hosts(explanation) == {"cn1", "cn2", "cn5"}


def test_option_excludes_hosts_of_policy_aggregates_from_requests_of_the_default_policy(
    make_policy_app,
):
    text = f"{POLICIES_CONFIG}[scheduler]\ndefault_policy_avoids_policy_aggregates = true\n"
    assert list_passing_hosts(explain_request(make_policy_app(text=text))) == {"cn5"}


def test_first_matching_policy_selector_decides(make_policy_app):
    app = make_policy_app(
        f"{HINT_SELECTOR}, {TENANT_SELECTOR}, {ZONE_SELECTOR}", companion="AllHostsFilter"
    )
    explanation = explain_request(app, project_id="other", availability_zone="shared_az")
    assert explanation["policy"] == "high_cpu_density"
    assert list_selector_outcomes(explanation) == {
        "hint": "not set in the request",
        "tenant": "no aggregate with a policy matches",
        "availability_zone": "chosen",
    }
    explanation = explain_request(app, project_id="engineers", availability_zone="shared_az")
    assert explanation["policy"] == "low_cpu_density"


def test_hint_sched_policy_default_chooses_the_default_policy(make_policy_app):
    explanation = explain_request(
        make_policy_app(HINT_SELECTOR), scheduler_hints={"sched_policy": "default"}
    )
    assert explanation["policy"] == "default"
    assert list_selector_outcomes(explanation) == {"hint": "chosen"}
    assert list_passing_hosts(explanation) == {"cn5"}


CUSTOM_SELECTOR_MODULE = '''
from placement_sched.scheduler.policies.selectors import BasePolicySelector


class ByName(BasePolicySelector):
    """Selects the aggregate that a hint names."""

    def find_requested_value(self, spec_obj):
        return spec_obj.get_scheduler_hint("rack")

    def matches(self, spec_obj, aggregate):
        return aggregate.name == self.find_requested_value(spec_obj)
'''


def test_third_party_policy_selector_is_loaded_by_dotted_path(
    make_policy_app, tmp_path, monkeypatch
):
    (tmp_path / "acme_selectors.py").write_text(CUSTOM_SELECTOR_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    app = make_policy_app("acme_selectors.ByName", companion="AllHostsFilter")
    explanation = explain_request(app, scheduler_hints={"rack": "rack2"})
    assert explanation["policy"] == "high_cpu_density"
    assert list_selector_outcomes(explanation) == {"ByName": "chosen"}


def test_policies_can_set_their_own_filters_weighers_and_driver(make_policy_app):
    text = """[scheduler]
policy_selection = {0}
policies = low_cpu_density, high_cpu_density
[filter_scheduler]
enabled_filters = {1}
[low_cpu_density]
enabled_filters = ComputeFilter, NumInstancesFilter
weight_classes = nova.scheduler.weights.ram.RAMWeigher
ram_weight_multiplier = -2.0
[high_cpu_density]
driver = chance_scheduler
"""
    app = make_policy_app(text=text)
    funnel = explain_request(app, availability_zone="cpu_intensive_az")["funnel"]
    assert [stage["name"] for stage in funnel["filters"]] == ["ComputeFilter", "NumInstancesFilter"]
    assert funnel["weighers"] == [{"name": "RAMWeigher", "multiplier": -2.0}]
    funnel = explain_request(app, availability_zone="shared_az")["funnel"]
    # The chance driver uses ComputeFilter only.
    assert [one["name"] for one in funnel["filters"]] == ["ComputeFilter"]
    assert funnel["weighers"] == []


def test_hardware_of_flavor_and_image_is_parsed_once_per_request(make_policy_app, monkeypatch):
    app = make_policy_app()
    read = []

    class CountingRequestedHardware(RequestedHardware):
        def __init__(self, *both):
            read.append(both)
            super().__init__(*both)

    monkeypatch.setattr(
        "placement_sched.model.request_spec.RequestedHardware", CountingRequestedHardware
    )
    for zone, policy in (("shared_az", "high_cpu_density"), (None, "default")):
        read.clear()
        assert explain_request(app, availability_zone=zone)["policy"] == policy
        assert len(read) == 1


SPREAD_POLICY_HINT = {"scheduler_hints": {"sched_policy": "spread"}}
AVOID_POLICY_AGGREGATES_CONFIG = "[scheduler]\ndefault_policy_avoids_policy_aggregates = true\n"


def create_aggregate_of_policy_spread(app):
    """Report three hosts, and create an aggregate that names a policy."""
    report_hosts(app, 3)
    create_aggregate(app, "spread", ["cn1"], sched_policy="spread")
    return app


def test_configuration_section_is_a_policy_if_metadata_of_an_aggregate_name_it(start_app):
    app = create_aggregate_of_policy_spread(start_app("[spread]\n"))
    for text in (
        "[spread]\n",
        "[spread]\nhost_subset_size = 2\n",
        "[spread]\ncpu_allocation_ratio =\n",
    ):
        app = start_app(text)
        explanation = explain_request(app, **SPREAD_POLICY_HINT)
        assert (explanation["policy"], list_passing_hosts(explanation)) == ("spread", {"cn1"}), text


def test_unused_invalid_policy_is_explained_and_logged(start_app, caplog):
    create_aggregate_of_policy_spread(start_app("[spread]\n"))
    explanation = explain_request(
        start_app("[spread]\nhost_subset_size = two\n"), **SPREAD_POLICY_HINT
    )
    assert (explanation["policy"], list_passing_hosts(explanation)) == (
        "default",
        {"cn1", "cn2", "cn3"},
    )
    outcomes = [selector["outcome"] for selector in explanation["funnel"]["policy"]["selectors"]]
    (why,) = [outcome for outcome in outcomes if outcome.startswith("it cannot be used: ")]
    assert "nova.conf:2" in why
    assert "'two' is not an integer" in why
    assert "(spread) names policy 'spread'" in caplog.text
    for name in ("ram_weight_multiplier", "host_subset_size", "service_down_time"):
        app = start_app(f"[spread]\n{name} =\n")
        assert explain_request(app, **SPREAD_POLICY_HINT)["policy"] == "default", name


def test_requests_of_the_default_policy_avoid_aggregates_of_other_policies(start_app):
    app = create_aggregate_of_policy_spread(
        start_app(f"{AVOID_POLICY_AGGREGATES_CONFIG}[spread]\nhost_subset_size = 2\n")
    )
    assert list_passing_hosts(explain_request(app)) == {"cn2", "cn3"}
    create_aggregate(app, "default", ["cn2"], sched_policy="default")
    assert list_passing_hosts(explain_request(app)) == {"cn2", "cn3"}
    invalid = start_app(f"{AVOID_POLICY_AGGREGATES_CONFIG}[spread]\nhost_subset_size = two\n")
    assert list_passing_hosts(explain_request(invalid)) == {"cn2", "cn3"}


def test_option_override_with_an_empty_text_for_a_number_is_400(start_app):
    body = {
        "request_spec": make_spec(),
        "overrides": {"filter_scheduler.ram_weight_multiplier": ""},
    }
    (error,) = start_app("").post_json("/scheduler/v1/explain", body, status=400).json["errors"]
    assert "an empty text is not a number" in error["detail"]

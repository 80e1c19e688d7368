# SPDX-License-Identifier: Apache-2.0
"""Explanations: a run without a claim, stage by stage."""

from uuid import UUID

import pytest
from sqlalchemy import insert

from placement_sched.config.settings import MAX_INT
from placement_sched.db.tables import placement_aggregates
from tests.scheduler.providers import read_allocations_of_consumer
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.statements import record_statements

OLD_REPORT_TIME = "2020-01-01T00:00:00Z"


def report_hosts(app):
    """Report ten hosts with different memory. One host is down."""
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [
            make_report(
                f"cn{n}",
                memory_mb=16384 * n,
                **({"last_seen_up": OLD_REPORT_TIME} if n == 5 else {}),
            )
            for n in range(1, 11)
        ],
    )
    return app


@pytest.fixture
def writable_cloud(app):
    return report_hosts(app)


@pytest.fixture(scope="module")
def cloud(make_shared_app):
    """A cloud for tests that change nothing."""
    return report_hosts(make_shared_app())


def test_every_stage_of_an_explanation_has_its_host_counts(cloud):
    response = explain_request(cloud, make_spec(flavor=make_flavor(memory_mb=40000)))
    candidates = response["funnel"]["allocation_candidates"]
    (memory,) = (step for step in candidates["steps"] if step["before"] != step["after"])
    assert (memory["constraint"], memory["detail"]) == ("resources", "MEMORY_MB:40000")
    assert (candidates["providers"], memory["before"], memory["after"]) == (10, 10, 8)
    assert memory["rejected"][0] == {
        "host": "cn1",
        "node": "cn1",
        "reason": "MEMORY_MB: 16384 free of 16384, 40000 requested",
        "kind": "capacity",
        "resource_class": "MEMORY_MB",
        "requested": 40000,
        "free": 16384,
        "capacity": 16384,
    }
    (alive, *_) = response["funnel"]["filters"]
    assert (alive["name"], alive["before"], alive["after"]) == ("ComputeFilter", 8, 7)
    assert [entry["host"] for entry in alive["rejected"]] == ["cn5"]
    assert [host["host"] for host in response["hosts"]] == [
        "cn10", "cn9", "cn8", "cn7", "cn6", "cn4", "cn3",
    ]  # fmt: skip


def test_explanation_has_the_weights_the_query_and_the_selection(writable_cloud):
    explanation = explain_request(writable_cloud, make_spec(make_uuid(1)))
    for host in explanation["hosts"]:
        total = sum(weight["weighted"] for weight in host["weights"].values())
        assert host["weight"] == pytest.approx(total)
        for weight in host["weights"].values():
            assert weight["weighted"] == weight["normalized"] * weight["multiplier"]
    assert explanation["funnel"]["allocation_candidates"]["query"] == (
        "limit=1000&resources=DISK_GB%3A10%2CMEMORY_MB%3A1024%2CVCPU%3A1"
        "&root_required=%21COMPUTE_STATUS_DISABLED"
    )
    assert read_allocations_of_consumer(writable_cloud, make_uuid(1)) == {}
    assert (
        select_hosts(writable_cloud, make_spec(make_uuid(1)))["selections"]
        == explanation["selections"]
    )


def test_option_overrides_apply_only_to_their_request(cloud):
    overrides = {"filter_scheduler.ram_weight_multiplier": -1.0}
    packed = explain_request(cloud, make_spec(), overrides=overrides)
    assert packed["hosts"][0]["host"] == "cn1"
    assert explain_request(cloud, make_spec())["hosts"][0]["host"] == "cn10"


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        ({"filter_scheduler.nonsense": 1}, "filter_scheduler.nonsense"),
        ({"filter_scheduler.host_subset_size": "many"}, "host_subset_size"),
        ({"filter_scheduler.enabled_filters": ["ComputeFiltre"]}, "ComputeFilter"),
        ({"filter_scheduler.weight_classes": ["os.abort"]}, "os.abort"),
        ({"placement_database.connection": "sqlite:///other.db"}, "placement_database.connection"),
        ({"api.auth_strategy": "keystone"}, "api.auth_strategy"),
        ({"neutron.endpoint_override": "http://127.0.0.1:1"}, "is not read per request"),
        ({"debug": True}, "'debug'"),
        ({"scheduler.decision_retention": 1}, "scheduler.decision_retention"),
        ({"default_availability_zone": ["a"]}, "default_availability_zone"),
        ({"filter_scheduler.enabled_filters": "ComputeFiltre"}, "ComputeFilter"),
        ({"scheduler.what_if_timeout": 10**15}, "scheduler.what_if_timeout"),
        ({"scheduler.capacity_budget": "9" * 30}, "scheduler.capacity_budget"),
    ],
    ids=str,
)
def test_error_for_an_invalid_override_names_the_option(cloud, overrides, word):
    body = {"request_spec": make_spec(), "overrides": overrides}
    (error,) = cloud.post_json("/scheduler/v1/explain", body, status=400).json["errors"]
    assert word in error["detail"]


def test_override_above_the_usable_range_means_the_greatest_usable_value(cloud):
    overrides = {"DEFAULT.service_down_time": 10**15, "scheduler.max_attempts": "9" * 30}
    explanation = explain_request(cloud, make_spec(), overrides=overrides)
    assert explanation["outcome"] == "selected"


ALL_HOSTS_FILTER_PATH = "placement_sched.scheduler.filters.all_hosts_filter.AllHostsFilter"


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (
            {"enabled_filters": ["ComputeFilter", "AllHostsFilter"]},
            ["ComputeFilter", "AllHostsFilter"],
        ),
        ({"enabled_filters": "ComputeFilter,AllHostsFilter"}, ["ComputeFilter", "AllHostsFilter"]),
        (
            {"enabled_filters": "AllHostsFilter", "available_filters": ALL_HOSTS_FILTER_PATH},
            ["AllHostsFilter"],
        ),
    ],
    ids=["list", "comma-separated string", "string for repeatable option"],
)
def test_list_option_is_overridden_by_a_list_or_a_string(cloud, overrides, names):
    overrides = {f"filter_scheduler.{name}": value for name, value in overrides.items()}
    overrides["DEFAULT.service_down_time"] = MAX_INT
    explanation = explain_request(cloud, make_spec(), overrides=overrides)
    assert [stage["name"] for stage in explanation["funnel"]["filters"]] == names


def test_hosts_key_restricts_the_explained_hosts_but_not_the_selection(cloud):
    response = explain_request(
        cloud, make_spec(flavor=make_flavor(memory_mb=40000)), hosts=["cn2", "cn9"]
    )
    assert [host["host"] for host in response["hosts"]] == ["cn9"]
    steps = response["funnel"]["allocation_candidates"]["steps"]
    assert [entry["host"] for step in steps for entry in step["rejected"]] == ["cn2"]
    assert sum(step["before"] - step["after"] for step in steps) == 2
    assert response["selections"][0][0]["service_host"] == "cn10"


def test_max_rejected_limits_the_lists_of_rejected_hosts_but_not_their_counts(cloud):
    request = make_spec(flavor=make_flavor(memory_mb=150000))
    limited_steps = explain_request(cloud, request, max_rejected=2)["funnel"][
        "allocation_candidates"
    ]["steps"]
    all_steps = explain_request(cloud, request, max_rejected=0)["funnel"]["allocation_candidates"][
        "steps"
    ]
    lengths = [len(step["rejected"]) for step in limited_steps]
    assert lengths == [min(2, len(step["rejected"])) for step in all_steps]
    assert [step["after"] for step in limited_steps] == [step["after"] for step in all_steps]


def test_selection_sends_no_sql_statements_for_explanations(writable_cloud):
    database = writable_cloud.app.services.database
    with record_statements(database) as explained:
        explain_request(writable_cloud, make_spec())
    with record_statements(database) as plain:
        select_hosts(writable_cloud, make_spec(), claim=False)
    plain = [statement for statement in plain if "sched_decision" not in statement]
    assert len(plain) < len(explained)
    assert not any("met_0" in statement for statement in plain)


@pytest.mark.slow
@pytest.mark.all_databases
def test_request_with_10000_aggregates_can_be_explained_on_every_database(app):
    uuids = [str(UUID(int=number)) for number in range(1, 10_001)]
    app.app.services.database.write(
        lambda connection: connection.execute(
            insert(placement_aggregates), [{"uuid": uuid} for uuid in uuids]
        )
    )
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    entries = [",".join(uuids[n : n + 250]) for n in range(0, 5_000, 250)]
    request = make_spec(
        requested_destination={"aggregates": entries, "forbidden_aggregates": uuids[5_000:]}
    )
    steps = explain_request(app, request)["funnel"]["allocation_candidates"]["steps"]
    assert sum(1 for step in steps if step["constraint"] == "member_of") == 21
    select_hosts(app, request, status=409)


def test_option_overrides_apply_to_the_request_groups_of_pci_devices(sqlite_app):
    alias = '{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}'
    request = make_spec(flavor=make_flavor(extra_specs={"pci_passthrough:alias": "gpu:1"}))
    result = explain_request(sqlite_app, request, overrides={"pci.alias": [alias]})
    assert result["outcome"] == "no_valid_host"
    response = sqlite_app.post_json(
        "/scheduler/v1/explain", {"request_spec": request}, status=400
    ).json
    assert "[pci] alias does not configure 'gpu'" in response["errors"][0]["detail"]


def test_funnel_has_a_stage_for_candidates_without_a_compute_node(cloud_without_compute_nodes):
    response = explain_request(cloud_without_compute_nodes, make_spec())
    assert response["outcome"] == "no_valid_host"
    (stage,) = response["funnel"]["filters"]
    assert (stage["name"], stage["before"], stage["after"]) == ("compute_nodes", 3, 0)
    assert stage["rejected"][0] == {
        "host": "cmp1.cloud",
        "node": "cmp1.cloud",
        "reason": "no compute node is reported under the uuid of this resource provider",
        "kind": "no_compute_node",
    }
    obstacle = response["funnel"]["obstacle"]
    assert obstacle["reason"].startswith("3 hosts can take the request, but none is a known")
    (error,) = cloud_without_compute_nodes.post_json(
        "/scheduler/v1/select_destinations", {"request_spec": make_spec()}, status=409
    ).json["errors"]
    assert obstacle["reason"] in error["detail"]
    assert error["funnel"]["filters"] == [stage]


@pytest.mark.parametrize(
    "option", ["scheduler.max_placement_results", "placement.max_allocation_candidates"]
)
def test_funnel_stage_of_the_candidate_limit_has_host_counts_and_the_option(cloud, option):
    explanation = explain_request(cloud, make_spec(), overrides={option: 4})
    last = explanation["funnel"]["allocation_candidates"]["steps"][-1]
    group, name = option.split(".")
    step = (last["constraint"], last["detail"], last["before"], last["after"])
    assert step == ("limit", "4", 10, 4)
    assert (last["option"], last["option_source"]) == (f"[{group}] {name}", "overrides")

# SPDX-License-Identifier: Apache-2.0
"""Explanations with simulated changes."""

import pytest

from placement_sched.scheduler.scheduler import Scheduler
from tests.scheduler.providers import add_provider
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.simulations import (
    COMPUTE_HEADERS,
    check_query_slots,
    post_aggregate_action,
    report_hosts,
)
from tests.support.simulations import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.support.statements import record_statements
from tests.support.states import read_settings_text

WRITING_NAMES = ("claims", "database", "select_destinations", "explain", "simulate")


@pytest.fixture(scope="module")
def shared_cloud(make_shared_app):
    """The same cloud, for tests that change nothing."""
    return report_hosts(make_shared_app())


def list_passing_hosts(explanation):
    return [host["host"] for host in explanation["hosts"]]


def test_host_drained_in_a_simulation_is_rejected(shared_cloud):
    response = explain_request(
        shared_cloud, make_spec(), changes=[{"drain": ["cn2"]}], hosts=["cn2"]
    )
    assert response["selections"][0][0]["service_host"] == "cn1"
    reasons = " ".join(reason["reason"] for reason in response["verdicts"][0]["reasons"])
    assert "drained in this simulation" in reasons


def test_host_removed_in_a_simulation_is_unknown(cloud):
    select_hosts(cloud, make_spec(make_uuid(1)))
    response = explain_request(cloud, make_spec(), changes=[{"remove": ["cn2"]}])
    assert list_passing_hosts(response) == ["cn1", "cn3"]
    of_host = explain_request(cloud, make_spec(), changes=[{"remove": ["cn2"]}], hosts=["cn2"])
    assert of_host["verdicts"][0]["verdict"] == "unknown"
    assert response["funnel"]["allocation_candidates"]["providers"] == 2


def test_simulated_hosts_are_like_an_existing_host_but_empty(cloud):
    select_hosts(cloud, make_spec(make_uuid(1), flavor=make_flavor(memory_mb=100000)))
    request = make_spec(flavor=make_flavor(memory_mb=120000))
    assert list_passing_hosts(explain_request(cloud, request)) == []
    changes = [{"add": {"like": "cn2", "count": 2}}]
    assert list_passing_hosts(explain_request(cloud, request, changes=changes)) == [
        "cn2+1",
        "cn2+2",
    ]


def test_simulation_cannot_write_a_claim(shared_cloud):
    def list_writing_names(simulation):
        assert not isinstance(simulation, Scheduler)
        return [name for name in WRITING_NAMES if hasattr(simulation, name)]

    scheduler = shared_cloud.app.services.scheduler
    assert all(hasattr(scheduler, name) for name in WRITING_NAMES)
    assert scheduler.simulate([], list_writing_names) == []


IN_ZONE_1, IN_ZONE_2 = {"availability_zone": "az1"}, {"availability_zone": "az2"}
CHANGE_OF_AGGREGATE_TO_ZONE_2 = {
    "aggregate": {"name": "gpu", "metadata": {"availability_zone": "az2", "note": None}}
}


@pytest.mark.all_databases
@pytest.mark.parametrize(
    ("fields", "changes", "expected"),
    [
        (IN_ZONE_1, [{"add": {"like": "cn3"}}, {"drain": ["cn3"]}], ["cn3+1"]),
        (
            IN_ZONE_1,
            [{"add": {"like": "cn3"}}, {"add": {"like": "cn3+1"}}, {"remove": ["cn3", "cn3+1"]}],
            ["cn3+1+1"],
        ),
        (
            {"flavor": make_flavor(memory_mb=200000)},
            [{"inventory": {"host": "cn1", "resource_class": "MEMORY_MB", "total": 262144}}],
            ["cn1"],
        ),
        (
            {},
            [{"inventory": {"host": "cn1", "resource_class": "DISK_GB", "total": 0}}],
            ["cn2", "cn3"],
        ),
        (
            IN_ZONE_1,
            [{"aggregate": {"name": "gpu", "add_hosts": ["cn1"], "remove_hosts": ["cn3"]}}],
            ["cn1"],
        ),
        (IN_ZONE_2, [CHANGE_OF_AGGREGATE_TO_ZONE_2], ["cn3"]),
        (IN_ZONE_1, [CHANGE_OF_AGGREGATE_TO_ZONE_2], []),
    ],
)
def test_simulated_changes_apply_in_their_order(cloud, fields, changes, expected):
    before = explain_request(cloud, make_spec(**fields))
    assert (
        list_passing_hosts(explain_request(cloud, make_spec(**fields), changes=changes)) == expected
    )
    assert explain_request(cloud, make_spec(**fields))["hosts"] == before["hosts"]


CONFIG_WITH_DENSE_POLICY = """
[DEFAULT]
service_down_time = 86400
[scheduler]
policies = dense
default_policy_avoids_policy_aggregates = true
[dense]
ram_weight_multiplier = -1
"""


def test_simulated_aggregate_with_a_policy_changes_the_passing_hosts(
    sqlite_url, make_app, tmp_path
):
    settings = read_settings_text(tmp_path, CONFIG_WITH_DENSE_POLICY)
    cloud = report_hosts(
        make_app(settings.with_overrides({"placement_database.connection": sqlite_url}))
    )
    changes = [{"aggregate": {"name": "gpu", "metadata": {"sched_policy": "dense"}}}]
    assert list_passing_hosts(explain_request(cloud, make_spec(), changes=changes)) == [
        "cn2",
        "cn1",
    ]
    assert list_passing_hosts(
        explain_request(cloud, make_spec(), changes=changes, policy="dense")
    ) == ["cn3"]
    assert len(list_passing_hosts(explain_request(cloud, make_spec()))) == 3


def test_simulated_changes_have_the_effect_of_real_changes(cloud):
    changes = [
        {"drain": ["cn2"]},
        {"aggregate": {"name": "gpu", "add_hosts": ["cn1"], "metadata": {"x": "y"}}},
    ]
    simulated = explain_request(cloud, make_spec(availability_zone="az1"), changes=changes)
    number = cloud.get("/compute/v2.1/os-aggregates", headers=COMPUTE_HEADERS).json["aggregates"][
        0
    ]["id"]
    post_aggregate_action(cloud, number, {"add_host": {"host": "cn1"}})
    post_aggregate_action(cloud, number, {"set_metadata": {"metadata": {"x": "y"}}})
    uuid = cloud.get("/compute/v2.1/os-services?host=cn2", headers=COMPUTE_HEADERS).json[
        "services"
    ][0]["id"]
    disabled = {"status": "disabled", "disabled_reason": "drained in this simulation"}
    cloud.put_json(f"/compute/v2.1/os-services/{uuid}", disabled, headers=COMPUTE_HEADERS)
    real = explain_request(cloud, make_spec(availability_zone="az1"))
    for result in (simulated, real):
        for request_filter in result["funnel"]["request_filters"]:
            del request_filter["elapsed_ms"]
    assert simulated["funnel"] == real["funnel"]
    assert simulated["hosts"] == real["hosts"]


def build_inventory_change(resource_class="VCPU", **fields):
    return {"inventory": {"host": "cn1", "resource_class": resource_class, **fields}}


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"drain": ["cn1", "cn22"]}, ".drain[1]", "Did you mean 'cn2'"),
        ({"remove": ["none"]}, ".remove[0]", "there is no host 'none'"),
        ({"add": {"like": "CN1"}}, ".add.like", "Did you mean 'cn1'"),
        ({"drian": ["cn1"]}, "", "Did you mean 'drain'"),
        ({"add": {"like": "cn1", "count": 0}}, ".add.count", "less than"),
        ({"add": {"liek": "cn1"}}, ".add", "'like' is a required"),
        ({"drain": ["cn1"], "remove": ["cn2"]}, "", "too many properties"),
        (
            build_inventory_change("VCPUS", total=1),
            ".inventory.resource_class",
            "Did you mean 'VCPU'",
        ),
        (
            build_inventory_change(total=4, reserved=5),
            ".inventory",
            "reserved (5) is more than the total (4)",
        ),
        (build_inventory_change("VGPU"), ".inventory", "give a total"),
        (
            build_inventory_change(provider="cn9", total=1),
            ".inventory.provider",
            "Did you mean 'cn1'",
        ),
        ({"aggregate": {"name": "gpus"}}, ".aggregate.name", "Did you mean 'gpu'"),
        (
            {"aggregate": {"name": "gpu", "remove_hosts": ["cn1"]}},
            ".aggregate.remove_hosts[0]",
            "Did you mean 'cn3'",
        ),
    ],
)
def test_error_for_an_invalid_simulated_change_has_its_place_and_the_nearest_name(
    shared_cloud, change, place, words
):
    body = {"request_spec": make_spec(), "changes": [change]}
    response = shared_cloud.post_json("/scheduler/v1/explain", body, status=400)
    detail = response.json["errors"][0]["detail"]
    assert words in detail
    assert f"at $.changes[0]{place})" in detail


def test_inventory_of_several_providers_needs_the_name_of_one_of_them(sqlite_app):
    report_hosts(sqlite_app)
    for name in ("card1", "card2"):
        add_provider(sqlite_app, name, parent=uuid_of("cn1"), CUSTOM_CARD=1)
    changes = [build_inventory_change("CUSTOM_CARD", total=4)]
    body = {"request_spec": make_spec(), "changes": changes}
    response = sqlite_app.post_json("/scheduler/v1/explain", body, status=400)
    reason = (
        "several providers of host cn1 have CUSTOM_CARD: name one of them as provider: card1, card2"
    )
    assert response.json["errors"][0]["detail"] == f"{reason} (at $.changes[0].inventory)"


def test_number_of_simulated_hosts_is_limited(shared_cloud):
    changes = [{"add": {"like": "cn1", "count": 600}}, {"add": {"like": "cn2", "count": 401}}]
    body = {"request_spec": make_spec(), "changes": changes}
    response = shared_cloud.post_json("/scheduler/v1/explain", body, status=400)
    detail = response.json["errors"][0]["detail"]
    assert detail == "1001 hosts are added, the maximum is 1000 (at $.changes)"


def test_statement_count_does_not_depend_on_the_number_of_simulated_hosts(shared_cloud):
    numbers = []
    for count in (2, 150):
        changes = [{"add": {"like": "cn3", "count": count}}]
        with record_statements(shared_cloud.app.services.database) as statements:
            response = explain_request(shared_cloud, make_spec(), changes=changes)
        assert len(list_passing_hosts(response)) == 3 + count
        numbers.append(len(statements))
    assert numbers[0] == numbers[1]


def test_number_of_concurrent_simulations_is_limited(cloud):
    body = {"request_spec": make_spec(), "changes": [{"drain": ["cn1"]}]}
    check_query_slots(cloud, "/scheduler/v1/explain", body)

# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies of host aggregates: unknown policies, and hosts with two policies."""

from functools import partial

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.conftest import AggregateApi
from tests.support.concurrency import run_concurrently
from tests.support.hosts import add_service
from tests.support.policies import POLICIES_CONF_TEXT, settings_with_policies
from tests.support.statements import record_statements

HIGH_CPU_DENSITY, LOW_CPU_DENSITY = "high_cpu_density", "low_cpu_density"


@pytest.fixture
def aggregate_api(database_url, tmp_path, make_app):
    """A client of a server with the documented policies and the hosts h1 and h2."""
    aggregate_api = AggregateApi(make_app(settings_with_policies(database_url, tmp_path)))
    for host in ("h1", "h2"):
        add_service(aggregate_api.app.app.services.database, host)
    return aggregate_api


def create_aggregate_with_scheduling_policy(aggregate_api, name, policy):
    """Create an aggregate with a scheduling policy and return its id."""
    number = aggregate_api.create_and_get_id(name)
    aggregate_api.set_metadata(number, sched_policy=policy)
    return number


def test_host_cannot_be_in_aggregates_of_two_scheduling_policies(aggregate_api):
    high, low = (
        create_aggregate_with_scheduling_policy(aggregate_api, "high", HIGH_CPU_DENSITY),
        create_aggregate_with_scheduling_policy(aggregate_api, "low", LOW_CPU_DENSITY),
    )
    aggregate_api.add_host(high, "h1")
    assert get_error_message(aggregate_api.add_host(low, "h1", status=409)) == (
        f"Cannot add host to aggregate {low}: low names policy '{LOW_CPU_DENSITY}', but host h1 "
        f"has policy '{HIGH_CPU_DENSITY}' from aggregate {high} (high)."
    )
    assert aggregate_api.show(low).json["aggregate"]["hosts"] == []
    assert aggregate_api.add_host(low, "h2").status_int == 200


def test_policy_change_conflicts_with_another_policy_of_its_hosts(aggregate_api):
    high, plain = (
        create_aggregate_with_scheduling_policy(aggregate_api, "high", HIGH_CPU_DENSITY),
        aggregate_api.create_and_get_id("plain"),
    )
    for host in ("h1", "h2"):
        aggregate_api.add_host(high, host)
        aggregate_api.add_host(plain, host)
    assert get_error_message(
        aggregate_api.set_metadata(plain, sched_policy=LOW_CPU_DENSITY, ssd="true", status=409)
    ) == (
        f"Cannot update aggregate {plain}: plain names policy '{LOW_CPU_DENSITY}', but hosts h1, "
        f"h2 have policy '{HIGH_CPU_DENSITY}' from aggregate {high} (high)."
    )
    assert aggregate_api.show(plain).json["aggregate"]["metadata"] == {}


def test_host_can_be_in_several_aggregates_of_a_scheduling_policy(aggregate_api):
    for name, policy in (("one", HIGH_CPU_DENSITY), ("two", " High_CPU_Density ")):
        aggregate_api.add_host(
            create_aggregate_with_scheduling_policy(aggregate_api, name, policy), "h1"
        )
    aggregate_api.add_host(
        create_aggregate_with_scheduling_policy(aggregate_api, "named", "default"), "h1", status=409
    )


def test_host_can_move_to_an_aggregate_of_another_scheduling_policy(aggregate_api):
    high, low = (
        create_aggregate_with_scheduling_policy(aggregate_api, "high", HIGH_CPU_DENSITY),
        create_aggregate_with_scheduling_policy(aggregate_api, "low", LOW_CPU_DENSITY),
    )
    aggregate_api.add_host(high, "h1")
    aggregate_api.set_metadata(high, sched_policy=None)
    assert "sched_policy" not in aggregate_api.show(high).json["aggregate"]["metadata"]
    aggregate_api.add_host(low, "h1")
    aggregate_api.set_metadata(high, sched_policy=HIGH_CPU_DENSITY, status=409)
    aggregate_api.remove_host(low, "h1")
    aggregate_api.set_metadata(high, sched_policy=HIGH_CPU_DENSITY)
    aggregate_api.set_metadata(high, sched_policy=LOW_CPU_DENSITY)
    # Other keys are no policy.
    aggregate_api.set_metadata(high, SCHED_POLICY="nope", sched_policy2="nope")


def test_unknown_scheduling_policy_is_409(aggregate_api):
    number = aggregate_api.create_and_get_id("a")
    for policy in ["nope", "", "filter_scheduler"]:
        response = get_error_message(
            aggregate_api.set_metadata(number, sched_policy=policy, status=409)
        )
        assert response.startswith(f"Cannot update aggregate {number}: a cannot use policy"), policy
        assert f"'{policy}'" in response, policy
        assert aggregate_api.show(number).json["aggregate"]["metadata"] == {}, policy


def test_scheduling_policy_with_an_invalid_configuration_is_409(sqlite_url, tmp_path, make_app):
    text = "[broken]\ncpu_allocation_ratio = many\n"
    aggregate_api = AggregateApi(make_app(settings_with_policies(sqlite_url, tmp_path, text)))
    response = get_error_message(
        aggregate_api.set_metadata(
            aggregate_api.create_and_get_id("a"), sched_policy="broken", status=409
        )
    )
    assert "policies.conf:" in response
    assert "'many'" in response


def test_host_cannot_be_added_to_an_aggregate_of_a_removed_scheduling_policy(
    sqlite_url, tmp_path, make_app
):
    before = AggregateApi(make_app(settings_with_policies(sqlite_url, tmp_path)))
    add_service(before.app.app.services.database, "h1")
    add_service(before.app.app.services.database, "h2")
    number = create_aggregate_with_scheduling_policy(before, "a", HIGH_CPU_DENSITY)
    before.add_host(number, "h1")
    after = AggregateApi(make_app(settings_with_policies(sqlite_url, tmp_path, "[another]\n")))
    assert "there is no policy" in get_error_message(after.add_host(number, "h2", status=409))
    # A host and a policy that are there can be removed.
    after.remove_host(number, "h1")
    after.set_metadata(number, sched_policy=None)


def test_sched_policy_metadata_is_409_if_no_policies_are_configured(sqlite_aggregate_api):
    response = get_error_message(
        sqlite_aggregate_api.set_metadata(
            sqlite_aggregate_api.create_and_get_id("a"), sched_policy=HIGH_CPU_DENSITY, status=409
        )
    )
    assert "There are: default" in response


@pytest.mark.all_databases
def test_concurrent_additions_of_a_host_to_two_policies_never_both_succeed(aggregate_api):
    numbers = [
        create_aggregate_with_scheduling_policy(
            aggregate_api, f"a{each}", (HIGH_CPU_DENSITY, LOW_CPU_DENSITY)[each % 2]
        )
        for each in range(4)
    ]
    responses = run_concurrently(
        *(partial(aggregate_api.add_host, number, "h1", status="*") for number in numbers)
    )
    won = [
        number for number, each in zip(numbers, responses, strict=True) if each.status_int == 200
    ]
    assert {each.status_int for each in responses} == {200, 409}
    assert (
        len(
            {aggregate_api.show(each).json["aggregate"]["metadata"]["sched_policy"] for each in won}
        )
        == 1
    )


@pytest.mark.all_databases
def test_concurrent_policy_changes_of_shared_hosts_never_both_succeed(aggregate_api):
    numbers = [aggregate_api.create_and_get_id(f"a{each}") for each in range(4)]
    for number in numbers:
        aggregate_api.add_host(number, "h1")
    responses = run_concurrently(
        *(
            partial(aggregate_api.set_metadata, number, sched_policy=policy, status="*")
            for number, policy in zip(
                numbers, (HIGH_CPU_DENSITY, LOW_CPU_DENSITY, "everything", "nothing"), strict=True
            )
        )
    )
    assert sorted(each.status_int for each in responses) == [200, 409, 409, 409]


@pytest.mark.all_databases
def test_concurrent_policy_change_and_host_addition_never_both_succeed(aggregate_api):
    high, plain = (
        create_aggregate_with_scheduling_policy(aggregate_api, "high", HIGH_CPU_DENSITY),
        aggregate_api.create_and_get_id("plain"),
    )
    aggregate_api.add_host(plain, "h1")
    responses = run_concurrently(
        partial(aggregate_api.set_metadata, plain, sched_policy=LOW_CPU_DENSITY, status="*"),
        partial(aggregate_api.add_host, high, "h1", status="*"),
    )
    assert sorted(each.status_int for each in responses) == [200, 409]


def count_sql_statements_of_aggregate_changes(aggregate_api):
    """Return the number of statements that add a host, set metadata and remove the host."""
    number = aggregate_api.create_and_get_id("a")
    used = aggregate_api.app.app.services.database
    with record_statements(used) as seen:
        aggregate_api.add_host(number, "h1")
        aggregate_api.set_metadata(number, ssd="true")
        aggregate_api.remove_host(number, "h1")
    return len(seen)


def test_changes_of_aggregates_without_policies_take_no_additional_sql_statements(
    sqlite_url, sqlite_aggregate_api, tmp_path, make_app
):
    add_service(sqlite_aggregate_api.app.app.services.database, "h1")
    without = count_sql_statements_of_aggregate_changes(sqlite_aggregate_api)
    with_policies = AggregateApi(
        make_app(settings_with_policies(sqlite_url, tmp_path, POLICIES_CONF_TEXT))
    )
    with_policies.app.get("/compute/v2.1/os-aggregates")
    sqlite_aggregate_api.delete(1)
    assert count_sql_statements_of_aggregate_changes(with_policies) == without

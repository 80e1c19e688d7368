# SPDX-License-Identifier: Apache-2.0
"""FailoverCapacityFilter: rejections by the last failover result."""

import logging
from datetime import timedelta
from functools import partial

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.store import figures
from tests.conftest import make_settings
from tests.support.api_clouds import report_hosts_with_instances, store_flavor
from tests.support.scheduling import explain_request, make_flavor, make_spec, make_uuid
from tests.support.statements import record_statements
from tests.support.states import ManualClock

SELECT_PATH = "/scheduler/v1/select_destinations"
FILTER_NAME = "FailoverCapacityFilter"
FILTER_LOGGER_NAME = "placement_sched.scheduler.filters.failover_capacity_filter"


@pytest.fixture
def clock():
    return ManualClock(utcnow())


@pytest.fixture
def cloud(sqlite_url, make_app, clock):
    """Two hosts of 4 GiB with an instance each, the filter, and a result."""
    settings = make_settings(sqlite_url)
    enabled = [*settings.filter_scheduler.enabled_filters, FILTER_NAME]
    options = {"filter_scheduler.enabled_filters": enabled}
    app = make_app(settings.with_overrides(options), clock=clock)
    report_hosts_with_instances(app, ["cn1", "cn2"], ["cn1", "cn2"])
    store_failover_result(app, clock)
    return app


def store_failover_result(app, clock, **values):
    """Store a result: two more instances of the flavor leave the failover capacity intact."""
    breaks = {"domain": "cn1", "instances": 3, "placed": 2}
    allowance = {"flavor": "small", "remaining": 2, "at_most": 2, "breaks": breaks, **values}
    report = {"host_failures": 1, "within": None, "computed_at": clock.now.isoformat()}
    report["remaining"] = [allowance, {**allowance, "flavor": "large", "at_most": 1}]
    app.app.services.database.write(partial(figures.replace_failover_result, report=report))


def select_destinations(app, *numbers, status=200, **fields):
    request = make_spec(*map(make_uuid, numbers), **{"flavor": "small", **fields})
    return app.post_json(SELECT_PATH, {"request_spec": request}, status=status).json


def list_rejection_reasons(app, **fields):
    (stage,) = [
        stage
        for stage in explain_request(app, make_spec(**{"flavor": "small", **fields}))["funnel"][
            "filters"
        ]
        if stage["name"] == FILTER_NAME
    ]
    return {entry["reason"] for entry in stage.get("rejected", ())}


def test_request_for_more_instances_than_remain_is_rejected_with_the_numbers(cloud, clock):
    clock.now += timedelta(seconds=40)
    assert list_rejection_reasons(cloud, instance_uuids=[make_uuid(8), make_uuid(9)]) == set()
    uuids = [make_uuid(number) for number in (7, 8, 9)]
    (reason,) = list_rejection_reasons(cloud, instance_uuids=uuids)
    assert reason == (
        "the failover capacity allows at most 2 more of flavor small: with 3, 1 or more instances "
        "find no place if host cn1 fails (computed 40 s ago)"
    )


def test_instances_that_boot_from_a_volume_pass_if_the_flavor_has_a_root_disk(cloud):
    uuids = [make_uuid(number) for number in (7, 8, 9)]
    assert list_rejection_reasons(cloud, instance_uuids=uuids, is_bfv=True) == set()
    diskless = make_flavor(name="small", memory_mb=1024, root_gb=0)
    assert list_rejection_reasons(cloud, instance_uuids=uuids, is_bfv=True, flavor=diskless)


def test_earlier_requests_of_a_joint_call_use_the_remaining_instances(cloud):
    requests = [{"request_spec": make_spec(make_uuid(n), flavor="small")} for n in (6, 7, 8)]
    response = cloud.post_json(SELECT_PATH, {"requests": requests}, status=409).json
    assert "at most 0 more of flavor small: with 1," in str(response)
    cloud.post_json(SELECT_PATH, {"requests": requests[:2]})


def test_flavor_without_a_bound_of_remaining_instances_passes_and_is_logged(cloud, clock, caplog):
    store_failover_result(cloud, clock, at_most=None)
    assert not list_rejection_reasons(cloud, instance_uuids=[make_uuid(n) for n in range(4, 9)])
    assert "passes all hosts for flavor small" in caplog.text


def test_moves_and_flavors_without_a_number_of_remaining_instances_pass(cloud):
    uuids = [make_uuid(number) for number in (7, 8, 9)]
    assert not list_rejection_reasons(cloud, instance_uuids=uuids, ignore_hosts=["cn3"])
    assert not list_rejection_reasons(cloud, instance_uuids=uuids, flavor=make_flavor(name="other"))
    # The stored flavor of the name is compared with its number.
    store_flavor(cloud, "tiny", ram=64)
    assert not list_rejection_reasons(cloud, flavor="tiny")


def test_only_the_first_flavor_without_a_number_of_remaining_instances_is_logged(cloud, caplog):
    with caplog.at_level(logging.WARNING, FILTER_LOGGER_NAME):
        for name in ("small", "other", "third", "other"):
            assert not list_rejection_reasons(cloud, flavor=make_flavor(name=name))
    (record,) = [record for record in caplog.records if record.name == FILTER_LOGGER_NAME]
    assert record.message == (
        "FailoverCapacityFilter passes all hosts for flavor other: the result has no number for "
        "the flavor. The flavor is not stored, is not among the first 50 stored flavors, or has no "
        "at_most in GET /scheduler/v1/failover_capacity"
    )


def test_outdated_failover_result_passes_all_hosts_and_is_logged_once(cloud, clock, caplog):
    clock.now += timedelta(seconds=901)
    with caplog.at_level(logging.WARNING, FILTER_LOGGER_NAME):
        for _ in range(2):
            assert not list_rejection_reasons(
                cloud, instance_uuids=[make_uuid(n) for n in (6, 7, 8, 9)]
            )
    (record,) = [record for record in caplog.records if record.name == FILTER_LOGGER_NAME]
    assert record.message == (
        "FailoverCapacityFilter passes all hosts: the result is 901 s old, the maximum is 900 s"
    )


def test_missing_failover_result_passes_all_hosts_and_is_logged(cloud, caplog, sqlite_database):
    with sqlite_database.read() as connection:
        connection.exec_driver_sql("DELETE FROM sched_failover_results")
        connection.exec_driver_sql(
            "UPDATE sched_change_counters SET version = version + 1 "
            "WHERE subject = 'failover_result'"
        )
        connection.commit()
    with caplog.at_level(logging.WARNING, FILTER_LOGGER_NAME):
        assert not list_rejection_reasons(cloud, instance_uuids=[make_uuid(n) for n in (7, 8, 9)])
    assert "no result exists" in caplog.text


def test_failover_capacity_filter_takes_one_sql_statement(cloud, make_app, sqlite_url):
    plain = make_app(make_settings(sqlite_url))
    counts = []
    for app in (plain, cloud):
        explain_request(app, make_spec(flavor="small"))  # fills the caches
        with record_statements(app.app.services.database) as statements:
            explain_request(app, make_spec(flavor="small"))
        counts.append(len(statements))
    assert counts[1] - counts[0] == 1

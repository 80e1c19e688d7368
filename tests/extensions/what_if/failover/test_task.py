# SPDX-License-Identifier: Apache-2.0
"""The background computation of the failover capacity, its gauges and its lease."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from placement_sched.errors import Unavailable
from placement_sched.extensions.what_if.failover.task import (
    FAILOVER_THREAD,
    FailoverTask,
    store_result,
)
from placement_sched.extensions.what_if.gauges import FailoverGauges
from tests.conftest import make_settings
from tests.support.api_clouds import report_hosts_with_instances
from tests.support.concurrency import join_threads

FAILOVER_PATH = "/scheduler/v1/failover_capacity"
FAILOVER_GAUGE_PREFIX = "placement_sched_scheduler_failover_"


def read_failover_gauges(app):
    families = text_string_to_metric_families(app.get("/metrics").text)
    return {
        (sample.name.removeprefix(FAILOVER_GAUGE_PREFIX), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(FAILOVER_GAUGE_PREFIX)
    }


@pytest.fixture
def app_with_failover_interval(settings, make_app):
    app = make_app(settings.with_overrides({"scheduler.failover_interval": 3600}))
    app.get("/scheduler/v1/hosts")
    join_threads(FAILOVER_THREAD)
    report_hosts_with_instances(app, ["cn1", "cn2"], ["cn1", "cn1", "cn1", "cn2", "cn2"])
    return app


@pytest.mark.all_databases
def test_failover_result_of_a_process_is_read_by_every_process(
    app_with_failover_interval, settings, make_app
):
    # The first request starts the computation, on a cloud without hosts.
    assert app_with_failover_interval.get(FAILOVER_PATH).json["covered"] == 0
    stored = store_result(app_with_failover_interval.app.services.scheduler)
    other_app = make_app(settings.with_overrides({"scheduler.failover_interval": 3600}))
    response = other_app.get(FAILOVER_PATH).json
    assert {**response, "age": None} == {**stored, "age": None}
    assert response["uncovered"] == 2
    assert 0 <= response["age"] < 60
    gauges = read_failover_gauges(other_app)
    assert gauges["domains", "uncovered"] == 2
    assert gauges["domains", "covered"] == 0
    assert gauges["remaining", "small"] == 0
    assert 0 <= gauges["age_seconds",] < 60


def test_recent_failover_result_is_not_computed_again(sqlite_settings, make_app):
    app = make_app(sqlite_settings.with_overrides({"scheduler.failover_interval": 3600}))
    store_result(app.app.services.scheduler)
    computed_at = app.get(FAILOVER_PATH).json["computed_at"]
    task = FailoverTask(app.app.services.scheduler)
    task()
    join_threads(FAILOVER_THREAD)
    assert app.get(FAILOVER_PATH).json["computed_at"] == computed_at


def test_failover_is_not_computed_without_an_interval(sqlite_app):
    sqlite_app.get("/scheduler/v1/hosts")
    join_threads(FAILOVER_THREAD)
    (error,) = sqlite_app.get(FAILOVER_PATH, status=404).json["errors"]
    assert error["detail"].startswith("The failover capacity was not computed yet")
    assert read_failover_gauges(sqlite_app) == {}


def test_failed_failover_computation_is_logged_and_retried_after_the_interval(
    sqlite_url, make_app, caplog
):
    options = {"scheduler.failover_interval": 3600, "scheduler.failover_within": "rack"}
    app = make_app(make_settings(sqlite_url).with_overrides(options))
    app.get("/scheduler/v1/hosts")
    join_threads(FAILOVER_THREAD)
    assert (
        "the failover capacity was not computed: no aggregate has the metadata key" in caplog.text
    )
    caplog.clear()
    app.get("/scheduler/v1/hosts")
    join_threads(FAILOVER_THREAD)
    assert caplog.text == ""


def test_no_failover_gauges_are_exported_if_the_result_cannot_be_read(caplog):
    def raise_unavailable():
        raise Unavailable("the database is locked")

    assert list(FailoverGauges(raise_unavailable).collect()) == []
    assert "cannot read the failover result: the database is locked" in caplog.text

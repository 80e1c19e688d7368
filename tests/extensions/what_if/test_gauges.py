# SPDX-License-Identifier: Apache-2.0
"""Gauges of ``/metrics`` for the capacity of chosen flavors."""

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from placement_sched.errors import Unavailable
from placement_sched.extensions.what_if.capacity.figures import (
    CapacityFigures,
    FlavorCapacity,
    Reliability,
)
from placement_sched.extensions.what_if.gauges import THREAD_NAME, CapacityGauges
from placement_sched.limits import MAX_METRIC_FLAVORS
from placement_sched.model.figures import OTHER
from placement_sched.operations.gauges import MAX_AGE
from tests.conftest import make_settings
from tests.support.api_clouds import (
    COMPUTE_HEADERS,
    FLAVORS_PATH,
    NODES_PATH,
    make_zone,
    store_flavor,
)
from tests.support.concurrency import join_threads
from tests.support.scheduling import make_report

CAPACITY_GAUGE_PREFIX = "placement_sched_scheduler_capacity"


def scrape_capacity_gauges(app):
    """Return the gauges by name and labels after the count has ended."""
    app.get("/metrics")
    join_threads(THREAD_NAME)
    return get_capacity_gauge_values(text_string_to_metric_families(app.get("/metrics").text))


def get_capacity_gauge_values(families):
    return {
        (sample.name.removeprefix(CAPACITY_GAUGE_PREFIX), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(CAPACITY_GAUGE_PREFIX)
    }


def remove_age_gauge(values):
    return {key: value for key, value in values.items() if key != ("_age_seconds",)}


@pytest.fixture
def make_app_with_capacity_flavors(settings, make_app):
    """Return a function that creates an application with two hosts and watched flavors."""

    def build_app_with_two_hosts(*names):
        app = make_app(settings.with_overrides({"scheduler.capacity_flavors": list(names)}))
        app.post_json(
            NODES_PATH, [make_report("cn1", memory_mb=4096), make_report("cn2", memory_mb=8192)]
        )
        make_zone(app, "az1", "cn1")
        store_flavor(app, "small")
        store_flavor(app, "large", ram=4096)
        return app

    return build_app_with_two_hosts


def test_capacity_gauges_show_flavors_in_total_and_by_zone(make_app_with_capacity_flavors):
    values = scrape_capacity_gauges(make_app_with_capacity_flavors("small", "large"))
    assert 0 <= values["_age_seconds",] < MAX_AGE
    assert remove_age_gauge(values) == {
        ("", "small"): 12,
        ("", "large"): 3,
        ("_by_zone", "small", "az1"): 4,
        ("_by_zone", "small", "nova"): 8,
        ("_by_zone", "large", "az1"): 1,
        ("_by_zone", "large", "nova"): 2,
        ("_state", "small", "exact"): 1,
        ("_state", "large", "exact"): 1,
    }


def test_capacity_gauges_need_the_capacity_flavors_option(make_app_with_capacity_flavors):
    app = make_app_with_capacity_flavors()
    assert scrape_capacity_gauges(app) == {}
    assert THREAD_NAME not in {thread.name for thread in threading.enumerate()}


def test_capacity_gauge_of_an_unknown_flavor_is_logged_once(make_app_with_capacity_flavors, caplog):
    app = make_app_with_capacity_flavors("smal", "small")
    values = remove_age_gauge(scrape_capacity_gauges(app))
    assert values["_state", "smal", "unknown"] == 1
    assert ("", "smal") not in values
    assert values["", "small"] == 12
    messages = [
        record.getMessage()
        for record in caplog.records
        if "capacity_flavors" in record.getMessage()
    ]
    assert messages == [
        "[scheduler] capacity_flavors names 'smal', but no stored flavor has this name"
    ]


def test_capacity_gauge_of_an_invalid_flavor_is_shown_as_rejected(make_app_with_capacity_flavors):
    app = make_app_with_capacity_flavors("odd", "small")
    sizes = {"name": "odd", "id": "odd", "vcpus": 1, "ram": 1, "disk": 1}
    app.post_json(FLAVORS_PATH, {"flavor": sizes}, headers=COMPUTE_HEADERS)
    extra = {"extra_specs": {"resources:CUSTOM_NOWHERE": "1"}}
    app.post_json(f"{FLAVORS_PATH}/odd/os-extra_specs", extra, headers=COMPUTE_HEADERS)
    values = remove_age_gauge(scrape_capacity_gauges(app))
    assert values["_state", "odd", "rejected"] == 1
    assert ("", "odd") not in values
    assert values["", "small"] == 12


class CapacityStub:
    """A computation of capacity that counts its calls, and raises ``failure`` if it is set."""

    def __init__(self, now):
        self.calls, self.now, self.failure = 0, now, None

    def __call__(self, names):
        self.calls += 1
        if self.failure:
            raise self.failure
        capacity = FlavorCapacity(Reliability.EXACT, self.calls, {"az1": self.calls})
        return CapacityFigures(self.now[0], dict.fromkeys(names, capacity))


@pytest.fixture
def gauge_clock(monkeypatch):
    """Replace the time of the gauges. The first item of the list is the time."""
    clock = [1_000_000.0]
    monkeypatch.setattr("placement_sched.extensions.what_if.gauges.time.time", lambda: clock[0])
    return clock


def collect_gauges_and_wait(gauges):
    values = get_capacity_gauge_values(gauges.collect())
    join_threads(THREAD_NAME)
    return values


def test_capacity_is_counted_at_most_once_a_minute(gauge_clock):
    gauges = CapacityGauges(lambda: ["small"], count := CapacityStub(gauge_clock), None)
    assert collect_gauges_and_wait(gauges) == {}
    gauge_clock[0] += MAX_AGE - 1
    values = collect_gauges_and_wait(gauges)
    assert (values["", "small"], values["_age_seconds",], count.calls) == (1, MAX_AGE - 1, 1)
    gauge_clock[0] += 1
    assert (
        collect_gauges_and_wait(gauges)["_age_seconds",] == MAX_AGE
    )  # the last values during the new count
    assert (collect_gauges_and_wait(gauges)["", "small"], count.calls) == (2, 2)


def test_capacity_is_counted_again_after_the_clock_went_back(gauge_clock, tmp_path):
    gauges, other_gauges = (
        CapacityGauges(lambda: ["small"], CapacityStub(gauge_clock), str(tmp_path))
        for _ in range(2)
    )
    collect_gauges_and_wait(gauges)
    collect_gauges_and_wait(other_gauges)
    gauge_clock[0] -= 365 * 86_400
    collect_gauges_and_wait(gauges)
    assert (
        collect_gauges_and_wait(gauges)["", "small"]
        == collect_gauges_and_wait(other_gauges)["", "small"]
        == 2
    )


def test_capacity_of_newly_configured_flavors_is_counted_at_once(gauge_clock):
    names = ["small"]
    gauges = CapacityGauges(lambda: names, count := CapacityStub(gauge_clock), None)
    collect_gauges_and_wait(gauges)
    names.append("large")
    collect_gauges_and_wait(gauges)
    assert {("", "small"), ("", "large")} <= collect_gauges_and_wait(gauges).keys()
    assert count.calls == 2


@pytest.mark.parametrize("failure", [Unavailable("away"), RuntimeError("a bug")])
def test_failed_capacity_count_keeps_the_last_values_and_is_retried(gauge_clock, failure):
    gauges = CapacityGauges(lambda: ["small"], count := CapacityStub(gauge_clock), None)
    collect_gauges_and_wait(gauges)
    count.failure = failure
    for _ in range(3):
        gauge_clock[0] += MAX_AGE
        assert collect_gauges_and_wait(gauges)["", "small"] == 1
        collect_gauges_and_wait(gauges)
    assert count.calls == 1 + 3
    assert collect_gauges_and_wait(gauges)["_age_seconds",] == 3 * MAX_AGE


def test_workers_share_a_capacity_count(gauge_clock, tmp_path):
    gauges = CapacityGauges(lambda: ["small"], count := CapacityStub(gauge_clock), str(tmp_path))
    other_gauges = CapacityGauges(
        lambda: ["small"], other_count := CapacityStub(gauge_clock), str(tmp_path)
    )
    collect_gauges_and_wait(gauges)
    assert collect_gauges_and_wait(other_gauges) == collect_gauges_and_wait(gauges)
    assert (count.calls, other_count.calls) == (1, 0)


def test_capacity_gauges_have_at_most_the_maximum_of_flavors_and_zones(gauge_clock):
    names = [f"f{number:03}" for number in range(2 * MAX_METRIC_FLAVORS)]
    gauges = CapacityGauges(lambda: names, CapacityStub(gauge_clock), None)
    collect_gauges_and_wait(gauges)
    flavors = {labels[0] for name, *labels in collect_gauges_and_wait(gauges) if name == ""}
    assert flavors == set(names[:MAX_METRIC_FLAVORS])
    zones = {f"az{number:03}": number for number in range(1, 60)}
    bounded = FlavorCapacity(Reliability.EXACT, sum(zones.values()), zones).limit_names()
    assert len(bounded.zones) == 51
    assert bounded.zones[OTHER] == sum(range(1, 10))
    assert sum(bounded.zones.values()) == bounded.instances


def test_capacity_gauges_are_exported_with_a_multiprocess_metrics_directory(
    sqlite_url, make_app, monkeypatch, tmp_path
):
    (shared := tmp_path / "metrics").mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(shared))
    app = make_app(make_settings(sqlite_url, scheduler__capacity_flavors=["small"]))
    store_flavor(app, "small")
    assert scrape_capacity_gauges(app)["", "small"] == 0

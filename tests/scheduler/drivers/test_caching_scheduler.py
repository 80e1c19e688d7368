# SPDX-License-Identifier: Apache-2.0
"""CachingScheduler: reports are read now and then, claims are made as ever."""

from datetime import datetime, timedelta

import pytest

from placement_sched.app import create_app
from tests.conftest import Client, make_settings
from tests.support.scheduling import flavor, hosts_of, instance, report, spec

SELECT = "/scheduler/v1/select_destinations"
EXPLAIN = "/scheduler/v1/explain"
NODES = "/scheduler/v1/compute_nodes"


class Clock:
    """A clock that goes on when told."""

    def __init__(self):
        self.time = datetime(2026, 1, 1, 12, 0, 0)

    def __call__(self):
        return self.time

    def later(self, seconds):
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def make(database_url):
    """Make an application on a clock of its own; its hosts, cn1 with more memory than cn2."""
    made = []

    def make(**options):
        clock = Clock()
        settings = make_settings(
            database_url,
            scheduler__driver="caching_scheduler",
            filter_scheduler__weight_classes=["nova.scheduler.weights.ram.RAMWeigher"],
            service_down_time=999_999,
            **{f"scheduler__{name}": value for name, value in options.items()},
        )
        made.append(create_app(settings, clock=clock))
        return Client(made[-1]), clock

    yield make
    for application in made:
        application.close()


def fill(app, **changes):
    app.post_json(
        NODES, [report("cn1", memory_mb=65536, **changes), report("cn2", memory_mb=60000)]
    )


def ask(app, *instances, path=EXPLAIN, **changes):
    return app.post_json(path, {"request_spec": spec(*instances, **changes)}).json


def test_reports_are_read_again_when_the_interval_has_gone_by(make):
    app, clock = make(periodic_task_interval=30)
    fill(app)
    first = ask(app)
    assert (hosts_of(first), first["funnel"]["host_states"]) == (["cn1"], {"age_s": 0.0})
    fill(app, free_ram_mb=2000)
    clock.later(29.5)
    stale = ask(app)
    assert (hosts_of(stale), stale["funnel"]["host_states"]) == (["cn1"], {"age_s": 29.5})
    clock.later(0.5)
    fresh = ask(app)
    assert (hosts_of(fresh), fresh["funnel"]["host_states"]) == (["cn2"], {"age_s": 0.0})


@pytest.mark.parametrize(("interval", "host"), [(0, "cn2"), (-1, "cn1")])
def test_interval_of_0_keeps_nothing_and_below_reads_once(make, interval, host):
    app, clock = make(periodic_task_interval=interval)
    fill(app)
    ask(app)
    fill(app, free_ram_mb=2000)
    clock.later(100_000)
    assert hosts_of(ask(app)) == [host]


def test_what_was_placed_since_is_counted_once_and_explanations_are_not(make):
    app, clock = make()
    fill(app)
    big = flavor(memory_mb=4000)
    for _ in range(3):
        ask(app, flavor=big)
    assert hosts_of(ask(app, instance(1), path=SELECT, flavor=big)) == ["cn1"]
    assert hosts_of(ask(app, instance(2), path=SELECT, flavor=big)) == ["cn1"]
    weights = {one["host"]: one["weights"]["RAMWeigher"]["raw"] for one in ask(app)["hosts"]}
    assert weights == {"cn1": 57536, "cn2": 60000}
    assert hosts_of(ask(app, instance(3), path=SELECT, flavor=big)) == ["cn2"]
    clock.later(60)
    weights = {one["host"]: one["weights"]["RAMWeigher"]["raw"] for one in ask(app)["hosts"]}
    assert weights == {"cn1": 65536, "cn2": 60000}


def test_host_that_is_full_since_is_no_candidate_however_its_report_was_kept(make):
    app, _ = make()
    app.post_json(
        NODES, [report("cn1", vcpus=1, cpu_allocation_ratio=1.0), report("cn2", memory_mb=9999)]
    )
    ask(app)
    other, _ = make()
    assert hosts_of(ask(other, instance(1), path=SELECT)) == ["cn1"]
    assert hosts_of(ask(app, instance(2), path=SELECT)) == ["cn2"]


def test_request_that_loses_its_claim_is_not_counted(make):
    app, _ = make()
    fill(app)
    ask(app, instance(1), path=SELECT)
    body = {"request_spec": spec(instance(1), flavor=flavor(vcpus=2))}
    app.post_json(SELECT, body, status=409)
    ask(app, instance(1), path=SELECT)
    kept = app.app.services.scheduler.memory.kept_nodes
    (uuid,) = app.get(f"/placement/allocations/{instance(1)}").json["allocations"]
    assert len(kept.placed_on(uuid)) == 1


@pytest.mark.all_databases
def test_new_host_is_seen_at_once_and_one_that_goes_down_too(make):
    app, _ = make()
    fill(app)
    ask(app)
    app.post_json(NODES, [report("cn3", memory_mb=99999)])
    assert hosts_of(ask(app)) == ["cn3"]
    body = {"host": "cn3", "binary": "nova-compute", "forced_down": True}
    headers = {"X-OpenStack-Nova-API-Version": "2.11"}
    app.put_json("/compute/v2.1/os-services/force-down", body, headers=headers)
    assert hosts_of(ask(app)) == ["cn1"]


def test_other_drivers_tell_no_age(app):
    fill(app)
    assert "host_states" not in ask(app)["funnel"]

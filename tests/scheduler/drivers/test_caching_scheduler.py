# SPDX-License-Identifier: Apache-2.0
"""Driver that reads reports from time to time."""

from datetime import timedelta

import pytest

from placement_sched.app import create_app
from tests.conftest import AdminClient, make_settings
from tests.scheduler.drivers.requests import SELECT_PATH, post_request_spec
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
)
from tests.support.states import ManualClock

NODES_PATH = "/scheduler/v1/compute_nodes"


@pytest.fixture
def make_cloud(database_url):
    """Return a function that creates an application and its clock. cn1 is larger than cn2."""
    result = []

    def build_cloud(**options):
        clock = ManualClock()
        settings = make_settings(
            database_url,
            scheduler__driver="caching_scheduler",
            filter_scheduler__weight_classes=["nova.scheduler.weights.ram.RAMWeigher"],
            service_down_time=999_999,
            **{f"scheduler__{name}": value for name, value in options.items()},
        )
        result.append(create_app(settings, clock=clock))
        return AdminClient(result[-1]), clock

    yield build_cloud
    for application in result:
        application.close()


def report_two_hosts(app, **changes):
    app.post_json(
        NODES_PATH,
        [make_report("cn1", memory_mb=65536, **changes), make_report("cn2", memory_mb=60000)],
    )


def select_host(app, number, **changes):
    result = post_request_spec(app, make_uuid(number), path=SELECT_PATH, **changes)
    return get_selected_hosts(result)[0]


def read_memory_weights(app):
    hosts = post_request_spec(app)["hosts"]
    return {host["host"]: host["weights"]["RAMWeigher"]["raw"] for host in hosts}


def test_caching_scheduler_reads_reports_again_after_the_interval(make_cloud):
    app, clock = make_cloud(periodic_task_interval=30)
    report_two_hosts(app)
    first = post_request_spec(app)
    assert (get_selected_hosts(first), first["funnel"]["host_states"]) == (["cn1"], {"age_s": 0.0})
    report_two_hosts(app, free_ram_mb=2000)
    clock.now += timedelta(seconds=29.5)
    stale = post_request_spec(app)
    assert (get_selected_hosts(stale), stale["funnel"]["host_states"]) == (["cn1"], {"age_s": 29.5})
    clock.now += timedelta(seconds=0.5)
    fresh = post_request_spec(app)
    assert (get_selected_hosts(fresh), fresh["funnel"]["host_states"]) == (["cn2"], {"age_s": 0.0})


@pytest.mark.parametrize(("interval", "host"), [(0, "cn2"), (-1, "cn1")])
def test_interval_0_disables_the_report_cache_and_a_negative_interval_never_expires_it(
    make_cloud, interval, host
):
    app, clock = make_cloud(periodic_task_interval=interval)
    report_two_hosts(app)
    post_request_spec(app)
    report_two_hosts(app, free_ram_mb=2000)
    clock.now += timedelta(seconds=100_000)
    assert get_selected_hosts(post_request_spec(app)) == [host]


def test_placed_instances_use_cached_resources_until_the_next_report(make_cloud):
    app, clock = make_cloud()
    report_two_hosts(app)
    big = make_flavor(memory_mb=4000)
    for _ in range(3):
        post_request_spec(app, flavor=big)
    assert [select_host(app, number, flavor=big) for number in (1, 2)] == ["cn1", "cn1"]
    assert read_memory_weights(app) == {"cn1": 57536, "cn2": 60000}
    assert select_host(app, 3, flavor=big) == "cn2"
    clock.now += timedelta(seconds=60)
    assert read_memory_weights(app) == {"cn1": 65536, "cn2": 60000}


def test_full_host_is_no_candidate_despite_its_cached_report(make_cloud):
    app, _ = make_cloud()
    app.post_json(
        NODES_PATH,
        [make_report("cn1", vcpus=1, cpu_allocation_ratio=1.0), make_report("cn2", memory_mb=9999)],
    )
    post_request_spec(app)
    other, _ = make_cloud()
    assert (select_host(other, 1), select_host(app, 2)) == ("cn1", "cn2")


def test_failed_claim_does_not_change_cached_host_states(make_cloud):
    app, _ = make_cloud()
    report_two_hosts(app)
    post_request_spec(app, make_uuid(1), path=SELECT_PATH)
    body = {"request_spec": make_spec(make_uuid(1), flavor=make_flavor(vcpus=2))}
    app.post_json(SELECT_PATH, body, status=409)
    post_request_spec(app, make_uuid(1), path=SELECT_PATH)
    node_history = app.app.services.scheduler.caches.node_history
    (uuid,) = app.get(f"/placement/allocations/{make_uuid(1)}").json["allocations"]
    assert len(node_history.list_placed_requests(uuid)) == 1


@pytest.mark.all_databases
def test_caching_scheduler_detects_new_and_down_hosts_within_the_interval(make_cloud):
    app, _ = make_cloud()
    report_two_hosts(app)
    post_request_spec(app)
    app.post_json(NODES_PATH, [make_report("cn3", memory_mb=99999)])
    assert get_selected_hosts(post_request_spec(app)) == ["cn3"]
    body = {"host": "cn3", "binary": "nova-compute", "forced_down": True}
    headers = {"X-OpenStack-Nova-API-Version": "2.11"}
    app.put_json("/compute/v2.1/os-services/force-down", body, headers=headers)
    assert get_selected_hosts(post_request_spec(app)) == ["cn1"]


def test_filter_scheduler_reports_no_age_of_host_states(app):
    report_two_hosts(app)
    assert "host_states" not in post_request_spec(app)["funnel"]

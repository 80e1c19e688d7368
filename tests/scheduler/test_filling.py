# SPDX-License-Identifier: Apache-2.0
"""Several schedulers that fill a cloud concurrently."""

from collections import Counter
from itertools import count

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from tests.conftest import make_settings
from tests.scheduler.test_scheduler import usages
from tests.scheduler.test_select_races import select_host
from tests.support.clouds import uuid_of
from tests.support.invariants import assert_invariants
from tests.support.processes import run_in_processes
from tests.support.scheduling import flavor, instance, report, spec

pytestmark = pytest.mark.slow

SCHEDULERS = 4
#: Maximum number of instances by host, limited by memory.
CAPACITY = {f"cn{number:02}": 1 + number % 4 for number in range(16)}
SMALL = flavor(memory_mb=4096)
#: Reverses the order of the hosts: hosts with little memory come first.
STACKING = {"filter_scheduler__ram_weight_multiplier": -1.0}


def fill_cloud(barrier, which, url, orders):
    """Select hosts for single instances until no host is found."""
    settings = make_settings(url, **orders[which % len(orders)])
    client = TestApp(create_app(settings))
    barrier.wait(120)
    uuids = map(instance, count(1000 * (which + 1)))
    answer = [(200, "")]
    while answer[-1][0] == 200:
        answer.append(select_host(client, spec(next(uuids), flavor=SMALL)))
    return answer[1:]


@pytest.mark.all_databases
@pytest.mark.parametrize("orders", [[{}], [{}, STACKING]], ids=["one order", "opposite orders"])
def test_schedulers_fill_a_cloud_completely(app, orders):
    reports = [report(name, memory_mb=4096 * room) for name, room in CAPACITY.items()]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    url = app.app.services.database.url.render_as_string(hide_password=False)
    answer = run_in_processes(SCHEDULERS, fill_cloud, url, orders)
    response = [code for status, code in answer if status != 200]
    placed = Counter(host for status, host in answer if status == 200)
    assert response == ["scheduler.no_valid_host"] * SCHEDULERS
    assert placed == CAPACITY
    assert sum(used["MEMORY_MB"] for used in usages(app)) == 4096 * sum(CAPACITY.values())
    assert_invariants(app.app.services.database)


def claim_by_placement(client, host, number):
    """Claim memory of a host through the Placement API, and return the status."""
    body = {
        "allocations": {uuid_of(host): {"resources": {"MEMORY_MB": 4096}}},
        "project_id": "p1",
        "user_id": "u1",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    path = f"/placement/allocations/{instance(500_000 + number)}"
    return client.put_json(path, body, headers=headers, expect_errors=True).status_code


def fill_or_claim(barrier, which, url):
    """Fill the cloud by selections, or by claims of hosts in reverse order (odd processes)."""
    if which % 2:
        return fill_cloud(barrier, which, url, [{}])
    client = TestApp(create_app(make_settings(url)))
    barrier.wait(120)
    numbers = count(1000 * which)
    answer = []
    for host in sorted(CAPACITY, reverse=True):
        while (status := claim_by_placement(client, host, next(numbers))) == 204:
            answer.append((200, host))
        answer.append((status, "full"))
    return answer


@pytest.mark.all_databases
def test_schedulers_and_claims_of_others_fill_a_cloud_together(app):
    reports = [report(name, memory_mb=4096 * room) for name, room in CAPACITY.items()]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    url = app.app.services.database.url.render_as_string(hide_password=False)
    answer = run_in_processes(SCHEDULERS, fill_or_claim, url)
    assert {status for status, _ in answer} == {200, 409}
    assert Counter(host for status, host in answer if status == 200) == CAPACITY
    assert_invariants(app.app.services.database)

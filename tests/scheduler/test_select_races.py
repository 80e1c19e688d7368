# SPDX-License-Identifier: Apache-2.0
"""Concurrent selections by several processes."""

from collections import Counter
from dataclasses import replace

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.model.clock import utcnow
from tests.conftest import make_settings
from tests.exploring import draws
from tests.scheduler.explanations import put_aggregate
from tests.scheduler.test_scheduler import usages
from tests.scheduler.test_server_groups import create_group
from tests.support.clouds import uuid_of
from tests.support.invariants import assert_invariants
from tests.support.processes import run_in_processes
from tests.support.scheduling import flavor, instance, report, selected_hosts, spec

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

#: Fewer rounds in the lanes for a change.
ROUNDS = draws(20)
RIVALS = 6
WHOLE = flavor(memory_mb=65536)
#: Claimants of a server group that is spread over racks.
SPREADING = 8
SPREAD = flavor(extra_specs={"scheduler:spread_by": "rack", "scheduler:max_skew": "1"})
SPREAD_FILTER = {"filter_scheduler__enabled_filters": ["TopologySpreadFilter"]}


def select_host(client: TestApp, request_spec: dict[str, object]) -> tuple[int, str]:
    """Return the status of a selection, and the host selected or the error's code."""
    answer = client.post_json(
        "/scheduler/v1/select_destinations",
        {"request_spec": request_spec},
        headers={"X-Auth-Token": "admin"},
        expect_errors=True,
    )
    if answer.status_code != 200:
        return answer.status_code, answer.json["errors"][0]["code"]
    return 200, answer.json["selections"][0][0]["service_host"]


def claim_one_host_each(barrier, which, url, rounds):
    """Claim a whole host in each round, at the same moment as the other processes."""
    client = TestApp(create_app(make_settings(url)))
    answer = []
    for number in range(rounds):
        barrier.wait(120)
        answer.append(
            (number, *select_host(client, spec(instance(100 * number + which), flavor=WHOLE)))
        )
    return answer


def claim_same_instance(barrier, which, url, rounds):
    """Claim the same instance in each round, at the same moment as the other processes."""
    client = TestApp(create_app(make_settings(url)))
    answer = []
    for number in range(rounds):
        barrier.wait(120)
        answer.append((number, *select_host(client, spec(instance(number + 1)))))
    return answer


def claim_spread_members(barrier, which, url, groups):
    """Claim a member of each group, at the same moment as the other processes."""
    client = TestApp(create_app(make_settings(url, **SPREAD_FILTER)))
    answer = []
    for number, group in enumerate(groups):
        barrier.wait(120)
        request = spec(instance(1000 * (number + 1) + which), instance_group=group, flavor=SPREAD)
        answer.append((number, *select_host(client, request)))
    return answer


def _url(app) -> str:
    return app.app.services.database.url.render_as_string(hide_password=False)


def test_every_host_is_selected_by_one_process(app):
    request = RIVALS * ROUNDS
    hosts = [f"cn{number}" for number in range(request - 5)]
    app.post_json("/scheduler/v1/compute_nodes", [report(name) for name in hosts])
    answer = run_in_processes(RIVALS, claim_one_host_each, _url(app), ROUNDS)
    won = [host for _, status, host in answer if status == 200]
    lost = Counter((status, code) for _, status, code in answer if status != 200)
    assert Counter(won) == Counter(hosts)
    assert lost == {(409, "scheduler.no_valid_host"): 5}
    assert_invariants(app.app.services.database)


def test_instance_of_all_processes_is_placed_once(app):
    hosts = [f"cn{number}" for number in range(5)]
    app.post_json("/scheduler/v1/compute_nodes", [report(name) for name in hosts])
    answer = run_in_processes(RIVALS, claim_same_instance, _url(app), ROUNDS)
    answers = {(number, status, host) for number, status, host in answer}
    assert len(answer) == RIVALS * ROUNDS
    assert sorted(number for number, _, _ in answers) == list(range(ROUNDS))
    assert {status for _, status, _ in answers} == {200}
    assert sum(used["VCPU"] for used in usages(app)) == ROUNDS
    assert_invariants(app.app.services.database)


def test_members_of_all_processes_are_spread_over_racks(app):
    racks = {"r1": ["cn1", "cn2", "cn3"], "r2": ["cn4"], "r3": ["cn5", "cn6"]}
    large = {"vcpus": 4096, "memory_mb": 4194304, "local_gb": 1000000}
    hosts = [host for names in racks.values() for host in names]
    app.post_json("/scheduler/v1/compute_nodes", [report(name, **large) for name in hosts])
    for number, (rack, names) in enumerate(racks.items(), 1):
        put_aggregate(app, number, {"rack": rack}, *names)
    groups = [create_group(app, f"g{n}", "soft-affinity") for n in range(ROUNDS)]
    answer = run_in_processes(SPREADING, claim_spread_members, _url(app), groups)
    assert {status for _, status, _ in answer} == {200}
    rack_of = {host: rack for rack, names in racks.items() for host in names}
    for number in range(ROUNDS):
        members = Counter(rack_of[host] for round_, _, host in answer if round_ == number)
        assert sorted(members.values()) == [2, 3, 3]
    assert_invariants(app.app.services.database)


class DeletingClock:
    """A clock that deletes a host at its first reading."""

    def __init__(self, app, host):
        self._app, self._host, self._armed = app, host, True

    def __call__(self):
        if self._armed:
            self._armed = False
            self._app.delete(f"/scheduler/v1/compute_nodes/{uuid_of(self._host)}")
        return utcnow()


def test_host_deleted_before_the_claim_is_not_selected(app, settings, make_app):
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2", memory_mb=131072)])
    scheduler = make_app(settings).app.services.scheduler
    racing_scheduler = replace(scheduler, clock=DeletingClock(app, "cn2"))
    # Filters read the clock too: without them, the claim is the first.
    unfiltered = settings.with_overrides({"filter_scheduler.enabled_filters": ["AllHostsFilter"]})
    answer = (
        replace(racing_scheduler, settings=unfiltered).select_destinations(spec(instance(1))).answer
    )
    assert selected_hosts(answer) == ["cn1"]

# SPDX-License-Identifier: Apache-2.0
"""Waiting requests on random small clouds, compared with selections and with the rules."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.model.clock import utcnow
from placement_sched.operations import periodic, waiting
from placement_sched.operations.waiting import WaitingRequests
from tests.exploring import draws
from tests.scheduler.explanations import put_aggregate
from tests.scheduler.test_scheduler import explain
from tests.scheduler.test_server_groups import create_group
from tests.support.policies import settings_with_policies
from tests.support.scheduling import flavor, instance, report, selected_hosts, spec

SELECT = "/scheduler/v1/select_destinations"
ADDRESS = "https://one.example/"
MAX_AGE = 3600
HOSTS = ("cn1", "cn2", "cn3")
#: The vCPUs of hosts are allocated once. The policy "dense" has only cn3.
POLICIES = """
[DEFAULT]
service_down_time = 86400
cpu_allocation_ratio = 1.0
initial_cpu_allocation_ratio = 1.0
[scheduler]
policies = dense
[dense]
ram_weight_multiplier = -1
"""
REQUEST = st.fixed_dictionaries(
    {
        "instances": st.sampled_from([(1,), (2,), (3,), (4, 5), (2, 3)]),
        "vcpus": st.sampled_from([2, 4, 9]),
        "is_dense": st.booleans(),
        "is_apart": st.booleans(),
    }
)
STEPS = st.one_of(
    st.tuples(st.just("request"), REQUEST),
    st.tuples(st.just("report"), st.tuples(st.sampled_from(HOSTS), st.sampled_from([1, 3, 8, 12]))),
    st.tuples(st.just("set_status"), st.tuples(st.sampled_from(HOSTS), st.booleans())),
    st.tuples(st.just("delete"), st.integers(1, 5)),
    st.tuples(st.just("run_round"), st.none()),
    st.tuples(st.just("pass_time"), st.sampled_from([100, MAX_AGE - 150, MAX_AGE])),
)


@dataclass
class Walk:
    """A changing cloud and its waiting requests by the uuid of their decision."""

    chosen: frozenset[str]
    app: Any = None
    task: Any = None
    group: str = ""
    notices: list[dict[str, Any]] = field(default_factory=list)
    placed: set[int] = field(default_factory=set)
    waiting: dict[str, tuple[dict[str, Any], datetime]] = field(default_factory=dict)
    noticed: set[str] = field(default_factory=set)
    offset: timedelta = timedelta()

    def spec_of(self, request: dict[str, Any]) -> dict[str, Any]:
        return spec(
            *map(instance, request["instances"]),
            flavor=flavor(vcpus=request["vcpus"]),
            scheduler_hints={"sched_policy": "dense"} if request["is_dense"] else {},
            instance_group=self.group if request["is_apart"] else None,
        )

    def request(self, request: dict[str, Any]) -> None:
        if not self.placed.isdisjoint(request["instances"]):
            return
        body = {"request_spec": self.spec_of(request)}
        answer = self.app.post_json(SELECT, body, status="*")
        own = set(request["instances"])
        self.waiting = {
            decision: request
            for decision, request in self.waiting.items()
            if own.isdisjoint(request[0]["instances"])
        }
        if answer.status_int == 200:
            self.placed |= own
            return
        decision = answer.json["errors"][0]["decision"]
        self.waiting[decision] = (request, utcnow() + self.offset)

    def report(self, change: tuple[str, int]) -> None:
        host, vcpus = change
        self.app.post_json("/scheduler/v1/compute_nodes", [report(host, vcpus=vcpus)])

    def set_status(self, change: tuple[str, bool]) -> None:
        host, is_enabled = change
        path = f"/compute/v2.1/os-services/{'enable' if is_enabled else 'disable'}"
        self.app.put_json(path, {"host": host, "binary": "nova-compute"})

    def delete(self, number: int) -> None:
        if number in self.placed:
            self.app.delete(f"/scheduler/v1/instances/{instance(number)}")
            self.placed.remove(number)

    def pass_time(self, seconds: int) -> None:
        self.offset += timedelta(seconds=seconds)

    def send(self, _address: str, body: dict[str, Any]) -> None:
        self.notices.append(body)

    def run_round(self, _nothing: None = None) -> dict[str, list[str]]:
        """Run a round, compare it with the rules, and return the hosts of each notice."""
        oldest = utcnow() + self.offset - timedelta(seconds=MAX_AGE)
        due = [
            decision
            for decision, (request, created_at) in self.waiting.items()
            if created_at >= oldest and policy_of(request) in self.chosen
            if decision not in self.noticed
        ]
        fitting = {decision: hosts for decision in due if (hosts := self.find_hosts(decision))}
        self.notices.clear()
        with record_evaluations() as evaluated:
            self.task.run_round()
        assert sorted(evaluated) == sorted(due)
        noticed = [
            (notice["decision"], [instance["host"] for instance in notice["instances"]])
            for notice in self.notices
        ]
        assert sorted(noticed) == sorted(fitting.items())
        self.noticed |= fitting.keys()
        return {decision: fitting.get(decision, []) for decision in due}

    def find_hosts(self, decision: str) -> list[str]:
        """Return the hosts that an explanation selects."""
        answer = explain(self.app, self.spec_of(self.waiting[decision][0]))
        return selected_hosts(answer) if answer["outcome"] == "selected" else []

    def place_each(self, hosts_by_decision: dict[str, list[str]]) -> None:
        """Place each request in the same cloud, and compare the selections."""
        for decision, hosts in hosts_by_decision.items():
            body = {"request_spec": self.spec_of(self.waiting[decision][0])}
            answer = self.app.post_json(SELECT, body, status=200 if hosts else 409)
            assert (selected_hosts(answer.json) if hosts else []) == hosts
            for number in self.waiting[decision][0]["instances"] if hosts else ():
                self.app.delete(f"/scheduler/v1/instances/{instance(number)}")


def policy_of(request: dict[str, Any]) -> str:
    return "dense" if request["is_dense"] else "default"


@contextmanager
def record_evaluations() -> Iterator[list[str]]:
    """Yield a list of the evaluated decisions."""
    evaluated: list[str] = []
    find_hosts_now = waiting.find_hosts_now

    def record(scheduler, decision):
        evaluated.append(decision.uuid)
        return find_hosts_now(scheduler, decision)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "find_hosts_now", record)
        yield evaluated


@pytest.fixture
def make_walk(sqlite_template, tmp_path, make_app):
    """Return a function that creates three hosts and the task for some policies."""

    def build_walk(policies) -> Walk:
        path = tmp_path / f"{uuid4()}.db"
        shutil.copy(sqlite_template, path)
        options = {
            "placement_database.sqlite_synchronous": False,
            "scheduler.waiting_policies": policies,
            "scheduler.waiting_webhook_urls": [ADDRESS],
            "scheduler.waiting_max_age": MAX_AGE,
        }
        own = settings_with_policies(f"sqlite:///{path}", tmp_path, POLICIES)
        walk = Walk(frozenset(name.lower() for name in policies))
        app = make_app(own.with_overrides(options), clock=lambda: utcnow() + walk.offset)
        walk.app, walk.task = app, WaitingRequests(app.app.services.scheduler, walk.send)
        reports = [report(name, vcpus=1) for name in HOSTS]
        app.post_json("/scheduler/v1/compute_nodes", reports)
        put_aggregate(app, 1, {"sched_policy": "dense"}, "cn3")
        walk.group = create_group(app)
        return walk

    return build_walk


@pytest.mark.slow
@settings(max_examples=draws(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    policies=st.sampled_from([["default"], ["Dense"], ["default", "dense"]]),
    steps=st.lists(STEPS, max_size=25),
)
def test_notices_are_sent_exactly_for_requests_that_a_selection_places(make_walk, policies, steps):
    walk = make_walk(policies)
    for name, value in steps:
        getattr(walk, name)(value)
    walk.place_each(walk.run_round())


@pytest.mark.slow
@settings(max_examples=draws(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(st.tuples(st.booleans(), st.floats(0, 90)), max_size=30))
def test_request_is_evaluated_at_most_once_a_minute(make_walk, calls):
    walk, now = make_walk(["default"]), 1000.0
    with pytest.MonkeyPatch.context() as patch, record_evaluations() as evaluated:
        patch.setattr(periodic, "monotonic", lambda: now)
        own, other = (WaitingRequests(walk.app.app.services.scheduler, walk.send) for _ in range(2))
        body = {"request_spec": spec(instance(1), flavor=flavor(vcpus=16))}
        walk.app.post_json(SELECT, body, status=409)
        times: list[float] = []
        for is_other, seconds in calls:
            now += seconds
            (other if is_other else own)()
            for thread in threading.enumerate():
                if thread.name == waiting.THREAD_NAME:
                    thread.join(timeout=60)
            times += [now] * (len(evaluated) - len(times))
    assert all(later - time >= 60 for time, later in pairwise(times))
    assert len(times) <= (now - 1000.0) / 60
    assert walk.notices == []

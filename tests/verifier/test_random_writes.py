# SPDX-License-Identifier: Apache-2.0
"""Invariants of a database after random writes through all APIs."""

from datetime import timedelta
from itertools import count
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.model.checks import Invariant
from tests.exploring import draws
from tests.support.invariants import assert_generations_grow
from tests.support.providers import NOW
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import verify

pytestmark = pytest.mark.slow

PROVIDERS, CONSUMERS, HOSTS = 4, 3, 3
AMOUNT = st.integers(0, 9)
PROVIDER = st.integers(0, PROVIDERS - 1)
CONSUMER = st.integers(0, CONSUMERS - 1)
HOST = st.integers(0, HOSTS - 1)
#: A write is the name of a method of :class:`Writer` and its arguments.
WRITES = st.one_of(
    st.tuples(st.just("create_provider"), PROVIDER, st.none() | PROVIDER),
    st.tuples(st.just("move_provider"), PROVIDER, st.none() | PROVIDER),
    st.tuples(st.just("remove"), PROVIDER),
    st.tuples(
        st.just("put_inventories"),
        PROVIDER,
        st.dictionaries(st.sampled_from(["VCPU", "OWN"]), AMOUNT),
    ),
    st.tuples(st.just("put_allocations"), CONSUMER, st.dictionaries(PROVIDER, AMOUNT, max_size=3)),
    st.tuples(st.just("transfer_allocations"), CONSUMER, CONSUMER),
    st.tuples(st.just("delete_allocations"), CONSUMER),
    st.tuples(st.just("put_or_delete_trait"), PROVIDER, st.booleans()),
    st.tuples(st.just("put_or_delete_class"), st.booleans()),
    st.tuples(st.just("place_instances"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("forget_oldest")),
    st.tuples(st.just("report_or_remove_host"), HOST, st.booleans()),
    st.tuples(st.just("add_or_remove_member"), HOST, st.booleans()),
)


class Writer:
    """A client of every API. It ignores rejected writes."""

    def __init__(self, app):
        self._app = app
        self._mark = uuid4().hex[:8]
        self._providers = [str(uuid4()) for _ in range(PROVIDERS)]
        self._consumers = [str(uuid4()) for _ in range(CONSUMERS)]
        self._placed = []
        #: Providers whose inventory shrank. OpenStack allows that even below the allocations.
        self.shrunk = set()
        self._class = f"CUSTOM_{self._mark.upper()}"
        self._group = self._create(
            "/compute/v2.1/os-server-groups",
            {"server_group": {"name": self._mark, "policy": "anti-affinity"}},
            **{"OpenStack-API-Version": "compute 2.64"},
        )["server_group"]["id"]
        self._aggregate = self._create(
            "/compute/v2.1/os-aggregates",
            {"aggregate": {"name": self._mark, "availability_zone": None}},
        )["aggregate"]["id"]

    def create_provider(self, which, parent):
        body = {"uuid": self._providers[which], "name": f"{self._mark}-{which}"}
        if parent is not None:
            body["parent_provider_uuid"] = self._providers[parent]
        self._send("POST", "/placement/resource_providers", body)

    def move_provider(self, which, parent):
        to = None if parent is None else self._providers[parent]
        body = {"name": f"{self._mark}-{which}", "parent_provider_uuid": to}
        self._send("PUT", f"/placement/resource_providers/{self._providers[which]}", body)

    def remove(self, which):
        self._send("DELETE", f"/placement/resource_providers/{self._providers[which]}")

    def put_inventories(self, which, totals):
        path = f"/placement/resource_providers/{self._providers[which]}/inventories"
        before = self._send("GET", path)
        if before.status_code != 200:
            return
        named = {self._class if name == "OWN" else name: n for name, n in totals.items()}
        old = before.json["inventories"]
        if any(named.get(name, 0) < inventory["total"] for name, inventory in old.items()):
            self.shrunk.add(self._providers[which])
        amounts = {name: {"total": number} for name, number in named.items() if number}
        generation = before.json["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "inventories": amounts}
        self._send("PUT", path, body)

    def put_allocations(self, who, amounts):
        held = self._read_allocations(who)
        amounts = {
            self._providers[which]: {"resources": {"VCPU": number}}
            for which, number in amounts.items()
            if number
        }
        self._send(
            "PUT", f"/placement/allocations/{self._consumers[who]}", held | {"allocations": amounts}
        )

    def transfer_allocations(self, giver, taker):
        if giver == taker:
            return
        gives, takes = self._read_allocations(giver), self._read_allocations(taker)
        body = {
            self._consumers[giver]: {**gives, "allocations": {}},
            self._consumers[taker]: {**takes, "allocations": gives["allocations"]},
        }
        self._send("POST", "/placement/allocations", body)

    def delete_allocations(self, who):
        self._send("DELETE", f"/placement/allocations/{self._consumers[who]}")

    def put_or_delete_trait(self, which, has):
        path = f"/placement/resource_providers/{self._providers[which]}/traits"
        before = self._send("GET", path)
        if before.status_code == 200:
            generation = before.json["resource_provider_generation"]
            traits = ["HW_CPU_X86_AVX"] if has else []
            self._send("PUT", path, {"resource_provider_generation": generation, "traits": traits})

    def put_or_delete_class(self, exists):
        self._send("PUT" if exists else "DELETE", f"/placement/resource_classes/{self._class}")

    def place_instances(self, number, grouped):
        uuids = [str(uuid4()) for _ in range(number)]
        more = {"instance_group": self._group} if grouped else {}
        body = {"request_spec": spec(*uuids, flavor=flavor(memory_mb=16384), **more)}
        answer = self._send("POST", "/scheduler/v1/select_destinations", body)
        if answer.status_code == 200:
            self._placed += uuids

    def forget_oldest(self):
        if self._placed:
            uuid = self._placed.pop(0)
            self._send("DELETE", f"/placement/allocations/{uuid}")
            self._send("DELETE", f"/scheduler/v1/instances/{uuid}")

    def report_or_remove_host(self, which, exists):
        name = f"{self._mark}-host{which}"
        path = f"/scheduler/v1/compute_nodes/{report(name)['uuid']}"
        self._send("PUT", path, report(name)) if exists else self._send("DELETE", path)

    def add_or_remove_member(self, which, is_member):
        action = "add_host" if is_member else "remove_host"
        body = {action: {"host": f"{self._mark}-host{which}"}}
        self._send("POST", f"/compute/v2.1/os-aggregates/{self._aggregate}/action", body)

    def _read_allocations(self, who):
        held = self._send("GET", f"/placement/allocations/{self._consumers[who]}").json
        for allocation in held["allocations"].values():
            allocation.pop("generation", None)
        owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
        return {**owner, "consumer_generation": None, **held}

    def _create(self, path, body, **headers):
        return self._app.post_json(path, body, headers=headers).json

    def _send(self, method, path, body=None):
        send = {"GET": self._app.get, "DELETE": self._app.delete}.get(method)
        more = {"headers": LATEST_HEADERS, "expect_errors": True}
        if send is None:
            send = {"PUT": self._app.put_json, "POST": self._app.post_json}[method]
            answer = send(path, body, **more) if body is not None else self._app.put(path, **more)
        else:
            answer = send(path, **more)
        assert answer.status_code < 500, answer
        return answer


@pytest.fixture
def ticking_app(settings, make_app):
    seconds = count()
    return make_app(settings, clock=lambda: NOW + timedelta(seconds=next(seconds)))


@settings(
    max_examples=draws(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(writes=st.lists(WRITES, min_size=10, max_size=40))
def test_invariants_hold_after_any_writes(ticking_app, database, writes):
    writer = Writer(ticking_app)
    for which in range(PROVIDERS):
        writer.create_provider(which, None)
        writer.put_inventories(which, {"VCPU": 6})
    for which in range(HOSTS):
        writer.report_or_remove_host(which, exists=True)
    with assert_generations_grow(database):
        for name, *arguments in writes:
            getattr(writer, name)(*arguments)
    violations = [
        f"{violation.invariant}: {violation.detail}"
        for violation in verify(database).violations
        if violation.invariant is not Invariant.OVER_CAPACITY
        or not any(uuid in violation.detail for uuid in writer.shrunk)
    ]
    assert violations == []


def test_random_writes_are_mostly_accepted(ticking_app, database):
    writer = Writer(ticking_app)
    seen = []
    send = writer._send

    def record_status(method, path, body=None):
        answer = send(method, path, body)
        seen.append((method, path, answer.status_code))
        return answer

    writer._send = record_status
    for name, *arguments in (
        ("create_provider", 0, None),
        ("create_provider", 1, 0),
        ("move_provider", 1, None),
        ("put_or_delete_class", True),
        ("put_inventories", 0, {"VCPU": 6, "OWN": 3}),
        ("put_allocations", 0, {0: 2}),
        ("put_allocations", 0, {0: 3}),
        ("transfer_allocations", 0, 1),
        ("delete_allocations", 1),
        ("put_or_delete_trait", 0, True),
        ("report_or_remove_host", 0, True),
        ("add_or_remove_member", 0, True),
        ("place_instances", 1, True),
        ("forget_oldest",),
        ("remove", 1),
        ("add_or_remove_member", 0, False),
        ("report_or_remove_host", 0, False),
    ):
        getattr(writer, name)(*arguments)
    assert [response for response in seen if response[2] >= 400] == []

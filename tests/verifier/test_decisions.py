# SPDX-License-Identifier: Apache-2.0
"""Comparison of decisions, places and claims, also after moves and rebuilds."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert, select, update

from placement_sched.db import tables
from placement_sched.store.checks import Invariant
from tests.support.invariants import assert_invariants, execute_without_foreign_keys
from tests.support.scheduling import instance, report, spec
from tests.support.versions import LATEST_HEADERS
from tests.verifier.model import Fault
from tests.verifier.verify import verify

pytestmark = pytest.mark.slow

FIRST, SECOND, OTHER = instance(1), instance(2), instance(999)
SELECT, EXPLAIN = "/scheduler/v1/select_destinations", "/scheduler/v1/explain"
DECISIONS, PLACES = tables.decisions, tables.decision_places


class Cloud:
    """Three hosts and their instances."""

    def __init__(self, app, database):
        self.app, self.database = app, database
        hosts = [report(f"cn{number}") for number in (1, 2, 3)]
        app.post_json("/scheduler/v1/compute_nodes", hosts)

    def place(self, *uuids, status=200, options=None, **changes):
        body = {"request_spec": spec(*uuids, **changes), **(options or {})}
        return self.app.post_json(SELECT, body, status=status).json

    def free(self, uuid):
        self.app.delete(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS)

    def read_row(self, table, uuid):
        with self.database.read() as connection:
            query = select(table).where(table.c.uuid == uuid)
            return dict(connection.execute(query).mappings().one())

    def copy_decision(self, decision, **changes):
        row = self.read_row(DECISIONS, decision)
        del row["id"]
        place = {"decision_uuid": OTHER, "position": 0, "instance_uuid": FIRST, "host": "cn1"}
        execute_without_foreign_keys(
            self.database,
            insert(DECISIONS).values({**row, "uuid": OTHER, **changes}),
            insert(PLACES).values(place),
        )

    def find_violated_invariants(self):
        return sorted(violation.invariant for violation in verify(self.database).violations)


@pytest.fixture
def cloud(app, database):
    return Cloud(app, database)


@pytest.mark.parametrize("options", [{}, {"claim": False}], ids=str)
@pytest.mark.parametrize("host", ["cn3", None])
def test_placement_on_an_unselected_host_is_reported(cloud, host, options):
    decision = cloud.place(FIRST, force_hosts=["cn1"], options=options)["decision"]
    assert_invariants(cloud.database)
    execute_without_foreign_keys(cloud.database, update(PLACES).values(host=host))
    (violation,) = verify(cloud.database).violations
    assert violation.invariant is Fault.MISPLACED
    assert f"decision {decision}, host {host}, chosen cn1" in violation.detail


def build_deletion_of_claim(uuid, *, held=False):
    consumers, allocations = tables.consumers.c, tables.allocations.c
    of_claim = [
        tables.allocations.delete().where(allocations.consumer_id == uuid),
        tables.consumers.delete().where(consumers.uuid == uuid),
    ]
    return [
        PLACES.delete().where(PLACES.c.instance_uuid == uuid),
        tables.instances.delete().where(tables.instances.c.uuid == uuid),
        *(of_claim if held else ()),
    ]


@pytest.mark.parametrize("held", [False, True])
def test_partially_lost_claim_is_reported(cloud, held):
    decision = cloud.place(FIRST, SECOND)["decision"]
    assert_invariants(cloud.database)
    execute_without_foreign_keys(cloud.database, *build_deletion_of_claim(SECOND, held=held))
    (violation,) = verify(cloud.database).violations
    assert violation.invariant is Fault.UNPLACED
    assert f"decision {decision}, position 1, requested {SECOND}" in violation.detail


ASKED = {
    "selected": lambda cloud: cloud.place(FIRST),
    "selected by number": lambda cloud: cloud.place(instance_uuids=None, num_instances=2),
    "not claimed": lambda cloud: cloud.place(FIRST, options={"claim": False}),
    "with alternates": lambda cloud: cloud.place(FIRST, options={"return_alternates": True}),
    "without a host": lambda cloud: cloud.place(FIRST, SECOND, force_hosts=["no"], status=409),
    "by number, without a host": lambda cloud: cloud.place(
        instance_uuids=None, num_instances=2, force_hosts=["no"], status=409
    ),
    "in another spelling": lambda cloud: cloud.place(FIRST.replace("-", "").upper()),
    "explained": lambda cloud: cloud.app.post_json(
        EXPLAIN, {"request_spec": spec(FIRST, SECOND), "keep": True}
    ),
    "explained by number": lambda cloud: cloud.app.post_json(
        EXPLAIN,
        {"request_spec": spec(instance_uuids=None, num_instances=3, force_hosts=["no"])}
        | {"keep": True},
    ),
}


@pytest.mark.parametrize("way", ASKED)
def test_decision_has_a_placement_per_instance(cloud, way):
    ASKED[way](cloud)
    assert_invariants(cloud.database)
    with cloud.database.read() as connection:
        number = len(connection.execute(select(PLACES)).all())
    execute_without_foreign_keys(
        cloud.database, PLACES.delete().where(PLACES.c.position == number - 1)
    )
    assert cloud.find_violated_invariants().count(Fault.UNPLACED) == 1


@pytest.mark.all_databases
def test_placement_of_an_unrequested_instance_is_reported(cloud):
    cloud.place(FIRST, SECOND, force_hosts=["nowhere"], status=409)
    execute_without_foreign_keys(
        cloud.database,
        update(PLACES).where(PLACES.c.position == 1).values(instance_uuid=OTHER),
        insert(PLACES).from_select(
            ["decision_uuid", "position", "instance_uuid"],
            select(PLACES.c.decision_uuid, 7, PLACES.c.instance_uuid).where(PLACES.c.position == 0),
        ),
    )
    assert cloud.find_violated_invariants() == [Fault.UNPLACED] * 2


def test_decision_of_an_old_release_needs_no_placements(cloud):
    cloud.place(FIRST, SECOND)
    unconditioned = update(DECISIONS).values(conditions=None)
    execute_without_foreign_keys(
        cloud.database, *build_deletion_of_claim(SECOND, held=True), unconditioned
    )
    assert_invariants(cloud.database)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_decision_with_an_unreadable_request_is_reported(cloud, text):
    cloud.place(FIRST)
    execute_without_foreign_keys(cloud.database, update(DECISIONS).values(request=text))
    assert cloud.find_violated_invariants() == [Fault.DECISION_UNREADABLE]


def test_second_decision_for_a_claim_is_reported(cloud):
    decision = cloud.place(FIRST, force_hosts=["cn1"])["decision"]
    cloud.copy_decision(decision)
    assert cloud.find_violated_invariants() == [Fault.DECIDED_AGAIN]


def test_instance_with_another_decision_than_its_claim_is_reported(cloud):
    decision = cloud.place(FIRST, force_hosts=["cn1"])["decision"]
    later = cloud.read_row(DECISIONS, decision)["created_at"] + timedelta(seconds=5)
    cloud.copy_decision(decision, created_at=later)
    execute_without_foreign_keys(
        cloud.database, update(tables.instances).values(decision_uuid=OTHER)
    )
    assert cloud.find_violated_invariants() == [Fault.CLAIMED_BEFORE]


def test_second_decision_without_claim_is_allowed(cloud):
    decision = cloud.place(FIRST, force_hosts=["cn1"])["decision"]
    cloud.copy_decision(decision, kind="no_claim")
    assert cloud.find_violated_invariants() == []


def test_instance_selected_again_after_a_move_violates_no_invariant(cloud):
    for host in ("cn1", "cn2", "cn1"):
        first = cloud.place(FIRST, force_hosts=[host])
        assert cloud.place(FIRST, force_hosts=[host]) == first
        assert_invariants(cloud.database)
        cloud.free(FIRST)
    cloud.place(FIRST, SECOND)
    cloud.app.delete(f"/scheduler/v1/instances/{FIRST}")
    assert_invariants(cloud.database)
    cloud.place(FIRST)
    assert_invariants(cloud.database)


def test_evacuated_instance_with_two_claims_violates_no_invariant(cloud):
    cloud.place(FIRST, force_hosts=["cn1"])
    cloud.place(FIRST, ignore_hosts=["cn1"], options={"claim": "add"})
    held = cloud.app.get(f"/placement/allocations/{FIRST}", headers=LATEST_HEADERS).json
    assert len(held["allocations"]) == 2
    assert_invariants(cloud.database)


def test_rebuild_without_a_claim_violates_no_invariant(cloud):
    cloud.place(FIRST, force_hosts=["cn1"])
    hints = {"_nova_check_type": ["rebuild"]}
    fields = {"scheduler_hints": hints, "requested_destination": {"host": "cn1", "node": "cn1"}}
    answer = cloud.place(FIRST, **fields)
    assert answer["selections"][0][0]["allocation_request"] is None
    assert_invariants(cloud.database)


def test_alternate_claimed_by_nova_is_allowed(cloud):
    answer = cloud.place(FIRST, options={"return_alternates": True})
    *_, other = answer["selections"][0]
    cloud.free(FIRST)
    body = {
        "allocations": other["allocation_request"]["allocations"],
        "project_id": "p1",
        "user_id": "u1",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    cloud.app.put_json(f"/placement/allocations/{FIRST}", body, headers=LATEST_HEADERS)
    host = other["service_host"]
    record = {"host": host, "node": host, "project_id": "p1", "user_id": "u1"}
    cloud.app.put_json(f"/scheduler/v1/instances/{FIRST}", record)
    # Times have whole seconds. A build that fails takes longer than a second.
    later = datetime.fromisoformat("2038-01-01T12:00:00")
    execute_without_foreign_keys(cloud.database, update(tables.consumers).values(created_at=later))
    assert_invariants(cloud.database)


def test_deleted_decisions_violate_no_invariant(cloud):
    decision = cloud.place(FIRST, force_hosts=["cn1"])["decision"]
    cloud.free(FIRST)
    cloud.place(FIRST, force_hosts=["cn2"])
    execute_without_foreign_keys(
        cloud.database,
        PLACES.delete().where(PLACES.c.decision_uuid == decision),
        DECISIONS.delete().where(DECISIONS.c.uuid == decision),
    )
    assert_invariants(cloud.database)


def claim_repeatedly_by_placement(cloud, host, times=1):
    owner = {"project_id": "p1", "user_id": "u1", "consumer_type": "INSTANCE"}
    for generation in (None, *range(1, times)):
        held = {report(host)["uuid"]: {"resources": {"VCPU": 1 + (generation or 0)}}}
        body = {**owner, "consumer_generation": generation, "allocations": held}
        cloud.app.put_json(f"/placement/allocations/{FIRST}", body, headers=LATEST_HEADERS)


def set_equal_creation_times(cloud):
    moment = datetime.fromisoformat("2038-01-01T12:00:00")
    execute_without_foreign_keys(
        cloud.database,
        update(tables.consumers).values(created_at=moment),
        update(DECISIONS).values(created_at=moment),
    )


def test_claim_recreated_in_the_same_second_is_not_compared_with_the_decision(cloud):
    cloud.place(FIRST, force_hosts=["cn1"])
    cloud.free(FIRST)
    claim_repeatedly_by_placement(cloud, "cn2")
    set_equal_creation_times(cloud)
    assert cloud.find_violated_invariants() == [Invariant.ANOTHER_HOST]
    record = {"host": "cn2", "node": "cn2", "project_id": "p1", "user_id": "u1"}
    cloud.app.put_json(f"/scheduler/v1/instances/{FIRST}", record)
    assert_invariants(cloud.database)


@pytest.mark.parametrize("times", [1, 3])
def test_allocations_of_a_consumer_recreated_within_a_second_are_valid(cloud, times):
    cloud.place(FIRST, force_hosts=["cn1"])
    cloud.app.delete(f"/scheduler/v1/instances/{FIRST}")
    claim_repeatedly_by_placement(cloud, "cn1", times)
    set_equal_creation_times(cloud)
    assert_invariants(cloud.database)


@pytest.mark.parametrize("uuids", [[FIRST], [FIRST, SECOND]], ids=len)
def test_claim_made_in_the_second_of_its_decision_is_compared_with_it(cloud, uuids):
    cloud.place(*uuids)
    set_equal_creation_times(cloud)
    held = tables.allocations
    execute_without_foreign_keys(
        cloud.database, update(held).where(held.c.consumer_id == FIRST).values(used=2)
    )
    assert cloud.find_violated_invariants() == [Fault.CLAIM_DIFFERS]
    execute_without_foreign_keys(cloud.database, tables.instances.delete())
    assert cloud.find_violated_invariants() == [Invariant.NOT_RECORDED] * len(uuids)

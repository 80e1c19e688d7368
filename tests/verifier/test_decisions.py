# SPDX-License-Identifier: Apache-2.0
"""Comparison of decisions, places and claims, also after moves and rebuilds."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert, select, update

from placement_sched.db import tables
from placement_sched.store.checks import Invariant
from tests.support.scheduling import make_report, make_spec, make_uuid
from tests.support.statements import execute_without_foreign_keys
from tests.support.versions import LATEST_HEADERS
from tests.verifier.model import Fault
from tests.verifier.verify import assert_invariants, verify

pytestmark = pytest.mark.slow

INSTANCE_1, INSTANCE_2, UNUSED_UUID = make_uuid(1), make_uuid(2), make_uuid(999)
SELECT_PATH, EXPLAIN_PATH = "/scheduler/v1/select_destinations", "/scheduler/v1/explain"
DECISION_TABLE, PLACE_TABLE = tables.decisions, tables.decision_places


class CloudOfThreeHosts:
    """Three hosts and their instances."""

    def __init__(self, app, database):
        self.app, self.database = app, database
        hosts = [make_report(f"cn{number}") for number in (1, 2, 3)]
        app.post_json("/scheduler/v1/compute_nodes", hosts)

    def select_hosts(self, *uuids, status=200, options=None, **changes):
        body = {"request_spec": make_spec(*uuids, **changes), **(options or {})}
        return self.app.post_json(SELECT_PATH, body, status=status).json

    def delete_allocations(self, uuid):
        self.app.delete(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS)

    def read_row(self, table, uuid):
        with self.database.read() as connection:
            query = select(table).where(table.c.uuid == uuid)
            return dict(connection.execute(query).mappings().one())

    def copy_decision(self, decision, **changes):
        row = self.read_row(DECISION_TABLE, decision)
        del row["id"]
        place = {
            "decision_uuid": UNUSED_UUID,
            "position": 0,
            "instance_uuid": INSTANCE_1,
            "host": "cn1",
        }
        execute_without_foreign_keys(
            self.database,
            insert(DECISION_TABLE).values({**row, "uuid": UNUSED_UUID, **changes}),
            insert(PLACE_TABLE).values(place),
        )

    def find_violated_invariants(self):
        return sorted(violation.invariant for violation in verify(self.database).violations)


@pytest.fixture
def cloud(app, database):
    return CloudOfThreeHosts(app, database)


@pytest.mark.parametrize("options", [{}, {"claim": False}], ids=str)
@pytest.mark.parametrize("host", ["cn3", None])
def test_placement_on_an_unselected_host_is_reported(cloud, host, options):
    decision = cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"], options=options)["decision"]
    assert_invariants(cloud.database)
    execute_without_foreign_keys(cloud.database, update(PLACE_TABLE).values(host=host))
    (violation,) = verify(cloud.database).violations
    assert violation.invariant is Fault.PLACE_UNLIKE_DECISION
    assert f"decision {decision}, host {host}, chosen cn1" in violation.detail


def build_deletions_of_claim(uuid, *, with_allocations=False):
    consumers, allocations = tables.consumers.c, tables.allocations.c
    of_claim = [
        tables.allocations.delete().where(allocations.consumer_id == uuid),
        tables.consumers.delete().where(consumers.uuid == uuid),
    ]
    return [
        PLACE_TABLE.delete().where(PLACE_TABLE.c.instance_uuid == uuid),
        tables.instances.delete().where(tables.instances.c.uuid == uuid),
        *(of_claim if with_allocations else ()),
    ]


@pytest.mark.parametrize("with_allocations", [False, True])
def test_partially_lost_claim_is_reported(cloud, with_allocations):
    decision = cloud.select_hosts(INSTANCE_1, INSTANCE_2)["decision"]
    assert_invariants(cloud.database)
    execute_without_foreign_keys(
        cloud.database, *build_deletions_of_claim(INSTANCE_2, with_allocations=with_allocations)
    )
    (violation,) = verify(cloud.database).violations
    assert violation.invariant is Fault.DECISION_WITHOUT_PLACE
    assert f"decision {decision}, position 1, requested {INSTANCE_2}" in violation.detail


RECORDED_REQUESTS = {
    "selected": lambda cloud: cloud.select_hosts(INSTANCE_1),
    "selected by number": lambda cloud: cloud.select_hosts(instance_uuids=None, num_instances=2),
    "not claimed": lambda cloud: cloud.select_hosts(INSTANCE_1, options={"claim": False}),
    "with alternates": lambda cloud: cloud.select_hosts(
        INSTANCE_1, options={"return_alternates": True}
    ),
    "without a host": lambda cloud: cloud.select_hosts(
        INSTANCE_1, INSTANCE_2, force_hosts=["no"], status=409
    ),
    "by number, without a host": lambda cloud: cloud.select_hosts(
        instance_uuids=None, num_instances=2, force_hosts=["no"], status=409
    ),
    "in another spelling": lambda cloud: cloud.select_hosts(INSTANCE_1.replace("-", "").upper()),
    "explained": lambda cloud: cloud.app.post_json(
        EXPLAIN_PATH, {"request_spec": make_spec(INSTANCE_1, INSTANCE_2), "keep": True}
    ),
    "explained by number": lambda cloud: cloud.app.post_json(
        EXPLAIN_PATH,
        {"request_spec": make_spec(instance_uuids=None, num_instances=3, force_hosts=["no"])}
        | {"keep": True},
    ),
}


@pytest.mark.parametrize("request_kind", RECORDED_REQUESTS)
def test_decision_has_a_placement_per_instance(cloud, request_kind):
    RECORDED_REQUESTS[request_kind](cloud)
    assert_invariants(cloud.database)
    with cloud.database.read() as connection:
        number = len(connection.execute(select(PLACE_TABLE)).all())
    execute_without_foreign_keys(
        cloud.database, PLACE_TABLE.delete().where(PLACE_TABLE.c.position == number - 1)
    )
    assert cloud.find_violated_invariants().count(Fault.DECISION_WITHOUT_PLACE) == 1


@pytest.mark.all_databases
def test_placement_of_an_unrequested_instance_is_reported(cloud):
    cloud.select_hosts(INSTANCE_1, INSTANCE_2, force_hosts=["nowhere"], status=409)
    execute_without_foreign_keys(
        cloud.database,
        update(PLACE_TABLE).where(PLACE_TABLE.c.position == 1).values(instance_uuid=UNUSED_UUID),
        insert(PLACE_TABLE).from_select(
            ["decision_uuid", "position", "instance_uuid"],
            select(PLACE_TABLE.c.decision_uuid, 7, PLACE_TABLE.c.instance_uuid).where(
                PLACE_TABLE.c.position == 0
            ),
        ),
    )
    assert cloud.find_violated_invariants() == [Fault.DECISION_WITHOUT_PLACE] * 2


def test_decision_of_an_old_release_needs_no_placements(cloud):
    cloud.select_hosts(INSTANCE_1, INSTANCE_2)
    unconditioned = update(DECISION_TABLE).values(conditions=None)
    execute_without_foreign_keys(
        cloud.database, *build_deletions_of_claim(INSTANCE_2, with_allocations=True), unconditioned
    )
    assert_invariants(cloud.database)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_decision_with_an_unreadable_request_is_reported(cloud, text):
    cloud.select_hosts(INSTANCE_1)
    execute_without_foreign_keys(cloud.database, update(DECISION_TABLE).values(request=text))
    assert cloud.find_violated_invariants() == [Fault.DECISION_UNREADABLE]


def test_second_decision_for_an_instance_is_reported(cloud):
    decision = cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])["decision"]
    cloud.copy_decision(decision)
    assert cloud.find_violated_invariants() == [Fault.INSTANCE_OF_EARLIER_DECISION]


def test_instance_with_another_decision_than_its_claim_is_reported(cloud):
    decision = cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])["decision"]
    later = cloud.read_row(DECISION_TABLE, decision)["created_at"] + timedelta(seconds=5)
    cloud.copy_decision(decision, created_at=later)
    execute_without_foreign_keys(
        cloud.database, update(tables.instances).values(decision_uuid=UNUSED_UUID)
    )
    assert cloud.find_violated_invariants() == [Fault.CLAIM_BEFORE_DECISION]


def test_second_decision_without_claim_is_allowed(cloud):
    decision = cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])["decision"]
    cloud.copy_decision(decision, kind="no_claim")
    assert cloud.find_violated_invariants() == []


def test_instance_selected_again_after_a_move_violates_no_invariant(cloud):
    for host in ("cn1", "cn2", "cn1"):
        first = cloud.select_hosts(INSTANCE_1, force_hosts=[host])
        assert cloud.select_hosts(INSTANCE_1, force_hosts=[host]) == first
        assert_invariants(cloud.database)
        cloud.delete_allocations(INSTANCE_1)
    cloud.select_hosts(INSTANCE_1, INSTANCE_2)
    cloud.app.delete(f"/scheduler/v1/instances/{INSTANCE_1}")
    assert_invariants(cloud.database)
    cloud.select_hosts(INSTANCE_1)
    assert_invariants(cloud.database)


def test_evacuated_instance_with_two_claims_violates_no_invariant(cloud):
    cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])
    cloud.select_hosts(INSTANCE_1, ignore_hosts=["cn1"], options={"claim": "add"})
    held = cloud.app.get(f"/placement/allocations/{INSTANCE_1}", headers=LATEST_HEADERS).json
    assert len(held["allocations"]) == 2
    assert_invariants(cloud.database)


def test_rebuild_without_a_claim_violates_no_invariant(cloud):
    cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])
    hints = {"_nova_check_type": ["rebuild"]}
    fields = {"scheduler_hints": hints, "requested_destination": {"host": "cn1", "node": "cn1"}}
    response = cloud.select_hosts(INSTANCE_1, **fields)
    assert response["selections"][0][0]["allocation_request"] is None
    assert_invariants(cloud.database)


def test_alternate_host_claimed_by_nova_is_allowed(cloud):
    response = cloud.select_hosts(INSTANCE_1, options={"return_alternates": True})
    *_, alternate = response["selections"][0]
    cloud.delete_allocations(INSTANCE_1)
    body = {
        "allocations": alternate["allocation_request"]["allocations"],
        "project_id": "p1",
        "user_id": "u1",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    cloud.app.put_json(f"/placement/allocations/{INSTANCE_1}", body, headers=LATEST_HEADERS)
    host = alternate["service_host"]
    record = {"host": host, "node": host, "project_id": "p1", "user_id": "u1"}
    cloud.app.put_json(f"/scheduler/v1/instances/{INSTANCE_1}", record)
    # Times have whole seconds. A build that fails takes longer than a second.
    later = datetime.fromisoformat("2038-01-01T12:00:00")
    execute_without_foreign_keys(cloud.database, update(tables.consumers).values(created_at=later))
    assert_invariants(cloud.database)


def test_deleted_decisions_violate_no_invariant(cloud):
    decision = cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])["decision"]
    cloud.delete_allocations(INSTANCE_1)
    cloud.select_hosts(INSTANCE_1, force_hosts=["cn2"])
    execute_without_foreign_keys(
        cloud.database,
        PLACE_TABLE.delete().where(PLACE_TABLE.c.decision_uuid == decision),
        DECISION_TABLE.delete().where(DECISION_TABLE.c.uuid == decision),
    )
    assert_invariants(cloud.database)


def claim_by_placement_api(cloud, host, times=1):
    owner = {"project_id": "p1", "user_id": "u1", "consumer_type": "INSTANCE"}
    for generation in (None, *range(1, times)):
        held = {make_report(host)["uuid"]: {"resources": {"VCPU": 1 + (generation or 0)}}}
        body = {**owner, "consumer_generation": generation, "allocations": held}
        cloud.app.put_json(f"/placement/allocations/{INSTANCE_1}", body, headers=LATEST_HEADERS)


def set_equal_creation_times(cloud):
    moment = datetime.fromisoformat("2038-01-01T12:00:00")
    execute_without_foreign_keys(
        cloud.database,
        update(tables.consumers).values(created_at=moment),
        update(DECISION_TABLE).values(created_at=moment),
    )


def test_claim_recreated_in_the_same_second_is_not_compared_with_the_decision(cloud):
    cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])
    cloud.delete_allocations(INSTANCE_1)
    claim_by_placement_api(cloud, "cn2")
    set_equal_creation_times(cloud)
    assert cloud.find_violated_invariants() == [Invariant.ANOTHER_HOST]
    record = {"host": "cn2", "node": "cn2", "project_id": "p1", "user_id": "u1"}
    cloud.app.put_json(f"/scheduler/v1/instances/{INSTANCE_1}", record)
    assert_invariants(cloud.database)


@pytest.mark.parametrize("times", [1, 3])
def test_allocations_of_a_consumer_recreated_within_a_second_are_valid(cloud, times):
    cloud.select_hosts(INSTANCE_1, force_hosts=["cn1"])
    cloud.app.delete(f"/scheduler/v1/instances/{INSTANCE_1}")
    claim_by_placement_api(cloud, "cn1", times)
    set_equal_creation_times(cloud)
    assert_invariants(cloud.database)


@pytest.mark.parametrize("uuids", [[INSTANCE_1], [INSTANCE_1, INSTANCE_2]], ids=len)
def test_claim_made_in_the_second_of_its_decision_is_compared_with_it(cloud, uuids):
    cloud.select_hosts(*uuids)
    set_equal_creation_times(cloud)
    allocations = tables.allocations
    execute_without_foreign_keys(
        cloud.database,
        update(allocations).where(allocations.c.consumer_id == INSTANCE_1).values(used=2),
    )
    assert cloud.find_violated_invariants() == [Fault.CLAIM_DIFFERS]
    execute_without_foreign_keys(cloud.database, tables.instances.delete())
    assert cloud.find_violated_invariants() == [Invariant.NOT_RECORDED] * len(uuids)

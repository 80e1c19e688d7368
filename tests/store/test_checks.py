# SPDX-License-Identifier: Apache-2.0
"""Reports of invariants that SQL statements violate."""

import shutil
from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete, insert, select, update

from placement_sched.app import create_app
from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.store import figures
from placement_sched.store.checks import Invariant
from placement_sched.store.compute import instances
from tests.conftest import AdminClient, make_settings
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.statements import execute_without_foreign_keys
from tests.support.versions import LATEST_HEADERS
from tests.verifier.model import Fault
from tests.verifier.verify import assert_invariants, verify

pytestmark = pytest.mark.slow

CN1_UUID, CN2_UUID = make_report("cn1")["uuid"], make_report("cn2")["uuid"]
CHILD_UUID = make_uuid(77)
VM_1, VM_2, VM_3 = make_uuid(1), make_uuid(2), make_uuid(3)
ABSENT_ID = 987654
ABSENT_UUID = make_uuid(999)
YEAR_2038 = datetime.fromisoformat("2038-01-01T12:00:00")
SELECT_DESTINATIONS_PATH = "/scheduler/v1/select_destinations"


class CloudOfTwoHosts:
    """Two hosts, a child of cn1, a group of two instances, another instance and an aggregate."""

    def __init__(self, app):
        self.app = app
        app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
        body = {"uuid": CHILD_UUID, "name": "cn1-gpu", "parent_provider_uuid": CN1_UUID}
        app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
        app.put_json(
            f"/placement/resource_providers/{CHILD_UUID}/inventories",
            {"resource_provider_generation": 0, "inventories": {"VGPU": {"total": 4}}},
            headers=LATEST_HEADERS,
        )
        app.put_json(
            f"/placement/resource_providers/{CHILD_UUID}/traits",
            {"resource_provider_generation": 1, "traits": ["HW_GPU_API_VULKAN"]},
            headers=LATEST_HEADERS,
        )
        response = app.post_json(
            "/compute/v2.1/os-server-groups",
            {"server_group": {"name": "apart", "policy": "anti-affinity"}},
            headers={"OpenStack-API-Version": "compute 2.64"},
        )
        self.group = response.json["server_group"]["id"]
        self.select_destinations(VM_1, VM_2, instance_group=self.group)
        self.select_destinations(VM_3)
        aggregate = {"aggregate": {"name": "racks", "availability_zone": None}}
        response = app.post_json("/compute/v2.1/os-aggregates", aggregate).json["aggregate"]
        add = {"add_host": {"host": "cn1"}}
        app.post_json(f"/compute/v2.1/os-aggregates/{response['id']}/action", add)

    def select_destinations(self, *uuids, status=200, **changes):
        body = {"request_spec": make_spec(*uuids, **changes)}
        return self.app.post_json(SELECT_DESTINATIONS_PATH, body, status=status).json


@pytest.fixture
def cloud(app):
    return CloudOfTwoHosts(app)


@pytest.fixture(scope="module")
def written_database_file(sqlite_template, tmp_path_factory):
    """Return the SQLite file of the cloud."""
    path = tmp_path_factory.mktemp("written") / "cloud.db"
    shutil.copy(sqlite_template, path)
    application = create_app(make_settings(f"sqlite:///{path}"))
    CloudOfTwoHosts(AdminClient(application))
    application.close()
    return path


@pytest.fixture
def database_copy(written_database_file, tmp_path):
    """Return a copy of the cloud's database."""
    path = shutil.copy(written_database_file, tmp_path / "copy.db")
    database = Database(make_settings(f"sqlite:///{path}"))
    yield database
    database.dispose()


def provider_id(uuid):
    columns = tables.resource_providers.c
    return select(columns.id).where(columns.uuid == uuid).scalar_subquery()


def class_id(name):
    columns = tables.resource_classes.c
    return select(columns.id).where(columns.name == name).scalar_subquery()


def build_allocation_insert(provider, resource_class, consumer, used=1):
    return insert(tables.allocations).values(
        resource_provider_id=provider,
        resource_class_id=resource_class,
        consumer_id=consumer,
        used=used,
        created_at=YEAR_2038,
        updated_at=YEAR_2038,
    )


def build_inventory_insert(provider, resource_class):
    amounts = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}
    return insert(tables.inventories).values(
        resource_provider_id=provider,
        resource_class_id=resource_class,
        allocation_ratio=1.0,
        **amounts,
    )


def build_provider_update(uuid, **values):
    return _build_update(tables.resource_providers, "uuid", uuid, values)


def build_consumer_update(uuid, **values):
    return _build_update(tables.consumers, "uuid", uuid, values)


def build_allocations_update(uuid, **values):
    return _build_update(tables.allocations, "consumer_id", uuid, values)


def build_claim_update(uuid, at):
    return [
        build_consumer_update(uuid, created_at=at),
        build_allocations_update(uuid, created_at=at, updated_at=at),
    ]


def build_instance_update(uuid, **values):
    return _build_update(tables.instances, "uuid", uuid, values)


def _build_update(table, column, value, values):
    return update(table).where(table.c[column] == value).values(**values)


def build_allocation_move(uuid, to):
    number = provider_id(to)
    return [
        build_allocations_update(uuid, resource_provider_id=number),
        build_consumer_update(uuid, generation=2),
    ]


PROVIDER_TRAITS, PROVIDER_AGGREGATES = (
    tables.resource_provider_traits,
    tables.resource_provider_aggregates,
)
FIRST_TRAIT_ID = select(tables.traits.c.id).limit(1).scalar_subquery()
FIRST_AGGREGATE_ID = select(tables.placement_aggregates.c.id).limit(1).scalar_subquery()
DECISION_OF_VM_3 = (
    select(tables.instances.c.decision_uuid).where(tables.instances.c.uuid == VM_3)
).scalar_subquery()
IS_MEMORY_INVENTORY = tables.inventories.c.resource_class_id == class_id("MEMORY_MB")
IS_VCPU_ALLOCATION = tables.allocations.c.resource_class_id == class_id("VCPU")
#: The two instances of the group are on a host.
GROUP_MOVES_TO_CN1 = [
    *(build_instance_update(uuid, host="cn1", node="cn1") for uuid in (VM_1, VM_2)),
    *build_allocation_move(VM_1, CN1_UUID),
    *build_allocation_move(VM_2, CN1_UUID),
]


def build_decision_update(**values):
    return _build_update(tables.decisions, "uuid", DECISION_OF_VM_3, values)


#: Statements, the invariants that they violate, and words of the audit's violation.
VIOLATIONS_BY_CHANGE = {
    "amount": (
        [
            build_allocations_update(
                VM_3, used=2_000_000, created_at=YEAR_2038, updated_at=YEAR_2038
            )
        ],
        {Invariant.OVER_CAPACITY, Fault.UNITS, Fault.CLAIM_DIFFERS},
        "are allocated, over its capacity of 1000 ((total 1000 - reserv",
    ),
    "min_unit": (
        [
            update(tables.inventories).values(min_unit=2),
            *(build_allocations_update(uuid, updated_at=YEAR_2038) for uuid in (VM_3, VM_1, VM_2)),
        ],
        {Fault.UNITS},
        "min_unit 2",
    ),
    "step_size": (
        [
            update(tables.inventories).values(step_size=7),
            build_allocations_update(VM_3, updated_at=YEAR_2038),
        ],
        {Fault.UNITS},
        "step_size 7",
    ),
    "inventory gone": (
        [delete(tables.inventories).where(IS_MEMORY_INVENTORY)],
        {Invariant.NO_INVENTORY},
        f"consumer {VM_1} holds 1024 MEMORY_MB of provider cn",
    ),
    "allocation of no provider": (
        [build_allocation_insert(ABSENT_ID, class_id("VCPU"), VM_3)],
        {Invariant.NO_PROVIDER},
        f"consumer {VM_3} holds allocations of the provider number {ABSENT_ID}, which does not",
    ),
    "allocation of no class": (
        [build_allocation_insert(provider_id(CN1_UUID), ABSENT_ID, VM_3)],
        {Fault.NO_CLASS},
        f"number {ABSENT_ID}, provider {CN1_UUID}",
    ),
    "allocation of no consumer": (
        [build_allocation_insert(provider_id(CN1_UUID), class_id("VCPU"), ABSENT_UUID)],
        {Invariant.NO_CONSUMER},
        f"consumer {ABSENT_UUID} has allocations but no record",
    ),
    "allocated twice": (
        [build_allocation_insert(provider_id(CHILD_UUID), class_id("VGPU"), VM_3)] * 2,
        {Invariant.ALLOCATED_TWICE, Fault.CLAIM_DIFFERS},
        f"consumer {VM_3} has 2 allocations of VGPU of provider cn1-gpu ({CHILD_UUID})",
    ),
    "consumer without allocations": (
        [delete(tables.allocations).where(tables.allocations.c.consumer_id == VM_3)],
        {Invariant.NO_ALLOCATIONS, Invariant.NOT_CLAIMED, Fault.CLAIM_DIFFERS},
        f"consumer {VM_3} has a record but no allocations",
    ),
    "no project": ([build_consumer_update(VM_3, project_id=ABSENT_ID)], {Fault.NO_PROJECT}, VM_3),
    "no user": ([build_consumer_update(VM_3, user_id=ABSENT_ID)], {Fault.NO_USER}, VM_3),
    "no consumer type": (
        [build_consumer_update(VM_3, consumer_type_id=ABSENT_ID)],
        {Fault.NO_TYPE},
        VM_3,
    ),
    "inventory of no provider": (
        [build_inventory_insert(ABSENT_ID, class_id("VCPU"))],
        {Fault.INVENTORY_NO_PROVIDER},
        f"{ABSENT_ID}",
    ),
    "inventory of no class": (
        [build_inventory_insert(provider_id(CN2_UUID), ABSENT_ID)],
        {Fault.INVENTORY_NO_CLASS},
        CN2_UUID,
    ),
    "trait of no provider": (
        [insert(PROVIDER_TRAITS).values(trait_id=FIRST_TRAIT_ID, resource_provider_id=ABSENT_ID)],
        {Fault.TRAIT_NO_PROVIDER},
        f"{ABSENT_ID}",
    ),
    "no such trait": (
        [
            insert(PROVIDER_TRAITS).values(
                trait_id=ABSENT_ID, resource_provider_id=provider_id(CN2_UUID)
            )
        ],
        {Fault.UNKNOWN_TRAIT},
        CN2_UUID,
    ),
    "member of no provider": (
        [
            insert(PROVIDER_AGGREGATES).values(
                aggregate_id=FIRST_AGGREGATE_ID, resource_provider_id=ABSENT_ID
            )
        ],
        {Fault.MEMBER_NO_PROVIDER},
        f"{ABSENT_ID}",
    ),
    "no such aggregate": (
        [
            insert(PROVIDER_AGGREGATES).values(
                aggregate_id=ABSENT_ID, resource_provider_id=provider_id(CN2_UUID)
            )
        ],
        {Fault.UNKNOWN_AGGREGATE},
        CN2_UUID,
    ),
    "no parent": (
        [build_provider_update(CHILD_UUID, parent_provider_id=ABSENT_ID)],
        {Invariant.NO_PARENT},
        (
            f"provider cn1-gpu ({CHILD_UUID}) has the provider number {ABSENT_ID} as parent, "
            "which does not"
        ),
    ),
    "provider is its own parent": (
        [build_provider_update(CHILD_UUID, parent_provider_id=tables.resource_providers.c.id)],
        {Invariant.PARENT_LOOP},
        f"provider cn1-gpu ({CHILD_UUID}) has no root: its parents form a cycle",
    ),
    "root does not exist": (
        [build_provider_update(CN2_UUID, root_provider_id=ABSENT_ID)],
        {Invariant.WRONG_ROOT},
        f"provider cn2 ({CN2_UUID}) has the provider number {ABSENT_ID} as root",
    ),
    "no root": (
        [build_provider_update(CN2_UUID, root_provider_id=None)],
        {Invariant.WRONG_ROOT},
        f"provider cn2 ({CN2_UUID}) has the provider number None as root",
    ),
    "child is its own root": (
        [build_provider_update(CHILD_UUID, root_provider_id=tables.resource_providers.c.id)],
        {Invariant.WRONG_ROOT},
        f"provider cn1-gpu ({CHILD_UUID}) has the provider number",
    ),
    "generation of a provider": (
        [build_provider_update(CN1_UUID, generation=-1)],
        {Fault.PROVIDER_GENERATION},
        CN1_UUID,
    ),
    "generation of a consumer": (
        [build_consumer_update(VM_3, generation=-3)],
        {Fault.CONSUMER_GENERATION},
        VM_3,
    ),
    "no such group": (
        [build_instance_update(VM_3, server_group=ABSENT_UUID)],
        {Invariant.UNKNOWN_GROUP},
        f"instance {VM_3} is in the server group {ABSENT_UUID}, which does not exist",
    ),
    "affinity": (
        [update(tables.server_groups).values(policy="affinity")],
        {Invariant.AFFINITY},
        ") are on 2 hosts",
    ),
    "anti-affinity": (
        GROUP_MOVES_TO_CN1,
        {Invariant.ANTI_AFFINITY},
        ") are on host cn1, at most 1 allowed",
    ),
    "recorded on another host": (
        [build_instance_update(VM_3, host="elsewhere")],
        {Invariant.ANOTHER_HOST},
        f"instance {VM_3} is recorded on host elsewhere (node cn",
    ),
    "recorded on another node": (
        [build_instance_update(VM_3, node="elsewhere")],
        {Invariant.ANOTHER_HOST},
        "(node elsewhere), but has allocations on host cn",
    ),
    "allocations on another host": (
        [
            build_instance_update(VM_3, host="cn2", node="cn2"),
            *build_allocation_move(VM_3, CN1_UUID),
        ],
        {Invariant.ANOTHER_HOST},
        f"instance {VM_3} is recorded on host cn2 (node cn2), but has allocations on host cn1",
    ),
    "allocations below another host": (
        [
            build_instance_update(VM_3, host="cn2", node=None),
            delete(tables.allocations).where(tables.allocations.c.consumer_id == VM_3),
            build_consumer_update(VM_3, generation=2),
            build_allocation_insert(provider_id(CHILD_UUID), class_id("VGPU"), VM_3),
        ],
        {Invariant.ANOTHER_HOST},
        f"instance {VM_3} is recorded on host cn2 (node None), but has allocations on host cn1",
    ),
    "claim of no instance": (
        [delete(tables.instances).where(tables.instances.c.uuid == VM_3)],
        {Invariant.NOT_RECORDED},
        f"instance {VM_3} has the allocations of decision ",
    ),
    **{
        f"selections {text}": (
            [build_decision_update(selections=text)],
            {Fault.DECISION_UNREADABLE},
            VM_3,
        )
        for text in ("{", "[]", '{"selections": []}', '{"selections": [[{"service_host": 5}]]}')
    },
    "place of no decision": (
        [
            insert(tables.decision_places).values(
                decision_uuid=ABSENT_UUID, position=0, instance_uuid=VM_3, host="cn1"
            )
        ],
        {Fault.NO_DECISION},
        ABSENT_UUID,
    ),
    "decision without a host": (
        [build_decision_update(outcome="no_valid_host")],
        {Fault.REJECTED_DECISION},
        "outcome no_valid_host",
    ),
    "claim without VCPUs": (
        [
            delete(tables.allocations).where(
                tables.allocations.c.consumer_id == VM_3, IS_VCPU_ALLOCATION
            )
        ],
        {Fault.CLAIM_DIFFERS},
        VM_3,
    ),
    "host not in its provider aggregate": (
        [delete(PROVIDER_AGGREGATES)],
        {Fault.NOT_IN_PLACEMENT},
        "cn1",
    ),
    "provider aggregate of another host": (
        [
            insert(PROVIDER_AGGREGATES).values(
                aggregate_id=FIRST_AGGREGATE_ID, resource_provider_id=provider_id(CN2_UUID)
            )
        ],
        {Fault.STALE_IN_PLACEMENT},
        "cn2",
    ),
}


@pytest.mark.parametrize("change", VIOLATIONS_BY_CHANGE)
def test_change_of_rows_is_reported_as_its_violated_invariant(database_copy, change):
    statements, kinds, words = VIOLATIONS_BY_CHANGE[change]
    execute_without_foreign_keys(database_copy, *statements)
    violations = verify(database_copy).violations
    assert list_violated_invariants(violations) == kinds
    details = [violation.detail for violation in violations]
    assert any(words in detail for detail in details), details


def list_violated_invariants(violations):
    return {violation.invariant for violation in violations}


def test_cloud_written_by_the_apis_has_no_violations(database_copy):
    assert_invariants(database_copy)
    verified = verify(database_copy)
    assert (verified.violations, verified.allowed, verified.truncated) == ((), (), frozenset())
    assert dict(verified.checked) == {
        "providers": 3,
        "inventories": 7,
        "allocations": 9,
        "consumers": 3,
        "aggregates": 1,
    }


@pytest.mark.all_databases
def test_providers_that_are_parents_of_each_other_are_reported(cloud, database):
    execute_without_foreign_keys(
        database,
        build_provider_update(CN1_UUID, parent_provider_id=provider_id_of_subquery(CN2_UUID)),
        build_provider_update(CN2_UUID, parent_provider_id=provider_id_of_subquery(CN1_UUID)),
    )
    violations = verify(database).violations
    loops = [violation for violation in violations if "cycle" in violation.detail]
    assert len(loops) == 3  # cn1, cn2 and the child of cn1
    assert list_violated_invariants(loops) == {Invariant.PARENT_LOOP}


def provider_id_of_subquery(uuid):
    inner = select(tables.resource_providers).subquery()
    return select(inner.c.id).where(inner.c.uuid == uuid).scalar_subquery()


def build_row_copy(database, table, original, **values):
    with database.read() as connection:
        row = connection.execute(select(table).where(table.c.uuid == original)).mappings().one()
    return insert(table).values({**row, "id": ABSENT_ID, **values})


def test_provider_uuid_with_and_without_hyphens_is_reported(database_copy):
    changes = {"root_provider_id": ABSENT_ID, "uuid": CN2_UUID.replace("-", ""), "name": "x"}
    execute_without_foreign_keys(
        database_copy, build_row_copy(database_copy, tables.resource_providers, CN2_UUID, **changes)
    )
    (violation,) = verify(database_copy).violations
    assert violation.invariant is Invariant.PROVIDER_TWICE
    assert f"provider {CN2_UUID} has 2 records, in different spellings" in violation.detail


def test_consumer_uuid_in_upper_and_lower_case_is_reported(sqlite_database, sqlite_app):
    lower = "aaaaaaaa-0000-4000-8000-000000000001"
    CloudOfTwoHosts(sqlite_app).select_destinations(lower)
    execute_without_foreign_keys(
        sqlite_database,
        build_row_copy(sqlite_database, tables.consumers, lower, uuid=lower.upper()),
        build_allocation_insert(provider_id(CHILD_UUID), class_id("VGPU"), lower.upper()),
    )
    (violation,) = verify(sqlite_database).violations
    assert violation.invariant is Fault.CONSUMER_TWICE
    assert f"consumer {lower}, times 2" in violation.detail


#: Statements that violate no invariant.
VALID_CHANGES = {
    "two members on a host": [
        *GROUP_MOVES_TO_CN1,
        update(tables.server_groups).values(max_server_per_host=2),
    ],
    "instance in a task": [
        *build_allocation_move(VM_3, CN1_UUID),
        build_instance_update(VM_3, host="cn2", node="cn2", task_state="migrating"),
    ],
    "instance without host": [
        *build_allocation_move(VM_3, CN1_UUID),
        build_instance_update(VM_3, host=None, node=None),
    ],
}


@pytest.mark.parametrize("statements", VALID_CHANGES.values(), ids=VALID_CHANGES)
def test_valid_change_of_rows_violates_no_invariant(database_copy, statements):
    execute_without_foreign_keys(database_copy, *statements)
    assert_invariants(database_copy)


@pytest.mark.all_databases
def test_inventory_reserving_more_than_its_total_is_valid_without_allocations(cloud, database):
    reserving = update(tables.inventories).where(
        tables.inventories.c.resource_class_id == class_id("VGPU")
    )
    execute_without_foreign_keys(database, reserving.values(total=1, reserved=5))
    assert_invariants(database)
    assert verify(database).allowed == ()
    execute_without_foreign_keys(
        database, build_allocation_insert(provider_id(CHILD_UUID), class_id("VGPU"), VM_3)
    )
    assert Invariant.OVER_CAPACITY in list_violated_invariants(verify(database).violations)


def test_inventory_shrunk_in_the_second_of_the_claim_is_allowed(database_copy):
    shrunk = update(tables.inventories).where(IS_MEMORY_INVENTORY)
    earlier = {"created_at": YEAR_2038 - timedelta(seconds=1)}
    at_once = [build_allocations_update(uuid, updated_at=YEAR_2038) for uuid in (VM_1, VM_2, VM_3)]
    small = {"total": 512, "max_unit": 512, "updated_at": YEAR_2038}
    execute_without_foreign_keys(database_copy, *at_once, shrunk.values(**small, **earlier))
    verified = verify(database_copy)
    assert verified.violations == ()
    assert list_violated_invariants(verified.allowed) == {Invariant.OVER_CAPACITY, Fault.UNITS}
    words = "2038-01-01 12:00:00"
    assert all(words in violation.detail for violation in verified.allowed)
    # An inventory that was created in that second did not shrink after the claim.
    execute_without_foreign_keys(database_copy, shrunk.values(created_at=YEAR_2038))
    assert verify(database_copy).allowed == ()


def test_inventory_shrunk_after_the_claim_is_allowed_and_reported(database_copy):
    shrunk = update(tables.inventories).where(IS_MEMORY_INVENTORY)
    execute_without_foreign_keys(
        database_copy, shrunk.values(total=512, max_unit=512, updated_at=YEAR_2038)
    )
    verified = verify(database_copy)
    assert verified.violations == ()
    assert list_violated_invariants(verified.allowed) == {Invariant.OVER_CAPACITY, Fault.UNITS}
    assert all("2038-01-01 12:00:00" in violation.detail for violation in verified.allowed)
    # A later claim is a violation.
    later = YEAR_2038 + timedelta(seconds=1)
    execute_without_foreign_keys(database_copy, *build_claim_update(VM_3, later))
    violations = verify(database_copy).violations
    assert list_violated_invariants(violations) == {Invariant.OVER_CAPACITY, Fault.UNITS}


@pytest.mark.all_databases
@pytest.mark.parametrize(
    "reduction", [{"allocation_ratio": 0.25}, {"reserved": 7}], ids=["ratio", "reserved"]
)
def test_fewer_allocations_and_moves_to_a_migration_over_capacity_are_allowed(
    cloud, database, reduction
):
    long_ago = datetime.fromisoformat("2020-01-01T12:00:00")
    execute_without_foreign_keys(database, update(tables.inventories).values(created_at=long_ago))
    put_allocations(cloud.app, VM_3, **{CN1_UUID: {"VCPU": 8, "MEMORY_MB": 512}})
    path = f"/placement/resource_providers/{CN1_UUID}/inventories"
    document = cloud.app.get(path, headers=LATEST_HEADERS).json
    reduced = {**document["inventories"]["VCPU"], "total": 8, "allocation_ratio": 1.0, **reduction}
    body = {**document, "inventories": {**document["inventories"], "VCPU": reduced}}
    cloud.app.put_json(path, body, headers=LATEST_HEADERS)
    put_allocations(cloud.app, VM_3, **{CN1_UUID: {"VCPU": 7, "MEMORY_MB": 512}})
    verified = verify(database)
    assert (list_violated_invariants(verified.allowed), verified.violations) == (
        {Invariant.OVER_CAPACITY},
        (),
    )
    claim = cloud.app.get(f"/placement/allocations/{VM_3}", headers=LATEST_HEADERS).json
    moved = {**claim, "consumer_generation": None, "consumer_type": "MIGRATION"}
    body = {make_uuid(5): moved, VM_3: {**claim, "allocations": {}}}
    cloud.app.post_json("/placement/allocations", body, headers=LATEST_HEADERS)
    execute_without_foreign_keys(database, build_instance_update(VM_3, task_state="migrating"))
    verified = verify(database)
    assert (list_violated_invariants(verified.allowed), verified.violations) == (
        {Invariant.OVER_CAPACITY},
        (),
    )


@pytest.mark.all_databases
def test_one_time_use_device_that_is_reserved_after_its_claim_is_valid(cloud, database):
    put_allocations(cloud.app, VM_3, **{CHILD_UUID: {"VGPU": 4}})
    path = f"/placement/resource_providers/{CHILD_UUID}/inventories"
    document = cloud.app.get(path, headers=LATEST_HEADERS).json
    body = {**document, "inventories": {"VGPU": {**document["inventories"]["VGPU"], "reserved": 4}}}
    cloud.app.put_json(path, body, headers=LATEST_HEADERS)
    put_allocations(cloud.app, VM_3, **{CHILD_UUID: {"VGPU": 3}})
    verified = verify(database)
    assert (verified.allowed, verified.violations) == ((), ())
    with database.read() as connection:
        assert figures.count_rows(connection).overfull_inventories == 0


@pytest.mark.all_databases
def test_many_shrunk_inventories_do_not_suppress_violations(cloud, database, monkeypatch):
    monkeypatch.setattr("placement_sched.operations.checks.MAX_VIOLATIONS", 1)
    shrunk = update(tables.inventories).where(
        tables.inventories.c.resource_class_id.in_([class_id("MEMORY_MB"), class_id("DISK_GB")])
    )
    later = YEAR_2038 + timedelta(seconds=1)
    execute_without_foreign_keys(
        database,
        shrunk.values(total=1, reserved=0, max_unit=1, updated_at=YEAR_2038),
        *build_claim_update(VM_2, later),
    )
    details = {
        violation.detail
        for violation in verify(database).violations
        if violation.invariant is Invariant.OVER_CAPACITY
    }
    (detail,) = details
    assert f"allocated at {later}" in detail


@pytest.mark.parametrize("used", [0, -5])
def test_allocated_amount_below_one_is_a_violation(database_copy, used):
    later = update(tables.inventories).values(updated_at=YEAR_2038, min_unit=-10)
    execute_without_foreign_keys(
        database_copy,
        later,
        build_allocations_update(VM_3, used=used),
        build_consumer_update(VM_3, generation=2),
    )
    verified = verify(database_copy)
    assert verified.allowed == ()
    assert list_violated_invariants(verified.violations) == {Fault.UNITS}
    assert len(verified.violations) == 3


def test_negative_allocated_amount_does_not_raise_free_capacity(database_copy):
    on_cn1 = {"resource_provider_id": provider_id(CN1_UUID), "updated_at": YEAR_2038}
    execute_without_foreign_keys(
        database_copy,
        update(tables.allocations).values(**on_cn1),
        build_allocations_update(VM_1, used=2_000_000),
        build_allocations_update(VM_3, used=-3_000_000),
    )
    assert Invariant.OVER_CAPACITY in list_violated_invariants(verify(database_copy).violations)


@pytest.mark.all_databases
def test_unchanged_inventory_update_does_not_allow_over_allocation(cloud, database):
    memory = tables.allocations.c.resource_class_id == class_id("MEMORY_MB")
    long_ago = datetime.fromisoformat("2020-01-01T12:00:00")
    execute_without_foreign_keys(
        database,
        update(tables.inventories).values(created_at=long_ago, updated_at=long_ago),
        update(tables.allocations).values(created_at=long_ago, updated_at=long_ago),
        update(tables.allocations).where(memory).values(used=201_024),
    )
    before = {violation.detail for violation in verify(database).violations}
    assert any("used 201024" in detail for detail in before)
    for uuid in (CN1_UUID, CN2_UUID):
        path = f"/placement/resource_providers/{uuid}/inventories"
        held = cloud.app.get(path, headers=LATEST_HEADERS).json
        after = cloud.app.put_json(path, held, headers=LATEST_HEADERS).json
        generation = held["resource_provider_generation"]
        assert after["resource_provider_generation"] == generation + 1
        alone = {**held["inventories"]["MEMORY_MB"], "resource_provider_generation": generation + 1}
        cloud.app.put_json(f"{path}/MEMORY_MB", alone, headers=LATEST_HEADERS)
    verified = verify(database)
    assert ({violation.detail for violation in verified.violations}, verified.allowed) == (
        before,
        (),
    )


STORAGE_POOL_UUID = make_uuid(88)


def put_allocations(app, uuid, **by_provider):
    held = app.get(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS).json
    owner = {"project_id": "p1", "user_id": "u1", "consumer_type": "INSTANCE"}
    parts = {provider: {"resources": amounts} for provider, amounts in by_provider.items()}
    body = {**owner, "consumer_generation": None, **held, "allocations": parts}
    app.put_json(f"/placement/allocations/{uuid}", body, headers=LATEST_HEADERS)


def test_allocations_on_pools_and_children_of_a_host_are_valid(cloud, database):
    app = cloud.app
    app.post_json(
        "/placement/resource_providers",
        {"uuid": STORAGE_POOL_UUID, "name": "pool"},
        headers=LATEST_HEADERS,
    )
    path = f"/placement/resource_providers/{STORAGE_POOL_UUID}/inventories"
    body = {"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 100}}}
    app.put_json(path, body, headers=LATEST_HEADERS)
    execute_without_foreign_keys(
        database,
        build_instance_update(VM_3, host="cn1", node="cn1"),
        *build_allocation_move(VM_3, CN1_UUID),
    )
    # With a shared pool, on both hosts of a move, only on a child of its host, only on the pool.
    for held in (
        {CN1_UUID: {"VCPU": 1}, STORAGE_POOL_UUID: {"DISK_GB": 10}},
        {CN1_UUID: {"VCPU": 1}, CN2_UUID: {"VCPU": 1}},
        {CHILD_UUID: {"VGPU": 1}},
        {STORAGE_POOL_UUID: {"DISK_GB": 1}},
    ):
        put_allocations(app, VM_3, **held)
        assert_invariants(database)
    put_allocations(app, VM_3, **{CN2_UUID: {"VCPU": 1}, STORAGE_POOL_UUID: {"DISK_GB": 10}})
    (violation,) = verify(database).violations
    assert violation.invariant is Invariant.ANOTHER_HOST


def test_ironic_node_moved_to_another_compute_service_is_valid(database_copy):
    report_of = select(tables.compute_nodes.c.report).where(tables.compute_nodes.c.uuid == CN1_UUID)
    with database_copy.read() as connection:
        text = connection.scalars(report_of).one()
    ironic = text.replace('"hypervisor_type":"QEMU"', '"hypervisor_type":"ironic"')
    assert ironic != text
    execute_without_foreign_keys(
        database_copy,
        *build_allocation_move(VM_3, CN1_UUID),
        build_instance_update(VM_3, host="the first", node="cn1"),
        _build_update(tables.compute_nodes, "uuid", CN1_UUID, {"report": ironic}),
    )
    assert_invariants(database_copy)


@pytest.mark.parametrize(
    ("read_at", "kinds"),
    [
        (None, set()),
        (timedelta(0), set()),
        (timedelta(seconds=59), set()),
        (timedelta(seconds=61), {Invariant.ANOTHER_HOST}),
    ],
    ids=str,
)
def test_instance_host_is_checked_only_if_read_long_after_the_claim(database_copy, read_at, kinds):
    cell = make_uuid(55)
    read = None if read_at is None else YEAR_2038 + read_at
    execute_without_foreign_keys(
        database_copy,
        insert(tables.cells).values(uuid=cell, name="cell1", disabled=0, read_at=read),
        update(tables.compute_nodes).values(cell_uuid=cell),
        build_instance_update(VM_3, host="cn2", node="cn2"),
        *build_allocation_move(VM_3, CN1_UUID),
        build_allocations_update(VM_3, updated_at=YEAR_2038),
    )
    assert list_violated_invariants(verify(database_copy).violations) == kinds


def test_claims_of_deleted_instances_are_ignored(cloud, database):
    cloud.app.delete(f"/scheduler/v1/instances/{VM_3}")
    assert_invariants(database)
    # A client that allocates for the same uuid again has another consumer.
    put_allocations(cloud.app, VM_3, **{CN1_UUID: {"VCPU": 1}})
    execute_without_foreign_keys(database, build_consumer_update(VM_3, created_at=YEAR_2038))
    assert_invariants(database)


def test_claim_in_an_unavailable_cell_needs_no_instance_record(database_copy):
    cell = make_uuid(55)
    gone = delete(tables.instances).where(tables.instances.c.uuid == VM_3)
    away = insert(tables.cells).values(uuid=cell, name="c", disabled=0, away_since=YEAR_2038)
    of_cell = update(tables.compute_nodes).values(cell_uuid=cell)
    execute_without_foreign_keys(database_copy, gone, away, of_cell)
    assert_invariants(database_copy)
    execute_without_foreign_keys(database_copy, update(tables.cells).values(away_since=None))
    (violation,) = verify(database_copy).violations
    assert violation.invariant is Invariant.NOT_RECORDED


def test_allocations_deleted_by_a_client_are_reported_as_not_claimed(cloud, database):
    cloud.app.delete(f"/placement/allocations/{VM_3}", headers=LATEST_HEADERS)
    (violation,) = verify(database).violations
    assert violation.invariant is Invariant.NOT_CLAIMED
    assert f"instance {VM_3} was placed on host cn" in violation.detail


def test_instance_with_allocations_changed_by_a_client_is_valid(cloud, database):
    held = cloud.app.get(f"/placement/allocations/{VM_3}", headers=LATEST_HEADERS).json
    ((uuid, _),) = held["allocations"].items()
    body = {**held, "allocations": {uuid: {"resources": {"VCPU": 2}}}}
    cloud.app.put_json(f"/placement/allocations/{VM_3}", body, headers=LATEST_HEADERS)
    assert_invariants(database)


def test_rejected_selection_leaves_no_partial_rows(cloud, database):
    cloud.select_destinations(
        make_uuid(11), make_uuid(12), flavor=make_flavor(memory_mb=60000), status=200
    )
    uuids = [make_uuid(number) for number in range(20, 24)]
    cloud.select_destinations(*uuids, flavor=make_flavor(memory_mb=60000), status=409)
    assert_invariants(database)
    with database.read() as connection:
        assert instances.list_by_uuids(connection, uuids) == ()


def test_list_of_very_many_violations_is_truncated(sqlite_database, monkeypatch):
    monkeypatch.setattr("placement_sched.operations.checks.MAX_VIOLATIONS", 3)
    change = [build_allocation_insert(ABSENT_ID, class_id("VCPU"), VM_3) for _ in range(5)]
    execute_without_foreign_keys(sqlite_database, *change)
    verified = verify(sqlite_database)
    assert verified.truncated == {Invariant.NO_PROVIDER}
    kinds = [violation.invariant for violation in verified.violations]
    assert kinds.count(Invariant.NO_PROVIDER) == 3

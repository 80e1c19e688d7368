# SPDX-License-Identifier: Apache-2.0
"""Adoption of databases of every revision of OpenStack placement, on every database."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import MetaData

from placement_sched.db.migrate import REVISIONS, TRAIN
from placement_sched.db.tables import PLACEMENT_TABLES
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from tests.coexistence.conftest import OpenStackPlacement, build_peer_url
from tests.coexistence.sent_requests import build_claim_request, build_request
from tests.conftest import make_settings
from tests.differential.exchange import Reply
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement, Side
from tests.support.empty_databases import empty_database
from tests.support.openstack_databases import add_openstack_rows, create_openstack_schema

pytestmark = pytest.mark.system

NEWEST_REVISION = list(REVISIONS)[-1]


@pytest.fixture
def database(empty_db_url):
    database = Database(make_settings(empty_db_url))
    yield database
    database.dispose()


def read_schema(database: Database) -> dict[str, object]:
    metadata = MetaData()
    names = [table.name for table in PLACEMENT_TABLES]
    with database.read() as connection:
        metadata.reflect(connection, only=lambda name, _metadata: name in names)
    return {
        name: (
            sorted(
                (column.name, str(column.type), bool(column.nullable)) for column in table.columns
            ),
            sorted(
                (key.parent.name, key.target_fullname)
                for constraint in table.foreign_key_constraints
                for key in constraint.elements
            ),
            sorted(
                (str(index.name), tuple(index.columns.keys()), bool(index.unique))
                for index in table.indexes
                if not str(index.name).startswith("sched_")
            ),
        )
        for name, table in metadata.tables.items()
    }


@cache
def create_newest_schema(kind: str) -> dict[str, object]:
    """Return the schema that ``db sync`` of OpenStack placement creates in an empty database."""
    with TemporaryDirectory() as folder, empty_database(kind, Path(folder)) as url:
        theirs = OpenStackPlacement(url)
        theirs.run_placement_manage("db", "sync")
        assert theirs.run_placement_manage("db", "version") == NEWEST_REVISION
        database = Database(make_settings(url))
        schema = read_schema(database)
        database.dispose()
    return schema


@pytest.mark.parametrize(
    "revision",
    [
        pytest.param(each, marks=() if each in {TRAIN, NEWEST_REVISION} else pytest.mark.exhaustive)
        for each in REVISIONS
    ],
)
def test_adopted_database_is_served_and_upgraded_by_both_services(
    database, empty_db_url, tmp_path, revision
):
    kind = database.url.get_backend_name()
    theirs = OpenStackPlacement(empty_db_url)
    theirs.upgrade_to_revision(revision)
    if revision in {TRAIN, NEWEST_REVISION}:
        with empty_database(kind, tmp_path) as url:
            copy = Database(make_settings(url))
            create_openstack_schema(copy, revision)
            assert list_columns_by_table(read_schema(copy)) == list_columns_by_table(
                read_schema(database)
            )
            copy.dispose()
    provider = add_openstack_rows(database)
    adoption = adopt(database, utcnow)
    assert adoption.previous_revision == revision
    assert not adopt(database, utcnow).changed
    check_both_services_serve_database(empty_db_url, provider)
    theirs.run_placement_manage("db", "sync")
    again = adopt(database, utcnow)
    assert (again.changed, again.previous_revision) == (False, NEWEST_REVISION)
    assert read_schema(database) == create_newest_schema(kind)


def check_both_services_serve_database(url: str, provider: str) -> None:
    ours, peer = OwnPlacement(url), OpenStackPlacementPeer(build_peer_url(url))
    try:
        # Three of the eight VCPU are used.
        for number, side in enumerate((peer, ours, peer, ours)):
            assert put_allocation(side, provider, number, 1).status == 204
        for number, side in enumerate((peer, ours), 4):
            assert put_allocation(side, provider, number, 2).status == 409
        for target in (
            f"/resource_providers/{provider}/usages",
            f"/resource_providers/{provider}/allocations",
            "/usages?project_id=demo",
        ):
            # From 1.38 on the peer cannot sum a project's usage on PostgreSQL.
            our_reply, peer_reply = (
                side.send_request(build_request("GET", target, version="1.37"))
                for side in (ours, peer)
            )
            assert our_reply.document == peer_reply.document, (target, peer_reply)
        assert our_reply.document == {"usages": {"VCPU": 7}}
    finally:
        ours.close()
        peer.close()


def put_allocation(side: Side, provider: str, number: int, amount: int) -> Reply:
    consumer = f"00000000-0000-4000-8000-00000000000{number}"
    amounts = {provider: {"VCPU": amount}}
    return side.send_request(build_claim_request(consumer, amounts, owner=("demo", "demo")))


def list_columns_by_table(schema: dict[str, object]) -> dict[str, list[str]]:
    return {
        name: [column for column, _type, _null in described]
        for name, (described, _keys, _indexes) in schema.items()
    }

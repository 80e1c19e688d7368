# SPDX-License-Identifier: Apache-2.0
"""Databases with the schema of OpenStack placement's releases.

``tests/coexistence`` compares them with databases that ``placement-manage db sync`` creates.
"""

from datetime import datetime
from uuid import uuid4

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Index,
    Integer,
    MetaData,
    String,
    UniqueConstraint,
    insert,
    text,
)
from sqlalchemy import Table as SqlTable

from placement_sched.db.migrate import TRAIN
from placement_sched.db.tables import (
    PLACEMENT_TABLES,
    allocations,
    consumer_types,
    consumers,
    inventories,
    projects,
    resource_providers,
    users,
)
from placement_sched.db.transaction import Database

NEWEST_REVISION = "a082b8bb98d0"


def _build_openstack_tables(*tables: SqlTable) -> MetaData:
    """Return copies of tables as OpenStack creates them: SQLite may use ids again."""
    theirs = MetaData()
    for table in tables:
        table.to_metadata(theirs).dialect_options["sqlite"]["autoincrement"] = False
    return theirs


_newest_tables = _build_openstack_tables(*PLACEMENT_TABLES)
_train_tables = _build_openstack_tables(*(set(PLACEMENT_TABLES) - {consumer_types, consumers}))
SqlTable(
    "consumers",
    _train_tables,
    Column("created_at", DateTime),
    Column("updated_at", DateTime),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("project_id", Integer, nullable=False),
    Column("user_id", Integer, nullable=False),
    Column("generation", Integer, nullable=False, server_default="0"),
    UniqueConstraint("uuid", name="uniq_consumers0uuid"),
    Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
    Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    mysql_engine="InnoDB",
)


def create_openstack_schema(database: Database, revision: str | None = NEWEST_REVISION) -> None:
    """Create the tables of Train or of the newest release, and record the revision."""

    def write_rows(connection: Connection) -> None:
        (_train_tables if revision == TRAIN else _newest_tables).create_all(connection)
        if connection.dialect.name == "postgresql":
            # This service adds the index to OpenStack's table.
            connection.execute(text("DROP INDEX IF EXISTS sched_allocations_consumer_id_idx"))
        if revision is not None:
            stamp_revision(connection, revision)

    database.write(write_rows)


def stamp_revision(connection: Connection, revision: str) -> None:
    """Record the revision as alembic does."""
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
    connection.execute(
        text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision}
    )


def add_openstack_rows(database: Database, *, used: int = 3, record: bool = True) -> str:
    """Insert a provider with 8 VCPU and a consumer and return the provider's uuid."""
    uuid, born = str(uuid4()), {"created_at": datetime(2026, 1, 1)}

    def write_rows(connection):
        connection.execute(insert(projects), {"id": 1, "external_id": "demo", **born})
        connection.execute(insert(users), {"id": 1, "external_id": "demo", **born})
        connection.execute(
            insert(resource_providers),
            {"id": 1, "uuid": uuid, "name": "cn1", "generation": 7, **born},
        )
        connection.execute(resource_providers.update().values(root_provider_id=1))
        connection.execute(
            insert(inventories),
            {
                "resource_provider_id": 1,
                "resource_class_id": 0,
                "total": 8,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": 8,
                "step_size": 1,
                "allocation_ratio": 1.0,
                **born,
            },
        )
        consumer = {"uuid": str(uuid4()), "project_id": 1, "user_id": 1, "generation": 1, **born}
        if record:
            connection.execute(insert(consumers).values(**consumer))
        connection.execute(
            insert(allocations),
            {
                "resource_provider_id": 1,
                "consumer_id": consumer["uuid"],
                "resource_class_id": 0,
                "used": used,
                **born,
            },
        )

    database.write(write_rows)
    return uuid

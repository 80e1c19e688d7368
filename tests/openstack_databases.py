"""Databases as ``placement-manage db sync`` of a release leaves them, made without that release.

What a real one makes is compared in ``tests/coexistence``.
"""

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Index,
    Integer,
    MetaData,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy import Table as SqlTable

from placement_sched.db.openstack_schema import TRAIN
from placement_sched.db.tables import PLACEMENT_TABLES, consumer_types, consumers, metadata
from placement_sched.db.transaction import Database

NEWEST = "a082b8bb98d0"

_train = MetaData()
for _table in PLACEMENT_TABLES:
    if _table not in {consumer_types, consumers}:
        _table.to_metadata(_train)
SqlTable(
    "consumers",
    _train,
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


def make_openstack(database: Database, revision: str | None = NEWEST) -> None:
    """Make the tables of the revision (those of Train or of today), and write it down."""

    def work(connection: Connection) -> None:
        if revision == TRAIN:
            _train.create_all(connection)
        else:
            metadata.create_all(connection, tables=PLACEMENT_TABLES)
        if revision is not None:
            stamp(connection, revision)

    database.write(work)


def stamp(connection: Connection, revision: str) -> None:
    """Write down the revision as alembic does."""
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
    connection.execute(
        text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision}
    )

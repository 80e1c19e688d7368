"""OpenStack placement's schema as a database has it, and the one step of it that is made here."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, MetaData, String, column, inspect, select, table, text, update

from placement_sched.db.collations import collation_for_own_tables
from placement_sched.db.migrate import VERSION_TABLE as OWN_VERSION_TABLE
from placement_sched.db.schema_turn import one_at_a_time
from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES, consumer_types, consumers

#: Where OpenStack placement keeps its revision.
VERSION_TABLE = "alembic_version"

#: The newest revision without consumer types, and the one that brings them.
TRAIN, XENA = "b5c396305c25", "422ece571366"

#: The revisions that can be taken over, oldest first, and the releases that end on each, as the
#: ``placement-manage db version`` of each release on PyPI says after its ``db sync``.
REVISIONS: Mapping[str, str] = {
    TRAIN: "Train to Wallaby (2.0 to 5.0)",
    XENA: "Xena to 2023.1 (6.0 to 9.0)",
    "a082b8bb98d0": "2023.2 to 2026.1 (10.0 to 16.0)",
}
#: Any of these shows that this service has worked on a database. Alembic makes the first of them
#: before anything else, so a schema of ours that was left half made is known by it as well.
_OWN_NAMES = frozenset({OWN_VERSION_TABLE, *(table.name for table in OWN_TABLES)})
#: Revisions of Stein, and those that a ``db sync`` to Train passes on its way.
TOO_OLD = frozenset({"b4ed3a175331", "611cd6dffd7b"})

_version = table(VERSION_TABLE, column("version_num", String(32)))

_ADD_TYPE = "ALTER TABLE consumers ADD COLUMN consumer_type_id INTEGER"
_KEY = "CONSTRAINT consumers_consumer_type_id_fkey"


@dataclass(frozen=True, slots=True)
class Found:
    """What of OpenStack placement's schema a database has; columns are ``table.column``."""

    #: What its version table says; empty where there is none, or nothing in it.
    revisions: tuple[str, ...]
    tables: frozenset[str]
    missing_tables: tuple[str, ...]
    missing_columns: tuple[str, ...]
    #: Whether any table of this service is there.
    ours: bool

    @property
    def foreign(self) -> bool:
        """Return whether placement's tables are there and this service has not made them."""
        return bool(self.tables) and not self.ours

    @property
    def adopted(self) -> bool:
        """Return whether OpenStack placement made the database and this service has adopted it."""
        return bool(self.revisions) and bool(self.tables) and self.ours

    @property
    def revision(self) -> str | None:
        """Return its revision, or None where that table says none or several."""
        return self.revisions[0] if len(self.revisions) == 1 else None

    @property
    def complete(self) -> bool:
        """Return whether everything that this service reads and writes of it is there."""
        return not self.missing_tables and not self.missing_columns


def look(connection: Connection) -> Found:
    """Return what of OpenStack placement's schema the database has."""
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    wanted = {one.name: one for one in PLACEMENT_TABLES}
    tables = there & set(wanted)
    columns = inspector.get_multi_columns(filter_names=sorted(tables)) if tables else {}
    has = {(table, one["name"]) for (_, table), some in columns.items() for one in some}
    needed = {(table, one.name) for table in tables for one in wanted[table].columns}
    return Found(
        revisions=_revisions(connection) if VERSION_TABLE in there else (),
        tables=frozenset(tables),
        missing_tables=tuple(sorted(set(wanted) - tables)),
        missing_columns=tuple(f"{table}.{name}" for table, name in sorted(needed - has)),
        ours=not _OWN_NAMES.isdisjoint(there),
    )


def is_recorded(connection: Connection) -> bool:
    """Return whether a revision of OpenStack placement is written down in the database.

    It stays there for good once that service has made the database, adopted or not.
    """
    return inspect(connection).has_table(VERSION_TABLE) and bool(_revisions(connection))


def _revisions(connection: Connection) -> tuple[str, ...]:
    return tuple(sorted(str(one) for one in connection.scalars(select(_version.c.version_num))))


def add_consumer_types(connection: Connection) -> None:
    """Make the step from Train's revision to Xena's, as Xena's ``placement-manage db sync`` does.

    A table, a column that may be empty and an index are added, and the revision is written down:
    later releases' ``db sync`` go on from there, and a service of an earlier release that runs on
    the database meanwhile does not notice. A step that died half way (MariaDB commits each
    statement by itself) is finished.
    """
    with one_at_a_time(connection):
        found = look(connection)
        if found.revision != TRAIN:
            return
        types = consumer_types.to_metadata(MetaData())
        if collation := collation_for_own_tables(connection):
            types.kwargs["mysql_collate"] = collation
        types.create(connection, checkfirst=True)
        if "consumers.consumer_type_id" in found.missing_columns:
            # One statement for both: MariaDB commits each, and a column without its key would stay.
            on_sqlite = connection.dialect.name == "sqlite"
            key = _KEY if on_sqlite else f", ADD {_KEY} FOREIGN KEY (consumer_type_id)"
            connection.execute(text(f"{_ADD_TYPE} {key} REFERENCES consumer_types (id)"))
        for index in consumers.indexes:
            if index.name == "consumers_consumer_type_id_idx":
                index.create(connection, checkfirst=True)
        connection.execute(
            update(_version).where(_version.c.version_num == TRAIN).values(version_num=XENA)
        )

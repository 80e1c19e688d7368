# SPDX-License-Identifier: Apache-2.0
"""Adoption of a database that OpenStack placement may continue to use."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import os_resource_classes
import os_traits

from placement_sched.db import migrate
from placement_sched.db.collations import check_collations
from placement_sched.db.migrate import (
    REVISIONS,
    TOO_OLD,
    TRAIN,
    XENA,
    PlacementSchema,
    read_current_revision,
    sync_schema,
)
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import NotAdopted, Unavailable
from placement_sched.model.clock import Clock
from placement_sched.model.names import shorten_names
from placement_sched.store import figures
from placement_sched.store.figures import RowCounts
from placement_sched.store.placement import resource_classes, traits

#: Table and column that the migration from Train to Xena adds.
_XENA_ADDS = ("consumer_types", "consumers.consumer_type_id")
#: The indexes that an adoption creates on placement's tables: from Train, and on PostgreSQL.
_TRAIN_INDEX, CONSUMER_INDEX = "consumers_consumer_type_id_idx", "sched_allocations_consumer_id_idx"


class StandardNames(NamedTuple):
    """Names of standard traits and standard resource classes."""

    traits: tuple[str, ...]
    resource_classes: tuple[str, ...]


def find_missing_standard_names(connection: Connection) -> StandardNames:
    """Return the missing standard names, with classes sorted by id."""
    existing = resource_classes.list_names(connection)
    return StandardNames(
        traits=tuple(sorted(set(os_traits.get_traits()) - traits.list_names(connection))),
        resource_classes=tuple(
            name for name in os_resource_classes.STANDARDS if name not in existing
        ),
    )


def sync_standard_names(database: Database, clock: Clock) -> StandardNames:
    """Add the missing standard names, if any, and return them."""
    with database.read() as connection:
        missing = find_missing_standard_names(connection)
    if not any(missing):
        return missing

    def add(connection: Connection) -> None:
        traits.add_missing(connection, missing.traits, clock())
        resource_classes.add_standard(connection, missing.resource_classes, clock())

    database.write(add)
    return missing


@dataclass(frozen=True, slots=True)
class Adoption:
    """The result of :func:`adopt`, or of :func:`plan_adoption`.

    ``previous_revision`` and ``revision`` are the revisions of OpenStack placement's schema before
    and after the adoption. ``previous_own_revision`` and ``own_revision`` are the revisions of this
    service's schema before and after it. Columns (``table.column``) and indexes are listed only for
    tables of placement that existed before. ``row_counts`` is None before an adoption.
    """

    previous_revision: str
    releases: str
    revision: str
    previous_own_revision: str | None
    own_revision: str | None
    created_tables: tuple[str, ...]
    added_columns: tuple[str, ...]
    created_indexes: tuple[str, ...]
    added: StandardNames
    row_counts: RowCounts | None = None

    @property
    def changed(self) -> bool:
        """Return whether the adoption changed the database."""
        added = (self.created_tables, self.added_columns, self.created_indexes, *self.added)
        return any(added) or self.previous_own_revision != self.own_revision


def plan_adoption(database: Database) -> Adoption:
    """Return the result that :func:`adopt` would have, or raise its errors."""
    file = Path(str(database.url.database))
    # Opening a missing SQLite file would create it.
    if database.url.get_backend_name() == "sqlite" and not file.is_file():
        raise Unavailable(f"there is no file {file}, so there is nothing to adopt")
    own_revision = read_current_revision(database)
    with database.read() as connection:
        schema = migrate.inspect_schema(connection)
        revision = _get_adoptable_revision(schema, ours=own_revision is not None)
        check_collations(connection)
        indexes = {
            CONSUMER_INDEX: connection.dialect.name == "postgresql",
            _TRAIN_INDEX: revision == TRAIN,
        }
        present = {name for _, name in schema.indexes}
        return Adoption(
            previous_revision=revision,
            releases=REVISIONS[revision],
            revision=XENA if revision == TRAIN else revision,
            previous_own_revision=own_revision,
            own_revision=migrate.get_newest_revision(),
            created_tables=tuple(
                sorted({*migrate.OWN_NAMES, *schema.missing_tables} - schema.existing)
            ),
            added_columns=schema.missing_columns,
            created_indexes=tuple(
                name for name, is_needed in indexes.items() if is_needed and name not in present
            ),
            added=find_missing_standard_names(connection),
        )


def adopt(database: Database, clock: Clock) -> Adoption:
    """Add this service's tables, columns and names to a placement database.

    A repeated adoption has no effect. The data of OpenStack placement are not changed. Raises
    :class:`Unavailable`, before any change, if the schema cannot be adopted.
    """
    plan = plan_adoption(database)
    if plan.previous_revision == TRAIN:
        migrate.add_consumer_types(database)
    sync_schema(database)
    sync_standard_names(database, clock)
    with database.read() as connection:
        return replace(plan, row_counts=figures.count_rows(connection))


def list_leave_statements(database: Database) -> list[str]:
    """Return the SQL of :func:`leave`, or raise :class:`Unavailable`."""
    with database.read() as connection:
        schema = migrate.inspect_schema(connection)
        statements = migrate.list_leave_statements(connection) if schema.adopted else []
    migrate.check_revision(read_current_revision(database))
    if statements:
        return statements
    if not schema.ours:
        problem = "the database has no tables of this service, so there is nothing to remove"
    else:
        problem = (
            "the database belongs to this service, not to OpenStack placement, so that nothing "
            "would remain. Nothing was changed. Drop the database instead"
        )
    raise Unavailable(problem)


def leave(database: Database) -> list[str]:
    """Remove this service from a database, and return the executed statements.

    The data of OpenStack placement stay. Raises the errors of :func:`list_leave_statements`, before
    any change.
    """
    statements = list_leave_statements(database)

    def remove(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    migrate.change_under_lock(database, remove)  # MariaDB commits each statement
    return statements


def check_adopted(database: Database) -> None:
    """Raise :class:`NotAdopted` if the database must be adopted first.

    This holds for a database of OpenStack placement without the tables of this service, or without
    some of placement's tables. If this service created the missing tables, a later ``db sync`` of
    OpenStack placement would fail.
    """
    with database.read() as connection:
        schema = migrate.inspect_schema(connection)
        check_collations(connection)
    if schema.has_unknown_revision and not schema.ours:
        raise NotAdopted(
            f"the database is at revision {', '.join(schema.revisions)}, which is not a "
            "revision of OpenStack placement, but has tables of the same names, as nova's API "
            "database may have. Nothing was changed. Name the database of OpenStack placement, or "
            "an empty database"
        )
    if schema.revisions and schema.tables and not schema.complete:
        raise NotAdopted(
            "the database belongs to OpenStack placement and lacks "
            f"{shorten_names(sorted([*schema.missing_tables, *schema.missing_columns]))}. "
            "Run placement-sched db adopt to take it over"
        )
    if not schema.foreign:
        return
    if not schema.revisions:
        raise NotAdopted(
            "the database has tables that this service did not create "
            f"({shorten_names(sorted(schema.tables))}). Nothing was changed. Use an empty "
            "database, or run placement-sched db adopt if OpenStack placement created them"
        )
    revision = ", ".join(schema.revisions)
    releases = REVISIONS.get(revision)
    made_by = f"{revision}, {releases}" if releases else revision
    raise NotAdopted(
        f"the database belongs to OpenStack placement (revision {made_by}) and is not adopted. "
        "Nothing was changed. Run placement-sched db adopt to take it over"
    )


def _get_adoptable_revision(schema: PlacementSchema, *, ours: bool) -> str:
    revision = schema.revision
    missing = {*schema.missing_tables, *schema.missing_columns}
    if revision == TRAIN:
        missing -= set(_XENA_ADDS)
    if not schema.tables:
        problem = (
            "the database has no tables of OpenStack placement, so there is nothing to adopt. "
            "Create a schema with placement-sched db sync"
        )
    elif not schema.revisions and ours:
        problem = (
            "the database already belongs to this service, not to OpenStack placement. "
            "placement-sched db sync upgrades it if needed"
        )
    elif not schema.revisions:
        problem = (
            "the database has tables of OpenStack placement, but no revision in "
            f"{migrate.OPENSTACK_SCHEMA_VERSION_TABLE}. Run placement-manage db stamp"
        )
    elif revision in TOO_OLD:
        problem = (
            f"OpenStack placement's schema is at revision {revision}, older than Train. "
            "Upgrade it to Train or later with placement-manage db sync"
        )
    elif revision is None or revision not in REVISIONS:
        problem = (
            f"the database's schema is at revision {', '.join(schema.revisions)}, which is not "
            f"a supported revision of OpenStack placement ({', '.join(REVISIONS)})"
        )
    elif missing:
        problem = (
            f"OpenStack placement's schema is marked as revision {revision}, but lacks "
            f"{shorten_names(sorted(missing))}. Its placement-manage db sync may have "
            "been interrupted"
        )
    else:
        return revision
    raise Unavailable(problem)


def describe_adoption(adoption: Adoption) -> tuple[str, ...]:
    """List notes for the operator about the adopted database."""
    counted = adoption.row_counts
    notes: list[str] = []
    if counted is None:
        return ()
    if adoption.previous_revision != adoption.revision:
        notes.append(
            f"its schema is now at {XENA} (Xena): placement of an earlier release still works with "
            "it, but its db sync and sync_on_startup fail with an unknown revision"
        )
    if counted.roots_without_node:
        notes.append(
            f"root providers that are not hosts yet: {counted.roots_without_node}. placement-sched "
            "nova adopt --config-file nova.conf records the compute nodes of a nova. Report others "
            "under the provider's uuid (PUT /scheduler/v1/compute_nodes/{uuid})"
        )
    if counted.overfull_inventories:
        notes.append(
            f"over-allocated inventories: {counted.overfull_inventories}. Nothing more is "
            "allocated from them until this is repaired"
        )
    if counted.without_root or counted.incomplete_consumers:
        notes.append("some rows are incomplete: run placement-sched status upgrade check")
    return tuple(notes)

"""Takes over a database of OpenStack placement, which may go on running on it: adds our tables."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import os_resource_classes
import os_traits

from placement_sched.db import migrate
from placement_sched.db.collations import CollationMismatch, describe_mismatches, find_mismatches
from placement_sched.db.migrate import (
    REVISIONS,
    TOO_OLD,
    TRAIN,
    XENA,
    Found,
    current_revision,
    schema_contents,
    sync_schema,
)
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import NotAdopted, Unavailable
from placement_sched.model.clock import Clock
from placement_sched.model.names import in_short
from placement_sched.store import row_counts
from placement_sched.store.placement import resource_classes, traits
from placement_sched.store.row_counts import Census


class Standards(NamedTuple):
    """Names of standard traits and standard resource classes."""

    traits: tuple[str, ...]
    resource_classes: tuple[str, ...]


def lacking(connection: Connection) -> Standards:
    """Return the standard names that the database lacks, classes in the order of their ids."""
    existing = resource_classes.all_names(connection)
    return Standards(
        traits=tuple(sorted(set(os_traits.get_traits()) - traits.all_names(connection))),
        resource_classes=tuple(
            name for name in os_resource_classes.STANDARDS if name not in existing
        ),
    )


def sync_standards(database: Database, clock: Clock) -> Standards:
    """Add the standard names that the database lacks, and return them; never remove any.

    One read of each where nothing is missing, so that every start may call it.
    """
    with database.read() as connection:
        missing = lacking(connection)
    if not any(missing):
        return missing

    def add(connection: Connection) -> None:
        traits.add_missing(connection, missing.traits, clock())
        resource_classes.add_standard(connection, missing.resource_classes, clock())

    database.write(add)
    return missing


#: What the step from Train's revision to Xena's adds.
_XENA_ADDS = ("consumer_types", "consumers.consumer_type_id")


@dataclass(frozen=True, slots=True)
class Adoption:
    """What :func:`adopt` found, and what it did.

    ``found`` and ``revision`` are OpenStack placement's revision before and after, ``before`` and
    ``own_revision`` ours. Tables, columns and indexes of both are reported alike: columns as
    ``table.column``, and both only of tables that were there before.
    """

    found: str
    releases: str
    revision: str
    before: str | None
    own_revision: str | None
    created_tables: tuple[str, ...]
    added_columns: tuple[str, ...]
    created_indexes: tuple[str, ...]
    added: Standards
    census: Census
    #: Tables in another collation than the others, which is harmless.
    mismatches: tuple[CollationMismatch, ...] = ()

    @property
    def changed(self) -> bool:
        """Return whether anything was added."""
        added = (self.created_tables, self.added_columns, self.created_indexes, *self.added)
        return any(added) or self.before != self.own_revision


def adopt(database: Database, clock: Clock) -> Adoption:
    """Add what this service needs to a database of OpenStack placement; return what was added.

    Nothing of OpenStack placement is removed or changed. It is idempotent. Raises
    :class:`Unavailable` for what it does not know, having changed nothing.
    """
    file = Path(str(database.url.database))
    # To open an SQLite file that is not there would make it.
    if database.url.get_backend_name() == "sqlite" and not file.is_file():
        raise Unavailable(f"there is no file {file}, so there is nothing to adopt")
    with database.read() as connection:
        schema = migrate.look(connection)
        earlier = schema_contents(connection)
        mismatches = find_mismatches(connection)
    revision_before = current_revision(database)
    revision = _known(schema, ours=revision_before is not None)
    # MariaDB commits each change of a table, so all that can be refused is refused before.
    if refused := [mismatch for mismatch in mismatches if mismatch.is_refused]:
        raise Unavailable(
            "the database refuses to join some of its tables, and nothing in it was changed. "
            + describe_mismatches(refused)
        )
    if revision == TRAIN:
        database.write(migrate.add_consumer_types)
    sync_schema(database)
    added = sync_standards(database, clock)
    with database.read() as connection:
        now = schema_contents(connection)
        return Adoption(
            found=revision,
            releases=REVISIONS[revision],
            revision=migrate.look(connection).revision or revision,
            before=revision_before,
            own_revision=current_revision(database),
            created_tables=tuple(sorted(now.tables - earlier.tables)),
            added_columns=now.columns_since(earlier),
            created_indexes=now.indexes_since(earlier),
            added=added,
            census=row_counts.take(connection),
            mismatches=mismatches,
        )


def refuse_unadopted(database: Database) -> None:
    """Raise :class:`NotAdopted` for a database that only ``db adopt`` may add our tables to.

    That is one with tables of placement and without ours, and one whose tables are incomplete:
    to make the missing ones here would stop OpenStack placement's own ``db sync`` later on.
    """
    with database.read() as connection:
        schema = migrate.look(connection)
    if schema.revisions and schema.tables and not schema.complete:
        raise NotAdopted(
            "the database belongs to OpenStack placement and lacks "
            f"{in_short(sorted([*schema.missing_tables, *schema.missing_columns]))}. "
            "Run placement-sched db adopt to take it over"
        )
    if not schema.foreign:
        return
    if not schema.revisions:
        raise NotAdopted(
            "the database has tables that this service did not make "
            f"({in_short(sorted(schema.tables))}), and nothing in it was changed. Use an empty "
            "database; or, if OpenStack placement made them, see what placement-sched db adopt says"
        )
    revision = ", ".join(schema.revisions)
    releases = REVISIONS.get(revision)
    made_by = f"{revision}, {releases}" if releases else revision
    raise NotAdopted(
        f"the database belongs to OpenStack placement (revision {made_by}) and is not adopted; "
        "nothing was changed. Run placement-sched db adopt to take it over"
    )


def _known(schema: Found, *, ours: bool) -> str:
    """Return the revision of a database that can be adopted; refuse every other one."""
    revision = schema.revision
    missing = {*schema.missing_tables, *schema.missing_columns}
    if revision == TRAIN:
        missing -= set(_XENA_ADDS)
    if not schema.tables:
        problem = (
            "the database has no tables of OpenStack placement, so there is nothing to adopt; "
            "placement-sched db sync creates a schema"
        )
    elif not schema.revisions and ours:
        problem = (
            "the database already belongs to this service, not to OpenStack placement; "
            "placement-sched db sync upgrades it"
        )
    elif not schema.revisions:
        problem = (
            "the database has tables of OpenStack placement, but no revision in "
            f"{migrate.OPENSTACK_SCHEMA_VERSION_TABLE}; run placement-manage db stamp"
        )
    elif revision in TOO_OLD:
        problem = (
            f"OpenStack placement's schema is at revision {revision}, older than Train; "
            "upgrade it to Train or later with placement-manage db sync"
        )
    elif revision is None or revision not in REVISIONS:
        problem = (
            f"the database's schema is at revision {', '.join(schema.revisions)}, which is not "
            f"a revision of OpenStack placement that this release knows ({', '.join(REVISIONS)})"
        )
    elif missing:
        problem = (
            f"OpenStack placement's schema says that it is at revision {revision}, but lacks "
            f"{in_short(sorted(missing))}; its placement-manage db sync may have been interrupted"
        )
    else:
        return revision
    raise Unavailable(problem)


def notes_on(adoption: Adoption) -> tuple[str, ...]:
    """Return what an operator should know about the database that was adopted."""
    counted = adoption.census
    notes = []
    if adoption.found != adoption.revision:
        notes.append(
            f"its schema is at {XENA} (Xena) now: placement of an earlier release keeps serving "
            "it, but its db sync and sync_on_startup no longer know the revision"
        )
    if counted.roots_without_node:
        notes.append(
            f"{counted.roots_without_node} root providers are not hosts yet: placement-sched adopt "
            "nova --config-file nova.conf records the compute nodes of a nova; others report them "
            "under the provider's uuid (PUT /scheduler/v1/compute_nodes/{uuid})"
        )
    if counted.overfull_inventories:
        notes.append(
            f"{counted.overfull_inventories} inventories are over-allocated; "
            "nothing more is allocated from them until that is repaired"
        )
    if counted.without_root or counted.incomplete_consumers:
        notes.append("some of its data are incomplete: see placement-sched status upgrade check")
    if adoption.mismatches:
        notes.append(describe_mismatches(adoption.mismatches))
    return tuple(notes)

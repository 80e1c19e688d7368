"""Takes over a database of OpenStack placement's: checks it, adds what is ours, tells what it did.

The other service may go on running on it meanwhile and afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from placement_sched.db import layout, openstack_schema
from placement_sched.db.migrate import current_revision, sync_schema
from placement_sched.db.openstack_schema import REVISIONS, TOO_OLD, TRAIN, XENA, Found
from placement_sched.db.transaction import Database
from placement_sched.errors import NotAdopted, Unavailable
from placement_sched.model.clock import Clock
from placement_sched.operations.standards import Standards, sync_standards
from placement_sched.store import census
from placement_sched.store.census import Census

#: What the step from Train's revision to Xena's adds.
_XENA_ADDS = ("consumer_types", "consumers.consumer_type_id")


@dataclass(frozen=True, slots=True)
class Adoption:
    """What :func:`adopt` found, and what it did.

    ``found`` and ``revision`` are OpenStack placement's revision before and after, ``before`` and
    ``own_revision`` ours. Of tables, columns and indexes ours and theirs are told alike: columns as
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

    @property
    def changed(self) -> bool:
        """Return whether anything was added."""
        return bool(
            self.created_tables
            or self.added_columns
            or self.created_indexes
            or self.added.traits
            or self.added.resource_classes
            or self.before != self.own_revision
        )


def adopt(database: Database, clock: Clock) -> Adoption:
    """Add what this service needs to a database of OpenStack placement's, and tell what was added.

    Of theirs nothing is taken away or changed. A second time it finds nothing to do. Raises
    :class:`Unavailable` for what it does not know, having changed nothing.
    """
    _refuse_absent_file(database)
    with database.read() as connection:
        found = openstack_schema.look(connection)
        earlier = layout.look(connection)
    revision = _known(found, ours=current_revision(database) is not None)
    before = current_revision(database)
    if revision == TRAIN:
        database.write(openstack_schema.add_consumer_types)
    sync_schema(database)
    added = sync_standards(database, clock)
    with database.read() as connection:
        now = layout.look(connection)
        return Adoption(
            found=revision,
            releases=REVISIONS[revision],
            revision=openstack_schema.look(connection).revision or revision,
            before=before,
            own_revision=current_revision(database),
            created_tables=tuple(sorted(now.tables - earlier.tables)),
            added_columns=now.columns_since(earlier),
            created_indexes=now.indexes_since(earlier),
            added=added,
            census=census.take(connection),
        )


def refuse_unadopted(database: Database) -> None:
    """Raise :class:`NotAdopted` for a database that only ``db adopt`` may add our tables to.

    That is one with tables of placement and none of ours, and one whose tables are incomplete:
    to make the missing ones here would stop OpenStack placement's own ``db sync`` later on.
    """
    with database.read() as connection:
        found = openstack_schema.look(connection)
    if found.revisions and found.tables and not found.complete:
        raise NotAdopted(
            "the database is OpenStack placement's and lacks "
            f"{_listed([*found.missing_tables, *found.missing_columns])}; "
            "placement-sched db adopt takes it over"
        )
    if found.foreign:
        raise NotAdopted(_not_ours(found))


def _not_ours(found: Found) -> str:
    if not found.revisions:
        return (
            f"the database has tables that this service did not make ({_listed(found.tables)}), "
            "and nothing in it was changed. Use an empty database; or, if OpenStack placement "
            "made them, see what placement-sched db adopt says"
        )
    revision = ", ".join(found.revisions)
    releases = REVISIONS.get(revision)
    made_by = f"{revision}, {releases}" if releases else revision
    return (
        f"the database is OpenStack placement's (revision {made_by}) and this service has not "
        "adopted it; nothing in it was changed. placement-sched db adopt takes it over"
    )


def _refuse_absent_file(database: Database) -> None:
    """Refuse an SQLite file that is not there: to open it would make it."""
    if database.url.get_backend_name() != "sqlite":
        return
    file = Path(str(database.url.database))
    if not file.is_file():
        raise Unavailable(f"there is no file {file}, so there is nothing to adopt")


def _known(found: Found, *, ours: bool) -> str:
    """Return the revision of a database that can be adopted; refuse every other one."""
    if not found.tables:
        raise Unavailable(
            "the database has no tables of OpenStack placement's, so there is nothing to adopt; "
            "placement-sched db sync makes a schema"
        )
    if not found.revisions:
        raise Unavailable(_without_revision(ours=ours))
    revision = found.revision
    if revision in TOO_OLD:
        raise Unavailable(
            f"OpenStack placement's schema is at revision {revision}, older than Train; bring it "
            "to Train or later with placement-manage db sync"
        )
    if revision is None or revision not in REVISIONS:
        raise Unavailable(
            f"the database's schema is at revision {', '.join(found.revisions)}, which is none of "
            f"OpenStack placement's that this release knows ({', '.join(REVISIONS)})"
        )
    _refuse_half(found, revision)
    return revision


def _without_revision(*, ours: bool) -> str:
    if ours:
        return (
            "the database is this service's own already, not OpenStack placement's; "
            "placement-sched db sync upgrades it"
        )
    return (
        "the database has tables of OpenStack placement's, but no revision in "
        f"{openstack_schema.VERSION_TABLE}; placement-manage db stamp writes it down"
    )


def _refuse_half(found: Found, revision: str) -> None:
    missing = {*found.missing_tables, *found.missing_columns}
    if revision == TRAIN:
        missing -= set(_XENA_ADDS)
    if missing:
        raise Unavailable(
            f"OpenStack placement's schema says that it is at revision {revision}, but lacks "
            f"{_listed(missing)}; its own placement-manage db sync must have stopped half way"
        )


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    shown = ", ".join(ordered[:5])
    return shown if len(ordered) <= 5 else f"{shown} and {len(ordered) - 5} more"


def notes_on(adoption: Adoption) -> tuple[str, ...]:
    """Return what an operator should know about the database that was adopted."""
    counted = adoption.census
    notes = []
    if adoption.found != adoption.revision:
        notes.append(
            f"its schema is at {XENA} (Xena) now: placement of an earlier release goes on serving "
            "it, but its db sync and sync_on_startup no longer know the revision"
        )
    if counted.roots_without_node:
        notes.append(
            f"{counted.roots_without_node} root providers are no hosts yet: a host is scheduled "
            "to once its compute node is reported under the provider's uuid "
            "(PUT /scheduler/v1/compute_nodes/{uuid})"
        )
    if counted.overfull_inventories:
        notes.append(
            f"{counted.overfull_inventories} inventories have more allocated than they hold; "
            "nothing more is given of them until that is mended"
        )
    if counted.without_root or counted.incomplete_consumers:
        notes.append("not all of its data are whole: see placement-sched status upgrade check")
    return tuple(notes)

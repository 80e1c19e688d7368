"""Writes providers, and what they have, as a fleet file wants them.

Names that a database takes for the same are refused, as MariaDB takes ``p``, ``P`` and ``"p "``.
Which ones these are depends on the collation of its columns, so it is the database that decides.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from placement_sched.db.transaction import Connection
from placement_sched.errors import ConcurrentUpdate, Conflict, Duplicate, Error, Invalid, NotFound
from placement_sched.model.placement.allocation import ConsumerClaim
from placement_sched.model.placement.provider import Provider
from placement_sched.operations.fleet.cloud import ProviderState, State, changed
from placement_sched.store.placement import (
    aggregates,
    consumers,
    inventories,
    provider_trees,
    resource_providers,
    traits,
)
from placement_sched.store.placement.consumers import PROJECT, USER
from placement_sched.store.placement.resource_providers import NewProvider

Write = Callable[[list[ProviderState]], None]


class EntryError(Exception):
    """The cloud refuses an entry: what was raised, and the keys that lead to the entry."""

    def __init__(self, cause: Error, keys: Sequence[str | int]) -> None:
        super().__init__(cause.detail)
        self.cause = cause
        self.keys = keys


@contextmanager
def errors_at(what: str, *keys: str | int) -> Iterator[None]:
    """Re-raise an error of the block as an :class:`EntryError` of the entry at these keys.

    A concurrent update is not the fault of an entry, and is raised as it is.
    """
    try:
        yield
    except ConcurrentUpdate:
        raise
    except (Conflict, Invalid, NotFound) as error:
        refused = type(error)(f"{what}: {error.detail}", code=error.code, extra=error.extra)
        raise EntryError(refused, keys) from None


def _changed_providers(before: State, after: State) -> list[ProviderState]:
    """Return the providers that differ, and those of changed hosts: hosts' writes change them."""
    hosts = {one.host for one in changed(before.services, after.services).values()}
    for uuid, aggregate in changed(before.aggregates, after.aggregates).items():
        old = before.aggregates.get(uuid)
        hosts |= aggregate.hosts | (old.hosts if old else frozenset())
    nodes = set(changed(before.nodes, after.nodes))
    nodes |= {uuid for uuid, node in after.nodes.items() if node.host in hosts}
    return [
        one
        for uuid, one in after.providers.items()
        if uuid in nodes or before.providers.get(uuid) != one
    ]


def write_providers(
    connection: Connection, before: State, after: State, now: datetime
) -> Mapping[int, frozenset[str]]:
    """Make providers as they are ``after`` the load, but for inventories that are to go.

    Those are returned by provider id; they go when nothing is allocated of them any more. Raises
    :class:`EntryError` where a name is taken, or a provider would be below itself.
    """
    wanted = _changed_providers(before, after)
    if not wanted:
        return {}
    uuids = [one.uuid for one in wanted]
    known = resource_providers.by_uuids(connection, uuids)
    _create(connection, [one for one in wanted if one.uuid not in known], after, now)

    def rename(some: list[ProviderState]) -> None:
        names = {known[one.uuid].id: one.name for one in some}
        resource_providers.rename_many(connection, names, now)

    renamed = [one for one in wanted if one.uuid in known and known[one.uuid].name != one.name]
    _write_named(connection, renamed, rename, after)
    for one in wanted:
        if one.uuid in known and known[one.uuid].parent_uuid != one.parent:
            parent = after.providers.get(one.parent or "")
            below = "" if parent is None else f" below {parent.name}"
            with errors_at(f"provider {one.name}{below}", *after.entry_of("provider", one.uuid)):
                provider_trees.move(connection, one.uuid, one.parent, anywhere=True, now=now)
    found = resource_providers.by_uuids(connection, uuids)
    resource_providers.lock(connection, [one.id for one in found.values()])
    return _fill(connection, {found[one.uuid].id: one for one in wanted}, now)


def _create(connection: Connection, new: list[ProviderState], after: State, now: datetime) -> None:
    """Create providers, parents before those below them, each depth together."""
    left = {one.uuid: one for one in new}
    while left:
        ready = [one for one in left.values() if one.parent not in left]
        above = {one.parent for one in ready if one.parent is not None}
        parents = resource_providers.by_uuids(connection, above)
        if not ready or any(one.parent and one.parent not in parents for one in ready):
            raise Invalid("a provider has a parent that does not exist")

        def create(some: list[ProviderState], parents: Mapping[str, Provider] = parents) -> None:
            rows = [NewProvider(one.uuid, one.name, parents.get(one.parent or "")) for one in some]
            resource_providers.create_many(connection, rows, now)

        _write_named(connection, ready, create, after)
        for one in ready:
            del left[one.uuid]


def _fill(
    connection: Connection, by_id: Mapping[int, ProviderState], now: datetime
) -> Mapping[int, frozenset[str]]:
    # What there is now: reports and aggregates may have changed it a moment ago.
    former = inventories.by_provider_id(connection, by_id)
    rows = {number: tuple(one.inventories.values()) for number, one in by_id.items()}
    of_traits = {number: one.traits for number, one in by_id.items()}
    joined = {number: one.aggregates for number, one in by_id.items()}
    differing = inventories.replace_many(connection, rows, now)
    differing |= traits.replace_many(connection, of_traits, now)
    differing |= aggregates.replace_many(connection, joined, now)
    superfluous = {
        number: frozenset(gone)
        for number, one in by_id.items()
        if (gone := former.get(number, {}).keys() - one.inventories.keys())
    }
    resource_providers.bump_generations(connection, differing | superfluous.keys(), now)
    return superfluous


def _write_named(
    connection: Connection, wanted: list[ProviderState], write: Write, after: State
) -> None:
    """Let ``write`` create or rename providers; refuse the entry of one whose name is taken."""
    if not wanted or _written(connection, write, wanted):
        return
    # The shortest beginning that cannot be written ends with the cause.
    count = bisect_left(
        range(len(wanted)),
        True,
        lo=1,
        key=lambda some: not _written(connection, write, wanted[:some], undo=True),
    )
    *before, last = wanted[:count]
    write(before)
    others = {one.name for one in resource_providers.by_names(connection, [last.name])}
    what = f"another provider already has its {'name' if others else 'uuid'}"
    if spelt := others - {last.name}:
        what = f"the database does not distinguish its name from {_quoted(min(spelt))}"
    with errors_at(f"provider {_quoted(last.name)}", *after.entry_of("provider", last.uuid)):
        raise Duplicate(what)


def _written(
    connection: Connection, write: Write, rows: list[ProviderState], *, undo: bool = False
) -> bool:
    """Write rows, unless they cannot be written, and return whether they can."""
    try:
        with connection.begin_nested() as savepoint:
            write(rows)
            if undo:
                savepoint.rollback()
    except Duplicate:
        return False
    return True


def refuse_merged_owners(connection: Connection, claims: list[ConsumerClaim], after: State) -> None:
    """Raise :class:`EntryError` for a consumer whose project or user was written as another."""
    held = [claim for claim in claims if claim.allocations]
    given = consumers.owner_names(held)
    found = consumers.ids_of(connection, {kind: given[kind] for kind in (PROJECT, USER)})
    for claim in held:
        for kind, name in ((PROJECT, claim.project_id), (USER, claim.user_id)):
            if (kind, name) in found:
                continue
            other = consumers.as_kept(connection, kind, name) or ""
            place = after.entry_of_consumer(claim.consumer)
            with errors_at(f"{kind} {_quoted(name)}", *place):
                raise Duplicate(f"the database does not distinguish its name from {_quoted(other)}")


def _quoted(name: str) -> str:
    """Return a name for a message, in quotation marks where it has a blank at an end."""
    return name if name and name == name.strip() else repr(name)

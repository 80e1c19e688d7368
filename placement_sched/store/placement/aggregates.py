# SPDX-License-Identifier: Apache-2.0
"""Placement aggregates, and associations of providers with members.

An aggregate is a uuid that groups providers. A member is a trait or an aggregate of a provider. An
association is a pair of their ids. Traits are in :mod:`placement_sched.store.placement.traits`.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Table, bindparam, delete, insert, select

from placement_sched.db import sql
from placement_sched.db.tables import placement_aggregates, resource_provider_aggregates
from placement_sched.db.tables import resource_providers as providers
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.store.placement import resource_providers as provider_store
from placement_sched.store.placement.resource_providers import DetailsQuery

_AGGREGATES, _MEMBERS = placement_aggregates.c, resource_provider_aggregates.c
_JOINED = _AGGREGATES.id == _MEMBERS.aggregate_id
_DETAILS = DetailsQuery(
    [_AGGREGATES.uuid],
    (resource_provider_aggregates, _MEMBERS.resource_provider_id == providers.c.id),
    (placement_aggregates, _JOINED),
    order=_AGGREGATES.id,
)


class Associations:
    """Associations of providers with members: trait names or aggregate uuids."""

    def __init__(self, noun: str, pairs: Table, member: Column[int], name: Column[Any]) -> None:
        """Describe pairs of provider and member, with the noun for errors."""
        self._noun, self._pairs, self._member, self._name = noun, pairs, member, name
        self._provider = pairs.c.resource_provider_id
        self._ids = select(name, name.table.c.id).where(
            name.in_(bindparam("names", expanding=True))
        )
        self._insert = insert(pairs)
        self._delete = delete(pairs).where(
            self._provider == bindparam("provider"),
            member.in_(bindparam("members", expanding=True)),
        )
        self._by_uuid = (
            select(name, providers.c.uuid)
            .join(pairs, member == name.table.c.id)
            .join(providers, providers.c.id == self._provider)
        )

    def map_ids(self, connection: Connection, names: Iterable[str]) -> dict[str, int]:
        """Map existing names to their ids."""
        return {
            name: number
            for batch in split_batches(set(names))
            for name, number in connection.execute(self._ids, {"names": batch})
        }

    def ensure(
        self, connection: Connection, names: Collection[str], now: datetime
    ) -> dict[str, int]:
        """Map names to their ids, after creating missing rows."""
        ids = self.map_ids(connection, names)
        if missing := sorted(set(names) - ids.keys()):
            rows = [{self._name.name: name, "created_at": now} for name in missing]
            sql.insert_missing(connection, self._name.table, rows)
            ids |= self.map_ids(connection, missing)
        return ids

    def replace(
        self,
        connection: Connection,
        provider_id: int,
        current: Collection[int],
        new: Collection[int],
        now: datetime,
    ) -> bool:
        """Replace the members of a locked provider, given by id.

        Returns whether any member was removed or added. Raises :class:`ConcurrentUpdate` if another
        request has deleted a new member, or added it to the provider.
        """
        removed, added = set(current).difference(new), set(new).difference(current)
        if removed:
            parameters = {"provider": provider_id, "members": sorted(removed)}
            connection.execute(self._delete, parameters)
        self._add(connection, [(provider_id, number) for number in sorted(added)], now)
        return bool(removed or added)

    def replace_many(
        self,
        connection: Connection,
        names_by_provider_id: Mapping[int, Collection[str]],
        now: datetime,
    ) -> frozenset[int]:
        """Replace the members of providers, and return the changed provider ids.

        Missing members are created. The caller has locked the providers, and increments the
        generations of the changed providers. The number of statements does not depend on the number
        of providers.
        """
        names = {name for members in names_by_provider_id.values() for name in members}
        ids = self.ensure(connection, names, now)
        new_pairs = {
            (provider, ids[name])
            for provider, members in names_by_provider_id.items()
            for name in members
        }
        query = select(self._provider, self._member)
        numbers = sorted(names_by_provider_id)
        current = set(map(tuple, sql.select_in_batches(connection, query, self._provider, numbers)))
        removed = group_rows((member, provider) for provider, member in current - new_pairs)
        for member in sorted(removed):
            self._remove(connection, member, removed[member])
        self._add(connection, sorted(new_pairs - current), now)
        return frozenset(provider for provider, _ in new_pairs ^ current)

    def add(
        self, connection: Connection, name: str, provider_ids: Iterable[int], now: datetime
    ) -> frozenset[int]:
        """Add a member to providers, and return the changed provider ids.

        A missing member is created. Locks the providers, and increments the generations of the
        changed providers.
        """
        ids = set(provider_ids)
        if not ids:
            return frozenset()
        present = provider_store.lock(connection, ids)
        member_id = self.ensure(connection, [name], now)[name]
        lacking = frozenset(present) - self._find_associated(connection, member_id, ids)
        self._add(connection, [(provider, member_id) for provider in sorted(lacking)], now)
        provider_store.bump_generations(connection, lacking, now)
        return lacking

    def remove(
        self, connection: Connection, name: str, provider_ids: Iterable[int], now: datetime
    ) -> frozenset[int]:
        """Remove a member like :meth:`add`, and return the changed provider ids."""
        ids = set(provider_ids)
        member_id = self.map_ids(connection, [name]).get(name)
        if member_id is None or not ids:
            return frozenset()
        provider_store.lock(connection, ids)
        changed = self._find_associated(connection, member_id, ids)
        self._remove(connection, member_id, changed)
        provider_store.bump_generations(connection, changed, now)
        return changed

    def map_by_provider_id(self, connection: Connection) -> dict[int, set[str]]:
        """Map the ids of all providers to the names of their members."""
        query = select(self._provider, self._name)
        query = query.join(self._name.table, self._name.table.c.id == self._member)
        names_by_id = group_rows(connection.execute(query))
        return {provider: set(names) for provider, names in names_by_id.items()}

    def map_providers(
        self, connection: Connection, names: Iterable[str]
    ) -> dict[str, frozenset[str]]:
        """Map trait names or aggregate uuids that have providers to their uuids."""
        rows = sql.select_in_batches(connection, self._by_uuid, self._name, set(names))
        return {name: frozenset(uuids) for name, uuids in group_rows(rows).items()}

    def map_by_provider_uuid(
        self, connection: Connection, uuids: Iterable[str]
    ) -> dict[str, frozenset[str]]:
        """Map the uuids of providers that have members to the members."""
        rows = sql.select_in_batches(connection, self._by_uuid, providers.c.uuid, set(uuids))
        names_by_uuid = group_rows((uuid, name) for name, uuid in rows)
        return {uuid: frozenset(names) for uuid, names in names_by_uuid.items()}

    def _find_associated(
        self, connection: Connection, member_id: int, provider_ids: Iterable[int]
    ) -> frozenset[int]:
        query = select(self._provider).where(self._member == member_id)
        ids = sorted(provider_ids)
        return frozenset(sql.select_scalars_in_batches(connection, query, self._provider, ids))

    def _remove(self, connection: Connection, member_id: int, provider_ids: Iterable[int]) -> None:
        statement = delete(self._pairs).where(self._member == member_id)
        sql.change_in_batches(connection, statement, self._provider, sorted(provider_ids))

    def _add(
        self, connection: Connection, pairs: Collection[tuple[int, int]], now: datetime
    ) -> None:
        rows = [
            {"resource_provider_id": provider, self._member.name: member, "created_at": now}
            for provider, member in pairs
        ]
        conflict = ConcurrentUpdate(
            f"{self._noun} was deleted, or added to its provider, by another request. Try again"
        )
        if rows:
            with sql.translate_rejection(conflict):
                connection.execute(self._insert, rows)


#: The aggregate memberships of providers.
ASSOCIATIONS = Associations(
    "an aggregate", resource_provider_aggregates, _MEMBERS.aggregate_id, _AGGREGATES.uuid
)
map_ids = ASSOCIATIONS.map_ids
replace_many = ASSOCIATIONS.replace_many
add_members = ASSOCIATIONS.add
remove_members = ASSOCIATIONS.remove
map_providers = ASSOCIATIONS.map_providers
map_by_provider_uuid = ASSOCIATIONS.map_by_provider_uuid
map_by_provider_id = ASSOCIATIONS.map_by_provider_id


def get_by_provider_uuid(connection: Connection, uuid: str) -> tuple[int, tuple[str, ...]]:
    """Return a provider's generation and aggregates, or raise NotFound."""
    _, generation, rows = _DETAILS.read(connection, uuid)
    return generation, tuple(aggregate for (aggregate,) in rows)


def replace(
    connection: Connection, provider_id: int, uuids: Collection[str], now: datetime
) -> bool:
    """Replace a provider's aggregates, and return whether they changed.

    Missing aggregates are created. The caller has locked the provider, and increments its
    generation if the microversion requires it.
    """
    query = select(_AGGREGATES.uuid, _AGGREGATES.id).join(resource_provider_aggregates, _JOINED)
    memberships = query.where(_MEMBERS.resource_provider_id == provider_id)
    current = dict(map(tuple, connection.execute(memberships)))
    added = ASSOCIATIONS.ensure(connection, set(uuids) - current.keys(), now)
    remaining = {number for uuid, number in current.items() if uuid in uuids}
    new_ids = remaining.union(added.values())
    return ASSOCIATIONS.replace(connection, provider_id, current.values(), new_ids, now)

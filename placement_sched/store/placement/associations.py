"""What traits and aggregates share: many of them on many providers, in a table of pairs of ids."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Table, bindparam, delete, insert, select

from placement_sched.db import sql
from placement_sched.db.tables import resource_providers as providers
from placement_sched.errors import ConcurrentUpdate
from placement_sched.store.placement import resource_providers


class Associations:
    """The pairs of one table, of a provider and a trait (by name) or an aggregate (by uuid)."""

    def __init__(self, noun: str, pairs: Table, member: Column[int], name: Column[Any]) -> None:
        """Take the column of ``pairs`` with the member's id, and its ``name`` in its own table."""
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

    def ids(self, connection: Connection, names: Iterable[str]) -> dict[str, int]:
        """Return the ids of those of these names that are there."""
        return {
            name: number
            for batch in sql.batches(set(names))
            for name, number in connection.execute(self._ids, {"names": batch})
        }

    def ensure(
        self, connection: Connection, names: Collection[str], now: datetime
    ) -> dict[str, int]:
        """Return the ids of these names, after creating those that are missing."""
        ids = self.ids(connection, names)
        if missing := sorted(set(names) - ids.keys()):
            rows = [{self._name.name: name, "created_at": now} for name in missing]
            sql.insert_missing(connection, self._name.table, rows)
            ids |= self.ids(connection, missing)
        return ids

    def change(
        self,
        connection: Connection,
        provider_id: int,
        gone: Collection[int],
        new: Collection[int],
        now: datetime,
    ) -> None:
        """Remove members from a locked provider and add others, all by id.

        Raises :class:`ConcurrentUpdate` where a new one is gone or added meanwhile.
        """
        if gone:
            parameters = {"provider": provider_id, "members": sorted(gone)}
            connection.execute(self._delete, parameters)
        self._add(connection, [(provider_id, number) for number in sorted(new)], now)

    def replace_many(
        self,
        connection: Connection,
        names_by_provider_id: Mapping[int, Collection[str]],
        now: datetime,
    ) -> frozenset[int]:
        """Make these the only members of each provider; return the ids of those that changed.

        Missing members are created. The caller has locked the providers, and bumps the generations
        of those that changed. The number of statements does not depend on how many providers there
        are.
        """
        names = {name for some in names_by_provider_id.values() for name in some}
        ids = self.ensure(connection, names, now)
        wanted = {
            (provider, ids[name])
            for provider, some in names_by_provider_id.items()
            for name in some
        }
        query = select(self._provider, self._member)
        numbers = sorted(names_by_provider_id)
        found = set(map(tuple, sql.rows_among(connection, query, self._provider, numbers)))
        gone = sql.grouped((member, provider) for provider, member in found - wanted)
        for member in sorted(gone):
            self._remove(connection, member, gone[member])
        self._add(connection, sorted(wanted - found), now)
        return frozenset(provider for provider, _ in wanted ^ found)

    def add(
        self, connection: Connection, name: str, provider_ids: Iterable[int], now: datetime
    ) -> frozenset[int]:
        """Add a member, created where it is missing; return the ids of providers that lacked it.

        Locks these providers and bumps the generations of those that lacked it.
        """
        wanted = set(provider_ids)
        if not wanted:
            return frozenset()
        present = resource_providers.lock(connection, wanted)
        number = self.ensure(connection, [name], now)[name]
        lacking = frozenset(present) - self._having(connection, number, wanted)
        self._add(connection, [(provider, number) for provider in sorted(lacking)], now)
        resource_providers.bump_generations(connection, lacking, now)
        return lacking

    def remove(
        self, connection: Connection, name: str, provider_ids: Iterable[int], now: datetime
    ) -> frozenset[int]:
        """Remove a member from providers; return the ids of those that had it.

        Locks these providers and bumps the generations of those that had it.
        """
        wanted = set(provider_ids)
        number = self.ids(connection, [name]).get(name)
        if number is None or not wanted:
            return frozenset()
        resource_providers.lock(connection, wanted)
        having = self._having(connection, number, wanted)
        self._remove(connection, number, having)
        resource_providers.bump_generations(connection, having, now)
        return having

    def by_provider_id(self, connection: Connection) -> dict[int, set[str]]:
        """Return the names of the members of every provider, by the provider's id."""
        query = select(self._provider, self._name)
        query = query.join(self._name.table, self._name.table.c.id == self._member)
        found = sql.grouped(connection.execute(query))
        return {provider: set(names) for provider, names in found.items()}

    def providers_of(
        self, connection: Connection, names: Iterable[str]
    ) -> dict[str, frozenset[str]]:
        """Return the uuids of the providers that have each of these members, where any has it."""
        rows = sql.rows_among(connection, self._by_uuid, self._name, set(names))
        return {name: frozenset(uuids) for name, uuids in sql.grouped(rows).items()}

    def of_providers(
        self, connection: Connection, uuids: Iterable[str]
    ) -> dict[str, frozenset[str]]:
        """Return the names of the members of these providers, by uuid, where one has any."""
        rows = sql.rows_among(connection, self._by_uuid, providers.c.uuid, set(uuids))
        found = sql.grouped((uuid, name) for name, uuid in rows)
        return {uuid: frozenset(names) for uuid, names in found.items()}

    def _having(
        self, connection: Connection, number: int, provider_ids: Iterable[int]
    ) -> frozenset[int]:
        query = select(self._provider).where(self._member == number)
        rows = sql.rows_among(connection, query, self._provider, sorted(provider_ids))
        return frozenset(row[0] for row in rows)

    def _remove(self, connection: Connection, number: int, provider_ids: Iterable[int]) -> None:
        gone = delete(self._pairs).where(self._member == number)
        sql.change_among(connection, gone, self._provider, sorted(provider_ids))

    def _add(
        self, connection: Connection, pairs: Collection[tuple[int, int]], now: datetime
    ) -> None:
        rows = [
            {"resource_provider_id": provider, self._member.name: member, "created_at": now}
            for provider, member in pairs
        ]
        overtaken = ConcurrentUpdate(
            f"{self._noun} was deleted, or added to its provider, by another request meanwhile; "
            "try again"
        )
        if rows:
            with sql.refused_as(overtaken):
                connection.execute(self._insert, rows)

# SPDX-License-Identifier: Apache-2.0
"""Random changes of a cloud, and a change log in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from sqlalchemy import Connection, delete, insert, select, update

from placement_sched.db import tables
from placement_sched.db.tables import resource_providers
from placement_sched.db.transaction import Database
from placement_sched.store.placement.change_log import Changes
from tests.candidates.strategies import AGGREGATES, CHILD_CLASSES, SHARES, TRAITS
from tests.support.clouds import uuid_of

_PROVIDER = resource_providers.c
RATIOS = (1.0, 1.9, 0.1, 16.0, 1.1)


@dataclass
class RecordedChanges:
    """A change log that tests fill. Its flags simulate a missing, incomplete or late log."""

    kept: bool = True
    doubted: bool = False
    names: bool = False
    noted: list[int] = field(default_factory=list)
    reads: int = 0
    lacking: bool = False
    late: frozenset[int] = frozenset()
    has_late_rows: bool = False

    def reason_without_log(self, connection):
        return None if self.kept else "it is not"

    def begin(self, connection):
        self.doubted = self.lacking = False
        return len(self.noted)

    def read(self, connection, position):
        self.reads += 1
        names, self.names = self.names, False
        providers = frozenset(self.noted[position:])
        if self.lacking:
            return Changes(position, lacks_rows=True)
        return Changes(
            len(self.noted),
            providers,
            names,
            is_in_doubt=self.doubted,
            has_late_rows=self.has_late_rows,
        )

    def read_late_rows(self, connection, position):
        late, self.late = self.late, frozenset()
        return Changes(position, late)


@dataclass
class RandomChanger:
    """Changes the cloud of a database at random."""

    log: RecordedChanges
    random: Random
    number: int = 0
    changed: list[int] = field(default_factory=list)
    named: bool = False

    def apply_change(self, database: Database) -> None:
        """Commit a random change and add it to the log."""
        database.write(self._write_random_change)
        self.log.names |= self.named
        self.log.noted += self.changed
        self.changed, self.named = [], False

    def _write_random_change(self, connection: Connection) -> None:
        kinds: list[Callable[[Connection, list[int]], None]] = [
            self._allocate,
            self._allocate,
            self._free,
            self._change_inventory,
            self._change_trait,
            self._change_aggregate,
            self._create,
            self._remove,
            self._move,
        ]
        ids = list(connection.scalars(select(_PROVIDER.id).order_by(_PROVIDER.id)))
        change = self.random.choice(kinds) if ids else self._create
        change(connection, ids)

    def _record_change(self, connection: Connection, ids: list[int]) -> None:
        self.changed += ids
        raised = update(resource_providers).values(generation=_PROVIDER.generation + 1)
        connection.execute(raised.where(_PROVIDER.id.in_(ids)))

    def _random_provider(self, connection: Connection, ids: list[int]) -> int:
        key = self.random.choice(ids)
        self._record_change(connection, [key])
        return key

    def _random_class_id(self, connection: Connection) -> int:
        table = tables.resource_classes.c
        name = self.random.choice(CHILD_CLASSES)
        return connection.execute(select(table.id).where(table.name == name)).scalar_one()

    def _allocate(self, connection: Connection, ids: list[int]) -> None:
        self.number += 1
        connection.execute(
            insert(tables.allocations).values(
                resource_provider_id=self._random_provider(connection, ids),
                resource_class_id=self._random_class_id(connection),
                consumer_id=uuid_of(f"another {self.number}"),
                used=self.random.randint(1, 3),
            )
        )

    def _free(self, connection: Connection, ids: list[int]) -> None:
        # The generation stays the same, as in OpenStack placement.
        provider, key = self.random.choice(ids), tables.allocations.c.resource_provider_id
        self.changed.append(provider)
        connection.execute(delete(tables.allocations).where(key == provider))

    def _change_inventory(self, connection: Connection, ids: list[int]) -> None:
        owned = tables.inventories
        key, class_id = self._random_provider(connection, ids), self._random_class_id(connection)
        same = (owned.c.resource_provider_id == key) & (owned.c.resource_class_id == class_id)
        connection.execute(delete(owned).where(same))
        if self.random.random() < 0.8:
            connection.execute(
                insert(owned).values(
                    resource_provider_id=key,
                    resource_class_id=class_id,
                    total=self.random.choice([1, 4, 10]),
                    reserved=self.random.choice([0, 1]),
                    min_unit=self.random.choice([1, 1, 2]),
                    max_unit=self.random.choice([3, 100]),
                    step_size=self.random.choice([1, 1, 2]),
                    allocation_ratio=self.random.choice(RATIOS),
                )
            )

    def _change_trait(self, connection: Connection, ids: list[int]) -> None:
        name = self.random.choice((*TRAITS, SHARES))
        columns = tables.traits.c
        trait = connection.execute(select(columns.id).where(columns.name == name)).scalar_one()
        self._add_or_remove_row(connection, tables.resource_provider_traits, "trait_id", trait, ids)

    def _change_aggregate(self, connection: Connection, ids: list[int]) -> None:
        uuid, aggregates = uuid_of(self.random.choice(AGGREGATES)), tables.placement_aggregates
        query = select(aggregates.c.id).where(aggregates.c.uuid == uuid)
        aggregate = connection.execute(query).scalar()
        if aggregate is None:
            connection.execute(insert(aggregates).values(uuid=uuid))
            aggregate = connection.execute(query).scalar()
            self.named = True
        table = tables.resource_provider_aggregates
        self._add_or_remove_row(connection, table, "aggregate_id", aggregate, ids)

    def _add_or_remove_row(self, connection, table, column, value, ids) -> None:
        key = self._random_provider(connection, ids)
        same = (table.c.resource_provider_id == key) & (table.c[column] == value)
        if not connection.execute(delete(table).where(same)).rowcount:
            row = {"resource_provider_id": key, column: value}
            connection.execute(insert(table).values(row))

    def _create(self, connection: Connection, ids: list[int]) -> None:
        self.number += 1
        uuid = uuid_of(f"created {self.number}")
        connection.execute(insert(resource_providers).values(uuid=uuid, name=uuid, generation=0))
        key = connection.execute(select(_PROVIDER.id).where(_PROVIDER.uuid == uuid)).scalar_one()
        parent = self.random.choice([None, *ids])
        root = key
        if parent is not None:
            root = _root_of(connection, parent)
        place = {"root_provider_id": root, "parent_provider_id": parent}
        connection.execute(update(resource_providers).where(_PROVIDER.id == key).values(place))
        self._record_change(connection, [key])
        self._change_inventory(connection, [key])

    def _remove(self, connection: Connection, ids: list[int]) -> None:
        parents = set(connection.scalars(select(_PROVIDER.parent_provider_id)))
        leaves = [key for key in ids if key not in parents]
        key = self._random_provider(connection, leaves)
        for table in (
            tables.allocations,
            tables.inventories,
            tables.resource_provider_traits,
            tables.resource_provider_aggregates,
        ):
            connection.execute(delete(table).where(table.c.resource_provider_id == key))
        alone = {"root_provider_id": None, "parent_provider_id": None}
        connection.execute(update(resource_providers).where(_PROVIDER.id == key).values(alone))
        connection.execute(delete(resource_providers).where(_PROVIDER.id == key))

    def _move(self, connection: Connection, ids: list[int]) -> None:
        parents = dict(connection.execute(select(_PROVIDER.id, _PROVIDER.parent_provider_id)).all())
        top = self.random.choice(ids)
        below = [key for key in ids if top in _ancestors(parents, key)]
        parent = self.random.choice([None, *(key for key in ids if key not in below)])
        root = top if parent is None else _root_of(connection, parent)
        hung = update(resource_providers).where(_PROVIDER.id == top)
        connection.execute(hung.values(parent_provider_id=parent))
        moved = update(resource_providers).where(_PROVIDER.id.in_(below))
        connection.execute(moved.values(root_provider_id=root))
        self.changed += below


def _ancestors(parents: dict[int, int | None], key: int | None) -> Iterator[int]:
    while key is not None:
        yield key
        key = parents[key]


def _root_of(connection: Connection, key: int) -> int:
    query = select(_PROVIDER.root_provider_id).where(_PROVIDER.id == key)
    return connection.execute(query).scalar_one()

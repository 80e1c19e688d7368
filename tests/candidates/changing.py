# SPDX-License-Identifier: Apache-2.0
"""Random changes of a cloud, and a change log in memory."""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from placement_sched.db.tables import allocations, resource_providers
from placement_sched.db.transaction import Database
from placement_sched.errors import InUse, Invalid
from placement_sched.model.provider import Inventory
from placement_sched.store.placement import aggregates, inventories, resource_classes, traits
from placement_sched.store.placement import resource_providers as provider_trees
from placement_sched.store.placement.aggregates import Associations
from placement_sched.store.placement.change_log import Changes
from tests.candidates.reference import SHARING_TRAIT
from tests.candidates.strategies import AGGREGATE_NAMES, CHILD_RESOURCE_CLASSES, TRAIT_NAMES
from tests.support.clouds import uuid_of
from tests.support.providers import NOW

ALLOCATION_RATIOS = (1.0, 1.9, 0.1, 16.0, 1.1)


@dataclass
class FakeChangeLog:
    """A change log that tests fill. Its flags simulate a missing, incomplete or late log."""

    is_available: bool = True
    needs_full_reload: bool = False
    has_changed_names: bool = False
    changed_ids: list[int] = field(default_factory=list)
    read_count: int = 0
    lacks_rows: bool = False
    late_ids: frozenset[int] = frozenset()
    has_late_rows: bool = False

    def find_defect(self, connection):
        return None if self.is_available else "it is not"

    def begin(self, connection):
        self.needs_full_reload = self.lacks_rows = False
        return len(self.changed_ids)

    def read(self, connection, position):
        self.read_count += 1
        has_changed_names, self.has_changed_names = self.has_changed_names, False
        providers = frozenset(self.changed_ids[position:])
        if self.lacks_rows:
            return Changes(position, lacks_rows=True)
        return Changes(
            len(self.changed_ids),
            providers,
            has_changed_names,
            needs_full_reload=self.needs_full_reload,
            has_late_rows=self.has_late_rows,
        )

    def read_late_rows(self, connection, position):
        late_ids, self.late_ids = self.late_ids, frozenset()
        return Changes(position, late_ids)


class RandomCloudChanger:
    """Changes the cloud of a database at random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._number = 0

    def commit_random_change(self, database: Database) -> None:
        """Commit a random change."""
        database.write(self._write_random_change)

    def _write_random_change(self, connection: Connection) -> None:
        itself = resource_providers.c
        query = select(itself.id, itself.uuid, itself.parent_provider_id).order_by(itself.id)
        providers = connection.execute(query).all()
        kind = self.random.choice(
            ["allocate", "allocate", "free", "inventory", "trait", "aggregate", "create", "remove",
             "move"]
        )  # fmt: skip
        self._number += 1
        if kind == "create" or not providers:
            uuid = uuid_of(f"created {self._number}")
            parent = self.random.choice([None, *(each.uuid for each in providers)])
            created = provider_trees.create(
                connection, uuid=uuid, name=uuid, parent_uuid=parent, now=NOW
            )
            self._change_inventory(connection, created.id)
            return
        provider = self.random.choice(providers)
        if kind == "allocate":
            self._allocate_resources(connection, provider.id)
        elif kind == "free":
            self._delete_allocations(connection, provider.id)
        elif kind == "inventory":
            self._change_inventory(connection, provider.id)
        elif kind == "trait":
            name = self.random.choice((*TRAIT_NAMES, SHARING_TRAIT))
            self._toggle_trait_or_aggregate(connection, traits.ASSOCIATIONS, name, provider)
        elif kind == "aggregate":
            name = uuid_of(self.random.choice(AGGREGATE_NAMES))
            self._toggle_trait_or_aggregate(connection, aggregates.ASSOCIATIONS, name, provider)
        elif kind == "move":
            parent = self.random.choice([None, *(each.uuid for each in providers)])
            with suppress(Invalid):  # a loop
                provider_trees.move(connection, provider.uuid, parent, anywhere=True, now=NOW)
        else:
            parents = {each.parent_provider_id for each in providers}
            leaf = self.random.choice([each for each in providers if each.id not in parents])
            self._delete_allocations(connection, leaf.id)
            provider_trees.remove(connection, leaf.uuid)

    def _allocate_resources(self, connection: Connection, provider_id: int) -> None:
        name = self.random.choice(CHILD_RESOURCE_CLASSES)
        row = {
            "resource_provider_id": provider_id,
            "resource_class_id": resource_classes.map_ids(connection, [name])[name],
            "consumer_id": uuid_of(f"another {self._number}"),
            "used": self.random.randint(1, 3),
        }
        connection.execute(insert(allocations), row)

    def _delete_allocations(self, connection: Connection, provider_id: int) -> None:
        is_of_provider = allocations.c.resource_provider_id == provider_id
        connection.execute(delete(allocations).where(is_of_provider))

    def _change_inventory(self, connection: Connection, provider_id: int) -> None:
        name = self.random.choice(CHILD_RESOURCE_CLASSES)
        if self.random.random() < 0.2:
            with suppress(InUse):
                inventories.remove(connection, {provider_id: {name}})
            return
        inventory = Inventory(
            resource_class=name,
            total=self.random.choice([1, 4, 10]),
            reserved=self.random.choice([0, 1]),
            min_unit=self.random.choice([1, 1, 2]),
            max_unit=self.random.choice([3, 100]),
            step_size=self.random.choice([1, 1, 2]),
            allocation_ratio=self.random.choice(ALLOCATION_RATIOS),
        )
        inventories.put(connection, {provider_id: [inventory]}, NOW)

    def _toggle_trait_or_aggregate(
        self, connection: Connection, kind: Associations, name: str, provider: Row[Any]
    ) -> None:
        if not kind.add(connection, name, [provider.id], NOW):
            kind.remove(connection, name, [provider.id], NOW)

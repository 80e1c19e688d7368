# SPDX-License-Identifier: Apache-2.0
"""The rows of a world, as they are written: tables, columns, and a book that numbers them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Protocol
from uuid import UUID

import os_resource_classes
from sqlalchemy import Table

from placement_sched.db import tables

PROJECTS, USERS = 2000, 500
#: One consumer in so many belongs to the first project, which is so much larger than the others.
LARGE = 200
#: When everything in a world was made.
BORN = datetime(2025, 1, 1)  # noqa: DTZ001 - the tables keep UTC without a zone

Rows = Mapping[Table, Sequence[tuple[object, ...]]]

#: What is filled, in this order, and with which columns.
COLUMNS: Mapping[Table, tuple[str, ...]] = {
    tables.traits: ("id", "name"),
    tables.projects: ("id", "external_id"),
    tables.users: ("id", "external_id"),
    tables.placement_aggregates: ("id", "uuid"),
    tables.resource_providers: (
        *("id", "uuid", "name", "generation", "root_provider_id", "parent_provider_id"),
    ),
    tables.inventories: (
        *("resource_provider_id", "resource_class_id", "total", "reserved"),
        *("min_unit", "max_unit", "step_size", "allocation_ratio"),
    ),
    tables.resource_provider_traits: ("resource_provider_id", "trait_id"),
    tables.resource_provider_aggregates: ("resource_provider_id", "aggregate_id"),
    tables.consumers: ("id", "uuid", "project_id", "user_id", "generation"),
    tables.allocations: ("resource_provider_id", "consumer_id", "resource_class_id", "used"),
    tables.compute_nodes: (
        *("uuid", "host", "hypervisor_hostname", "cell_uuid", "report", "version", "last_seen_up"),
    ),
    tables.services: ("uuid", "host", "binary", "disabled", "forced_down", "last_seen_up"),
}


def uuid_of(kind: str, number: int) -> str:
    """Return the uuid of a thing of a world: the same in every run."""
    return str(UUID(int=Random(f"{kind} {number}").getrandbits(128), version=4))


def class_id(name: str) -> int:
    """Return the id that a standard resource class has in every database."""
    found: int = os_resource_classes.STANDARDS.index(name)
    return found


class World(Protocol):
    """A cloud of ``size`` hosts or trees, whose rows follow from its size and seed alone."""

    @property
    def size(self) -> int:
        """Return how many hosts or trees it has."""
        ...

    @property
    def seed(self) -> int:
        """Return which cloud of its kind it is."""
        ...

    @property
    def aggregates(self) -> Sequence[str]:
        """Return the uuids of all aggregates; their ids count from 1 in this order."""
        ...

    @property
    def traits(self) -> Sequence[str]:
        """Return the custom traits."""
        ...

    def fill(self, book: "Book") -> Iterator[None]:
        """Write all rows into ``book``, and pause after each host or tree."""
        ...


class Book:
    """Takes down the rows of a world; numbers providers and consumers as they come."""

    def __init__(self, traits: Mapping[str, int]) -> None:
        self._traits = traits
        self._providers = self._consumers = 0
        self._rows: dict[Table, list[tuple[object, ...]]] = {table: [] for table in COLUMNS}

    def __len__(self) -> int:
        """Return how many rows wait to be taken, but for the few of small tables."""
        return len(self._rows[tables.allocations]) + len(self._rows[tables.inventories])

    def take(self) -> Rows:
        """Return what was written since the last time."""
        taken = self._rows
        self._rows = {table: [] for table in COLUMNS}
        return taken

    def write(self, table: Table, *rows: tuple[object, ...]) -> None:
        """Take down rows whose values stand in the order of ``COLUMNS``."""
        self._rows[table] += rows

    def provider(
        self, uuid: str, name: str, root: int | None = None, parent: int | None = None
    ) -> int:
        """Take down a provider, a root by default; return its id."""
        self._providers = key = self._providers + 1
        self.write(tables.resource_providers, (key, uuid, name, 5, root or key, parent))
        return key

    def stock(self, provider: int, *stock: tuple[int, int, int, float]) -> None:
        """Take down inventories: (class id, total, reserved, allocation ratio)."""
        self.write(
            tables.inventories,
            *(
                (provider, one, total, kept, 1, total, 1, ratio)
                for one, total, kept, ratio in stock
            ),
        )

    def mark(self, provider: int, traits: Iterable[str]) -> None:
        """Give a provider its traits."""
        self.write(
            tables.resource_provider_traits,
            *((provider, self._traits[name]) for name in sorted(traits)),
        )

    def join(self, provider: int, *aggregates: int) -> None:
        """Put a provider into aggregates, given by id."""
        self.write(tables.resource_provider_aggregates, *((provider, one) for one in aggregates))

    def consume(self, random: Random, *uses: tuple[int, int, int]) -> None:
        """Take down a consumer and what it uses: (provider, class id, amount)."""
        self._consumers = key = self._consumers + 1
        uuid = str(UUID(int=random.getrandbits(128), version=4))
        project = 1 if key % LARGE == 0 else random.randint(2, PROJECTS)
        owner = (project, random.randint(1, USERS))
        self.write(tables.consumers, (key, uuid, *owner, 1))
        self.write(
            tables.allocations, *((provider, uuid, one, used) for provider, one, used in uses)
        )


def common_rows(world: World, next_trait: int) -> Rows:
    """Return the rows that hosts refer to; custom traits are numbered from ``next_trait``."""
    return {
        tables.traits: [(next_trait + i, name) for i, name in enumerate(world.traits)],
        tables.projects: [(i + 1, uuid_of("project", i)) for i in range(PROJECTS)],
        tables.users: [(i + 1, uuid_of("user", i)) for i in range(USERS)],
        tables.placement_aggregates: [(i + 1, uuid) for i, uuid in enumerate(world.aggregates)],
    }

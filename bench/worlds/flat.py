# SPDX-License-Identifier: Apache-2.0
"""Hosts without child providers, and the compute nodes that the scheduler knows them by."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

from worlds.hardware import (
    CUSTOM_TRAITS,
    UNUSED_TRAIT,
    Places,
    amount,
    bought,
    host_traits,
    part_used,
)
from worlds.nodes import add_node
from worlds.rows import BORN, Book, uuid_of


@dataclass(frozen=True)
class FlatWorld:
    """Hosts of three resource classes, about 40 traits, 3 aggregates and 10 consumers each.

    Aggregates are its zone, its rack and a tag; one host in eight is packed. Traits are those of
    its CPU, of its driver and some custom ones.
    """

    size: int
    seed: int = 1
    #: When every host was last heard of; the scheduler takes those silent for a minute as down.
    seen: datetime = BORN

    @property
    def places(self) -> Places:
        """Return the aggregates."""
        return Places(self.size)

    @property
    def aggregates(self) -> Sequence[str]:
        """Return the uuids of all aggregates."""
        return self.places.aggregates

    @property
    def traits(self) -> Sequence[str]:
        """Return the custom traits, with one that no host has."""
        return *CUSTOM_TRAITS, UNUSED_TRAIT

    def fill(self, book: Book) -> Iterator[None]:
        """Write all rows into ``book``, and pause after each host."""
        for number in range(self.size):
            self._add_host(book, number)
            yield

    def _add_host(self, book: Book, number: int) -> None:
        random = Random(f"{self.seed} {number}")
        hardware = bought(random)
        name = f"cn{number:06}.example.org"
        key = book.provider(uuid_of("host", number), name)
        add_node(book, number, name, hardware, self.seen)
        stock = (*hardware.cpu_stock(), *hardware.disk_stock)
        book.stock(key, *stock)
        book.mark(key, host_traits(random, hardware))
        book.join(key, *self.places.of(number, random))
        count = random.randint(8, 12)
        part = part_used(random) / count
        uses = tuple(
            (key, class_id, amount(total, reserved, ratio, part))
            for class_id, total, reserved, ratio in stock
        )
        for _ in range(count):
            book.consume(random, *uses)

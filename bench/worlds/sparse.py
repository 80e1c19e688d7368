# SPDX-License-Identifier: Apache-2.0
"""Hosts that have little beside their inventories: for very large clouds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

from worlds.hardware import COMMON_TRAITS, CUSTOM_TRAITS, Places, amount, bought, part_used
from worlds.nodes import add_node
from worlds.rows import BORN, Book, uuid_of

CONSUMERS = 2


@dataclass(frozen=True)
class SparseWorld:
    """Hosts of three resource classes, 6 traits, one aggregate (the rack) and 2 consumers each."""

    size: int
    seed: int = 1
    #: When every host was last heard of.
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
        """Return the custom traits."""
        return CUSTOM_TRAITS

    def fill(self, book: Book) -> Iterator[None]:
        """Write all rows into ``book``, and pause after each host."""
        random, places = Random(self.seed), self.places
        for number in range(self.size):
            hardware = bought(random)
            name = f"cn{number:07}.example.org"
            key = book.provider(uuid_of("host", number), name)
            add_node(book, number, name, hardware, self.seen)
            stock = (*hardware.cpu_stock(), *hardware.disk_stock)
            book.stock(key, *stock)
            book.mark(key, (*COMMON_TRAITS[:4], *random.sample(CUSTOM_TRAITS, 2)))
            book.join(key, places.rack_of(number))
            part = part_used(random) / CONSUMERS
            uses = tuple(
                (key, class_id, amount(total, reserved, ratio, part))
                for class_id, total, reserved, ratio in stock
            )
            for _ in range(CONSUMERS):
                book.consume(random, *uses)
            yield

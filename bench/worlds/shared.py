# SPDX-License-Identifier: Apache-2.0
"""Hosts without disks, and pools of disk that are shared by aggregates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from worlds.hardware import CUSTOM_TRAITS, Places, amount, bought, host_traits, part_used
from worlds.rows import Book, class_id, uuid_of

SHARES = "MISC_SHARES_VIA_AGGREGATE"
#: How many hosts reach a pool; every fifth such group of hosts has a second one.
GROUP_SIZE, TWO_POOLS = 200, 5
_POOL_GB = 1_000_000


@dataclass(frozen=True)
class SharedWorld:
    """Hosts of CPU and memory; each reaches one pool of disk, or two, through an aggregate.

    Apart from the disk hosts are those of a flat world: traits, aggregates, consumers.
    """

    size: int
    seed: int = 1

    @property
    def places(self) -> Places:
        """Return the aggregates but for those of the pools."""
        return Places(self.size)

    @property
    def aggregates(self) -> Sequence[str]:
        """Return the uuids of all aggregates, those of the pools last."""
        groups = range(-(-self.size // GROUP_SIZE))
        return *self.places.aggregates, *(uuid_of("pool aggregate", one) for one in groups)

    @property
    def traits(self) -> Sequence[str]:
        """Return the custom traits."""
        return CUSTOM_TRAITS

    def fill(self, book: Book) -> Iterator[None]:
        """Write all rows into ``book``, and pause after each host."""
        first = len(self.places.aggregates) + 1
        pools: list[int] = []
        for number in range(self.size):
            group, place = divmod(number, GROUP_SIZE)
            if not place:
                pools = _add_pools(book, group, first + group)
            self._add_host(book, number, first + group, pools)
            yield

    def _add_host(self, book: Book, number: int, aggregate: int, pools: Sequence[int]) -> None:
        random = Random(f"{self.seed} {number}")
        hardware = bought(random)
        key = book.provider(uuid_of("host", number), f"cn{number:06}.example.org")
        book.stock(key, *hardware.cpu_stock())
        book.mark(key, host_traits(random, hardware))
        book.join(key, *self.places.of(number, random), aggregate)
        count = random.randint(8, 12)
        part = part_used(random) / count
        uses = [(key, one, amount(*numbers, part)) for one, *numbers in hardware.cpu_stock()]
        for _ in range(count):
            disk = (random.choice(pools), class_id("DISK_GB"), random.randint(10, 100))
            book.consume(random, *uses, disk)


def _add_pools(book: Book, group: int, aggregate: int) -> list[int]:
    pools = []
    for place in range(1 if group % TWO_POOLS else 2):
        pool = book.provider(uuid_of("pool", 2 * group + place), f"pool{group:04}-{place}")
        book.stock(pool, (class_id("DISK_GB"), _POOL_GB, 0, 1.0))
        book.mark(pool, [SHARES])
        book.join(pool, aggregate)
        pools.append(pool)
    return pools

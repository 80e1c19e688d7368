# SPDX-License-Identifier: Apache-2.0
"""Trees of seven providers: a host, its two NUMA nodes, and two network cards on each of these."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

from worlds.hardware import CUSTOM_TRAITS, Places, Stock, amount, bought, host_traits, part_used
from worlds.nodes import add_node
from worlds.rows import BORN, Book, class_id, uuid_of

NUMA_NODES = 2
#: The networks that the cards of a NUMA node are plugged into, one card each.
NETWORKS = ("CUSTOM_PHYSNET_PUBLIC", "CUSTOM_PHYSNET_STORAGE")
VFS_A_CARD = 8


@dataclass(frozen=True)
class NestedWorld:
    """Trees whose root has the disk, NUMA nodes CPU and memory, and cards virtual functions.

    Roots have traits and aggregates as the hosts of a flat world. Each consumer is on one NUMA
    node, and half of them on one or two of its cards; of the NUMA nodes one in eight is packed.
    """

    size: int
    seed: int = 1
    #: When every host was last heard of, as in a flat world.
    seen: datetime = BORN

    @property
    def places(self) -> Places:
        """Return the aggregates, which roots are in."""
        return Places(self.size)

    @property
    def aggregates(self) -> Sequence[str]:
        """Return the uuids of all aggregates."""
        return self.places.aggregates

    @property
    def traits(self) -> Sequence[str]:
        """Return the custom traits."""
        return *CUSTOM_TRAITS, *NETWORKS

    def fill(self, book: Book) -> Iterator[None]:
        """Write all rows into ``book``, and pause after each tree."""
        for number in range(self.size):
            self._add_tree(book, number)
            yield

    def _add_tree(self, book: Book, number: int) -> None:
        random = Random(f"{self.seed} {number}")
        hardware = bought(random)
        name = f"cn{number:06}.example.org"
        root = book.provider(uuid_of("host", number), name)
        add_node(book, number, name, hardware, self.seen)
        book.stock(root, *hardware.disk_stock)
        book.mark(root, host_traits(random, hardware))
        book.join(root, *self.places.of(number, random))
        cpu_stock = hardware.cpu_stock(NUMA_NODES)
        for place in range(NUMA_NODES):
            index = number * NUMA_NODES + place
            numa = book.provider(uuid_of("numa", index), f"{name}_NUMA{place}", root, root)
            book.stock(numa, *cpu_stock)
            book.mark(numa, ["HW_NUMA_ROOT"])
            cards = [_add_card(book, index, network, root, numa, name) for network in range(2)]
            _add_consumers(book, random, (root, numa, cards), cpu_stock, hardware.disk_stock)


def _add_card(book: Book, numa_index: int, network: int, root: int, numa: int, host: str) -> int:
    index = numa_index * len(NETWORKS) + network
    name = f"{host}_PF{index % (NUMA_NODES * len(NETWORKS))}"
    card = book.provider(uuid_of("card", index), name, root, numa)
    book.stock(card, (class_id("SRIOV_NET_VF"), VFS_A_CARD, 0, 1.0))
    book.mark(card, ["HW_NIC_SRIOV", NETWORKS[network]])
    return card


def _add_consumers(
    book: Book,
    random: Random,
    providers: tuple[int, int, Sequence[int]],
    cpu_stock: Stock,
    disk_stock: Stock,
) -> None:
    """Let three to five consumers use a NUMA node, the root's disk, and perhaps its cards."""
    root, numa, cards = providers
    count = random.randint(3, 5)
    part = part_used(random) / count
    uses = [(numa, one, amount(*numbers, part)) for one, *numbers in cpu_stock]
    uses += [(root, one, amount(*numbers, part / NUMA_NODES)) for one, *numbers in disk_stock]
    for _ in range(count):
        taken = random.choice(((), (), cards[:1], cards))
        book.consume(random, *uses, *((card, class_id("SRIOV_NET_VF"), 1) for card in taken))

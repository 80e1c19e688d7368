# SPDX-License-Identifier: Apache-2.0
"""Trees of a host and eight children that cannot be distinguished: what combinations explode on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from worlds.hardware import HARDWARE
from worlds.rows import Book, class_id, uuid_of

CHILDREN, VFS = 8, 8


@dataclass(frozen=True)
class EqualWorld:
    """Unused trees; a root has CPU, memory and disk, its children cards."""

    size: int = 1
    seed: int = 1

    @property
    def aggregates(self) -> Sequence[str]:
        """Return no aggregates."""
        return ()

    @property
    def traits(self) -> Sequence[str]:
        """Return no custom traits."""
        return ()

    def fill(self, book: Book) -> Iterator[None]:
        """Write all rows into ``book``, and pause after each tree."""
        hardware = HARDWARE[0]
        for number in range(self.size):
            name = f"cn{number:06}.example.org"
            root = book.provider(uuid_of("host", number), name)
            book.stock(root, *hardware.cpu_stock(), *hardware.disk_stock)
            for place in range(CHILDREN):
                index = number * CHILDREN + place
                child = book.provider(uuid_of("card", index), f"{name}_PF{place}", root, root)
                book.stock(child, (class_id("SRIOV_NET_VF"), VFS, 0, 1.0))
            yield

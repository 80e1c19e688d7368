"""Hosts without child providers, and the compute nodes that the scheduler knows them by."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

import orjson

from placement_sched.db import tables
from placement_sched.model.compute_node import COMPUTE_BINARY, kept_part
from placement_sched.schemas.node_report import Defaults, parse
from worlds.hardware import (
    CUSTOM_TRAITS,
    UNUSED_TRAIT,
    Hardware,
    Places,
    amount,
    bought,
    host_traits,
    part_used,
)
from worlds.rows import BORN, Book, uuid_of

#: When hosts were last heard of that are up for as long as any run lasts.
ALWAYS_UP = datetime(2100, 1, 1)  # noqa: DTZ001 - the tables keep UTC without a zone


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
        self._add_node(book, number, name, hardware)
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

    def _add_node(self, book: Book, number: int, name: str, hardware: Hardware) -> None:
        """Add what the host reported of itself, and its service."""
        document = {
            "uuid": uuid_of("host", number),
            "host": name,
            "hypervisor_hostname": name,
            "hypervisor_type": "QEMU",
            "hypervisor_version": 8_002_000,
            "supported_hv_specs": [["x86_64", "kvm", "hvm"]],
            "vcpus": hardware.vcpus,
            "memory_mb": hardware.memory_mb,
            "local_gb": hardware.disk_gb,
            "cpu_allocation_ratio": hardware.vcpu_ratio,
            "reserved": {"MEMORY_MB": 4096, "DISK_GB": 20},
        }
        node = parse(document, Defaults(now=self.seen)).node
        report = orjson.dumps(kept_part(node)).decode()
        book.write(tables.compute_nodes, (node.uuid, name, name, None, report, 1, self.seen))
        service = (uuid_of("service", number), name, COMPUTE_BINARY, 0, 0, self.seen)
        book.write(tables.services, service)

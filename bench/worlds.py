# SPDX-License-Identifier: Apache-2.0
"""Clouds for the benchmarks, whose rows follow from their size and seed alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import ClassVar
from uuid import UUID

import orjson
import os_resource_classes
import os_traits
from sqlalchemy import Table

from placement_sched.db import tables
from placement_sched.model.compute_node import COMPUTE_BINARY, select_stored_fields
from placement_sched.schemas.node_report import Defaults, parse

PROJECTS, USERS = 2000, 500
#: Every 200th consumer belongs to the first project, which has many more than the others.
LARGE = 200
#: The creation time of everything in a cloud.
BORN = datetime(2025, 1, 1)  # noqa: DTZ001 - the tables keep UTC without a zone
#: The last heartbeat of hosts that must be up as long as any benchmark runs.
ALWAYS_UP = datetime(2100, 1, 1)  # noqa: DTZ001 - the tables keep UTC without a zone
RACK_SIZE = 40
CUSTOM_TRAITS = tuple(f"CUSTOM_BENCH_{number:02}" for number in range(60))
#: A trait that no host has.
UNUSED_TRAIT = "CUSTOM_BENCH_UNUSED"
#: Traits of drivers, which every host has.
COMMON_TRAITS = (
    "COMPUTE_ACCELERATORS",
    "COMPUTE_DEVICE_TAGGING",
    "COMPUTE_NET_ATTACH_INTERFACE",
    "COMPUTE_NODE",
    "COMPUTE_RESCUE_BFV",
    "COMPUTE_TRUSTED_CERTS",
    "COMPUTE_VOLUME_ATTACH_WITH_TAG",
    "COMPUTE_VOLUME_EXTEND",
    "COMPUTE_VOLUME_MULTI_ATTACH",
)
_CPU_FLAGS = tuple(sorted(name for name in os_traits.get_traits() if "HW_CPU_X86" in name))
_PACKED = 0.125

Rows = Mapping[Table, Sequence[tuple[object, ...]]]
#: Class id, total, reserved amount and allocation ratio of inventories.
Stock = tuple[tuple[int, int, int, float], ...]
#: Provider, class id and amount of an allocation.
Use = tuple[int, int, int]

#: The tables in the order of filling, and the columns.
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


def random_uuid(random: Random) -> str:
    """Return a random uuid."""
    return str(UUID(int=random.getrandbits(128), version=4))


def uuid_of(kind: str, number: int) -> str:
    """Return the uuid of an object of a cloud, the same in every run."""
    return random_uuid(Random(f"{kind} {number}"))


def host_name(number: int) -> str:
    """Return the name of a host."""
    return f"cn{number:06}.example.org"


def class_id(name: str) -> int:
    """Return the id of a standard resource class, the same in every database."""
    number: int = os_resource_classes.STANDARDS.index(name)
    return number


ZONES = [uuid_of("zone", number) for number in range(6)]
TAGS = [uuid_of("tag", number) for number in range(60)]


class Book:
    """The rows of a cloud that were not written yet."""

    def __init__(self, traits: Mapping[str, int]) -> None:
        self._traits = traits
        self._providers = self._consumers = 0
        self._rows: dict[Table, list[tuple[object, ...]]] = {table: [] for table in COLUMNS}

    def __len__(self) -> int:
        return len(self._rows[tables.allocations]) + len(self._rows[tables.inventories])

    def take(self) -> Rows:
        """Return and remove all rows."""
        rows = self._rows
        self._rows = {table: [] for table in COLUMNS}
        return rows

    def write(self, table: Table, *rows: tuple[object, ...]) -> None:
        """Add rows whose values have the order of ``COLUMNS``."""
        self._rows[table] += rows

    def provider(
        self, uuid: str, name: str, root: int | None = None, parent: int | None = None
    ) -> int:
        """Add a provider, a root by default, and return its id."""
        self._providers = key = self._providers + 1
        self.write(tables.resource_providers, (key, uuid, name, 5, root or key, parent))
        return key

    def stock(self, provider: int, stock: Stock) -> None:
        """Add the inventories of a provider."""
        rows = (
            (provider, kind, total, kept, 1, total, 1, ratio) for kind, total, kept, ratio in stock
        )
        self.write(tables.inventories, *rows)

    def mark(self, provider: int, traits: Iterable[str]) -> None:
        """Add the traits of a provider."""
        rows = ((provider, self._traits[name]) for name in sorted(traits))
        self.write(tables.resource_provider_traits, *rows)

    def join(self, provider: int, *aggregates: int) -> None:
        """Add a provider to aggregates, given by id."""
        self.write(tables.resource_provider_aggregates, *((provider, each) for each in aggregates))

    def consume(self, random: Random, uses: Iterable[Use], uuid: str = "") -> None:
        """Add a consumer and its allocations."""
        self._consumers = key = self._consumers + 1
        uuid = uuid or random_uuid(random)
        project = 1 if key % LARGE == 0 else random.randint(2, PROJECTS)
        self.write(tables.consumers, (key, uuid, project, random.randint(1, USERS), 1))
        rows = ((provider, uuid, kind, used) for provider, kind, used in uses)
        self.write(tables.allocations, *rows)


@dataclass(frozen=True, slots=True)
class Hardware:
    """A model of hosts: its share of the cloud, its sizes, and its number of CPU flags."""

    share: float
    vcpus: int
    memory_mb: int
    disk_gb: int
    vcpu_ratio: float
    flags: int

    def cpu_stock(self, parts: int = 1) -> Stock:
        """Return the inventories of CPU and memory of each of equal parts of the host."""
        return (
            (class_id("VCPU"), self.vcpus // parts, 0, self.vcpu_ratio),
            (class_id("MEMORY_MB"), self.memory_mb // parts, 4096 // parts, 1.0),
        )

    @property
    def disk_stock(self) -> Stock:
        """Return the inventory of the disk."""
        return ((class_id("DISK_GB"), self.disk_gb, 20, 1.0),)

    def traits(self, random: Random) -> set[str]:
        """Return about 40 traits of the CPU, of the driver, and custom traits."""
        flags = _CPU_FLAGS[: self.flags]
        return {*flags, *COMMON_TRAITS, *random.sample(CUSTOM_TRAITS, random.randint(7, 12))}


HARDWARE = (
    Hardware(0.28, 32, 131_072, 1_000, 4.0, 18),
    Hardware(0.38, 64, 262_144, 2_000, 4.0, 22),
    Hardware(0.32, 96, 524_288, 4_000, 2.0, 26),
    Hardware(0.02, 256, 2_097_152, 16_000, 1.0, 30),  # the only hosts for very large flavors
)


def _choose_hardware(random: Random) -> Hardware:
    return random.choices(HARDWARE, [each.share for each in HARDWARE])[0]


def _draw_usage(random: Random) -> float:
    return 1.0 if random.random() < _PACKED else random.uniform(0.15, 0.9)


def _use(provider: int, stock: Stock, part: float) -> list[Use]:
    """Return allocations of a part of each inventory, at least 1."""
    return [
        (provider, kind, max(int((total - reserved) * ratio * part), 1))
        for kind, total, reserved, ratio in stock
    ]


def _find_rack(number: int) -> int:
    """Return the id of the rack of a host."""
    return len(ZONES) + len(TAGS) + number // RACK_SIZE + 1


@dataclass(frozen=True)
class World:
    """A cloud of ``size`` hosts or trees."""

    size: int = 1
    seed: int = 1
    #: The last heartbeat of every host. Hosts that are silent for a minute are down.
    seen: datetime = BORN
    #: The custom traits.
    traits: ClassVar[Sequence[str]] = CUSTOM_TRAITS

    @property
    def racks(self) -> Sequence[str]:
        """Return the uuids of the racks. Each host is in a zone, in a rack, and has a tag."""
        return [uuid_of("rack", number) for number in range(-(-self.size // RACK_SIZE))]

    @property
    def aggregates(self) -> Sequence[str]:
        """Return the uuids of all aggregates. Their ids count from 1 in this order."""
        return [*ZONES, *TAGS, *self.racks]

    def fill(self, book: Book) -> Iterator[None]:
        """Write all rows, and pause after each host or tree."""
        for number in range(self.size):
            self._add(book, number, host_name(number), Random(f"{self.seed} {number}"))
            yield

    def _add(self, book: Book, number: int, name: str, random: Random) -> None:
        raise NotImplementedError

    def _join(self, book: Book, key: int, number: int, random: Random, *more: int) -> None:
        """Add a host to a zone, a tag, a rack, and more aggregates."""
        zone, tag = number % len(ZONES) + 1, len(ZONES) + random.randrange(len(TAGS)) + 1
        book.join(key, zone, tag, _find_rack(number), *more)

    def _add_node(self, book: Book, number: int, name: str, hardware: Hardware) -> None:
        """Add the report of a nova-compute and its service."""
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
        report = orjson.dumps(select_stored_fields(node)).decode()
        book.write(tables.compute_nodes, (node.uuid, name, name, None, report, 1, self.seen))
        service = (uuid_of("service", number), name, COMPUTE_BINARY, 0, 0, self.seen)
        book.write(tables.services, service)


@dataclass(frozen=True)
class FlatWorld(World):
    """Hosts without children, each with 40 traits, 3 aggregates and 10 consumers."""

    traits = (*CUSTOM_TRAITS, UNUSED_TRAIT)

    def _add(self, book: Book, number: int, name: str, random: Random) -> None:
        hardware = _choose_hardware(random)
        key = book.provider(uuid_of("host", number), name)
        self._add_node(book, number, name, hardware)
        stock = (*hardware.cpu_stock(), *hardware.disk_stock)
        book.stock(key, stock)
        self._place(book, key, number, random, hardware)
        count = self._count_consumers(random)
        uses = _use(key, stock, _draw_usage(random) / count)
        for _ in range(count):
            book.consume(random, uses)

    def _place(self, book: Book, key: int, number: int, random: Random, hardware: Hardware) -> None:
        book.mark(key, hardware.traits(random))
        self._join(book, key, number, random)

    def _count_consumers(self, random: Random) -> int:
        return random.randint(8, 12)


@dataclass(frozen=True)
class SparseWorld(FlatWorld):
    """Hosts with 6 traits, a rack and 2 consumers each, for very large clouds."""

    def _place(
        self, book: Book, key: int, number: int, random: Random, _hardware: Hardware
    ) -> None:
        book.mark(key, (*COMMON_TRAITS[:4], *random.sample(CUSTOM_TRAITS, 2)))
        book.join(key, _find_rack(number))

    def _count_consumers(self, _random: Random) -> int:
        return 2


NUMA_NODES = 2
#: The networks of the two cards of a NUMA node.
NETWORKS = ("CUSTOM_PHYSNET_PUBLIC", "CUSTOM_PHYSNET_STORAGE")
VFS_PER_CARD = 8


@dataclass(frozen=True)
class NestedWorld(World):
    """Trees of seven providers: a host, two NUMA nodes, and two network cards on each.

    The root has the disk, traits and aggregates of a flat cloud. Each consumer uses a NUMA node,
    and half of them its cards.
    """

    traits = (*CUSTOM_TRAITS, *NETWORKS)

    def _add(self, book: Book, number: int, name: str, random: Random) -> None:
        hardware = _choose_hardware(random)
        root = book.provider(uuid_of("host", number), name)
        self._add_node(book, number, name, hardware)
        book.stock(root, hardware.disk_stock)
        book.mark(root, hardware.traits(random))
        self._join(book, root, number, random)
        cpu_stock = hardware.cpu_stock(NUMA_NODES)
        for index in range(number * NUMA_NODES, (number + 1) * NUMA_NODES):
            numa_name = f"{name}_NUMA{index % NUMA_NODES}"
            numa = book.provider(uuid_of("numa", index), numa_name, root, root)
            book.stock(numa, cpu_stock)
            book.mark(numa, ["HW_NUMA_ROOT"])
            cards = [_add_card(book, index, network, root, numa) for network in range(2)]
            count = random.randint(3, 5)
            part = _draw_usage(random) / count
            uses = _use(numa, cpu_stock, part)
            uses += _use(root, hardware.disk_stock, part / NUMA_NODES)
            for _ in range(count):
                used_cards = random.choice(((), (), cards[:1], cards))
                functions = [(card, class_id("SRIOV_NET_VF"), 1) for card in used_cards]
                book.consume(random, [*uses, *functions])


def _add_card(book: Book, numa_index: int, network: int, root: int, numa: int) -> int:
    index = numa_index * len(NETWORKS) + network
    card = book.provider(uuid_of("card", index), f"card{index:07}", root, numa)
    book.stock(card, ((class_id("SRIOV_NET_VF"), VFS_PER_CARD, 0, 1.0),))
    book.mark(card, ["HW_NIC_SRIOV", NETWORKS[network]])
    return card


#: Hosts that share a pool of disk. Every fifth group of hosts has a second pool.
GROUP_SIZE, TWO_POOLS = 200, 5
_POOL_GB = 1_000_000


@dataclass(frozen=True)
class SharedWorld(World):
    """Hosts of CPU and memory that reach a pool of disk, or two, through an aggregate."""

    @property
    def aggregates(self) -> Sequence[str]:
        """Return the uuids of all aggregates, the pools' aggregates last."""
        groups = range(-(-self.size // GROUP_SIZE))
        return *super().aggregates, *(uuid_of("pool aggregate", group) for group in groups)

    def _add(self, book: Book, number: int, name: str, random: Random) -> None:
        group = number // GROUP_SIZE
        aggregate = len(super().aggregates) + group + 1
        if number % GROUP_SIZE == 0:
            for place in range(1 if group % TWO_POOLS else 2):
                pool = book.provider(uuid_of("pool", 2 * group + place), f"pool{group:04}-{place}")
                book.stock(pool, ((class_id("DISK_GB"), _POOL_GB, 0, 1.0),))
                book.mark(pool, ["MISC_SHARES_VIA_AGGREGATE"])
                book.join(pool, aggregate)
        hardware = _choose_hardware(random)
        key = book.provider(uuid_of("host", number), name)
        book.stock(key, hardware.cpu_stock())
        book.mark(key, hardware.traits(random))
        self._join(book, key, number, random, aggregate)
        count = random.randint(8, 12)
        uses = _use(key, hardware.cpu_stock(), _draw_usage(random) / count)
        for _ in range(count):
            pool = random.choice(_pools_of(group))
            disk = (pool, class_id("DISK_GB"), random.randint(10, 100))
            book.consume(random, [*uses, disk])


def _pools_of(group: int) -> Sequence[int]:
    """Return the ids of the pools of a group of hosts."""
    pairs = -(-group // TWO_POOLS)  # earlier groups with two pools
    first = group * (GROUP_SIZE + 1) + pairs + 1
    return (first,) if group % TWO_POOLS else (first, first + 1)


WORLDS: Mapping[str, Callable[..., World]] = {
    "flat": FlatWorld,
    "nested": NestedWorld,
    "shared": SharedWorld,
    "sparse": SparseWorld,
}


def common_rows(world: World, next_trait: int) -> Rows:
    """Return the rows that hosts refer to. Custom traits are numbered from ``next_trait``."""
    return {
        tables.traits: [(next_trait + i, name) for i, name in enumerate(world.traits)],
        tables.projects: [(i + 1, uuid_of("project", i)) for i in range(PROJECTS)],
        tables.users: [(i + 1, uuid_of("user", i)) for i in range(USERS)],
        tables.placement_aggregates: [(i + 1, uuid) for i, uuid in enumerate(world.aggregates)],
    }

"""Reproducible clouds to measure on: seeded, and loaded in bulk into any of the three databases.

``python bench/worlds.py URL --hosts 10000`` prepares the database as ``placement-sched db sync``
does and fills it; it must hold no providers yet. The same seed and size make the same rows.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from uuid import UUID

import bulk
import orjson
import os_resource_classes
import os_traits
from sqlalchemy import Connection, Table, select

from placement_sched.config.process import new_conf, read_files
from placement_sched.config.settings import Settings
from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.model.node_report import Defaults, kept_part, parse
from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.operations.prepare import sync

ZONES, TAGS, RACK_SIZE = 6, 60, 40
PROJECTS, USERS = 200, 500
CUSTOM_TRAITS = tuple(f"CUSTOM_BENCH_{number:02}" for number in range(60))
#: A trait that no host has.
UNUSED_TRAIT = "CUSTOM_BENCH_UNUSED"
#: Traits of drivers, that every host has.
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

Rows = Mapping[Table, Sequence[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class Hardware:
    """One purchase of hosts; ``share`` is its part of the cloud, ``flags`` its known CPU flags."""

    share: float
    vcpus: int
    memory_mb: int
    disk_gb: int
    vcpu_ratio: float
    flags: int


HARDWARE = (
    Hardware(0.28, 32, 131_072, 1_000, 4.0, 18),
    Hardware(0.38, 64, 262_144, 2_000, 4.0, 22),
    Hardware(0.32, 96, 524_288, 4_000, 2.0, 26),
    Hardware(0.02, 256, 2_097_152, 16_000, 1.0, 30),  # the few that fit what no other does
)

#: When everything in a world was made.
BORN = datetime(2025, 1, 1)  # noqa: DTZ001 - the tables keep UTC without a zone

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


@dataclass(frozen=True)
class FlatWorld:
    """Hosts without child providers: three resource classes, about 40 traits, 3 aggregates each.

    Aggregates are its zone, its rack and a tag; about ten consumers use it, one host in eight is
    packed. Traits are those of its CPU, of its driver and some custom ones.
    """

    hosts: int
    seed: int = 1
    #: When every host was last heard of; the scheduler takes those silent for a minute as down.
    seen: datetime = BORN

    @property
    def zones(self) -> list[str]:
        """Return the uuids of the aggregates that are zones; every host is in one."""
        return [uuid_of("zone", number) for number in range(ZONES)]

    @property
    def tags(self) -> list[str]:
        """Return the uuids of the aggregates that are tags; every host is in one."""
        return [uuid_of("tag", number) for number in range(TAGS)]

    @property
    def racks(self) -> list[str]:
        """Return the uuids of the aggregates that are racks, of 40 hosts each."""
        return [uuid_of("rack", number) for number in range(-(-self.hosts // RACK_SIZE))]

    def shared_rows(self, next_trait: int) -> Rows:
        """Return the rows that hosts refer to; custom traits are numbered from ``next_trait``."""
        named = (*CUSTOM_TRAITS, UNUSED_TRAIT)
        aggregates = (*self.zones, *self.tags, *self.racks)
        return {
            tables.traits: [(next_trait + i, name) for i, name in enumerate(named)],
            tables.projects: [(i + 1, uuid_of("project", i)) for i in range(PROJECTS)],
            tables.users: [(i + 1, uuid_of("user", i)) for i in range(USERS)],
            tables.placement_aggregates: [(i + 1, uuid) for i, uuid in enumerate(aggregates)],
        }

    def host_rows(self, traits: Mapping[str, int], chunk: int = 1000) -> Iterator[Rows]:
        """Yield the rows of all hosts, some at a time; ``traits`` gives their ids by name."""
        consumers = 0
        for first in range(0, self.hosts, chunk):
            rows: dict[Table, list[tuple[object, ...]]] = {table: [] for table in COLUMNS}
            for number in range(first, min(first + chunk, self.hosts)):
                consumers += self._add_host(rows, number, traits, consumers)
            yield rows

    def _add_host(
        self,
        rows: dict[Table, list[tuple[object, ...]]],
        number: int,
        traits: Mapping[str, int],
        consumers: int,
    ) -> int:
        """Add one host's rows; return how many consumers use it."""
        random = Random(f"{self.seed} {number}")
        hardware = random.choices(HARDWARE, [one.share for one in HARDWARE])[0]
        key = number + 1
        name = f"cn{number:06}.example.org"
        rows[tables.resource_providers].append((key, uuid_of("host", number), name, 5, key, None))
        stock = _stock(hardware)
        self._add_node(rows, number, name, hardware)
        rows[tables.inventories] += [
            (key, class_id, total, reserved, 1, total, 1, ratio)
            for class_id, total, reserved, ratio in stock
        ]
        flags = _CPU_FLAGS[: hardware.flags]
        owned = {*flags, *COMMON_TRAITS, *random.sample(CUSTOM_TRAITS, random.randint(7, 12))}
        rows[tables.resource_provider_traits] += [(key, traits[one]) for one in sorted(owned)]
        zone, tag, rack = number % ZONES, random.randrange(TAGS), number // RACK_SIZE
        rows[tables.resource_provider_aggregates] += [
            (key, position + 1) for position in (zone, ZONES + tag, ZONES + TAGS + rack)
        ]
        return _add_consumers(rows, key, stock, consumers, random)

    def _add_node(
        self,
        rows: dict[Table, list[tuple[object, ...]]],
        number: int,
        name: str,
        hardware: Hardware,
    ) -> None:
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
        rows[tables.compute_nodes].append((node.uuid, name, name, None, report, 1, self.seen))
        rows[tables.services].append(
            (uuid_of("service", number), name, COMPUTE_BINARY, 0, 0, self.seen)
        )


def _stock(hardware: Hardware) -> tuple[tuple[int, int, int, float], ...]:
    """Return (class id, total, reserved, ratio) of each resource class."""
    identity = os_resource_classes.STANDARDS.index
    return (
        (identity("VCPU"), hardware.vcpus, 0, hardware.vcpu_ratio),
        (identity("MEMORY_MB"), hardware.memory_mb, 4096, 1.0),
        (identity("DISK_GB"), hardware.disk_gb, 20, 1.0),
    )


def _add_consumers(
    rows: dict[Table, list[tuple[object, ...]]],
    provider: int,
    stock: Sequence[tuple[int, int, int, float]],
    before: int,
    random: Random,
) -> int:
    count = random.randint(8, 12)
    part = (1.0 if random.random() < 0.125 else random.uniform(0.15, 0.9)) / count
    for number in range(before + 1, before + count + 1):
        uuid = str(UUID(int=random.getrandbits(128), version=4))
        owner = (random.randint(1, PROJECTS), random.randint(1, USERS))
        rows[tables.consumers].append((number, uuid, *owner, 1))
        rows[tables.allocations] += [
            (provider, uuid, class_id, max(int((total - reserved) * ratio * part), 1))
            for class_id, total, reserved, ratio in stock
        ]
    return count


def load(database: Database, world: FlatWorld) -> None:
    """Prepare an empty database and fill it with ``world``, its statistics gathered."""
    sync(database, lambda: BORN)
    with bulk.filling(database) as connection:
        known = dict(connection.execute(select(tables.traits.c.name, tables.traits.c.id)).all())
        shared = world.shared_rows(max(known.values()) + 1)
        known |= {str(name): int(str(key)) for key, name in shared[tables.traits]}
        _write(connection, shared)
        for rows in world.host_rows(known):
            _write(connection, rows)
    bulk.settle(database, tuple(COLUMNS))


def _write(connection: Connection, rows: Rows) -> None:
    for table, columns in COLUMNS.items():
        if found := rows.get(table):
            stamped = [(BORN, BORN, *row) for row in found]
            bulk.write(connection, table, ("created_at", "updated_at", *columns), stamped)


def open_database(url: str) -> Database:
    """Return the database at ``url`` as the service opens it."""
    conf = read_files(new_conf())
    conf.set_override("connection", url, "placement_database")
    return Database(Settings.from_conf(conf))


def main() -> None:
    """Fill the database that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="SQLAlchemy URL of an empty database")
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    database = open_database(options.url)
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    load(database, FlatWorld(options.hosts, options.seed, now))
    database.dispose()
    print(f"{options.hosts} hosts in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Databases of a nova cloud, filled by a test.

On SQLite they have only the tables and columns that this service reads. On servers a test creates
nova's schema. Its other columns keep their defaults.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine, MetaData, Table, create_engine, delete, event, insert, select, update

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import CELL0
from placement_sched.nova.databases.tables import API, CELL

#: Required columns of nova's schema that this service does not read.
_VALUES_OF_REQUIRED_COLUMNS = {
    "services": {"report_count": 1},
    "compute_nodes": {"current_workload": 0},
}


def _write_without_waiting(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


@dataclass(eq=False)
class NovaDatabaseFile:
    """A database of nova, with writes by table name."""

    url: str
    metadata: MetaData | None = None  # None: reflected from the database
    engine: Engine = field(init=False)
    tables: dict[str, Table] = field(init=False)

    def __post_init__(self) -> None:
        self.engine = create_engine(self.url)
        if self.engine.dialect.name == "sqlite":
            # No test needs writes to survive a power failure.
            event.listen(self.engine, "connect", _write_without_waiting)
        if self.metadata is None:
            self.metadata = MetaData()
            self.metadata.reflect(self.engine)
        self.tables = dict(self.metadata.tables)

    def add(self, name: str, /, **values: Any) -> int:
        """Insert a row with the current time as ``created_at`` and return its id."""
        table = self.tables[name]
        row = {"created_at": utcnow(), **_VALUES_OF_REQUIRED_COLUMNS.get(name, {}), **values}
        if "deleted" in table.c:
            row.setdefault("deleted", 0)
        row = {key: value for key, value in row.items() if key in table.c}
        with self.engine.begin() as connection:
            return int(connection.execute(insert(table), row).inserted_primary_key[0])

    def change(self, name: str, where: dict[str, Any], /, **values: Any) -> None:
        """Update rows and their ``updated_at``, as nova does."""
        values = {"updated_at": utcnow(), **values}
        with self.engine.begin() as connection:
            connection.execute(update(self.tables[name]).filter_by(**where).values(**values))

    def delete_softly(self, name: str, /, **where: Any) -> None:
        """Mark rows as deleted without a change of ``updated_at``."""
        table = self.tables[name]
        with self.engine.begin() as connection:
            change = update(table).filter_by(**where)
            times = {"deleted_at": utcnow()} if "deleted_at" in table.c else {}
            connection.execute(change.values(deleted=table.c.id, **times))

    def remove(self, name: str, /, **where: Any) -> None:
        """Delete rows for good."""
        with self.engine.begin() as connection:
            connection.execute(delete(self.tables[name]).filter_by(**where))

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of all tables, to check that nothing writes to them."""
        with self.engine.connect() as connection:
            return {
                name: sorted(map(tuple, connection.execute(select(table))), key=repr)
                for name, table in self.tables.items()
            }


class NovaCloud:
    """A nova with an API database, cell0 and any number of cells."""

    def __init__(
        self,
        api: str,
        cell0: str,
        tables: tuple[MetaData, MetaData] | tuple[None, None] = (None, None),
    ) -> None:
        self._tables = tables
        self.api = NovaDatabaseFile(api, tables[0])
        self.cell0 = NovaDatabaseFile(cell0, tables[1])
        self.cells: dict[str, NovaDatabaseFile] = {}
        self.numbers: dict[str, int] = {}
        self._map_cell(CELL0, "cell0", cell0)

    def _map_cell(self, uuid: str, name: str, url: str, *, disabled: bool = False) -> int:
        return self.api.add(
            "cell_mappings",
            uuid=uuid,
            name=name,
            database_connection=url,
            transport_url="none:///",
            disabled=disabled,
        )

    def add_cell(self, name: str, url: str, **mapped: Any) -> str:
        """Add a cell with the database ``url`` and return its uuid."""
        uuid = str(uuid4())
        self.cells[name] = NovaDatabaseFile(url, self._tables[1])
        self.numbers[name] = self._map_cell(uuid, name, mapped.pop("connection", url), **mapped)
        return uuid

    def add_host(self, host: str, cell: str = "one", /, **node: Any) -> str:
        """Add a host with its service, compute node and mapping and return the node's uuid."""
        uuid = node.pop("uuid", None) or str(uuid4())
        database = self.cells[cell]
        service = {
            name: node.pop(name)
            for name in ("disabled", "disabled_reason", "forced_down", "last_seen_up")
            if name in node
        }
        database.add(
            "services",
            **{
                "uuid": str(uuid4()),
                "host": host,
                "binary": "nova-compute",
                "topic": "compute",
                "disabled": False,
                "forced_down": False,
                "last_seen_up": utcnow(),
                "updated_at": utcnow(),
                "version": 66,
                **service,
            },
        )
        database.add("compute_nodes", **{**build_node_row(host), "uuid": uuid, **node})
        self.api.add("host_mappings", host=host, cell_id=self.numbers[cell])
        return uuid

    def add_instance(self, host: str | None, cell: str = "one", /, **values: Any) -> str:
        """Add an instance with its flavor, mapping and server group and return its uuid."""
        uuid = values.pop("uuid", None) or str(uuid4())
        database, group = self.cells[cell], values.pop("group", None)
        flavor = values.pop("flavor", None) or build_flavor_json()
        database.add("instances", **{**build_instance_row(uuid, host), **values})
        database.add("instance_extra", instance_uuid=uuid, flavor=flavor)
        self.api.add(
            "instance_mappings",
            instance_uuid=uuid,
            cell_id=self.numbers[cell],
            project_id="demo",
            queued_for_delete=False,
        )
        if group is not None:
            self.join(group, uuid)
        return uuid

    def add_request_spec(self, uuid: str, **data: Any) -> None:
        """Add the request spec of an instance as nova stores it."""
        flavor = json.loads(build_flavor_json())["cur"]
        values = {"flavor": flavor, "instance_uuid": uuid, "num_instances": 1, **data}
        spec = build_nova_object("RequestSpec", "1.14", values)
        self.api.add("request_specs", instance_uuid=uuid, spec=json.dumps(spec))

    def add_root_disk(self, uuid: str, destination: str, cell: str = "one", /) -> None:
        """Add the root disk of an instance, on a ``volume`` or ``local``."""
        row = {"instance_uuid": uuid, "boot_index": 0, "destination_type": destination}
        self.cells[cell].add("block_device_mapping", **row)

    def add_aggregate(self, name: str, hosts: tuple[str, ...] = (), **metadata: str) -> int:
        """Add an aggregate and return its id."""
        number = self.api.add("aggregates", uuid=str(uuid4()), name=name)
        for host in hosts:
            self.api.add("aggregate_hosts", aggregate_id=number, host=host)
        for key, value in metadata.items():
            self.api.add("aggregate_metadata", aggregate_id=number, key=key, value=value)
        return number

    def add_group(self, name: str, policy: str | None = "anti-affinity", **rules: Any) -> str:
        uuid = str(uuid4())
        owner = {"project_id": "demo", "user_id": "ann"}
        number = self.api.add("instance_groups", uuid=uuid, name=name, **owner)
        if policy is not None:
            text = json.dumps(rules) if rules else None
            self.api.add("instance_group_policy", group_id=number, policy=policy, rules=text)
        return uuid

    def join(self, group: str, uuid: str) -> None:
        """Put an instance into a group."""
        table = self.api.tables["instance_groups"]
        with self.api.engine.connect() as connection:
            number = connection.scalar(select(table.c.id).where(table.c.uuid == group))
        self.api.add("instance_group_member", group_id=number, instance_uuid=uuid)

    def rows(self) -> dict[str, dict[str, list[tuple[Any, ...]]]]:
        """Return all rows of all databases."""
        every = {"api": self.api, "cell0": self.cell0, **self.cells}
        return {name: database.rows() for name, database in every.items()}

    def close(self) -> None:
        for database in (self.api, self.cell0, *self.cells.values()):
            database.engine.dispose()


def create_sqlite_nova(folder: Path, *cells: str) -> NovaCloud:
    """Return an empty nova of these cells in SQLite files."""

    def create_file(name: str, empty: bytes) -> str:
        path = folder / f"nova_{name}.db"
        path.write_bytes(empty)
        return f"sqlite:///{path}"

    api, cell = _create_empty_files()
    cloud = NovaCloud(create_file("api", api), create_file("cell0", cell), (API, CELL))
    for name in cells:
        cloud.add_cell(name, create_file(name, cell))
    return cloud


@cache
def _create_empty_files() -> tuple[bytes, bytes]:
    """Return SQLite's files of an empty API database and of an empty cell."""

    def empty(metadata: MetaData) -> bytes:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "empty.db"
            engine = create_engine(f"sqlite:///{path}")
            metadata.create_all(engine)
            engine.dispose()
            return path.read_bytes()

    return empty(API), empty(CELL)


def build_node_row(host: str) -> dict[str, Any]:
    """Return a row of ``compute_nodes`` as nova-compute writes it for a libvirt host."""
    return {
        "host": host,
        "hypervisor_hostname": host,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8000000,
        "host_ip": "192.0.2.7",
        "vcpus": 32,
        "vcpus_used": 2,
        "memory_mb": 65536,
        "memory_mb_used": 1024,
        "local_gb": 1000,
        "local_gb_used": 20,
        "free_ram_mb": 64512,
        "free_disk_gb": 980,
        "disk_available_least": 900,
        "running_vms": 1,
        "cpu_info": json.dumps({"arch": "x86_64", "model": "EPYC", "features": ["avx2", "aes"]}),
        "supported_instances": json.dumps([["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]]),
        "metrics": "[]",
        "stats": json.dumps({"failed_builds": "0", "num_instances": "1", "io_workload": "0"}),
        "pci_stats": json.dumps(build_pci_pools()),
        "numa_topology": json.dumps(build_numa_topology()),
        "cpu_allocation_ratio": 16.0,
        "ram_allocation_ratio": 1.5,
        "disk_allocation_ratio": 1.0,
        "mapped": 1,
    }


def build_nova_object(name: str, version: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return a serialized object of nova."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }


def build_pci_pools(count: int = 4) -> dict[str, Any]:
    """Return a pool of PCI devices as nova serializes it."""
    pool = {"vendor_id": "8086", "product_id": "1520", "numa_node": 0, "count": count}
    tags = {"dev_type": "type-VF", "physical_network": "physnet0"}
    pools = [build_nova_object("PciDevicePool", "1.1", {**pool, "tags": tags})]
    return build_nova_object("PciDevicePoolList", "1.1", {"objects": pools})


def build_numa_topology(cells: int = 2, cpus: int = 16) -> dict[str, Any]:
    """Return a NUMA topology as nova serializes it."""

    def cell(number: int) -> dict[str, Any]:
        mine = list(range(number * cpus, (number + 1) * cpus))
        page = {"size_kb": 4, "total": 8388608, "used": 0, "reserved": 0}
        return build_nova_object(
            "NUMACell",
            "1.5",
            {
                "id": number,
                "cpuset": mine,
                "pcpuset": mine,
                "memory": 32768,
                "cpu_usage": 1,
                "memory_usage": 512,
                "pinned_cpus": [],
                "siblings": [[cpu, cpu + 1] for cpu in mine[::2]],
                "mempages": [build_nova_object("NUMAPagesTopology", "1.1", page)],
                "network_metadata": build_nova_object(
                    "NetworkMetadata", "1.0", {"physnets": ["physnet0"], "tunneled": False}
                ),
                "socket": number,
            },
        )

    return build_nova_object(
        "NUMATopology", "1.2", {"cells": [cell(number) for number in range(cells)]}
    )


def build_flavor_json(name: str = "m1.small", **values: Any) -> str:
    """Return a value of ``instance_extra.flavor``."""
    data = {
        "id": 2,
        "name": name,
        "memory_mb": 2048,
        "vcpus": 1,
        "root_gb": 20,
        "ephemeral_gb": 0,
        "flavorid": "2",
        "swap": 0,
        "rxtx_factor": 1.0,
        "vcpu_weight": 0,
        "disabled": False,
        "is_public": True,
        "extra_specs": {"hw:cpu_policy": "shared"},
        "description": None,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": None,
        "deleted_at": None,
        "deleted": False,
        **values,
    }
    return json.dumps({"cur": build_nova_object("Flavor", "1.2", data), "old": None, "new": None})


def build_instance_row(uuid: str, host: str | None) -> dict[str, Any]:
    """Return the row of ``instances`` of a running server."""
    return {
        "uuid": uuid,
        "host": host,
        "node": host,
        "project_id": "demo",
        "user_id": "ann",
        "display_name": f"server-{uuid[:4]}",
        "vm_state": "active",
        "task_state": None,
        "image_ref": str(UUID(int=7)),
        "instance_type_id": 2,
        "vcpus": 1,
        "memory_mb": 2048,
        "root_gb": 20,
        "ephemeral_gb": 0,
        "hidden": False,
        "updated_at": utcnow() - timedelta(minutes=5),
    }


def seconds_ago(seconds: int) -> datetime:
    return utcnow() - timedelta(seconds=seconds)

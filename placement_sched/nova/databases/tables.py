# SPDX-License-Identifier: Apache-2.0
"""Nova's tables, reduced to the columns that are used.

The columns are the same in the schemas of nova 27 (2023.1) to 34. Deleted rows stay in the tables
of a cell: a row is living if ``deleted`` is 0. ``updated_at`` is null until a row first changes,
has whole seconds on MariaDB, and is set by the clock of the service that writes.
"""

from typing import Any

from sqlalchemy import Boolean, Column, DateTime, Float, Integer, MetaData, String, Table, Text

#: The tables of the API database, and of a cell's database.
API = MetaData()
CELL = MetaData()


def _with_times(name: str, metadata: MetaData, *columns: Column[Any]) -> Table:
    """Define a table that begins with ``created_at``, ``updated_at`` and ``id``."""
    return Table(
        name,
        metadata,
        Column("created_at", DateTime),
        Column("updated_at", DateTime),
        Column("id", Integer, primary_key=True),
        *columns,
    )


def _texts(*names: str) -> tuple[Column[str], ...]:
    return tuple(Column(name, String(255)) for name in names)


def _long_texts(*names: str) -> tuple[Column[str], ...]:
    return tuple(Column(name, Text) for name in names)


def _integers(*names: str) -> tuple[Column[int], ...]:
    return tuple(Column(name, Integer) for name in names)


cell_mappings = _with_times(
    "cell_mappings",
    API,
    Column("uuid", String(36)),
    *_texts("name"),
    *_long_texts("database_connection"),
    Column("disabled", Boolean),
)

host_mappings = _with_times("host_mappings", API, *_integers("cell_id"), *_texts("host"))

instance_mappings = _with_times(
    "instance_mappings",
    API,
    Column("instance_uuid", String(36)),
    *_integers("cell_id"),
    Column("queued_for_delete", Boolean),
)

aggregates = _with_times("aggregates", API, Column("uuid", String(36)), *_texts("name"))
aggregate_hosts = _with_times("aggregate_hosts", API, *_texts("host"), *_integers("aggregate_id"))
aggregate_metadata = _with_times(
    "aggregate_metadata", API, *_texts("key", "value"), *_integers("aggregate_id")
)

instance_groups = _with_times(
    "instance_groups", API, Column("uuid", String(36)), *_texts("name", "project_id", "user_id")
)
instance_group_policy = _with_times(
    "instance_group_policy", API, *_texts("policy"), *_integers("group_id"), *_long_texts("rules")
)
instance_group_member = _with_times(
    "instance_group_member", API, *_texts("instance_uuid"), *_integers("group_id")
)

services = _with_times(
    "services",
    CELL,
    *_integers("deleted"),
    Column("uuid", String(36)),
    *_texts("host", "binary", "topic", "disabled_reason"),
    *_integers("report_count", "version"),
    Column("disabled", Boolean),
    Column("forced_down", Boolean),
    Column("last_seen_up", DateTime),
)

compute_nodes = _with_times(
    "compute_nodes",
    CELL,
    *_integers("deleted"),
    Column("uuid", String(36)),
    *_texts("host", "hypervisor_hostname", "hypervisor_type", "host_ip"),
    *_integers("hypervisor_version", "vcpus", "vcpus_used", "memory_mb", "memory_mb_used"),
    *_integers("local_gb", "local_gb_used", "free_ram_mb", "free_disk_gb", "disk_available_least"),
    *_long_texts("cpu_info", "supported_instances", "metrics", "pci_stats", "stats"),
    *_long_texts("numa_topology"),
    Column("cpu_allocation_ratio", Float),
    Column("ram_allocation_ratio", Float),
    Column("disk_allocation_ratio", Float),
)

instances = _with_times(
    "instances",
    CELL,
    *_integers("deleted"),
    Column("uuid", String(36)),
    *_texts("host", "node", "project_id", "user_id", "display_name", "vm_state", "task_state"),
    *_texts("image_ref"),
    *_integers("instance_type_id", "vcpus", "memory_mb", "root_gb", "ephemeral_gb"),
    Column("hidden", Boolean),
    Column("launched_at", DateTime),
)
instance_metadata, instance_system_metadata = (
    _with_times(
        name,
        CELL,
        *_integers("deleted"),
        Column("instance_uuid", String(36)),
        *_texts("key", "value"),
    )
    for name in ("instance_metadata", "instance_system_metadata")
)
instance_extra = _with_times(
    "instance_extra", CELL, Column("instance_uuid", String(36)), *_long_texts("flavor")
)
migrations = _with_times(
    "migrations",
    CELL,
    *_integers("deleted"),
    *_texts("instance_uuid", "dest_compute", "dest_node", "status"),
)
instance_actions = _with_times(
    "instance_actions", CELL, *_integers("deleted"), *_texts("instance_uuid", "request_id")
)
instance_actions_events = _with_times(
    "instance_actions_events",
    CELL,
    *_integers("deleted", "action_id"),
    *_texts("event", "result", "host"),
    *_long_texts("traceback"),
)
instance_faults = _with_times(
    "instance_faults", CELL, *_integers("deleted"), *_texts("instance_uuid", "message")
)

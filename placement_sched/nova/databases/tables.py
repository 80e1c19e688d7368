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
    """Define a table that begins with two time columns and ``id``."""
    return Table(
        name,
        metadata,
        Column("created_at", DateTime),
        Column("updated_at", DateTime),
        Column("id", Integer, primary_key=True),
        *columns,
    )


def _make_text_columns(*names: str) -> tuple[Column[str], ...]:
    return tuple(Column(name, String(255)) for name in names)


def _make_long_text_columns(*names: str) -> tuple[Column[str], ...]:
    return tuple(Column(name, Text) for name in names)


def _make_integer_columns(*names: str) -> tuple[Column[int], ...]:
    return tuple(Column(name, Integer) for name in names)


cell_mappings = _with_times(
    "cell_mappings",
    API,
    Column("uuid", String(36)),
    *_make_text_columns("name"),
    *_make_long_text_columns("database_connection"),
    Column("disabled", Boolean),
)

host_mappings = _with_times(
    "host_mappings", API, *_make_integer_columns("cell_id"), *_make_text_columns("host")
)

instance_mappings = _with_times(
    "instance_mappings",
    API,
    Column("instance_uuid", String(36)),
    *_make_integer_columns("cell_id"),
    Column("queued_for_delete", Boolean),
)

request_specs = _with_times(
    "request_specs", API, Column("instance_uuid", String(36)), *_make_long_text_columns("spec")
)

aggregates = _with_times("aggregates", API, Column("uuid", String(36)), *_make_text_columns("name"))
aggregate_hosts = _with_times(
    "aggregate_hosts", API, *_make_text_columns("host"), *_make_integer_columns("aggregate_id")
)
aggregate_metadata = _with_times(
    "aggregate_metadata",
    API,
    *_make_text_columns("key", "value"),
    *_make_integer_columns("aggregate_id"),
)

instance_groups = _with_times(
    "instance_groups",
    API,
    Column("uuid", String(36)),
    *_make_text_columns("name", "project_id", "user_id"),
)
instance_group_policy = _with_times(
    "instance_group_policy",
    API,
    *_make_text_columns("policy"),
    *_make_integer_columns("group_id"),
    *_make_long_text_columns("rules"),
)
instance_group_member = _with_times(
    "instance_group_member",
    API,
    *_make_text_columns("instance_uuid"),
    *_make_integer_columns("group_id"),
)

services = _with_times(
    "services",
    CELL,
    *_make_integer_columns("deleted"),
    Column("uuid", String(36)),
    *_make_text_columns("host", "binary", "topic", "disabled_reason"),
    *_make_integer_columns("report_count", "version"),
    Column("disabled", Boolean),
    Column("forced_down", Boolean),
    Column("last_seen_up", DateTime),
)

compute_nodes = _with_times(
    "compute_nodes",
    CELL,
    *_make_integer_columns("deleted"),
    Column("uuid", String(36)),
    *_make_text_columns("host", "hypervisor_hostname", "hypervisor_type", "host_ip"),
    *_make_integer_columns(
        "hypervisor_version", "vcpus", "vcpus_used", "memory_mb", "memory_mb_used"
    ),
    *_make_integer_columns(
        "local_gb", "local_gb_used", "free_ram_mb", "free_disk_gb", "disk_available_least"
    ),
    *_make_long_text_columns("cpu_info", "supported_instances", "metrics", "pci_stats", "stats"),
    *_make_long_text_columns("numa_topology"),
    Column("cpu_allocation_ratio", Float),
    Column("ram_allocation_ratio", Float),
    Column("disk_allocation_ratio", Float),
)

instances = _with_times(
    "instances",
    CELL,
    *_make_integer_columns("deleted"),
    Column("uuid", String(36)),
    *_make_text_columns(
        "host", "node", "project_id", "user_id", "display_name", "vm_state", "task_state"
    ),
    *_make_text_columns("image_ref"),
    *_make_integer_columns("instance_type_id", "vcpus", "memory_mb", "root_gb", "ephemeral_gb"),
    Column("hidden", Boolean),
    Column("launched_at", DateTime),
)
instance_metadata, instance_system_metadata = (
    _with_times(
        name,
        CELL,
        *_make_integer_columns("deleted"),
        Column("instance_uuid", String(36)),
        *_make_text_columns("key", "value"),
    )
    for name in ("instance_metadata", "instance_system_metadata")
)
instance_extra = _with_times(
    "instance_extra", CELL, Column("instance_uuid", String(36)), *_make_long_text_columns("flavor")
)
block_device_mapping = _with_times(
    "block_device_mapping",
    CELL,
    *_make_integer_columns("deleted", "boot_index"),
    Column("instance_uuid", String(36)),
    *_make_text_columns("destination_type"),
)
migrations = _with_times(
    "migrations",
    CELL,
    *_make_integer_columns("deleted"),
    *_make_text_columns("instance_uuid", "dest_compute", "dest_node", "status"),
)
instance_actions = _with_times(
    "instance_actions",
    CELL,
    *_make_integer_columns("deleted"),
    *_make_text_columns("instance_uuid", "request_id"),
)
instance_actions_events = _with_times(
    "instance_actions_events",
    CELL,
    *_make_integer_columns("deleted", "action_id"),
    *_make_text_columns("event", "result", "host"),
    *_make_long_text_columns("traceback"),
)
instance_faults = _with_times(
    "instance_faults",
    CELL,
    *_make_integer_columns("deleted"),
    *_make_text_columns("instance_uuid", "message"),
)

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

#: The type of the columns in each argument of :func:`_define_table`.
_TYPES: dict[str, Any] = {
    "integers": Integer,
    "uuids": String(36),
    "texts": String(255),
    "long_texts": Text,
    "booleans": Boolean,
    "floats": Float,
    "times": DateTime,
}


def _define_table(name: str, metadata: MetaData, **columns: str) -> Table:
    """Define a table with columns by type, after two time columns and ``id``."""
    return Table(
        name,
        metadata,
        Column("created_at", DateTime),
        Column("updated_at", DateTime),
        Column("id", Integer, primary_key=True),
        *(
            Column(column, _TYPES[kind])
            for kind, names in columns.items()
            for column in names.split()
        ),
    )


cell_mappings = _define_table(
    "cell_mappings",
    API,
    uuids="uuid",
    texts="name",
    long_texts="database_connection",
    booleans="disabled",
)
host_mappings = _define_table("host_mappings", API, integers="cell_id", texts="host")
instance_mappings = _define_table(
    "instance_mappings",
    API,
    uuids="instance_uuid",
    integers="cell_id",
    booleans="queued_for_delete",
)
request_specs = _define_table("request_specs", API, uuids="instance_uuid", long_texts="spec")
aggregates = _define_table("aggregates", API, uuids="uuid", texts="name")
aggregate_hosts = _define_table("aggregate_hosts", API, texts="host", integers="aggregate_id")
aggregate_metadata = _define_table(
    "aggregate_metadata", API, texts="key value", integers="aggregate_id"
)
instance_groups = _define_table(
    "instance_groups", API, uuids="uuid", texts="name project_id user_id"
)
instance_group_policy = _define_table(
    "instance_group_policy", API, texts="policy", integers="group_id", long_texts="rules"
)
instance_group_member = _define_table(
    "instance_group_member", API, texts="instance_uuid", integers="group_id"
)

services = _define_table(
    "services",
    CELL,
    integers="deleted report_count version",
    uuids="uuid",
    texts="host binary topic disabled_reason",
    booleans="disabled forced_down",
    times="last_seen_up",
)
compute_nodes = _define_table(
    "compute_nodes",
    CELL,
    integers="deleted hypervisor_version vcpus vcpus_used memory_mb memory_mb_used local_gb "
    "local_gb_used free_ram_mb free_disk_gb disk_available_least",
    uuids="uuid",
    texts="host hypervisor_hostname hypervisor_type host_ip",
    long_texts="cpu_info supported_instances metrics pci_stats stats numa_topology",
    floats="cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio",
)
instances = _define_table(
    "instances",
    CELL,
    integers="deleted instance_type_id vcpus memory_mb root_gb ephemeral_gb",
    uuids="uuid",
    texts="host node project_id user_id display_name vm_state task_state image_ref",
    booleans="hidden",
    times="launched_at",
)
instance_metadata, instance_system_metadata = (
    _define_table(name, CELL, integers="deleted", uuids="instance_uuid", texts="key value")
    for name in ("instance_metadata", "instance_system_metadata")
)
instance_extra = _define_table("instance_extra", CELL, uuids="instance_uuid", long_texts="flavor")
block_device_mapping = _define_table(
    "block_device_mapping",
    CELL,
    integers="deleted boot_index",
    uuids="instance_uuid",
    texts="destination_type",
)
migrations = _define_table(
    "migrations", CELL, integers="deleted", texts="instance_uuid dest_compute dest_node status"
)
instance_actions = _define_table(
    "instance_actions", CELL, integers="deleted", texts="instance_uuid request_id"
)
instance_actions_events = _define_table(
    "instance_actions_events",
    CELL,
    integers="deleted action_id",
    texts="event result host",
    long_texts="traceback",
)
instance_faults = _define_table(
    "instance_faults", CELL, integers="deleted", texts="instance_uuid message"
)

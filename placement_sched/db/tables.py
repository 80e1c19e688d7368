"""The tables: OpenStack placement's, name for name, then ours (``sched_*``).

The placement half follows the schema that ``placement-manage db sync`` of openstack-placement
makes, so that both services can stand on one database. Ours carry a prefix, because an operator's
database may hold nova's tables as well.
"""

from sqlalchemy import (
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
)

from placement_sched.db import (
    decision_tables,
    flavor_tables,
    image_tables,
    server_group_tables,
    sync_tables,
)
from placement_sched.db.columns import Document, metadata
from placement_sched.db.columns import exact as _exact
from placement_sched.db.columns import stamps as _stamps

# All tables are found here, whichever module tells of them.
flavors = flavor_tables.flavors
flavor_extra_specs = flavor_tables.flavor_extra_specs
flavor_projects = flavor_tables.flavor_projects
images = image_tables.images
image_properties = image_tables.image_properties
image_tags = image_tables.image_tags
image_members = image_tables.image_members
server_groups = server_group_tables.server_groups
synced_traits = sync_tables.synced_traits
decisions = decision_tables.decisions
decision_places = decision_tables.decision_places

resource_providers = Table(
    "resource_providers",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("name", String(200)),
    Column("generation", Integer),
    Column("root_provider_id", Integer, ForeignKey("resource_providers.id")),
    Column("parent_provider_id", Integer, ForeignKey("resource_providers.id")),
    UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
    UniqueConstraint("name", name="uniq_resource_providers0name"),
    Index("resource_providers_root_provider_id_idx", "root_provider_id"),
    Index("resource_providers_parent_provider_id_idx", "parent_provider_id"),
    mysql_engine="InnoDB",
    # What is kept of a provider is kept by its id: no other may ever have it.
    sqlite_autoincrement=True,
)

inventories = Table(
    "inventories",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("resource_provider_id", Integer, nullable=False),
    Column("resource_class_id", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("reserved", Integer, nullable=False),
    Column("min_unit", Integer, nullable=False),
    Column("max_unit", Integer, nullable=False),
    Column("step_size", Integer, nullable=False),
    Column("allocation_ratio", Float, nullable=False),
    UniqueConstraint(
        "resource_provider_id",
        "resource_class_id",
        name="uniq_inventories0resource_provider_resource_class",
    ),
    Index("inventories_resource_class_id_idx", "resource_class_id"),
    mysql_engine="InnoDB",
)

allocations = Table(
    "allocations",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("resource_provider_id", Integer, nullable=False),
    Column("consumer_id", String(36), nullable=False),
    Column("resource_class_id", Integer, nullable=False),
    Column("used", Integer, nullable=False),
    Index(
        "allocations_resource_provider_class_used_idx",
        "resource_provider_id",
        "resource_class_id",
        "used",
    ),
    Index("allocations_resource_class_id_idx", "resource_class_id"),
    Index("allocations_consumer_id_idx", "consumer_id"),
    # Sums over a project look each consumer up: one step by a hash, four by the tree.
    Index("sched_allocations_consumer_id_idx", "consumer_id", postgresql_using="hash").ddl_if(
        dialect="postgresql"
    ),
    mysql_engine="InnoDB",
)

consumer_types = Table(
    "consumer_types",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("name", String(255), nullable=False),
    UniqueConstraint("name", name="uniq_consumer_types0name"),
    mysql_engine="InnoDB",
)

consumers = Table(
    "consumers",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("project_id", Integer, nullable=False),
    Column("user_id", Integer, nullable=False),
    Column("generation", Integer, nullable=False, server_default="0"),
    Column(
        "consumer_type_id",
        Integer,
        ForeignKey("consumer_types.id", name="consumers_consumer_type_id_fkey"),
    ),
    UniqueConstraint("uuid", name="uniq_consumers0uuid"),
    Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
    Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    Index("consumers_consumer_type_id_idx", "consumer_type_id"),
    mysql_engine="InnoDB",
)

projects = Table(
    "projects",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("external_id", String(255), nullable=False),
    UniqueConstraint("external_id", name="uniq_projects0external_id"),
    mysql_engine="InnoDB",
)

users = Table(
    "users",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("external_id", String(255), nullable=False),
    UniqueConstraint("external_id", name="uniq_users0external_id"),
    mysql_engine="InnoDB",
)

traits = Table(
    "traits",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("name", String(255), nullable=False),
    UniqueConstraint("name", name="uniq_traits0name"),
    mysql_engine="InnoDB",
)

resource_provider_traits = Table(
    "resource_provider_traits",
    metadata,
    *_stamps(),
    Column("trait_id", Integer, ForeignKey("traits.id"), primary_key=True, nullable=False),
    Column(
        "resource_provider_id",
        Integer,
        ForeignKey("resource_providers.id"),
        primary_key=True,
        nullable=False,
    ),
    Index(
        "resource_provider_traits_resource_provider_trait_idx", "resource_provider_id", "trait_id"
    ),
    mysql_engine="InnoDB",
)

resource_classes = Table(
    "resource_classes",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("name", String(255), nullable=False),
    UniqueConstraint("name", name="uniq_resource_classes0name"),
    mysql_engine="InnoDB",
)

placement_aggregates = Table(
    "placement_aggregates",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36)),
    UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
    mysql_engine="InnoDB",
)

resource_provider_aggregates = Table(
    "resource_provider_aggregates",
    metadata,
    *_stamps(),
    Column("resource_provider_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("aggregate_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
    mysql_engine="InnoDB",
)

#: The tables of OpenStack placement, in the order in which they can be created.
PLACEMENT_TABLES = tuple(
    table for table in metadata.sorted_tables if not table.name.startswith("sched_")
)

compute_nodes = Table(
    "sched_compute_nodes",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("host", _exact(255), nullable=False),
    Column("hypervisor_hostname", _exact(255), nullable=False),
    Column("cell_uuid", String(36)),
    # What the host reported, normalised; last_seen_up stands beside it, because a heartbeat that
    # changes nothing else must not change the version under which the parsed report is cached.
    Column("report", Document, nullable=False),
    Column("version", Integer, nullable=False),
    Column("last_seen_up", DateTime, nullable=False),
    UniqueConstraint("uuid", name="uniq_sched_compute_nodes0uuid"),
    UniqueConstraint(
        "host", "hypervisor_hostname", name="uniq_sched_compute_nodes0host0hypervisor_hostname"
    ),
    mysql_engine="InnoDB",
)

services = Table(
    "sched_services",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("host", _exact(255), nullable=False),
    Column("binary", _exact(64), nullable=False),
    Column("disabled", Integer, nullable=False, server_default="0"),
    Column("disabled_reason", String(255)),
    Column("forced_down", Integer, nullable=False, server_default="0"),
    Column("last_seen_up", DateTime),
    UniqueConstraint("uuid", name="uniq_sched_services0uuid"),
    UniqueConstraint("host", "binary", name="uniq_sched_services0host0binary"),
    mysql_engine="InnoDB",
)

host_aggregates = Table(
    "sched_aggregates",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("name", _exact(255), nullable=False),
    UniqueConstraint("uuid", name="uniq_sched_aggregates0uuid"),
    UniqueConstraint("name", name="uniq_sched_aggregates0name"),
    mysql_engine="InnoDB",
    sqlite_autoincrement=True,
)

host_aggregate_hosts = Table(
    "sched_aggregate_hosts",
    metadata,
    *_stamps(),
    Column("aggregate_id", Integer, ForeignKey("sched_aggregates.id"), primary_key=True),
    Column("host", _exact(255), primary_key=True),
    Index("sched_aggregate_hosts_host_idx", "host"),
    mysql_engine="InnoDB",
)

host_aggregate_metadata = Table(
    "sched_aggregate_metadata",
    metadata,
    *_stamps(),
    Column("aggregate_id", Integer, ForeignKey("sched_aggregates.id"), primary_key=True),
    Column("key", _exact(255), primary_key=True),
    Column("value", _exact(255), nullable=False),
    mysql_engine="InnoDB",
)

#: One row per cached subject; its version rises in the transaction that changes the subject, so
#: that every process knows with one small read whether what it remembers still holds.
change_counters = Table(
    "sched_change_counters",
    metadata,
    Column("subject", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    mysql_engine="InnoDB",
)

instances = Table(
    "sched_instances",
    metadata,
    *_stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("host", _exact(255)),
    Column("node", _exact(255)),
    Column("project_id", _exact(255)),
    Column("user_id", _exact(255)),
    Column("display_name", String(255), nullable=False),
    Column("vm_state", String(255)),
    Column("task_state", String(255)),
    Column("flavor", Document),
    Column("image", Document),
    # Of flavor and image the ids, by which servers are listed.
    Column("flavorid", _exact(255)),
    Column("image_id", _exact(255)),
    Column("server_group", String(36)),
    # The decision that placed it, so that a repeated request finds its first answer.
    Column("decision_uuid", String(36)),
    UniqueConstraint("uuid", name="uniq_sched_instances0uuid"),
    Index("sched_instances_host_idx", "host", "node"),
    Index("sched_instances_server_group_idx", "server_group"),
    Index("sched_instances_project_id_idx", "project_id", "created_at"),
    mysql_engine="InnoDB",
)

#: Our own tables, in the order in which they can be created.
OWN_TABLES = tuple(table for table in metadata.sorted_tables if table not in PLACEMENT_TABLES)

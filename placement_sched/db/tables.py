# SPDX-License-Identifier: Apache-2.0
"""Database tables of OpenStack placement and of this service.

Placement's tables have the schema that ``placement-manage db sync`` creates, so that both services
can use the same database. Own tables begin with ``sched_``, since nova's tables may be there too.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, UniqueConstraint
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem

#: All tables of ``db/tables.py``.
metadata = sa.MetaData()

#: A JSON document, or a text, of any size.
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
#: :data:`LongText` with case-sensitive comparisons on MariaDB.
ExactLongText = sa.Text().with_variant(
    mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)

#: A time with microseconds.
Moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def make_exact_text(length: int) -> String:
    """Build a text type of ``length``, case-sensitive on every database."""
    return String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def make_text_columns(
    *names: str, length: int = 255, nullable: bool = False
) -> tuple[Column[str], ...]:
    """Define case-sensitive text columns."""
    return tuple(Column(name, make_exact_text(length), nullable=nullable) for name in names)


def make_integer_columns(*names: str, default: str | None = None) -> tuple[Column[int], ...]:
    """Define integer columns that are not nullable."""
    return tuple(Column(name, Integer, nullable=False, server_default=default) for name in names)


def make_indexes(table: str, *columns: str, second_column: str | None = None) -> tuple[Index, ...]:
    """Define an index for each column, followed by ``second_column``."""
    return tuple(
        Index(f"{table}_{name}_idx", *filter(None, (name, second_column))) for name in columns
    )


def make_time_columns() -> tuple[Column[datetime], Column[datetime]]:
    """Define the columns for the creation and update times of a row."""
    return Column("created_at", sa.DateTime), Column("updated_at", sa.DateTime)


def make_owned_text_columns(owner: str, table: str, key: str) -> tuple[Column[int], Column[str]]:
    """Define a primary key: the id of a row in ``table``, and a text."""
    number = Column(owner, Integer, ForeignKey(f"{table}.id"), primary_key=True)
    return number, Column(key, make_exact_text(255), primary_key=True)


def define_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Define a table in :data:`metadata`."""
    return Table(name, metadata, *items, mysql_engine="InnoDB", **options)


def define_numbered_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Define a table with two time columns and a numeric primary key."""
    key = Column("id", Integer, primary_key=True, nullable=False)
    return define_table(name, *make_time_columns(), key, *items, **options)


def define_uuid_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Define a numbered table with a unique ``uuid`` column."""
    unique = UniqueConstraint("uuid", name=f"uniq_{name}0uuid")
    return define_numbered_table(
        name, Column("uuid", String(36), nullable=False), *items, unique, **options
    )


def define_unique_text_table(name: str, column: str) -> Table:
    """Define a numbered table with a column of unique texts."""
    unique = UniqueConstraint(column, name=f"uniq_{name}0{column}")
    return define_numbered_table(name, Column(column, String(255), nullable=False), unique)


def get_max_length(column: Column[str]) -> int:
    """Return the maximum length of a column's texts, or 0 without a limit.

    Queries for longer texts can be omitted: SQLite rejects LIKE patterns of over 50 000 bytes.
    """
    return int(getattr(column.type, "length", 0) or 0)


resource_providers = define_uuid_table(
    "resource_providers",
    Column("name", String(200)),
    Column("generation", Integer),
    Column("root_provider_id", Integer, ForeignKey("resource_providers.id")),
    Column("parent_provider_id", Integer, ForeignKey("resource_providers.id")),
    UniqueConstraint("name", name="uniq_resource_providers0name"),
    *make_indexes("resource_providers", "root_provider_id", "parent_provider_id"),
    # Caches identify a provider by its id, which must never be reused.
    sqlite_autoincrement=True,
)

inventories = define_numbered_table(
    "inventories",
    *make_integer_columns("resource_provider_id", "resource_class_id"),
    *make_integer_columns("total", "reserved", "min_unit", "max_unit", "step_size"),
    Column("allocation_ratio", sa.Float, nullable=False),
    UniqueConstraint(
        "resource_provider_id",
        "resource_class_id",
        name="uniq_inventories0resource_provider_resource_class",
    ),
    Index("inventories_resource_class_id_idx", "resource_class_id"),
)

allocations = define_numbered_table(
    "allocations",
    Column("resource_provider_id", Integer, nullable=False),
    Column("consumer_id", String(36), nullable=False),
    *make_integer_columns("resource_class_id", "used"),
    Index(
        "allocations_resource_provider_class_used_idx",
        "resource_provider_id",
        "resource_class_id",
        "used",
    ),
    *make_indexes("allocations", "resource_class_id", "consumer_id"),
    # Sums over a project look up each consumer: one step with a hash index, four with a tree.
    Index("sched_allocations_consumer_id_idx", "consumer_id", postgresql_using="hash").ddl_if(
        dialect="postgresql"
    ),
)

consumer_types = define_unique_text_table("consumer_types", "name")

consumers = define_uuid_table(
    "consumers",
    *make_integer_columns("project_id", "user_id"),
    *make_integer_columns("generation", default="0"),
    Column(
        "consumer_type_id", ForeignKey("consumer_types.id", name="consumers_consumer_type_id_fkey")
    ),
    Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
    Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    Index("consumers_consumer_type_id_idx", "consumer_type_id"),
)

projects = define_unique_text_table("projects", "external_id")
users = define_unique_text_table("users", "external_id")
traits = define_unique_text_table("traits", "name")
resource_classes = define_unique_text_table("resource_classes", "name")

resource_provider_traits = define_table(
    "resource_provider_traits",
    *make_time_columns(),
    Column("trait_id", ForeignKey("traits.id"), primary_key=True),
    Column("resource_provider_id", ForeignKey("resource_providers.id"), primary_key=True),
    Index(
        "resource_provider_traits_resource_provider_trait_idx", "resource_provider_id", "trait_id"
    ),
)

placement_aggregates = define_numbered_table(
    "placement_aggregates",
    Column("uuid", String(36)),
    UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
)

resource_provider_aggregates = define_table(
    "resource_provider_aggregates",
    *make_time_columns(),
    Column("resource_provider_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("aggregate_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
)

#: The tables of OpenStack placement, in the order in which they can be created.
PLACEMENT_TABLES = tuple(
    table for table in metadata.sorted_tables if not table.name.startswith("sched_")
)

compute_nodes = define_uuid_table(
    "sched_compute_nodes",
    *make_text_columns("host", "hypervisor_hostname"),
    Column("cell_uuid", String(36)),
    # The normalised report of the host. last_seen_up is separate, because a heartbeat without other
    # changes must not change the version that the parsed report is cached with.
    Column("report", LongText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("last_seen_up", sa.DateTime, nullable=False),
    UniqueConstraint(
        "host", "hypervisor_hostname", name="uniq_sched_compute_nodes0host0hypervisor_hostname"
    ),
)

services = define_uuid_table(
    "sched_services",
    Column("host", make_exact_text(255), nullable=False),
    Column("binary", make_exact_text(64), nullable=False),
    *make_integer_columns("disabled", default="0"),
    Column("disabled_reason", String(255)),
    *make_integer_columns("forced_down", default="0"),
    Column("last_seen_up", sa.DateTime),
    # nova's service version, null if the host reports to this API
    Column("version", Integer),
    UniqueConstraint("host", "binary", name="uniq_sched_services0host0binary"),
)

host_aggregates = define_uuid_table(
    "sched_aggregates",
    Column("name", make_exact_text(255), nullable=False),
    UniqueConstraint("name", name="uniq_sched_aggregates0name"),
    sqlite_autoincrement=True,
)

host_aggregate_hosts = define_table(
    "sched_aggregate_hosts",
    *make_time_columns(),
    *make_owned_text_columns("aggregate_id", "sched_aggregates", "host"),
    Index("sched_aggregate_hosts_host_idx", "host"),
)

host_aggregate_metadata = define_table(
    "sched_aggregate_metadata",
    *make_time_columns(),
    *make_owned_text_columns("aggregate_id", "sched_aggregates", "key"),
    Column("value", make_exact_text(255), nullable=False),
)

#: A row for each cached subject. Its version increases in the transaction that changes the subject,
#: so that a process can validate its cache with a small read.
change_counters = define_table(
    "sched_change_counters",
    Column("subject", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
)

#: The flavors embedded in instances, each text once.
embedded_flavors = define_table(
    "sched_embedded_flavors",
    Column("digest", make_exact_text(64), primary_key=True),
    Column("flavor", LongText, nullable=False),
)

instances = define_uuid_table(
    "sched_instances",
    *make_text_columns("host", "node", "project_id", "user_id", nullable=True),
    Column("display_name", String(255), nullable=False),
    Column("vm_state", String(255)),
    Column("task_state", String(255)),
    Column("flavor", LongText),
    Column("image", LongText),
    # The ids of flavor and image, for filters of server lists.
    *make_text_columns("flavorid", "image_id", nullable=True),
    Column("server_group", String(36)),
    # The decision that placed the instance, so that a repeated request returns the same result.
    Column("decision_uuid", String(36)),
    # The row of sched_embedded_flavors if ``flavor`` is null.
    Column("flavor_digest", make_exact_text(64)),
    # From nova's databases, for third-party plugins. The metadata are JSON objects, or null.
    Column("launched_at", sa.DateTime),
    Column("metadata", LongText),
    Column("system_metadata", LongText),
    # What scheduling the instance again needs, as JSON. Null: unknown.
    Column("request", LongText),
    Index("sched_instances_host_idx", "host", "node"),
    Index("sched_instances_server_group_idx", "server_group"),
    Index("sched_instances_project_id_idx", "project_id", "created_at"),
)

#: The ends of instances, for traces. ``created_at`` is that of the instance.
ended_instances = define_numbered_table(
    "sched_ended_instances",
    Column("uuid", String(36), nullable=False),
    Column("ended_at", sa.DateTime, nullable=False),
    *make_text_columns("project_id", "user_id", nullable=True),
    Column("flavor", LongText),
    Column("image", LongText),
    Column("server_group", String(36)),
    Column("flavor_digest", make_exact_text(64)),
    Column("request", LongText),
    Index("sched_ended_instances_ended_at_idx", "ended_at"),
)

flavors = define_numbered_table(
    "sched_flavors",
    *make_text_columns("flavorid", "name"),
    *make_integer_columns("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"),
    Column("rxtx_factor", sa.Double, nullable=False),
    Column("is_public", Integer, nullable=False),
    Column("description", ExactLongText),
    UniqueConstraint("flavorid", name="uniq_sched_flavors0flavorid"),
    UniqueConstraint("name", name="uniq_sched_flavors0name"),
    # Instances and decisions refer to a flavor by its id, which must never be reused.
    sqlite_autoincrement=True,
)

flavor_extra_specs = define_table(
    "sched_flavor_extra_specs",
    *make_time_columns(),
    *make_owned_text_columns("flavor_id", "sched_flavors", "key"),
    Column("value", make_exact_text(255), nullable=False),
)

flavor_projects = define_table(
    "sched_flavor_projects",
    *make_time_columns(),
    *make_owned_text_columns("flavor_id", "sched_flavors", "project_id"),
    Index("sched_flavor_projects_project_id_idx", "project_id"),
)

images = define_uuid_table(
    "sched_images",
    Column("name", make_exact_text(255)),
    *make_text_columns("status", "visibility", length=32),
    Column("owner", make_exact_text(255)),
    Column("size", sa.BigInteger),
    Column("virtual_size", sa.BigInteger),
    *make_text_columns("disk_format", "container_format", length=32, nullable=True),
    *make_integer_columns("min_ram", "min_disk", "protected", "os_hidden", default="0"),
    *make_indexes("sched_images", "name", "created_at"),
    sqlite_autoincrement=True,
)

image_properties = define_table(
    "sched_image_properties",
    *make_owned_text_columns("image_id", "sched_images", "name"),
    Column("value", ExactLongText, nullable=False),
    Index("sched_image_properties_name_idx", "name"),
)

image_tags = define_table(
    "sched_image_tags",
    *make_owned_text_columns("image_id", "sched_images", "tag"),
    Index("sched_image_tags_tag_idx", "tag"),
)

server_groups = define_uuid_table(
    "sched_server_groups",
    Column("name", make_exact_text(255), nullable=False),
    Column("policy", String(32), nullable=False),
    # Null if the policy is not anti-affinity, or the group has no such rule.
    Column("max_server_per_host", Integer),
    *make_text_columns("project_id", "user_id", nullable=True),
    Index("sched_server_groups_project_id_idx", "project_id"),
)

#: Traits that sync_traits set on providers, and the aggregates whose metadata required them. The
#: provider's uuid and the trait's name are recorded, because either may be deleted before the row.
#: The provider's id distinguishes it from a later provider with the same uuid. Old releases
#: recorded no id of the provider.
synced_traits = define_table(
    "sched_synced_traits",
    *make_time_columns(),
    Column("provider_uuid", String(36), primary_key=True),
    Column("trait", make_exact_text(255), primary_key=True),
    Column("aggregate_uuid", String(36), nullable=False),
    Column("provider_id", Integer),
    Index("sched_synced_traits_aggregate_uuid_idx", "aggregate_uuid"),
)

decisions = define_uuid_table(
    "sched_decisions",
    Column("outcome", String(32), nullable=False),
    # The kind of request: select, no_claim, explain, shadow or move.
    Column("kind", String(16), nullable=False, server_default="select"),
    Column("project_id", make_exact_text(255)),
    # The ids of the request: this service's, and the global id that the caller sent.
    *make_text_columns("request_id", "global_request_id", "policy", nullable=True),
    # The flavor's name.
    Column("flavor", make_exact_text(255)),
    # The stage that left no host, and its sentence.
    Column("stage", make_exact_text(255)),
    Column("reason", LongText),
    # The kind of the reason, and its subject, such as a resource class.
    Column("reason_kind", String(64)),
    Column("reason_subject", make_exact_text(255)),
    # The digest of the whole request: equal instance uuids with another digest are a conflict.
    Column("request_digest", String(64), nullable=False),
    Column("request", LongText, nullable=False),
    Column("funnel", LongText),
    Column("selections", LongText, nullable=False),
    # The best hosts with their weights, and the conditions of the evaluation.
    Column("best", LongText),
    Column("conditions", LongText),
    *make_indexes("sched_decisions", "created_at", "request_id", "global_request_id"),
    *make_indexes(
        "sched_decisions",
        "project_id",
        "outcome",
        "kind",
        "policy",
        "flavor",
        "stage",
        "reason_kind",
        second_column="id",
    ),
)

#: The instances of each decision, and their hosts.
decision_places = define_table(
    "sched_decision_places",
    Column("decision_uuid", String(36), nullable=False),
    # The instance's position in the request.
    Column("position", Integer, nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("host", make_exact_text(255)),
    sa.PrimaryKeyConstraint("decision_uuid", "position"),
    *make_indexes("sched_decision_places", "instance_uuid", "host"),
)

#: Runs of plans, whose moves a command carries out. ``executor`` identifies the process of the
#: command.
plan_runs = define_uuid_table(
    "sched_plan_runs",
    # plan, rebalance, drain or evacuation.
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    # live, cold or evacuate.
    Column("method", String(16), nullable=False),
    *make_integer_columns("parallel"),
    Column("user_id", make_exact_text(255)),
    Column("executor", String(36), nullable=False),
    # The request for the plan, and the instances that the plan could not move, as JSON.
    Column("request", LongText, nullable=False),
    Column("stuck", LongText, nullable=False),
)

#: The moves of each run.
plan_moves = define_table(
    "sched_plan_moves",
    Column("run_uuid", String(36), nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    # The move's position in the plan.
    Column("position", Integer, nullable=False),
    *make_text_columns("source", "target"),
    Column("state", String(16), nullable=False),
    # The decision of the last check before the start.
    Column("decision_uuid", String(36)),
    Column("started_at", sa.DateTime),
    Column("finished_at", sa.DateTime),
    Column("error", LongText),
    sa.PrimaryKeyConstraint("run_uuid", "instance_uuid"),
)

#: The cells of nova. ``read_at`` is the time when a cell's database last answered. ``away_since``
#: and ``failure`` are the begin of and the reason for its unavailability.
cells = define_uuid_table(
    "sched_cells",
    Column("name", make_exact_text(255)),
    *make_integer_columns("disabled", default="0"),
    Column("read_at", sa.DateTime),
    Column("away_since", sa.DateTime),
    Column("failure", String(255)),
)

#: Nova's result for each instance of a decision of kind ``shadow``, compared with this service's.
shadow_results = define_table(
    "sched_shadow_results",
    *make_time_columns(),
    Column("decision_uuid", String(36), nullable=False),
    # The instance's position in the request.
    Column("position", Integer, nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("verdict", String(32), nullable=False),
    *make_text_columns("our_host", "nova_host", nullable=True),
    # The reasons of a disagreement, as JSON.
    Column("detail", LongText),
    sa.PrimaryKeyConstraint("decision_uuid", "position"),
    *make_indexes("sched_shadow_results", "instance_uuid"),
    Index("sched_shadow_results_verdict_idx", "verdict", "created_at"),
)

#: The notices about failed requests that would fit now, at most a row for each decision.
decision_notices = define_table(
    "sched_decision_notices",
    *make_time_columns(),
    Column("decision_uuid", String(36), primary_key=True),
    *make_integer_columns("attempts"),
    # The digests of the addresses that have not accepted the notice, as JSON.
    Column("pending", LongText, nullable=False),
    # The time after which the notice is not sent again.
    Column("ended_at", sa.DateTime),
)

#: The last results of background computations, as JSON: the failover capacity in the row with id 1,
#: and the violations in the row with id 2.
failover_results = define_table(
    "sched_failover_results",
    Column("id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("result", LongText, nullable=False),
    Column("computed_at", Moment, nullable=False),
)

#: The last value of each query of load for a host or server (``kind``). The value is null if it is
#: not a number, or if several series have it.
load_values = define_table(
    "sched_load_values",
    Column("kind", String(8), nullable=False),
    Column("query", String(32), nullable=False),
    Column("subject", make_exact_text(255), nullable=False),
    Column("state", String(32), nullable=False),
    Column("value", sa.Double),
    Column("smoothed", sa.Double),
    Column("measured_at", Moment, nullable=False),
    sa.PrimaryKeyConstraint("kind", "query", "subject"),
    Index("sched_load_values_subject_idx", "subject"),
)

#: The last result of each query of load, as JSON.
load_reports = define_table(
    "sched_load_reports",
    Column("kind", String(8), nullable=False),
    Column("query", String(32), nullable=False),
    Column("report", LongText, nullable=False),
    Column("collected_at", Moment, nullable=False),
    sa.PrimaryKeyConstraint("kind", "query"),
)

#: The change log: the providers that a transaction wrote, inserted by triggers in that transaction.
#: ``store/placement/change_log.py`` reads it.
provider_changes = define_table(
    "sched_provider_changes",
    Column(
        "id",
        sa.BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        nullable=False,
        autoincrement=True,
    ),
    Column("provider_id", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
)

#: Recently committed transactions of this service. A transaction with ``done`` 0 is not committed
#: and never will be. ``db/transaction.py`` uses them after a lost connection.
commit_marks = define_table(
    "sched_commit_marks",
    Column("id", String(32), primary_key=True),
    Column("created_at", Moment, nullable=False),
    Column("done", Integer, nullable=False),
)

#: Work that a single process does for all servers, with its holder and the end of the lease.
leases = define_table(
    "sched_leases",
    Column("name", String(64), primary_key=True),
    Column("holder", String(255), nullable=False),
    Column("expires_at", Moment, nullable=False),
)

#: Our own tables, in the order in which they can be created.
OWN_TABLES = tuple(table for table in metadata.sorted_tables if table not in PLACEMENT_TABLES)

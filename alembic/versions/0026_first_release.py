# SPDX-License-Identifier: Apache-2.0
"""Create this service's tables, and missing tables of placement.

The module has a copy of the first release's schema: later changes of ``db/tables.py`` have their
own revisions. Existing tables are kept, since OpenStack placement may run on the same database.

Revision: 0026, the first.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, UniqueConstraint
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem

revision = "0026"
down_revision = None

metadata = sa.MetaData()

LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
ExactLongText = sa.Text().with_variant(
    mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)
Moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def exact_text(length: int) -> String:
    return String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def texts(*names: str, length: int = 255, nullable: bool = False) -> tuple[Column[str], ...]:
    return tuple(Column(name, exact_text(length), nullable=nullable) for name in names)


def integers(*names: str, default: str | None = None) -> tuple[Column[int], ...]:
    return tuple(Column(name, Integer, nullable=False, server_default=default) for name in names)


def indexes(table: str, *columns: str, then: str | None = None) -> tuple[Index, ...]:
    return tuple(Index(f"{table}_{name}_idx", *filter(None, (name, then))) for name in columns)


def time_columns() -> tuple[Column[datetime], Column[datetime]]:
    return Column("created_at", sa.DateTime), Column("updated_at", sa.DateTime)


def text_of_owner(owner: str, table: str, key: str) -> tuple[Column[int], Column[str]]:
    number = Column(owner, Integer, ForeignKey(f"{table}.id"), primary_key=True)
    return number, Column(key, exact_text(255), primary_key=True)


def new_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *items, mysql_engine="InnoDB", **options)


def numbered_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    key = Column("id", Integer, primary_key=True, nullable=False)
    return new_table(name, *time_columns(), key, *items, **options)


def with_uuid(name: str, *items: SchemaItem, **options: Any) -> Table:
    unique = UniqueConstraint("uuid", name=f"uniq_{name}0uuid")
    return numbered_table(
        name, Column("uuid", String(36), nullable=False), *items, unique, **options
    )


def unique_text_table(name: str, column: str) -> Table:
    unique = UniqueConstraint(column, name=f"uniq_{name}0{column}")
    return numbered_table(name, Column(column, String(255), nullable=False), unique)


with_uuid(
    "resource_providers",
    Column("name", String(200)),
    Column("generation", Integer),
    Column("root_provider_id", Integer, ForeignKey("resource_providers.id")),
    Column("parent_provider_id", Integer, ForeignKey("resource_providers.id")),
    UniqueConstraint("name", name="uniq_resource_providers0name"),
    *indexes("resource_providers", "root_provider_id", "parent_provider_id"),
    sqlite_autoincrement=True,
)
numbered_table(
    "inventories",
    *integers("resource_provider_id", "resource_class_id"),
    *integers("total", "reserved", "min_unit", "max_unit", "step_size"),
    Column("allocation_ratio", sa.Float, nullable=False),
    UniqueConstraint(
        "resource_provider_id",
        "resource_class_id",
        name="uniq_inventories0resource_provider_resource_class",
    ),
    Index("inventories_resource_class_id_idx", "resource_class_id"),
)
numbered_table(
    "allocations",
    Column("resource_provider_id", Integer, nullable=False),
    Column("consumer_id", String(36), nullable=False),
    *integers("resource_class_id", "used"),
    Index(
        "allocations_resource_provider_class_used_idx",
        "resource_provider_id",
        "resource_class_id",
        "used",
    ),
    *indexes("allocations", "resource_class_id", "consumer_id"),
)
unique_text_table("consumer_types", "name")
with_uuid(
    "consumers",
    *integers("project_id", "user_id"),
    *integers("generation", default="0"),
    Column(
        "consumer_type_id", ForeignKey("consumer_types.id", name="consumers_consumer_type_id_fkey")
    ),
    Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
    Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    Index("consumers_consumer_type_id_idx", "consumer_type_id"),
)
unique_text_table("projects", "external_id")
unique_text_table("users", "external_id")
unique_text_table("traits", "name")
unique_text_table("resource_classes", "name")
new_table(
    "resource_provider_traits",
    *time_columns(),
    Column("trait_id", ForeignKey("traits.id"), primary_key=True),
    Column("resource_provider_id", ForeignKey("resource_providers.id"), primary_key=True),
    Index(
        "resource_provider_traits_resource_provider_trait_idx", "resource_provider_id", "trait_id"
    ),
)
numbered_table(
    "placement_aggregates",
    Column("uuid", String(36)),
    UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
)
new_table(
    "resource_provider_aggregates",
    *time_columns(),
    Column("resource_provider_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("aggregate_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
)
with_uuid(
    "sched_compute_nodes",
    *texts("host", "hypervisor_hostname"),
    Column("cell_uuid", String(36)),
    Column("report", LongText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("last_seen_up", sa.DateTime, nullable=False),
    UniqueConstraint(
        "host", "hypervisor_hostname", name="uniq_sched_compute_nodes0host0hypervisor_hostname"
    ),
)
with_uuid(
    "sched_services",
    Column("host", exact_text(255), nullable=False),
    Column("binary", exact_text(64), nullable=False),
    *integers("disabled", default="0"),
    Column("disabled_reason", String(255)),
    *integers("forced_down", default="0"),
    Column("last_seen_up", sa.DateTime),
    UniqueConstraint("host", "binary", name="uniq_sched_services0host0binary"),
)
with_uuid(
    "sched_aggregates",
    Column("name", exact_text(255), nullable=False),
    UniqueConstraint("name", name="uniq_sched_aggregates0name"),
    sqlite_autoincrement=True,
)
new_table(
    "sched_aggregate_hosts",
    *time_columns(),
    *text_of_owner("aggregate_id", "sched_aggregates", "host"),
    Index("sched_aggregate_hosts_host_idx", "host"),
)
new_table(
    "sched_aggregate_metadata",
    *time_columns(),
    *text_of_owner("aggregate_id", "sched_aggregates", "key"),
    Column("value", exact_text(255), nullable=False),
)
new_table(
    "sched_change_counters",
    Column("subject", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
)
new_table(
    "sched_embedded_flavors",
    Column("digest", exact_text(64), primary_key=True),
    Column("flavor", LongText, nullable=False),
)
with_uuid(
    "sched_instances",
    *texts("host", "node", "project_id", "user_id", nullable=True),
    Column("display_name", String(255), nullable=False),
    Column("vm_state", String(255)),
    Column("task_state", String(255)),
    Column("flavor", LongText),
    Column("image", LongText),
    *texts("flavorid", "image_id", nullable=True),
    Column("server_group", String(36)),
    Column("decision_uuid", String(36)),
    Column("flavor_digest", exact_text(64)),
    Column("launched_at", sa.DateTime),
    Column("metadata", LongText),
    Column("system_metadata", LongText),
    Index("sched_instances_host_idx", "host", "node"),
    Index("sched_instances_server_group_idx", "server_group"),
    Index("sched_instances_project_id_idx", "project_id", "created_at"),
)
numbered_table(
    "sched_flavors",
    *texts("flavorid", "name"),
    *integers("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"),
    Column("rxtx_factor", sa.Double, nullable=False),
    Column("is_public", Integer, nullable=False),
    Column("description", ExactLongText),
    UniqueConstraint("flavorid", name="uniq_sched_flavors0flavorid"),
    UniqueConstraint("name", name="uniq_sched_flavors0name"),
    sqlite_autoincrement=True,
)
new_table(
    "sched_flavor_extra_specs",
    *time_columns(),
    *text_of_owner("flavor_id", "sched_flavors", "key"),
    Column("value", exact_text(255), nullable=False),
)
new_table(
    "sched_flavor_projects",
    *time_columns(),
    *text_of_owner("flavor_id", "sched_flavors", "project_id"),
    Index("sched_flavor_projects_project_id_idx", "project_id"),
)
with_uuid(
    "sched_images",
    Column("name", exact_text(255)),
    *texts("status", "visibility", length=32),
    Column("owner", exact_text(255)),
    Column("size", sa.BigInteger),
    Column("virtual_size", sa.BigInteger),
    *texts("disk_format", "container_format", length=32, nullable=True),
    *integers("min_ram", "min_disk", "protected", "os_hidden", default="0"),
    *indexes("sched_images", "name", "created_at"),
    sqlite_autoincrement=True,
)
new_table(
    "sched_image_properties",
    *text_of_owner("image_id", "sched_images", "name"),
    Column("value", ExactLongText, nullable=False),
    Index("sched_image_properties_name_idx", "name"),
)
new_table(
    "sched_image_tags",
    *text_of_owner("image_id", "sched_images", "tag"),
    Index("sched_image_tags_tag_idx", "tag"),
)
with_uuid(
    "sched_server_groups",
    Column("name", exact_text(255), nullable=False),
    Column("policy", String(32), nullable=False),
    Column("max_server_per_host", Integer),
    *texts("project_id", "user_id", nullable=True),
    Index("sched_server_groups_project_id_idx", "project_id"),
)
new_table(
    "sched_synced_traits",
    *time_columns(),
    Column("provider_uuid", String(36), primary_key=True),
    Column("trait", exact_text(255), primary_key=True),
    Column("aggregate_uuid", String(36), nullable=False),
    Column("provider_id", Integer),
    Index("sched_synced_traits_aggregate_uuid_idx", "aggregate_uuid"),
)
with_uuid(
    "sched_decisions",
    Column("outcome", String(32), nullable=False),
    Column("kind", String(16), nullable=False, server_default="select"),
    Column("project_id", exact_text(255)),
    *texts("request_id", "global_request_id", "policy", nullable=True),
    Column("flavor", exact_text(255)),
    Column("request_digest", String(64), nullable=False),
    Column("request", LongText, nullable=False),
    Column("funnel", LongText),
    Column("selections", LongText, nullable=False),
    Column("best", LongText),
    Column("conditions", LongText),
    Column("stage", exact_text(255)),
    Column("reason", LongText),
    *indexes("sched_decisions", "created_at", "request_id", "global_request_id"),
    *indexes(
        "sched_decisions", "project_id", "outcome", "kind", "policy", "flavor", "stage", then="id"
    ),
)
new_table(
    "sched_decision_places",
    Column("decision_uuid", String(36), nullable=False),
    Column("position", Integer, nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("host", exact_text(255)),
    sa.PrimaryKeyConstraint("decision_uuid", "position"),
    *indexes("sched_decision_places", "instance_uuid", "host"),
)
with_uuid(
    "sched_plan_runs",
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("method", String(16), nullable=False),
    *integers("parallel"),
    Column("user_id", exact_text(255)),
    Column("executor", String(36), nullable=False),
    Column("request", LongText, nullable=False),
    Column("stuck", LongText, nullable=False),
)
new_table(
    "sched_plan_moves",
    Column("run_uuid", String(36), nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    *integers("position"),
    *texts("source", "target"),
    Column("state", String(16), nullable=False),
    Column("decision_uuid", String(36)),
    Column("started_at", sa.DateTime),
    Column("finished_at", sa.DateTime),
    Column("error", LongText),
    sa.PrimaryKeyConstraint("run_uuid", "instance_uuid"),
)
with_uuid(
    "sched_cells",
    Column("name", exact_text(255)),
    *integers("disabled", default="0"),
    Column("read_at", sa.DateTime),
    Column("away_since", sa.DateTime),
    Column("failure", String(255)),
)
new_table(
    "sched_shadow_results",
    *time_columns(),
    Column("decision_uuid", String(36), nullable=False),
    Column("position", Integer, nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("verdict", String(32), nullable=False),
    *texts("our_host", "nova_host", nullable=True),
    Column("detail", LongText),
    sa.PrimaryKeyConstraint("decision_uuid", "position"),
    *indexes("sched_shadow_results", "instance_uuid"),
    Index("sched_shadow_results_verdict_idx", "verdict", "created_at"),
)
new_table(
    "sched_decision_notices",
    *time_columns(),
    Column("decision_uuid", String(36), primary_key=True),
    *integers("attempts"),
    Column("pending", LongText, nullable=False),
    Column("ended_at", sa.DateTime),
)
new_table(
    "sched_failover_results",
    Column("id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("result", LongText, nullable=False),
    Column("computed_at", Moment, nullable=False),
)
new_table(
    "sched_provider_changes",
    Column("id", sa.BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("provider_id", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
)
new_table(
    "sched_commit_marks",
    Column("id", String(32), primary_key=True),
    Column("created_at", Moment, nullable=False),
    Column("done", Integer, nullable=False),
)
new_table(
    "sched_leases",
    Column("name", String(64), primary_key=True),
    Column("holder", String(255), nullable=False),
    Column("expires_at", Moment, nullable=False),
)


def upgrade() -> None:
    connection = op.get_bind()
    existing = set(sa.inspect(connection).get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in existing:
            op.get_context().impl.create_table(table)
    # Sums over a project look up each consumer: one step with a hash index, four with a tree.
    name = "sched_allocations_consumer_id_idx"
    indexes = {index["name"] for index in sa.inspect(connection).get_indexes("allocations")}
    if connection.dialect.name == "postgresql" and name not in indexes:
        op.create_index(name, "allocations", ["consumer_id"], postgresql_using="hash")

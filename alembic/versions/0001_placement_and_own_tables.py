"""Create OpenStack placement's tables where they are missing, and ours.

Revision: 0001, the first.

A frozen picture: what ``db/tables.py`` says later comes by later revisions. A table that is there
already is left as it is, because the database may be a running OpenStack placement's.
"""

from collections.abc import Callable

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Create = Callable[..., None]

DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons distinguish case on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def stamps() -> tuple[sa.Column, sa.Column]:
    return sa.Column("created_at", sa.DateTime()), sa.Column("updated_at", sa.DateTime())


def upgrade() -> None:
    there = set(sa.inspect(op.get_bind()).get_table_names())

    def create(name: str, *parts: sa.schema.SchemaItem, **options: object) -> None:
        if name not in there:
            op.create_table(name, *parts, mysql_engine="InnoDB", **options)

    placement_providers(create)
    placement_consumers(create)
    our_hosts(create)
    our_decisions(create)


def placement_providers(create: Create) -> None:
    """Create what says which providers there are and what they have."""
    create(
        "inventories",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("resource_provider_id", sa.Integer(), nullable=False),
        sa.Column("resource_class_id", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=False),
        sa.Column("min_unit", sa.Integer(), nullable=False),
        sa.Column("max_unit", sa.Integer(), nullable=False),
        sa.Column("step_size", sa.Integer(), nullable=False),
        sa.Column("allocation_ratio", sa.Float(), nullable=False),
        sa.UniqueConstraint(
            "resource_provider_id",
            "resource_class_id",
            name="uniq_inventories0resource_provider_resource_class",
        ),
        sa.Index("inventories_resource_class_id_idx", "resource_class_id"),
    )
    create(
        "placement_aggregates",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36)),
        sa.UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
    )
    create(
        "resource_classes",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_resource_classes0name"),
    )
    create(
        "resource_provider_aggregates",
        *stamps(),
        sa.Column("resource_provider_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("aggregate_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
    )
    create(
        "resource_providers",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(200)),
        sa.Column("generation", sa.Integer()),
        sa.Column("root_provider_id", sa.Integer(), sa.ForeignKey("resource_providers.id")),
        sa.Column("parent_provider_id", sa.Integer(), sa.ForeignKey("resource_providers.id")),
        sa.UniqueConstraint("name", name="uniq_resource_providers0name"),
        sa.UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
        sa.Index("resource_providers_parent_provider_id_idx", "parent_provider_id"),
        sa.Index("resource_providers_root_provider_id_idx", "root_provider_id"),
        sqlite_autoincrement=True,
    )
    create(
        "traits",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_traits0name"),
    )
    create(
        "resource_provider_traits",
        *stamps(),
        sa.Column("trait_id", sa.Integer(), sa.ForeignKey("traits.id"), primary_key=True),
        sa.Column(
            "resource_provider_id",
            sa.Integer(),
            sa.ForeignKey("resource_providers.id"),
            primary_key=True,
        ),
        sa.Index(
            "resource_provider_traits_resource_provider_trait_idx",
            "resource_provider_id",
            "trait_id",
        ),
    )


def placement_consumers(create: Create) -> None:
    """Create what says which consumers there are and what they hold."""
    create(
        "allocations",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("resource_provider_id", sa.Integer(), nullable=False),
        sa.Column("consumer_id", sa.String(36), nullable=False),
        sa.Column("resource_class_id", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Index("allocations_consumer_id_idx", "consumer_id"),
        sa.Index("allocations_resource_class_id_idx", "resource_class_id"),
        sa.Index(
            "allocations_resource_provider_class_used_idx",
            "resource_provider_id",
            "resource_class_id",
            "used",
        ),
    )
    create(
        "consumer_types",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_consumer_types0name"),
    )
    create(
        "projects",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("external_id", sa.String(255), nullable=False),
        sa.UniqueConstraint("external_id", name="uniq_projects0external_id"),
    )
    create(
        "users",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("external_id", sa.String(255), nullable=False),
        sa.UniqueConstraint("external_id", name="uniq_users0external_id"),
    )
    create(
        "consumers",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False, server_default="0"),
        sa.Column(
            "consumer_type_id",
            sa.Integer(),
            sa.ForeignKey("consumer_types.id", name="consumers_consumer_type_id_fkey"),
        ),
        sa.UniqueConstraint("uuid", name="uniq_consumers0uuid"),
        sa.Index("consumers_consumer_type_id_idx", "consumer_type_id"),
        sa.Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
        sa.Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    )


def our_hosts(create: Create) -> None:
    """Create what hosts report, and how operators group them."""
    create(
        "sched_aggregates",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", exact(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_sched_aggregates0name"),
        sa.UniqueConstraint("uuid", name="uniq_sched_aggregates0uuid"),
        sqlite_autoincrement=True,
    )
    create(
        "sched_compute_nodes",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("host", exact(255), nullable=False),
        sa.Column("hypervisor_hostname", exact(255), nullable=False),
        sa.Column("cell_uuid", sa.String(36)),
        sa.Column("report", DOCUMENT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("last_seen_up", sa.DateTime(), nullable=False),
        sa.UniqueConstraint(
            "host", "hypervisor_hostname", name="uniq_sched_compute_nodes0host0hypervisor_hostname"
        ),
        sa.UniqueConstraint("uuid", name="uniq_sched_compute_nodes0uuid"),
    )
    create(
        "sched_services",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("host", exact(255), nullable=False),
        sa.Column("binary", exact(64), nullable=False),
        sa.Column("disabled", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("disabled_reason", sa.String(255)),
        sa.Column("forced_down", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("last_seen_up", sa.DateTime()),
        sa.UniqueConstraint("host", "binary", name="uniq_sched_services0host0binary"),
        sa.UniqueConstraint("uuid", name="uniq_sched_services0uuid"),
    )
    create(
        "sched_aggregate_hosts",
        *stamps(),
        sa.Column(
            "aggregate_id", sa.Integer(), sa.ForeignKey("sched_aggregates.id"), primary_key=True
        ),
        sa.Column("host", exact(255), primary_key=True),
        sa.Index("sched_aggregate_hosts_host_idx", "host"),
    )
    create(
        "sched_aggregate_metadata",
        *stamps(),
        sa.Column(
            "aggregate_id", sa.Integer(), sa.ForeignKey("sched_aggregates.id"), primary_key=True
        ),
        sa.Column("key", exact(255), primary_key=True),
        sa.Column("value", exact(255), nullable=False),
    )


def our_decisions(create: Create) -> None:
    """Create what was decided and for whom, and what caches go by."""
    create(
        "sched_change_counters",
        sa.Column("subject", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
    )
    create(
        "sched_decisions",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("project_id", exact(255)),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("request", DOCUMENT, nullable=False),
        sa.Column("funnel", DOCUMENT),
        sa.Column("selections", DOCUMENT, nullable=False),
        sa.UniqueConstraint("uuid", name="uniq_sched_decisions0uuid"),
        sa.Index("sched_decisions_created_at_idx", "created_at"),
    )
    create(
        "sched_instances",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("host", exact(255)),
        sa.Column("node", exact(255)),
        sa.Column("project_id", exact(255)),
        sa.Column("user_id", exact(255)),
        sa.Column("display_name", sa.String(255), nullable=False),
        sa.Column("vm_state", sa.String(255)),
        sa.Column("task_state", sa.String(255)),
        sa.Column("flavor", DOCUMENT),
        sa.Column("image", DOCUMENT),
        sa.Column("server_group", sa.String(36)),
        sa.Column("decision_uuid", sa.String(36)),
        sa.UniqueConstraint("uuid", name="uniq_sched_instances0uuid"),
        sa.Index("sched_instances_host_idx", "host", "node"),
    )

"""The tables: OpenStack placement's, name for name, then ours (``sched_*``).

The placement half follows the schema that ``placement-manage db sync`` of openstack-placement
makes, so that both services can use one database. Ours carry a prefix, because an operator's
database may hold nova's tables as well.
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
#: As :data:`LongText`; comparisons are case-sensitive on MariaDB too.
ExactLongText = sa.Text().with_variant(
    mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)

#: A time with its microseconds.
Moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def exact(length: int) -> String:
    """Return a text type of ``length`` whose comparisons are case-sensitive on MariaDB too."""
    return String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def texts(*names: str, length: int = 255, nullable: bool = False) -> tuple[Column[str], ...]:
    """Return columns of texts that are compared exactly."""
    return tuple(Column(name, exact(length), nullable=nullable) for name in names)


def integers(*names: str, default: str | None = None) -> tuple[Column[int], ...]:
    """Return integer columns that are never null."""
    return tuple(Column(name, Integer, nullable=False, server_default=default) for name in names)


def indexes(table: str, *columns: str, then: str | None = None) -> tuple[Index, ...]:
    """Return indexes of ``table``, one for each column (followed by another) and named for it."""
    return tuple(Index(f"{table}_{one}_idx", *filter(None, (one, then))) for one in columns)


def stamps() -> tuple[Column[datetime], Column[datetime]]:
    """Return the columns for when a row was made and last changed."""
    return Column("created_at", sa.DateTime), Column("updated_at", sa.DateTime)


def pair_of(owner: str, table: str, key: str) -> tuple[Column[int], Column[str]]:
    """Return the primary key of what a row of ``table`` has many of: its number, and a text."""
    number = Column(owner, Integer, ForeignKey(f"{table}.id"), primary_key=True)
    return number, Column(key, exact(255), primary_key=True)


def new_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a table of this service's :data:`metadata`."""
    return Table(name, metadata, *items, mysql_engine="InnoDB", **options)


def numbered(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a table with the two stamps and a numeric primary key before its other columns."""
    key = Column("id", Integer, primary_key=True, nullable=False)
    return new_table(name, *stamps(), key, *items, **options)


def with_uuid(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a numbered table whose first other column is a unique ``uuid``."""
    unique = UniqueConstraint("uuid", name=f"uniq_{name}0uuid")
    return numbered(name, Column("uuid", String(36), nullable=False), *items, unique, **options)


def distinct_texts(name: str, column: str) -> Table:
    """Return a numbered table of unique texts in one column."""
    unique = UniqueConstraint(column, name=f"uniq_{name}0{column}")
    return numbered(name, Column(column, String(255), nullable=False), unique)


def longest(column: Column[str]) -> int:
    """Return how many characters a text in this column has at most: a longer one is in no row.

    SQLite takes no pattern for LIKE of more than 50 000 bytes.
    """
    return int(getattr(column.type, "length", 0) or 0)


resource_providers = with_uuid(
    "resource_providers",
    Column("name", String(200)),
    Column("generation", Integer),
    Column("root_provider_id", Integer, ForeignKey("resource_providers.id")),
    Column("parent_provider_id", Integer, ForeignKey("resource_providers.id")),
    UniqueConstraint("name", name="uniq_resource_providers0name"),
    *indexes("resource_providers", "root_provider_id", "parent_provider_id"),
    # What is kept of a provider is kept by its id: no other may ever have it.
    sqlite_autoincrement=True,
)

inventories = numbered(
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

allocations = numbered(
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
    # Sums over a project look each consumer up: one step by a hash, four by the tree.
    Index("sched_allocations_consumer_id_idx", "consumer_id", postgresql_using="hash").ddl_if(
        dialect="postgresql"
    ),
)

consumer_types = distinct_texts("consumer_types", "name")

consumers = with_uuid(
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

projects = distinct_texts("projects", "external_id")
users = distinct_texts("users", "external_id")
traits = distinct_texts("traits", "name")
resource_classes = distinct_texts("resource_classes", "name")

resource_provider_traits = new_table(
    "resource_provider_traits",
    *stamps(),
    Column("trait_id", ForeignKey("traits.id"), primary_key=True),
    Column("resource_provider_id", ForeignKey("resource_providers.id"), primary_key=True),
    Index(
        "resource_provider_traits_resource_provider_trait_idx", "resource_provider_id", "trait_id"
    ),
)

placement_aggregates = numbered(
    "placement_aggregates",
    Column("uuid", String(36)),
    UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
)

resource_provider_aggregates = new_table(
    "resource_provider_aggregates",
    *stamps(),
    Column("resource_provider_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("aggregate_id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
)

#: The tables of OpenStack placement, in the order in which they can be created.
PLACEMENT_TABLES = tuple(
    table for table in metadata.sorted_tables if not table.name.startswith("sched_")
)

compute_nodes = with_uuid(
    "sched_compute_nodes",
    *texts("host", "hypervisor_hostname"),
    Column("cell_uuid", String(36)),
    # What the host reported, normalised; last_seen_up stands beside it, because a heartbeat that
    # changes nothing else must not change the version under which the parsed report is cached.
    Column("report", LongText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("last_seen_up", sa.DateTime, nullable=False),
    UniqueConstraint(
        "host", "hypervisor_hostname", name="uniq_sched_compute_nodes0host0hypervisor_hostname"
    ),
)

services = with_uuid(
    "sched_services",
    Column("host", exact(255), nullable=False),
    Column("binary", exact(64), nullable=False),
    *integers("disabled", default="0"),
    Column("disabled_reason", String(255)),
    *integers("forced_down", default="0"),
    Column("last_seen_up", sa.DateTime),
    UniqueConstraint("host", "binary", name="uniq_sched_services0host0binary"),
)

host_aggregates = with_uuid(
    "sched_aggregates",
    Column("name", exact(255), nullable=False),
    UniqueConstraint("name", name="uniq_sched_aggregates0name"),
    sqlite_autoincrement=True,
)

host_aggregate_hosts = new_table(
    "sched_aggregate_hosts",
    *stamps(),
    *pair_of("aggregate_id", "sched_aggregates", "host"),
    Index("sched_aggregate_hosts_host_idx", "host"),
)

host_aggregate_metadata = new_table(
    "sched_aggregate_metadata",
    *stamps(),
    *pair_of("aggregate_id", "sched_aggregates", "key"),
    Column("value", exact(255), nullable=False),
)

#: One row per cached subject; its version rises in the transaction that changes the subject, so
#: that every process knows with one small read whether what it remembers still holds.
change_counters = new_table(
    "sched_change_counters",
    Column("subject", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
)

#: The flavors of instances as they were given, each text once.
embedded_flavors = new_table(
    "sched_embedded_flavors",
    Column("digest", exact(64), primary_key=True),
    Column("flavor", LongText, nullable=False),
)

instances = with_uuid(
    "sched_instances",
    *texts("host", "node", "project_id", "user_id", nullable=True),
    Column("display_name", String(255), nullable=False),
    Column("vm_state", String(255)),
    Column("task_state", String(255)),
    Column("flavor", LongText),
    Column("image", LongText),
    # Of flavor and image the ids, by which servers are listed.
    *texts("flavorid", "image_id", nullable=True),
    Column("server_group", String(36)),
    # The decision that placed it, so that a repeated request finds its first answer.
    Column("decision_uuid", String(36)),
    # Where ``flavor`` is null, that of its row in sched_embedded_flavors.
    Column("flavor_digest", exact(64)),
    Index("sched_instances_host_idx", "host", "node"),
    Index("sched_instances_server_group_idx", "server_group"),
    Index("sched_instances_project_id_idx", "project_id", "created_at"),
)

flavors = numbered(
    "sched_flavors",
    *texts("flavorid", "name"),
    *integers("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"),
    Column("rxtx_factor", sa.Double, nullable=False),
    Column("is_public", Integer, nullable=False),
    Column("description", ExactLongText),
    UniqueConstraint("flavorid", name="uniq_sched_flavors0flavorid"),
    UniqueConstraint("name", name="uniq_sched_flavors0name"),
    # Instances and decisions remember a flavor by its id: no other may ever have it.
    sqlite_autoincrement=True,
)

flavor_extra_specs = new_table(
    "sched_flavor_extra_specs",
    *stamps(),
    *pair_of("flavor_id", "sched_flavors", "key"),
    Column("value", exact(255), nullable=False),
)

flavor_projects = new_table(
    "sched_flavor_projects",
    *stamps(),
    *pair_of("flavor_id", "sched_flavors", "project_id"),
    Index("sched_flavor_projects_project_id_idx", "project_id"),
)

images = with_uuid(
    "sched_images",
    Column("name", exact(255)),
    *texts("status", "visibility", length=32),
    Column("owner", exact(255)),
    Column("size", sa.BigInteger),
    Column("virtual_size", sa.BigInteger),
    *texts("disk_format", "container_format", length=32, nullable=True),
    *integers("min_ram", "min_disk", "protected", "os_hidden", default="0"),
    *indexes("sched_images", "name", "created_at"),
    sqlite_autoincrement=True,
)

image_properties = new_table(
    "sched_image_properties",
    *pair_of("image_id", "sched_images", "name"),
    Column("value", ExactLongText, nullable=False),
    Index("sched_image_properties_name_idx", "name"),
)

image_tags = new_table(
    "sched_image_tags",
    *pair_of("image_id", "sched_images", "tag"),
    Index("sched_image_tags_tag_idx", "tag"),
)

server_groups = with_uuid(
    "sched_server_groups",
    Column("name", exact(255), nullable=False),
    Column("policy", String(32), nullable=False),
    # Null where the policy is not anti-affinity, or the group has no such rule.
    Column("max_server_per_host", Integer),
    *texts("project_id", "user_id", nullable=True),
    Index("sched_server_groups_project_id_idx", "project_id"),
)

#: A trait that sync_traits set on a provider, and the aggregate whose metadata asked for it. By
#: uuid and name, because the provider or the trait may be deleted before the record of it. The id
#: distinguishes the provider from a later one with the same uuid; old releases recorded none.
synced_traits = new_table(
    "sched_synced_traits",
    *stamps(),
    Column("provider_uuid", String(36), primary_key=True),
    Column("trait", exact(255), primary_key=True),
    Column("aggregate_uuid", String(36), nullable=False),
    Column("provider_id", Integer),
    Index("sched_synced_traits_aggregate_uuid_idx", "aggregate_uuid"),
)

decisions = with_uuid(
    "sched_decisions",
    Column("outcome", String(32), nullable=False),
    # What was asked for: a selection that is claimed, or one that is not.
    Column("kind", String(16), nullable=False, server_default="select"),
    Column("project_id", exact(255)),
    # The ids of the request: this service's own, and the one that the caller sent along.
    *texts("request_id", "global_request_id", "policy", nullable=True),
    # The name of the flavor.
    Column("flavor", exact(255)),
    # A digest of the whole request: the same instance uuids with another digest are a conflict.
    Column("request_digest", String(64), nullable=False),
    Column("request", LongText, nullable=False),
    Column("funnel", LongText),
    Column("selections", LongText, nullable=False),
    # The first hosts that passed, with their weights, and what the request was evaluated under.
    Column("best", LongText),
    Column("conditions", LongText),
    *indexes("sched_decisions", "created_at", "request_id", "global_request_id"),
    *indexes("sched_decisions", "project_id", "outcome", "kind", "policy", "flavor", then="id"),
)

#: The instances that each decision was about, and where it put them.
decision_places = new_table(
    "sched_decision_places",
    Column("decision_uuid", String(36), nullable=False),
    # Where in the request.
    Column("position", Integer, nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("host", exact(255)),
    sa.PrimaryKeyConstraint("decision_uuid", "position"),
    *indexes("sched_decision_places", "instance_uuid", "host"),
)

#: The cells of the nova whose databases are read. ``read_at`` is when a cell's database last
#: answered; ``away_since`` and ``failure`` are since when it does not, and why.
cells = with_uuid(
    "sched_cells",
    Column("name", exact(255)),
    *integers("disabled", default="0"),
    Column("read_at", sa.DateTime),
    Column("away_since", sa.DateTime),
    Column("failure", String(255)),
)

#: What nova did with each instance of a decision of kind ``shadow``, beside what was decided here.
shadow_results = new_table(
    "sched_shadow_results",
    *stamps(),
    Column("decision_uuid", String(36), nullable=False),
    # Where in the request.
    Column("position", Integer, nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("verdict", String(32), nullable=False),
    *texts("our_host", "nova_host", nullable=True),
    # Why they disagree, as JSON.
    Column("detail", LongText),
    sa.PrimaryKeyConstraint("decision_uuid", "position"),
    *indexes("sched_shadow_results", "instance_uuid"),
    Index("sched_shadow_results_verdict_idx", "verdict", "created_at"),
)

#: The change log: a provider that a transaction wrote. Triggers write it in that transaction.
#: ``store/placement/change_log.py`` says how it is read.
provider_changes = new_table(
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

#: The transactions of this service that were committed lately; those with ``done`` 0 are not and
#: never will be. ``db/transaction.py`` says what for.
commit_marks = new_table(
    "sched_commit_marks",
    Column("id", String(32), primary_key=True),
    Column("created_at", Moment, nullable=False),
    Column("done", Integer, nullable=False),
)

#: Work that one process does for all servers, which one does it, and until when no other does.
leases = new_table(
    "sched_leases",
    Column("name", String(64), primary_key=True),
    Column("holder", String(255), nullable=False),
    Column("expires_at", Moment, nullable=False),
)

#: Our own tables, in the order in which they can be created.
OWN_TABLES = tuple(table for table in metadata.sorted_tables if table not in PLACEMENT_TABLES)

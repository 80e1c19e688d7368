"""The table of server groups; who is in one, the instances' own table tells."""

from sqlalchemy import Column, Index, Integer, String, Table, UniqueConstraint

from placement_sched.db.columns import exact, metadata, stamps

server_groups = Table(
    "sched_server_groups",
    metadata,
    *stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("name", exact(255), nullable=False),
    Column("policy", String(32), nullable=False),
    # Null where the policy is not anti-affinity, or the group has no such rule.
    Column("max_server_per_host", Integer),
    Column("project_id", exact(255)),
    Column("user_id", exact(255)),
    UniqueConstraint("uuid", name="uniq_sched_server_groups0uuid"),
    Index("sched_server_groups_project_id_idx", "project_id"),
    mysql_engine="InnoDB",
)

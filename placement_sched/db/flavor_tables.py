"""The tables of flavors, of their extra specs, and of the projects that private ones are for."""

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, Table, UniqueConstraint

from placement_sched.db.columns import ExactDocument, exact, metadata, stamps

flavors = Table(
    "sched_flavors",
    metadata,
    *stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("flavorid", exact(255), nullable=False),
    Column("name", exact(255), nullable=False),
    Column("vcpus", Integer, nullable=False),
    Column("memory_mb", Integer, nullable=False),
    Column("root_gb", Integer, nullable=False),
    Column("ephemeral_gb", Integer, nullable=False),
    Column("swap", Integer, nullable=False),
    Column("rxtx_factor", Double, nullable=False),
    Column("is_public", Integer, nullable=False),
    Column("description", ExactDocument),
    UniqueConstraint("flavorid", name="uniq_sched_flavors0flavorid"),
    UniqueConstraint("name", name="uniq_sched_flavors0name"),
    mysql_engine="InnoDB",
    # Instances and decisions remember a flavor by its id: no other may ever have it.
    sqlite_autoincrement=True,
)

flavor_extra_specs = Table(
    "sched_flavor_extra_specs",
    metadata,
    *stamps(),
    Column("flavor_id", Integer, ForeignKey("sched_flavors.id"), primary_key=True),
    Column("key", exact(255), primary_key=True),
    Column("value", exact(255), nullable=False),
    mysql_engine="InnoDB",
)

flavor_projects = Table(
    "sched_flavor_projects",
    metadata,
    *stamps(),
    Column("flavor_id", Integer, ForeignKey("sched_flavors.id"), primary_key=True),
    Column("project_id", exact(255), primary_key=True),
    Index("sched_flavor_projects_project_id_idx", "project_id"),
    mysql_engine="InnoDB",
)

"""Create the tables of flavors.

Revision: 0003, after 0002.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

EXACT_DOCUMENT = sa.Text().with_variant(
    mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons distinguish case on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def stamps() -> tuple[sa.Column, sa.Column]:
    return sa.Column("created_at", sa.DateTime()), sa.Column("updated_at", sa.DateTime())


def number(name: str) -> sa.Column:
    return sa.Column(name, sa.Integer(), nullable=False)


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    there = set(sa.inspect(op.get_bind()).get_table_names())

    def create(name: str, *parts: sa.schema.SchemaItem, **options: object) -> None:
        if name not in there:
            op.create_table(name, *parts, mysql_engine="InnoDB", **options)

    def flavor_id() -> sa.Column:
        return sa.Column(
            "flavor_id", sa.Integer(), sa.ForeignKey("sched_flavors.id"), primary_key=True
        )

    create(
        "sched_flavors",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("flavorid", exact(255), nullable=False),
        sa.Column("name", exact(255), nullable=False),
        *map(number, ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")),
        sa.Column("rxtx_factor", sa.Double(), nullable=False),
        number("is_public"),
        sa.Column("description", EXACT_DOCUMENT),
        sa.UniqueConstraint("flavorid", name="uniq_sched_flavors0flavorid"),
        sa.UniqueConstraint("name", name="uniq_sched_flavors0name"),
        sqlite_autoincrement=True,
    )
    create(
        "sched_flavor_extra_specs",
        *stamps(),
        flavor_id(),
        sa.Column("key", exact(255), primary_key=True),
        sa.Column("value", exact(255), nullable=False),
    )
    create(
        "sched_flavor_projects",
        *stamps(),
        flavor_id(),
        sa.Column("project_id", exact(255), primary_key=True),
        sa.Index("sched_flavor_projects_project_id_idx", "project_id"),
    )

"""Create the tables of images.

Revision: 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
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


def flag(name: str) -> sa.Column:
    return sa.Column(name, sa.Integer(), nullable=False, server_default="0")


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    there = set(sa.inspect(op.get_bind()).get_table_names())

    def create(name: str, *parts: sa.schema.SchemaItem, **options: object) -> None:
        if name not in there:
            op.create_table(name, *parts, mysql_engine="InnoDB", **options)

    def image_id() -> sa.Column:
        return sa.Column(
            "image_id", sa.Integer(), sa.ForeignKey("sched_images.id"), primary_key=True
        )

    create(
        "sched_images",
        *stamps(),
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", exact(255)),
        sa.Column("status", exact(32), nullable=False),
        sa.Column("visibility", exact(32), nullable=False),
        sa.Column("owner", exact(255)),
        sa.Column("size", sa.BigInteger()),
        sa.Column("virtual_size", sa.BigInteger()),
        sa.Column("disk_format", exact(32)),
        sa.Column("container_format", exact(32)),
        *map(flag, ("min_ram", "min_disk", "protected", "os_hidden")),
        sa.UniqueConstraint("uuid", name="uniq_sched_images0uuid"),
        sa.Index("sched_images_name_idx", "name"),
        sa.Index("sched_images_created_at_idx", "created_at"),
        sqlite_autoincrement=True,
    )
    create(
        "sched_image_properties",
        image_id(),
        sa.Column("name", exact(255), primary_key=True),
        sa.Column("value", EXACT_DOCUMENT, nullable=False),
        sa.Index("sched_image_properties_name_idx", "name"),
    )
    create(
        "sched_image_tags",
        image_id(),
        sa.Column("tag", exact(255), primary_key=True),
        sa.Index("sched_image_tags_tag_idx", "tag"),
    )
    create(
        "sched_image_members",
        *stamps(),
        image_id(),
        sa.Column("member", exact(255), primary_key=True),
        sa.Column("status", exact(32), nullable=False),
        sa.Index("sched_image_members_member_idx", "member"),
    )

"""The tables of images, of their properties and tags, and of whom they are shared with."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
)

from placement_sched.db.columns import ExactDocument, exact, metadata, stamps

images = Table(
    "sched_images",
    metadata,
    *stamps(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("name", exact(255)),
    Column("status", exact(32), nullable=False),
    Column("visibility", exact(32), nullable=False),
    Column("owner", exact(255)),
    Column("size", BigInteger),
    Column("virtual_size", BigInteger),
    Column("disk_format", exact(32)),
    Column("container_format", exact(32)),
    Column("min_ram", Integer, nullable=False, server_default="0"),
    Column("min_disk", Integer, nullable=False, server_default="0"),
    Column("protected", Integer, nullable=False, server_default="0"),
    Column("os_hidden", Integer, nullable=False, server_default="0"),
    UniqueConstraint("uuid", name="uniq_sched_images0uuid"),
    Index("sched_images_name_idx", "name"),
    Index("sched_images_created_at_idx", "created_at"),
    mysql_engine="InnoDB",
    sqlite_autoincrement=True,
)

image_properties = Table(
    "sched_image_properties",
    metadata,
    Column("image_id", Integer, ForeignKey("sched_images.id"), primary_key=True),
    Column("name", exact(255), primary_key=True),
    Column("value", ExactDocument, nullable=False),
    Index("sched_image_properties_name_idx", "name"),
    mysql_engine="InnoDB",
)

image_tags = Table(
    "sched_image_tags",
    metadata,
    Column("image_id", Integer, ForeignKey("sched_images.id"), primary_key=True),
    Column("tag", exact(255), primary_key=True),
    Index("sched_image_tags_tag_idx", "tag"),
    mysql_engine="InnoDB",
)

image_members = Table(
    "sched_image_members",
    metadata,
    *stamps(),
    Column("image_id", Integer, ForeignKey("sched_images.id"), primary_key=True),
    Column("member", exact(255), primary_key=True),
    Column("status", exact(32), nullable=False),
    Index("sched_image_members_member_idx", "member"),
    mysql_engine="InnoDB",
)

"""Keep the flavor of instances once for all that share it, by the digest of its text.

Revision: 0013, after 0012.
"""

from hashlib import sha256

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

FLAVORS = "sched_embedded_flavors"
INSTANCES = "sched_instances"
MANY = 1000


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons are case-sensitive on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def upgrade() -> None:
    # MariaDB commits each change of a table: what an interrupted sync made is there already.
    there = sa.inspect(op.get_bind())
    if FLAVORS not in there.get_table_names():
        op.create_table(
            FLAVORS,
            sa.Column("digest", exact(64), primary_key=True, nullable=False),
            sa.Column(
                "flavor",
                sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"),
                nullable=False,
            ),
            mysql_engine="InnoDB",
        )
    columns = {column["name"] for column in there.get_columns(INSTANCES)}
    if "flavor_digest" not in columns:
        op.add_column(INSTANCES, sa.Column("flavor_digest", exact(64)))
    if "flavor" in columns:
        fill()
        op.drop_column(INSTANCES, "flavor")


def fill() -> None:
    """Move the texts of flavors, some rows at a time."""
    connection = op.get_bind()
    flavors = sa.table(FLAVORS, *map(sa.column, ("digest", "flavor")))
    instances = sa.table(INSTANCES, *map(sa.column, ("id", "flavor", "flavor_digest")))
    known = set(connection.scalars(sa.select(flavors.c.digest)))
    change = (
        sa.update(instances)
        .where(instances.c.id == sa.bindparam("number"))
        .values(flavor_digest=sa.bindparam("digest"))
    )
    last = 0
    query = sa.select(instances.c.id, instances.c.flavor).order_by(instances.c.id).limit(MANY)
    while rows := connection.execute(query.where(instances.c.id > last)).all():
        last = rows[-1].id
        texts = {row.id: row.flavor for row in rows if row.flavor is not None}
        digests = {number: sha256(text.encode()).hexdigest() for number, text in texts.items()}
        new = {digests[number]: text for number, text in texts.items()}
        missing = [{"digest": one, "flavor": new[one]} for one in sorted(new.keys() - known)]
        if missing:
            connection.execute(sa.insert(flavors), missing)
            known |= new.keys()
        if digests:
            changes = [{"number": number, "digest": one} for number, one in digests.items()]
            connection.execute(change, changes)

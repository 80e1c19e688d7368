"""Note which instances a decision was about and where it put them, and find decisions fast.

Earlier instances get the decisions that placed them from their records.

Revision: 0009, after 0008.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

DECISIONS = "sched_decisions"
PLACES = "sched_decision_places"
INDEXES = {
    "sched_decisions_project_id_idx": ["project_id", "id"],
    "sched_decisions_outcome_idx": ["outcome", "id"],
}
MANY = 1000


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons distinguish case on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    there = sa.inspect(op.get_bind())
    if PLACES not in there.get_table_names():
        op.create_table(
            PLACES,
            sa.Column("decision_uuid", sa.String(36), nullable=False),
            sa.Column("position", sa.Integer(), nullable=False),
            sa.Column("instance_uuid", sa.String(36), nullable=False),
            sa.Column("host", exact(255)),
            sa.PrimaryKeyConstraint("decision_uuid", "position"),
            sa.Index("sched_decision_places_instance_uuid_idx", "instance_uuid"),
            sa.Index("sched_decision_places_host_idx", "host"),
            mysql_engine="InnoDB",
        )
    known = {index["name"] for index in there.get_indexes(DECISIONS)}
    for name, columns in INDEXES.items():
        if name not in known:
            op.create_index(name, DECISIONS, columns)
    fill()


def fill() -> None:
    """Write down where instances are that decisions placed, some at a time."""
    connection = op.get_bind()
    instances = sa.table(
        "sched_instances", *map(sa.column, ("id", "uuid", "host", "decision_uuid"))
    )
    places = sa.table(
        PLACES, *map(sa.column, ("decision_uuid", "position", "instance_uuid", "host"))
    )
    noted = sa.select(places.c.decision_uuid, places.c.instance_uuid)
    done = {tuple(row) for row in connection.execute(noted)}
    last = 0
    query = sa.select(instances).order_by(instances.c.id).limit(MANY)
    while rows := connection.execute(
        query.where(instances.c.id > last, instances.c.decision_uuid.is_not(None))
    ).all():
        last = rows[-1].id
        new = [
            # The place in the request is not known any more: an instance's own number will do.
            {
                "decision_uuid": row.decision_uuid,
                "position": row.id,
                "instance_uuid": row.uuid,
                "host": row.host,
            }
            for row in rows
            if (row.decision_uuid, row.uuid) not in done
        ]
        if new:
            connection.execute(sa.insert(places), new)

"""Find instances by the ids of flavor and image, and those of a project in order of age.

Revision: 0006, after 0005.
"""

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = "sched_instances"
INDEX = "sched_instances_project_id_idx"
MANY = 1000
LONGEST = 255


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons distinguish case on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    there = sa.inspect(op.get_bind())
    columns = {column["name"] for column in there.get_columns(TABLE)}
    for name in ("flavorid", "image_id"):
        if name not in columns:
            op.add_column(TABLE, sa.Column(name, exact(LONGEST)))
    if INDEX not in {index["name"] for index in there.get_indexes(TABLE)}:
        op.create_index(INDEX, TABLE, ["project_id", "created_at"])
    fill()


def fill() -> None:
    """Write the ids of what was recorded before, some rows at a time."""
    connection = op.get_bind()
    instances = sa.table(TABLE, *map(sa.column, ("id", "flavor", "image", "flavorid", "image_id")))
    change = (
        sa.update(instances)
        .where(instances.c.id == sa.bindparam("number"))
        .values(flavorid=sa.bindparam("of_flavor"), image_id=sa.bindparam("of_image"))
    )
    last = 0
    while True:
        query = sa.select(instances.c.id, instances.c.flavor, instances.c.image)
        rows = connection.execute(
            query.where(instances.c.id > last).order_by(instances.c.id).limit(MANY)
        ).all()
        if not rows:
            return
        connection.execute(change, [ids(*row) for row in rows])
        last = rows[-1][0]


def ids(number: int, flavor: str | None, image: str | None) -> dict[str, object]:
    of_flavor, of_image = json.loads(flavor or "null") or {}, json.loads(image or "null") or {}
    flavorid = of_flavor.get("flavorid")
    return {
        "number": number,
        "of_flavor": kept(of_flavor.get("id") if flavorid is None else flavorid),
        "of_image": kept(of_image.get("id")),
    }


def kept(found: object) -> str | None:
    return str(found) if found is not None and len(str(found)) <= LONGEST else None

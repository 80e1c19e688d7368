"""Let PostgreSQL find what a consumer holds by a hash.

Sums over the consumers of a project look each of them up: a hash takes one step where a tree
takes four. The other databases have no such index, and go on by the tree.

Revision: 0007, after 0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLE = "allocations"
INDEX = "sched_allocations_consumer_id_idx"


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    if INDEX not in {index["name"] for index in sa.inspect(connection).get_indexes(TABLE)}:
        op.create_index(INDEX, TABLE, ["consumer_id"], postgresql_using="hash")

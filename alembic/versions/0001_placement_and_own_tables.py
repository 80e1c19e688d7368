"""Create OpenStack placement's tables where they are missing, and ours.

Revision: 0001, the first.
"""

from alembic import op
from placement_sched.db.tables import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind(), checkfirst=True)

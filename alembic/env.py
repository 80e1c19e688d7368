"""Runs the migrations on the connection that ``placement_sched.db.migrate`` hands in."""

from alembic import context

from placement_sched.db.migrate import VERSION_TABLE
from placement_sched.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,
)
context.run_migrations()

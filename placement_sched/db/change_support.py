"""Whether a database server lets the log of changes be exact."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from placement_sched.db.change_triggers import LOGGED
from placement_sched.model.naming import in_short

_VARIABLES = (
    "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider', "
    "'auto_increment_increment', 'read_only')"
)
_FREE_TURNS = "SELECT id FROM sched_provider_change_turns FOR UPDATE SKIP LOCKED"
_CASCADING = sa.text(
    "SELECT constraint_name FROM information_schema.referential_constraints "
    "WHERE constraint_schema = DATABASE() AND table_name IN :tables AND "
    "(update_rule NOT IN ('RESTRICT', 'NO ACTION') OR delete_rule NOT IN ('RESTRICT', 'NO ACTION'))"
).bindparams(sa.bindparam("tables", expanding=True))


def why_unsupported(connection: Connection) -> str | None:
    """Return why no log could be relied upon here, whatever triggers there are; None where one can.

    The tables of the log must be there.
    """
    if connection.dialect.name == "postgresql":
        standby = connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
        return "the server is a standby" if standby else None
    return None if connection.dialect.name == "sqlite" else _why_not_on_mariadb(connection)


def _why_not_on_mariadb(connection: Connection) -> str | None:
    variables = {
        str(name).lower(): str(value).upper()
        for name, value in connection.exec_driver_sql(_VARIABLES)
    }
    # The rows of other nodes come in no order of their numbers, and take no turns here.
    if variables.get("wsrep_on") == "ON" and variables.get("wsrep_provider") != "NONE":
        return "the server is a node of a Galera cluster"
    if variables.get("auto_increment_increment") != "1":
        return "auto_increment_increment is not 1: other servers write, too"
    if variables.get("read_only", "OFF") != "OFF":
        return "the server is read-only: another one writes"
    cascading: Any = connection.execute(_CASCADING, {"tables": LOGGED}).scalars().all()
    if cascading:
        return f"triggers do not see what the foreign keys {in_short(cascading)} change"
    try:
        free_turns(connection)
    except DBAPIError as failure:
        return f"the server cannot skip locked rows ({failure.orig})"
    return None


def free_turns(connection: Connection) -> frozenset[int]:
    """Return the turns that no transaction has taken; the database's error where it cannot say."""
    return frozenset(row[0] for row in connection.exec_driver_sql(_FREE_TURNS))

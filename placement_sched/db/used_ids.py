"""Whether the id of a row that is gone may be given to a new one, so that it names two in time."""

from sqlalchemy import Connection, Table, column, select, table

_made = table("sqlite_master", column("type"), column("name"), column("sql"))


def uses_ids_again(connection: Connection, of: Table) -> bool:
    """Return whether the database does so with a table's ids.

    Only SQLite does, unless the table was made with AUTOINCREMENT; OpenStack placement's was not.
    """
    if connection.dialect.name != "sqlite":
        return False
    statement = select(_made.c.sql).where(_made.c.type == "table", _made.c.name == of.name)
    return "AUTOINCREMENT" not in (connection.scalar(statement) or "").upper()

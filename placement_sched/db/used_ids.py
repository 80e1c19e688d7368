"""Whether the id of a row that is gone may be given to a new one, so that it names two in time."""

from sqlalchemy import ColumnElement, Connection, Table, column, exists, false, not_, table

_made = table("sqlite_master", column("type"), column("name"), column("sql"))


def uses_ids_again(connection: Connection, of: Table) -> ColumnElement[bool]:
    """Return whether the database does so with a table's ids, to be asked along with anything else.

    Only SQLite does, unless the table was made with AUTOINCREMENT; OpenStack placement's was not.
    """
    if connection.dialect.name != "sqlite":
        return false()
    made = exists().where(_made.c.type == "table", _made.c.name == of.name)
    return not_(made.where(_made.c.sql.like("%AUTOINCREMENT%")))

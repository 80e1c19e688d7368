"""Whether the database answers."""

from sqlalchemy import Connection, literal, select


def ask(connection: Connection) -> None:
    """Ask the database for an answer; an error is raised where it gives none."""
    connection.execute(select(literal(1)))

"""What a search of these tests asks: the database itself."""

from sqlalchemy import Connection

from placement_sched.candidates.from_database import DatabaseProviders
from placement_sched.candidates.source import ProviderSource


def source_of(connection: Connection) -> ProviderSource:
    """Return what answers questions about the providers of a database."""
    return DatabaseProviders(connection)

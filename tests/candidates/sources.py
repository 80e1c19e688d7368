"""What a search of these tests asks: the database itself, or a mirror that follows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, select

from placement_sched.candidates.from_database import DatabaseProviders
from placement_sched.candidates.from_mirror import MirroredProviders
from placement_sched.candidates.source import ProviderSource
from placement_sched.db.tables import resource_providers
from placement_sched.mirror.upkeep import Mirror
from placement_sched.store.placement.change_log import Changes


@dataclass
class AllChanged:
    """A log that reports all providers that are or were there, and all names, as changed."""

    known: set[int] = field(default_factory=set)

    def why_not_kept(self, connection):
        return None

    def begin(self, connection):
        return 0

    def read(self, connection, position):
        self.known.update(connection.scalars(select(resource_providers.c.id)))
        return Changes(position, frozenset(self.known), names=True)

    def read_late_rows(self, _connection, position):
        return Changes(position)


_MIRRORS: WeakKeyDictionary[Engine, Mirror] = WeakKeyDictionary()
_ASKED = ["database"]


@contextmanager
def mirrored() -> Iterator[None]:
    """Let searches ask mirrors."""
    _ASKED.append("mirror")
    yield
    _ASKED.pop()


def source_of(connection: Connection) -> ProviderSource:
    """Return what answers questions about the providers of a database."""
    if _ASKED[-1] == "database":
        return DatabaseProviders(connection)
    mirror = _MIRRORS.setdefault(connection.engine, Mirror(AllChanged()))
    assert mirror.bring_up_to_date(connection)
    return MirroredProviders(mirror)

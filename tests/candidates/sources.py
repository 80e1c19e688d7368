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


@dataclass(frozen=True)
class Seen:
    """What a log reports."""

    providers: frozenset[int] = frozenset()
    names: bool = False
    position: int = 0
    in_doubt: bool = False


@dataclass
class AllChanged:
    """A log that reports all providers that are or were there, and all names, as changed."""

    known: set[int] = field(default_factory=set)

    def why_not_kept(self, connection):
        return None

    def begin(self, connection):
        return 0

    def since(self, connection, position):
        self.known.update(connection.scalars(select(resource_providers.c.id)))
        return Seen(frozenset(self.known), names=True)


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

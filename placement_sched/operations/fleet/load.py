"""Loads a fleet file into a database, wholly or not at all, and writes one from it."""

from dataclasses import dataclass
from functools import partial

from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.clock import Clock
from placement_sched.operations.fleet.applying import Told, apply
from placement_sched.operations.fleet.blame import AgainstError
from placement_sched.operations.fleet.changes import Change, changes
from placement_sched.operations.fleet.laying import laid, terms_of
from placement_sched.operations.fleet.marked import Marked
from placement_sched.operations.fleet.reading import read
from placement_sched.operations.fleet.showing import show, text_of
from placement_sched.store import change_counters

#: The change counter whose row lets two loads take turns.
SUBJECT = "fleet"
#: How many steps a load is told of.
STEPS = 9
#: How often a load starts again where others changed something of it meanwhile.
_ATTEMPTS = 10


class _UndoneError(Exception):
    """Ends the transaction of a dry run, which tells what would have changed."""

    def __init__(self, found: tuple[Change, ...]) -> None:
        super().__init__("a dry run")
        self.changes = found


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Loads and dumps a database's cloud, by the settings' ratios where a file tells none."""

    database: Database
    settings: Settings
    clock: Clock

    def load(self, text: str, name: str, *, dry_run: bool, told: Told) -> tuple[Change, ...]:
        """Make of the cloud what a file (``text``, called ``name``) says; return what changes.

        One transaction: all of it, or (by an error) nothing. A dry run is the same, but undone at
        the end, so that what it tells a load can do. Raises :class:`Invalid` with line and
        column for a file that cannot be, and :class:`Conflict` where the cloud is against it.
        """
        told("the file")
        work = partial(self._load, file=Marked(text, name), dry_run=dry_run, told=told)
        for _ in range(_ATTEMPTS):
            try:
                return self.database.write(work)
            except _UndoneError as undone:
                return undone.changes
            except ConcurrentUpdate:
                continue
        raise ConcurrentUpdate("others changed the same things again and again; try again")

    def dump(self) -> str:
        """Return the file that, loaded into an empty database, makes this cloud."""
        terms = terms_of(self.settings, self.clock())
        with self.database.snapshot() as connection:
            return text_of(show(read(connection, terms.nobody), terms))

    def _load(
        self, connection: Connection, file: Marked, *, dry_run: bool, told: Told
    ) -> tuple[Change, ...]:
        change_counters.bump(connection, SUBJECT)
        told("what there is")
        now = self.clock()
        terms = terms_of(self.settings, now)
        before, after = file.read(lambda document: laid(connection, document, terms))
        try:
            apply(connection, before, after, now, told, terms.policies)
        except AgainstError as against:
            raise file.told_at(against.cause, against.keys) from None
        found = changes(before, after)
        if dry_run:
            raise _UndoneError(found)
        return found

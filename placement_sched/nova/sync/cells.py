"""Nova's cells as one process reads them: which there are, and which are away."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from math import inf
from threading import Lock
from time import monotonic
from typing import Any

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.db.collations import PLACEHOLDER, Characters
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.clock import Clock
from placement_sched.model.instance import NovaCell
from placement_sched.nova.databases.cells import (
    MappedCell,
    cells_of_hosts,
    mapped_cells,
    mark_of_mappings,
)
from placement_sched.nova.databases.connections import (
    NovaAway,
    NovaDatabase,
    api_database,
    cell_database,
)
from placement_sched.nova.databases.hosts import CellCensus
from placement_sched.nova.sync.findings import Account
from placement_sched.store.compute import cells

#: A row that was read sooner than so long after its second may have changed within that second.
_SETTLES = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class _Mark:
    seen: tuple[Any, ...]
    first: datetime
    last: datetime


class Marks:
    """What moves of each row, and when it was first and last read so.

    The first of what moves is ``updated_at``. It has whole seconds on MariaDB: a row that was read
    within the second in which it changed may have changed again.
    """

    def __init__(self) -> None:
        self._marks: dict[Hashable, _Mark] = {}

    def to_read(
        self, rows: Mapping[str, tuple[Any, ...]], *, settling: bool = True
    ) -> tuple[str, ...]:
        """Return those of the rows that must be read whole.

        With ``settling``, those as well that were read so soon that they may have changed since.
        """
        return tuple(
            key for key, moving in rows.items() if not self._is_known(key, moving, settling)
        )

    def _is_known(self, key: str, moving: tuple[Any, ...], settling: bool) -> bool:
        mark = self._marks.get(key)
        if mark is None or mark.seen != moving:
            return False
        # A text of ISO 8601, whose fraction follows the twentieth character.
        exact = (moving[0] or "")[20:].strip("0")
        return not settling or bool(exact) or mark.last - mark.first >= _SETTLES

    def note(self, rows: Mapping[str, tuple[Any, ...]], keys: Iterable[str], at: datetime) -> None:
        """Note that rows were read whole at a time, not before they looked as they do here."""
        for key in keys:
            mark = self._marks.get(key)
            same = mark is not None and mark.seen == rows[key]
            first = mark.first if mark is not None and same else at
            self._marks[key] = _Mark(rows[key], first, at)

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all rows but these."""
        wanted = set(keys)
        self._marks = {key: mark for key, mark in self._marks.items() if key in wanted}


LOG = log.getLogger(__name__)

#: Seconds until a cell that is away is asked again, at the earliest: at first, then twice as long
#: after each failure, and at the longest.
FIRST_PAUSE, PAUSE = 1.0, 5.0
_CANNOT_STORE = "the database cannot store the character {!r}"
#: A database that fails within so many seconds is asked again also before a request, which can
#: afford that; one that leaves the request waiting is not.
_AT_ONCE = 0.1


@dataclass(eq=False, slots=True)
class FollowedCell:
    """A cell, its database, and what this process remembers of its rows."""

    mapped: MappedCell
    database: NovaDatabase
    nodes: Marks = field(default_factory=Marks)
    instances: Marks = field(default_factory=Marks)
    census: CellCensus | None = None
    #: Hosts whose mapping has changed since the nodes were last compared.
    remapped: set[str] = field(default_factory=set)
    #: When each was last read for what changed: the time here as that reading began.
    nodes_read: datetime | None = None
    instances_read: datetime | None = None
    #: The time, by the clock that only runs forward, from which a cell that is away is asked again.
    away_until: float | None = None
    #: How long it is not asked after the next failure, in seconds.
    pause: float = FIRST_PAUSE
    #: Whether it failed at once when last asked.
    fails_at_once: bool = False

    @property
    def uuid(self) -> str:
        """Return nova's uuid of the cell."""
        return self.mapped.uuid

    @property
    def title(self) -> str:
        """Return how messages call the cell."""
        return self.mapped.title


class NovaCells:
    """All cells of one nova, and its API database."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        """Raise :class:`ConfigurationError` where ``[api_database] connection`` cannot be used."""
        self.api = api_database(settings)
        self.database = database
        self.settings = settings
        self.clock = clock
        self._known: dict[str, FollowedCell] = {}
        #: The uuid of the cell to which nova maps each host, by host.
        self.mapped_hosts: Mapping[str, str] = {}
        self._mark_of_mappings: tuple[object, ...] = ()
        self._cell0: FollowedCell | None = None
        self._api_is_away = False
        self._only_looking = False
        self._characters: Characters | None = None
        # Instances are followed beside the rest.
        self._noting = Lock()

    @property
    def characters(self) -> Characters:
        """The characters that the database here can store: nova's may have more."""
        if self._characters is None:
            with self.database.read() as connection:
                self._characters = Characters.of(connection)
        return self._characters

    def shown(self, written: str, place: str, noun: str, account: Account) -> str:
        """Return a display name with placeholders for what cannot be stored, and note the fault."""
        if (letter := self.characters.missing(written)) is None:
            return written
        shown = self.characters.shown(written)
        reason = f"{_CANNOT_STORE.format(letter)} of its {noun}"
        account.misfit(place, f"{reason}; it is recorded with {PLACEHOLDER}")
        return shown

    def is_left_out(self, place: str, texts: Mapping[str, str | None], account: Account) -> bool:
        """Return whether one of some texts, by what messages call them, cannot be stored.

        What has this text is left out then, which is noted.
        """
        if (lacking := self.characters.lacking(texts)) is None:
            return False
        noun, letter = lacking
        reason = f"{_CANNOT_STORE.format(letter)} of its {noun}"
        account.misfit(place, f"{reason}; it is left out")
        return True

    @property
    def every(self) -> tuple[FollowedCell, ...]:
        """Return the cells that have hosts, the oldest first; :meth:`load` reads which."""
        return tuple(self._known.values())

    @property
    def are_known(self) -> bool:
        """Return whether cells were read from nova's API database yet."""
        return self._cell0 is not None or bool(self._known)

    @property
    def cell0(self) -> FollowedCell | None:
        """Return the cell of instances that were never placed."""
        return self._cell0

    @property
    def away(self) -> tuple[FollowedCell, ...]:
        """Return the cells that did not answer when last asked."""
        return tuple(cell for cell in self.every if cell.away_until is not None)

    @property
    def asked_again(self) -> float:
        """Return when the next cell that is away is asked again; infinite where none is away."""
        return min((cell.away_until for cell in self.away if cell.away_until), default=inf)

    @contextmanager
    def read_api(self) -> Iterator[Connection]:
        """Give a connection to nova's API database.

        Raises :class:`NovaAway`; that it is away, and that it is back, is logged once.
        """
        away: NovaAway | None = None
        try:
            with self.api.read() as connection:
                yield connection
        except NovaAway as failure:
            away = failure
        if away is not None:  # logged after the failure, which the log would show once more
            if not self._api_is_away:
                self._api_is_away = True
                LOG.warning("nova's API database cannot be read: %s", away.detail)
            raise away
        if self._api_is_away:
            self._api_is_away = False
            LOG.info("nova's API database answers again")

    def load(self) -> None:
        """Read which cells there are, and which hosts are mapped to them; raise :class:`NovaAway`.

        A cell whose URL is as it was keeps its connections, and what is remembered of it.
        """
        with self.read_api() as connection:
            found = mapped_cells(connection)
            several = sum(not one.is_cell0 for one in found) > 1
            self._mark_of_mappings = mark_of_mappings(connection, changing=several)
            hosts = cells_of_hosts(connection)
        known: dict[str, FollowedCell] = {}
        for mapped in found:
            if mapped.is_cell0:
                self._cell0 = self._followed(self._cell0, mapped)
            else:
                known[mapped.uuid] = self._followed(self._known.get(mapped.uuid), mapped)
        for gone in self._known.keys() - known.keys():
            self._known[gone].database.close()
        self._known = known
        if hosts != self.mapped_hosts:
            before, self.mapped_hosts = self.mapped_hosts, hosts
            changed = {
                host for host in before.keys() | hosts.keys() if before.get(host) != hosts.get(host)
            }
            for cell in self.every:
                cell.census = None  # so that all its services are compared, and who came or went
                cell.remapped |= changed if before else set()

    def load_new(self) -> None:
        """Do as :meth:`load` does if cells are not known yet, or hosts were mapped since."""
        if self.are_known:
            with self.read_api() as connection:
                several = len(self._known) > 1
                if mark_of_mappings(connection, changing=several) == self._mark_of_mappings:
                    return
        self.load()

    def why_not_of(self, cell: FollowedCell, host: str | None) -> str | None:
        """Return why the rows of a host in this cell are ignored; None if they are not.

        The database here may be unable to store the host's name. Nova acts on a host only in the
        cell that it maps the host to. The rows of a host without a mapping are read.
        """
        if (letter := self.characters.missing(host)) is not None:
            return f"{_CANNOT_STORE.format(letter)} of its host's name"
        uuid = self.mapped_hosts.get(host or "", cell.uuid)
        return None if uuid == cell.uuid else f"nova maps its host to {self._title(uuid)}"

    def _title(self, uuid: str) -> str:
        return self._known[uuid].title if uuid in self._known else f"cell {uuid}"

    def _followed(self, before: FollowedCell | None, mapped: MappedCell) -> FollowedCell:
        database = cell_database(mapped.title, mapped.database_connection, self.settings)
        if before is not None and before.database.url == database.url:
            before.mapped = mapped
            return before
        if before is not None:
            before.database.close()
        return FollowedCell(mapped, database)

    def follow(self, account: Account, *, dry: bool = False) -> None:
        """Record which cells there are, those that are new or gone as well."""
        wanted = {
            cell.uuid: NovaCell(
                uuid=cell.uuid,
                name=self.shown(cell.mapped.name or "", f"cell {cell.uuid}", "name", account)
                or None,
                disabled=cell.mapped.disabled,
            )
            for cell in self.every
        }
        with self.database.read() as connection:
            before = {cell.uuid: cell for cell in cells.all_cells(connection)}
        account.note_read("cells", len(wanted))
        changed = {
            uuid: cell
            for uuid, cell in wanted.items()
            if uuid not in before
            or (cell.name, cell.disabled) != (before[uuid].name, before[uuid].disabled)
        }
        gone = before.keys() - wanted.keys()
        for uuid, cell in changed.items():
            account.differs("cells", cell.title, ("name", "disabled"), new=uuid not in before)
        for uuid in gone:
            account.gone("cells", before[uuid].title)
        if dry or not (changed or gone):
            return

        def write(connection: Connection) -> None:
            cells.remove(connection, gone)
            cells.put(connection, list(changed.values()), self.clock())

        self.database.write(write)

    def each(
        self,
        work: Callable[[FollowedCell], None],
        *,
        patient: bool = True,
        account: Account | None = None,
    ) -> None:
        """Do some work for each cell, and go on with the next where a cell is away.

        ``patient`` work asks also cells whose database kept it waiting when last asked, from time
        to time.
        """
        for cell in sorted(self.every, key=lambda one: one.away_until is not None):
            before, begun = cell.away_until, monotonic()
            can_wait = patient or cell.fails_at_once
            if before is not None and not (can_wait and begun >= before):
                self._note(account, cell)
                continue
            try:
                work(cell)
            except NovaAway as failure:
                self._went(cell, before, failure, monotonic() - begun)
                self._note(account, cell)
            else:
                if before is not None:
                    self._came_back(cell, before)

    @contextmanager
    def only_looking(self) -> Iterator[None]:
        """Do not record meanwhile which cells are away, for a comparison, which writes nothing."""
        self._only_looking = True
        try:
            yield
        finally:
            self._only_looking = False

    def _note(self, account: Account | None, cell: FollowedCell) -> None:
        if account is not None:
            account.away[cell.title] = None

    def look_for_those_back(self) -> None:
        """Ask again, next time, those cells that another process found to be back."""
        if not self.away:
            return
        with self.database.read() as connection:
            recorded = {cell.uuid: cell for cell in cells.all_cells(connection)}
        for cell in self.away:
            if cell.uuid in recorded and not recorded[cell.uuid].is_away:
                cell.away_until, cell.pause = None, FIRST_PAUSE

    def note_read(self) -> None:
        """Record that all cells that are not away have answered."""
        answering = [cell.uuid for cell in self.every if cell.away_until is None]
        self.database.write(partial(cells.note_read, uuids=answering, now=self.clock()))

    def _went(
        self, cell: FollowedCell, before: float | None, failure: NovaAway, took: float
    ) -> None:
        """Note that a cell failed, unless another thread noted the same failure meanwhile."""
        with self._noting:
            if cell.away_until not in {None, before}:
                return
            pause = min(cell.pause, PAUSE)
            is_news, cell.away_until = cell.away_until is None, monotonic() + pause
            cell.pause = 2 * pause
            cell.fails_at_once = took < _AT_ONCE
            if is_news:
                LOG.warning(
                    "%s: its database cannot be read, so that its hosts get no instances until it "
                    "can: %s",
                    cell.title,
                    failure.detail,
                )
                reason = self.characters.shown(failure.detail)
                self._record(partial(cells.note_away, uuid=cell.uuid, failure=reason))

    def _came_back(self, cell: FollowedCell, before: float) -> None:
        """Note that a cell answered that was away before; another thread may know better by now."""
        with self._noting:
            if cell.away_until != before:
                return
            cell.away_until, cell.pause = None, FIRST_PAUSE
            LOG.info("%s: its database answers again", cell.title)
            self._record(partial(cells.note_read, uuids=[cell.uuid]))

    def _record(self, note: Callable[..., None]) -> None:
        # Under the lock: states are written in their order.
        if not self._only_looking:
            self.database.write(partial(note, now=self.clock()))

    def close(self) -> None:
        """Close all connections."""
        for database in (self.api, *(cell.database for cell in self.every)):
            database.close()
        if self._cell0 is not None:
            self._cell0.database.close()

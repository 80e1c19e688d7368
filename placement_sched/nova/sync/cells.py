# SPDX-License-Identifier: Apache-2.0
"""Nova's cells: databases, states, and the rows that were read.

A cell is away if its database did not answer the last attempt to read it.
"""

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
from placement_sched.nova.databases import (
    NovaDatabase,
    NovaDatabaseUnavailable,
    get_api_database,
    get_cell_database,
)
from placement_sched.nova.databases.placements import (
    MappedCell,
    list_mapped_cells,
    map_cells_by_host,
    read_mappings_mark,
)
from placement_sched.nova.databases.readers import CellRowCounts
from placement_sched.nova.sync import SyncTotals, find_differing
from placement_sched.store.compute import cells

LOG = log.getLogger(__name__)

#: A row that was read within this time after a change may have changed again in the same second.
_WRITE_RESOLUTION = timedelta(seconds=2)
#: Seconds until a cell that is away is tried again.
PAUSE = 5.0
#: The fields of a cell that are compared.
_FIELDS = ("name", "disabled")
_CANNOT_STORE = "the database cannot store the character {!r}"


@dataclass(frozen=True, slots=True)
class _Mark:
    values: tuple[Any, ...]
    first: datetime
    last: datetime


class RowVersions:
    """Versions of rows: values of the columns that nova changes, with times.

    The times of a row are the first and last reading of these values. The first value is
    ``updated_at``. It has whole seconds on MariaDB: a row that was read in the second of its change
    may have changed again in the same second.
    """

    def __init__(self) -> None:
        self._marks: dict[Hashable, _Mark] = {}

    def to_read(
        self, rows: Mapping[str, tuple[Any, ...]], *, is_round: bool = True
    ) -> tuple[str, ...]:
        """Return the keys of rows to read again, given their current values.

        With ``is_round``, also of rows that may have changed in the second of their reading.
        """
        keys = []
        for key, changing in rows.items():
            mark = self._marks.get(key)
            if mark is None or mark.values != changing:
                keys.append(key)
            elif is_round and mark.last - mark.first < _WRITE_RESOLUTION:
                # A text of ISO 8601, whose fraction follows the twentieth character.
                has_fraction = bool((changing[0] or "")[20:].strip("0"))
                if not has_fraction:
                    keys.append(key)
        return tuple(keys)

    def record_rows(
        self, rows: Mapping[str, tuple[Any, ...]], keys: Iterable[str], at: datetime
    ) -> None:
        """Record the versions in ``rows`` of the rows with these keys.

        The caller must read versions before whole rows. ``at`` is a time before both readings.
        """
        for key in keys:
            mark = self._marks.get(key)
            is_unchanged = mark is not None and mark.values == rows[key]
            first = mark.first if mark is not None and is_unchanged else at
            self._marks[key] = _Mark(rows[key], first, at)

    def keep(self, keys: Iterable[str]) -> None:
        """Drop the versions of all rows except the rows with these keys."""
        kept_keys = set(keys)
        self._marks = {key: mark for key, mark in self._marks.items() if key in kept_keys}


@dataclass(eq=False, slots=True)
class FollowedCell:
    """A cell with its database, and the versions of rows that were read."""

    mapped: MappedCell
    database: NovaDatabase
    nodes: RowVersions = field(default_factory=RowVersions)
    instances: RowVersions = field(default_factory=RowVersions)
    row_counts: CellRowCounts | None = None
    #: Hosts whose mapping has changed since the nodes were last compared.
    remapped: set[str] = field(default_factory=set)
    #: When the last reading of changes began, by this service's clock.
    nodes_read: datetime | None = None
    instances_read: datetime | None = None
    #: If the cell is away, the monotonic time of the next attempt to read it.
    away_until: float | None = None

    @property
    def uuid(self) -> str:
        """Nova's uuid of the cell."""
        return self.mapped.uuid

    @property
    def title(self) -> str:
        """The name of the cell in messages."""
        return self.mapped.title


class NovaCells:
    """All cells of a nova deployment, and its API database."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self.api = get_api_database(settings)
        self.database = database
        self.settings = settings
        self.clock = clock
        self._by_uuid: dict[str, FollowedCell] = {}
        #: The uuid of the cell to which nova maps each host, by host.
        self.mapped_hosts: Mapping[str, str] = {}
        self._mark_of_mappings: tuple[object, ...] = ()
        #: The cell of instances that were never scheduled.
        self.cell0: FollowedCell | None = None
        self._api_is_away = False
        self._is_read_only = False
        self._characters: Characters | None = None
        # Guards the states of cells: a second thread follows instances.
        self._state_lock = Lock()

    @property
    def characters(self) -> Characters:
        """The characters that this service's database can store."""
        if self._characters is None:
            with self.database.read() as connection:
                self._characters = Characters.read_from(connection)
        return self._characters

    def replace_unstorable(
        self, display_name: str, place: str, noun: str, totals: SyncTotals
    ) -> str:
        """Replace the unstorable characters of a name, and report an issue."""
        if (character := self.characters.find_unstorable(display_name)) is None:
            return display_name
        reason = f"{_CANNOT_STORE.format(character)} of its {noun}"
        totals.add_issue(place, f"{reason}, which is recorded with {PLACEHOLDER} instead")
        return self.characters.replace_unstorable(display_name)

    def is_left_out(self, place: str, texts: Mapping[str, str | None], totals: SyncTotals) -> bool:
        """Return whether any named text cannot be stored, and report the first."""
        for noun, value in texts.items():
            if (character := self.characters.find_unstorable(value)) is not None:
                reason = f"{_CANNOT_STORE.format(character)} of its {noun}"
                totals.add_issue(place, f"{reason}, so it is left out")
                return True
        return False

    @property
    def every(self) -> tuple[FollowedCell, ...]:
        """All cells but cell0 at the last :meth:`load`, oldest first."""
        return tuple(self._by_uuid.values())

    @property
    def is_loaded(self) -> bool:
        """Return whether the cells have been read from nova's API database."""
        return self.cell0 is not None or bool(self._by_uuid)

    @property
    def away(self) -> tuple[FollowedCell, ...]:
        """The cells whose database did not answer the last attempt."""
        return tuple(cell for cell in self.every if cell.away_until is not None)

    @property
    def next_attempt(self) -> float:
        """The monotonic time when a cell that is away is read next, or infinity."""
        return min((cell.away_until for cell in self.away if cell.away_until), default=inf)

    @contextmanager
    def read_api(self) -> Iterator[Connection]:
        """Open nova's API database, or raise NovaDatabaseUnavailable."""
        away: NovaDatabaseUnavailable | None = None
        try:
            with self.api.read() as connection:
                yield connection
        except NovaDatabaseUnavailable as failure:
            away = failure
        if away is not None:  # logged outside the handler, or the line would repeat the exception
            if not self._api_is_away:
                self._api_is_away = True
                LOG.warning("nova's API database cannot be read: %s", away.detail)
            raise away
        if self._api_is_away:
            self._api_is_away = False
            LOG.info("nova's API database answers again")

    def load(self) -> None:
        """Read cells and host mappings, or raise NovaDatabaseUnavailable."""
        with self.read_api() as connection:
            mappings = list_mapped_cells(connection)
            is_multi_cell = sum(not mapping.is_cell0 for mapping in mappings) > 1
            self._mark_of_mappings = read_mappings_mark(connection, changing=is_multi_cell)
            hosts = map_cells_by_host(connection)
        followed: dict[str, FollowedCell] = {}
        for mapped in mappings:
            if mapped.is_cell0:
                self.cell0 = self._open_cell(self.cell0, mapped)
            else:
                followed[mapped.uuid] = self._open_cell(self._by_uuid.get(mapped.uuid), mapped)
        for uuid in self._by_uuid.keys() - followed.keys():
            self._by_uuid[uuid].database.close()
        self._by_uuid = followed
        if hosts != self.mapped_hosts:
            previous, self.mapped_hosts = self.mapped_hosts, hosts
            changed = {host for host, _cell in previous.items() ^ hosts.items()}
            for cell in self.every:
                cell.row_counts = None  # so that all its services and nodes are compared
                cell.remapped |= changed if previous else set()

    def load_new(self) -> None:
        """Call :meth:`load` on first use, or if nova has mapped hosts since."""
        if self.is_loaded:
            with self.read_api() as connection:
                is_multi_cell = len(self._by_uuid) > 1
                if read_mappings_mark(connection, changing=is_multi_cell) == self._mark_of_mappings:
                    return
        self.load()

    def find_ignore_reason(self, cell: FollowedCell, host: str | None) -> str | None:
        """Return why rows of a host are ignored (name, other cell), or None."""
        if (character := self.characters.find_unstorable(host)) is not None:
            return f"{_CANNOT_STORE.format(character)} of its host's name"
        uuid = self.mapped_hosts.get(host or "", cell.uuid)
        if uuid == cell.uuid:
            return None
        title = self._by_uuid[uuid].title if uuid in self._by_uuid else f"cell {uuid}"
        return f"nova maps its host to {title}"

    def _open_cell(self, previous: FollowedCell | None, mapped: MappedCell) -> FollowedCell:
        database = get_cell_database(mapped.title, mapped.database_connection, self.settings)
        if previous is not None and previous.database.url == database.url:
            previous.mapped = mapped
            return previous
        if previous is not None:
            previous.database.close()
        return FollowedCell(mapped, database)

    def follow(self, totals: SyncTotals, *, dry: bool = False) -> None:
        """Record new, changed and deleted cells."""
        current = {}
        for followed in self.every:
            uuid, mapped = followed.uuid, followed.mapped
            name = self.replace_unstorable(mapped.name or "", f"cell {uuid}", "name", totals)
            current[uuid] = NovaCell(uuid=uuid, name=name or None, disabled=mapped.disabled)
        with self.database.read() as connection:
            recorded = {cell.uuid: cell for cell in cells.list_cells(connection)}
        totals.add_read_count("cells", len(current))
        changed = find_differing(recorded, current, _FIELDS)
        deleted = recorded.keys() - current.keys()
        totals.add_all("cells", recorded, changed, deleted, _FIELDS, "title")
        if dry or not (changed or deleted):
            return

        def write(connection: Connection) -> None:
            cells.remove(connection, deleted)
            cells.put(connection, list(changed.values()), self.clock())

        self.database.write(write)

    def run_for_each_cell(
        self,
        work: Callable[[FollowedCell], None],
        *,
        patient: bool = True,
        totals: SyncTotals | None = None,
    ) -> None:
        """Call ``work`` for each cell that is not away.

        With ``patient``, a cell that is away is tried again :data:`PAUSE` seconds after a failure.
        """
        for cell in sorted(self.every, key=lambda each: each.away_until is not None):
            retry_at = cell.away_until
            is_read = False
            if retry_at is None or (patient and monotonic() >= retry_at):
                try:
                    work(cell)
                    is_read = True
                except NovaDatabaseUnavailable as failure:
                    self._mark_away(cell, retry_at, failure)
            if is_read and retry_at is not None:
                self._mark_back(cell, retry_at)
            if not is_read and totals is not None:
                totals.away[cell.title] = None

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Suppress the recording of cell states, for a read-only comparison."""
        self._is_read_only = True
        try:
            yield
        finally:
            self._is_read_only = False

    def retry_reopened_cells(self) -> None:
        """Let the next sync read cells that another process has reached again."""
        if not self.away:
            return
        with self.database.read() as connection:
            recorded = {cell.uuid: cell for cell in cells.list_cells(connection)}
        for cell in self.away:
            if cell.uuid in recorded and not recorded[cell.uuid].is_down:
                cell.away_until = None

    def record_read(self) -> None:
        """Record the current time as the last response of all reachable cells."""
        reachable = [cell.uuid for cell in self.every if cell.away_until is None]
        self.database.write(partial(cells.record_read, uuids=reachable, now=self.clock()))

    def _mark_away(
        self, cell: FollowedCell, retry_at: float | None, failure: NovaDatabaseUnavailable
    ) -> None:
        with self._state_lock:
            if cell.away_until not in {None, retry_at}:
                return
            is_news, cell.away_until = cell.away_until is None, monotonic() + PAUSE
            if is_news:
                LOG.warning(
                    "%s: its database cannot be read, and its hosts are rejected until the "
                    "database answers: %s",
                    cell.title,
                    failure.detail,
                )
                reason = self.characters.replace_unstorable(failure.detail)
                self._record(partial(cells.record_failure, uuid=cell.uuid, failure=reason))

    def _mark_back(self, cell: FollowedCell, retry_at: float) -> None:
        """Mark a cell as back, unless another thread has changed its state."""
        with self._state_lock:
            if cell.away_until != retry_at:
                return
            cell.away_until = None
            LOG.info("%s: its database answers again", cell.title)
            self._record(partial(cells.record_read, uuids=[cell.uuid]))

    def _record(self, note: Callable[..., None]) -> None:
        # Called under the lock, so that states are written in the order of their changes.
        if not self._is_read_only:
            self.database.write(partial(note, now=self.clock()))

    def close(self) -> None:
        """Close all connections."""
        for database in (self.api, *(cell.database for cell in self.every)):
            database.close()
        if self.cell0 is not None:
            self.cell0.database.close()

"""The record of this scheduler in nova's ``services``: the only thing of nova's that is written.

With it ``openstack compute service list`` and nova-manage see a scheduler that is up.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, column, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from placement_sched.config.settings import Settings
from placement_sched.db.engine import make_engine, served_url
from placement_sched.db.errors import connected, translated

BINARY, TOPIC = "nova-scheduler", "scheduler"

_SERVICES = sa.table(
    "services",
    column("id", sa.Integer),
    column("uuid", sa.String),
    column("host", sa.String),
    column("binary", sa.String),
    column("topic", sa.String),
    column("report_count", sa.Integer),
    column("disabled", sa.Boolean),
    column("forced_down", sa.Boolean),
    column("last_seen_up", sa.DateTime),
    column("version", sa.Integer),
    column("created_at", sa.DateTime),
    column("updated_at", sa.DateTime),
    column("deleted", sa.Integer),
)
_COLUMNS = _SERVICES.c


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat found: whether another service writes the same record, and who else is up.

    ``others`` are the hosts of the other schedulers that are up.
    """

    shared: bool
    others: frozenset[str]


class ServiceRecord:
    """The record of nova-scheduler on one host, in the database of ``engine``.

    A service counts as up while its last heartbeat is younger than ``down_after`` seconds. For one
    thread.
    """

    def __init__(self, engine: Engine, host: str, down_after: int) -> None:
        self._engine, self._host = engine, host
        self._down_after = timedelta(seconds=down_after)
        #: The heartbeats that the record has; None where that is not known.
        self._count: int | None = None

    def beat(self, now: datetime) -> Beat:
        """Note that the scheduler is up, in a record that is made where there is none.

        No other record is changed. Raises :class:`Unavailable` where the database does not answer.
        """
        before, self._count = self._count, None
        with translated():
            # Where this raises, it may be written all the same, as only the answer to COMMIT was
            # lost: then no count is known that the next could be compared with.
            try:
                self._count = self._once(now)
            except IntegrityError:  # made by another process meanwhile
                self._count = self._once(now)
            with connected(self._engine) as connection:
                others = self._others(connection, now)
        return Beat(before is not None and self._count != before + 1, others)

    def _once(self, now: datetime) -> int:
        """Write the record; return how many heartbeats it has."""
        seen = {"last_seen_up": now, "updated_at": now}
        with connected(self._engine) as connection, connection.begin():
            found = connection.execute(
                select(_COLUMNS.id, _COLUMNS.report_count, _COLUMNS.version)
                .where(self._is_ours)
                .with_for_update()
            ).one_or_none()
            version = self._newest_version(connection, now)
            if found is None:
                connection.execute(insert(_SERVICES).values(**self._new(now), version=version))
                return 1
            count = (found.report_count or 0) + 1
            connection.execute(
                update(_SERVICES)
                .where(_COLUMNS.id == found.id)
                .values(report_count=count, version=version or found.version or 0, **seen)
            )
            return count

    def _new(self, now: datetime) -> dict[str, object]:
        return {
            "uuid": str(uuid4()),
            "host": self._host,
            "binary": BINARY,
            "topic": TOPIC,
            "report_count": 1,
            "disabled": False,
            "forced_down": False,
            "last_seen_up": now,
            "created_at": now,
            "deleted": 0,
        }

    @property
    def _is_ours(self) -> sa.ColumnElement[bool]:
        theirs = (_COLUMNS.host == self._host, _COLUMNS.binary == BINARY, _COLUMNS.deleted == 0)
        return sa.and_(*theirs)

    def _newest_version(self, connection: Connection, now: datetime) -> int:
        """Return the newest version of nova's services that are up; 0 where none is.

        nova compares the versions of its services, to know which of them are of an older release.
        """
        up = select(func.max(_COLUMNS.version)).where(self._is_up(now), sa.not_(self._is_ours))
        return connection.scalar(up) or 0

    def _others(self, connection: Connection, now: datetime) -> frozenset[str]:
        query = select(_COLUMNS.host).where(
            self._is_up(now), _COLUMNS.binary == BINARY, _COLUMNS.host != self._host
        )
        return frozenset(connection.scalars(query))

    def _is_up(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(_COLUMNS.deleted == 0, _COLUMNS.last_seen_up >= now - self._down_after)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def record_of(settings: Settings) -> ServiceRecord | None:
    """Return the record in [database] connection; None where that is not set.

    Raises :class:`ConfigurationError` where it is not the URL of a supported database.
    """
    written = settings.database.connection
    if not written:
        return None
    url = served_url(written, "[database] connection")
    engine = make_engine(url, settings, autocommit=False)
    return ServiceRecord(engine, settings.DEFAULT.host, settings.DEFAULT.service_down_time)

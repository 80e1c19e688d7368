# SPDX-License-Identifier: Apache-2.0
"""The row of this scheduler in nova's table ``services``.

With the row, ``openstack compute service list`` and nova-manage show the scheduler as up. No other
row of nova's databases is written.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from placement_sched.config.settings import Settings
from placement_sched.db.engine import make_engine, parse_url
from placement_sched.db.errors import connect, translate_errors
from placement_sched.nova.databases.tables import services

BINARY, TOPIC = "nova-scheduler", "scheduler"

_COLUMNS = services.c


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """Whether another service writes the row, and other schedulers' hosts."""

    shared: bool
    others: frozenset[str]


class ServiceRecord:
    """The row of nova-scheduler on a host, in the database of ``engine``.

    A service is up while its last heartbeat is younger than ``down_after`` seconds. For use by a
    single thread.
    """

    def __init__(self, engine: Engine, host: str, down_after: int) -> None:
        self._engine, self._host = engine, host
        self._down_after = timedelta(seconds=down_after)
        #: The report count of the row, or None if it is unknown.
        self._count: int | None = None

    def beat(self, now: datetime) -> HeartbeatResult:
        """Write a heartbeat in a new or existing row, or raise Unavailable."""
        previous, self._count = self._count, None
        with translate_errors():
            # If this raises, the row may be written nevertheless, because only the response to
            # COMMIT may be lost. The next heartbeat then has no previous count for comparison.
            try:
                self._count = self._write(now)
            except IntegrityError:  # another process created it at the same time
                self._count = self._write(now)
            with connect(self._engine) as connection:
                hosts_up = self._find_other_hosts(connection, now)
        return HeartbeatResult(previous is not None and self._count != previous + 1, hosts_up)

    def _write(self, now: datetime) -> int:
        heartbeat = {"last_seen_up": now, "updated_at": now}
        with connect(self._engine) as connection, connection.begin():
            row = connection.execute(
                select(_COLUMNS.id, _COLUMNS.report_count, _COLUMNS.version)
                .where(self._is_ours)
                .with_for_update()
            ).one_or_none()
            # nova compares the versions of its services to detect an older release.
            query = select(func.max(_COLUMNS.version)).where(
                self._is_up(now), sa.not_(self._is_ours)
            )
            version = connection.scalar(query) or 0
            if row is None:
                connection.execute(insert(services).values(**self._build_row(now), version=version))
                return 1
            count = (row.report_count or 0) + 1
            connection.execute(
                update(services)
                .where(_COLUMNS.id == row.id)
                .values(report_count=count, version=version or row.version or 0, **heartbeat)
            )
            return count

    def _build_row(self, now: datetime) -> dict[str, object]:
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
        conditions = (_COLUMNS.host == self._host, _COLUMNS.binary == BINARY, _COLUMNS.deleted == 0)
        return sa.and_(*conditions)

    def _find_other_hosts(self, connection: Connection, now: datetime) -> frozenset[str]:
        query = select(_COLUMNS.host).where(
            self._is_up(now), _COLUMNS.binary == BINARY, _COLUMNS.host != self._host
        )
        return frozenset(connection.scalars(query))

    def _is_up(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(_COLUMNS.deleted == 0, _COLUMNS.last_seen_up >= now - self._down_after)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def find_record(settings: Settings) -> ServiceRecord | None:
    """Return the row, None without a URL, or raise ConfigurationError."""
    url_text = settings.database.connection
    if not url_text:
        return None
    url = parse_url(url_text, "[database] connection")
    engine = make_engine(url, settings, autocommit=False)
    return ServiceRecord(engine, settings.DEFAULT.host, settings.DEFAULT.service_down_time)

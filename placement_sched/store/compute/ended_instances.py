# SPDX-License-Identifier: Apache-2.0
"""Ends of instances, with the requests of the instances, for traces."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import orjson
from sqlalchemy import Connection, delete, insert, literal, select

from placement_sched.db import sql
from placement_sched.db.tables import ended_instances, instances
from placement_sched.model.document import Json
from placement_sched.model.grouping import split_batches
from placement_sched.model.instance import Instance
from placement_sched.store.compute.flavors import read_embedded

_COLUMNS = ended_instances.c
#: Columns with the same value as in the record of the instance.
_COPIED = (
    *("uuid", "created_at", "project_id", "user_id", "flavor", "image", "server_group"),
    *("flavor_digest", "request"),
)
_BATCH_SIZE = 500


class EndedInstance(NamedTuple):
    """An instance that ended, without its host, and the time of the end."""

    instance: Instance
    ended_at: datetime


def record(connection: Connection, uuids: Iterable[str], now: datetime) -> None:
    """Record the end of instances that are on a host, before they are deleted."""
    query = select(literal(now), *(instances.c[name] for name in _COPIED))
    query = query.where(instances.c.host.is_not(None))
    for batch in split_batches(sorted(set(uuids)), _BATCH_SIZE):
        ended = query.where(sql.build_in_condition(connection, instances.c.uuid, batch))
        connection.execute(insert(ended_instances).from_select(["ended_at", *_COPIED], ended))


def list_since(connection: Connection, since: datetime) -> list[EndedInstance]:
    """Return the instances that ended since a time, oldest end first."""
    columns = (_COLUMNS[name] for name in ("ended_at", *_COPIED))
    query = select(*columns).where(_COLUMNS.ended_at >= since)
    rows = connection.execute(query.order_by(_COLUMNS.ended_at, _COLUMNS.id)).all()
    digests = {row.flavor_digest for row in rows} - {None}
    flavors = read_embedded(connection, digests) if digests else {}

    def load(text: str | None) -> Json | None:
        return None if text is None else orjson.loads(text)

    return [
        EndedInstance(
            Instance(
                uuid=row.uuid,
                display_name=row.uuid,
                created_at=row.created_at,
                project_id=row.project_id,
                user_id=row.user_id,
                flavor=load(row.flavor) or flavors.get(row.flavor_digest),
                image=load(row.image),
                server_group=row.server_group,
                request=load(row.request),
            ),
            row.ended_at,
        )
        for row in rows
    ]


def purge(connection: Connection, before: datetime) -> None:
    """Delete the records of instances that ended before a time."""
    connection.execute(delete(ended_instances).where(_COLUMNS.ended_at < before))

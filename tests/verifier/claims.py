# SPDX-License-Identifier: Apache-2.0
"""What kept decisions say of where an instance was claimed, and when: for what reports lack.

Only decisions that claimed count. nova-compute takes devices after the decision was answered, so
that a report which is older than the decision has none of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection, select

from placement_sched.db import sql
from placement_sched.db.tables import decision_places, decisions, instances
from placement_sched.model.decision import SELECT, SELECTED
from placement_sched.model.instance import Instance

_DECISIONS, _PLACES, _INSTANCES = decisions.c, decision_places.c, instances.c
_CLAIMED = sa.and_(_DECISIONS.outcome == SELECTED, _DECISIONS.kind == SELECT)
#: What the request of an instance with devices has in it.
_DEVICES = "%pci_passthrough:alias%"


class ClaimedPlace(NamedTuple):
    """Where a decision placed an instance; ``hosts`` are that host and the alternates."""

    decision: str
    at: datetime | None
    host: str | None
    hosts: frozenset[str]
    ignored: frozenset[str]


def claimed_places(
    connection: Connection, uuids: Iterable[str]
) -> Mapping[str, Sequence[ClaimedPlace]]:
    """Return where decisions placed each of these instances, the earliest first.

    What cannot be read of a decision is as if it said nothing.
    """
    columns = (_PLACES.instance_uuid, _PLACES.position, _PLACES.host, _DECISIONS.uuid)
    documents = (_DECISIONS.selections, _DECISIONS.request)
    query = (
        select(*columns, _DECISIONS.created_at, *documents)
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .where(_CLAIMED)
        .order_by(_DECISIONS.id)
    )
    found: dict[str, list[ClaimedPlace]] = {}
    for batch in sql.batches(uuids, sql.AT_ONCE):
        for row in sql.select_in_batches(connection, query, _PLACES.instance_uuid, batch):
            instance, position, host, decision, at, selections, request = row
            hosts = frozenset({host} - {None}) | _claimable_hosts(selections, position)
            place = ClaimedPlace(decision, at, host, hosts, _ignored_hosts(request))
            found.setdefault(instance, []).append(place)
    return found


def allocated_since(one: Instance, places: Sequence[ClaimedPlace], host: str) -> datetime | None:
    """Return from when on an instance has what it has on a host; None where that is not known.

    It is the time of the decision that it is recorded as placed by, where it had nothing of that
    host before: the decision made its record, or moved it away from another host. nova leaves out
    the host that an instance is moved from. Else it is as sure where decisions are known from the
    first one on, which made the record, and none before the last has the host as an alternate.
    """
    number = next(
        (at for at, each in enumerate(places) if each.decision == one.decision_uuid), None
    )
    if number is None or one.created_at is None or one.created_at.tzinfo is not None:
        return None
    last, before = places[number], places[:number]
    if last.at is None:
        return None
    if one.created_at >= last.at:
        return last.at
    if any(host in each.hosts for each in before) or host != last.host:
        return None
    is_known = bool(before) and before[0].at is not None and one.created_at >= before[0].at
    return last.at if is_known or last.ignored - {host} else None


def has_left(connection: Connection, host: str, seen: datetime) -> bool:
    query = (
        select(_DECISIONS.created_at)
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .outerjoin(
            instances, sa.and_(_INSTANCES.uuid == _PLACES.instance_uuid, _INSTANCES.host == host)
        )
        .where(_CLAIMED, _PLACES.host == host, _INSTANCES.id.is_(None))
        .where(_DECISIONS.request.like(_DEVICES))
    )
    found = connection.scalars(query)
    return any(at is None or at <= seen for at in found)


def _claimable_hosts(selections: str, position: int) -> frozenset[str]:
    try:
        chosen = orjson.loads(selections)["selections"][position]
        return frozenset(one["service_host"] for one in chosen)
    except (LookupError, TypeError, ValueError):
        return frozenset()


def _ignored_hosts(request: str) -> frozenset[str]:
    try:
        named: Any = orjson.loads(request)["ignore_hosts"]
        return frozenset(one for one in named if isinstance(one, str))
    except (LookupError, TypeError, ValueError):
        return frozenset()

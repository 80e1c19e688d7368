# SPDX-License-Identifier: Apache-2.0
"""Hosts and times of claims, read from the recorded decisions.

Decisions without a claim are ignored. nova-compute allocates devices after a decision, so a report
that is older than the decision does not count them as used.
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
#: Matches the request of an instance with devices.
_DEVICES = "%pci_passthrough:alias%"


class ClaimedPlace(NamedTuple):
    """The host that a decision chose for an instance. ``hosts`` also has the alternates."""

    decision: str
    at: datetime | None
    host: str | None
    hosts: frozenset[str]
    ignored: frozenset[str]


def claimed_places(
    connection: Connection, uuids: Iterable[str]
) -> Mapping[str, Sequence[ClaimedPlace]]:
    """Return the places of each instance, the earliest decision first.

    A document that cannot be read names no hosts.
    """
    columns = (_PLACES.instance_uuid, _PLACES.position, _PLACES.host, _DECISIONS.uuid)
    documents = (_DECISIONS.selections, _DECISIONS.request)
    query = (
        select(*columns, _DECISIONS.created_at, *documents)
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .where(_CLAIMED)
        .order_by(_DECISIONS.id)
    )
    places: dict[str, list[ClaimedPlace]] = {}
    for batch in sql.batches(uuids, sql.AT_ONCE):
        for row in sql.select_in_batches(connection, query, _PLACES.instance_uuid, batch):
            instance, position, host, decision, at, selections, request = row
            hosts = frozenset({host} - {None}) | _claimable_hosts(selections, position)
            place = ClaimedPlace(decision, at, host, hosts, _ignored_hosts(request))
            places.setdefault(instance, []).append(place)
    return places


def allocated_since(
    instance: Instance, places: Sequence[ClaimedPlace], host: str
) -> datetime | None:
    """Return the time of the first claim of an instance on a host, or None if it is uncertain.

    It is the time of the decision in the instance's record, if the instance cannot have been on the
    host before. That is certain if the decision created the record. It is also certain if no
    earlier decision names the host, and either the decision ignores another host (nova ignores the
    host that an instance leaves) or the decision that created the record still exists.
    """
    number = next(
        (at for at, place in enumerate(places) if place.decision == instance.decision_uuid), None
    )
    if number is None or instance.created_at is None or instance.created_at.tzinfo is not None:
        return None
    last, before = places[number], places[:number]
    if last.at is None:
        return None
    if instance.created_at >= last.at:
        return last.at
    if any(host in place.hosts for place in before) or host != last.host:
        return None
    has_first = bool(before) and before[0].at is not None and instance.created_at >= before[0].at
    return last.at if has_first or last.ignored - {host} else None


def has_instance_left(connection: Connection, host: str, seen: datetime) -> bool:
    query = (
        select(_DECISIONS.created_at)
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .outerjoin(
            instances, sa.and_(_INSTANCES.uuid == _PLACES.instance_uuid, _INSTANCES.host == host)
        )
        .where(_CLAIMED, _PLACES.host == host, _INSTANCES.id.is_(None))
        .where(_DECISIONS.request.like(_DEVICES))
    )
    times = connection.scalars(query)
    return any(at is None or at <= seen for at in times)


def _claimable_hosts(selections: str, position: int) -> frozenset[str]:
    try:
        chosen = orjson.loads(selections)["selections"][position]
        return frozenset(selection["service_host"] for selection in chosen)
    except (LookupError, TypeError, ValueError):
        return frozenset()


def _ignored_hosts(request: str) -> frozenset[str]:
    try:
        hosts: Any = orjson.loads(request)["ignore_hosts"]
        return frozenset(host for host in hosts if isinstance(host, str))
    except (LookupError, TypeError, ValueError):
        return frozenset()

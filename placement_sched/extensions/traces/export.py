# SPDX-License-Identifier: Apache-2.0
"""Traces from recorded decisions and from the records of instances."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from operator import attrgetter

from placement_sched.db.transaction import Connection
from placement_sched.extensions.traces.events import CREATE, DELETE, MOVE, RESIZE, Event
from placement_sched.model.decision import NO_VALID_HOST, SELECT, Decision, DecisionQuery
from placement_sched.model.instance import Instance
from placement_sched.model.instance_request import build_request_document
from placement_sched.scheduler.instance_requests import read_requests
from placement_sched.store import decisions
from placement_sched.store.compute import ended_instances, instances, server_groups

#: Keys of a request that name its servers, which the events do.
_SERVERS = ("instance_uuids", "num_instances")


def export_events(connection: Connection, since: datetime) -> list[Event]:
    """Return the events since a time, oldest first.

    A recorded decision is an event with its request: the first of a server is its create, a later
    decision a resize if the flavor differs, and a move otherwise. A server without a decision is
    created with its recorded request, at the latest at the first moment of the trace if it has
    ended since. Servers that existed before and still exist have no create event.
    """
    live = {record.uuid: record for record in instances.search(connection)}
    ended = ended_instances.list_since(connection, since)
    events = list(_iterate_decisions(connection, since))
    created = {uuid for event in events if event.kind == CREATE for uuid in event.servers}
    requests = read_requests(connection, [uuid for uuid in live if uuid not in created])
    for uuid, record in live.items():
        started = record.created_at or since
        if uuid not in created and started > since and record.host is not None:
            events.append(_build_create(connection, record, requests.get(uuid), started))
    for record, time in ended:
        if record.uuid not in created and record.flavor:
            started = max(record.created_at or since, since)
            events.append(_build_create(connection, record, record.request, started))
            created.add(record.uuid)
        if record.uuid in created:
            events.append(Event(line=0, time=time, kind=DELETE, servers=(record.uuid,)))
    # Sorting is stable: a server is created before it ends, also in the same second.
    return sorted(events, key=attrgetter("time"))


def _iterate_decisions(connection: Connection, since: datetime) -> Iterator[Event]:
    """Yield the events of decisions, oldest first."""
    query = DecisionQuery(kind=SELECT, since=since)
    flavors: dict[str, str | None] = {}
    for summary in reversed(decisions.search(connection, query)):
        decision = decisions.get_by_uuid(connection, summary.uuid)
        uuids = tuple(each.instance for each in decision.instances)
        if uuids and decision.created_at is not None:
            yield _build_event(decision, uuids, decision.created_at, flavors)


def _build_event(
    decision: Decision, uuids: tuple[str, ...], time: datetime, flavors: dict[str, str | None]
) -> Event:
    kind = CREATE
    if uuids[0] in flavors:
        kind = MOVE if flavors[uuids[0]] == decision.flavor else RESIZE
    if decision.outcome != NO_VALID_HOST:
        flavors.update(dict.fromkeys(uuids, decision.flavor))
    return Event(
        line=0,
        time=time,
        kind=kind,
        servers=uuids if kind == CREATE else uuids[:1],
        request={key: value for key, value in decision.request.items() if key not in _SERVERS},
        decision=decision.uuid,
    )


def _build_create(
    connection: Connection, record: Instance, request: Mapping[str, object] | None, time: datetime
) -> Event:
    document = build_request_document(record, request)
    if (uuid := record.server_group) and (group := server_groups.find_by_uuid(connection, uuid)):
        document = {**document, "instance_group": group.as_document()}
    return Event(line=0, time=time, kind=CREATE, servers=(record.uuid,), request=document)

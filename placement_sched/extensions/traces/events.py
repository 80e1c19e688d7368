# SPDX-License-Identifier: Apache-2.0
"""Traces of servers: a JSON event a line, ordered by time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from placement_sched.cli.output import read_text
from placement_sched.errors import Invalid
from placement_sched.model.document import Json, decode, encode
from placement_sched.model.names import canonicalize_uuid
from placement_sched.schemas import parts
from placement_sched.schemas.request_spec import REQUEST_SPEC
from placement_sched.schemas.validation import Schema, describe_fault, find_most_helpful

CREATE, DELETE, RESIZE, MOVE = KINDS = ("create", "delete", "resize", "move")
_COMMON: Json = {"time": parts.TEXT, "event": {"enum": list(KINDS)}}
_REQUESTED: Json = {"request": REQUEST_SPEC, "decision": parts.UUID}
_SERVER: Json = {"server": parts.UUID}
#: The schema of an event of each kind. ``instance_uuids`` of a create event names its servers.
_SCHEMAS = {
    CREATE: Schema(
        parts.build_object_schema({**_COMMON, **_REQUESTED}, "time", "event", "request")
    ),
    DELETE: Schema(parts.build_object_schema({**_COMMON, **_SERVER}, "time", "event", "server")),
    RESIZE: Schema(
        parts.build_object_schema(
            {**_COMMON, **_SERVER, **_REQUESTED}, "time", "event", "server", "request"
        )
    ),
    MOVE: Schema(
        parts.build_object_schema({**_COMMON, **_SERVER, **_REQUESTED}, "time", "event", "server")
    ),
}
_ANY = Schema({**parts.build_object_schema(_COMMON, "event"), "additionalProperties": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a trace.

    ``servers`` are the uuids of the servers that are created, deleted, resized or moved: several
    only if a request creates them together. ``request`` is a request spec as in
    ``POST /select_destinations``, or None for a move with the server's last request. ``decision``
    is the uuid of the recorded decision, which seeds the random choices. ``time`` is naive UTC.
    """

    line: int
    time: datetime
    kind: str
    servers: tuple[str, ...]
    request: Json | None = None
    decision: str | None = None

    def as_json(self) -> Json:
        """Return the event as a JSON object of a trace."""
        document: Json = {"time": f"{self.time.isoformat(timespec='seconds')}Z", "event": self.kind}
        if self.kind != CREATE:
            document["server"] = self.servers[0]
        if self.request is not None:
            uuids = {"instance_uuids": list(self.servers)} if self.kind == CREATE else {}
            document["request"] = {**self.request, **uuids}
        return document | ({"decision": self.decision} if self.decision else {})


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a file, and the number of invalid lines that were skipped."""

    file: str
    events: tuple[Event, ...]
    skipped: int = 0

    @property
    def created(self) -> frozenset[str]:
        """Return the uuids of the servers that the trace creates."""
        return frozenset(
            uuid for event in self.events if event.kind == CREATE for uuid in event.servers
        )


class TraceFaults:
    """Faults of a trace: the first is an error, or all are counted.

    ``count`` is the number of faults if ``skips`` is set.
    """

    def __init__(self, file: str, *, skips: bool) -> None:
        self.file, self.count = file, 0
        self._skips = skips

    def add(self, line: int, problem: str) -> None:
        """Count a fault, or raise :class:`Invalid` with file and line."""
        if not self._skips:
            raise Invalid(f"{self.file}:{line}: {problem}")
        self.count += 1


def read_trace(file: str, *, skip_invalid: bool = False) -> Trace:
    """Read a trace (``-``: standard input).

    Raises :class:`Invalid` with file and line for an invalid event, events that are not ordered by
    time, a create event of an existing server, another event of a server that does not exist yet or
    no longer, and for a trace without events. With ``skip_invalid``, such events are left out.
    """
    faults = TraceFaults("standard input" if file == "-" else file, skips=skip_invalid)
    events: list[Event] = []
    for line, text in enumerate(read_text(file).splitlines(), 1):
        if text.isspace() or not text:
            continue
        try:
            events.append(_read_event(decode(text), line))
        except (Invalid, ValueError) as problem:
            reason = problem.detail if isinstance(problem, Invalid) else f"not JSON: {problem}"
            faults.add(line, reason)
    valid = tuple(_select_ordered(events, faults))
    if not valid:
        raise Invalid(f"{faults.file}: the trace has no events")
    return Trace(faults.file, valid, faults.count)


def _read_event(document: Any, line: int) -> Event:
    _check(_ANY, document)
    kind = document["event"]
    _check(_SCHEMAS[kind], document)
    try:
        time = read_time(document["time"])
    except ValueError:
        raise Invalid(f"{document['time']!r} is no time in ISO 8601 (at $.time)") from None
    request = document.get("request")
    uuids = [document["server"]] if kind != CREATE else request.get("instance_uuids")
    if not uuids:
        raise Invalid("'instance_uuids' is required: the uuids of the servers (at $.request)")
    return Event(
        line=line,
        time=time,
        kind=kind,
        servers=tuple(map(canonicalize_uuid, uuids)),
        request=request,
        decision=document.get("decision"),
    )


def read_time(text: str) -> datetime:
    """Read a time in ISO 8601 as naive UTC, or raise :class:`ValueError`."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _check(schema: Schema, document: Any) -> None:
    if not schema.is_valid(document) and (fault := find_most_helpful(schema.find_faults(document))):
        data = fault.as_data()
        raise Invalid(f"{describe_fault(data)} (at {data['path']})")


def _select_ordered(events: Sequence[Event], faults: TraceFaults) -> Iterator[Event]:
    """Yield the events whose order is possible."""
    first_lines: dict[str, int] = {}
    for event in events:
        for uuid in event.servers if event.kind == CREATE else ():
            first_lines.setdefault(uuid, event.line)
    existing, gone = set[str](), set[str]()
    time: datetime | None = None
    for event in events:
        problem = ""
        if time is not None and event.time < time:
            problem = f"the event at {event.time} follows an event at {time}: sort them by time"
        for uuid in () if problem else event.servers:
            problem = problem or _find_problem(event, uuid, existing, gone, first_lines)
        if problem:
            faults.add(event.line, problem)
            continue
        time = event.time
        if event.kind == CREATE:
            existing.update(event.servers)
            gone.difference_update(event.servers)
        elif event.kind == DELETE:
            gone.update(event.servers)
            existing.difference_update(event.servers)
        yield event


def _find_problem(
    event: Event, uuid: str, existing: set[str], gone: set[str], first_lines: dict[str, int]
) -> str:
    if event.kind == CREATE:
        return f"server {uuid} exists already" if uuid in existing else ""
    if uuid in gone:
        return f"server {uuid} was deleted before"
    if uuid not in existing and uuid in first_lines:
        return f"the {event.kind} of server {uuid} precedes its create in line {first_lines[uuid]}"
    return ""


def format_trace(events: Iterable[Event]) -> str:
    """Return the text of a trace."""
    return "".join(f"{encode(event.as_json()).decode()}\n" for event in events)

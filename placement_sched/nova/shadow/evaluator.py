"""Evaluates each call of nova's at once, claims nothing, and records it as a decision."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Self
from uuid import uuid4

import orjson
from oslo_log import log

from placement_sched.db.transaction import Connection
from placement_sched.errors import Error, Invalid, Unavailable
from placement_sched.model import shadow_result
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import Clock
from placement_sched.model.decision import (
    NO_VALID_HOST,
    SHADOW,
    Decision,
    PlacedInstance,
    Selection,
    digest_of,
)
from placement_sched.model.document import Document, Json
from placement_sched.model.explanation import View
from placement_sched.model.names import read_uuid
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.model.shadow_result import ShadowResult
from placement_sched.nova.request_spec import document_of
from placement_sched.nova.shadow.comparing import (
    MOST_BEST,
    MOST_IN_ALL,
    MOST_PASSED,
    MOST_REFUSED,
    HostName,
    Notes,
    Step,
    refused_in,
)
from placement_sched.scheduler.decisions import decided
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.request import without_false_rebuild
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.selection import Look, Run
from placement_sched.store import decisions, shadow_results
from placement_sched.store.compute import compute_nodes, instances
from placement_sched.store.placement import allocations, resource_providers

SELECT_DESTINATIONS = "select_destinations"
#: The major version of the envelope that is understood.
_ENVELOPE = "2"
#: The major version of nova's scheduler API.
_API = "4"
_LONGEST = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaCall:
    """A call of ``select_destinations``, as conductor sent it.

    ``spec`` is the RequestSpec as a primitive. ``instances`` are None where the caller names none.
    """

    spec: Json
    instances: tuple[str, ...] | None = None
    alternates: bool = False
    ids: RequestIds = NO_REQUEST


def read_call(body: object) -> NovaCall | None:
    """Return the call that a message holds; None for any other message of nova-scheduler's topic.

    ``body`` is a mapping, or its JSON. Raises :class:`Invalid` for what cannot be read.
    """
    message = _inside(body)
    method = message.get("method")
    if not isinstance(method, str):
        raise Invalid("the message names no method")
    if method != SELECT_DESTINATIONS:
        return None
    version = str(message.get("version", "1.0"))
    if version.partition(".")[0] != _API:
        shown = version if len(version) < 10 else "another"
        raise Invalid(f"the call is of version {shown} of nova's scheduler API, not {_API}.x")
    arguments = message.get("args")
    if not isinstance(arguments, dict):
        raise Invalid("the call has no arguments")
    spec = arguments.get("spec_obj")
    if not isinstance(spec, dict):
        raise Invalid("the call has no RequestSpec (spec_obj)")
    return NovaCall(
        spec=spec,
        instances=_uuids(arguments.get("instance_uuids")),
        alternates=bool(arguments.get("return_objects") and arguments.get("return_alternates")),
        ids=RequestIds(
            _text(message, "_context_request_id"), _text(message, "_context_global_request_id")
        ),
    )


def _inside(body: object) -> Mapping[str, Any]:
    """Return the message inside the envelope; as it is where there is no envelope."""
    outer = _mapping(body)
    if "oslo.message" not in outer:
        return outer
    version = str(outer.get("oslo.version", ""))
    if version.partition(".")[0] != _ENVELOPE:
        shown = version if len(version) < 10 else "another"
        raise Invalid(f"the envelope is of version {shown}, not {_ENVELOPE}.x")
    return _mapping(outer["oslo.message"])


def _mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        try:
            value = orjson.loads(value)
        except ValueError:
            raise Invalid("the message is not JSON") from None
    if not isinstance(value, dict):
        raise Invalid("the message is not a JSON object")
    return value


def _uuids(value: object) -> tuple[str, ...] | None:
    if not value:
        return None
    if not isinstance(value, list):
        raise Invalid("instance_uuids is not a list")
    found = [read_uuid(one) if isinstance(one, str) else None for one in value]
    if None in found:
        raise Invalid("instance_uuids has what is not a uuid")
    return tuple(one for one in found if one is not None)


def _text(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    return value[:_LONGEST] if isinstance(value, str) and value else None


#: The hosts on which each instance holds allocations; those that hold none are not there.
Held = Mapping[str, frozenset[HostName]]
NONE_HELD: Held = MappingProxyType({})


def held_by(connection: Connection, uuids: Collection[str]) -> Held:
    """Return on which hosts these instances hold allocations; at most three statements.

    A provider that is not of a known compute node is left out.
    """
    held = allocations.of_consumers(connection, uuids)
    if not held:
        return NONE_HELD
    providers = resource_providers.by_uuids(connection, {one.provider_uuid for one in held})
    roots = {uuid: one.root_uuid for uuid, one in providers.items()}
    nodes = compute_nodes.by_uuids(connection, set(roots.values()))
    names = {node.uuid: HostName(node.host, node.hypervisor_hostname) for node in nodes}
    found: dict[str, set[HostName]] = {}
    for one in held:
        if name := names.get(roots.get(one.provider_uuid, "")):
            found.setdefault(one.consumer.uuid, set()).add(name)
    return {uuid: frozenset(hosts) for uuid, hosts in found.items()}


@dataclass(frozen=True, slots=True)
class Before:
    """Where instances are before nova places them, and for which it has claimed already.

    ``sources`` are the hosts of those that are on one, by record. ``held`` are hosts on which an
    instance keeps its allocations while it is placed: an evacuated one those of its source. What it
    holds elsewhere already is nova's claim for this very request: it is ``claimed``.
    """

    sources: Mapping[str, str]
    held: Held
    claimed: frozenset[str]

    @classmethod
    def of(cls, connection: Connection, uuids: Collection[str]) -> Self:
        """Return where these instances are, as recorded and by their allocations."""
        held = held_by(connection, uuids)
        recorded = instances.by_uuids(connection, uuids)
        sources = {one.uuid: one.host for one in recorded if one.host}
        kept = {
            uuid: frozenset(one for one in hosts if one.host == sources.get(uuid))
            for uuid, hosts in held.items()
        }
        claimed = frozenset(uuid for uuid, hosts in held.items() if hosts - kept[uuid])
        return cls(sources, kept, claimed)

    def claimed_now(self, now: Held) -> frozenset[str]:
        """Return the instances for which nova has claimed since, or had before."""
        new = {uuid for uuid, hosts in now.items() if hosts - self.held.get(uuid, frozenset())}
        return self.claimed | new


LOG = log.getLogger(__name__)

#: No more characters are kept of what is wrong with a request.
_DETAIL = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedRequest:
    """A request of nova's whose outcome is awaited.

    ``since`` is when it came, naive UTC. ``before`` is where its instances were.
    """

    decision: str
    instances: tuple[str, ...]
    request_id: str | None
    since: datetime
    before: Before
    is_rebuild: bool = False


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluates requests with the scheduler of this process.

    ``refresh`` brings what is recorded of the cloud up to date, see ``nova/sync/follower.py``.
    """

    scheduler: Scheduler
    refresh: Callable[[], None]
    clock: Clock

    def evaluate(self, call: NovaCall) -> AwaitedRequest | None:
        """Evaluate and record a call; return what is to be awaited.

        None where it cannot be evaluated, which is recorded and logged as well. Raises
        :class:`Unavailable` where this service's own database does not answer.
        """
        since = self.clock()
        self.refresh()
        try:
            document = document_of(call.spec, call.instances)
            try:
                return self._evaluated(call, document, since)
            except Invalid as refused:  # nova finds no host for what cannot be
                return self._refused(call, document, refused, since)
        except Unavailable:
            raise
        except Error as failure:
            LOG.warning("%s could not be evaluated: %s", call.ids.request_id, failure.detail)
            self._record_failure(call, failure, since)
            return None

    def _evaluated(self, call: NovaCall, document: Document, since: datetime) -> AwaitedRequest:
        scheduler = self.scheduler
        document = without_false_rebuild(scheduler.database, document)
        request = scheduler.reader.read(document, alternates=call.alternates)
        request = scheduler.reader.checked(request)
        uuids = request.spec.instance_uuids
        watch = _Watch(request.settings.filter_scheduler.host_subset_size, len(uuids))
        with scheduler.database.read() as connection:
            before = Before.of(connection, uuids)
        with scheduler.evaluated(request, watch) as (connection, run):
            late = before.claimed_now(held_by(connection, uuids))
            funnel = funnel_of(run, connection, View(max_rejected=MOST_REFUSED))
        notes = Notes(
            steps=tuple(watch.steps) if run.selections else (),
            passed=_passed(run),
            refused=refused_in(funnel),
            late=late,
            obstacle=None if funnel.obstacle is None else funnel.obstacle.reason,
        )
        decision = decided(run, funnel, SHADOW, call.ids)
        results = _results(decision, uuids, notes, run.selections)
        self._record(decision, results, since)
        return AwaitedRequest(
            decision=decision.uuid,
            instances=uuids,
            request_id=call.ids.request_id,
            since=since,
            before=before,
            is_rebuild=request.spec.is_rebuild,
        )

    def _refused(
        self, call: NovaCall, document: Document, refused: Invalid, since: datetime
    ) -> AwaitedRequest:
        """Record a request that cannot be, as one without a host, and with what is wrong."""
        uuids = tuple(document.get("instance_uuids") or ())
        if not uuids:
            raise refused
        with self.scheduler.database.read() as connection:
            before = Before.of(connection, uuids)
        uuid = str(uuid4())
        decision = Decision(
            uuid=uuid,
            outcome=NO_VALID_HOST,
            project_id=document.get("project_id"),
            digest=digest_of(document),
            request=document,
            answer={"decision": uuid, "policy": DEFAULT_POLICY, "selections": []},
            places=tuple(map(PlacedInstance, uuids)),
            policy=DEFAULT_POLICY,
            kind=SHADOW,
            request_ids=call.ids,
        )
        notes = Notes(obstacle=refused.detail[:_DETAIL])
        results = _results(decision, uuids, notes, ())
        self._record(decision, results, since)
        return AwaitedRequest(
            decision=uuid,
            instances=uuids,
            request_id=call.ids.request_id,
            since=since,
            before=before,
        )

    def _record(self, decision: Decision, results: Sequence[ShadowResult], now: datetime) -> None:
        work = partial(_record, decision=decision, results=results, now=now)
        self.scheduler.database.write(work)
        self.scheduler.claims.retention.made_one(self.clock())

    def _record_failure(self, call: NovaCall, failure: Error, now: datetime) -> None:
        """Record that a call could not be evaluated, with its instances; without a decision."""
        detail = {"why": failure.detail[:_DETAIL], "request_id": call.ids.request_id}
        uuid = str(uuid4())
        results = [
            ShadowResult(
                decision=uuid,
                position=position,
                instance=instance,
                verdict=shadow_result.FAILED,
                detail=detail,
            )
            for position, instance in enumerate(call.instances or (str(uuid4()),))
        ]
        self.scheduler.database.write(partial(shadow_results.record, results=results, now=now))


class _Watch:
    """Notes how each instance of a request was placed, while it is."""

    def __init__(self, subset: int, instances: int) -> None:
        self._subset = max(subset, 1)
        self._most = max(min(MOST_BEST, MOST_IN_ALL // max(instances, 1)), 1)
        self.steps: list[Step] = []

    def __call__(self, look: Look) -> None:
        self.steps.append(Step.of(look.ordered, self._subset, self._most))


def _passed(run: Run) -> dict[HostName, float]:
    """Return the weight of each host that passed for the first instance, the heaviest first."""
    ordered = run.choice.first.ordered if run.choice else ()
    some = sorted(ordered, key=lambda host: -host.weight)[:MOST_PASSED]
    return {HostName(host.obj.host, host.obj.nodename): host.weight for host in some}


def _results(
    decision: Decision,
    uuids: tuple[str, ...],
    notes: Notes,
    selections: Sequence[Sequence[Selection]],
) -> list[ShadowResult]:
    """Return what is recorded of each instance: what was noted of all stands with the first."""
    hosts = [best.service_host for best, *_ in selections]
    results = [
        ShadowResult(
            decision=decision.uuid,
            position=position,
            instance=uuid,
            our_host=hosts[position] if hosts else None,
        )
        for position, uuid in enumerate(uuids)
    ]
    return [replace(results[0], detail={"notes": notes.as_json()}), *results[1:]]


def _record(
    connection: Connection, decision: Decision, results: Sequence[ShadowResult], now: datetime
) -> None:
    decisions.record(connection, decision, now)
    shadow_results.record(connection, results, now)

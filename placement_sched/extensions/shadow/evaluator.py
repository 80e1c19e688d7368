# SPDX-License-Identifier: Apache-2.0
"""Evaluation of nova's scheduler calls as decisions without claims."""

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
from placement_sched.explain.values import ExplanationView
from placement_sched.extensions.shadow import store
from placement_sched.extensions.shadow.comparison import (
    EvaluationRecord,
    HostName,
    InstanceStep,
    get_host_name,
    map_rejections,
)
from placement_sched.limits import (
    MAX_SHADOW_BEST,
    MAX_SHADOW_BEST_OF_REQUEST,
    MAX_SHADOW_PASSED,
    MAX_SHADOW_REJECTED,
)
from placement_sched.model import shadow_result
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import Clock
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.decision import (
    NO_VALID_HOST,
    SHADOW,
    Decision,
    PlacedInstance,
    Selection,
    compute_digest,
)
from placement_sched.model.document import Document, Json
from placement_sched.model.shadow_result import ShadowResult
from placement_sched.nova.messaging import read_text
from placement_sched.nova.request_spec import build_document, read_instance_uuids
from placement_sched.scheduler.decisions import make_decision
from placement_sched.scheduler.explain.funnel import build_funnel
from placement_sched.scheduler.request import drop_invalid_rebuild
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.selection import FilterWeighResult, SchedulingRun
from placement_sched.store import decisions
from placement_sched.store.compute import compute_nodes, instances
from placement_sched.store.placement import allocations, resource_providers

LOG = log.getLogger(__name__)

SELECT_DESTINATIONS = "select_destinations"
#: The supported major version of oslo.messaging's envelope.
_ENVELOPE = "2"
#: The supported major version of nova's scheduler API.
_API = "4"
#: Maximum length of a recorded error, in characters.
_MAX_DETAIL_LENGTH = 1000

#: The hosts on which instances hold allocations, by instance uuid.
HostsByInstance = Mapping[str, frozenset[HostName]]
NO_HOSTS: HostsByInstance = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaCall:
    """A call of ``select_destinations`` by nova-conductor.

    ``spec`` is the RequestSpec as a primitive. ``instances`` is None if the caller names none.
    """

    spec: Json
    instances: tuple[str, ...] | None = None
    alternates: bool = False
    ids: RequestIds = NO_REQUEST


def read_call(body: object) -> NovaCall | None:
    """Parse a call of ``select_destinations``, or return None for other calls.

    ``body`` is a mapping, or its JSON. Raises :class:`Invalid` if the message is malformed.
    """
    message = _unwrap(body)
    method = message.get("method")
    if not isinstance(method, str):
        raise Invalid("the message names no method")
    if method != SELECT_DESTINATIONS:
        return None
    version = str(message.get("version", "1.0"))
    if version.partition(".")[0] != _API:
        number = version if len(version) < 10 else "unknown"
        raise Invalid(f"the call has version {number} of nova's scheduler API, not {_API}.x")
    arguments = message.get("args")
    if not isinstance(arguments, dict):
        raise Invalid("the call has no arguments")
    spec = arguments.get("spec_obj")
    if not isinstance(spec, dict):
        raise Invalid("the call has no RequestSpec (spec_obj)")
    uuids = arguments.get("instance_uuids")
    return NovaCall(
        spec=spec,
        instances=tuple(read_instance_uuids(uuids)) if uuids else None,
        alternates=bool(arguments.get("return_objects") and arguments.get("return_alternates")),
        ids=RequestIds(
            read_text(message, "_context_request_id"),
            read_text(message, "_context_global_request_id"),
        ),
    )


def _unwrap(body: object) -> Mapping[str, Any]:
    """Return the message in an envelope, or the body if it has no envelope."""
    outer = _parse_mapping(body)
    if "oslo.message" not in outer:
        return outer
    version = str(outer.get("oslo.version", ""))
    if version.partition(".")[0] != _ENVELOPE:
        number = version if len(version) < 10 else "unknown"
        raise Invalid(f"the envelope has version {number}, not {_ENVELOPE}.x")
    return _parse_mapping(outer["oslo.message"])


def _parse_mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        try:
            value = orjson.loads(value)
        except ValueError:
            raise Invalid("the message is not JSON") from None
    if not isinstance(value, dict):
        raise Invalid("the message is not a JSON object")
    return value


def map_allocated_hosts(connection: Connection, uuids: Collection[str]) -> HostsByInstance:
    """Map instances to the hosts of their allocations.

    Providers that belong to no recorded compute node are left out.
    """
    rows = allocations.list_by_consumers(connection, uuids)
    if not rows:
        return NO_HOSTS
    providers = resource_providers.map_by_uuid(connection, {row.provider_uuid for row in rows})
    roots = {uuid: provider.root_uuid for uuid, provider in providers.items()}
    nodes = compute_nodes.list_by_uuids(connection, set(roots.values()))
    names = {node.uuid: HostName(node.host, node.hypervisor_hostname) for node in nodes}
    hosts_by_instance: dict[str, set[HostName]] = {}
    for row in rows:
        if name := names.get(roots.get(row.provider_uuid, "")):
            hosts_by_instance.setdefault(row.consumer.uuid, set()).add(name)
    return {uuid: frozenset(hosts) for uuid, hosts in hosts_by_instance.items()}


@dataclass(frozen=True, slots=True)
class AllocationsBefore:
    """Hosts and claims that instances have before nova places them.

    ``sources`` are the recorded hosts. ``held`` are hosts with allocations that an instance keeps
    while it is placed, such as the source of an evacuation. ``claimed`` are the instances with
    allocations on other hosts: nova has already claimed for the request.
    """

    sources: Mapping[str, str]
    held: HostsByInstance
    claimed: frozenset[str]

    @classmethod
    def read_from(cls, connection: Connection, uuids: Collection[str]) -> Self:
        """Read the hosts of instances, from their records and allocations."""
        held = map_allocated_hosts(connection, uuids)
        recorded = instances.list_by_uuids(connection, uuids)
        sources = {instance.uuid: instance.host for instance in recorded if instance.host}
        retained = {
            uuid: frozenset(host for host in hosts if host.host == sources.get(uuid))
            for uuid, hosts in held.items()
        }
        claimed = frozenset(uuid for uuid, hosts in held.items() if hosts - retained[uuid])
        return cls(sources, retained, claimed)

    def find_claimed(self, now: HostsByInstance) -> frozenset[str]:
        """Return the instances that have allocations from nova's claims.

        ``now`` maps instances to the hosts of their current allocations.
        """
        new = {uuid for uuid, hosts in now.items() if hosts - self.held.get(uuid, frozenset())}
        return self.claimed | new


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedRequest:
    """A request of nova whose outcome is still open.

    ``since`` is the time of arrival, naive UTC. ``before`` is the state before nova placed the
    instances.
    """

    decision: str
    instances: tuple[str, ...]
    request_id: str | None
    since: datetime
    before: AllocationsBefore
    is_rebuild: bool = False


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluator of nova's requests, with the scheduler of this process.

    ``refresh`` syncs the records with nova's databases, see ``nova/sync/follower.py``.
    """

    scheduler: Scheduler
    refresh: Callable[[], None]
    clock: Clock

    def evaluate(self, call: NovaCall) -> AwaitedRequest | None:
        """Evaluate and record a call, and return the request to wait for.

        Returns None if the call cannot be evaluated, which is recorded and logged. Raises
        :class:`Unavailable` if this service's own database does not answer.
        """
        since = self.clock()
        self.refresh()
        try:
            document = build_document(call.spec, call.instances)
            try:
                return self._evaluate_document(call, document, since)
            except Invalid as error:  # nova finds no host for an invalid request
                return self._record_rejection(call, document, error, since)
        except Unavailable:
            raise
        except Error as failure:
            LOG.warning("%s could not be evaluated: %s", call.ids.request_id, failure.detail)
            self._record_failure(call, failure, since)
            return None

    def _evaluate_document(
        self, call: NovaCall, document: Document, since: datetime
    ) -> AwaitedRequest:
        scheduler = self.scheduler
        document = drop_invalid_rebuild(scheduler.database, document)
        request = scheduler.reader.read(document, alternates=call.alternates)
        request = scheduler.reader.validate(request)
        uuids = request.spec.instance_uuids
        subset = max(request.settings.filter_scheduler.host_subset_size, 1)
        limit = max(min(MAX_SHADOW_BEST, MAX_SHADOW_BEST_OF_REQUEST // max(len(uuids), 1)), 1)
        steps: list[InstanceStep] = []

        def record_step(result: FilterWeighResult) -> None:
            steps.append(InstanceStep.from_weighed_hosts(result.ordered, subset, limit))

        with scheduler.database.read() as connection:
            before = AllocationsBefore.read_from(connection, uuids)
        with scheduler.source.read() as connection:
            run = scheduler.evaluate(connection, request, watch=record_step)
            late = before.find_claimed(map_allocated_hosts(connection, uuids))
            funnel = build_funnel(
                run, connection, ExplanationView(max_rejected=MAX_SHADOW_REJECTED)
            )
        notes = EvaluationRecord(
            steps=tuple(steps) if run.selections else (),
            passed=_map_passed_weights(run),
            rejected=map_rejections(funnel),
            late=late,
            obstacle=None if funnel.obstacle is None else funnel.obstacle.reason,
        )
        decision = make_decision(run, funnel, SHADOW, call.ids)
        results = _build_results(decision, uuids, notes, run.selections)
        self._record(decision, results, since)
        return AwaitedRequest(
            decision=decision.uuid,
            instances=uuids,
            request_id=call.ids.request_id,
            since=since,
            before=before,
            is_rebuild=request.spec.is_rebuild,
        )

    def _record_rejection(
        self, call: NovaCall, document: Document, error: Invalid, since: datetime
    ) -> AwaitedRequest:
        """Record an invalid request as a request without a valid host."""
        uuids = tuple(document.get("instance_uuids") or ())
        if not uuids:
            raise error
        with self.scheduler.database.read() as connection:
            before = AllocationsBefore.read_from(connection, uuids)
        uuid = str(uuid4())
        decision = Decision(
            uuid=uuid,
            outcome=NO_VALID_HOST,
            project_id=document.get("project_id"),
            digest=compute_digest(document),
            request=document,
            result={"decision": uuid, "policy": DEFAULT_POLICY, "selections": []},
            instances=tuple(map(PlacedInstance, uuids)),
            policy=DEFAULT_POLICY,
            kind=SHADOW,
            request_ids=call.ids,
        )
        notes = EvaluationRecord(obstacle=error.detail[:_MAX_DETAIL_LENGTH])
        results = _build_results(decision, uuids, notes, ())
        self._record(decision, results, since)
        return AwaitedRequest(
            decision=uuid,
            instances=uuids,
            request_id=call.ids.request_id,
            since=since,
            before=before,
        )

    def _record(self, decision: Decision, results: Sequence[ShadowResult], now: datetime) -> None:
        def write(connection: Connection) -> None:
            decisions.record(connection, decision, now)
            store.record(connection, results, now)

        self.scheduler.database.write(write)

    def _record_failure(self, call: NovaCall, failure: Error, now: datetime) -> None:
        """Record that a call could not be evaluated.

        There is a record for each of its instances, without a decision.
        """
        detail = {"why": failure.detail[:_MAX_DETAIL_LENGTH], "request_id": call.ids.request_id}
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
        self.scheduler.database.write(partial(store.record, results=results, now=now))


def _map_passed_weights(run: SchedulingRun) -> dict[HostName, float]:
    """Map hosts that passed for the first instance to weights, best first."""
    ordered = run.choice.first.ordered if run.choice else ()
    heaviest = sorted(ordered, key=lambda host: -host.weight)[:MAX_SHADOW_PASSED]
    return {get_host_name(host): host.weight for host in heaviest}


def _build_results(
    decision: Decision,
    uuids: tuple[str, ...],
    notes: EvaluationRecord,
    selections: Sequence[Sequence[Selection]],
) -> list[ShadowResult]:
    """Build the results to record.

    The first result has the :class:`EvaluationRecord` of the whole request.
    """
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

# SPDX-License-Identifier: Apache-2.0
"""Claims of selected hosts, recorded together with their decisions.

A claim makes the allocations of all instances in a call, also if the call has several requests. If
any instance does not fit, no allocation is made.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from oslo_log import log

from placement_sched import errors
from placement_sched.config.settings import Settings
from placement_sched.db.errors import MOVED
from placement_sched.db.failover import get_epoch
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import ConcurrentUpdate
from placement_sched.explain.phrases import describe_refused_claim
from placement_sched.model.clock import Clock, measure
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.decision import NO_CLAIM, SELECT, Decision, SchedulingResult
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.instance import Instance
from placement_sched.model.instance_request import select_request
from placement_sched.model.provider import INSTANCE_TYPE, Allocation, ConsumerClaim
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.request_stats import get_request_stats
from placement_sched.scheduler.caches import NodeHistory
from placement_sched.scheduler.decisions import build_result, make_decision
from placement_sched.scheduler.explain.funnel import build_funnel
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.scheduler.spread import check_spread
from placement_sched.store import change_counters, decisions
from placement_sched.store.compute import host_aggregates, instances, server_groups
from placement_sched.store.placement import allocations

LOG = log.getLogger(__name__)

#: Maximum number of other placements that a claim tries after a conflict.
_MAX_FALLBACKS = 20


class ClaimMode(Enum):
    """The allocations that are made for a selection.

    ``FOR_MOVE`` adds to the allocations of instances, as nova does for an evacuation: until the
    move has ended, an instance has allocations on the old and on the new host.
    """

    NONE = "none"
    NEW = "new"
    FOR_MOVE = "for_move"

    @property
    def decision_kind(self) -> str:
        """Return the kind of the recorded decisions."""
        return NO_CLAIM if self is ClaimMode.NONE else SELECT


#: A run with a placement for each instance, and the decision about it.
_DecidedRun = tuple[SchedulingRun, Decision]


def _decide(run: SchedulingRun, ids: RequestIds, kind: str = SELECT) -> _DecidedRun:
    return run, make_decision(run, build_funnel(run, None), kind, ids)


@dataclass(eq=False, slots=True)
class Claims:
    """Writer of claims and decisions."""

    database: Database
    settings: Settings
    clock: Clock
    node_history: NodeHistory

    def find_existing_claim(
        self, spec: RequestSpec, digest: str, claiming: ClaimMode, ids: RequestIds = NO_REQUEST
    ) -> SchedulingResult | None:
        """Return the result of an equal request that was claimed, or None.

        ``digest`` identifies equal requests. With ``ClaimMode.FOR_MOVE``, equal requests must also
        share a request id. Raises :class:`Conflict` if new instances have allocations from another
        request. A rebuild has no claim, because the instance keeps its allocations.
        """
        if spec.is_rebuild or claiming is ClaimMode.NONE:
            return None
        with self.database.read() as connection:
            existing = allocations.list_by_consumers(connection, spec.instance_uuids)
            recorded = (
                decisions.map_by_instance(connection, spec.instance_uuids) if existing else {}
            )
        if not existing:
            return None
        if claiming is ClaimMode.FOR_MOVE:
            earlier = _find_added(spec.instance_uuids, recorded, existing, digest, ids)
            return SchedulingResult.from_json(earlier.result) if earlier else None
        allocated = {allocation.consumer.uuid for allocation in existing}
        by_uuid = {decision.uuid: decision for decision in recorded.values()}
        if len(by_uuid) == 1 and recorded.keys() == allocated == set(spec.instance_uuids):
            (decision,) = by_uuid.values()
            if decision.digest == digest and _is_held(decision, spec.instance_uuids, existing):
                return SchedulingResult.from_json(decision.result)
        raise errors.Conflict(
            f"instance {min(allocated)} already has allocations from another request",
            code="scheduler.instance_placed",
        )

    def claim(
        self, runs: Sequence[SchedulingRun], ids: RequestIds, claiming: ClaimMode
    ) -> list[SchedulingResult]:
        """Allocate the selections of runs, and record the decisions.

        Everything is written in a single transaction. If the host of a single instance has lost its
        capacity, the best other placement is allocated. With ``ClaimMode.NONE``, and for a rebuild,
        the decisions are only recorded. Raises :class:`CapacityExceeded` if no placement has
        capacity, and :class:`ConcurrentUpdate` if a provider, server group or zone has changed
        since the selection.
        """
        if claiming is ClaimMode.NONE or runs[0].request.spec.is_rebuild:
            recorded = [_decide(run, ids, claiming.decision_kind) for run in runs]
            for _, decision in recorded:
                self.record(decision)
            return [build_result(run, decision) for run, decision in recorded]
        for run in runs:
            _check_examined(run)
        with measure(get_request_stats().stages, "claim"):
            now = self.clock()
            selected = [_decide(run, ids) for run in runs]
            claimed = self.database.claim(
                lambda connection: self._claim(connection, selected, claiming, now)
            )
        if any(new is not old for new, old in zip(claimed, selected, strict=True)):
            get_request_stats().conflicts[MOVED] += 1
        for run, _ in claimed:
            if run.request.plugins.driver.caches_states:
                self.node_history.record_placements(
                    (each.selection.compute_node_uuid, each.spec)
                    for each in run.list_placed_instances()
                )
        return [build_result(run, decision) for run, decision in claimed]

    def record(self, decision: Decision) -> None:
        """Record a decision without a claim, and only log a failed write."""
        try:
            self.record_or_raise(decision)
        except errors.Unavailable as failure:
            LOG.warning("Decision %s is not recorded: %s", decision.uuid, failure.detail)

    def record_or_raise(self, decision: Decision) -> None:
        """Record a decision without a claim, or raise :class:`Unavailable`."""
        now = self.clock()
        self.database.write(lambda connection: decisions.record(connection, decision, now))

    def _claim(
        self,
        connection: Connection,
        selected: Sequence[_DecidedRun],
        claiming: ClaimMode,
        now: datetime,
    ) -> Sequence[_DecidedRun]:
        """Allocate the instances of all runs, and record instances and decisions.

        With ``ClaimMode.NEW``, every consumer must be new, so that a concurrent request with the
        same instance uuids cannot be overwritten. With ``ClaimMode.FOR_MOVE``, existing
        allocations, which must not change after they are read here, and existing records remain.
        Each run is recorded before the server group of the next run is checked, which was evaluated
        with all earlier runs.
        """
        existing: Sequence[Allocation] = ()
        if is_added := claiming is ClaimMode.FOR_MOVE:
            run, decision = selected[0]
            uuids = run.request.spec.instance_uuids
            existing = allocations.list_by_consumers(connection, uuids)
            recorded = decisions.map_by_instance(connection, uuids) if existing else {}
            if _find_added(uuids, recorded, existing, decision.digest, decision.request_ids):
                raise ConcurrentUpdate("a concurrent request with the same ids was claimed")
        claimed = self._allocate(connection, selected, existing, now)
        groups = {
            group.uuid
            for run, _ in claimed
            if (group := run.request.spec.instance_group) is not None
            and group.uuid is not None
            and (run.request.names_group or run.selector.compares_hosts(run.filtered_request.spec))
        }
        if len(groups) > 1:  # concurrent claims must lock the groups in the same order
            server_groups.lock_many(connection, groups)
        for decided in claimed:
            _record(connection, decided, now, is_added=is_added)
        for run, _ in claimed:
            _lock_zones(connection, run)
        return claimed

    def _allocate(
        self,
        connection: Connection,
        selected: Sequence[_DecidedRun],
        existing: Sequence[Allocation],
        now: datetime,
    ) -> Sequence[_DecidedRun]:
        """Allocate the selections, or a fallback placement of a single instance."""
        by_consumer = group_rows((allocation.consumer.uuid, allocation) for allocation in existing)
        claims = [
            _merge(by_consumer, claim) for run, _ in selected for claim in self._build_claims(run)
        ]
        first, (run, decision) = claims[0], selected[0]
        try:
            if len(claims) > 1:
                allocations.replace(connection, claims, now, by_scheduler=True)
                return selected
            fallbacks = run.find_fallback(_MAX_FALLBACKS)
            others = (
                _merge(
                    by_consumer,
                    replace(first, allocations={**fallback.allocation_request.allocations}),
                )
                for fallback in fallbacks
            )
            number = allocations.replace_by_first(connection, first, others, now)
        except errors.Invalid as error:
            # A provider is gone, which is a concurrent change.
            raise ConcurrentUpdate(error.detail) from error
        if not number:
            return selected
        return [_decide(run.use_fallback(fallbacks[number - 1]), decision.request_ids)]

    def _build_claims(self, run: SchedulingRun) -> Iterable[ConsumerClaim]:
        """Yield the claim of each instance, whose consumer must not exist yet."""
        spec = run.request.spec
        project, user = self.settings.unknown_owner
        for uuid, (best, *_) in zip(spec.instance_uuids, run.selections, strict=True):
            if best.allocation_request is None:  # a rebuild, which is never claimed
                raise AssertionError("a rebuild has no allocations to claim")
            yield ConsumerClaim(
                consumer=uuid,
                allocations={**best.allocation_request.allocations},
                project_id=spec.project_id or project,
                user_id=spec.user_id or user,
                consumer_type=INSTANCE_TYPE,
                generation=None,
            )


def _check_examined(run: SchedulingRun) -> None:
    """Raise :class:`NotExamined` if a selected host has an unknown value.

    Hosts of a fetched cloud have such values, and hosts that nova reports have none.
    """
    fields = run.map_unexamined()
    for best, *_ in run.selections if fields else ():
        for field in fields.get((best.service_host, best.nodename), ()):
            raise errors.NotExamined(field, describe_refused_claim(best.service_host, field))


def _record(connection: Connection, claimed: _DecidedRun, now: datetime, *, is_added: bool) -> None:
    run, decision = claimed
    spec = run.request.spec
    if run.request.names_group:
        try:
            _join_group(connection, spec)
        except errors.Invalid as error:
            # The group is gone, which is a concurrent change. The error is raised again when the
            # request is read again.
            raise ConcurrentUpdate(error.detail) from error
    _check_spread(connection, run)
    records: Mapping[str, Any] = {}
    if is_added:
        records = instances.lock_by_uuid(connection, spec.instance_uuids)
        instances.set_decision(connection, records, decision.uuid, now)
    new = [vm for vm in _build_instances(run, decision) if vm.uuid not in records]
    instances.record(connection, new, now)
    decisions.record(connection, decision, now)


def _merge(by_consumer: Mapping[str, Sequence[Allocation]], claim: ConsumerClaim) -> ConsumerClaim:
    """Add the consumer's existing allocations to its claim.

    On a provider that the consumer already uses, its existing amounts replace the claimed amounts:
    storage that the old and the new host share is allocated once, as in nova's evacuation.
    """
    existing = by_consumer.get(claim.consumer, ())
    amounts = nest_rows((each.provider_uuid, each.resource_class, each.used) for each in existing)
    generation = existing[0].consumer.generation if existing else claim.generation
    return replace(claim, allocations={**claim.allocations, **amounts}, generation=generation)


def _find_added(
    uuids: Sequence[str],
    recorded: Mapping[str, Decision],
    existing: Iterable[Allocation],
    digest: str,
    ids: RequestIds,
) -> Decision | None:
    """Return the decision on an equal move whose allocations exist, or None.

    After a failed move, an equal request may move the instance again. It is not a repetition if it
    has other request ids, or if the allocations of the first move no longer exist.
    """
    decision = recorded.get(uuids[0])
    if (
        decision is None
        or decision.digest != digest
        or not decision.request_ids.is_same_request(ids)
    ):
        return None
    return decision if _is_held(decision, uuids, existing) else None


def _is_held(decision: Decision, uuids: Sequence[str], rows: Iterable[Allocation]) -> bool:
    amounts = {(row.consumer.uuid, row.provider_uuid, row.resource_class): row.used for row in rows}
    return all(
        amounts.get(key, 0) >= amount for key, amount in decision.iterate_chosen_amounts(uuids)
    )


def _build_instances(run: SchedulingRun, decision: Decision) -> list[Instance]:
    spec, body = run.request.spec, decision.request
    request = select_request(body)
    return [
        Instance(
            uuid=uuid,
            host=best.service_host,
            node=best.nodename,
            project_id=spec.project_id,
            user_id=spec.user_id,
            display_name=uuid,
            vm_state="building",
            task_state=None,
            flavor=body.get("flavor"),
            image=body.get("image"),
            server_group=run.request.joined_group,
            decision_uuid=decision.uuid,
            request=request,
        )
        for uuid, (best, *_) in zip(spec.instance_uuids, run.selections, strict=True)
    ]


def _check_spread(connection: Connection, run: SchedulingRun) -> None:
    if not run.selector.compares_hosts(run.filtered_request.spec):
        return
    spec, hosts = run.filtered_request.spec, [best.service_host for best, *_ in run.selections]
    group = spec.instance_group
    if group is not None and run.request.names_group:
        # The hosts are read from the records of the members, because an earlier run may have moved
        # the last member off a host.
        spec = replace(spec, instance_group=replace(group, hosts=()))
    check_spread(connection, spec, hosts)


def _lock_zones(connection: Connection, run: SchedulingRun) -> None:
    """Lock the zones of the selected hosts for a request that names a zone.

    The zone of a host with instances cannot change, but the new instances may not be recorded
    yet. Raises :class:`ConcurrentUpdate` if a zone has changed since the selection.
    """
    aggregates = run.view.known_aggregates
    if not run.request.spec.availability_zone or aggregates is None:
        return
    # This lock is taken last: on PostgreSQL, a new shared lock of a row overtakes transactions that
    # wait to change it.
    counter = change_counters.hold_version(connection, host_aggregates.SUBJECT)
    if (get_epoch(connection), counter) == aggregates.version:
        return
    hosts = {best.service_host for best, *_ in run.selections}
    zones = host_aggregates.map_zones(connection, hosts)
    for host in hosts:
        old = {each.id: each.availability_zone for each in aggregates.list_for_host(host)}
        if zones.get(host, {}) != {key: zone for key, zone in old.items() if zone is not None}:
            raise ConcurrentUpdate(f"the zone of host {host} changed during scheduling")


def _join_group(connection: Connection, spec: RequestSpec) -> None:
    group = spec.instance_group
    if group is None or group.uuid is None:
        return
    server_groups.lock_existing(connection, group.uuid, "$.request_spec.instance_group")
    # Two concurrent requests could together violate a strict policy.
    if group.is_strict and not server_groups.is_current(connection, group, spec.instance_uuids):
        raise ConcurrentUpdate(f"server group {group.uuid} changed during scheduling")

"""Claim what was chosen, and record what was decided.

What was chosen becomes allocations for all instances of a request or for none.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cached_property, partial
from itertools import count
from typing import Any, TypeVar

from oslo_log import log

from placement_sched import errors
from placement_sched.config.settings import Settings
from placement_sched.db.errors import MOVED
from placement_sched.db.failover import history_of
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import CapacityExceeded, ConcurrentUpdate
from placement_sched.model.clock import Clock
from placement_sched.model.decision import Decision
from placement_sched.model.document import Json
from placement_sched.model.instance import Instance
from placement_sched.model.provider import INSTANCE_TYPE, Allocation, Amounts, ConsumerClaim
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.request_stats import request_stats
from placement_sched.model.retry import retrying
from placement_sched.scheduler.caches import KeptNodes
from placement_sched.scheduler.decisions import Retention, digest_of_request
from placement_sched.scheduler.host_state import assigned
from placement_sched.scheduler.selection import NextBest, Run
from placement_sched.store import change_counters, decisions
from placement_sched.store.compute import host_aggregates, instances, server_groups
from placement_sched.store.placement import allocations

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: How often a request starts again because others took what it chose, before it gives up. Each
#: new start sees what the others left, so there are at most as many as concurrent requests.
MAX_STARTS = 100

#: How many of the next best a claim looks at where others took what was chosen.
MAX_NEXT_BEST = 20
#: Where a request names the instances.
_NAMED_AT = "$.request_spec"


class Claiming(Enum):
    """What becomes of what was chosen.

    ``NEW`` allocates it for instances that hold nothing; ``ADDED`` beside what they hold, as nova
    does for an instance that is evacuated: it holds both until the move has ended.
    """

    NONE = "none"
    NEW = "new"
    ADDED = "added"


def until_claimed(attempt: Callable[[int], T]) -> T:
    """Return what ``attempt`` returns, called with 0, 1, ... until no other request was faster.

    Raises :class:`ConcurrentUpdate` where others were faster :data:`MAX_STARTS` times.
    """
    starts = count()
    others_faster = (CapacityExceeded, ConcurrentUpdate)
    try:
        return retrying(lambda: attempt(next(starts)), MAX_STARTS, on=others_faster)
    except others_faster:
        raise ConcurrentUpdate("concurrent requests took all selected hosts; try again") from None


@dataclass(frozen=True, slots=True)
class Placed:
    """What was allocated: the run that chose it, and the decision."""

    run: Run
    decision: Decision


class RunToClaim:
    """One run to be claimed: its choice, and the next best if others were faster."""

    def __init__(self, run: Run, decide: Callable[[Run], Decision]) -> None:
        self._run = run
        self._decide = decide
        self.first = Placed(run, decide(run))

    @cached_property
    def next_best(self) -> list[NextBest]:
        """What may be tried after the first, the best first."""
        return self._run.next_best(MAX_NEXT_BEST)

    def placed(self, number: int) -> Placed:
        """Return the placement with the next best of this number, with 0 the first choice."""
        if not number:
            return self.first
        run = self._run.instead(self.next_best[number - 1])
        return Placed(run, self._decide(run))


@dataclass(eq=False, slots=True)
class Claims:
    """Claims what was chosen, and records what was decided."""

    database: Database
    settings: Settings
    clock: Clock
    kept_nodes: KeptNodes
    retention: Retention = field(init=False)

    def __post_init__(self) -> None:
        self.retention = Retention(self.database, self.settings.scheduler.decision_retention)

    def answered(
        self,
        spec: RequestSpec,
        document: Mapping[str, Any],
        claiming: Claiming,
        ids: RequestIds = NO_REQUEST,
    ) -> Json | None:
        """Return the answer that an earlier, equal request was given, while it still holds.

        Of one that adds to what the instances hold, that is the same request sent again: its ids
        are equal, too. Raises :class:`Conflict` where new instances hold allocations by another
        request. A rebuild is never claimed: its instance keeps what it holds.
        """
        if spec.is_rebuild or claiming is Claiming.NONE:
            return None
        with self.database.read() as connection:
            held = allocations.of_several(connection, spec.instance_uuids, _NAMED_AT)
            placed = decisions.of_instances(connection, spec.instance_uuids) if held else {}
        if not held:
            return None
        digest = digest_of_request(spec, document)
        if claiming is Claiming.ADDED:
            added = _added_before(spec.instance_uuids, placed, held, digest, ids)
            return dict(added.answer) if added else None
        holding = {one.consumer.uuid for one in held}
        answers = {decision.uuid: decision for decision in placed.values()}
        if len(answers) == 1 and placed.keys() == holding == set(spec.instance_uuids):
            (decision,) = answers.values()
            if decision.digest == digest and _is_held(decision, spec.instance_uuids, held):
                return dict(decision.answer)
        raise errors.Conflict(
            f"instance {min(holding)} already has allocations from another request",
            code="scheduler.instance_placed",
        )

    def claim(self, run: Run, decide: Callable[[Run], Decision], claiming: Claiming) -> Decision:
        """Allocate what a run chose and record it as decided, in one transaction.

        Where others took that meanwhile, the next best is allocated that there is room for; so the
        decision is returned that ``decide`` made of the run in the end.

        Raises :class:`CapacityExceeded` or :class:`ConcurrentUpdate` where others were faster, and
        :class:`Invalid` where the stored server group is gone or full.
        """
        now, spec = self.clock(), run.request.spec
        work = self._claim if claiming is Claiming.NEW else self._add
        placing = RunToClaim(run, decide)
        placed = self.database.claim(partial(work, placing=placing, now=now))
        if placed is not placing.first:
            request_stats().conflicts[MOVED] += 1
        self.retention.made_one(now)
        if run.request.plugins.driver.keeps_states:
            self.kept_nodes.note(
                (best.compute_node_uuid, assigned(spec.for_instance(uuid), best.allocation_request))
                for uuid, (best, *_) in zip(spec.instance_uuids, placed.run.selections, strict=True)
            )
        return placed.decision

    def record(self, decision: Decision) -> None:
        """Record a decision that allocates nothing; a failure to do so is logged only."""
        try:
            self.keep(decision)
        except errors.Unavailable as failure:
            LOG.warning("decision %s is not recorded: %s", decision.uuid, failure.detail)

    def keep(self, decision: Decision) -> None:
        """Record a decision that allocates nothing; raise :class:`Unavailable` if that fails."""
        now = self.clock()
        try:
            self.database.write(partial(decisions.record, decision=decision, now=now))
        finally:
            self.retention.made_one(now)

    def _claim(self, connection: Connection, placing: "RunToClaim", now: datetime) -> "Placed":
        """Allocate the best selection of each instance, and record instances and decision with it.

        Every consumer must be new, so that a concurrent request with the same instance uuids
        cannot be overwritten.
        """
        placed = self._allocated(connection, placing, now, held=())
        run, decision = placed.run, placed.decision
        if run.request.names_group:
            _join_group(connection, run.request.spec)
        instances.record(connection, _instances_of(run, decision), now)
        decisions.record(connection, decision, now)
        _hold_zones(connection, run)
        return placed

    def _add(self, connection: Connection, placing: "RunToClaim", now: datetime) -> "Placed":
        """As :meth:`_claim`, but beside what the instances hold, whose records stay.

        Consumers must be as they are read here, so that no other change of what they hold is
        overwritten, and the same request sent again is not added twice.
        """
        first = placing.first.decision
        uuids = placing.first.run.request.spec.instance_uuids
        held = allocations.of_several(connection, uuids, _NAMED_AT)
        if held:
            before = decisions.of_instances(connection, uuids)
            if _added_before(uuids, before, held, first.digest, first.request_ids):
                raise ConcurrentUpdate("the same request was answered meanwhile")
        placed = self._allocated(connection, placing, now, held)
        run, decision = placed.run, placed.decision
        if run.request.names_group:
            _join_group(connection, run.request.spec, records_stay=True)
        known = instances.locked(connection, uuids)
        instances.note_decision(connection, known, decision.uuid, now)
        new = [one for one in _instances_of(run, decision) if one.uuid not in known]
        instances.record(connection, new, now)
        decisions.record(connection, decision, now)
        _hold_zones(connection, run)
        return placed

    def _allocated(
        self,
        connection: Connection,
        placing: "RunToClaim",
        now: datetime,
        held: Iterable[Allocation],
    ) -> "Placed":
        """Allocate what was chosen, or the next best, beside what the instances hold already."""
        held_by = grouped((one.consumer.uuid, one) for one in held)
        claims = [_beside(held_by, claim) for claim in self._claims_of(placing.first.run)]
        try:
            if len(claims) > 1:
                allocations.replace(connection, claims, now, decided=True)
                return placing.first

            first = claims[0]
            others = (
                _beside(held_by, replace(first, allocations=_amounts(one.allocation_request)))
                for one in placing.next_best
            )
            at = allocations.replace_by_first(connection, first, others, now)
        except errors.Invalid as gone:
            # What the search had found is gone: a concurrent change too, one that removes hosts.
            raise ConcurrentUpdate(gone.detail) from gone
        return placing.placed(at)

    def _claims_of(self, run: Run) -> Iterable[ConsumerClaim]:
        """Yield what each instance is to hold, as a consumer that must be new."""
        spec = run.request.spec
        project, user = self.settings.unknown_owner
        for uuid, (best, *_) in zip(spec.instance_uuids, run.selections, strict=True):
            if best.allocation_request is None:  # a rebuild, which is never claimed
                raise AssertionError("there is nothing to allocate")
            yield ConsumerClaim(
                consumer=uuid,
                allocations=_amounts(best.allocation_request),
                project_id=spec.project_id or project,
                user_id=spec.user_id or user,
                consumer_type=INSTANCE_TYPE,
                generation=None,
            )


def _amounts(allocation_request: Mapping[str, Any]) -> dict[str, Amounts]:
    parts = allocation_request["allocations"]
    return {provider: part["resources"] for provider, part in parts.items()}


def _beside(held_by: Mapping[str, Sequence[Allocation]], claim: ConsumerClaim) -> ConsumerClaim:
    """Return the claim with what its consumer holds already beside it.

    Of a provider of which it holds something nothing is added: what shares its disk with the old
    host and the new one holds that disk once. So nova's scheduler has it for an evacuation.
    """
    mine = held_by.get(claim.consumer, ())
    kept: dict[str, dict[str, int]] = defaultdict(dict)
    for one in mine:
        kept[one.provider_uuid][one.resource_class] = one.used
    generation = mine[0].consumer.generation if mine else claim.generation
    return replace(claim, allocations={**claim.allocations, **kept}, generation=generation)


def _added_before(
    uuids: Sequence[str],
    placed: Mapping[str, Decision],
    held: Iterable[Allocation],
    digest: str,
    ids: RequestIds,
) -> Decision | None:
    """Return the decision by which the same request was answered, where all that it chose is held.

    An instance may be moved by an equal request again, after a first move failed: then the request
    has other ids, or what was chosen then is no longer held.
    """
    decision = placed.get(uuids[0])
    if decision is None or decision.digest != digest or not decision.request_ids.are_of_one(ids):
        return None
    return decision if _is_held(decision, uuids, held) else None


def _is_held(decision: Decision, uuids: Sequence[str], held: Iterable[Allocation]) -> bool:
    """Return whether the instances still hold all that a decision chose for them."""
    amounts = {(one.consumer.uuid, one.provider_uuid, one.resource_class): one.used for one in held}
    return all(amounts.get(place, 0) >= amount for place, amount in decision.chosen(uuids))


def _instances_of(run: Run, decision: Decision) -> list[Instance]:
    """Return the record of each instance on the host that was chosen for it."""
    spec, asked = run.request.spec, decision.request
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
            flavor=asked.get("flavor"),
            image=asked.get("image"),
            server_group=run.request.joined_group,
            decision_uuid=decision.uuid,
        )
        for uuid, (best, *_) in zip(spec.instance_uuids, run.selections, strict=True)
    ]


def _hold_zones(connection: Connection, run: Run) -> None:
    """Keep the zones of the chosen hosts as the choice was made by, where the request names one.

    The zone of a host with instances cannot change, and one that is just placed may not be recorded
    yet. Raises :class:`ConcurrentUpdate` where a zone has changed since the choice.
    """
    known = run.cloud.known_aggregates
    if not run.request.spec.availability_zone or known is None:
        return
    # Last, because on PostgreSQL who shares a row goes before who waits to change it.
    held = change_counters.hold(connection, host_aggregates.SUBJECT)
    if (history_of(connection), held) == known.version:
        return
    hosts = {best.service_host for best, *_ in run.selections}
    now = host_aggregates.zones_of_hosts(connection, hosts)
    for host in hosts:
        then = {one.id: one.availability_zone for one in known.of_host(host)}
        if now.get(host, {}) != {number: zone for number, zone in then.items() if zone is not None}:
            raise ConcurrentUpdate(f"the zone of host {host} changed during scheduling")


def _join_group(connection: Connection, spec: RequestSpec, *, records_stay: bool = False) -> None:
    """Lock the stored group that the instances are to be in, if there is one.

    Where ``records_stay``, those that are recorded already do not join it.
    Of a strict policy the members must be those, on those hosts, that the choice was made by:
    else two concurrent requests of one group could break together what each found kept.
    """
    group = spec.instance_group
    if group is None or group.uuid is None:
        return
    place = "$.request_spec.instance_group"
    server_groups.join(
        connection, group.uuid, spec.instance_uuids, place, records_stay=records_stay
    )
    if group.is_strict and not server_groups.is_as_placed(connection, group, spec.instance_uuids):
        raise ConcurrentUpdate(f"server group {group.uuid} changed during scheduling")

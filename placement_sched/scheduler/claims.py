"""Claim what was chosen, and record what was decided.

What was chosen becomes allocations for all instances of a request or for none. Every answer of
``select_destinations`` is a decision, one that names no host too; explanations are none. What is
kept of one is bounded in size, and old ones are deleted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, TypeVar
from uuid import uuid4

import orjson
from oslo_log import log

from placement_sched import errors
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import CapacityExceeded, ConcurrentUpdate
from placement_sched.model.clock import Clock
from placement_sched.model.document import Json
from placement_sched.model.host_aggregate import DEFAULT_POLICY
from placement_sched.model.instance import Instance
from placement_sched.model.placement.allocation import INSTANCE_TYPE, ConsumerClaim
from placement_sched.model.request_ids import RequestIds
from placement_sched.model.results import decision as results
from placement_sched.model.results.decision import Decision
from placement_sched.model.results.funnel import Funnel
from placement_sched.model.results.stages import View
from placement_sched.model.retrying import retrying
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.host_state import assigned
from placement_sched.scheduler.hosts.caches import KeptNodes
from placement_sched.settings.view import Settings
from placement_sched.store import decisions
from placement_sched.store.compute import instances, server_groups
from placement_sched.store.placement import allocations

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: How often a request starts again because others took what it chose, before it gives up. Each
#: new start sees what the others left, so there are at most as many as concurrent requests.
MAX_STARTS = 100
#: How many bytes of JSON a funnel may take that is kept.
MOST_BYTES = 65_536
#: How many characters of a name are kept to find decisions by.
_NAME = 255
#: How many rejected hosts of each stage are kept, tried in this order until the funnel is so small.
_REJECTED = (100, 20, 3)


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


class Retention:
    """Deletes decisions that are too old, some at a time, beside the work that makes new ones.

    ``keeping`` is in seconds; 0 keeps them for ever. Any number of processes may do so at once.
    """

    #: How many decisions are made, or seconds go by, before a process looks for old ones again.
    #: Each time it deletes more than were made meanwhile, so that it keeps up.
    EVERY = 200
    SECONDS = 60
    MOST = 1000

    def __init__(self, database: Database, keeping: int) -> None:
        self._database = database
        self._keeping = timedelta(seconds=keeping)
        self._lock = Lock()
        self._made = 0
        self._looked: datetime | None = None

    def made_one(self, now: datetime) -> None:
        """Note that a decision was made, and delete old ones if it is time; never raises."""
        if not self._keeping or not self._count(now):
            return
        try:
            purge = partial(decisions.purge, before=now - self._keeping, most=self.MOST)
            self._database.write(purge)
        except errors.Unavailable as failure:
            LOG.warning("expired decisions were not deleted: %s", failure.detail)

    def _count(self, now: datetime) -> bool:
        """Count a decision; return whether it is time to delete old ones, and then count again."""
        with self._lock:
            self._made += 1
            self._looked = self._looked or now
            waited = now - self._looked >= timedelta(seconds=self.SECONDS)
            if not waited and self._made < self.EVERY:
                return False
            self._made, self._looked = 0, now
            return True


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

    def answered(self, spec: RequestSpec, document: Mapping[str, Any]) -> Json | None:
        """Return the answer that an earlier, equal request was given, while it still holds.

        Raises :class:`Conflict` where an instance holds allocations by another request. A rebuild
        is never claimed: its instance keeps what it holds.
        """
        if spec.is_rebuild:
            return None
        uuids = spec.instance_uuids
        with self.database.read() as connection:
            held = {one.consumer.uuid for one in allocations.of_consumers(connection, uuids)}
            if not held:
                return None
            placed = decisions.of_instances(connection, uuids)
        answers = {decision.uuid: decision for decision in placed.values()}
        if len(answers) == 1 and placed.keys() == held == set(uuids):
            (decision,) = answers.values()
            if decision.digest == _digest(spec, document):
                return dict(decision.answer)
        raise errors.Conflict(
            f"instance {min(held)} already has allocations from another request",
            code="scheduler.instance_placed",
        )

    def claim(self, run: Run, decision: Decision) -> None:
        """Allocate what a run chose and record it as decided, in one transaction.

        Raises :class:`CapacityExceeded` or :class:`ConcurrentUpdate` where others were faster, and
        :class:`Invalid` where the stored server group is gone.
        """
        now, spec = self.clock(), run.request.spec
        self.database.claim(partial(self._claim, run=run, decision=decision, now=now))
        self.retention.made_one(now)
        if run.request.plugins.driver.keeps_states:
            self.kept_nodes.note(
                (best.compute_node_uuid, assigned(spec.for_instance(uuid), best.allocation_request))
                for uuid, (best, *_) in zip(spec.instance_uuids, run.selections, strict=True)
            )

    def record(self, decision: Decision) -> None:
        """Record a decision that allocates nothing; a failure to do so is logged only."""
        now = self.clock()
        try:
            self.database.write(partial(decisions.record, decision=decision, now=now))
        except errors.Unavailable as failure:
            LOG.warning("decision %s is not recorded: %s", decision.uuid, failure.detail)
        self.retention.made_one(now)

    def _claim(self, connection: Connection, run: Run, decision: Decision, now: datetime) -> None:
        """Allocate the best selection of each instance, and record instances and decision with it.

        Every consumer must be new, so that a concurrent request with the same instance uuids
        cannot be overwritten.
        """
        spec, asked = run.request.spec, decision.request
        project, user = self.settings.unknown_owner
        claims: list[ConsumerClaim] = []
        recorded: list[Instance] = []
        for uuid, (best, *_) in zip(spec.instance_uuids, run.selections, strict=True):
            if best.allocation_request is None:  # a rebuild, which is never claimed
                raise AssertionError("there is nothing to allocate")
            parts = best.allocation_request["allocations"]
            claims.append(
                ConsumerClaim(
                    consumer=uuid,
                    allocations={provider: part["resources"] for provider, part in parts.items()},
                    project_id=spec.project_id or project,
                    user_id=spec.user_id or user,
                    consumer_type=INSTANCE_TYPE,
                    generation=None,
                )
            )
            recorded.append(
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
                    server_group=spec.instance_group.uuid if spec.instance_group else None,
                    decision_uuid=decision.uuid,
                )
            )
        try:
            allocations.replace(connection, claims, now)
        except errors.Invalid as gone:
            # What the search had found is gone: a concurrent change too, one that removes hosts.
            raise ConcurrentUpdate(gone.detail) from gone
        _join_group(connection, spec)
        instances.record(connection, recorded, now)
        decisions.record(connection, decision, now)


def _join_group(connection: Connection, spec: RequestSpec) -> None:
    """Lock the stored group that the instances are to be in, if there is one.

    Of a strict policy the members must be those, on those hosts, that the choice was made by:
    else two concurrent requests of one group could break together what each found kept.
    """
    group = spec.instance_group
    if group is None or group.uuid is None:
        return
    server_groups.join(connection, group.uuid, "$.request_spec.instance_group")
    now = server_groups.placed(connection, group) if group.is_strict else group
    if set(now.members) != set(group.members) or set(now.hosts) != set(group.hosts):
        raise ConcurrentUpdate(f"server group {group.uuid} changed during scheduling")


def decided(run: Run, funnel: Funnel, kind: str, ids: RequestIds) -> Decision:
    """Return the decision that a run came to."""
    uuid, spec, asked = str(uuid4()), run.request.spec, run.request.whole
    policy = funnel.policy.name if funnel.policy else DEFAULT_POLICY
    answer: Json = {
        "decision": uuid,
        "policy": policy,
        "selections": [[one.as_json() for one in some] for some in run.selections],
    }
    if not asked.get("instance_uuids"):  # the caller learns those that were made up here
        answer["instance_uuids"] = list(spec.instance_uuids)
    chosen: list[str | None] = [best.service_host for best, *_ in run.selections]
    hosts = chosen or [None] * len(spec.instance_uuids)
    return Decision(
        uuid=uuid,
        outcome=results.SELECTED if run.selections else results.NO_VALID_HOST,
        project_id=spec.project_id,
        digest=_digest(spec, run.request.document),
        request=asked,
        answer=answer,
        places=tuple(map(results.PlacedInstance, spec.instance_uuids, hosts)),
        funnel=bounded(funnel),
        policy=policy,
        flavor=spec.flavor.name[:_NAME] or None,
        kind=kind,
        request_ids=ids,
    )


def _digest(spec: RequestSpec, document: Mapping[str, Any]) -> str:
    """Return what equal requests share, however they spell or count their instances."""
    same = {key: value for key, value in document.items() if key != "num_instances"}
    return results.digest_of({**same, "instance_uuids": list(spec.instance_uuids)})


def no_valid_host(funnel: Funnel, decision: Decision) -> errors.NoValidHost:
    """Return the error of a request that found no host."""
    reason = f": {funnel.obstacle.reason}" if funnel.obstacle else ""
    extra = {"funnel": funnel.as_json(View()), "decision": decision.uuid}
    return errors.NoValidHost(f"No valid host was found{reason}", extra=extra)


def bounded(funnel: Funnel) -> Json:
    """Return the funnel as it is kept: counts exact, lists as long as there is room for.

    Of one that is large by other things than rejected hosts the counts alone are left.
    """
    shown: Json = {}
    for most in _REJECTED:
        shown = funnel.as_json(View(max_rejected=most))
        if len(orjson.dumps(shown)) <= MOST_BYTES:
            return shown
    searched = shown["allocation_candidates"]
    return {
        "request_filters": _only(shown["request_filters"], "name", "applied", "elapsed_ms"),
        "allocation_candidates": {
            "query": searched["query"][: MOST_BYTES // 4],
            "providers": searched["providers"],
            "hosts": searched["hosts"],
            "steps": _only(searched["steps"][:100], "constraint", "before", "after"),
        },
        "filters": _only(shown["filters"], "name", "before", "after"),
        "weighers": shown["weighers"],
        "outline": True,
    }


def _only(entries: list[Json], *names: str) -> list[Json]:
    return [{name: one[name] for name in names} for one in entries]

"""A plan: changes of the cloud before and after, and which instances would have to move where.

What no longer fits is found by the real run: of each host that is changed, one instance after the
other, largest first, is asked for on its own host once more. Where the host is refused it has to
move, which makes room for those that come after it. What would have been refused before the
changes, too, is left where it is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import orjson

from placement_sched.db.scratch import Trial
from placement_sched.db.transaction import Connection
from placement_sched.errors import Error
from placement_sched.model.decision import Selection
from placement_sched.model.document import Json
from placement_sched.model.instance import Instance
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.capacity.report import CapacityQuestion, capacity
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.explain.verdicts import asked_hosts, verdicts
from placement_sched.scheduler.host_state import assigned
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.selection import Run
from placement_sched.scheduler.simulation import (
    AppliedChanges,
    ChangedAggregate,
    ChangedInventory,
    CloudChange,
    DrainedHosts,
    RemovedHosts,
)
from placement_sched.store import decisions, simulation
from placement_sched.store.compute import host_aggregates, instances, server_groups
from placement_sched.store.placement import allocations
from placement_sched.store.simulation import Holding

#: What of the request that placed an instance still counts when it moves.
_KEPT = (
    "availability_zone",
    "scheduler_hints",
    "requested_resources",
    "request_level_params",
    "requested_networks",
    "network_metadata",
    "is_bfv",
)
#: What was derived from the flavor that it had then.
_OF_FLAVOR = ("numa_topology", "pci_requests")
#: What is recorded of a flavor of which no more is known.
_UNKNOWN_FLAVOR: tuple[Mapping[str, Any] | None, ...] = (None, {})


@dataclass(frozen=True, slots=True)
class MovingInstance:
    """An instance to be moved: its record, and the request for one like it."""

    record: Instance
    document: Json

    @property
    def kind(self) -> bytes:
        """Return what instances share that one run can place: not those of server groups."""
        own = self.record.uuid if self.record.server_group else ""
        return orjson.dumps([own, self.document], option=orjson.OPT_SORT_KEYS)

    @property
    def size(self) -> tuple[int, int, int]:
        """Return its memory, virtual CPUs and disk."""
        flavor = self.record.flavor or {}
        disk = (flavor.get("root_gb") or 0) + (flavor.get("ephemeral_gb") or 0)
        return flavor.get("memory_mb") or 0, flavor.get("vcpus") or 0, disk


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One instance, the host that it leaves, and the host and node that the run chose for it.

    ``passed`` are the filters that the host passed there, ``weight`` is what weighers made of it.
    """

    instance: str
    origin: str
    host: str
    node: str
    weight: float = 0.0
    passed: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the move as an answer shows it."""
        return {"instance": self.instance, "from": self.origin, "to": self.host}


@dataclass(frozen=True, slots=True)
class StuckInstance:
    """One instance that finds no other host, and why."""

    instance: str
    host: str
    reason: str

    def as_json(self) -> Json:
        """Return the instance as an answer shows it."""
        return {"instance": self.instance, "host": self.host, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of instances: the moves, in an order in which each is valid, and the others."""

    moves: tuple[PlannedMove, ...] = ()
    stuck: tuple[StuckInstance, ...] = ()

    def __add__(self, other: "Moved") -> "Moved":
        return Moved(self.moves + other.moves, self.stuck + other.stuck)


def on_hosts(connection: Connection, hosts: Iterable[str]) -> list[MovingInstance]:
    """Return the instances on hosts, the largest first, then by kind, host and uuid."""
    records = instances.by_hosts(connection, hosts)
    asked = decisions.requests_of_instances(connection, [one.uuid for one in records])
    moving = [MovingInstance(one, _document(one, asked.get(one.uuid, {}))) for one in records]
    memory = [([-part for part in one.size], one.kind, one.record.host or "") for one in moving]
    order = sorted(range(len(moving)), key=lambda at: (*memory[at], moving[at].record.uuid))
    return [moving[at] for at in order]


def _document(record: Instance, asked: Mapping[str, Any]) -> Json:
    """Return the request for an instance like a recorded one, as it was asked for then."""
    kept: tuple[str, ...] = _KEPT
    was = asked.get("flavor")
    if isinstance(was, Mapping) and record.flavor and was.get("name") == record.flavor.get("name"):
        kept = (*_KEPT, *_OF_FLAVOR)
    document = {name: asked[name] for name in kept if name in asked}
    hints = {**(document.get("scheduler_hints") or {})}
    hints.pop("group", None)
    return {
        **document,
        "scheduler_hints": hints,
        "project_id": record.project_id,
        "user_id": record.user_id,
        "flavor": record.flavor,
        "image": record.image,
    }


@dataclass(slots=True)
class Attempt:
    """Something tried within a trial; where it is not ``kept`` it is undone."""

    kept: bool = False


class Mover:
    """Moves instances within one trial; ``scheduler`` is that of the trial.

    ``overrides`` are options with which hosts are chosen, in place of those that are configured.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        trial: Trial,
        now: datetime,
        overrides: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._overrides = overrides
        self._scheduler = scheduler
        self._trial = trial
        self._now = now

    def move(self, moving: Sequence[MovingInstance], *, avoid: Iterable[str]) -> Moved:
        """Move instances, in their order, to hosts other than those to ``avoid``."""
        done = Moved()
        away = sorted(set(avoid))
        kinds: dict[bytes, list[MovingInstance]] = defaultdict(list)
        for one in moving:
            kinds[one.kind].append(one)
        for some in kinds.values():
            done += self._move_equal(some, {"ignore_hosts": away})
        return done

    def stays(self, one: MovingInstance) -> str | None:
        """Return why an instance may not be on its host; None where it may.

        What it holds there is freed for the question, and held again after it.
        """
        record, connection = one.record, self._trial.connection
        here = {record.uuid: (record.host, record.node)}
        held = [
            Holding(record.uuid, each.provider_uuid, each.resource_class, each.used)
            for each in allocations.of_consumers(connection, [record.uuid])
        ]
        self.free([one])
        place = {"host": record.host, "node": record.node}
        found = self._placed([one], {"requested_destination": place})
        simulation.move(connection, held, here, self._now)
        return None if isinstance(found, Moved) else found.reason

    @contextmanager
    def attempt(self) -> Iterator["Attempt"]:
        """Give an attempt: what is written within it is undone at its end, unless it is kept."""
        memory, made = self._scheduler.memory, Attempt()
        before = {uuid: list(some) for uuid, some in memory.supposed.items()}
        savepoint = self._trial.connection.begin_nested()
        try:
            yield made
        finally:
            if made.kept:
                savepoint.commit()
            else:
                savepoint.rollback()
                memory.supposed.clear()
                memory.supposed.update(before)

    def free(self, some: Iterable[MovingInstance]) -> None:
        """Take away what instances hold."""
        here = {one.record.uuid: (one.record.host, one.record.node) for one in some}
        simulation.move(self._trial.connection, (), here, self._now)

    def _move_equal(self, some: Sequence[MovingInstance], more: Json) -> Moved:
        """Move instances of one kind: as many at a time as find a host together."""
        left, number, done = list(some), len(some), Moved()
        while left:
            batch = left[:number]
            outcome = self._placed(batch, more)
            if isinstance(outcome, Moved):
                done += outcome
                left, number = left[number:], len(left) - number
            elif outcome.fitting:
                number = outcome.fitting
            else:
                stuck = [
                    StuckInstance(one.record.uuid, one.record.host or "", outcome.reason)
                    for one in left
                ]
                return done + Moved(stuck=tuple(stuck))
        return done

    def _placed(self, batch: Sequence[MovingInstance], more: Json) -> "Moved | _NotAll":
        """Place instances of one kind by one run; all are moved, or none is."""
        document = batch[0].document
        flavor = document["flavor"]
        if flavor in _UNKNOWN_FLAVOR or flavor.keys() == {"id"}:
            return _NotAll(0, "its flavor is not recorded")
        uuids = [one.record.uuid for one in batch]
        asked = {**document, **more, "instance_uuids": uuids, **self._group(batch[0].record)}
        reader = self._scheduler.reader
        try:
            request = reader.checked(reader.read(asked, overrides=self._overrides))
            with self._scheduler.evaluated(request) as (connection, run):
                if not run.selections:
                    return _not_all(run, connection, len(batch), more)
        except Error as failure:
            self._trial.check()
            return _NotAll(0, failure.detail)
        self._write(batch, run)
        return Moved(tuple(_moves(batch, run)))

    def _group(self, record: Instance) -> Json:
        """Return an instance's server group as it is now, without the instance itself."""
        if record.server_group is None:
            return {}
        connection = self._trial.connection
        group = server_groups.by_uuid(connection, record.server_group)
        if group is None:
            return {}
        members = server_groups.placed(connection, group).members
        others = instances.by_uuids(connection, [one for one in members if one != record.uuid])
        now = replace(
            group,
            members=tuple(one.uuid for one in others),
            hosts=tuple(dict.fromkeys(one.host for one in others if one.host is not None)),
        )
        return {"instance_group": now.as_document()}

    def _write(self, batch: Sequence[MovingInstance], run: Run) -> None:
        """Write to the trial what instances take in their new places, and free what they held."""
        chosen = _chosen(batch, run)
        held = [
            Holding(one.record.uuid, provider, name, amount)
            for one, best, _ in chosen
            for provider, part in (best.allocation_request or {})["allocations"].items()
            for name, amount in part["resources"].items()
        ]
        places = {one.record.uuid: (best.service_host, best.nodename) for one, best, _ in chosen}
        simulation.move(self._trial.connection, held, places, self._now)
        supposed = self._scheduler.memory.supposed
        for one, best, spec in chosen:
            if one.record.host != best.service_host:
                supposed[best.compute_node_uuid].append(assigned(spec, best.allocation_request))


@dataclass(frozen=True, slots=True)
class _NotAll:
    """How many of some instances find hosts together, and why not all do."""

    fitting: int
    reason: str


def _not_all(run: Run, connection: Connection, number: int, more: Json) -> _NotAll:
    only = more.get("requested_destination")
    if only is not None:
        found = verdicts(connection, run, asked_hosts(connection, [only["host"]]))
        reasons = [reason.reason for one in found for reason in one.reasons]
        return _NotAll(0, "; ".join(dict.fromkeys(reasons)))
    choice = run.choice
    fitting = 0
    if choice is not None:
        fitting = choice.placed if choice.room_for is None else choice.room_for
    if fitting:
        return _NotAll(min(fitting, number - 1), "")
    obstacle = funnel_of(run, connection).obstacle
    return _NotAll(0, obstacle.reason if obstacle else "no valid host")


def _chosen(
    batch: Sequence[MovingInstance], run: Run
) -> list[tuple[MovingInstance, Selection, RequestSpec]]:
    spec = run.narrowed.spec
    return [
        (one, best, spec.for_instance(one.record.uuid))
        for one, (best, *_) in zip(batch, run.selections, strict=True)
    ]


def _moves(batch: Sequence[MovingInstance], run: Run) -> Iterator[PlannedMove]:
    for one, best, _ in _chosen(batch, run):
        host = one.record.host or ""
        passed = tuple(report.name for report in run.choice.first.filters) if run.choice else ()
        node = best.nodename
        yield PlannedMove(one.record.uuid, host, best.service_host, node, best.weight, passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What changes come to: moves, what is stuck, and who has to move though it was not drained.

    ``before`` and ``after`` are the capacities by flavor, then with the moves made.
    """

    moved: Moved
    unfit: dict[str, str]
    before: Sequence[Json] = ()
    after: Sequence[Json] = ()

    def as_json(self) -> Json:
        """Return the plan as an answer shows it."""
        return {
            "capacity": [
                {
                    "flavor": one["flavor"],
                    "before": one["capacity"],
                    "after": two["capacity"],
                    "exact": one["exact"] and two["exact"],
                }
                for one, two in zip(self.before, self.after, strict=True)
            ],
            "moves": [self._shown(one) for one in self.moved.moves],
            "stuck": [one.as_json() for one in self.moved.stuck],
        }

    def _shown(self, move: PlannedMove) -> Json:
        reason = self.unfit.get(move.instance)
        return move.as_json() if reason is None else {**move.as_json(), "reason": reason}


def planned(
    scheduler: Scheduler,
    changes: Sequence[CloudChange],
    flavors: Sequence[str] | None,
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> Plan:
    """Return what changes come to, with the capacity for these flavors, or all; all is undone.

    ``overrides`` are options that change with the cloud: with them hosts are chosen for what moves,
    and the capacity after is counted.

    Raises :class:`NotFound` for a flavor that is not stored, :class:`Invalid` for a change or an
    option that cannot be, and :class:`Unavailable` where it takes longer than ``[scheduler]
    what_if_timeout``.
    """
    # Before an instance is asked for: it would seem that no host takes it.
    scheduler.reader.check_overrides(overrides)
    if any(isinstance(one, RemovedHosts) for one in changes[:-1]):
        # Below they are only drained: a later change of a host that is gone would not be seen.
        scheduler.supposing(changes, lambda _scheduler, _trial, _applied: None)
    with scheduler.source.read() as connection:
        touched = _touched(connection, changes)
    refused = _refused(scheduler, touched)

    before = _capacities(scheduler, flavors)

    def answer(other: Scheduler, trial: Trial, applied: AppliedChanges) -> Plan:
        mover = Mover(other, trial, other.clock(), overrides)
        plan = _moved(mover, trial.connection, applied, touched, refused)
        return replace(plan, before=before, after=_capacities(other, flavors, overrides))

    return scheduler.supposing([_kept(one) for one in changes], answer)


def _capacities(
    scheduler: Scheduler,
    flavors: Sequence[str] | None,
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> Sequence[Json]:
    """Return the capacity for each of these stored flavors, or for all of them."""
    if flavors == []:
        return ()
    asked = CapacityQuestion(
        document={}, flavors=flavors or (), all_flavors=flavors is None, overrides=overrides
    )
    found: Sequence[Json] = capacity(scheduler, asked)["flavors"]
    return found


def _kept(change: CloudChange) -> CloudChange:
    """Return the change as it is made while instances move: what is to go is drained first."""
    if isinstance(change, RemovedHosts):
        return DrainedHosts(at=change.at, hosts=change.hosts)
    return change


def _moved(
    mover: Mover,
    connection: Connection,
    applied: AppliedChanges,
    touched: Collection[str],
    refused: Collection[str],
) -> Plan:
    away = set(applied.drained)
    moved = mover.move(on_hosts(connection, away), avoid=away)
    unfit: dict[str, str] = {}
    for one in on_hosts(connection, set(touched) - away):
        reason = None if one.record.uuid in refused else mover.stays(one)
        if reason is not None:
            unfit[one.record.uuid] = reason
            moved += mover.move([one], avoid={*away, one.record.host or ""})
    return Plan(moved=moved, unfit=unfit)


def _touched(connection: Connection, changes: Sequence[CloudChange]) -> set[str]:
    """Return the hosts whose instances may no longer fit because of what is changed of them."""
    found: set[str] = set()
    for change in changes:
        match change:
            case ChangedInventory():
                found.add(change.host)
            case ChangedAggregate():
                found.update(change.add_hosts, change.remove_hosts)
                for one in host_aggregates.snapshot(connection) if change.metadata else ():
                    found |= one.hosts if one.name == change.name else frozenset()
    return found


def _refused(scheduler: Scheduler, hosts: Collection[str]) -> frozenset[str]:
    """Return the instances that their hosts would refuse already."""
    if not hosts:
        return frozenset()

    def answer(other: Scheduler, trial: Trial, _applied: AppliedChanges) -> frozenset[str]:
        mover = Mover(other, trial, other.clock())
        found = on_hosts(trial.connection, hosts)
        return frozenset(one.record.uuid for one in found if mover.stays(one) is not None)

    return scheduler.supposing([], answer)

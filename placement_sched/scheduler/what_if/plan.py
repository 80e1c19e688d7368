"""A plan: changes of the cloud before and after, and which instances would have to move where.

What no longer fits is found by the real run: of each host that is changed, one instance after the
other, largest first, is asked for on its own host once more. Where the host is refused it has to
move, which makes room for those that come after it. What would have been refused before the
changes, too, is left where it is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from placement_sched.db.scratch import Trial
from placement_sched.db.transaction import Connection
from placement_sched.model.document import Json
from placement_sched.scheduler.capacity.asking import CapacityQuestion, capacity
from placement_sched.scheduler.pipeline import Scheduler
from placement_sched.scheduler.what_if.applied import AppliedChanges
from placement_sched.scheduler.what_if.changes import (
    ChangedAggregate,
    ChangedInventory,
    CloudChange,
    DrainedHosts,
    RemovedHosts,
)
from placement_sched.scheduler.what_if.moving import Moved, Mover, PlannedMove, on_hosts
from placement_sched.store.compute import host_aggregates


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

# SPDX-License-Identifier: Apache-2.0
"""Plans for changes of the cloud: capacities and moves of instances.

Instances on drained hosts move first. Then each instance on another changed host, largest first, is
scheduled on its own host again. If the host rejects the instance, the instance moves, and frees its
capacity for the next instances. An instance stays if its host rejects it even before the changes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import orjson

from placement_sched.db.transaction import Connection
from placement_sched.errors import Error, Invalid, NotFound
from placement_sched.extensions.what_if.capacity.report import CapacityQuery, report_capacity
from placement_sched.limits import MAX_INSTANCES
from placement_sched.model.candidates_query import iterate_amounts
from placement_sched.model.context import RequestIds
from placement_sched.model.decision import MOVE, Decision, Selection
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows
from placement_sched.model.instance import BUILDING, OFFLOADED, Instance, find_move_obstacle
from placement_sched.model.instance_request import build_request_document, find_unknown_facts
from placement_sched.model.rejection import OTHER
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.decisions import make_decision
from placement_sched.scheduler.explain.funnel import build_funnel
from placement_sched.scheduler.explain.verdicts import build_verdicts, map_reported_trees
from placement_sched.scheduler.host_state import with_device_providers
from placement_sched.scheduler.instance_requests import map_unknown_facts, read_requests
from placement_sched.scheduler.scheduler import Evaluator, Scheduler, Simulation
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.scheduler.simulation import CloudChange
from placement_sched.store import simulated_changes
from placement_sched.store.compute import cells, host_aggregates, instances, server_groups
from placement_sched.store.compute.other_consumers import list_other_consumers
from placement_sched.store.placement import allocations
from placement_sched.store.simulated_changes import SimulatedAllocation

_NO_FLAVOR, _NO_HOST = "its flavor is not recorded", "no valid host"


#: Memory in MB, virtual CPUs and disk in GB.
Size = tuple[int, int, int]


def compute_flavor_size(flavor: Mapping[str, Any]) -> Size:
    """Return memory, virtual CPUs and disk of a flavor, to sort moves."""
    disk = (flavor.get("root_gb") or 0) + (flavor.get("ephemeral_gb") or 0)
    return flavor.get("memory_mb") or 0, flavor.get("vcpus") or 0, disk


@dataclass(frozen=True, slots=True)
class MovingInstance:
    """An instance to move: its record, and a request for an equal instance.

    ``unknown`` has the unknown facts of the request.
    """

    record: Instance
    document: Json
    unknown: tuple[str, ...] = ()

    @property
    def batch_key(self) -> bytes:
        """Return the same key for instances that a run can place together.

        An instance in a server group has a unique key.
        """
        return self.request_key + (self.record.uuid if self.record.server_group else "").encode()

    @property
    def request_key(self) -> bytes:
        """Return a key of the request that ignores its server group."""
        return orjson.dumps(self.document, option=orjson.OPT_SORT_KEYS)

    @property
    def size(self) -> Size:
        """Return the size of the recorded flavor, to sort moves."""
        return compute_flavor_size(self.record.flavor or {})


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """The move of an instance to the host and node that a run has chosen.

    ``passed`` names the filters that the new host passed, and ``weight`` is its weight.
    """

    instance: str
    origin: str
    host: str
    node: str
    weight: float = 0.0
    passed: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the move as a JSON object."""
        return {"instance": self.instance, "from": self.origin, "to": self.host}


@dataclass(frozen=True, slots=True)
class StuckInstance:
    """An instance that cannot move, and the reason with its kind and values."""

    instance: str
    host: str
    reason: str
    values: Json = field(default_factory=lambda: {"kind": OTHER})

    def as_json(self) -> Json:
        """Return the instance as a JSON object."""
        return {**self.values, "instance": self.instance, "host": self.host, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The moves of a plan in the order to run them, and stuck instances."""

    moves: tuple[PlannedMove, ...] = ()
    stuck: tuple[StuckInstance, ...] = ()

    def __add__(self, other: "MovePlan") -> "MovePlan":
        return MovePlan(self.moves + other.moves, self.stuck + other.stuck)


def find_instances(connection: Connection, hosts: Iterable[str]) -> list[MovingInstance]:
    """Return the instances on hosts, in the order of :func:`sort_instances`."""
    return sort_instances(with_requests(connection, instances.list_by_hosts(connection, hosts)))


def sort_instances(moving: Sequence[MovingInstance]) -> list[MovingInstance]:
    """Sort instances: largest first, then by batch key, host and uuid."""

    def get_sort_key(each: MovingInstance) -> tuple[list[int], bytes, str, str]:
        return (
            [-part for part in each.size],
            each.batch_key,
            each.record.host or "",
            each.record.uuid,
        )

    return sorted(moving, key=get_sort_key)


def with_requests(connection: Connection, records: Sequence[Instance]) -> list[MovingInstance]:
    """Return recorded instances with requests for equal instances."""
    requests = read_requests(connection, [record.uuid for record in records])
    return [
        MovingInstance(
            record,
            build_request_document(record, requests.get(record.uuid)),
            find_unknown_facts(record, requests.get(record.uuid)),
        )
        for record in records
    ]


@dataclass(slots=True)
class Attempt:
    """Changes within a simulation, rolled back unless ``is_successful``."""

    is_successful: bool = False


class Mover:
    """Mover of instances within a simulation.

    ``overrides`` replace configured options while hosts are chosen.
    """

    def __init__(
        self, simulation: Simulation, overrides: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.simulation = simulation
        self._overrides = overrides
        self._connection = simulation.connection
        self._now = simulation.clock()
        self._is_synced = bool(cells.list_cells(simulation.connection))
        #: The instances on hosts that were not examined, by unknown field of the hosts.
        self.unexamined: dict[str, list[str]] = {}

    def move(self, moving: Sequence[MovingInstance], *, avoid: Iterable[str]) -> MovePlan:
        """Move instances, in their order, to hosts other than ``avoid``."""
        result, extra = MovePlan(), {"ignore_hosts": sorted(set(avoid))}
        for equal in group_rows((instance.batch_key, instance) for instance in moving).values():
            result += self._move_equal(equal, extra)
        return result

    def migrate(
        self,
        moving: Sequence[MovingInstance],
        *,
        avoid: Iterable[str],
        find_obstacle: Callable[[MovingInstance], str | None] | None = None,
    ) -> MovePlan:
        """Move instances as :meth:`move`, unless they have an obstacle.

        ``find_obstacle`` returns it, by default why nova does not migrate an instance in its state.
        Instances with an obstacle are stuck.
        """
        find_obstacle = find_obstacle or self.find_obstacle_to_move
        movable, stuck = [], []
        for instance in moving:
            if reason := find_obstacle(instance):
                record = instance.record
                stuck.append(StuckInstance(record.uuid, record.host or "", reason))
            elif instance.record.vm_state != OFFLOADED:
                movable.append(instance)
        return self.move(movable, avoid=avoid) + MovePlan(stuck=tuple(stuck))

    def find_obstacle_to_move(self, instance: MovingInstance) -> str | None:
        """Return why nova does not migrate an instance now, or None if it does."""
        return find_move_obstacle(self.find_state(instance), instance.record.task_state)

    def find_state(self, instance: MovingInstance) -> str | None:
        """Return the vm state of an instance, None if it is unknown.

        Without nova's databases, a claimed instance stays ``building``, whatever its state is.
        """
        vm_state = instance.record.vm_state
        return None if vm_state == BUILDING and not self._is_synced else vm_state

    def find_obstacle_to_stay(self, instance: MovingInstance) -> "PartialFit | None":
        """Return why an instance cannot stay on its host, or None if it can.

        The allocations of the instance are removed for the check and restored afterwards.
        """
        record, connection = instance.record, self._connection
        location = {record.uuid: (record.host, record.node)}
        allocated = [
            SimulatedAllocation(record.uuid, row.provider_uuid, row.resource_class, row.used)
            for row in allocations.list_by_consumers(connection, [record.uuid])
        ]
        self.remove_allocations([instance])
        destination = {"host": record.host, "node": record.node}
        result = self.place([instance], {"requested_destination": destination})
        simulated_changes.move(connection, allocated, location, self._now)
        return None if isinstance(result, MovePlan) else result

    @contextmanager
    def attempt(self) -> Iterator["Attempt"]:
        """Yield an attempt, and roll it back at the end unless it is successful."""
        caches, attempt = self.simulation.caches, Attempt()
        simulated_before = {uuid: list(specs) for uuid, specs in caches.simulated.items()}
        savepoint = self._connection.begin_nested()
        try:
            yield attempt
        except BaseException:
            # The database may have ended the transaction, and with it the savepoint.
            with suppress(Exception):
                savepoint.rollback()
            attempt.is_successful = False
            raise
        else:
            end = savepoint.commit if attempt.is_successful else savepoint.rollback
            end()
        finally:
            if not attempt.is_successful:
                caches.simulated.clear()
                caches.simulated.update(simulated_before)

    def remove_allocations(self, moving_instances: Iterable[MovingInstance]) -> None:
        """Remove the allocations of instances."""
        locations = {vm.record.uuid: (vm.record.host, vm.record.node) for vm in moving_instances}
        simulated_changes.move(self._connection, (), locations, self._now)

    def _move_equal(self, moving_instances: Sequence[MovingInstance], extra: Json) -> MovePlan:
        """Move instances of the same ``batch_key`` in batches that fit."""
        remaining, number, result = list(moving_instances), len(moving_instances), MovePlan()
        while remaining:
            number = min(number, MAX_INSTANCES)
            batch = remaining[:number]
            outcome = self.place(batch, extra)
            if isinstance(outcome, MovePlan):
                result += outcome
                remaining, number = remaining[number:], len(remaining) - number
            elif outcome.fitting:
                number = outcome.fitting
            else:
                reason, values = outcome.reason, outcome.values
                stuck = [
                    StuckInstance(vm.record.uuid, vm.record.host or "", reason, values)
                    for vm in remaining
                ]
                return result + MovePlan(stuck=tuple(stuck))
        return result

    def place(self, batch: Sequence[MovingInstance], extra: Json) -> "MovePlan | PartialFit":
        """Place all instances of a batch in a single run, or no instance.

        ``extra`` are further keys of the request. Returns a :class:`PartialFit` if not all fit.
        """
        if _has_unknown_flavor(batch[0]):
            return PartialFit(0, _NO_FLAVOR)
        group = read_group_without(self._connection, batch[0].record)
        uuids = [instance.record.uuid for instance in batch]
        body = {**batch[0].document, **extra, "instance_uuids": uuids, **group}
        reader = self.simulation.reader
        try:
            request = reader.validate(reader.read(body, overrides=self._overrides))
            run = self.simulation.evaluate(self._connection, request)
            if not run.selections:
                return _explain_partial_fit(run, self._connection, len(batch), extra)
        except Error as failure:
            self.simulation.source.check()
            return PartialFit(0, failure.detail)
        if unexamined := run.map_unexamined():
            for instance, best, _ in _pair_with_selections(batch, run):
                for name in unexamined.get((best.service_host, best.nodename), ()):
                    self.unexamined.setdefault(name, []).append(instance.record.uuid)
        self._write(batch, run)
        return MovePlan(tuple(_list_moves(batch, run)))

    def _write(self, batch: Sequence[MovingInstance], run: SchedulingRun) -> None:
        pairs = _pair_with_selections(batch, run)
        allocated = [
            SimulatedAllocation(instance.record.uuid, provider, name, amount)
            for instance, best, _ in pairs
            for (provider, name), amount in iterate_amounts(best.allocation_request)
        ]
        locations = {vm.record.uuid: (best.service_host, best.nodename) for vm, best, _ in pairs}
        simulated_changes.move(self._connection, allocated, locations, self._now)
        simulated = self.simulation.caches.simulated
        for instance, best, spec in pairs:
            if instance.record.host != best.service_host:
                simulated[best.compute_node_uuid].append(
                    with_device_providers(spec, best.allocation_request)
                )


def _has_unknown_flavor(instance: MovingInstance) -> bool:
    flavor = instance.document["flavor"]
    return not flavor or flavor.keys() == {"id"}


def read_group_without(connection: Connection, record: Instance) -> Json:
    """Return ``instance_group`` without the instance, {} without a group."""
    uuid = record.server_group
    group = server_groups.find_by_uuid(connection, uuid) if uuid else None
    if group is None:
        return {}
    current = server_groups.with_members(connection, group, without=frozenset({record.uuid}))
    return {"instance_group": current.as_document()}


@dataclass(frozen=True, slots=True)
class PartialFit:
    """Result for a batch that does not fit as a whole.

    ``fitting`` is the number of instances that fit. If it is 0, ``reason`` is why no instance fits,
    and ``values`` are the kind and the values of the obstacle.
    """

    fitting: int
    reason: str
    values: Json = field(default_factory=lambda: {"kind": OTHER})


def _explain_partial_fit(
    run: SchedulingRun, connection: Connection, number: int, extra: Json
) -> PartialFit:
    if (destination := extra.get("requested_destination")) is not None:
        host_verdicts = build_verdicts(
            connection, run, map_reported_trees(connection, [destination["host"]])
        )
        reasons = [reason for verdict in host_verdicts for reason in verdict.reasons]
        words = "; ".join(dict.fromkeys(reason.reason for reason in reasons))
        return PartialFit(0, words, *(reason.values for reason in reasons[:1]))
    if run.choice and (fitting := run.choice.max_fitting or run.choice.placed_count):
        return PartialFit(min(fitting, number - 1), "")
    obstacle = build_funnel(run, connection).obstacle
    return PartialFit(0, obstacle.reason, obstacle.values) if obstacle else PartialFit(0, _NO_HOST)


def _pair_with_selections(
    batch: Sequence[MovingInstance], run: SchedulingRun
) -> list[tuple[MovingInstance, Selection, RequestSpec]]:
    spec = run.filtered_request.spec
    return [
        (instance, best, spec.with_instance(instance.record.uuid))
        for instance, (best, *_) in zip(batch, run.selections, strict=True)
    ]


def _list_moves(batch: Sequence[MovingInstance], run: SchedulingRun) -> Iterator[PlannedMove]:
    passed = tuple(report.name for report in run.choice.first.filters) if run.choice else ()
    for instance, best, _ in _pair_with_selections(batch, run):
        uuid, origin = instance.record.uuid, instance.record.host or ""
        host, node = best.service_host, best.nodename
        yield PlannedMove(uuid, origin, host, node, best.weight, passed)


def check_move(
    scheduler: Scheduler, uuid: str, source: str, target: str, ids: RequestIds
) -> tuple[Decision | None, PartialFit | None]:
    """Check that an instance is on host ``source`` and that ``target`` passes.

    Returns a decision and the reason why the move is rejected. The decision is None if the target
    could not be evaluated, and the reason is None if the target passes. The target is evaluated
    with the current options, while the instance keeps its allocations. Nothing is claimed.
    """
    with scheduler.source.read() as connection:
        records = instances.list_by_uuids(connection, [uuid])
        if not records:
            return None, PartialFit(0, "it is not recorded: see placement-sched nova sync")
        moving = with_requests(connection, records)[0]
        group = read_group_without(connection, moving.record)
    if moving.record.host != source:
        return None, PartialFit(0, f"it is recorded on {moving.record.host}, not on {source}")
    if _has_unknown_flavor(moving):
        return None, PartialFit(0, _NO_FLAVOR)
    destination = {"requested_destination": {"host": target}, "instance_uuids": [uuid]}
    try:
        body = {**moving.document, **group, **destination}
        request = scheduler.reader.validate(scheduler.reader.read(body))
        # As in a plan, failover capacity does not matter, because the instance is already placed.
        request = replace(request, plugins=request.plugins.drop_failover_filters())
        with scheduler.source.read() as connection:
            run = scheduler.evaluate(connection, request)
            funnel, rejection = build_funnel(run, connection), None
            if not run.selections:
                rejection = _explain_partial_fit(run, connection, 1, destination)
                if not rejection.reason:
                    rejection = PartialFit(0, f"there is no host {target}")
    except (Invalid, NotFound) as failure:
        return None, PartialFit(0, failure.detail)
    return make_decision(run, funnel, MOVE, ids), rejection


def plan_drain(
    scheduler: Scheduler,
    changes: Sequence[CloudChange],
    flavors: Sequence[str] | None,
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> Json:
    """Plan the moves that changes of the cloud require, and their capacity.

    Returns the capacity for ``flavors`` (None: all) before and after, the moves, stuck instances,
    and other consumers on drained and removed hosts, which no plan moves. A move off a host that is
    not drained has the reason why its instance no longer fits. ``overrides`` are options that
    change together with the cloud. They apply to the moves and to the capacity afterwards.
    Everything is rolled back.

    Raises :class:`NotFound` if a flavor is not stored, :class:`Invalid` if a change or an option is
    invalid, and :class:`Unavailable` after ``[scheduler] what_if_timeout``.
    """
    # Checked first, because with invalid overrides every host would seem to reject the instances.
    scheduler.reader.check_overrides(overrides)
    if any(change.kind == "remove" for change in changes[:-1]):
        # Below, removed hosts are only drained, so that changes of removed hosts are rejected here.
        scheduler.simulate(changes, lambda _: None)
    with scheduler.source.read() as connection:
        affected = _find_affected_hosts(connection, changes)
    rejected = _find_rejected_before(scheduler, affected)
    # Hosts are drained while their instances move, before they are removed.
    draining = [replace(each, kind="drain") if each.kind == "remove" else each for each in changes]
    drained = {host for each in draining if each.kind == "drain" for host in each.value}

    capacities = _count_capacities(scheduler, flavors)

    def run(simulation: Simulation) -> Json:
        mover = Mover(simulation, overrides)
        moved, unfit = _move_all(mover, drained, affected, rejected)
        after = _count_capacities(simulation, flavors, overrides)
        return {
            "capacity": [
                {
                    "flavor": old["flavor"],
                    "before": old["capacity"],
                    "after": new["capacity"],
                    "exact": old["exact"] and new["exact"],
                }
                for old, new in zip(capacities, after, strict=True)
            ],
            "moves": [move.as_json() | unfit.get(move.instance, {}) for move in moved.moves],
            "stuck": [stuck.as_json() for stuck in moved.stuck],
            "other_consumers": [
                asdict(each) for each in list_other_consumers(simulation.connection, drained)
            ],
            "unknown": mover.unexamined,
        }

    result = scheduler.simulate(draining, run)
    uuids = [entry["instance"] for entry in (*result["moves"], *result["stuck"])]
    with scheduler.source.read() as connection:
        unknown = map_unknown_facts(connection, uuids)
        return {**result, "unknown": {**unknown, **result["unknown"]}}


def _count_capacities(
    scheduler: Evaluator,
    flavors: Sequence[str] | None,
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> Sequence[Json]:
    if flavors == []:
        return ()
    capacity_query = CapacityQuery(
        document={}, flavors=flavors or (), all_flavors=flavors is None, overrides=overrides
    )
    counts: Sequence[Json] = report_capacity(scheduler, capacity_query)["flavors"]
    return counts


def _move_all(
    mover: Mover, drained: Collection[str], affected: Collection[str], rejected: Collection[str]
) -> tuple[MovePlan, Mapping[str, Json]]:
    connection = mover.simulation.connection
    moved = mover.migrate(find_instances(connection, drained), avoid=drained)
    unfit: dict[str, Json] = {}
    for instance in find_instances(connection, set(affected).difference(drained)):
        uuid = instance.record.uuid
        obstacle = None if uuid in rejected else mover.find_obstacle_to_stay(instance)
        if obstacle is not None:
            unfit[uuid] = {"reason": obstacle.reason, **obstacle.values}
            moved += mover.migrate([instance], avoid={*drained, instance.record.host or ""})
    return moved, unfit


def _find_affected_hosts(connection: Connection, changes: Sequence[CloudChange]) -> set[str]:
    """Return the hosts whose instances may no longer fit after the changes."""
    hosts: set[str] = set()
    for change in changes:
        value = change.value
        if change.kind == "inventory":
            hosts.add(value["host"])
        elif change.kind == "aggregate":
            hosts.update(value["add_hosts"], value["remove_hosts"])
            for aggregate in host_aggregates.read_snapshot(connection) if value["metadata"] else ():
                hosts |= aggregate.hosts if aggregate.name == value["name"] else frozenset()
    return hosts


def _find_rejected_before(scheduler: Scheduler, hosts: Collection[str]) -> frozenset[str]:
    """Return the instances that their hosts reject even before the changes."""
    if not hosts:
        return frozenset()

    def run(simulation: Simulation) -> frozenset[str]:
        mover = Mover(simulation)
        moving = find_instances(simulation.connection, hosts)
        return frozenset(
            vm.record.uuid for vm in moving if mover.find_obstacle_to_stay(vm) is not None
        )

    return scheduler.simulate([], run)

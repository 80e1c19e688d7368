# SPDX-License-Identifier: Apache-2.0
"""Runs of a trace with the settings and the hardware of a variant."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from placement_sched.db.transaction import ScratchTransaction, run_and_roll_back
from placement_sched.errors import Invalid, NotFound
from placement_sched.explain.values import ExplanationView
from placement_sched.extensions.traces.cloud import PlacedServer, TraceCloud
from placement_sched.extensions.traces.events import CREATE, DELETE, MOVE, Event, Trace, TraceFaults
from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.document import Json
from placement_sched.model.names import suggest_name
from placement_sched.scheduler.explain.explanation import make_explanation
from placement_sched.scheduler.explain.funnel import build_funnel
from placement_sched.scheduler.host_manager import CellStates, RequestView
from placement_sched.scheduler.scheduler import Scheduler, Simulation
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.scheduler.simulation import CloudChange, apply
from placement_sched.store.compute import flavors, server_groups

#: Number of samples of the cloud over the time of a trace.
SAMPLES = 100
#: The name of flavors without a name.
UNNAMED = "unnamed"
#: Seconds that a run may take: there is no limit.
_UNLIMITED = 1e9


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings and hardware of a run.

    ``overrides`` replace options by ``group.option``, and ``changes`` change the cloud.
    """

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[CloudChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request without a host.

    ``stage`` is the stage that left no host, and ``subject`` its subject, such as a resource class
    (or empty).
    """

    line: int
    time: datetime
    event: str
    flavor: str
    stage: str
    kind: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The cloud at a time of the trace. ``refused`` counts from the start."""

    time: datetime
    servers: int
    used_hosts: int
    empty_hosts: int
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run, or of its first ``events`` if it was interrupted.

    ``ignored`` counts the events of servers that were never placed. ``largest_flavor`` is the
    largest flavor of the trace that fits at the end, or None. ``servers`` are the servers that the
    run has placed, by uuid. ``explanation`` is the explanation of a refusal, if requested.
    """

    seed: int
    events: int
    refusals: tuple[Refusal, ...]
    samples: tuple[Sample, ...]
    largest_flavor: str | None
    servers: Mapping[str, PlacedServer]
    ignored: int = 0
    skipped: int = 0
    kept_devices: int = 0
    explanation: Json | None = None
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options that the runs of all variants share.

    ``explained`` is the number of the refusal to explain, from 1. ``advance`` is called with the
    number of finished events of a run.
    """

    is_empty: bool = False
    skips_invalid: bool = False
    explained: int | None = None
    advance: Callable[[int], None] = lambda _: None


def run_trace(
    scheduler: Scheduler, trace: Trace, variant: Variant, seed: int, options: RunOptions
) -> RunResult:
    """Run the events of a trace in a copy of the cloud.

    ``seed`` 0 makes the random choices of recorded decisions, and each other number others. Raises
    :class:`Invalid` with file and line for a request that is invalid in this cloud.
    """

    def run(scratch: ScratchTransaction) -> RunResult:
        now = scheduler.clock()
        apply(scratch, variant.changes, now)
        cloud = TraceCloud(scratch.connection, now, trace.created, is_empty=options.is_empty)
        reader = replace(scheduler.reader, database=scratch, aggregates=cloud.caches.aggregates)
        simulation = Simulation(
            source=scratch,
            live=scheduler.live,
            clock=scheduler.clock,
            random=Random(seed),  # noqa: S311 - chooses hosts, guards nothing
            caches=cloud.caches,
            reader=reader,
        )
        return _TraceRun(simulation, cloud, trace, variant, seed, options).run()

    return run_and_roll_back(scheduler.database, run, _UNLIMITED)


class _TraceRun:
    """A run of a trace, event after event."""

    def __init__(
        self,
        simulation: Simulation,
        cloud: TraceCloud,
        trace: Trace,
        variant: Variant,
        seed: int,
        options: RunOptions,
    ) -> None:
        self._simulation, self._cloud, self._trace = simulation, cloud, trace
        self._variant, self._seed, self._options = variant, seed, options
        self._connection = simulation.connection
        self._aggregates = cloud.caches.aggregates.get_current(self._connection)
        self._cells: CellStates | None = None
        self._faults = TraceFaults(trace.file, skips=options.skips_invalid)
        stored = flavors.list_flavors(self._connection)
        # As for requests, ids take precedence over names.
        self._flavors = {each.name: each.as_document() for each in stored}
        self._flavors |= {str(each.flavorid): each.as_document() for each in stored}
        self._refusals: list[Refusal] = []
        self._samples: list[Sample] = []
        self._ignored = 0
        self._explanation: Json | None = None
        self._absent: set[str] = set()

    def run(self) -> RunResult:
        """Run the events, until Ctrl-C, and return the result."""
        events = self._trace.events
        start, end = events[0].time, events[-1].time
        interval = max((end - start) / SAMPLES, timedelta(seconds=1))
        due, done, is_interrupted = start + interval, 0, False
        try:
            for event in events:
                while event.time >= due:
                    self._sample(due)
                    due += interval
                self._handle(event)
                done += 1
                self._options.advance(done)
        except KeyboardInterrupt:
            end, is_interrupted = events[max(done - 1, 0)].time, True
        self._sample(end)
        return RunResult(
            seed=self._seed,
            events=done,
            refusals=tuple(self._refusals),
            samples=tuple(self._samples),
            largest_flavor=self._find_largest_flavor(events[:done]),
            servers=self._cloud.placed,
            ignored=self._ignored,
            skipped=self._faults.count,
            kept_devices=self._cloud.kept_devices,
            explanation=self._explanation,
            is_interrupted=is_interrupted,
        )

    def _sample(self, time: datetime) -> None:
        used = self._cloud.used_host_count
        empty = len(self._cloud.hosts) - used
        servers, refused = self._cloud.server_count, len(self._refusals)
        self._samples.append(Sample(time, servers, used, empty, refused))

    def _handle(self, event: Event) -> None:
        if event.kind == CREATE:
            self._absent.difference_update(event.servers)
            self._place(event, event.request or {})
            return
        (uuid,) = event.servers
        if uuid in self._absent:
            self._ignored += 1
        elif uuid not in self._cloud:
            if uuid not in self._trace.created:
                where = "the trace creates no such server, and the fleet file has none"
                self._faults.add(event.line, f"server {uuid} does not exist: {where}")
        elif event.kind == DELETE:
            self._cloud.remove(uuid)
        else:
            document = event.request
            if document is None:
                document = self._cloud.get_document(uuid)
            if event.kind == MOVE and event.request is None:
                document = {**document, "ignore_hosts": [self._cloud.get_host(uuid)]}
            self._place(event, document)

    def _place(self, event: Event, document: Json) -> None:
        """Place the servers of an event, or record that the request is refused.

        A server that is resized or moved holds its old resources until the new host is found.
        """
        document = {**document, "instance_uuids": list(event.servers)}
        try:
            document = self._use_stored_group(self._use_stored_flavor(document))
            run = self._evaluate(document, self._build_seed(event))
        except (Invalid, NotFound) as failure:
            self._faults.add(event.line, failure.detail)
            self._absent.update(event.servers if event.kind == CREATE else ())
            return
        if not run.selections:
            self._refuse(event, run)
            return
        for placed in run.list_placed_instances():
            uuid = str(placed.spec.instance_uuid)
            if uuid in self._cloud:
                self._cloud.remove(uuid)
            group = run.request.joined_group
            self._cloud.place(placed.spec, placed.selection, group, document)

    def _evaluate(self, document: Json, seed: DecisionSeed | None = None) -> SchedulingRun:
        reader = self._simulation.reader
        request = reader.validate(reader.read(document, overrides=self._variant.overrides))
        if request.spec.num_instances > 1:
            self._cloud.write_allocations()  # the capacity that remains is read
        if self._cells is None or self._cells.settings is not request.settings:
            now = request.plugins.driver.now
            self._cells = CellStates(self._connection, request.settings, now)
        view = RequestView(
            self._connection,
            self._cloud.caches,
            self._cells,
            known_aggregates=self._aggregates,
            policies=request.policies,
        )
        view.host_versions = {}  # nodes and services are in memory
        return self._simulation.evaluate(self._connection, request, seed=seed, view=view)

    def _build_seed(self, event: Event) -> DecisionSeed:
        name = event.decision or f"line {event.line}"
        return DecisionSeed(f"{name}/{self._seed}" if self._seed else name)

    def _use_stored_group(self, document: Json) -> Json:
        """Replace a server group by its uuid, so that its members are current."""
        group = document.get("instance_group")
        if not isinstance(group, dict) or not group.get("uuid"):
            return document
        uuid = group["uuid"]
        if server_groups.find_by_uuid(self._connection, uuid) is None:
            stored = ServerGroup.from_document({**group, "members": [], "hosts": []})
            name = stored.name or uuid
            stored = replace(stored, name=name, **self._get_owner(document))
            server_groups.put(self._connection, [stored], self._simulation.clock())
        return {**document, "instance_group": uuid}

    @staticmethod
    def _get_owner(document: Json) -> Json:
        return {name: document.get(name) or "" for name in ("project_id", "user_id")}

    def _use_stored_flavor(self, document: Json) -> Json:
        name = document["flavor"]
        if not isinstance(name, str):
            return document
        if name not in self._flavors:
            names = self._flavors.keys()
            raise NotFound(f"there is no flavor {name!r}{suggest_name('flavor', name, names)}")
        return {**document, "flavor": self._flavors[name]}

    def _refuse(self, event: Event, run: SchedulingRun) -> None:
        if event.kind == CREATE:
            self._absent.update(event.servers)
        obstacle = build_funnel(run, self._connection).obstacle
        if obstacle is None:
            raise AssertionError("a run without selections has no obstacle")
        self._refusals.append(
            Refusal(
                line=event.line,
                time=event.time,
                event=event.kind,
                flavor=run.request.spec.flavor.name or UNNAMED,
                stage=obstacle.title or obstacle.stage,
                kind=obstacle.kind,
                subject=obstacle.subject,
                reason=obstacle.reason,
            )
        )
        if len(self._refusals) == self._options.explained:
            self._cloud.write_allocations()
            view = ExplanationView()
            self._explanation, _ = make_explanation(self._connection, run, view)

    def _find_largest_flavor(self, events: Sequence[Event]) -> str | None:
        """Return the name of the largest flavor of the trace that fits."""
        documents: dict[str, Json] = {}
        for event in events:
            flavor = (event.request or {}).get("flavor")
            flavor = self._flavors.get(flavor) if isinstance(flavor, str) else flavor
            if flavor is not None:
                documents[flavor.get("name") or UNNAMED] = flavor
        size = partial(_compute_size, documents)
        for name in sorted(documents, key=size, reverse=True):
            try:
                if self._evaluate({"flavor": documents[name]}).selections:
                    return name
            except (Invalid, NotFound):
                continue
        return None


def _compute_size(documents: Mapping[str, Json], name: str) -> tuple[int, int, int, str]:
    flavor = documents[name]
    disk = (flavor.get("root_gb") or 0) + (flavor.get("ephemeral_gb") or 0)
    return flavor["memory_mb"], flavor["vcpus"], disk, name

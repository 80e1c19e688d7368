# SPDX-License-Identifier: Apache-2.0
"""Steps of a scheduling request, from its document to the claimed host.

    read      look up the names in the request, choose its policy       request.py
    extend    request filters add constraints to the query              filtering.py
    search    find allocation candidates                                resource_request.py
    load      build the host states of the candidates                   host_manager.py
    choose    host filters, weighers, the best host of each instance    selection.py
    claim     allocate the resources of all instances                   claim.py
    record    store the decision in the same transaction                decisions.py
    notify    send notifications of start and end                       notifications.py

:meth:`Scheduler.select_destinations` runs all steps, and starts again after a conflict.
:meth:`Scheduler.select_together` does the same for several requests with a single claim.
:meth:`Scheduler.explain` runs the steps up to the choice. All three run :meth:`Scheduler.evaluate`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import InitVar, dataclass, field, replace
from random import Random
from threading import Semaphore
from typing import Any, TypeVar

from placement_sched.clients.neutron import Neutron
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import (
    Connection,
    Database,
    ReadableDatabase,
    ScratchTransaction,
    run_and_roll_back,
)
from placement_sched.errors import (
    CapacityExceeded,
    ConcurrentUpdate,
    Invalid,
    NotFound,
    TooComplex,
    Unavailable,
    relocate_errors,
)
from placement_sched.explain.values import ExplanationView
from placement_sched.limits import (
    MAX_CLAIM_ATTEMPTS,
    MAX_EXPENSIVE_QUERIES,
    MAX_INSTANCES,
    MAX_REQUESTED_AMOUNTS,
)
from placement_sched.model.candidates_query import iterate_amounts
from placement_sched.model.clock import Clock, measure
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.decision import EXPLAIN, NO_CLAIM, SELECT, DecisionSeed, SchedulingResult
from placement_sched.model.document import Document, Json
from placement_sched.model.figures import set_failover_result
from placement_sched.model.request_stats import get_request_stats
from placement_sched.notifications import SILENT, Notifier
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.claim import ClaimMode, Claims
from placement_sched.scheduler.decisions import (
    build_no_valid_host,
    build_result,
    check_recorded_size,
    make_decision,
)
from placement_sched.scheduler.explain.explanation import make_explanation
from placement_sched.scheduler.explain.funnel import build_funnel
from placement_sched.scheduler.filtering import check_request, run_request_filters
from placement_sched.scheduler.host_manager import (
    EarlierInstance,
    RequestView,
    get_host_states,
    set_preferred_traits,
)
from placement_sched.scheduler.host_state import with_device_providers
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.plugin_hooks import load_plugin_hooks
from placement_sched.scheduler.request import (
    REQUEST_PATH,
    RequestReader,
    SchedulingRequest,
    check_document_sizes,
    compute_request_digest,
)
from placement_sched.scheduler.resource_request import find_candidates
from placement_sched.scheduler.selection import (
    FilterWeighResult,
    HostSelector,
    RemainingCapacity,
    SchedulingRun,
)
from placement_sched.scheduler.simulation import CloudChange, apply, expand_aggregates, read_changes
from placement_sched.scheduler.spread import with_spread

T = TypeVar("T")

_BUSY = (
    f"this process already runs {MAX_EXPENSIVE_QUERIES} queries about the whole cloud "
    "(capacity, changes, plan, rebalance), which is the maximum: try again later"
)


@dataclass(eq=False, slots=True, kw_only=True)
class Scheduler:
    """Scheduler of a process, which any number of threads may use.

    ``random`` draws the uuid of each decision, which seeds all random choices of its run.
    ``neutron`` provides networks and ports, and is None if it is not configured. ``notifier``
    sends notifications about requests and their results. A worker begins with ``parent``, the
    settings of its parent process. Requests read the cloud from ``source``: the database, or the
    transaction of a simulation.
    """

    database: Database
    settings: Settings
    clock: Clock
    random: Random
    caches: ProcessCaches
    neutron: Neutron | None = None
    notifier: Notifier = SILENT
    parent: InitVar[LiveSettings | None] = None
    source: ReadableDatabase = field(init=False)
    live: LiveSettings = field(init=False)
    reader: RequestReader = field(init=False)
    claims: Claims = field(init=False)
    query_slots: Semaphore = field(
        default_factory=lambda: Semaphore(MAX_EXPENSIVE_QUERIES), init=False
    )

    def __post_init__(self, parent: LiveSettings | None) -> None:
        self.source = self.database
        aggregates, node_history = self.caches.aggregates, self.caches.node_history
        self.live = LiveSettings(
            self.settings,
            self.clock,
            in_use=lambda: aggregates.read_policies_in_use(self.database),
            parent=parent,
        )
        self.reader = RequestReader(self.database, self.live, self.clock, aggregates, self.neutron)
        self.claims = Claims(self.database, self.settings, self.clock, node_history)
        for provide in load_plugin_hooks("placement_client", self.settings):
            provide(self)

    def read_changes(self, documents: Sequence[Json] | None) -> tuple[CloudChange, ...]:
        """Read changes from JSON, with the hosts of the aggregates that they name.

        Raises :class:`Invalid` with the JSON path for an invalid change.
        """
        if not (changes := read_changes(documents)):
            return ()
        with self.source.read() as connection:
            return expand_aggregates(connection, changes)

    def simulate(self, changes: Sequence[CloudChange], work: Callable[["Simulation"], T]) -> T:
        """Return the result of ``work`` in a simulation of the changed cloud.

        The changes, and everything that ``work`` writes, are rolled back and visible to no other
        request. Raises :class:`Invalid` if a change is impossible, and :class:`Unavailable` after
        ``[scheduler] what_if_timeout`` or if no query slot is free.
        """

        def run(scratch: ScratchTransaction) -> T:
            apply(scratch, changes, self.clock())
            scheduler, caches = copy(self), ProcessCaches()
            scheduler.source, scheduler.caches = scratch, caches
            scheduler.reader = replace(self.reader, database=scratch, aggregates=caches.aggregates)
            return work(Simulation(scheduler, scratch))

        with self.hold_query_slot():
            return run_and_roll_back(
                self.database, run, self.live.get_settings().scheduler.what_if_timeout
            )

    @contextmanager
    def hold_query_slot(self) -> Iterator[None]:
        """Hold a slot for a query of the whole cloud, which may take seconds.

        A process has :data:`MAX_EXPENSIVE_QUERIES` slots. Queries within a simulation need no slot,
        because the simulation holds a slot. Raises :class:`Unavailable` if no slot is free.
        """
        if isinstance(self.source, ScratchTransaction):
            yield
            return
        if not self.query_slots.acquire(blocking=False):
            raise Unavailable(_BUSY)
        try:
            yield
        finally:
            self.query_slots.release()

    def select_destinations(
        self,
        document: Document,
        *,
        alternates: bool = False,
        claiming: ClaimMode = ClaimMode.NEW,
        ids: RequestIds = NO_REQUEST,
    ) -> SchedulingResult:
        """Select hosts for a request, and claim them in the mode ``claiming``.

        A repeated request with the same instance uuids returns the same result. Raises
        :class:`NoValidHost` with the funnel (the counts of remaining hosts per stage),
        :class:`Conflict` if another request has placed the instances, :class:`Invalid`,
        :class:`PluginFailed`, and :class:`ServiceFailed` if neutron is needed and does not answer.
        """
        (result,) = self._select([(document, REQUEST_PATH)], alternates, claiming, ids)
        return result

    def select_together(
        self,
        documents: Sequence[Document],
        *,
        alternates: bool = False,
        claiming: ClaimMode = ClaimMode.NEW,
        ids: RequestIds = NO_REQUEST,
    ) -> list[SchedulingResult]:
        """Select hosts for several requests, and claim all or none of them.

        A later request is evaluated as if the instances of earlier requests were already on their
        selected hosts. If any request has no valid host, no request is claimed. A request that an
        equal request of an earlier call has claimed keeps its hosts. Raises the errors of
        :meth:`select_destinations`, with JSON paths below ``$.requests``.
        """
        entries = [
            (document, f"$.requests[{position}].request_spec")
            for position, document in enumerate(documents)
        ]
        _check_together(entries)
        return self._select(entries, alternates, claiming, ids)

    def _select(
        self,
        entries: Sequence[tuple[Document, str]],
        alternates: bool,
        claiming: ClaimMode,
        ids: RequestIds,
    ) -> list[SchedulingResult]:
        """Select hosts for each entry, a pair of a document and its JSON path."""
        results: dict[str, SchedulingResult] = {}
        requests: list[SchedulingRequest] = []
        with ExitStack() as notifications:
            for document, path in entries:
                with relocate_errors(REQUEST_PATH, path):
                    try:
                        request = self.reader.read(document, alternates=alternates)
                    except (NotFound, Invalid):  # the flavor may be deleted since the first call
                        spec = self.reader.read_instances(document)
                        digest = compute_request_digest(spec.instance_uuids, document)
                        claimed = self.claims.find_existing_claim(spec, digest, claiming, ids)
                        if claimed is None:
                            raise
                        results[path] = claimed
                        continue
                    notifications.enter_context(self.notifier.notify_of_request(request.spec))
                    request = replace(request, path=path, is_together=len(entries) > 1)
                    if claimed := self._find_claim(request, claiming, ids):
                        results[path] = claimed
                    else:
                        requests.append(self.reader.validate(request))
                        if len(requests) > 1:
                            check_document_sizes(requests)
            results |= self._select_and_claim(requests, claiming, ids)
        return [results[path] for _, path in entries]

    def _find_claim(
        self, request: SchedulingRequest, claiming: ClaimMode, ids: RequestIds
    ) -> SchedulingResult | None:
        return self.claims.find_existing_claim(request.spec, request.digest, claiming, ids)

    def _select_and_claim(
        self, requests: Sequence[SchedulingRequest], claiming: ClaimMode, ids: RequestIds
    ) -> dict[str, SchedulingResult]:
        """Select hosts and claim them, and return the results by JSON path.

        After a conflict with a concurrent request, the hosts are selected again.
        """
        results: dict[str, SchedulingResult] = {}
        seeds = {request.path: DecisionSeed.draw(self.random) for request in requests}
        is_dry_run = claiming is ClaimMode.NONE
        kind = NO_CLAIM if is_dry_run else SELECT
        for attempt in range(MAX_CLAIM_ATTEMPTS):
            if attempt:
                get_request_stats().claims_retried += 1
                requests = [self.reader.read_again(request) for request in requests]
                for request in requests:
                    with relocate_errors(REQUEST_PATH, request.path):
                        if claimed := self._find_claim(request, claiming, ids):
                            results[request.path] = claimed
                requests = [request for request in requests if request.path not in results]
            if not requests:
                return results
            runs = self._run_in_turn(requests, seeds, attempt, kind, ids)
            if is_dry_run or requests[0].spec.is_rebuild:
                decisions = [make_decision(run, build_funnel(run, None), kind, ids) for run in runs]
                for decision in decisions:
                    self.claims.record(decision)
            else:
                try:
                    with measure(get_request_stats().stages, "claim"):  # and record
                        decisions = self.claims.claim(runs, ids, claiming)
                except (CapacityExceeded, ConcurrentUpdate):
                    continue
            pairs = zip(runs, decisions, strict=True)
            return results | {run.request.path: build_result(decision) for run, decision in pairs}
        raise ConcurrentUpdate("concurrent requests took all selected hosts, try again")

    def _run_in_turn(
        self,
        requests: Sequence[SchedulingRequest],
        seeds: Mapping[str, DecisionSeed],
        attempt: int,
        kind: str,
        ids: RequestIds,
    ) -> list[SchedulingRun]:
        """Run the requests in order.

        Each run includes the instances that earlier runs have placed. For a request without a valid
        host, the decision is recorded and :class:`NoValidHost` raised.
        """
        runs: list[SchedulingRun] = []
        earlier: list[EarlierInstance] = []
        for request in requests:
            seed = replace(seeds[request.path], attempt=attempt)
            request_now = _with_earlier_members(request, earlier)
            with (
                relocate_errors(REQUEST_PATH, request.path),
                self.evaluate(request_now, seed=seed, earlier=earlier) as (connection, run),
            ):
                funnel = None if run.selections else build_funnel(run, connection)
            if funnel is not None:
                decision = make_decision(run, funnel, kind, ids)
                self.claims.record(decision)
                raise build_no_valid_host(funnel, decision, request.path)
            runs.append(run)
            if len(requests) > 1:
                earlier = [*earlier, *_list_placed_instances(run)]
                _check_amounts(earlier)
        return runs

    @contextmanager
    def evaluate(
        self,
        request: SchedulingRequest,
        watch: Callable[[FilterWeighResult], None] | None = None,
        seed: DecisionSeed | None = None,
        earlier: Sequence[EarlierInstance] = (),
    ) -> Iterator[tuple[Connection, SchedulingRun]]:
        """Run a request without a claim, and yield the connection and the run.

        ``watch`` is called with the :class:`FilterWeighResult` of each instance in turn. Runs with
        the same ``seed`` make the same random choices. By default, a new seed is drawn. ``earlier``
        are the placed instances of earlier requests in the call. Raises :class:`Invalid` if the
        request is invalid, and :class:`PluginFailed` if a plugin raises an error.
        """
        seed = seed or DecisionSeed.draw(self.random)
        with self.source.read() as connection:
            view = RequestView.from_request(connection, request, self.caches, earlier)
            run = self.prepare_run(connection, request, seed, view=view)
            if not run.filtered_request.rejection:
                spec = run.filtered_request.spec
                capacity = RemainingCapacity.from_candidates(
                    connection,
                    spec,
                    run.searches.candidates,
                    [instance.selection for instance in earlier],
                )
                choice = run.selector.choose(run.hosts, spec, capacity, watch)
                run = replace(run, choice=choice)
            yield connection, run

    def prepare_run(
        self,
        connection: Connection,
        request: SchedulingRequest,
        seed: DecisionSeed,
        *,
        unlimited: bool = False,
        view: RequestView | None = None,
    ) -> SchedulingRun:
        """Prepare a run: find candidate hosts, before host filters and weighers.

        With ``unlimited``, every candidate is found, for callers that count them. ``view`` is the
        view of the cloud, by default a new view of the request. Raises the errors of
        :meth:`evaluate`.
        """
        random, durations = seed.build_random(), get_request_stats().stages
        view = view or RequestView.from_request(connection, request, self.caches)
        request = self._provide_plugin_data(view, request)
        selector = HostSelector(
            plugins=request.plugins,
            settings=request.settings,
            random=random,
            closed_cells=view.cells,
            alternates=request.alternates,
            check=self.source.check,
            seconds=durations,
        )
        check_request(request.plugins.filters, request.spec)
        with measure(durations, "request_filters"):
            filtered = run_request_filters(request.plugins.request_filters, request.spec, view)
            filtered = replace(filtered, spec=with_spread(view, filtered.spec))
        with measure(durations, "search"):
            searches = find_candidates(view, request, filtered, random, unlimited=unlimited)
        get_request_stats().candidates = len(searches.candidates.requests)
        run = SchedulingRun(request, seed, view, selector, filtered, searches)
        if filtered.rejection:
            return run
        with measure(durations, "host_states"):
            hosts = tuple(get_host_states(view, filtered.spec, searches.candidates))
            set_preferred_traits(view, filtered.spec, hosts)
        for provide in load_plugin_hooks("lookups", request.settings):
            provide(view, hosts)  # host filters may also read the hosts
        return replace(run, hosts=hosts)

    def _provide_plugin_data(
        self, view: RequestView, request: SchedulingRequest
    ) -> SchedulingRequest:
        """Provide data that plugins read in addition to their arguments."""
        request = self._publish_failover_result(view, request)
        for provide in load_plugin_hooks("lookups", request.settings):
            provide(view, ())
        if not request.plugins.reads_flavors:
            return request
        flavors = self.caches.flavors.get_current(view.connection)
        return replace(request, spec=replace(request.spec, cloud_flavors=flavors))

    def _publish_failover_result(
        self, view: RequestView, request: SchedulingRequest
    ) -> SchedulingRequest:
        """Publish the last failover result for the filters that read it.

        In a simulation, these filters are dropped, as the result is for the unchanged cloud.
        """
        plugins = request.plugins.drop_failover_filters()
        if plugins is request.plugins:
            return request
        if isinstance(self.source, ScratchTransaction):
            return replace(request, plugins=plugins)
        result = self.caches.failover.get_current(view.connection)
        if result is not None and view.earlier:
            result = result.subtract_instances(each.spec.flavor.name for each in view.earlier)
        set_failover_result(result)
        return request

    def explain(
        self,
        document: Document,
        *,
        view: ExplanationView,
        changes: Sequence[Json] = (),
        recorded_for: RequestIds | None = None,
        **options: Any,
    ) -> SchedulingResult:
        """Explain how a request would be scheduled, without a claim.

        The run has the same steps as :meth:`select_destinations`, on the cloud with ``changes``,
        which are JSON objects. ``options`` are keyword arguments of :meth:`RequestReader.read`:
        ``alternates``, ``policy`` and ``overrides``. If ``view`` names hosts, ``verdicts`` in the
        result has a verdict on each named host.

        If ``recorded_for`` has the ids of the caller's request, the explanation is recorded as a
        decision. Then :class:`Invalid` is raised if overrides or changes are too large to record,
        and :class:`Unavailable` if the record cannot be written.
        """
        if recorded_for is not None:
            check_recorded_size(options.get("overrides") or {}, changes)

        def explain_on(scheduler: Scheduler) -> SchedulingResult:
            request = scheduler.reader.validate(scheduler.reader.read(document, **options))
            with scheduler.evaluate(request) as (connection, run):
                explanation = make_explanation(connection, run, view)
                if recorded_for is None:
                    return SchedulingResult(explanation, funnel=explanation["funnel"])
                funnel = build_funnel(run, connection)
            decision = make_decision(run, funnel, EXPLAIN, recorded_for, changes)
            explanation = {"decision": decision.uuid, **explanation}
            return SchedulingResult(explanation, decision, decision.funnel)

        parsed = self.read_changes(changes)
        if parsed:
            result = self.simulate(parsed, lambda simulation: explain_on(simulation.scheduler))
        else:
            result = explain_on(self)
        # Recorded after the simulation, because everything written in it is rolled back.
        if result.decision is not None:
            self.claims.record_or_raise(result.decision)
        return result


@dataclass(frozen=True, slots=True)
class Simulation:
    """A scheduler of a changed cloud, and the transaction with the changes.

    The transaction is rolled back at the end. Callers must not claim with the scheduler: its claims
    would be written outside of the transaction.
    """

    scheduler: Scheduler
    scratch: ScratchTransaction

    @property
    def connection(self) -> Connection:
        """Return the connection of the transaction."""
        return self.scratch.connection


def _check_together(entries: Sequence[tuple[Document, str]]) -> None:
    """Raise :class:`Invalid` for documents that cannot be placed together."""
    path_by_uuid: dict[str, str] = {}
    count = 0
    for document, path in entries:
        spec = RequestReader.read_instances(document)
        if spec.is_rebuild:
            raise Invalid(
                "a rebuild cannot be placed together with other requests: send it alone",
                json_path=f"{path}.scheduler_hints",
            )
        count += len(spec.instance_uuids) or document.get("num_instances", 1)
        for position, uuid in enumerate(spec.instance_uuids):
            json_path = f"{path}.instance_uuids[{position}]"
            if uuid in path_by_uuid:
                raise Invalid(
                    f"instance {uuid} is also at {path_by_uuid[uuid]}", json_path=json_path
                )
            path_by_uuid[uuid] = json_path
    if count > MAX_INSTANCES:
        raise Invalid(
            f"the requests are for {count} instances, the maximum is {MAX_INSTANCES}",
            json_path="$.requests",
        )


def _list_placed_instances(run: SchedulingRun) -> list[EarlierInstance]:
    spec = run.request.spec
    pairs = zip(spec.instance_uuids, run.selections, strict=True)
    return [
        EarlierInstance(
            with_device_providers(spec.with_instance(uuid), best.allocation_request),
            best,
            _find_group(run.request),
        )
        for uuid, (best, *_) in pairs
    ]


def _find_group(request: SchedulingRequest) -> tuple[str, bool] | None:
    group = request.spec.instance_group
    if group is None or group.uuid is None:
        return None
    return group.uuid, request.names_group


def _with_earlier_members(
    request: SchedulingRequest, earlier: Sequence[EarlierInstance]
) -> SchedulingRequest:
    """Add instances of earlier requests in the same server group to the group."""
    key, group = _find_group(request), request.spec.instance_group
    joined = [each for each in earlier if each.group == key]
    if group is None or key is None or not joined:
        return request
    uuids = (each.spec.instance_uuid or "" for each in joined)
    hosts = (each.selection.service_host for each in joined)
    spec = replace(request.spec, instance_group=group.with_members(uuids, hosts))
    return replace(request, spec=spec)


def _check_amounts(placed: Sequence[EarlierInstance]) -> None:
    amounts = [
        pair
        for instance in placed
        for pair in iterate_amounts(instance.selection.allocation_request)
    ]
    if len(amounts) > MAX_REQUESTED_AMOUNTS:
        raise TooComplex(
            f"the requests together exceed {MAX_REQUESTED_AMOUNTS} amounts of resources",
            json_path="$.requests",
        )

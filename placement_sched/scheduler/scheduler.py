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

:meth:`Scheduler.select_destinations` runs all steps, and starts again after a conflict. The steps
from ``extend`` to ``choose`` are :meth:`Evaluator.evaluate`, which writes nothing.
:meth:`Scheduler.explain` ends with them. They also run on changed clouds (:class:`Simulation`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import InitVar, dataclass, field, replace
from random import Random
from threading import Semaphore
from typing import Any, ClassVar, TypeVar

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
    Unavailable,
)
from placement_sched.explain.values import ExplanationView
from placement_sched.limits import MAX_CLAIM_ATTEMPTS, MAX_EXPENSIVE_QUERIES
from placement_sched.model.clock import Clock, measure
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.decision import (
    EXPLAIN,
    DecisionSeed,
    ExplanationResult,
    SchedulingResult,
)
from placement_sched.model.document import Document, Json
from placement_sched.model.figures import set_failover_result
from placement_sched.model.request_stats import get_request_stats
from placement_sched.notifications import SILENT, Notifier
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.claim import ClaimMode, Claims
from placement_sched.scheduler.decisions import (
    build_no_valid_host,
    check_recorded_size,
    make_decision,
)
from placement_sched.scheduler.explain.explanation import make_explanation
from placement_sched.scheduler.explain.funnel import build_funnel
from placement_sched.scheduler.filtering import check_request, run_request_filters
from placement_sched.scheduler.host_manager import (
    RequestView,
    UnclaimedInstance,
    get_host_states,
    set_preferred_traits,
)
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.plugins import load_plugin_hooks
from placement_sched.scheduler.request import (
    RequestReader,
    SchedulingRequest,
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

#: The error after :data:`MAX_CLAIM_ATTEMPTS` conflicts.
LOST_TOO_OFTEN = "concurrent requests took all selected hosts, try again"

_BUSY = (
    f"this process already runs {MAX_EXPENSIVE_QUERIES} queries about the whole cloud "
    "(capacity, changes, plan, rebalance), which is the maximum: try again later"
)


@dataclass(eq=False, slots=True, kw_only=True)
class Evaluator:
    """Evaluator of requests, which writes nothing.

    Requests read the cloud from ``source``: the database, or the transaction of a simulation.
    ``random`` draws the uuid of each decision, which seeds all random choices of its run.
    """

    source: ReadableDatabase
    live: LiveSettings
    clock: Clock
    random: Random
    caches: ProcessCaches
    reader: RequestReader
    is_simulation: ClassVar[bool] = False

    def evaluate(
        self,
        connection: Connection,
        request: SchedulingRequest,
        *,
        seed: DecisionSeed | None = None,
        watch: Callable[[FilterWeighResult], None] | None = None,
        unclaimed: Sequence[UnclaimedInstance] = (),
        view: RequestView | None = None,
    ) -> SchedulingRun:
        """Run a request up to the choice of its hosts, and return the run.

        A ``seed`` repeats the random choices of a run. ``watch`` is called with the
        :class:`FilterWeighResult` of each instance. ``unclaimed`` instances count as if they were
        already on their hosts. ``view`` is by default a new view of the request. Raises
        :class:`Invalid`, and :class:`PluginFailed` if a plugin raises an error.
        """
        seed = seed or DecisionSeed.draw(self.random)
        view = view or RequestView.from_request(connection, request, self.caches, unclaimed)
        run = self.prepare_run(connection, request, seed, view=view)
        if run.filtered_request.rejection:
            return run
        spec, candidates = run.filtered_request.spec, run.searches.candidates
        selections = [each.selection for each in unclaimed]
        capacity = RemainingCapacity.from_candidates(connection, spec, candidates, selections)
        return replace(run, choice=run.selector.choose(run.hosts, spec, capacity, watch))

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

        With ``unlimited``, every candidate is found. ``view`` is by default a new view of the
        request. Raises the errors of :meth:`evaluate`.
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
        with measure(durations, "request_filters"):  # extend
            filtered = run_request_filters(request.plugins.request_filters, request.spec, view)
            filtered = replace(filtered, spec=with_spread(view, filtered.spec))
        with measure(durations, "search"):
            searches = find_candidates(view, request, filtered, random, unlimited=unlimited)
        get_request_stats().candidates = len(searches.candidates.requests)
        run = SchedulingRun(request, seed, view, selector, filtered, searches)
        if filtered.rejection:
            return run
        with measure(durations, "host_states"):  # load
            hosts = tuple(get_host_states(view, filtered.spec, searches.candidates))
            set_preferred_traits(view, filtered.spec, hosts)
        for provide in load_plugin_hooks("lookups", request.settings):
            provide(view, hosts)  # host filters may also read the hosts
        return replace(run, hosts=hosts)

    def _provide_plugin_data(
        self, view: RequestView, request: SchedulingRequest
    ) -> SchedulingRequest:
        """Provide data that plugins read in addition to their arguments."""
        plugins = request.plugins.drop_failover_filters()
        if plugins is not request.plugins:
            if self.is_simulation:
                request = replace(request, plugins=plugins)
            else:
                result = self.caches.failover.get_current(view.connection)
                if result is not None and view.unclaimed:
                    names = (each.spec.flavor.name for each in view.unclaimed)
                    result = result.subtract_instances(names)
                set_failover_result(result)
        for provide in load_plugin_hooks("lookups", request.settings):
            provide(view, ())
        if not request.plugins.reads_flavors:
            return request
        flavors = self.caches.flavors.get_current(view.connection)
        return replace(request, spec=replace(request.spec, cloud_flavors=flavors))

    def hold_query_slot(self) -> AbstractContextManager[None]:
        """Hold a slot for a query of the whole cloud, or raise Unavailable."""
        return nullcontext()


@dataclass(eq=False, slots=True, kw_only=True)
class Simulation(Evaluator):
    """Evaluator of a changed cloud, without claims, which is rolled back."""

    source: ScratchTransaction
    is_simulation: ClassVar[bool] = True

    @property
    def connection(self) -> Connection:
        """Return the connection of the transaction."""
        return self.source.connection


@dataclass(eq=False, slots=True, kw_only=True)
class Scheduler(Evaluator):
    """Scheduler of a process, which any number of threads may use.

    ``neutron`` provides networks and ports, and is None if it is not configured. ``notifier``
    sends notifications about requests and their results. A worker begins with ``parent``, the
    settings of its parent process.
    """

    database: Database
    settings: Settings
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

    def select_destinations(
        self,
        document: Document,
        *,
        alternates: bool = False,
        claiming: ClaimMode = ClaimMode.NEW,
        ids: RequestIds = NO_REQUEST,
    ) -> SchedulingResult:
        """Select hosts for a request, and claim them in the mode ``claiming``.

        After a conflict with a concurrent request, the hosts are selected again. A repeated request
        with the same instance uuids returns the same result. Raises :class:`NoValidHost` with the
        funnel (the counts of remaining hosts per stage), :class:`Conflict` if another request has
        placed the instances, :class:`Invalid`, :class:`PluginFailed`, and :class:`ServiceFailed` if
        neutron is needed and does not answer.
        """
        try:
            request = self.reader.read(document, alternates=alternates)
        except (NotFound, Invalid):
            if claimed := self.find_claim(document, claiming, ids):
                return claimed
            raise
        with self.notifier.notify_of_request(request.spec):
            seed = DecisionSeed.draw(self.random)
            for attempt in range(MAX_CLAIM_ATTEMPTS):
                get_request_stats().claims_retried += attempt > 0
                spec, digest = request.spec, request.digest
                if claimed := self.claims.find_existing_claim(spec, digest, claiming, ids):
                    return claimed
                reader = self.reader
                request = reader.read_again(request) if attempt else reader.validate(request)
                with self.source.read() as connection:
                    seed = replace(seed, attempt=attempt)
                    run = self.evaluate(connection, request, seed=seed)
                    funnel = None if run.selections else build_funnel(run, connection)
                if funnel is not None:
                    decision = make_decision(run, funnel, claiming.decision_kind, ids)
                    self.claims.record(decision)
                    raise build_no_valid_host(funnel, decision)
                try:
                    (result,) = self.claims.claim([run], ids, claiming)  # and record
                except (CapacityExceeded, ConcurrentUpdate):
                    continue
                return result
            raise ConcurrentUpdate(LOST_TOO_OFTEN)

    def find_claim(
        self, document: Document, claiming: ClaimMode, ids: RequestIds
    ) -> SchedulingResult | None:
        """Return the result of an equal request that was claimed, or None.

        The document may name a flavor that was deleted since. Raises the errors of
        :meth:`Claims.find_existing_claim`.
        """
        spec = self.reader.read_instances(document)
        digest = compute_request_digest(spec.instance_uuids, document)
        return self.claims.find_existing_claim(spec, digest, claiming, ids)

    def explain(
        self,
        document: Document,
        *,
        view: ExplanationView,
        changes: Sequence[Json] = (),
        recorded_for: RequestIds | None = None,
        **options: Any,
    ) -> ExplanationResult:
        """Explain how a request would be scheduled, without a claim.

        The run has the same steps as :meth:`select_destinations`, on the cloud with ``changes``
        (JSON objects). ``options`` are arguments of :meth:`RequestReader.read`. If ``view`` names
        hosts, ``verdicts`` in the result has a verdict on each. With ``recorded_for``, the ids of
        the caller's request, the explanation is recorded as a decision. Then :class:`Invalid` is
        raised if overrides or changes are too large to record, and :class:`Unavailable` if the
        record cannot be written.
        """
        if recorded_for is not None:
            check_recorded_size(options.get("overrides") or {}, changes)

        def explain_with(evaluator: Evaluator) -> ExplanationResult:
            request = evaluator.reader.validate(evaluator.reader.read(document, **options))
            with evaluator.source.read() as connection:
                run = evaluator.evaluate(connection, request)
                explanation, funnel = make_explanation(
                    connection, run, view, is_recorded=recorded_for is not None
                )
            if recorded_for is None:
                return ExplanationResult(explanation=explanation, funnel=explanation["funnel"])
            decision = make_decision(run, funnel, EXPLAIN, recorded_for, changes)
            explanation = {"decision": decision.uuid, **explanation}
            return ExplanationResult(
                explanation=explanation, decision=decision, funnel=decision.funnel
            )

        result = self.run_with(self.read_changes(changes), explain_with)
        # Recorded after the simulation, because everything written in it is rolled back.
        if result.decision is not None:
            self.claims.record_or_raise(result.decision)
        return result

    def read_changes(self, documents: Sequence[Json] | None) -> tuple[CloudChange, ...]:
        """Read changes from JSON, with the hosts of the aggregates that they name.

        Raises :class:`Invalid` with the JSON path for an invalid change.
        """
        if not (changes := read_changes(documents)):
            return ()
        with self.source.read() as connection:
            return expand_aggregates(connection, changes)

    def run_with(self, changes: Sequence[CloudChange], work: Callable[[Evaluator], T]) -> T:
        """Return the result of ``work``, in a simulation if there are changes."""
        return self.simulate(changes, work) if changes else work(self)

    def simulate(self, changes: Sequence[CloudChange], work: Callable[[Simulation], T]) -> T:
        """Return the result of ``work`` in a simulation of the changed cloud.

        The changes, and everything that ``work`` writes, are rolled back and visible to no other
        request. Raises :class:`Invalid` if a change is impossible, and :class:`Unavailable` after
        ``[scheduler] what_if_timeout`` or if no query slot is free.
        """

        def run(scratch: ScratchTransaction) -> T:
            apply(scratch, changes, self.clock())
            caches = ProcessCaches()
            simulation = Simulation(
                source=scratch,
                live=self.live,
                clock=self.clock,
                random=self.random,
                caches=caches,
                reader=replace(self.reader, database=scratch, aggregates=caches.aggregates),
            )
            return work(simulation)

        with self.hold_query_slot():
            return run_and_roll_back(
                self.database, run, self.live.get_settings().scheduler.what_if_timeout
            )

    @contextmanager
    def hold_query_slot(self) -> Iterator[None]:
        """Hold a slot, or raise :class:`Unavailable` if no slot is free."""
        if not self.query_slots.acquire(blocking=False):
            raise Unavailable(_BUSY)
        try:
            yield
        finally:
            self.query_slots.release()

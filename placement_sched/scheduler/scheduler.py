# SPDX-License-Identifier: Apache-2.0
"""The path of a scheduling request, from its document to the claimed host.

    read      look up the names in the request, choose its policy       request.py
    narrow    request filters add constraints                           request_filters/
    search    find allocation candidates                                candidates/
    look      make the host states of the candidates                    host_manager.py
    choose    host filters, weighers, the best host of each instance    selection.py
    claim     allocate, start again after a conflict, and return the    claim.py
              recorded result of an equal request
    record    record the decision                                       decisions.py
    notify    send notifications of start and end                       notifications/

:meth:`Scheduler.select_destinations` runs all steps. :meth:`Scheduler.explain` runs all but the
last three. Both call :meth:`Scheduler.evaluate` for the steps from narrow to choose.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from threading import Semaphore
from typing import Any, TypeVar

from placement_sched.config.settings import Settings
from placement_sched.db.scratch import ReadableDatabase, ScratchTransaction, run_and_roll_back
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, NotFound, Unavailable
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import Clock, measure
from placement_sched.model.decision import (
    EXPLAIN,
    NO_CLAIM,
    SELECT,
    Decision,
    DecisionLabels,
    DecisionSeed,
)
from placement_sched.model.document import Document, Json
from placement_sched.model.explanation import EmptyStage, ExplanationView
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.model.request_stats import request_stats
from placement_sched.notifications.announcer import SILENT, Announcer
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.claim import ClaimMode, Claims, claim_with_retries
from placement_sched.scheduler.decisions import check_kept, make_decision, no_valid_host
from placement_sched.scheduler.explain.explanation import make_explanation
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.host_manager import ClosedCells, CloudView, get_host_states
from placement_sched.scheduler.host_state import has_host_attributes
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.narrowing import check_request, run_request_filters
from placement_sched.scheduler.nova_shim.lookups import set_cloud
from placement_sched.scheduler.request import NetworkDirectory, RequestReader, SchedulingRequest
from placement_sched.scheduler.resource_request import find_candidates
from placement_sched.scheduler.selection import (
    FilterWeighResult,
    HostSelector,
    RemainingCapacity,
    SchedulingRun,
)
from placement_sched.scheduler.simulation import AppliedChanges, CloudChange, apply, changes_from

T = TypeVar("T")

#: Maximum number of whole-cloud queries, of seconds each, that run concurrently. Lower than the
#: number of threads of a server, so that other requests still get a thread.
MAX_EXPENSIVE_QUERIES = 2
_BUSY = (
    f"this process already runs {MAX_EXPENSIVE_QUERIES} queries about the whole cloud "
    "(capacity, changes, plan, rebalance), which is the maximum: try again later"
)


@dataclass(eq=False, slots=True, kw_only=True)
class Scheduler:
    """The scheduler of a process, safe for any number of threads.

    ``random`` draws the uuids of decisions, which seed all random choices of their runs.
    ``neutron`` provides networks and ports, and is None if it is not configured. ``announcer``
    sends notifications about requests and their results. ``source`` is the state of the cloud
    that requests read: the database, unless :meth:`reading_from` sets another.
    """

    database: Database
    settings: Settings
    clock: Clock
    random: Random
    memory: ProcessCaches
    neutron: NetworkDirectory | None = None
    announcer: Announcer = SILENT
    source: ReadableDatabase = field(init=False)
    live: LiveSettings = field(init=False)
    reader: RequestReader = field(init=False)
    claims: Claims = field(init=False)
    places: Semaphore = field(default_factory=lambda: Semaphore(MAX_EXPENSIVE_QUERIES), init=False)

    def __post_init__(self) -> None:
        self.source = self.database
        aggregates, kept_nodes = self.memory.aggregates, self.memory.kept_nodes
        list_policies = partial(aggregates.policies_in_use, self.database)
        self.live = LiveSettings(self.settings, self.clock, in_use=list_policies)
        self.reader = RequestReader(self.database, self.live, self.clock, aggregates, self.neutron)
        self.claims = Claims(self.database, self.settings, self.clock, kept_nodes)

    def reading_from(self, source: ReadableDatabase, memory: ProcessCaches) -> "Scheduler":
        """Return a copy of the scheduler that reads ``source`` and never claims.

        ``memory`` must be caches that are used with this source only.
        """
        scheduler = copy.copy(self)
        scheduler.source, scheduler.memory = source, memory
        scheduler.reader = replace(self.reader, database=source, aggregates=memory.aggregates)
        return scheduler

    def simulate(
        self,
        changes: Sequence[CloudChange],
        ask: Callable[["Scheduler", ScratchTransaction, AppliedChanges], T],
    ) -> T:
        """Return the result of ``ask``, called with a scheduler on the changed cloud.

        The changes, and everything that ``ask`` writes, are rolled back and visible to no other
        request. Raises :class:`Invalid` if a change is impossible, and :class:`Unavailable` after
        ``[scheduler] what_if_timeout``.
        """

        def run(trial: ScratchTransaction) -> T:
            applied = apply(trial, changes, self.clock())
            return ask(self.reading_from(trial, ProcessCaches()), trial, applied)

        with self.expensive_query_slot():
            return run_and_roll_back(
                self.database, run, self.live.settings().scheduler.what_if_timeout
            )

    @contextmanager
    def expensive_query_slot(self) -> Iterator[None]:
        """Hold a slot for a query about the whole cloud, which may take seconds.

        A simulation already has a slot. Raises :class:`Unavailable` if no slot is free.
        """
        if isinstance(self.source, ScratchTransaction):
            yield
            return
        if not self.places.acquire(blocking=False):
            raise Unavailable(_BUSY)
        try:
            yield
        finally:
            self.places.release()

    def select_destinations(
        self,
        document: Document,
        *,
        alternates: bool = False,
        claiming: ClaimMode = ClaimMode.NEW,
        ids: RequestIds = NO_REQUEST,
    ) -> Json:
        """Return the hosts selected for a request spec, claimed as ``claiming``.

        A repeated request with the same instance uuids returns the same result. Raises
        :class:`NoValidHost` with the funnel, :class:`Conflict` if another request has placed
        the instances, :class:`Invalid`, :class:`PluginFailed`, and :class:`ServiceFailed` if
        neutron is needed and does not answer.
        """
        with self.announcer.announcing() as notify_start:  # notify
            try:
                request = self.reader.read(document, alternates=alternates)
            except (NotFound, Invalid):  # e.g. its flavor was deleted after it was placed
                instances = self.reader.instances_of(document)
                if result := self.claims.find_existing_claim(instances, document, claiming, ids):
                    return result
                raise
            notify_start(request.spec)
            if result := self.claims.find_existing_claim(request.spec, document, claiming, ids):
                return result
            request = self.reader.validate(request)
            seed = DecisionSeed.drawn(self.random)

            def attempt(start: int) -> Json:
                return self._select(request, ids, replace(seed, attempt=start), claiming)

            return claim_with_retries(attempt)

    def _select(
        self, request: SchedulingRequest, ids: RequestIds, seed: DecisionSeed, claiming: ClaimMode
    ) -> Json:
        """Run the attempt with the number ``seed.attempt``, and return the result."""
        if seed.attempt:
            request_stats().claims_retried += 1
            request = self.reader.read_again(request)
            if result := self.claims.find_existing_claim(
                request.spec, request.document, claiming, ids
            ):
                return result
        with self.evaluate(request, seed=seed) as (connection, run):
            funnel = None if run.selections else funnel_of(run, connection)
        is_dry_run = claiming is ClaimMode.NONE
        if run.selections and not (is_dry_run or request.spec.is_rebuild):
            with measure(request_stats().stages, "claim"):  # and record
                decision = self.claims.claim(run, partial(_decide_claimed, ids=ids), claiming)
            self._count(decision)
            return dict(decision.answer)
        funnel = funnel or funnel_of(run, None)
        decision = make_decision(run, funnel, NO_CLAIM if is_dry_run else SELECT, ids)
        self.claims.record(decision)
        self._count(decision, funnel.obstacle)
        if not run.selections:
            raise no_valid_host(funnel, decision)
        return dict(decision.answer)

    def _count(self, decision: Decision, obstacle: EmptyStage | None = None) -> None:
        stage, name = (obstacle.stage, obstacle.kind) if obstacle else ("", "")
        policy = decision.policy or DEFAULT_POLICY
        labels = DecisionLabels(decision.outcome, policy, stage, name)
        stats = request_stats()
        stats.decision, stats.made, stats.funnel = labels, decision, decision.funnel

    @contextmanager
    def evaluate(
        self,
        request: SchedulingRequest,
        watch: Callable[[FilterWeighResult], None] | None = None,
        seed: DecisionSeed | None = None,
    ) -> Iterator[tuple[Connection, SchedulingRun]]:
        """Yield a read connection, and the run of a request without its claim.

        ``watch`` is called with the :class:`FilterWeighResult` of each instance in turn. Runs with
        the same ``seed`` make the same random choices. By default, a new seed is drawn. Raises
        :class:`Invalid` if the request is invalid, and :class:`PluginFailed` if a plugin raises.
        """
        seed = seed or DecisionSeed.drawn(self.random)
        with self.source.read() as connection:
            run = self.prepare_run(connection, request, seed, watch=watch)
            if not run.filtered_request.refusal:
                hosts, spec = run.hosts, run.filtered_request.spec
                headroom = RemainingCapacity.of(connection, spec, run.searches.found)
                run = replace(run, choice=run.chooser.choose(hosts, spec, headroom))
            yield connection, run

    def prepare_run(
        self,
        connection: Connection,
        request: SchedulingRequest,
        seed: DecisionSeed,
        *,
        watch: Callable[[FilterWeighResult], None] | None = None,
        unlimited: bool = False,
        cloud: CloudView | None = None,
    ) -> SchedulingRun:
        """Return a run with its candidate hosts, before any is selected.

        ``unlimited`` finds every candidate, regardless of limits, for callers that count them.
        ``cloud`` is the view of an earlier request of the same query. Raises as
        :meth:`evaluate`.
        """
        random, durations = seed.random(), request_stats().stages
        cloud = cloud or CloudView.of(connection, request, self.memory)
        if request.settings.filter_scheduler.nova_shim or has_host_attributes():
            set_cloud(cloud)
        closed_cells = ClosedCells(connection, request.settings, request.plugins.driver.now)
        chooser = HostSelector(
            plugins=request.plugins,
            settings=request.settings,
            random=random,
            alternates=request.alternates,
            closed_cells=closed_cells.among,
            watch=watch,
            check=self.source.check,
            seconds=durations,
        )
        check_request(request.plugins.filters, request.spec)
        with measure(durations, "request_filters"):
            narrowed = run_request_filters(request.plugins.request_filters, request.spec, cloud)
        with measure(durations, "search"):
            searches = find_candidates(cloud, request, narrowed, random, unlimited=unlimited)
        request_stats().candidates = len(searches.found.requests)
        run = SchedulingRun(request, seed, cloud, chooser, narrowed, searches)
        if narrowed.refusal:
            return run
        with measure(durations, "look"):
            return replace(run, hosts=tuple(get_host_states(cloud, narrowed.spec, searches.found)))

    def explain(
        self,
        document: Document,
        *,
        overrides: Mapping[str, Any],
        view: ExplanationView,
        alternates: bool = False,
        policy: str | None = None,
        changes: Sequence[CloudChange] = (),
    ) -> Json:
        """Return a report of how a request would be scheduled, without a claim.

        The run has the same steps as :meth:`select_destinations`, with the settings in
        ``overrides``, on the cloud with ``changes``. ``policy`` replaces the policy that the
        request selects. If the view names hosts, ``verdicts`` in the result has a verdict on each
        named host.
        """
        if changes:
            options: dict[str, Any] = {"overrides": overrides, "view": view, "policy": policy}
            return self.simulate(
                changes,
                lambda scheduler, *_: scheduler.explain(document, alternates=alternates, **options),
            )
        request = self.reader.read(
            document, alternates=alternates, policy=policy, overrides=overrides
        )
        with self.evaluate(self.reader.validate(request)) as (connection, run):
            explanation = make_explanation(connection, run, view)
        request_stats().funnel = explanation["funnel"]
        return explanation

    def explain_and_record(
        self,
        document: Document,
        *,
        view: ExplanationView,
        ids: RequestIds,
        changes: Sequence[Json] = (),
        **options: Any,
    ) -> Json:
        """Return the result of :meth:`explain`, recorded as a decision.

        ``options`` are keyword arguments of :meth:`RequestReader.read`. ``changes`` are the JSON
        objects of the changes, which are recorded too. Raises :class:`Invalid` if overrides or
        changes are too large to record, and :class:`Unavailable` if the record cannot be written.
        """
        check_kept(options.get("overrides") or {}, changes)

        def evaluate(scheduler: Scheduler, *_: object) -> tuple[Json, Decision]:
            request = scheduler.reader.validate(scheduler.reader.read(document, **options))
            with scheduler.evaluate(request) as (connection, run):
                explanation = make_explanation(connection, run, view)
                funnel = funnel_of(run, connection)
            return explanation, make_decision(run, funnel, EXPLAIN, ids, changes)

        # Record after the simulation ends: anything written in it is rolled back.
        parsed = changes_from(changes)
        explanation, decision = self.simulate(parsed, evaluate) if parsed else evaluate(self)
        self.claims.record_or_raise(decision)
        stats = request_stats()
        stats.made, stats.funnel = decision, decision.funnel
        return {"decision": decision.uuid, **explanation}


def _decide_claimed(run: SchedulingRun, ids: RequestIds) -> Decision:
    return make_decision(run, funnel_of(run, None), SELECT, ids)

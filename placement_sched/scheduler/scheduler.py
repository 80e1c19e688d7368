"""The path of a request, from what was asked to the claimed host.

    read      look up what the request names, choose its policy         request.py
    narrow    request filters add constraints                           request_filters/
    ask       the allocation candidates search answers                  candidates/
    look      make the host states of the candidates                    host_manager.py
    choose    host filters, weighers, the best host of each instance    selection.py
    claim     allocate, and start again where others were faster; an    claim.py
              equal request that holds its claim has its answer again
    record    keep the decision                                         decisions.py
    notify    say on the message bus that it began, and how it ended    notifications/

:meth:`Scheduler.select_destinations` does all of it, :meth:`Scheduler.explain` all but the last
three; what comes between reading and claiming is :meth:`Scheduler.evaluated` for both.
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
from placement_sched.db.scratch import Readable, Trial, tried
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, NotFound, Unavailable
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import Clock, timed
from placement_sched.model.decision import (
    EXPLAIN,
    NO_CLAIM,
    SELECT,
    Decision,
    DecisionLabels,
    DecisionSeed,
)
from placement_sched.model.document import Document, Json
from placement_sched.model.explanation import Obstacle, View
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.model.request_stats import request_stats
from placement_sched.notifications.announcer import SILENT, Announcer
from placement_sched.scheduler.caches import Memory
from placement_sched.scheduler.claim import Claiming, Claims, until_claimed
from placement_sched.scheduler.decisions import check_kept, decided, no_valid_host
from placement_sched.scheduler.explain.explanation import explained
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.host_manager import ClosedCells, CloudView, look
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.narrowing import check_request, narrow
from placement_sched.scheduler.request import NetworkDirectory, RequestReader, SchedulingRequest
from placement_sched.scheduler.resource_request import ask
from placement_sched.scheduler.selection import Chooser, Headroom, Look, Run
from placement_sched.scheduler.simulation import AppliedChanges, CloudChange, apply, changes_from

T = TypeVar("T")

#: So many questions that may take seconds are answered at the same time, by fewer threads than a
#: server has.
PLACES = 2
_BUSY = (
    f"{PLACES} questions about the whole cloud (capacity, changes, plan, rebalance) are being "
    "answered by this process, which is as many as it takes at once; try again"
)


@dataclass(eq=False, slots=True, kw_only=True)
class Scheduler:
    """Places requests: one per process, for any number of threads.

    ``random`` draws the uuids of decisions, from which come all random choices of their runs.
    ``neutron`` is asked about networks and ports; None where it is not configured. ``announcer``
    sends notifications of what is asked and how it ends. ``source`` is what requests are answered
    from: the database, unless :meth:`on` says another.
    """

    database: Database
    settings: Settings
    clock: Clock
    random: Random
    memory: Memory
    neutron: NetworkDirectory | None = None
    announcer: Announcer = SILENT
    source: Readable = field(init=False)
    live: LiveSettings = field(init=False)
    reader: RequestReader = field(init=False)
    claims: Claims = field(init=False)
    places: Semaphore = field(default_factory=lambda: Semaphore(PLACES), init=False)

    def __post_init__(self) -> None:
        self.source = self.database
        aggregates, kept_nodes = self.memory.aggregates, self.memory.kept_nodes
        in_use = partial(aggregates.policies_in_use, self.database)
        self.live = LiveSettings(self.settings, self.clock, in_use=in_use)
        self.reader = RequestReader(self.database, self.live, self.clock, aggregates, self.neutron)
        self.claims = Claims(self.database, self.settings, self.clock, kept_nodes)

    def on(self, source: Readable, memory: Memory) -> "Scheduler":
        """Return this scheduler as it answers from another state of the cloud, claiming nothing.

        ``memory`` is of that state alone: what is remembered of one says nothing of another.
        """
        other = copy.copy(self)
        other.source, other.memory = source, memory
        other.reader = replace(self.reader, database=source, aggregates=memory.aggregates)
        return other

    def supposing(
        self, changes: Sequence[CloudChange], ask: Callable[["Scheduler", Trial, AppliedChanges], T]
    ) -> T:
        """Return what ``ask`` answers of a scheduler whose cloud is changed so.

        What it writes to the trial is undone with the changes, which no other request ever sees.
        Raises :class:`Invalid` for a change that cannot be, and :class:`Unavailable` where it
        takes longer than ``[scheduler] what_if_timeout``.
        """

        def answer(trial: Trial) -> T:
            applied = apply(trial, changes, self.clock())
            return ask(self.on(trial, Memory()), trial, applied)

        with self.at_length():
            return tried(self.database, answer, self.live.settings().scheduler.what_if_timeout)

    @contextmanager
    def at_length(self) -> Iterator[None]:
        """Hold one of the few places for questions that may take seconds, about a whole cloud.

        A question of a trial has one already. Raises :class:`Unavailable` where others have them.
        """
        if isinstance(self.source, Trial):
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
        claiming: Claiming = Claiming.NEW,
        ids: RequestIds = NO_REQUEST,
    ) -> Json:
        """Return the hosts chosen for a request spec (contract §4), claimed as ``claiming`` says.

        Asked again with the same instance uuids it returns the same answer. Raises
        :class:`NoValidHost` with the funnel, :class:`Conflict` for instances that are placed
        already by another request, :class:`Invalid`, :class:`PluginFailed` and, where neutron is
        to be asked and does not answer, :class:`ServiceFailed`.
        """
        with self.announcer.announcing() as began:  # notify
            try:
                request = self.reader.read(document, alternates=alternates)
            except (NotFound, Invalid):  # what it names may have gone since it was placed
                placed = self.reader.instances_of(document)
                if answer := self.claims.answered(placed, document, claiming, ids):
                    return answer
                raise
            began(request.spec)
            if answer := self.claims.answered(request.spec, document, claiming, ids):
                return answer
            request = self.reader.checked(request)
            seed = DecisionSeed.drawn(self.random)

            def attempt(start: int) -> Json:
                return self._select(request, ids, replace(seed, attempt=start), claiming)

            return until_claimed(attempt)

    def _select(
        self, request: SchedulingRequest, ids: RequestIds, seed: DecisionSeed, claiming: Claiming
    ) -> Json:
        """Return the answer to a request; the attempt is how often others were faster."""
        if seed.attempt:
            request_stats().claims_retried += 1
            request = self.reader.read_again(request)
            if answer := self.claims.answered(request.spec, request.document, claiming, ids):
                return answer
        with self.evaluated(request, seed=seed) as (connection, run):
            funnel = None if run.selections else funnel_of(run, connection)
        dry = claiming is Claiming.NONE
        if run.selections and not (dry or request.spec.is_rebuild):
            with timed(request_stats().stages, "claim"):  # and record
                decision = self.claims.claim(run, partial(_claimed, ids=ids), claiming)
            self._count(decision)
            return dict(decision.answer)
        funnel = funnel or funnel_of(run, None)
        decision = decided(run, funnel, NO_CLAIM if dry else SELECT, ids)
        self.claims.record(decision)
        self._count(decision, funnel.obstacle)
        if not run.selections:
            raise no_valid_host(funnel, decision)
        return dict(decision.answer)

    def _count(self, decision: Decision, obstacle: Obstacle | None = None) -> None:
        """Note for the metrics what a decision came to, and which stage left no host."""
        stage, name = (obstacle.stage, obstacle.kind) if obstacle else ("", "")
        policy = decision.policy or DEFAULT_POLICY
        labels = DecisionLabels(decision.outcome, policy, stage, name)
        stats = request_stats()
        stats.decision, stats.made, stats.funnel = labels, decision, decision.funnel

    @contextmanager
    def evaluated(
        self,
        request: SchedulingRequest,
        watch: Callable[[Look], None] | None = None,
        seed: DecisionSeed | None = None,
    ) -> Iterator[tuple[Connection, Run]]:
        """Give how a request fares: narrow, ask, look, choose; nothing is claimed.

        The connection that was read from is given with it, for what else is to be read. ``watch``
        is called with how the hosts look to each instance in turn. The same ``seed`` makes the
        same random choices; without one they are those of a new decision. Raises
        :class:`Invalid` for a request that cannot be understood and :class:`PluginFailed` for a
        plugin that raises.
        """
        seed = seed or DecisionSeed.drawn(self.random)
        with self.source.read() as connection:
            run = self.looked(connection, request, seed, watch=watch)
            if not run.narrowed.refusal:
                hosts, spec = run.hosts, run.narrowed.spec
                headroom = Headroom.of(connection, spec, run.searches.found)
                run = replace(run, choice=run.chooser.choose(hosts, spec, headroom))
            yield connection, run

    def looked(
        self,
        connection: Connection,
        request: SchedulingRequest,
        seed: DecisionSeed,
        *,
        watch: Callable[[Look], None] | None = None,
        uncut: bool = False,
        cloud: CloudView | None = None,
    ) -> Run:
        """Return a run with the hosts to choose from, none chosen yet: narrow, ask, look.

        ``uncut`` asks for every candidate, whatever the limits; the caller counts them. ``cloud``
        is what an earlier request of the same question saw. Raises as :meth:`evaluated`.
        """
        random, seconds = seed.random(), request_stats().stages
        cloud = cloud or CloudView.of(connection, request, self.memory)
        closed = ClosedCells(connection, request.settings, request.plugins.driver.now)
        chooser = Chooser(
            plugins=request.plugins,
            settings=request.settings,
            random=random,
            alternates=request.alternates,
            closed_cells=closed.among,
            watch=watch,
            check=self.source.check,
            seconds=seconds,
        )
        check_request(request.plugins.filters, request.spec)
        with timed(seconds, "request_filters"):
            narrowed = narrow(request.plugins.request_filters, request.spec, cloud)
        with timed(seconds, "search"):
            searches = ask(cloud, request, narrowed, random, uncut=uncut)
        request_stats().candidates = len(searches.found.requests)
        run = Run(request, seed, cloud, chooser, narrowed, searches)
        if narrowed.refusal:
            return run
        with timed(seconds, "look"):
            return replace(run, hosts=tuple(look(cloud, narrowed.spec, searches.found)))

    def explain(
        self,
        document: Document,
        *,
        overrides: Mapping[str, Any],
        view: View,
        alternates: bool = False,
        policy: str | None = None,
        changes: Sequence[CloudChange] = (),
    ) -> Json:
        """Return how a request would fare (contract §4), under other settings where given.

        With ``changes`` it is on a cloud that is changed so. The same run as
        :meth:`select_destinations`; nothing is claimed. With ``policy`` it is under the policy of
        that name, whichever would be chosen. Where the view is of some hosts, ``verdicts`` has one
        on each of them.
        """
        if changes:
            asked: dict[str, Any] = {"overrides": overrides, "view": view, "policy": policy}
            return self.supposing(
                changes, lambda other, *_: other.explain(document, alternates=alternates, **asked)
            )
        request = self.reader.read(
            document, alternates=alternates, policy=policy, overrides=overrides
        )
        with self.evaluated(self.reader.checked(request)) as (connection, run):
            explanation = explained(connection, run, view)
        request_stats().funnel = explanation["funnel"]
        return explanation

    def explain_and_keep(
        self,
        document: Document,
        *,
        view: View,
        ids: RequestIds,
        changes: Sequence[Json] = (),
        **asked: Any,
    ) -> Json:
        """Return what :meth:`explain` does, recorded as a decision, which the answer names.

        ``asked`` is what :meth:`RequestReader.read` takes. ``changes`` are the JSON objects of the
        changes, which the decision keeps. Raises :class:`Invalid` for overrides or changes that are
        too large to be kept, and :class:`Unavailable` where it cannot be recorded.
        """
        check_kept(asked.get("overrides") or {}, changes)

        def answer(scheduler: Scheduler, *_: object) -> tuple[Json, Decision]:
            request = scheduler.reader.checked(scheduler.reader.read(document, **asked))
            with scheduler.evaluated(request) as (connection, run):
                explanation = explained(connection, run, view)
                funnel = funnel_of(run, connection)
            return explanation, decided(run, funnel, EXPLAIN, ids, changes)

        # Recorded when the changes are undone: what is written with them goes with them.
        known = changes_from(changes)
        explanation, decision = self.supposing(known, answer) if known else answer(self)
        self.claims.keep(decision)
        stats = request_stats()
        stats.made, stats.funnel = decision, decision.funnel
        return {"decision": decision.uuid, **explanation}


def _claimed(run: Run, ids: RequestIds) -> Decision:
    """Return the decision of a run whose choice is claimed."""
    return decided(run, funnel_of(run, None), SELECT, ids)

# SPDX-License-Identifier: Apache-2.0
"""The process of ``placement-sched nova-shadow``.

The main thread reads and evaluates nova's calls, a second thread syncs with nova's databases, and a
third thread waits for the outcomes of nova's requests.

The allocations of an instance in placement show the host that nova has chosen, exactly and
immediately. The outcome of an instance without allocations is read from nova's databases.
"""

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from random import SystemRandom
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from oslo_log import log

from placement_sched.clients.systemd import Notifier
from placement_sched.config.settings import Settings
from placement_sched.db.engine import build_database_url
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, Invalid, Unavailable
from placement_sched.explain.values import ExplanationView
from placement_sched.extensions.shadow import store
from placement_sched.extensions.shadow.comparison import (
    Comparison,
    EvaluationRecord,
    HostName,
    NovaOutcome,
    judge,
)
from placement_sched.extensions.shadow.evaluator import (
    NO_HOSTS,
    AllocationsBefore,
    AwaitedRequest,
    Evaluator,
    HostsByInstance,
    map_allocated_hosts,
    read_call,
)
from placement_sched.extensions.shadow.tap import Tap
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.decision import ExplanationResult
from placement_sched.model.names import format_count
from placement_sched.model.shadow_result import AGREEING, DISAGREEING, ShadowResult
from placement_sched.nova.databases import check_databases_set
from placement_sched.nova.databases.placements import (
    ActionEvent,
    NovaRecord,
    NovaRecords,
    RecordKey,
)
from placement_sched.nova.message_bus import NovaBus, read_transport
from placement_sched.nova.sync.follower import RETRY_INTERVAL, Follower, repeat_steps
from placement_sched.operations.periodic import OldRowDeletion
from placement_sched.operations.prepare import Preparation
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.extra_specs import list_validators
from placement_sched.scheduler.live_settings import with_options_file
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.policies.registry import get_policies
from placement_sched.scheduler.request import create_neutron_client
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import decisions

LOG = log.getLogger(__name__)

#: The events of nova-compute that begin an attempt to start an instance on a host.
_ATTEMPTS = frozenset(
    {
        "compute__do_build_and_run_instance",
        "compute_prep_resize",
        "compute_rebuild_instance",
        "compute_unshelve_instance",
    }
)
#: The event of nova-conductor that checks whether an instance may be rebuilt on its host.
_REBUILD = "rebuild_server"
_FAILED = ("error", "failed")
_SUCCESS = "Success"
#: The beginning of the fault of an instance that was never scheduled.
_NO_VALID_HOST = "No valid host"
#: Seconds between two readings of the allocations, and of nova's databases.
PAUSE, RECORDS_PAUSE = 0.5, 2.0
#: Seconds after which an outcome counts as unknown. nova waits for a scheduler for up to
#: ``long_rpc_timeout`` (1800), but a reply that late is not comparable.
DEADLINE = 600
#: Seconds that a request waits for nova's claim before nova's databases are read.
_CLAIM_WAIT = 2.0

#: Reads nova's records of instances. Instances without a record are absent.
ReadRecords = Callable[[Sequence[RecordKey]], Mapping[str, NovaRecord]]
#: Explains a request with the current state of the cloud.
Explain = Callable[..., ExplanationResult]


def find_outcome(record: NovaRecord, *, is_rebuild: bool = False) -> NovaOutcome | None:
    """Return the outcome of an instance, or None if it is still open."""
    if any(event.is_no_valid_host for event in record.events):
        return NovaOutcome(None)
    if record.is_in_cell0:
        is_no_valid_host = record.fault is None or record.fault.startswith(_NO_VALID_HOST)
        return NovaOutcome(None) if is_no_valid_host else None
    if is_rebuild:
        return _find_rebuild_outcome(record)
    attempts = list(_iterate_attempts(record))
    if attempts:
        first, last = attempts[0], attempts[-1]
        return NovaOutcome(first, ended_on=None if last.host == first.host else last)
    move = record.migration
    if move is not None:
        if move.dest_compute and move.status not in _FAILED:
            return NovaOutcome(HostName(move.dest_compute, move.dest_node or move.dest_compute))
        return NovaOutcome(None) if move.status in _FAILED and not move.dest_compute else None
    return None


def _find_rebuild_outcome(record: NovaRecord) -> NovaOutcome | None:
    """Return the current host once nova has accepted the rebuild, or None."""
    done = any(
        event.event in _ATTEMPTS or (event.event == _REBUILD and event.result == _SUCCESS)
        for event in record.events
    )
    if not done or record.host is None:
        return None
    return NovaOutcome(HostName(record.host, record.node or record.host))


def _iterate_attempts(record: NovaRecord) -> Iterator[HostName]:
    """Yield the hosts of the attempts to start an instance, in order."""
    for event in record.events:
        if event.event in _ATTEMPTS and event.host:
            yield HostName(event.host, _find_node(record, event))


def _find_node(record: NovaRecord, event: ActionEvent) -> str:
    """Return the node of an attempt, from the instance or the migration."""
    host, move = event.host or "", record.migration
    if record.host == host and record.node:
        return record.node
    if move is not None and move.dest_compute == host and move.dest_node:
        return move.dest_node
    return host


@dataclass(slots=True)
class _PendingRequest:
    """A request with open outcomes, and the outcomes found so far."""

    request: AwaitedRequest
    outcomes: dict[str, NovaOutcome] = field(default_factory=dict)
    started: float = field(default_factory=monotonic)


@dataclass(slots=True)
class AgreementTally:
    """The numbers of compared and agreeing instances since the start."""

    compared: int = 0
    agreed: int = 0

    def __str__(self) -> str:
        share = 100 * self.agreed / self.compared if self.compared else 0.0
        number = format_count(self.compared, "instance")
        return f"{number} compared with nova's choice, {share:.1f} % agree"


@dataclass(eq=False, slots=True, kw_only=True)
class OutcomeTracker:
    """Tracker that waits for the outcomes of requests.

    A thread may call :meth:`add` while another thread calls :meth:`step`. ``explain`` is
    :meth:`Scheduler.explain`, for hosts chosen by nova that have no recorded verdict.
    """

    database: Database
    records: ReadRecords
    explain: Explain
    clock: Clock
    deadline: float = DEADLINE
    agreement: AgreementTally = field(default_factory=AgreementTally)
    _waiting: dict[str, _PendingRequest] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _read_at: float = 0.0
    _logged_failure: str = ""

    def add(self, request: AwaitedRequest) -> None:
        """Wait for the outcome of a request.

        If nova requests another host for the same instances, as live migrations do, the earlier
        request gets its verdicts now: its open outcomes can no longer be determined.
        """
        uuids = set(request.instances)
        with self._lock:
            earlier = [
                entry for entry in self._waiting.values() if uuids & set(entry.request.instances)
            ]
            self._waiting[request.decision] = _PendingRequest(request)
        for entry in earlier:
            self._record_verdicts(entry)

    def resume(self) -> None:
        """Continue to wait for requests that an earlier process has left open."""
        with self.database.read() as connection:
            rows = store.list_pending(connection)
        by_decision: dict[str, list[ShadowResult]] = {}
        for row in rows:
            by_decision.setdefault(row.decision, []).append(row)
        for uuid, results in by_decision.items():
            request = AwaitedRequest(
                decision=uuid,
                instances=tuple(result.instance for result in results),
                request_id=results[0].request_ids.request_id,
                since=results[0].created_at or self.clock(),
                before=AllocationsBefore({}, NO_HOSTS, frozenset()),
            )
            with self._lock:
                self._waiting.setdefault(uuid, _PendingRequest(request))

    def step(self) -> None:
        """Check the pending outcomes once, and log a failure to read them."""
        with self._lock:
            waiting = list(self._waiting.values())
        if not waiting:
            return
        try:
            self._check_outcomes(waiting)
            self._logged_failure = ""
        except Error as failure:
            if failure.detail != self._logged_failure:
                LOG.warning("nova's outcomes cannot be read yet: %s", failure.detail)
            self._logged_failure = failure.detail

    def _check_outcomes(self, waiting: Sequence[_PendingRequest]) -> None:
        uuids = {uuid for entry in waiting for uuid in entry.request.instances}
        with self.database.read() as connection:
            allocations = map_allocated_hosts(connection, uuids)
        for entry in waiting:
            self._record_claims(entry, allocations)
        now = monotonic()
        if now - self._read_at >= RECORDS_PAUSE:
            self._read_at = now
            self._record_unclaimed(
                [entry for entry in waiting if now - entry.started >= _CLAIM_WAIT]
            )
        oldest = self.clock() - timedelta(seconds=self.deadline)
        for entry in waiting:
            if len(entry.outcomes) == len(entry.request.instances) or entry.request.since < oldest:
                self._record_verdicts(entry)

    @staticmethod
    def _record_claims(entry: _PendingRequest, allocations: HostsByInstance) -> None:
        """Note the hosts that nova has claimed, once all instances have claims.

        Before that, nova may give up and remove the claims for the first instances. Nothing is
        noted if an instance has new allocations on its previous host, because nova may have
        restored them.
        """
        request, before = entry.request, entry.request.before
        claimed: dict[str, NovaOutcome] = {}
        for uuid in request.instances:
            new = allocations.get(uuid, frozenset()) - before.held.get(uuid, frozenset())
            if request.is_rebuild or len(new) != 1:
                return
            (host,) = new
            if host.host == before.sources.get(uuid):
                return
            claimed[uuid] = NovaOutcome(host)
        entry.outcomes = claimed

    def _record_unclaimed(self, waiting: Iterable[_PendingRequest]) -> None:
        """Note outcomes of instances without a claim, from nova's databases."""
        unclaimed = [
            (entry, uuid)
            for entry in waiting
            for uuid in entry.request.instances
            if uuid not in entry.outcomes
        ]
        if not unclaimed:
            return
        record_keys = [
            RecordKey(uuid, entry.request.request_id, entry.request.since)
            for entry, uuid in unclaimed
        ]
        records = self.records(record_keys)
        for entry, uuid in unclaimed:
            record = records.get(uuid)
            if record is None:
                continue
            outcome = find_outcome(record, is_rebuild=entry.request.is_rebuild)
            if outcome is not None:
                entry.outcomes[uuid] = outcome

    def _record_verdicts(self, entry: _PendingRequest) -> None:
        """Record the verdicts on a request, and stop waiting for it."""
        with self._lock:
            if self._waiting.get(entry.request.decision) is not entry:
                return
        with self.database.read() as connection:
            recorded = store.list_for_decision(connection, entry.request.decision)
        verdicts = self._judge_instances(entry, recorded)
        results = [
            replace(
                result,
                verdict=judged.verdict,
                nova_host=judged.nova_host.host if judged.nova_host else None,
                detail=judged.detail
                | ({"nova_node": judged.nova_host.node} if judged.nova_host else {}),
            )
            for result, judged in zip(recorded, verdicts, strict=True)
        ]
        self.database.write(partial(store.record_verdicts, results=results, now=self.clock()))
        with self._lock:
            self._waiting.pop(entry.request.decision, None)
        self._count(entry.request, results)

    def _judge_instances(
        self, entry: _PendingRequest, results: Sequence[ShadowResult]
    ) -> list[Comparison]:
        if not results:  # purged in the meantime
            return []
        uuids = [result.instance for result in results]
        notes = EvaluationRecord.read(results[0].detail["notes"])
        verdicts = judge(notes, uuids, [entry.outcomes.get(uuid) for uuid in uuids])
        return [
            replace(
                judged,
                detail={**judged.detail, **self._explain_host(entry.request, judged.nova_host)},
            )
            if judged.needs_reason and judged.nova_host is not None
            else judged
            for judged in verdicts
        ]

    def _explain_host(self, request: AwaitedRequest, host: HostName) -> dict[str, Any]:
        """Explain nova's host if the decision has no verdict on it.

        The result has the key ``why``, with a verdict on the current state of the host.
        """
        with self.database.read() as connection:
            document = decisions.get_by_uuid(connection, request.decision).request
        try:
            explanation = self.explain(
                document, view=ExplanationView(frozenset(host), max_rejected=1)
            ).explanation
        except Unavailable:
            raise
        except Error as failure:
            return {
                "why": f"no verdict on {host} was recorded with the decision, and the request "
                f"cannot be evaluated now: {failure.detail}"
            }
        for verdict in explanation.get("verdicts", ()):
            if verdict.get("host") == host.host:
                return {
                    "why": f"no verdict on {host} was recorded with the decision. Now: "
                    f"{_format_verdict(verdict)}",
                    "kind": next((each["kind"] for each in verdict["reasons"]), None),
                }
        return {"why": f"compute node {host} is not recorded here"}

    def _count(self, request: AwaitedRequest, results: Sequence[ShadowResult]) -> None:
        for result in results:
            self.agreement.agreed += result.verdict in AGREEING
            self.agreement.compared += result.verdict in (*AGREEING, *DISAGREEING)
            if result.verdict in DISAGREEING:
                LOG.info(
                    "%s, instance %s: %s: %s (decision %s)",
                    request.request_id,
                    result.instance,
                    result.verdict,
                    result.detail.get("why", ""),
                    request.decision,
                )


def _format_verdict(verdict: Mapping[str, Any]) -> str:
    """Format a verdict of an explanation as a single line."""
    reasons = verdict.get("reasons") or ()
    if reasons:
        first = reasons[0]
        return f"{first.get('name', '')}: {first.get('reason', '')}".lstrip(": ")
    weight = verdict.get("weight")
    return str(verdict.get("verdict")) if weight is None else f"passed, with the weight {weight:g}"


#: Seconds between two log lines with the share of agreement.
SUMMARY = 300.0
_NOT_YET = "requests are not evaluated yet"
#: Maximum number of seconds to wait for the end of the threads.
GRACE = 10.0


def check(settings: Settings) -> NovaBus:
    """Check the settings of the service, and return the message bus.

    Raises :class:`ConfigurationError` for wrong settings.
    """
    check_databases_set(settings)
    build_database_url(settings)
    get_plugins(settings, utcnow)
    list_validators()
    create_neutron_client(settings)
    get_policies(with_options_file(settings).settings, utcnow).check()
    return read_transport(settings.conf.config_file or ())


class Shadow:
    """The service nova-shadow, with its main loop :meth:`run`."""

    def __init__(self, settings: Settings, transport: NovaBus, clock: Clock = utcnow) -> None:
        self._settings, self._clock = settings, clock
        self.database = Database(settings)
        self.follower = Follower(self.database, settings, clock)
        self._records = NovaRecords(settings)
        scheduler = Scheduler(
            database=self.database,
            settings=settings,
            clock=clock,
            random=SystemRandom(),
            caches=ProcessCaches.from_settings(settings, self.database),
            neutron=create_neutron_client(settings),
        )
        self._live = scheduler.live
        self._evaluator = Evaluator(scheduler, self.follower.refresh, clock)
        self.awaiting = OutcomeTracker(
            database=self.database, records=self._records, explain=scheduler.explain, clock=clock
        )
        self.tap = Tap(transport, settings.DEFAULT.host, self.handle)
        self._stopped, self._read_again = Event(), Event()

    def stop(self) -> None:
        """Make :meth:`run` return, from any thread or signal handler."""
        self._stopped.set()
        self.tap.stop()

    def read_all_again(self) -> None:
        """Request a reload of the configuration and a full sync."""
        self._read_again.set()

    def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Sync with nova's databases and evaluate its calls until :meth:`stop`.

        ``started`` is called in another thread, once the databases and the calls can be read.
        """
        ready = Preparation(self.database, self._settings, self._clock)
        steps = (ready, self.follower.sync_all, self.awaiting.resume)
        try:
            if repeat_steps(steps, self._stopped, _NOT_YET):
                self._run_threads(started)
        finally:
            self.follower.close()
            self._records.close()
            self.database.dispose()

    def _run_threads(self, started: Callable[[], None]) -> None:
        threads = [
            Thread(target=self._follow, name="nova-follower"),
            Thread(target=self._await, name="nova-outcomes"),
            Thread(target=self._report_start, args=(started,), name="start", daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            self.tap.run()
        finally:
            self.stop()
            for thread in threads[:2]:
                thread.join(GRACE)
            LOG.info("%s", self.awaiting.agreement)

    def handle(self, body: object) -> None:
        """Evaluate a message if it is a call of ``select_destinations``.

        Raises :class:`Unavailable` if this service's own database does not answer.
        """
        try:
            call = read_call(body)
        except Invalid as unreadable:
            LOG.warning("a message to nova's schedulers cannot be read: %s", unreadable.detail)
            return
        if call is None:
            return
        problem = ""
        try:
            if request := self._evaluator.evaluate(call):
                self.awaiting.add(request)
        except Unavailable:
            raise
        except Exception as failure:
            # Any plugin may raise, but the next calls must be evaluated. The text of the exception
            # may contain passwords.
            problem = type(failure).__name__
            LOG.debug("the call failed", exc_info=failure)
        if problem:
            LOG.error("%s could not be evaluated: unexpected %s", call.ids.request_id, problem)

    def _follow(self) -> None:
        delete_old_rows = OldRowDeletion(self.database, self._settings, self._clock)
        while not self._stopped.is_set():
            delete_old_rows()
            if self._read_again.is_set():
                self._read_again.clear()
                self._live.reload()
                repeat_steps([self.follower.sync_all], self._stopped, _NOT_YET)
            self._stopped.wait(min(self.follower.sync_due(), RETRY_INTERVAL))

    def _await(self) -> None:
        last_summary = monotonic()
        while not self._stopped.wait(PAUSE):
            try:
                self.awaiting.step()
            except Exception:
                LOG.exception("nova's outcomes could not be compared")
            if monotonic() - last_summary >= SUMMARY:
                last_summary = monotonic()
                LOG.info("%s", self.awaiting.agreement)

    def _report_start(self, started: Callable[[], None]) -> None:
        self.tap.is_open.wait()
        started()


def serve(settings: Settings, transport: NovaBus, started: Callable[[str], None]) -> None:
    """Run the shadow of nova-scheduler until SIGTERM or SIGINT.

    Calls ``started`` with the name of the queue once nova's calls are read.
    """
    notifier = Notifier()
    shadow = Shadow(settings, transport)

    def stop(number: int, _frame: object) -> None:
        notifier.stop()
        LOG.info("stopping: %s", signal.Signals(number).name)
        shadow.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, lambda _number, _frame: shadow.read_all_again())
    notifier.start()
    shadow.run(lambda: started(shadow.tap.name))
    LOG.info("stopped")

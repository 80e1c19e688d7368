# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks: deletion of old rows, and notices of waiting requests.

A waiting request is a recent request that found no host under a policy of ``[scheduler]
waiting_policies``. At most once a minute, a single process of all servers evaluates these requests
again. If a request would fit now, ``[scheduler] waiting_webhook_urls`` are notified once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from threading import Lock, Thread
from time import monotonic
from typing import ClassVar

from oslo_log import log

from placement_sched.clients import session
from placement_sched.config.settings import Settings
from placement_sched.db.commit_marks import forget_old_marks
from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, ServiceFailed, format_error
from placement_sched.limits import MAX_NOTICE_ADDRESSES, MAX_NOTICES
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import Clock
from placement_sched.model.decision import Decision, DecisionQuery, Notice
from placement_sched.model.document import Json
from placement_sched.model.extension import load_hooks
from placement_sched.model.names import suggest_name
from placement_sched.operations import Progress
from placement_sched.scheduler.policies.registry import get_policies
from placement_sched.scheduler.replay import find_hosts_now
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import decisions
from placement_sched.store.compute import ended_instances
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

#: Seconds between two rounds of most tasks.
PAUSE = 60.0
#: The name of the thread that deletes old rows, and the seconds that its lease is valid.
OLD_ROWS_THREAD, OLD_ROWS_LEASE = "old rows", 150
#: Maximum number of deleted decisions per transaction.
_BATCH = 500
#: The name of the thread that evaluates waiting requests, and the seconds of its lease. A process
#: renews the lease before each request.
NOTICES_THREAD, NOTICES_LEASE = "waiting requests", 150
#: Callback that sends a notice to an address, or raises :class:`ServiceFailed`.
Send = Callable[[str, Json], None]


class PeriodicTask(ABC):
    """Work that a process repeats in rounds, at least ``pause`` seconds apart.

    Any thread may call the task, before and between requests. Most calls only read the clock. A
    round runs in a thread named ``thread_name``, or, if this is empty, in the thread of the caller.
    ``failure`` begins the log message about a failed round, which does not prevent the next round.
    """

    thread_name: ClassVar[str] = ""
    failure: ClassVar[str]
    pause = PAUSE

    def __init__(self, delay: float = 0.0) -> None:
        self._turn = Lock()
        self._next = monotonic() + delay

    def __call__(self) -> None:
        """Run a round, or start its thread, if the round is due."""
        if monotonic() < self._next or self._turn.locked() or not self.is_due():
            return
        if self.thread_name:
            Thread(target=self._run, name=self.thread_name, daemon=True).start()
        else:
            self._run()

    def _run(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            if monotonic() < self._next:
                return
            self._next = monotonic() + self.pause
            self.run_round()
        except Error as failure:
            LOG.warning("%s: %s", self.failure, format_error(failure))
        except Exception:
            LOG.exception(self.failure)
        finally:
            self._turn.release()

    def is_due(self) -> bool:
        """Return whether there may be work, at each call after the pause."""
        return True

    @abstractmethod
    def run_round(self) -> None:
        """Do the work of a round, which may change ``_next``."""


class OldRowDeletion(PeriodicTask):
    """Periodic deletion of old decisions, ends, changes and transaction ids.

    A lease selects a single process of all servers. Decisions and rows of extensions are deleted at
    the age ``[scheduler] decision_retention``, in seconds, and the ends of instances at
    ``trace_retention``. With 0 they are kept for ever.
    """

    thread_name = OLD_ROWS_THREAD
    failure = "old rows were not deleted"
    #: Time of the database when this process last deleted transaction ids.
    _checked_at: datetime | None = None

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        super().__init__(delay=PAUSE)
        self._database, self._clock = database, clock
        self._retention = timedelta(seconds=settings.scheduler.decision_retention)
        self._trace_retention = timedelta(seconds=settings.scheduler.trace_retention)
        self._purges = load_hooks("old_rows", settings.DEFAULT.disabled_extensions)
        self._lease = Lease(database, "log upkeep", OLD_ROWS_LEASE)

    def is_due(self) -> bool:
        """Return whether there may be rows to delete."""
        database = self._database
        has_retention = bool(self._retention or self._trace_retention)
        return has_retention or database.logs_changes or database.marks_commits

    def run_round(self) -> None:
        """Delete old rows, unless another process holds the lease."""
        if not self._lease.is_held():
            return
        database, before = self._database, self._clock() - self._retention
        try:
            for purge_rows in self._purges if self._retention else ():
                database.write(partial(purge_rows, before=before))
            purge = partial(decisions.purge, before=before, limit=_BATCH)
            while self._retention and database.write(purge) == _BATCH and self._lease.is_held():
                pass
            if self._trace_retention:
                oldest = self._clock() - self._trace_retention
                database.write(partial(ended_instances.purge, before=oldest))
        finally:
            with database.read() as connection:
                if database.marks_commits:
                    self._checked_at = forget_old_marks(connection, self._checked_at)
                if database.logs_changes and change_log.find_defect(connection) is None:
                    change_log.trim(connection)


def purge_decisions(
    database: Database, query: DecisionQuery, progress: Progress, *, dry_run: bool = False
) -> int:
    """Delete matching decisions up to ``query.until``, and return a count.

    With ``dry_run`` the decisions are only counted. The deletion can be interrupted and repeated.
    """
    until = query.until
    if until is None:
        raise AssertionError("decisions are deleted up to a time")
    with database.read() as connection:
        number = decisions.count(connection, query)
    if dry_run:
        return number
    # Without further conditions, failed shadow results, which have no decision, are also deleted.
    narrower = None if query == DecisionQuery(until=until) else query
    purge = partial(decisions.purge, before=until, limit=_BATCH, filters=narrower)
    deleted = 0
    while True:
        progress(deleted, max(number, deleted))
        batch_count = database.write(purge)
        deleted += batch_count
        if batch_count < _BATCH:
            return deleted


class WaitingRequests(PeriodicTask):
    """Periodic evaluation of waiting requests, with notices if they fit now."""

    thread_name = NOTICES_THREAD
    failure = "waiting requests were not evaluated"

    def __init__(self, scheduler: Scheduler, send: Send = session.send_webhook) -> None:
        super().__init__(delay=PAUSE)
        options = scheduler.settings.scheduler
        self._scheduler, self._send = scheduler, send
        self._policies = tuple(name.lower() for name in options.waiting_policies)
        self._addresses = tuple(dict.fromkeys(options.waiting_webhook_urls))[:MAX_NOTICE_ADDRESSES]
        self._max_age = timedelta(seconds=options.waiting_max_age)
        self._max_attempts = int(options.waiting_webhook_attempts)
        self._lease = Lease(scheduler.database, NOTICES_THREAD, NOTICES_LEASE)
        self._is_checked = False

    def is_due(self) -> bool:
        """Return whether policies and addresses are configured."""
        return bool(self._policies and self._addresses)

    def run_round(self) -> None:
        """Send a notice for each waiting request that fits now, with the lease."""
        if not self._lease.is_held():
            return
        self._log_unknown_policies()
        since = self._scheduler.clock() - self._max_age
        with self._scheduler.database.read() as connection:
            uuids = decisions.list_waiting_for_notice(
                connection, self._policies, since, MAX_NOTICES
            )
        for uuid in uuids:
            if not self._lease.is_held():
                return
            self._evaluate(uuid)

    def _log_unknown_policies(self) -> None:
        if self._is_checked:
            return
        self._is_checked = True
        policies = get_policies(self._scheduler.live.get_settings(), self._scheduler.clock)
        for name in self._policies:
            if not policies.is_usable(name):
                suggestion = suggest_name("policy", name, [DEFAULT_POLICY, *policies.names])
                LOG.warning(
                    "[scheduler] waiting_policies names %r, but no policy has this name%s",
                    name,
                    suggestion,
                )

    def _evaluate(self, uuid: str) -> None:
        database = self._scheduler.database
        with database.read() as connection:
            decision = decisions.get_by_uuid(connection, uuid)
            notice = decisions.find_notice(connection, uuid)
        if decision.conditions and decision.conditions.together:
            return  # alone, it may fit although the requests together do not
        try:
            hosts = find_hosts_now(self._scheduler, decision)
        except Error as failure:  # e.g. its flavor was deleted
            LOG.info("decision %s cannot be evaluated again: %s", uuid, format_error(failure))
            return
        if hosts:
            LOG.info("the request of decision %s would fit now on %s", uuid, ", ".join(hosts))
            self._notify(notice or Notice(uuid), _build_notice(decision, hosts))

    def _notify(self, notice: Notice, body: Json) -> None:
        """Send a notice to the addresses that have not accepted it.

        The attempt is counted before it is made, so that crashes cannot cause endless attempts.
        """
        if notice.attempts >= self._max_attempts:  # a crash interrupted the last attempt
            self._record(replace(notice, ended_at=self._scheduler.clock()))
            return
        addresses = {
            session.compute_webhook_digest(address): address for address in self._addresses
        }
        pending = addresses.keys() & notice.pending if notice.attempts else addresses.keys()
        notice = replace(notice, attempts=notice.attempts + 1, pending=tuple(sorted(pending)))
        self._record(notice)
        failed = tuple(key for key in notice.pending if not self._deliver(addresses, key, body))
        if failed and notice.attempts >= self._max_attempts:
            LOG.warning(
                "the webhook notice about decision %s was not delivered in %d attempts",
                notice.decision,
                notice.attempts,
            )
        has_ended = not failed or notice.attempts >= self._max_attempts
        ended_at = self._scheduler.clock() if has_ended else None
        self._record(replace(notice, pending=failed, ended_at=ended_at))

    def _record(self, notice: Notice) -> None:
        now = self._scheduler.clock()
        self._scheduler.database.write(
            lambda connection: decisions.record_notice(connection, notice, now)
        )

    def _deliver(self, addresses: Mapping[str, str], key: str, body: Json) -> bool:
        try:
            self._send(addresses[key], body)
        except ServiceFailed as failure:
            LOG.warning(
                "the webhook notice about decision %s was not delivered: %s",
                body["decision"],
                failure.detail,
            )
            return False
        return True


def _build_notice(decision: Decision, hosts: tuple[str, ...]) -> Json:
    """Build the body of a notice, which omits the request spec."""
    created_at = decision.created_at
    return {
        "event": "would_fit_now",
        "decision": decision.uuid,
        "created_at": None if created_at is None else created_at.isoformat(),
        "policy": decision.policy,
        "flavor": decision.flavor,
        "project_id": decision.project_id,
        "request_id": decision.request_ids.request_id,
        "global_request_id": decision.request_ids.global_request_id,
        "stage": decision.stage,
        "reason_kind": decision.reason_kind,
        "reason_subject": decision.reason_subject,
        "instances": [
            {"uuid": place.instance, "host": host}
            for place, host in zip(decision.instances, hosts, strict=True)
        ],
    }

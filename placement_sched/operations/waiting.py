# SPDX-License-Identifier: Apache-2.0
"""Notices about requests without a valid host that would fit now.

At most once a minute, a single process of all servers evaluates the recent requests again that
found no host under the policies of ``[scheduler] waiting_policies``. For each request that would
fit, it notifies the addresses of ``[scheduler] waiting_webhook_urls`` once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from oslo_log import log

from placement_sched.clients import session
from placement_sched.db.leases import Lease
from placement_sched.errors import Error, ServiceFailed, sentence
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.decision import Decision, Notice
from placement_sched.model.document import Json
from placement_sched.model.names import suggest_name
from placement_sched.operations.periodic import PAUSE, PeriodicTask
from placement_sched.scheduler.decision_views import find_hosts_now
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import decisions

LOG = log.getLogger(__name__)

#: Seconds that the lease is valid. A process renews it before each request.
LEASE = 150
#: Requests of a round, the newest, and addresses, the first of the option.
MAX_REQUESTS = 100
MAX_ADDRESSES = 10
#: The name of the thread of a round.
THREAD_NAME = "waiting requests"
#: Sends a notice to an address, or raises :class:`ServiceFailed`.
Send = Callable[[str, Json], None]


class WaitingRequests(PeriodicTask):
    """Periodic task that evaluates waiting requests and sends notices if they would fit."""

    thread_name = THREAD_NAME
    failure = "waiting requests were not evaluated"

    def __init__(self, scheduler: Scheduler, send: Send = session.send_webhook) -> None:
        super().__init__(delay=PAUSE)
        options = scheduler.settings.scheduler
        self._scheduler, self._send = scheduler, send
        self._policies = tuple(name.lower() for name in options.waiting_policies)
        self._addresses = tuple(dict.fromkeys(options.waiting_webhook_urls))[:MAX_ADDRESSES]
        self._max_age = timedelta(seconds=options.waiting_max_age)
        self._max_attempts = int(options.waiting_webhook_attempts)
        self._lease = Lease(scheduler.database, THREAD_NAME, LEASE)
        self._is_checked = False

    def is_due(self) -> bool:
        """Return whether requests are to be evaluated."""
        return bool(self._policies and self._addresses)

    def run_round(self) -> None:
        """Evaluate the waiting requests, and send a notice for each that would fit.

        Does nothing while another process holds the lease.
        """
        if not self._lease.is_held():
            return
        self._log_unknown_policies()
        since = self._scheduler.clock() - self._max_age
        with self._scheduler.database.read() as connection:
            uuids = decisions.waiting_for_notice(connection, self._policies, since, MAX_REQUESTS)
        for uuid in uuids:
            if not self._lease.is_held():
                return
            self._evaluate(uuid)

    def _log_unknown_policies(self) -> None:
        if self._is_checked:
            return
        self._is_checked = True
        policies = policies_for(self._scheduler.live.settings(), self._scheduler.clock)
        for name in self._policies:
            if not policies.usable(name):
                suggestion = suggest_name("policy", name, [DEFAULT_POLICY, *policies.names])
                LOG.warning(
                    "[scheduler] waiting_policies names %r, but no policy has this name%s",
                    name,
                    suggestion,
                )

    def _evaluate(self, uuid: str) -> None:
        database = self._scheduler.database
        with database.read() as connection:
            decision = decisions.by_uuid(connection, uuid)
            notice = decisions.notice_of(connection, uuid)
        if decision.conditions and decision.conditions.together:
            return  # alone, it may fit although the requests together do not
        try:
            hosts = find_hosts_now(self._scheduler, decision)
        except Error as failure:  # e.g. its flavor was deleted
            LOG.info("decision %s cannot be evaluated again: %s", uuid, sentence(failure))
            return
        if hosts:
            LOG.info("the request of decision %s would fit now on %s", uuid, ", ".join(hosts))
            self._notify(notice or Notice(uuid), _notice_of(decision, hosts))

    def _notify(self, notice: Notice, body: Json) -> None:
        """Send a notice to the addresses that have not accepted it.

        The attempt is counted before it is made, so that a crash cannot repeat it without end.
        """
        if notice.attempts >= self._max_attempts:  # a crash interrupted the last attempt
            self._record(replace(notice, ended_at=self._scheduler.clock()))
            return
        addresses = {session.webhook_digest(address): address for address in self._addresses}
        pending = addresses.keys() & notice.pending if notice.attempts else addresses.keys()
        notice = replace(notice, attempts=notice.attempts + 1, pending=tuple(sorted(pending)))
        self._record(notice)
        failed = tuple(key for key in notice.pending if not self._deliver(addresses, key, body))
        if failed and notice.attempts >= self._max_attempts:
            LOG.warning(
                "the webhook notice about decision %s was not delivered after %d attempts",
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


def _notice_of(decision: Decision, hosts: tuple[str, ...]) -> Json:
    """Build the body of a notice, without the request."""
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
        "instances": [
            {"uuid": place.instance, "host": host}
            for place, host in zip(decision.places, hosts, strict=True)
        ],
    }

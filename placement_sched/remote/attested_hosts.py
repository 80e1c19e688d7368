"""What an attestation service said of hosts, kept for as long as it holds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Protocol

from placement_sched.errors import ServiceFailed
from placement_sched.model.clock import Clock
from placement_sched.remote.attestation import Level

#: How long what was asked is not asked again, though it does not hold any more or was not
#: answered: a service that is down must not hold up every host of every request.
APART = timedelta(seconds=5)


class Poll(Protocol):
    """Who tells the levels of hosts; raises :class:`~placement_sched.errors.ServiceFailed`."""

    def poll(self, hosts: Collection[str]) -> Mapping[str, Level]:
        """Return the level of each host that is known."""


@dataclass(frozen=True, slots=True)
class Attested:
    """The level of a host, when it was asked for, and why nothing was told where nothing was."""

    level: Level
    asked: datetime
    failure: str | None = None


class AttestedHosts:
    """Levels of hosts, asked anew, of all in one request, when one of them holds no more.

    A level holds for ``lifetime`` seconds from the moment of which the service tells it. For any
    number of threads, one of which asks at a time.
    """

    def __init__(self, service: Poll, *, lifetime: float, clock: Clock) -> None:
        self._service = service
        self._lifetime = timedelta(seconds=lifetime)
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, Attested] = {}

    def levels(self, hosts: Collection[str]) -> Mapping[str, Attested]:
        """Return what is known of each of these hosts now."""
        with self._lock:
            now = self._clock()
            if not all(self._holds(self._known.get(host), now) for host in hosts):
                self._ask(hosts)
            return {host: self._known[host] for host in hosts}

    def _holds(self, known: Attested | None, now: datetime) -> bool:
        if known is None:
            return False
        if now - known.asked < APART:
            return True
        # Whom the service does not know, or tells no time of, holds from when it was asked.
        since = known.asked if known.level.since is None else known.level.since
        return known.failure is None and now - since <= self._lifetime

    def _ask(self, hosts: Collection[str]) -> None:
        told: Mapping[str, Level] = {}
        failure = None
        try:
            told = self._service.poll(hosts)
        except ServiceFailed as failed:
            failure = failed.detail
        now = self._clock()  # it may have taken its time
        self._known |= {host: Attested(told.get(host, Level()), now, failure) for host in hosts}

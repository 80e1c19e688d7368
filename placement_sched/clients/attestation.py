"""An attestation service asked over HTTPS: how far hosts can be trusted.

It is one of the kind that nova's TrustedFilter asked until Queens: OpenAttestation, Mt. Wilson.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import urllib3
from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from placement_sched.clients.session import RemoteService
from placement_sched.errors import ServiceFailed
from placement_sched.model.clock import Clock

LOG = logging.getLogger(__name__)

#: The trust level of a host that was not attested.
UNKNOWN = "unknown"

#: Seconds to wait for an answer: a request for hosts waits as long.
TIMEOUT = 10

#: How long what was asked is not asked again, though it does not hold any more or was not
#: answered: a service that is down must not hold up every host of every request.
APART = timedelta(seconds=5)

_PATH = "/PollHosts"
_TAKEN = (200, 201, 202)
#: How Mt. Wilson writes times, in place of ISO 8601: as C's ``%c``, in UTC.
_ITS_TIME = "%a %b %d %H:%M:%S %Y"


@dataclass(frozen=True, slots=True)
class Level:
    """How far a host is trusted, and since when that holds (naive UTC; None: unknown)."""

    trust: str = UNKNOWN
    since: datetime | None = None


#: Returns the level of each of some hosts that is known.
Poll = Callable[[Collection[str]], Mapping[str, Level]]


class Attestation:
    """Polls the service at ``url``, whose certificate must be signed as ``verify`` says.

    ``verify`` is a file of certificates, True for those of this machine or False for any. What
    the service is to know its clients by is sent as ``blob``.
    """

    def __init__(
        self, url: str, *, verify: str | bool, blob: str | None = None, timeout: float = TIMEOUT
    ) -> None:
        if verify is False:
            LOG.warning("the certificate of %s is not verified: any server may answer for it", url)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        adapter = Adapter(
            Session(auth=NoAuth(), verify=verify, timeout=timeout),
            endpoint_override=url,
            additional_headers={"x-auth-blob": blob} if blob else {},
            # A request for hosts is waiting: the next one tries again.
            connect_retries=0,
            status_code_retries=0,
        )
        self._service = RemoteService(adapter, "attestation")

    def poll(self, hosts: Collection[str]) -> Mapping[str, Level]:
        """Return the level of each host that the service knows; raises :class:`ServiceFailed`."""
        body = {"count": len(hosts), "hosts": list(hosts)}
        answer = self._service.ask("POST", _PATH, body=body, taken=_TAKEN)
        with self._service.reading(_PATH, "POST"):
            return dict(map(_level, answer.document["hosts"]))


def _level(one: Mapping[str, Any]) -> tuple[str, Level]:
    """Return a host and its level, which without a valid time is unknown: it may not hold."""
    since = _time(one.get("vtime"))
    trust = UNKNOWN if since is None else str(one["trust_lvl"])
    return str(one["host_name"]), Level(trust, since)


def _time(text: Any) -> datetime | None:
    with suppress(TypeError, ValueError):
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    with suppress(TypeError, ValueError):
        return datetime.strptime(text, _ITS_TIME)  # noqa: DTZ007 - naive UTC, as everywhere
    return None


@dataclass(frozen=True, slots=True)
class Attested:
    """The level of a host, when it was asked for, and why there is none."""

    level: Level
    asked: datetime
    failure: str | None = None


class AttestedHosts:
    """Levels of hosts, asked again, of all in one request, when one of them is outdated.

    ``poll`` reads levels; raises :class:`~placement_sched.errors.ServiceFailed`. A level holds for
    ``lifetime`` seconds from the time that the service gives for it. For any number of threads,
    one of which asks at a time.
    """

    def __init__(self, poll: Poll, *, lifetime: float, clock: Clock) -> None:
        self._poll = poll
        self._lifetime = timedelta(seconds=lifetime)
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, Attested] = {}

    def levels(self, hosts: Collection[str]) -> Mapping[str, Attested]:
        """Return what is known of each of these hosts now."""
        with self._lock:
            now = self._clock()
            if not all(self._holds(self._known.get(host), now) for host in hosts):
                levels, failure = self._asked(hosts)
                now = self._clock()  # it may have taken its time
                for host in hosts:
                    self._known[host] = Attested(levels.get(host, Level()), now, failure)
            return {host: self._known[host] for host in hosts}

    def _holds(self, known: Attested | None, now: datetime) -> bool:
        if known is None:
            return False
        if now - known.asked < APART:
            return True
        # A host that the service does not know, or gives no time for, counts from the request.
        since = known.asked if known.level.since is None else known.level.since
        return known.failure is None and now - since <= self._lifetime

    def _asked(self, hosts: Collection[str]) -> tuple[Mapping[str, Level], str | None]:
        try:
            return self._poll(hosts), None
        except ServiceFailed as failed:
            return {}, failed.detail

# SPDX-License-Identifier: Apache-2.0
"""Client of an attestation service for the trust levels of hosts.

nova's TrustedFilter supported these services until Queens: OpenAttestation and Mt. Wilson.
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

from placement_sched.clients.session import RemoteService, make_session
from placement_sched.errors import ServiceFailed
from placement_sched.model.clock import Clock

LOG = logging.getLogger(__name__)

#: The trust level of a host that was not attested.
UNKNOWN = "unknown"

#: Maximum seconds to wait for a response. A scheduling request waits during this time.
TIMEOUT = 10

#: Minimum time between two polls of a host, even if its level has expired or the poll has failed,
#: so that an unavailable service does not delay every host of every request.
_MIN_POLL_INTERVAL = timedelta(seconds=5)

_PATH = "/PollHosts"
_SUCCESS = (200, 201, 202)
#: Mt. Wilson's time format, in UTC: C's ``%c`` instead of ISO 8601.
_MT_WILSON_TIME = "%a %b %d %H:%M:%S %Y"


@dataclass(frozen=True, slots=True)
class Level:
    """The trust level of a host, and its time (naive UTC, None if unknown)."""

    trust: str = UNKNOWN
    since: datetime | None = None


#: Returns the trust levels of hosts. Hosts that the service does not list are left out.
Poll = Callable[[Collection[str]], Mapping[str, Level]]


class Attestation:
    """Client of the attestation service at ``url``.

    ``blob`` is the shared secret that authenticates this client. ``cacert`` and ``insecure`` are
    arguments of :func:`~placement_sched.clients.session.make_session`.
    """

    def __init__(
        self,
        url: str,
        *,
        cacert: str | None = None,
        insecure: bool = False,
        blob: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        if insecure:
            LOG.warning("the certificate of %s is not verified: any server may impersonate it", url)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        adapter = Adapter(
            make_session(cacert=cacert, insecure=insecure, timeout=timeout),
            endpoint_override=url,
            additional_headers={"x-auth-blob": blob} if blob else {},
            # A scheduling request is waiting, and the next request tries again.
            connect_retries=0,
            status_code_retries=0,
        )
        self._service = RemoteService(adapter, "attestation")

    def poll(self, hosts: Collection[str]) -> Mapping[str, Level]:
        """Return the trust levels of hosts, or raise :class:`ServiceFailed`."""
        body = {"count": len(hosts), "hosts": list(hosts)}
        response = self._service.get_json("POST", _PATH, body=body, accepted_statuses=_SUCCESS)
        with self._service.translate_shape_errors(_PATH, "POST"):
            levels = {}
            for document in response.document["hosts"]:
                since = _parse_time(document.get("vtime"))
                # The level is unknown without a valid time.
                trust = UNKNOWN if since is None else str(document["trust_lvl"])
                levels[str(document["host_name"])] = Level(trust, since)
            return levels


def _parse_time(text: Any) -> datetime | None:
    with suppress(TypeError, ValueError):
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
    with suppress(TypeError, ValueError):
        return datetime.strptime(text, _MT_WILSON_TIME)  # noqa: DTZ007 - naive UTC, as everywhere
    return None


@dataclass(frozen=True, slots=True)
class AttestedLevel:
    """The level of a host, the time of its poll, and why the poll failed."""

    level: Level
    polled_at: datetime
    failure: str | None = None


class AttestedHosts:
    """Thread-safe cache of the trust levels of hosts.

    A level is valid for ``lifetime`` seconds after the time that the service reports for it. If the
    level of any requested host has expired, a single request polls all requested hosts. A lock
    prevents concurrent polls. ``poll`` may raise :class:`~placement_sched.errors.ServiceFailed`.
    """

    def __init__(self, poll: Poll, *, lifetime: float, clock: Clock) -> None:
        self._poll = poll
        self._lifetime = timedelta(seconds=lifetime)
        self._clock = clock
        self._lock = Lock()
        self._cache: dict[str, AttestedLevel] = {}

    def get_levels(self, hosts: Collection[str]) -> Mapping[str, AttestedLevel]:
        """Return the levels of hosts, after a poll if any level has expired."""
        with self._lock:
            now = self._clock()
            levels: Mapping[str, Level]
            if not all(self._is_valid(self._cache.get(host), now) for host in hosts):
                levels, failure = {}, None
                try:
                    levels = self._poll(hosts)
                except ServiceFailed as failed:
                    failure = failed.detail
                now = self._clock()  # the poll may have taken seconds
                for host in hosts:
                    self._cache[host] = AttestedLevel(levels.get(host, Level()), now, failure)
            return {host: self._cache[host] for host in hosts}

    def _is_valid(self, cached: AttestedLevel | None, now: datetime) -> bool:
        if cached is None:
            return False
        if now - cached.polled_at < _MIN_POLL_INTERVAL:
            return True
        # The lifetime of a level without a time begins with the poll.
        since = cached.polled_at if cached.level.since is None else cached.level.since
        return cached.failure is None and now - since <= self._lifetime

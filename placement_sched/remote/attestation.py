"""An attestation service asked over HTTPS: how far hosts can be trusted.

It is one of the kind that nova's TrustedFilter asked until Queens: OpenAttestation, Mt. Wilson.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import urllib3
from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from placement_sched.remote.service import Service

LOG = logging.getLogger(__name__)

#: What a host is that nobody attested.
UNKNOWN = "unknown"

#: Seconds to wait for an answer: a request for hosts waits as long.
TIMEOUT = 10

_PATH = "/PollHosts"
_TAKEN = (200, 201, 202)
#: How Mt. Wilson writes times, in place of ISO 8601: as C's ``%c``, in UTC.
_ITS_TIME = "%a %b %d %H:%M:%S %Y"


@dataclass(frozen=True, slots=True)
class Level:
    """How far a host is trusted, and since when that holds (naive UTC; None: nobody said)."""

    trust: str = UNKNOWN
    since: datetime | None = None


class Attestation:
    """Polls the service at ``url``, whose certificate must be signed as ``verify`` says.

    ``verify`` is a file of certificates, True for those of this machine or False for any. What
    the service is to know its clients by is sent as ``blob``.
    """

    def __init__(
        self, url: str, *, verify: str | bool, blob: str | None = None, timeout: float = TIMEOUT
    ) -> None:
        if verify is False:
            LOG.warning("%s is not asked for a certificate: anybody may answer for it", url)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        adapter = Adapter(
            Session(auth=NoAuth(), verify=verify, timeout=timeout),
            endpoint_override=url,
            additional_headers={"x-auth-blob": blob} if blob else {},
            # Whoever asks for hosts waits: the next request tries again.
            connect_retries=0,
            status_code_retries=0,
        )
        self._service = Service(adapter, "attestation")

    def poll(self, hosts: Collection[str]) -> Mapping[str, Level]:
        """Return the level of each host that the service knows; raises :class:`ServiceFailed`."""
        body = {"count": len(hosts), "hosts": list(hosts)}
        answer = self._service.ask("POST", _PATH, body=body, taken=_TAKEN)
        try:
            return dict(_levels(answer.document["hosts"]))
        except (LookupError, TypeError, AttributeError):
            raise self._service.failed(
                f"{self._service.place} did not answer POST {_PATH} as an attestation service does"
            ) from None


def _levels(told: Any) -> Iterator[tuple[str, Level]]:
    for one in told:
        since = _time(one.get("vtime"))
        # Nobody knows whether what has no sound time still holds.
        trust = UNKNOWN if since is None else str(one["trust_lvl"])
        yield str(one["host_name"]), Level(trust, since)


def _time(text: Any) -> datetime | None:
    """Return a time as naive UTC; None where it is none."""
    with suppress(TypeError, ValueError):
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    with suppress(TypeError, ValueError):
        return datetime.strptime(text, _ITS_TIME)  # noqa: DTZ007 - naive UTC, as everywhere
    return None

# SPDX-License-Identifier: Apache-2.0
"""Webhooks: notices sent by HTTP to addresses of the configuration."""

from hashlib import sha256
from urllib.parse import urlsplit

from keystoneauth1.exceptions import ClientException

from placement_sched.clients.session import QUIET, exception_reason, make_session
from placement_sched.errors import ServiceFailed
from placement_sched.model.document import Json

#: Seconds that an address has to answer.
TIMEOUT = 5


def digest_of(address: str) -> str:
    """Derive a digest from an address, whose path may contain a secret."""
    return sha256(address.encode()).hexdigest()[:32]


def shown(address: str) -> str:
    """Return scheme, host and port of an address for logs, without secrets."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def send(address: str, body: Json) -> None:
    """Send a JSON body to an address.

    Raises :class:`ServiceFailed` unless the address answers with status 2xx in time. Redirects are
    not followed, and the body of the answer is not read.
    """
    try:
        answer = make_session(timeout=TIMEOUT).request(
            address,
            "POST",
            json=body,
            redirect=False,
            raise_exc=False,
            log=False,
            logger=QUIET,
            stream=True,
        )
    except (ClientException, ValueError, OSError) as failure:
        reason = exception_reason(failure)
        path = urlsplit(address).path
        if len(path) > 1 and path in reason:
            reason = type(failure).__name__
        raise ServiceFailed(
            f"{shown(address)} does not answer: {reason}", service="webhook"
        ) from None
    answer.close()
    if not 200 <= answer.status_code < 300:
        raise ServiceFailed(f"{shown(address)} answered {answer.status_code}", service="webhook")

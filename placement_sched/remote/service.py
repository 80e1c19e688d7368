"""A service asked over HTTP, by keystoneauth: one microversion, plain errors."""

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException
from requests import Response

from placement_sched.errors import ServiceFailed

#: Seconds to wait for one answer, unless who asks was given another time.
TIMEOUT = 60
#: How often to ask again when nobody answers, or a proxy says that nobody does (502, 503, 504),
#: likewise.
RETRIES = 2

# keystoneauth warns of each try. Who waits is told of the last one, in one line.
_QUIET = logging.getLogger(__name__)
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered: the status, the JSON document, or None, and when it last changed."""

    status: int
    document: Any
    text: str
    modified: str


class Service:
    """Asks one service with one microversion, which ``since`` tells the release of.

    ``kind`` is its type in OpenStack's service catalogue: ``placement``, ``compute`` or
    ``network``, which has no microversions.
    """

    def __init__(
        self, adapter: Adapter, kind: str, *, version: str | None = None, since: str = ""
    ) -> None:
        self._adapter = adapter
        self.kind = kind
        self._version = version
        self._since = since

    @property
    def place(self) -> str:
        """The address of the service; raises :class:`ServiceFailed` where none is known."""
        found = self._adapter.endpoint_override
        if found is None:
            try:
                found = self._adapter.get_endpoint()
            except ClientException as failure:
                raise self.failed(f"{self.kind}: {_words(failure)}") from None
        if found is None:
            raise self.failed(f"the cloud's catalogue has no {self.kind} service")
        return str(found).rstrip("/")

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Any = None,
        taken: Collection[int] = (200,),
    ) -> Answer:
        """Return the answer to a request; raise :class:`ServiceFailed` unless it is one ``taken``.

        So it is for a service that does not speak the microversion.
        """
        place = self.place
        try:
            response = self._adapter.request(
                path,
                method,
                params=params or {},
                json=body,
                headers={"Accept": "application/json"},
                microversion=self._version,
                microversion_service_type=self.kind,
                raise_exc=False,
                timeout=self._adapter.session.timeout or TIMEOUT,
                logger=_QUIET,
                connect_retries=_or_default(self._adapter.connect_retries),
                status_code_retries=_or_default(self._adapter.status_code_retries),
                retriable_status_codes=self._adapter.retriable_status_codes or [502, 503, 504],
            )
        except ClientException as failure:
            raise self.failed(f"{place} does not answer: {_words(failure)}") from None
        except (ValueError, OSError) as failure:
            # Address, token, time of waiting or file of certificates: requests looks at them only
            # now.
            raise self.failed(f"{place} cannot be asked: {_words(failure)}") from None
        self._refuse_other_version(response, place)
        if response.status_code not in taken:
            raise self.failed(
                f"{place} answered {_told(response)} to {method} {path}{_hint(response)}"
            )
        modified = response.headers.get("Last-Modified", "")
        return Answer(response.status_code, _document(response), _told(response), modified)

    def failed(self, detail: str) -> ServiceFailed:
        """Return an error of this service."""
        return ServiceFailed(detail, service=self.kind)

    def _refuse_other_version(self, response: Response, place: str) -> None:
        """Raise :class:`ServiceFailed` for a service that is too old.

        It says so with 406; one that has no microversions answers as if none were asked for.
        """
        spoken = response.headers.get("OpenStack-API-Version", "")
        if self._version is None:
            return
        old = response.status_code == 406 or (
            response.ok and spoken.split() != [self.kind, self._version]
        )
        if old:
            raise self.failed(
                f"{place} is too old, or no {self.kind} API: {self.kind} microversion "
                f"{self._version} ({self._since}) is needed, and it answered {_told(response)}"
            )


def _or_default(retries: int | None) -> int:
    return RETRIES if retries is None else retries


def _document(response: Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _told(response: Response) -> str:
    """Return status, reason and the sentence that the service gave as its reason."""
    head = f"{response.status_code} {response.reason}"
    document = _document(response)
    detail = _sentence(document) if isinstance(document, dict) else None
    return f"{head} ({detail})" if detail else head


def _sentence(document: Mapping[str, Any]) -> str | None:
    """Return the sentence of an error in placement's shape, nova's or keystone's."""
    first = document.get("errors") or next(iter(document.values()), None)
    if isinstance(first, list):
        first = first[0] if first else None
    if not isinstance(first, dict):
        return None
    told = first.get("detail") or first.get("message")
    return " ".join(told.split()) if isinstance(told, str) else None


def _hint(response: Response) -> str:
    if response.status_code == 401:
        return "; is the token right?"
    if response.status_code == 404 and not isinstance(_document(response), dict):
        return "; is the address that of the API itself?"
    return ""


def _words(failure: Exception) -> str:
    """Return what the operating system said, where that is why nobody answered."""
    told = " ".join(str(failure).split())
    reason = re.search(r"\[Errno -?\d+\] ([^'\")]+)", told)
    return reason[1] if reason else told

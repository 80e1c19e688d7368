# SPDX-License-Identifier: Apache-2.0
"""Reader of OpenStack APIs by GET: microversions, pages, pace and retries.

Several threads read from several services. :class:`CallPool` counts and paces the calls of all
services. :class:`ApiReader` reads from a service.
"""

import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import Any, Self, TypeVar

from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException, DiscoveryFailure
from keystoneauth1.identity.base import BaseIdentityPlugin

from placement_sched.clients.session import (
    NoResponse,
    RemoteService,
    ServiceResponse,
    build_connection_failure,
    find_exception_reason,
    silence_library_logs,
)
from placement_sched.errors import ServiceFailed
from placement_sched.model.document import Json
from placement_sched.model.retry import call_with_retries

T = TypeVar("T")
#: A microversion, such as (2, 61).
Microversion = tuple[int, int]

#: Maximum number of attempts of a call.
MAX_ATTEMPTS = 6
#: Maximum seconds of a pause before another attempt, and of a pause that a service requests.
_MAX_PAUSE, _MAX_REQUESTED_PAUSE = 30.0, 120.0
#: Statuses after which a GET is repeated.
_RETRIED = (429, 500, 502, 503, 504)
#: Number of times that a list is read from its beginning if the last item of a page is deleted.
_MAX_LIST_READS = 3
_RULE = re.compile(r"(?:os_compute_api|placement)(?::[a-z0-9_-]+)+")
#: Items per page. A service with a lower maximum returns shorter pages.
PAGE_SIZE = 1000


class MissingRight(ServiceFailed):
    """The API policy rejects a request.

    ``rules`` are the names of the policy rules that the caller lacks.
    """

    def __init__(self, rules: Iterable[str], service: str) -> None:
        self.rules = tuple(dict.fromkeys(rules))
        names = ", ".join(self.rules)
        super().__init__(f"the API policy does not allow: {names}", service=service)


class MissingRoute(ServiceFailed):
    """The service has no such list."""


class _Busy(NoResponse):
    """A response after which the call is repeated.

    ``pause`` is the number of seconds that the service requests, or None.
    """

    def __init__(self, detail: str, *, service: str, pause: float | None) -> None:
        super().__init__(detail, service=service)
        self.pause = pause


class _MarkerGone(Exception):
    """The last item of the previous page was deleted."""


class CallPool:
    """Threads that send calls, with a count, a pace and a progress report.

    ``rate`` is the maximum number of calls a second (None: unlimited). ``progress`` is called with
    the number of calls sent and the number expected. The time between calls is measured by
    ``clock``, in seconds.
    """

    def __init__(
        self,
        parallel: int,
        rate: float | None = None,
        progress: Callable[[int, int | None], None] = lambda _done, _total: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="cloud-reader")
        self._interval = 1 / rate if rate else 0.0
        self._progress, self._clock = progress, clock
        self._stopped = Event()
        #: Pauses for some seconds, or until the pool is closed.
        self.pause: Callable[[float], object] = sleep or self._stopped.wait
        self._lock = Lock()
        self._next = clock()
        #: The number of calls sent, with repeated calls, and the number of calls expected.
        self.calls = self.expected = 0

    def __enter__(self) -> Self:
        """Return the pool."""
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop the threads after their current calls."""
        self._stopped.set()
        self._threads.shutdown(cancel_futures=True)

    def wait_for_turn(self, service: str) -> None:
        """Count a call, and pause as the rate requires.

        Raises :class:`ServiceFailed` if the pool is closed.
        """
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._interval
            self.calls += 1
            self.expected = max(self.expected, self.calls)
            self._progress(self.calls, self.expected)
        if start > now:
            self.pause(start - now)
        if self._stopped.is_set():
            raise ServiceFailed("interrupted", service=service)

    def run(self, works: Sequence[Callable[[], T]], *, calls_each: int = 1) -> list[T]:
        """Run ``works`` in the threads, and return their results in order.

        ``calls_each`` is the number of calls that a work usually sends.
        After a failure, works that have not begun are dropped. Raises :class:`MissingRight` with
        all rules that were found missing, or else the first failure.
        """
        with self._lock:
            self.expected = max(self.expected, self.calls + calls_each * len(works))
        futures: list[Future[T]] = [self._threads.submit(work) for work in works]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
        wait(futures)
        rules, service = list[str](), ""
        for future in futures:
            failure = None if future.cancelled() else future.exception()
            if isinstance(failure, MissingRight):
                rules += failure.rules
                service = failure.service
            elif failure is not None:
                raise failure
        if rules:
            raise MissingRight(rules, service)
        return [future.result() for future in futures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list with pages: its path, the key of its items, and its policy rule.

    ``marker`` is the key of an item that the next page begins after. With ``has_offset``, pages
    begin at an offset instead, and the list ends with an empty page.
    """

    path: str
    key: str
    rule: str
    version: Microversion | None = None
    marker: str = "id"
    has_offset: bool = False


class ApiReader:
    """Reader of a service, with a microversion for each call.

    ``kind`` is the type of the service in the catalogue. Methods raise :class:`ServiceFailed` if
    the service does not answer according to its API, and :class:`MissingRight` if its policy
    rejects the caller.
    """

    def __init__(self, adapter: Adapter, kind: str, pool: CallPool) -> None:
        adapter.connect_retries = adapter.status_code_retries = 0
        self._adapter, self.kind, self._pool = adapter, kind, pool
        self._services: dict[Microversion | None, RemoteService] = {}
        #: The newest microversion of the service, after :meth:`negotiate`.
        self.newest: Microversion = (0, 0)

    @property
    def url(self) -> str:
        """Return the URL of the service."""
        return self._get_service(None).url

    def negotiate(self, oldest: Microversion, release: str) -> None:
        """Read the newest microversion, which must be at least ``oldest``."""
        service = self._get_service(None)

        def discover() -> Any:
            self._pool.wait_for_turn(self.kind)
            try:
                with silence_library_logs():
                    data = self._adapter.get_endpoint_data()
            except DiscoveryFailure as failure:
                # It hides the reason, for example a connection that failed.
                raise NoResponse(str(failure), service=self.kind) from None
            except (ClientException, ValueError, OSError) as failure:
                raise build_connection_failure(service.url, self.kind, failure) from None
            return data

        data = self._retry(discover)
        if data is None or not data.max_microversion or data.max_microversion < oldest:
            raise service.build_failure(
                f"{service.url} is too old, or no {self.kind} API: {self.kind} microversion "
                f"{format_version(oldest)} ({release}) is needed"
            )
        self.newest = tuple(data.max_microversion)

    def choose(self, best: Microversion) -> Microversion:
        """Return the microversion ``best``, or the newest if that is older."""
        return min(best, self.newest)

    def get(
        self,
        path: str,
        params: Mapping[str, str | int] | None = None,
        *,
        rule: str = "",
        version: Microversion | None = None,
        accepted: Collection[int] = (),
    ) -> ServiceResponse:
        """Send a GET, and repeat it if the service is busy or does not answer.

        ``rule`` is the policy rule of the route. Other statuses than 200 are returned only if they
        are in ``accepted``.
        """
        service = self._get_service(version)
        statuses = {200, 403, *_RETRIED, *accepted}

        def send() -> ServiceResponse:
            self._pool.wait_for_turn(self.kind)
            response = service.get_json("GET", path, params=params, accepted_statuses=statuses)
            if response.status == 403:
                # The message of nova and placement has the name of the rule.
                match = _RULE.search(response.text)
                raise MissingRight([match[0] if match else rule], self.kind)
            is_truncated = response.status == 200 and response.document is None
            if response.status in _RETRIED or is_truncated:
                problem = "sent no complete JSON" if is_truncated else f"answered {response.text}"
                raise _Busy(
                    f"{service.url} {problem} to GET {path}",
                    service=self.kind,
                    pause=_parse_retry_after(response.headers.get("Retry-After")),
                )
            return response

        return self._retry(send)

    def read(
        self,
        path: str,
        read: Callable[[Any], T],
        params: Mapping[str, str | int] | None = None,
        *,
        rule: str = "",
        version: Microversion | None = None,
    ) -> T:
        """Parse the document of a response with ``read``."""
        response = self.get(path, params, rule=rule, version=version)
        with self.translate_shape_errors(path):
            return read(response.document)

    def find(
        self,
        path: str,
        read: Callable[[Any], T],
        *,
        rule: str = "",
        version: Microversion | None = None,
    ) -> T | None:
        """Parse the document of a response with ``read``, or return None for 404."""
        response = self.get(path, rule=rule, version=version, accepted=(404,))
        if response.status == 404:
            return None
        with self.translate_shape_errors(path):
            return read(response.document)

    def read_pages(
        self,
        listing: Listing,
        params: Mapping[str, str] | None = None,
        *,
        is_enough: Callable[[Sequence[Json]], bool] = lambda _items: False,
    ) -> list[Json]:
        """Read the items of all pages of a list.

        No further page is read once ``is_enough`` returns true for the items so far.
        """
        path, key = listing.path, listing.key

        def read_list() -> list[Json]:
            items: dict[str, Json] = {}
            place: dict[str, str | int] = {}
            while True:
                response = self.get(
                    path,
                    {"limit": PAGE_SIZE, **(params or {}), **place},
                    rule=listing.rule,
                    version=listing.version,
                    accepted=(400, 404) if place else (404,),
                )
                if response.status != 200 and place:
                    raise _MarkerGone
                if response.status != 200:
                    problem = f"{self.url} answered {response.text} to GET {path}"
                    raise MissingRoute(problem, service=self.kind)
                with self.translate_shape_errors(path):
                    document = response.document
                    page = {str(item["id"]): item for item in document[key]}
                    if page and page.keys() <= items.keys():
                        raise self._get_service(None).build_failure(
                            f"{self.url} answers the same page again to GET {path}"
                        )
                    items |= page
                    values = list(items.values())
                    has_next = listing.has_offset or _has_next(document, key)
                    if not page or not has_next or is_enough(values):
                        return values
                    if listing.has_offset:
                        place = {"offset": len(items)}
                    else:
                        place = {"marker": str(document[key][-1][listing.marker])}

        for _ in range(_MAX_LIST_READS):
            with suppress(_MarkerGone):
                return read_list()
        raise self._get_service(None).build_failure(
            f"{self.url} rejects the last item of a page of GET {path} as the marker of the next"
        )

    def translate_shape_errors(self, path: str) -> AbstractContextManager[None]:
        """Raise :class:`ServiceFailed` if a document cannot be parsed."""
        return self._get_service(None).translate_shape_errors(path)

    def _get_service(self, version: Microversion | None) -> RemoteService:
        if version not in self._services:
            pair = None if version is None else (format_version(version), "see its release notes")
            self._services[version] = RemoteService(self._adapter, self.kind, version=pair or _NONE)
        return self._services[version]

    def _retry(self, send: Callable[[], T]) -> T:
        pauses: list[float | None] = []

        def attempt() -> T:
            try:
                return send()
            except NoResponse as failure:
                pauses.append(failure.pause if isinstance(failure, _Busy) else None)
                raise

        def pause(number: int) -> None:
            seconds = pauses[-1]
            if seconds is None:
                seconds = min(2.0**number / 2, _MAX_PAUSE) * random.uniform(0.5, 1)  # noqa: S311 - jitter
            self._pool.pause(min(seconds, _MAX_REQUESTED_PAUSE))

        try:
            return call_with_retries(attempt, MAX_ATTEMPTS, on=NoResponse, between=pause)
        except NoResponse as failure:
            raise ServiceFailed(
                f"{failure.detail} ({MAX_ATTEMPTS} attempts)", service=self.kind
            ) from None


def has_administrator_role(adapter: Adapter) -> bool:
    """Return whether the caller has the role ``admin``, or unknown roles."""
    auth = adapter.session.auth
    if not isinstance(auth, BaseIdentityPlugin):
        return True
    try:
        return "admin" in (auth.get_access(adapter.session).role_names or ())
    except ClientException as failure:
        reason = find_exception_reason(failure)
        raise ServiceFailed(f"keystone does not log in: {reason}", service="identity") from None


#: A service without microversions.
_NONE = ("", "")


def format_version(version: Microversion) -> str:
    """Format a microversion, such as ``2.61``."""
    return ".".join(map(str, version))


def _has_next(document: Json, key: str) -> bool:
    links = document.get(f"{key}_links") or ()
    return bool(document.get("next")) or any(link.get("rel") == "next" for link in links)


def _parse_retry_after(value: str | None) -> float | None:
    """Parse the seconds or the date of a ``Retry-After`` header."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    with suppress(ValueError, TypeError):
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    return None

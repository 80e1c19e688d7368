# SPDX-License-Identifier: Apache-2.0
"""Sessions for the clients of other services, and webhooks.

Requests use keystoneauth with a fixed microversion, and raise this service's own exceptions.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPException
from importlib.metadata import entry_points
from typing import Any, TypeVar
from urllib.parse import urlsplit

from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException
from keystoneauth1.exceptions.connection import ConnectionError as ConnectionFailure
from keystoneauth1.exceptions.connection import SSLError
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from oslo_config import cfg
from requests import RequestException

from placement_sched.errors import ConfigurationError, ServiceFailed
from placement_sched.model.document import Json
from placement_sched.schemas.formats import DocumentError

T = TypeVar("T")

#: Maximum seconds to wait for a response, unless the session has another timeout.
TIMEOUT = 60
#: Maximum number of retries if there is no response, or a proxy answers 502, 503 or 504, unless the
#: adapter sets another number.
RETRIES = 2

#: The microversion for each type of service, and the release that added it. The aggregates of a
#: provider have a generation since placement 1.19. Host aggregates have uuids since compute 2.41,
#: and hypervisors since 2.53 ("Microversion history" of both references).
MICROVERSIONS: Mapping[str, tuple[str, str]] = {
    "placement": ("1.19", "Rocky"),
    "compute": ("2.53", "Pike"),
}

#: Logger of requests, which drops keystoneauth's warning about each retry. The caller's error
#: describes the last attempt.
SILENT_LOGGER = logging.getLogger(__name__)
SILENT_LOGGER.addHandler(logging.NullHandler())
SILENT_LOGGER.propagate = False

#: Libraries that log errors if a cloud cannot be read or reached.
_NOISY_LOGGERS = ("keystoneauth", "openstack", "stevedore")

#: The group of entry points for values of ``auth_type``.
_AUTH_PLUGINS = "keystoneauth1.plugin"
#: Maximum seconds to wait for the response of a webhook.
WEBHOOK_TIMEOUT = 5


class NoResponse(ServiceFailed):
    """A service sent no complete response, but may answer later."""


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """A response of a service. ``document`` is None without JSON."""

    status: int
    reason: str
    headers: Mapping[str, str]
    document: Any

    @property
    def text(self) -> str:
        """Return the status, the reason, and the message of an OpenStack error."""
        first: Any = None
        if isinstance(self.document, dict):
            first = self.document.get("errors") or next(iter(self.document.values()), None)
        if isinstance(first, list):
            first = first[0] if first else None
        text = (first.get("detail") or first.get("message")) if isinstance(first, dict) else None
        sentence = " ".join(text.split()) if isinstance(text, str) else ""
        return f"{self.status} {self.reason}{f' ({sentence})' if sentence else ''}"


class RemoteService:
    """Client of a service, with a fixed microversion.

    ``kind`` is the type in OpenStack's service catalogue. ``timeout`` is in seconds. ``version`` is
    the microversion and the release that added it, by default from :data:`MICROVERSIONS`. Methods
    raise :class:`ServiceFailed` if the service does not answer according to its API.
    """

    def __init__(
        self,
        adapter: Adapter,
        kind: str,
        timeout: float | None = None,
        *,
        version: tuple[str, str] | None = None,
    ) -> None:
        self._adapter, self.kind, self._timeout = adapter, kind, timeout
        self._version, self._since = version or MICROVERSIONS.get(kind, ("", ""))

    @property
    def url(self) -> str:
        """Return the URL, or raise :class:`ServiceFailed` if it is unknown."""
        try:
            address = self._adapter.get_endpoint()
        except ClientException as failure:
            raise self.build_failure(f"{self.kind}: {find_exception_reason(failure)}") from None
        if address is None:
            raise self.build_failure(f"the cloud's catalogue has no {self.kind} service")
        return str(address).rstrip("/")

    def get_json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Any = None,
        accepted_statuses: Container[int] = (200,),
    ) -> ServiceResponse:
        """Send a request, and return a response of these statuses.

        Raises :class:`ServiceFailed`, also if the service lacks the microversion.
        """
        url, adapter = self.url, self._adapter
        retries, statuses = adapter.connect_retries, adapter.status_code_retries
        try:
            sent = adapter.request(
                path,
                method,
                params=params or {},
                json=body,
                headers={"Accept": "application/json"},
                microversion=self._version or None,
                microversion_service_type=self.kind,
                raise_exc=False,
                timeout=self._timeout or adapter.session.timeout or TIMEOUT,
                logger=SILENT_LOGGER,
                connect_retries=RETRIES if retries is None else retries,
                status_code_retries=RETRIES if statuses is None else statuses,
                retriable_status_codes=adapter.retriable_status_codes or [502, 503, 504],
            )
        except ClientException as failure:
            raise build_connection_failure(url, self.kind, failure) from None
        except (ValueError, OSError) as failure:
            # requests checks URL, token, timeout and CA bundle only here.
            raise self.build_failure(
                f"{url} cannot be reached: {find_exception_reason(failure)}"
            ) from None
        document = None
        with suppress(ValueError):
            document = sent.json()
        response = ServiceResponse(sent.status_code, sent.reason, sent.headers, document)
        if self._version:
            # A service without microversions ignores the requested version.
            sent_version = response.headers.get("OpenStack-API-Version", "").split()
            is_other = response.status < 400 and sent_version != [self.kind, self._version]
            if response.status == 406 or is_other:
                raise self.build_failure(
                    f"{url} is too old, or no {self.kind} API: {self.kind} microversion "
                    f"{self._version} ({self._since}) is needed, and it answered {response.text}"
                )
        if response.status in accepted_statuses:
            return response
        hint = ""
        if response.status == 401:
            hint = ". Is the token right?"
        elif response.status == 404 and not isinstance(document, dict):
            hint = ". Is it the address of the API itself?"
        raise self.build_failure(f"{url} answered {response.text} to {method} {path}{hint}")

    def read_list(
        self, path: str, key: str, read: Callable[[Any], T], **params: str | int
    ) -> list[T]:
        """Read the list at ``key`` of a response, and parse its items."""
        document = self.get_json("GET", path, params=params).document
        with self.translate_shape_errors(path):
            return [read(item) for item in document[key]]

    @contextmanager
    def translate_shape_errors(self, path: str, method: str = "GET") -> Iterator[None]:
        """Raise :class:`ServiceFailed` if a response cannot be parsed."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, DocumentError):
            raise self.build_failure(
                f"the response of {self.url} to {method} {path} does not match the {self.kind} API"
            ) from None

    def build_failure(self, detail: str) -> ServiceFailed:
        """Build the exception for a failure of this service."""
        return ServiceFailed(detail, service=self.kind)


def build_connection_failure(url: str, kind: str, failure: Exception) -> ServiceFailed:
    """Build the exception for a request without a response.

    It is :class:`NoResponse` if the service may answer later.
    """
    detail = f"{url} does not answer: {find_exception_reason(failure)}"
    is_temporary = isinstance(failure, ConnectionFailure) and not isinstance(failure, SSLError)
    return (NoResponse if is_temporary else ServiceFailed)(detail, service=kind)


def iterate_exception_chain(failure: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its ``__context__``, and so on."""
    while failure is not None:
        yield failure
        failure = failure.__context__


def find_exception_reason(failure: Exception) -> str:
    """Return the text of the last system, TLS or HTTP error behind a failure."""
    reason: BaseException = failure
    for cause in iterate_exception_chain(failure):
        if isinstance(cause, OSError | HTTPException) and not isinstance(cause, RequestException):
            reason = cause
    return " ".join((getattr(reason, "strerror", None) or str(reason) or str(failure)).split())


@contextmanager
def silence_library_logs(names: Iterable[str] = _NOISY_LOGGERS) -> Iterator[None]:
    """Silence library loggers whose errors this service reports itself."""
    loggers = [logging.getLogger(name) for name in names]
    propagations = [logger.propagate for logger in loggers]
    silence = logging.NullHandler()
    for logger in loggers:
        logger.addHandler(silence)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagated in zip(loggers, propagations, strict=True):
            logger.removeHandler(silence)
            logger.propagate = propagated


def make_session(
    auth: Any = None,
    *,
    cacert: str | None = None,
    insecure: bool = False,
    cert: str | None = None,
    key: str | None = None,
    timeout: float | None = None,
) -> Session:
    """Create a session, which is unauthenticated without ``auth``.

    The session verifies servers with the CA bundle ``cacert`` (default: the bundle of requests),
    unless it is ``insecure``. ``cert`` and ``key`` are a client certificate and its key.
    ``timeout`` is in seconds.
    """
    session: Session = loading.session.Session().load_from_options(
        auth=auth, cacert=cacert, insecure=insecure, cert=cert, key=key, timeout=timeout
    )
    return session


def check_installed(group: str, auth_type: str | None) -> None:
    """Raise :class:`ConfigurationError` without a plugin for ``auth_type``."""
    if auth_type and not entry_points(group=_AUTH_PLUGINS, name=auth_type):
        raise ConfigurationError(f"[{group}] auth_type {auth_type} is not installed")


def create_adapter(conf: cfg.ConfigOpts, group: str, *, retries: int) -> Adapter | None:
    """Create the adapter for the service of an option group, or return None.

    Returns None without ``auth_type`` and ``endpoint_override``. keystoneauth's options of the
    group must be registered in ``conf``. Without ``auth_type``, requests are unauthenticated.
    ``retries`` is used if the options set no retries. Raises :class:`ConfigurationError` for
    invalid options.
    """
    try:
        # The options of another section are registered only if auth_section names it.
        loading.register_auth_conf_options(conf, group)
        section = conf[group].auth_section or group
        check_installed(section, conf[section].auth_type)
        auth = loading.load_auth_from_conf_options(conf, group)
        if auth is None and conf[group].endpoint_override is None:
            return None
        session = loading.load_session_from_conf_options(conf, group, auth=auth or NoAuth())
        adapter = loading.load_adapter_from_conf_options(conf, group, session=session)
    except (ClientException, cfg.Error, TypeError, ValueError) as failure:
        raise ConfigurationError(f"[{group}]: {' '.join(str(failure).split())}") from None
    if adapter.connect_retries is None:
        adapter.connect_retries = retries
    if adapter.status_code_retries is None:
        adapter.status_code_retries = retries
    return adapter


def compute_webhook_digest(address: str) -> str:
    """Return a digest of a webhook address, whose path may have a secret."""
    return sha256(address.encode()).hexdigest()[:32]


def format_address(address: str) -> str:
    """Return scheme, host and port of a webhook address, for logs."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def send_webhook(address: str, body: Json) -> None:
    """Send a JSON body to a webhook, or raise :class:`ServiceFailed`."""
    try:
        response = make_session(timeout=WEBHOOK_TIMEOUT).request(
            address,
            "POST",
            json=body,
            redirect=False,
            raise_exc=False,
            log=False,
            logger=SILENT_LOGGER,
            stream=True,
        )
    except (ClientException, ValueError, OSError) as failure:
        reason = find_exception_reason(failure)
        path = urlsplit(address).path
        if len(path) > 1 and path in reason:
            reason = type(failure).__name__
        raise ServiceFailed(
            f"{format_address(address)} does not answer: {reason}", service="webhook"
        ) from None
    response.close()
    if not 200 <= response.status_code < 300:
        raise ServiceFailed(
            f"{format_address(address)} answered {response.status_code}", service="webhook"
        )

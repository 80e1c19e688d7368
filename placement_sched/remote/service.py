"""Other services: how they are reached (token, options or clouds.yaml), and how they are asked.

They are asked by keystoneauth, with one microversion; errors are those of this service.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from logging.handlers import BufferingHandler
from typing import Any, TypeVar

from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg
from requests import Response

from placement_sched.errors import ConfigurationError, Invalid, ServiceFailed

T = TypeVar("T")

#: Seconds to wait for one answer, unless who asks was given another time.
TIMEOUT = 60
#: How often to ask again when there is no answer, or a proxy says so (502, 503, 504), likewise.
RETRIES = 2

#: The microversion of a kind of service, and the release that has it. Aggregates of placement are
#: written with a generation since 1.19; compute aggregates have uuids since 2.41, hypervisors since
#: 2.53 ("Microversion history" of both references).
MICROVERSIONS: Mapping[str, tuple[str, str]] = {
    "placement": ("1.19", "Rocky"),
    "compute": ("2.53", "Pike"),
}

#: What answers are documented by, where it is not called as the type of the service is.
_APIS = {"network": "the networking API says", "attestation": "an attestation service does"}

# keystoneauth warns of each try. The caller's error has the last one, in one line.
_QUIET = logging.getLogger(__name__)
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class RemoteService:
    """Asks one service with the microversion that this service speaks, if the kind has any.

    ``kind`` is its type in OpenStack's service catalogue.
    """

    def __init__(self, adapter: Adapter, kind: str) -> None:
        self._adapter, self.kind = adapter, kind
        self._version, self._since = MICROVERSIONS.get(kind, ("", ""))

    @property
    def place(self) -> str:
        """The address of the service; raises :class:`ServiceFailed` where none is known."""
        try:
            url = self._adapter.get_endpoint()
        except ClientException as failure:
            raise self.failed(f"{self.kind}: {_words(failure)}") from None
        if url is None:
            raise self.failed(f"the cloud's catalogue has no {self.kind} service")
        return str(url).rstrip("/")

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Any = None,
        taken: Collection[int] = (200,),
    ) -> Response:
        """Return the answer; :class:`ServiceFailed` unless ``taken`` and of the microversion."""
        place, adapter = self.place, self._adapter
        retries, statuses = adapter.connect_retries, adapter.status_code_retries
        try:
            response = adapter.request(
                path,
                method,
                params=params or {},
                json=body,
                headers={"Accept": "application/json"},
                microversion=self._version or None,
                microversion_service_type=self.kind,
                raise_exc=False,
                timeout=adapter.session.timeout or TIMEOUT,
                logger=_QUIET,
                connect_retries=RETRIES if retries is None else retries,
                status_code_retries=RETRIES if statuses is None else statuses,
                retriable_status_codes=adapter.retriable_status_codes or [502, 503, 504],
            )
        except ClientException as failure:
            raise self.failed(f"{place} does not answer: {_words(failure)}") from None
        except (ValueError, OSError) as failure:
            # Address, token, timeout or file of certificates: requests looks at them only now.
            raise self.failed(f"{place} cannot be reached: {_words(failure)}") from None
        self._refuse_other_version(response, place)
        if response.status_code not in taken:
            raise self.failed(
                f"{place} answered {describe(response)} to {method} {path}{_hint(response)}"
            )
        return response

    def listed(self, path: str, key: str, read: Callable[[Any], T], **params: str | int) -> list[T]:
        """Return what ``read`` makes of each item of a list; raises :class:`ServiceFailed`."""
        response = self.ask("GET", path, params=params)
        with self.reading(path):
            return [read(item) for item in response.json()[key]]

    @contextmanager
    def reading(self, path: str, method: str = "GET") -> Iterator[None]:
        """Raise :class:`ServiceFailed` where what is read is not of the shape that the API has."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError):
            api = _APIS.get(self.kind, f"the {self.kind} API says")
            raise self.failed(f"{self.place} did not answer {method} {path} as {api}") from None

    def failed(self, detail: str) -> ServiceFailed:
        """Return an error of this service."""
        return ServiceFailed(detail, service=self.kind)

    def _refuse_other_version(self, response: Response, place: str) -> None:
        if not self._version:
            return
        # One that has no microversions answers as if none were asked for.
        spoken = response.headers.get("OpenStack-API-Version", "").split()
        if response.status_code == 406 or (response.ok and spoken != [self.kind, self._version]):
            raise self.failed(
                f"{place} is too old, or no {self.kind} API: {self.kind} microversion "
                f"{self._version} ({self._since}) is needed, and it answered {describe(response)}"
            )


def read_json(response: Response) -> Any:
    """Return the document of a response, or None if it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def describe(response: Response) -> str:
    """Return status, reason and the sentence of an error as placement, nova or keystone have it."""
    head = f"{response.status_code} {response.reason}"
    document = read_json(response)
    if not isinstance(document, dict):
        return head
    first = document.get("errors") or next(iter(document.values()), None)
    if isinstance(first, list):
        first = first[0] if first else None
    text = (first.get("detail") or first.get("message")) if isinstance(first, dict) else None
    sentence = " ".join(text.split()) if isinstance(text, str) else ""
    return f"{head} ({sentence})" if sentence else head


def _hint(response: Response) -> str:
    if response.status_code == 401:
        return "; is the token right?"
    if response.status_code == 404 and not isinstance(read_json(response), dict):
        return "; is the address that of the API itself?"
    return ""


def _words(failure: Exception) -> str:
    text = " ".join(str(failure).split())
    reason = re.search(r"\[Errno -?\d+\] ([^'\")]+)", text)
    return reason[1] if reason else text


#: The libraries that log on their own when a cloud cannot be read or reached.
_SPEAKING = ("keystoneauth", "openstack", "stevedore")

#: What openstacksdk raises, of clouds.yaml files that are not of the shape it reads them in.
_SHAPELESS = (TypeError, AttributeError, ValueError, LookupError)


@contextmanager
def library_logs_silenced() -> Iterator[None]:
    """Keep the libraries below from logging what our one line of error says."""
    loggers = {logger: logger.propagate for logger in map(logging.getLogger, _SPEAKING)}
    silence = logging.NullHandler()
    for logger in loggers:
        logger.addHandler(silence)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagated in loggers.items():
            logger.removeHandler(silence)
            logger.propagate = propagated


def by_token(url: str, token: str) -> Adapter:
    """Return an adapter for the service at ``url``, with a token of keystone or noauth2."""
    return Adapter(Session(auth=Token(url, token)), endpoint_override=url.rstrip("/"))


def check_installed(group: str, auth_type: str | None) -> None:
    """Raise :class:`ConfigurationError` where keystoneauth has no plugin of this name.

    To load it would make stevedore print an error of its own, too.
    """
    if auth_type and not entry_points(group="keystoneauth1.plugin", name=auth_type):
        raise ConfigurationError(f"[{group}] auth_type {auth_type} is not installed")


def by_options(conf: cfg.ConfigOpts, group: str, *, retries: int) -> Adapter | None:
    """Return an adapter for the service that ``group`` describes; None where it describes none.

    The group has keystoneauth's options, which ``conf`` knows. Without ``auth_type``, the service
    at ``endpoint_override`` is asked without a user. ``retries`` counts where no option does.
    Raises :class:`ConfigurationError` where they do not fit together.
    """
    try:
        # The section that auth_section names is known only now.
        loading.register_auth_conf_options(conf, group)
        section = conf[group].auth_section or group
        check_installed(section, conf[section].auth_type)
        auth = loading.load_auth_from_conf_options(conf, group)
        if auth is None and conf[group].endpoint_override is None:
            return None
        session = loading.load_session_from_conf_options(conf, group, auth=auth or NoAuth())
        found = loading.load_adapter_from_conf_options(conf, group, session=session)
    except (ClientException, cfg.Error, TypeError, ValueError) as wrong:
        raise ConfigurationError(f"[{group}]: {' '.join(str(wrong).split())}") from None
    if found.connect_retries is None:
        found.connect_retries = retries
    if found.status_code_retries is None:
        found.status_code_retries = retries
    return found


def cloud_adapters(name: str, urls: Mapping[str, str | None]) -> dict[str, Adapter]:
    """Return an adapter for each kind of service of a cloud in clouds.yaml.

    An address in ``urls`` takes precedence over that of the cloud.
    Raises :class:`Invalid` if openstacksdk is not installed, or does not know the cloud.
    """
    try:
        # Optional, and it takes half a second to load: only for the commands that need it.
        config: Any = import_module("openstack.config")
    except ImportError:
        raise Invalid(
            "--os-cloud needs openstacksdk: pip install 'placement_sched[clouds]'"
        ) from None
    failures = (ClientException, import_module("openstack.exceptions").SDKException)
    warnings = BufferingHandler(1000)  # for instance that a file is skipped, and why
    warnings.setLevel(logging.WARNING)
    logger = logging.getLogger("openstack")
    logger.addHandler(warnings)
    try:
        region = config.OpenStackConfig().get_one(cloud=name)
        return {
            kind: Adapter(
                region.get_session(),
                service_type=region.get_service_type(kind),
                service_name=region.get_service_name(kind),
                interface=region.get_interface(kind),
                region_name=region.get_region_name(kind),
                endpoint_override=url or region.get_endpoint(kind),
            )
            for kind, url in urls.items()
        }
    except failures as failure:
        words = " ".join([str(failure), *(record.getMessage() for record in warnings.buffer)])
    except _SHAPELESS as failure:
        words = f"openstacksdk cannot use this cloud of clouds.yaml: {failure}"
    finally:
        logger.removeHandler(warnings)
    raise Invalid(f"--os-cloud {name}: {' '.join(words.split())}")

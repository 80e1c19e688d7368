"""How other services are reached: by address and token, by options, or as clouds.yaml tells."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg

from placement_sched.errors import ConfigurationError, Invalid

#: Who else tells of a cloud that cannot be read or reached, in lines of its own.
_SPEAKING = ("keystoneauth", "openstack", "stevedore")

#: The entry points among which ``auth_type`` names one.
_PLUGINS = "keystoneauth1.plugin"

#: What openstacksdk raises, of clouds.yaml files that are not of the shape it reads them in.
_SHAPELESS = (TypeError, AttributeError, ValueError, LookupError)


@contextmanager
def one_voice() -> Iterator[None]:
    """Keep the libraries below from telling as well what our one line of error tells."""
    loggers = [logging.getLogger(name) for name in _SPEAKING]
    before = [logger.propagate for logger in loggers]
    silence = logging.NullHandler()
    for logger in loggers:
        logger.addHandler(silence)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagated in zip(loggers, before, strict=True):
            logger.removeHandler(silence)
            logger.propagate = propagated


def by_token(url: str, token: str) -> Adapter:
    """Return who asks the service at ``url`` with a token: keystone's, or a word of noauth2."""
    return Adapter(Session(auth=Token(url, token)), endpoint_override=url.rstrip("/"))


def check_installed(group: str, auth_type: str | None) -> None:
    """Raise :class:`ConfigurationError` where keystoneauth has no plugin of this name.

    Who loads it would be told by stevedore on stderr, too, in words of its own.
    """
    if auth_type and not entry_points(group=_PLUGINS, name=auth_type):
        raise ConfigurationError(f"[{group}] auth_type {auth_type} is not installed")


def by_options(conf: cfg.ConfigOpts, group: str, *, retries: int) -> Adapter | None:
    """Return who asks the service that ``group`` describes; None where that says nothing of one.

    The group has keystoneauth's options, which ``conf`` knows. Without ``auth_type``, the service
    at ``endpoint_override`` is asked as nobody. ``retries`` counts where no option does. Raises
    :class:`ConfigurationError` where they do not fit together.
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


class Cloud:
    """A cloud of clouds.yaml, read by openstacksdk, as the openstack command reads it.

    Raises :class:`Invalid` where openstacksdk is not installed, or does not know the cloud.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            # Installed only where it is wanted, and it takes half a second to load: not for all.
            config: Any = import_module("openstack.config")
        except ImportError:
            raise Invalid(
                "--os-cloud needs openstacksdk: pip install 'placement_sched[clouds]'"
            ) from None
        self._failures = (ClientException, import_module("openstack.exceptions").SDKException)
        with self._read():
            self._region: Any = config.OpenStackConfig().get_one(cloud=name)

    def adapter(self, service: str) -> Adapter:
        """Return who asks a service of the cloud, ``placement`` or ``compute``."""
        with self._read():
            return Adapter(
                self._region.get_session(),
                service_type=self._region.get_service_type(service),
                service_name=self._region.get_service_name(service),
                interface=self._region.get_interface(service),
                region_name=self._region.get_region_name(service),
                endpoint_override=self._region.get_endpoint(service),
            )

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Raise :class:`Invalid` for what cannot be read, with what openstacksdk says of it."""
        said = _Said()
        logger = logging.getLogger("openstack")
        logger.addHandler(said)
        try:
            yield
        except self._failures as failure:
            raise self._wrong(" ".join([str(failure), *said.lines])) from None
        except _SHAPELESS as failure:
            raise self._wrong(
                f"openstacksdk cannot read clouds.yaml, or what it says of this cloud: {failure}"
            ) from None
        finally:
            logger.removeHandler(said)

    def _wrong(self, words: str) -> Invalid:
        return Invalid(f"--os-cloud {self._name}: {' '.join(words.split())}")


class _Said(logging.Handler):
    """Keeps what is logged as a warning or worse, for instance that a file is skipped, and why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(record.getMessage())

"""Where nova's message bus is, and how to connect: read from nova.conf as oslo.messaging does."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from oslo_config import cfg

from placement_sched.errors import ConfigurationError
from placement_sched.settings.conf import read_files
from placement_sched.settings.logs import without_warnings
from placement_sched.settings.options.notifications import oslo_messaging, set_exchange
from placement_sched.settings.opts import Conf

#: The drivers of ``transport_url`` that mean RabbitMQ.
_RABBIT = ("rabbit", "kombu", "amqp")
_GROUP = "oslo_messaging_rabbit"


@dataclass(frozen=True, slots=True)
class Broker:
    """One address of the message bus; ``arguments`` are those of a kombu connection."""

    host: str
    port: int
    arguments: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        """Return the address as logs show it: without user and password."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NovaBus:
    """The message bus: its addresses, tried in turn, and nova's exchange there."""

    brokers: Sequence[Broker]
    exchange: str
    is_durable: bool
    is_auto_deleted: bool
    heartbeat: int


def read_transport(files: Sequence[str], url: str | None = None) -> NovaBus:
    """Return the transport that the files' ``[DEFAULT] transport_url`` and ``url`` over it name.

    Raises :class:`ConfigurationError` where none is named, or not RabbitMQ.
    """
    library = oslo_messaging()
    set_exchange()
    conf = _conf(files)
    named = url or conf.transport_url
    if not named or named == "rabbit://":
        raise ConfigurationError(
            "[DEFAULT] transport_url is not set: name nova's message bus, or hand over nova.conf "
            "with --config-file"
        )
    try:
        parsed = library.TransportURL.parse(conf, named)
    except (library.MessagingException, ValueError):
        # What the library says of it may have the password.
        raise ConfigurationError("[DEFAULT] transport_url is not a URL of a message bus") from None
    if parsed.transport not in _RABBIT:
        raise ConfigurationError(
            f"[DEFAULT] transport_url: {parsed.transport} is not RabbitMQ, whose exchanges give a "
            "copy of each request"
        )
    options = conf[_GROUP]
    return NovaBus(
        brokers=tuple(_broker(host, parsed, options) for host in parsed.hosts) or (),
        exchange=conf.control_exchange,
        is_durable=options.amqp_durable_queues or options.rabbit_quorum_queue,
        is_auto_deleted=options.amqp_auto_delete,
        heartbeat=options.heartbeat_timeout_threshold,
    )


def _conf(files: Sequence[str]) -> Any:
    """Return an oslo.config object with the options of oslo.messaging alone."""
    conf = Conf()
    with without_warnings():
        options = import_module("oslo_messaging.opts").list_opts()
    for group, members in options:
        conf.register_opts(members, group=group)
    return read_files(conf, files)


def _broker(host: Any, parsed: Any, options: cfg.ConfigOpts.GroupAttr) -> Broker:
    port = host.port or 5672
    query = parsed.query
    secured = _flag(query.get("ssl"), default=options.ssl)
    arguments = {
        "hostname": host.hostname or "localhost",
        "port": port,
        "userid": host.username or "guest",
        "password": host.password or "",
        "virtual_host": parsed.virtual_host or "/",
        "login_method": options.rabbit_login_method,
        "ssl": _tls(host.hostname or "localhost", query, options) if secured else False,
    }
    return Broker(str(arguments["hostname"]), port, arguments)


def _tls(host: str, query: Mapping[str, str], options: cfg.ConfigOpts.GroupAttr) -> Any:
    """Return the arguments of TLS; True where the files name none.

    The version is the newest that both ends have. As with oslo.messaging, options in the query of
    the URL win, and a certificate's name is checked where the authority is named.
    """

    def given(name: str) -> str:
        return query.get(name) or getattr(options, name)

    found: dict[str, Any] = {}
    for name, argument in (("ssl_key_file", "keyfile"), ("ssl_cert_file", "certfile")):
        if value := given(name):
            found[argument] = value
    if authority := given("ssl_ca_file"):
        found |= {"ca_certs": authority, "cert_reqs": ssl.CERT_REQUIRED}
        checked = query.get("ssl_enforce_hostname_verification")
        if _flag(checked, default=options.ssl_enforce_hostname_verification):
            found["server_hostname"] = host
    return found or True


def _flag(text: str | None, *, default: bool) -> bool:
    return default if text is None else text.strip().lower() in {"1", "true", "yes", "on"}

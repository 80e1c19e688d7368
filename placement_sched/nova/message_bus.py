# SPDX-License-Identifier: Apache-2.0
"""The message bus of nova, as its configuration describes it."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from warnings import catch_warnings

from oslo_config import cfg
from oslo_utils.strutils import bool_from_string

from placement_sched.config.conf import read_files
from placement_sched.config.options.services import import_oslo_messaging, set_exchange
from placement_sched.config.settings import Conf
from placement_sched.errors import ConfigurationError

#: The drivers of ``transport_url`` for RabbitMQ.
_RABBIT = ("rabbit", "kombu", "amqp")
_GROUP = "oslo_messaging_rabbit"


@dataclass(frozen=True, slots=True)
class Broker:
    """An address of the message bus, with arguments for kombu connections."""

    host: str
    port: int
    arguments: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NovaBus:
    """The message bus: nova's exchange, and addresses to try in order."""

    brokers: Sequence[Broker]
    exchange: str
    is_durable: bool
    is_auto_deleted: bool
    heartbeat: int


def read_transport(files: Sequence[str], url: str | None = None) -> NovaBus:
    """Read the message bus, or raise ConfigurationError unless on RabbitMQ."""
    library = import_oslo_messaging()
    set_exchange()
    conf = Conf()
    with catch_warnings(action="ignore"):  # eventlet warns about its use
        groups = import_module("oslo_messaging.opts").list_opts()
    for group, members in groups:
        conf.register_opts(members, group=group)
    read_files(conf, files)
    transport_url = url or conf.transport_url
    if not transport_url or transport_url == "rabbit://":
        raise ConfigurationError(
            "[DEFAULT] transport_url is not set: name nova's message bus, or pass nova.conf "
            "with --config-file"
        )
    try:
        parsed = library.TransportURL.parse(conf, transport_url)
    except (library.MessagingException, ValueError):
        # The message of the library may contain the password.
        raise ConfigurationError("[DEFAULT] transport_url is not a URL of a message bus") from None
    if parsed.transport not in _RABBIT:
        raise ConfigurationError(
            f"[DEFAULT] transport_url: {parsed.transport} is not RabbitMQ, the only bus that "
            "can copy each request"
        )
    options = conf[_GROUP]
    return NovaBus(
        brokers=tuple(_build_broker(host, parsed, options) for host in parsed.hosts) or (),
        exchange=conf.control_exchange,
        is_durable=options.amqp_durable_queues or options.rabbit_quorum_queue,
        is_auto_deleted=options.amqp_auto_delete,
        heartbeat=options.heartbeat_timeout_threshold,
    )


def _build_broker(host: Any, parsed: Any, options: cfg.ConfigOpts.GroupAttr) -> Broker:
    port = host.port or 5672
    query = parsed.query
    is_encrypted = bool_from_string(query.get("ssl"), default=options.ssl)
    arguments = {
        "hostname": host.hostname or "localhost",
        "port": port,
        "userid": host.username or "guest",
        "password": host.password or "",
        "virtual_host": parsed.virtual_host or "/",
        "login_method": options.rabbit_login_method,
        "ssl": _build_tls_arguments(host.hostname or "localhost", query, options)
        if is_encrypted
        else False,
    }
    return Broker(str(arguments["hostname"]), port, arguments)


def _build_tls_arguments(
    host: str, query: Mapping[str, str], options: cfg.ConfigOpts.GroupAttr
) -> Any:
    """Return TLS arguments for a connection, or True without TLS options.

    The newest TLS version that both ends support is used. As in oslo.messaging, options in the
    query of the URL take precedence, and the name in a certificate is checked if a CA file is set.
    """

    def get_option(name: str) -> str:
        return query.get(name) or getattr(options, name)

    arguments: dict[str, Any] = {}
    for name, argument in (("ssl_key_file", "keyfile"), ("ssl_cert_file", "certfile")):
        if value := get_option(name):
            arguments[argument] = value
    if authority := get_option("ssl_ca_file"):
        arguments |= {"ca_certs": authority, "cert_reqs": ssl.CERT_REQUIRED}
        verification = query.get("ssl_enforce_hostname_verification")
        if bool_from_string(verification, default=options.ssl_enforce_hostname_verification):
            arguments["server_hostname"] = host
    return arguments or True

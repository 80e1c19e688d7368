# SPDX-License-Identifier: Apache-2.0
"""RPC servers on nova's message bus that lose no request.

oslo.messaging acknowledges a request on arrival. If its process is killed then, the client waits
until its timeout. This module acknowledges a request after its reply is sent. Until then RabbitMQ
keeps the request, and delivers it to another process if this process dies. All uses of private
parts of oslo.messaging are in this module (see doc/decisions/0006).

Log lines about calls have extra fields for ``[DEFAULT] use_json``, like the HTTP access log.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import Any, NamedTuple, TypeVar
from warnings import catch_warnings

from kombu.transport import pyamqp
from oslo_config import cfg

from placement_sched import errors
from placement_sched.clients.session import silence_library_logs
from placement_sched.config.conf import read_files
from placement_sched.config.options.services import set_exchange
from placement_sched.config.settings import Settings, is_explicit
from placement_sched.errors import ConfigurationError, format_one_line
from placement_sched.limits import MAX_ID_CHARACTERS
from placement_sched.model.context import RequestIds
from placement_sched.model.document import Json
from placement_sched.model.request_stats import log_slow

with catch_warnings(action="ignore"):  # eventlet warns about its use
    import oslo_messaging
    from oslo_messaging import opts
    from oslo_messaging._drivers.amqpdriver import NotificationAMQPListener, RpcAMQPListener
    from oslo_messaging.rpc.server import RPCServer

LOG = logging.getLogger(__name__)

#: Threads of a worker, unless [DEFAULT] executor_thread_pool_size is set. Requests mostly run
#: Python code, so that oslo.messaging's 64 threads would compete for the interpreter lock. With a
#: few threads, a worker answers requests while others wait for the database. A worker takes no more
#: requests than it has threads: further requests stay in RabbitMQ, for other workers.
THREADS = 4
#: Maximum number of seconds to wait at shutdown until answered requests are acknowledged.
GRACE = 10.0
#: Seconds between two attempts to start a server, at first and at most.
_RETRY_PAUSE, _MAX_RETRY_PAUSE = 1.0, 10.0
#: Exceptions of the libraries if the message bus rejects a connection or a queue.
_REJECTED: tuple[type[Exception], ...] = (
    *pyamqp.Transport.connection_errors,
    *pyamqp.Transport.channel_errors,
    OSError,
)
#: The method name in the metrics for calls of unknown methods.
UNKNOWN = "other"

Method = TypeVar("Method", bound=Callable[..., Any])
Endpoint = Any
Transport = Any
Context = Mapping[str, Any]


def expose(method: Method) -> Method:
    """Mark a method of an endpoint as callable over RPC."""
    marked: Method = oslo_messaging.expose(method)
    return marked


def build_target(version: str, namespace: str | None = None) -> Any:
    """Build the target of an endpoint, with its namespace and newest version."""
    return oslo_messaging.Target(version=version, namespace=namespace)


def read_bus_options(settings: Settings) -> cfg.ConfigOpts:
    """Return oslo.messaging's options, read from the files of ``settings``.

    The result is oslo.messaging's global object, because only this object has the options of its
    tracing. Without these options, oslo.messaging drops each message. Raises
    :class:`ConfigurationError` if [DEFAULT] transport_url is not set.
    """
    set_exchange()
    conf: cfg.ConfigOpts = oslo_messaging.LoggingNotificationHandler.CONF
    for group, options in opts.list_opts():
        conf.register_opts(options, group)
    read_files(conf, settings.conf.config_file or ())
    if not is_explicit(conf, "DEFAULT", "transport_url"):
        raise ConfigurationError(
            "[DEFAULT] transport_url is not set: it names nova's message bus, as in nova.conf"
        )
    conf.set_default("executor_thread_pool_size", THREADS)
    thread_count = conf.executor_thread_pool_size
    conf.set_default("rabbit_qos_prefetch_count", thread_count, "oslo_messaging_rabbit")
    return conf


def create_transport(conf: cfg.ConfigOpts) -> Transport:
    """Create the transport without connecting, or raise ConfigurationError."""
    try:
        with silence_library_logs():
            return oslo_messaging.get_rpc_transport(conf)
    except (oslo_messaging.InvalidTransportURL, ValueError):  # their texts contain passwords
        raise ConfigurationError(
            "[DEFAULT] transport_url: use the form rabbit://user:password@host:5672/"
        ) from None
    except oslo_messaging.MessagingException as error:
        raise ConfigurationError(f"[DEFAULT] transport_url: {format_one_line(error)}") from None


def describe_bus(settings: Settings) -> str:
    """Return the address of nova's message bus, without its passwords."""
    url = oslo_messaging.TransportURL.parse(read_bus_options(settings))
    hosts = ",".join(f"{host.hostname}:{host.port or 5672}" for host in url.hosts)
    return f"{url.transport}://{hosts}/{url.virtual_host or ''}"


class FinishedCall(NamedTuple):
    """An answered call, with its duration in seconds and nova's context."""

    method: str
    outcome: str
    seconds: float
    context: Mapping[str, Any]


#: A function that is called with each answered call.
CountCall = Callable[[FinishedCall], None]


def create_server(
    transport: Transport,
    topic: str,
    host: str,
    endpoints: Sequence[Endpoint],
    count: CountCall = lambda _call: None,
) -> "Server":
    """Create an RPC server for a topic and host, without starting it."""
    target = oslo_messaging.Target(topic=topic, server=host)
    policy = oslo_messaging.ExplicitRPCAccessPolicy
    return Server(transport, target, Dispatcher(endpoints, policy, count))


def start_server(
    create: Callable[[], "Server"], stopping: Event, bus: str, *, logs: bool
) -> "Server | None":
    """Start a server, and retry while the message bus rejects it.

    A bus rejects a wrong password or virtual host. The failure is logged once, if ``logs``, with
    the address ``bus``. ``create`` creates a server for each attempt. Returns None if the service
    is stopping.
    """
    pause, last_reason = _RETRY_PAUSE, ""
    while not stopping.is_set():
        server, reason = create(), ""
        try:
            server.start()
        except _REJECTED as failure:
            reason = format_one_line(failure).rstrip(".") or type(failure).__name__
        if not reason:
            if last_reason and logs:
                LOG.info("the message bus at %s accepts this service now", bus)
            return server
        if reason != last_reason and logs:  # logged outside the handler
            LOG.error(
                "the message bus at %s rejects this service, so that nova's requests are not "
                "answered: %s. Correct [DEFAULT] transport_url, or the user at the bus",
                bus,
                reason,
            )
        last_reason = reason
        stopping.wait(pause)
        pause = min(pause * 2, _MAX_RETRY_PAUSE)
    return None


class UnsupportedCall(Exception):
    """A call that RabbitMQ has to deliver again, to another scheduler."""


class ExpectedError(Exception):
    """Wrapper for an exception that is sent to the caller but not logged.

    ``outcome`` is the outcome in the :class:`FinishedCall`, and so in the metrics.
    """

    def __init__(self, failure: Exception, outcome: str = "rejected") -> None:
        super().__init__(failure)
        self.failure, self.outcome = failure, outcome


class Dispatcher(oslo_messaging.RPCDispatcher):  # type: ignore[misc] # the library has no types
    """Dispatcher that calls endpoints, and answers and logs each failure."""

    def __init__(self, endpoints: Sequence[Endpoint], policy: Any, count: CountCall) -> None:
        super().__init__(endpoints, None, policy)
        self._count = count

    def dispatch(self, incoming: Any) -> Any:
        """Call a method, or raise ExpectedException, which has the reply."""
        failure: Exception | None = None
        result, is_expected = None, False
        method, outcome, began = UNKNOWN, "succeeded", time.perf_counter()
        try:
            method = self._check_method(incoming.message)
            result = super().dispatch(incoming)
        except UnsupportedCall:  # which the library would log with a traceback
            raise oslo_messaging.ExpectedException from None
        except ExpectedError as expected:
            failure, is_expected, outcome = expected.failure, True, expected.outcome
        except Exception as unexpected:  # noqa: BLE001 - every failure is answered
            failure, outcome = unexpected, "rejected"
        call = FinishedCall(method, outcome, time.perf_counter() - began, incoming.ctxt)
        self._count(call)
        if failure is None:
            return result
        if not is_expected:  # logged outside the handler, or the line would repeat the exception
            self._log(incoming.message, call, failure)
        try:
            raise failure  # noqa: TRY301 - the library answers with the exception being handled
        except Exception:  # noqa: BLE001 - it is the reply
            raise oslo_messaging.ExpectedException from None

    def _log(self, message: Mapping[str, Any], call: FinishedCall, failure: Exception) -> None:
        LOG.error(
            "nova's call %s %s (request %s) is rejected: %s",
            message.get("method"),
            message.get("version", "1.0"),
            call.context.get("request_id"),
            format_one_line(failure),
            extra={
                "extra": build_log_fields(call.context, call.method, call.outcome, call.seconds)
            },
        )
        LOG.debug("the call is rejected for:", exc_info=failure)

    def _check_method(self, message: Mapping[str, Any]) -> str:
        """Return the method of a call, or raise if no endpoint has it.

        The exception is the reply to the caller. oslo.messaging also detects an unknown method,
        but reports to the caller forever that the call is running.
        """
        method, version = str(message.get("method")), message.get("version", "1.0")
        namespace = message.get("namespace")
        fitting = [
            endpoint for endpoint in self.endpoints if _accepts(endpoint.target, namespace, version)
        ]
        if not fitting:
            raise oslo_messaging.UnsupportedVersion(version, method=method)
        if not any(self.access_policy.is_allowed(endpoint, method) for endpoint in fitting):
            raise oslo_messaging.NoSuchMethod(method)
        return method


def _accepts(target: Any, namespace: str | None, version: Any) -> bool:
    try:
        requested, minor = (int(part) for part in str(version).split("."))
    except ValueError:
        return False
    supported, newest = (int(part) for part in target.version.split("."))
    return namespace in target.accepted_namespaces and requested == supported and minor <= newest


class Server(RPCServer):  # type: ignore[misc] # the library has no types
    """An RPC server that acknowledges each message after its reply."""

    def _create_listener(self) -> Any:
        listener = super()._create_listener()
        polled = listener._poll_style_listener  # noqa: SLF001 - there is no public way to it
        if isinstance(polled, RpcAMQPListener):
            # The driver creates and calls the listener, and offers no way to replace its class.
            polled.__class__ = _Listener
        return listener

    def _process_incoming(self, incoming: Sequence[Any]) -> None:
        for message in incoming:
            answered = _DeferredMessage(message)
            failed = ""
            try:
                super()._process_incoming([answered])
            except Exception as failure:  # noqa: BLE001 - no message may be lost
                failed = format_one_line(failure)
                with suppress(Exception):  # else the message is delivered again
                    answered.reply(failure=sys.exc_info())
            if failed:  # logged outside the handler, or the line would repeat the exception
                LOG.error("a message of nova's cannot be handled: %s", failed)
            if answered.is_settled:
                message.acknowledge()
            else:
                message.requeue()


class _DeferredMessage:
    """A message for oslo.messaging, acknowledged after its reply is sent."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self.is_settled = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def acknowledge(self) -> None:
        """Do nothing: the server acknowledges the message later."""

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the reply.

        If the bus does not accept the reply, the request is delivered again, unless the bus has
        lost the request.
        """
        if failure and issubclass(failure[0], UnsupportedCall):
            self.is_settled = False
            return
        reason = ""
        try:
            self._message.reply(reply, failure)
        except (TypeError, ValueError):  # the reply is not JSON, and a retry would not help
            self._message.reply(failure=sys.exc_info())
            raise
        except Exception as away:  # noqa: BLE001 - any exception of the bus and its driver
            self.is_settled, reason = False, format_one_line(away)
        if not self.is_settled:  # logged outside the handler, or the line repeats the exception
            LOG.warning("a reply cannot be sent: %s", reason)


class _Listener(NotificationAMQPListener):  # type: ignore[misc] # the library has no types
    def __call__(self, message: Any) -> None:
        """Queue a message, or acknowledge it if it was answered already."""
        count_before = len(self.incoming)
        super().__call__(message)
        if len(self.incoming) == count_before:
            message.acknowledge()

    def cleanup(self) -> None:
        acknowledged = Event()
        self._message_operations_handler.do(acknowledged.set)
        acknowledged.wait(GRACE)
        super().cleanup()


def get_request_ids(context: Context) -> RequestIds:
    """Return the ids of a message's request, from nova's context."""
    return RequestIds(read_text(context, "request_id"), read_text(context, "global_request_id"))


def build_log_fields(context: Context, method: str, outcome: str, seconds: float) -> dict[str, Any]:
    """Build log fields: ids, outcome as in the metrics, and duration."""
    ids = get_request_ids(context)
    return {
        "request_id": ids.request_id,
        "global_request_id": ids.global_request_id,
        "user_id": read_text(context, "user_id") or read_text(context, "user"),
        "project_id": read_text(context, "project_id") or read_text(context, "tenant"),
        "method": method,
        "outcome": outcome,
        "duration_ms": round(seconds * 1000, 1),
    }


def log_selection(document: Json, hosts: Sequence[str], fields: dict[str, Any]) -> None:
    """Log the selected hosts and the project of a request spec ``document``."""
    project = document.get("project_id")
    log_fields = fields | {"project_id": project, "instances": len(hosts), "hosts": len(set(hosts))}
    extra_count = len(set(hosts)) - 1
    LOG.info(
        "selected %s%s for %s (project %r, request %s) %.1f ms",
        hosts[0],
        f" and {extra_count} other host{'s' * (extra_count > 1)}" if extra_count else "",
        "1 instance" if len(hosts) == 1 else f"{len(hosts)} instances",
        project,
        fields["request_id"],
        fields["duration_ms"],
        extra={"extra": log_fields},
    )


def log_rejection(
    failure: errors.Error, sent: Mapping[str, Any], fields: dict[str, Any], level: int
) -> None:
    """Log why a call with the arguments ``sent`` was rejected."""
    uuids = sent.get("instance_uuids")
    if not isinstance(uuids, list) or not uuids:
        uuids = ["unknown"]
    more = f" and {len(uuids) - 1} more" if len(uuids) > 1 else ""
    decision_uuid = failure.extra.get("decision")
    decision = f", decision {decision_uuid}" if decision_uuid else ""
    LOG.log(
        level,
        "%s (instance %s%s, request %s%s)",
        format_one_line(failure),
        uuids[0],
        more,
        fields["request_id"],
        decision,
        extra={"extra": fields | {"decision": decision_uuid}},
    )


def log_slow_call(fields: dict[str, Any]) -> None:
    """Log a slow call with the time of its steps and the counts of its funnel."""
    # The field ``outcome`` of the log record is the outcome of the call. The text of the line has
    # both this outcome and the outcome of the decision.
    log_slow(LOG, fields["method"], f"{fields['outcome']}, request {fields['request_id']}", fields)


def read_text(context: Context, name: str) -> str | None:
    """Return a text of nova's context, cut to the length of an id, or None."""
    value = context.get(name)
    return value[:MAX_ID_CHARACTERS] if isinstance(value, str) else None

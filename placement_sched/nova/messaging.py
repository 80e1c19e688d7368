"""nova's message bus: oslo.messaging, set up so that no request is lost with a process.

oslo.messaging acknowledges a request when it arrives: where its process is killed, the client waits
in vain. Here a request is acknowledged once its answer is sent. Until then RabbitMQ keeps it, and
hands it to another process as soon as this one is gone. What this takes of oslo.messaging's private
parts is all here (see doc/decisions/0012).
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

from oslo_config import cfg

from placement_sched.clients.session import library_logs_silenced
from placement_sched.config.conf import read_files
from placement_sched.config.logs import without_warnings
from placement_sched.config.options.notifications import set_exchange
from placement_sched.config.opts import is_explicit
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError, one_line
from placement_sched.nova.call_log import fields_of

with without_warnings():
    import oslo_messaging
    from oslo_messaging import opts
    from oslo_messaging._drivers.amqpdriver import NotificationAMQPListener, RpcAMQPListener
    from oslo_messaging.rpc.server import RPCServer

LOG = logging.getLogger(__name__)

#: Threads of a worker, unless [DEFAULT] executor_thread_pool_size says otherwise. Requests are
#: mostly Python, so that the 64 of oslo.messaging would only fight over the interpreter; a few keep
#: a worker answering while others wait for the database. It has no more requests than threads: the
#: others stay in RabbitMQ, for other workers.
THREADS = 4
#: Seconds to wait at the end until what was answered is acknowledged.
GRACE = 10.0
#: The logger by which oslo.messaging complains of RabbitMQ.
_DRIVER = "oslo.messaging._drivers.impl_rabbit"
#: How it begins where a message is not JSON, or none of its own.
_UNREADABLE = "Failed to process message"
#: What it says where the bus is away.
_AWAY = ("is unreachable", "closed the connection", "Connection failed")

Method = TypeVar("Method", bound=Callable[..., Any])
Endpoint = Any
Transport = Any


def exposed(method: Method) -> Method:
    """Mark a method of an endpoint as one that may be called."""
    marked: Method = oslo_messaging.expose(method)
    return marked


def target_of(version: str, namespace: str | None = None) -> Any:
    """Return what an endpoint answers to: calls of this namespace, up to this version."""
    return oslo_messaging.Target(version=version, namespace=namespace)


def bus_options(settings: Settings) -> cfg.ConfigOpts:
    """Return the oslo.config object of oslo.messaging, with what ``settings`` were read from.

    It is the one that oslo.messaging finds when it is imported, for it registers the options of
    its tracing with no other, and drops each message without them. Raises
    :class:`ConfigurationError` where [DEFAULT] transport_url is not set.
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
    most = conf.executor_thread_pool_size
    conf.set_default("rabbit_qos_prefetch_count", most, "oslo_messaging_rabbit")
    return conf


def transport_of(conf: cfg.ConfigOpts) -> Transport:
    """Return the transport that [DEFAULT] transport_url describes; nothing connects yet.

    Raises :class:`ConfigurationError` where it cannot be used.
    """
    try:
        with library_logs_silenced():
            return oslo_messaging.get_rpc_transport(conf)
    except (oslo_messaging.InvalidTransportURL, ValueError):  # which show passwords
        raise ConfigurationError(
            "[DEFAULT] transport_url: it must be like rabbit://user:password@host:5672/"
        ) from None
    except oslo_messaging.MessagingException as wrong:
        raise ConfigurationError(f"[DEFAULT] transport_url: {one_line(wrong)}") from None


def bus_of(settings: Settings) -> str:
    """Return where nova's message bus is, without its passwords."""
    url = oslo_messaging.TransportURL.parse(bus_options(settings))
    hosts = ",".join(f"{host.hostname}:{host.port or 5672}" for host in url.hosts)
    return f"{url.transport}://{hosts}/{url.virtual_host or ''}"


class AnsweredCall(NamedTuple):
    """A call that was answered: what came of it, its seconds, and nova's context."""

    method: str
    outcome: str
    seconds: float
    context: Mapping[str, Any]


#: Is called with each call that was answered.
CountCall = Callable[[AnsweredCall], None]
#: What is counted as the method of a call that no endpoint has.
UNKNOWN = "other"


def server_of(
    transport: Transport,
    topic: str,
    host: str,
    endpoints: Sequence[Endpoint],
    count: CountCall = lambda _call: None,
) -> "Server":
    """Return a server of RPC on a topic, as ``host``; it listens once it is started."""
    target = oslo_messaging.Target(topic=topic, server=host)
    policy = oslo_messaging.ExplicitRPCAccessPolicy
    return Server(transport, target, Dispatcher(endpoints, policy, count))


class Unanswered(Exception):
    """Ends a call that is not to be answered here: RabbitMQ hands it to another scheduler."""


class Expected(Exception):
    """Wraps what an endpoint's method raises on purpose, which is answered and not logged.

    It is counted as ``outcome``.
    """

    def __init__(self, failure: Exception, outcome: str = "refused") -> None:
        super().__init__(failure)
        self.failure, self.outcome = failure, outcome


class Dispatcher(oslo_messaging.RPCDispatcher):  # type: ignore[misc] # the library has no types
    """Calls the methods of endpoints; what goes wrong is one line of the log, and an answer."""

    def __init__(self, endpoints: Sequence[Endpoint], policy: Any, count: CountCall) -> None:
        super().__init__(endpoints, None, policy)
        self._count = count

    def dispatch(self, incoming: Any) -> Any:
        """Return what the method returns.

        Raises oslo.messaging's ``ExpectedException``, which has what is answered, whatever happens.
        """
        is_expected, outcome = False, "refused"
        method, began = UNKNOWN, time.perf_counter()
        try:
            method = self._checked(incoming.message)
            answer = super().dispatch(incoming)
        except Unanswered:  # which the library would log with a traceback
            raise oslo_messaging.ExpectedException from None
        except Expected as expected:
            failure, is_expected, outcome = expected.failure, True, expected.outcome
        except Exception as unexpected:  # noqa: BLE001 - whatever it is, the caller learns of it
            failure = unexpected
        else:
            self._count(
                AnsweredCall(method, "answered", time.perf_counter() - began, incoming.ctxt)
            )
            return answer
        call = AnsweredCall(method, outcome, time.perf_counter() - began, incoming.ctxt)
        self._count(call)
        if not is_expected:  # logged after the failure, which the log would show once more
            self._log(incoming.message, call, failure)
        try:
            raise failure  # noqa: TRY301 - the library takes it from where it is handled
        except Exception:  # noqa: BLE001 - it is what is answered
            raise oslo_messaging.ExpectedException from None

    def _log(self, message: Mapping[str, Any], call: AnsweredCall, failure: Exception) -> None:
        LOG.error(
            "nova's call %s %s (request %s) is refused: %s",
            message.get("method"),
            message.get("version", "1.0"),
            call.context.get("request_id"),
            one_line(failure),
            extra={"extra": fields_of(call.context, call.method, call.outcome, call.seconds)},
        )
        LOG.debug("the call is refused for:", exc_info=failure)

    def _checked(self, message: Mapping[str, Any]) -> str:
        """Return the method of a call; raise what is answered where no endpoint has it so.

        oslo.messaging would find it as well, but send the caller for ever that it is at work.
        """
        method, version = str(message.get("method")), message.get("version", "1.0")
        namespace = message.get("namespace")
        fitting = [one for one in self.endpoints if _speaks(one.target, namespace, version)]
        if not fitting:
            raise oslo_messaging.UnsupportedVersion(version, method=method)
        if not any(self.access_policy.is_allowed(one, method) for one in fitting):
            raise oslo_messaging.NoSuchMethod(method)
        return method


def _speaks(target: Any, namespace: str | None, version: Any) -> bool:
    """Return whether an endpoint's target accepts a call of this namespace and version."""
    try:
        major, minor = (int(part) for part in str(version).split("."))
    except ValueError:
        return False
    ours, newest = (int(part) for part in target.version.split("."))
    return namespace in target.accepted_namespaces and major == ours and minor <= newest


class Server(RPCServer):  # type: ignore[misc] # the library has no types
    """A server of RPC that acknowledges each message once it is answered."""

    def _create_listener(self) -> Any:
        """Return what listens; RabbitMQ's does not acknowledge what arrives."""
        listener = super()._create_listener()
        polled = listener._poll_style_listener  # noqa: SLF001 - there is no public way to it
        if isinstance(polled, RpcAMQPListener):
            # The driver makes it and has it called, and offers no way to make another one.
            polled.__class__ = _Listener
        return listener

    def _process_incoming(self, incoming: Sequence[Any]) -> None:
        """Answer a message, and then acknowledge it."""
        for message in incoming:
            answered = _Answered(message)
            failed = ""
            try:
                super()._process_incoming([answered])
            except Exception as failure:  # noqa: BLE001 - no message is to be lost
                failed = one_line(failure)
                answered.fail()
            if failed:  # logged after the failure, which the log would show once more
                LOG.error("a message of nova's cannot be handled: %s", failed)
            if answered.is_settled:
                message.acknowledge()
            else:
                message.requeue()


class _Answered:
    """A message as oslo.messaging handles it: acknowledged later, when the answer is sent."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self.is_settled = True

    def __getattr__(self, name: str) -> Any:
        """Return what the message itself has."""
        return getattr(self._message, name)

    def acknowledge(self) -> None:
        """Do nothing yet."""

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the answer; where the bus does not take it, the message is not settled.

        A message that is not settled is delivered again, unless the bus has lost it.
        """
        if failure and issubclass(failure[0], Unanswered):
            self.is_settled = False
            return
        reason = ""
        try:
            self._message.reply(reply, failure)
        except (TypeError, ValueError):  # the answer is not JSON, and never will be
            self._message.reply(failure=sys.exc_info())
            raise
        except Exception as away:  # noqa: BLE001 - whatever the bus and its driver raise
            self.is_settled, reason = False, one_line(away)
        if not self.is_settled:  # logged after the failure, which the log would show once more
            LOG.warning("an answer cannot be sent: %s", reason)

    def fail(self) -> None:
        """Answer with the exception that is being handled; else it is delivered again."""
        with suppress(Exception):
            self.reply(failure=sys.exc_info())


class _Listener(NotificationAMQPListener):  # type: ignore[misc] # the library has no types
    """A listener for notifications of oslo.messaging, which acknowledges when it is asked to."""

    def __call__(self, message: Any) -> None:
        """Take a message; one that was answered before the connection broke is acknowledged."""
        before = len(self.incoming)
        super().__call__(message)
        if len(self.incoming) == before:
            message.acknowledge()

    def cleanup(self) -> None:
        """Close the connection, once what was answered is acknowledged."""
        acknowledged = Event()
        self._message_operations_handler.do(acknowledged.set)
        acknowledged.wait(GRACE)
        super().cleanup()


class AwayOnce(logging.Filter):
    """Says once that the message bus is away, and once that it is back, in place of oslo.messaging.

    That says it at each attempt and of each connection. Unless it is ``reporting``, neither is
    said: one of several processes is enough.
    """

    def __init__(self, bus: str, *, reporting: bool = True) -> None:
        super().__init__()
        self._bus, self._reporting = bus, reporting
        self._is_away = False

    def install(self) -> None:
        """Put it in front of what oslo.messaging logs of RabbitMQ."""
        logging.getLogger(_DRIVER).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged as it is."""
        text = str(record.msg)
        if text.startswith(_UNREADABLE):
            failure = record.exc_info[1] if record.exc_info else None
            record.msg = "a message that cannot be read is dropped: %s"
            record.args = (one_line(failure) if failure else "it is not of oslo.messaging",)
            record.exc_info = record.exc_text = None
            return True
        if any(words in text for words in _AWAY):
            self._note_away(_reason_of(record))
            return False
        if "Reconnected" in text:
            self.note_back()
            return False
        return True

    def _note_away(self, reason: str) -> None:
        if self._reporting and not self._is_away:
            # oslo.log adds to a line what its thread is handling, which is the reason once more.
            line = "the message bus %s does not answer: %s; waiting for it"
            apart = Thread(target=LOG.warning, args=(line, self._bus, reason))
            apart.start()
            apart.join()
        self._is_away = True

    def note_back(self) -> None:
        """Note that the bus answers."""
        if self._reporting and self._is_away:
            LOG.info("the message bus %s answers again", self._bus)
        self._is_away = False


def _reason_of(record: logging.LogRecord) -> str:
    """Return what the driver of the bus says in a record of oslo.messaging."""
    given = record.args
    if isinstance(given, Mapping):
        return one_line(str(given.get("err_str")))
    return one_line(str(given[0])) if given else "it is away"

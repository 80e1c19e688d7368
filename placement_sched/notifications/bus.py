"""The message bus, as oslo.messaging's options describe it, and the messages of an event."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from oslo_config import cfg

from placement_sched.config.environment import Environment
from placement_sched.config.messaging import GROUP, oslo_messaging, set_library_defaults
from placement_sched.config.notifications import UNVERSIONED, VERSIONED
from placement_sched.config.process import read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError
from placement_sched.notifications import unversioned, versioned
from placement_sched.notifications.event import END, ERROR, START, Event
from placement_sched.remote.access import one_voice

#: The entry points among which ``driver`` names some.
_DRIVERS = "oslo.messaging.notify.drivers"


class Message(NamedTuple):
    """A message: which notifier sends it, with which priority, and what it tells."""

    form: str
    priority: str
    event_type: str
    payload: dict[str, Any]


class _Whose(NamedTuple):
    """Whose request it is: what a message tells beside its payload, as nova's context does."""

    user_id: str | None
    project_id: str | None

    def redacted_copy(self) -> dict[str, Any]:
        """Return what may be sent: all of it. The library asks for this name."""
        return {**self._asdict(), "user": self.user_id, "project": self.project_id}


class Bus:
    """Sends the messages of events; one per process, used by one thread.

    Nothing connects before the first message. Raises
    :class:`~placement_sched.errors.ConfigurationError` where the options do not fit.
    """

    def __init__(self, settings: Settings) -> None:
        options, host = settings.oslo_messaging_notifications, settings.DEFAULT.host
        drivers = [name for name in options.driver if name]
        _check_drivers(drivers)
        library = oslo_messaging()
        set_library_defaults()
        conf = _conf_of(settings)
        try:
            with one_voice():
                self._transport: Any = library.get_notification_transport(
                    conf, options.transport_url
                )
        except library.MessagingException as wrong:
            told = " ".join(str(wrong).split())
            raise ConfigurationError(f"[{GROUP}] transport_url: {told}") from None
        conf.set_override("driver", drivers, GROUP)
        conf.set_override("retry", options.retry, GROUP)
        self._settings = settings.notifications
        senders = {
            UNVERSIONED: (f"scheduler.{host}", options.topics),
            VERSIONED: (f"nova-scheduler:{host}", self._settings.versioned_notifications_topics),
        }
        self._notifiers = {
            form: library.Notifier(self._transport, publisher_id=publisher, topics=topics)
            for form, (publisher, topics) in senders.items()
        }

    def send(self, event: Event) -> None:
        """Send what the options say of an event."""
        context = _Whose(event.spec.user_id, event.spec.project_id)
        for message in self._messages(event):
            notify = getattr(self._notifiers[message.form], message.priority)
            notify(context, message.event_type, message.payload)

    def close(self) -> None:
        """Close the connections."""
        self._transport.cleanup()

    def _messages(self, event: Event) -> Iterator[Message]:
        priority = "error" if event.phase == ERROR else "info"
        name = f"scheduler.select_destinations.{event.phase}"
        wanted = self._settings.notification_format
        if self._settings.notify_on_run_instance and event.phase in {START, END}:
            payload = unversioned.run_instance_payload_of(event)
            yield Message(UNVERSIONED, priority, f"scheduler.run_instance.{event.phase}", payload)
        if wanted != VERSIONED:
            yield Message(UNVERSIONED, priority, name, unversioned.payload_of(event))
        if wanted != UNVERSIONED:
            yield Message(VERSIONED, priority, name, versioned.payload_of(event))


def _check_drivers(names: list[str]) -> None:
    known = sorted(entry_points(group=_DRIVERS).names)
    for name in names:
        if name not in known:
            told = f"there is no driver {name!r}; there are {', '.join(known)}"
            raise ConfigurationError(f"[{GROUP}] driver: {told}")


def _conf_of(settings: Settings) -> cfg.ConfigOpts:
    """Return an oslo.config object of the library's own, which reads what the process has read.

    It registers many options, some under names that are options of this service as well.
    """
    conf = cfg.ConfigOpts()
    conf._env_driver = Environment()  # noqa: SLF001 - as placement_sched.config.process does
    return read_files(conf, settings.conf.config_file)

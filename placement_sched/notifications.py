# SPDX-License-Identifier: Apache-2.0
"""Notifications of scheduling requests on a message bus, as in nova.

Requests do not wait for the bus: notifications are queued, and a separate thread sends them. Names,
versions and fields of versioned payloads are as in nova 34 and in the samples of its page
"Notifications in Nova".
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from multiprocessing.util import Finalize
from queue import Full, Queue
from typing import Any, NamedTuple

from oslo_log import log

from placement_sched.clients.session import silence_library_logs
from placement_sched.config.conf import read_files
from placement_sched.config.options.services import (
    MESSAGING_GROUP,
    UNVERSIONED,
    VERSIONED,
    import_oslo_messaging,
    set_exchange,
)
from placement_sched.config.settings import Conf, Settings
from placement_sched.errors import ConfigurationError, Error
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.numa import InstanceNUMACell
from placement_sched.model.image import Image
from placement_sched.model.request_spec import RequestSpec

START, END, ERROR = "start", "end", "error"
# Fields that the unversioned and the versioned format copy.
_PROPERTIES = ("project_id", "user_id", "availability_zone")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_FLAVOR = ("flavorid", "name", *_SIZES, "swap", "rxtx_factor", "vcpu_weight", "disabled")
_IMAGE = ("id", "name", "status", "visibility", "owner", "size", "virtual_size")
_FORMATS = ("container_format", "disk_format", "min_ram", "min_disk")
_CELL = ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")
_PCI_REQUEST = ("count", "alias_name", "request_id", "numa_policy")
LOG = log.getLogger(__name__)
#: Drivers that send nothing. The configuration sample has an empty driver.
_NO_DRIVER = frozenset({"", "noop"})
#: The entry point group of the values of ``driver``.
_DRIVERS = "oslo.messaging.notify.drivers"
#: Maximum number of queued events while the bus does not accept them. Further events are dropped.
WAITING = 1000
#: Seconds to wait at shutdown for the bus to accept the queued events.
GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a request failed: an error code and a message."""

    code: str
    words: str

    @classmethod
    def from_exception(cls, failure: Exception) -> "Reason":
        """Build the reason of an :class:`Error`, or of a class name."""
        if isinstance(failure, Error):
            return cls(failure.code, failure.detail)
        return cls(Error.code, type(failure).__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """A phase of a request, with a reason if it is :data:`ERROR`."""

    phase: str
    spec: RequestSpec
    reason: Reason | None = None

    @property
    def instance_uuid(self) -> str | None:
        """Return the uuid of the first instance."""
        return self.spec.instance_uuid or next(iter(self.spec.instance_uuids), None)


def _pick(value: object, names: Iterable[str]) -> Json:
    return {name: getattr(value, name) for name in names}


def build_unversioned_payload(event: Event) -> Json:
    """Build the payload of ``scheduler.select_destinations.*``."""
    payload: Json = {"request_spec": _build_unversioned_spec(event)}
    if event.reason is not None:
        payload |= {"code": event.reason.code, "reason": event.reason.words}
    return payload


def build_run_instance_payload(event: Event) -> Json:
    """Build the payload of ``scheduler.run_instance.*``, with all instances."""
    spec = event.spec
    instances = spec.instance_uuids or ([spec.instance_uuid] if spec.instance_uuid else ())
    return {"request_spec": _build_unversioned_spec(event) | {"instance_uuids": list(instances)}}


def _build_unversioned_spec(event: Event) -> Json:
    spec = event.spec
    pci = spec.pci_requests
    image = _pick(spec.image, (*_IMAGE, *_FORMATS)) | {
        "tags": list(spec.image.tags),
        "properties": spec.image.properties.to_dict(),
    }
    unset = dict.fromkeys(("projects", "created_at", "updated_at", "deleted_at"))
    return {
        "num_instances": spec.num_instances,
        # The fields of the image that have a value. Empty without an image.
        "image": {}
        if spec.image == Image()
        else {name: value for name, value in image.items() if value is not None},
        # All keys of nova's flavor. The timestamps are unknown.
        "instance_type": {
            "id": spec.flavor.id,
            **_build_flavor(spec.flavor),
            **unset,
            "deleted": False,
        },
        "instance_properties": {
            "uuid": event.instance_uuid,
            **_pick(spec, (*_PROPERTIES, *_SIZES)),
            "numa_topology": spec.numa_topology
            and {
                "cells": [_build_cell(cell) for cell in spec.numa_topology.cells],
                "emulator_threads_policy": spec.numa_topology.emulator_threads_policy,
            },
            "pci_requests": pci
            and {
                "requests": [
                    _pick(request, (*_PCI_REQUEST, "requester_id"))
                    | {"spec": [dict(spec) for spec in request.spec]}
                    for request in pci.requests
                ]
            },
        },
    }


def _build_flavor(flavor: Flavor) -> Json:
    access = _pick(flavor, ("is_public", "description"))
    return _pick(flavor, _FLAVOR) | access | {"extra_specs": dict(flavor.extra_specs)}


def _build_cell(cell: InstanceNUMACell) -> Json:
    return _pick(cell, _CELL) | {
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "cpuset_reserved": None,
        "cpu_pinning_raw": None,
    }


def build_versioned_payload(event: Event) -> Json:
    """Build the payload of versioned ``select_destinations`` notifications.

    The payload is the request spec. If the event has an error, it is an object with the request
    spec and the error.
    """
    payload = _build_request_spec(event.spec, event.instance_uuid)
    if event.reason is None:
        return payload
    error = {"request_spec": payload, "code": event.reason.code, "reason": event.reason.words}
    result = _wrap("SelectDestinationsErrorPayload", "1.0", error)
    return result | {"nova_object.namespace": "placement_sched"}


def _build_request_spec(spec: RequestSpec, uuid: str | None) -> Json:
    flavor = _build_flavor(spec.flavor) | {"projects": None}
    data = _pick(spec, (*_PROPERTIES, "num_instances")) | {
        "instance_uuid": uuid,
        "flavor": _wrap("FlavorPayload", "1.4", flavor),
        "force_hosts": next(iter(spec.force_hosts), None),
        "force_nodes": next(iter(spec.force_nodes), None),
        "ignore_hosts": list(spec.ignore_hosts) or None,
        "scheduler_hints": {name: list(values) for name, values in spec.scheduler_hints.items()},
        "security_groups": list(spec.security_groups),
        **dict.fromkeys(("image", "instance_group", "numa_topology", "pci_requests")),
        **dict.fromkeys(("requested_destination", "retry")),
    }
    if spec.image != Image():
        unset = ("protected", "checksum", "created_at", "updated_at", "direct_url")
        image = _pick(spec.image, (*_IMAGE, *_FORMATS)) | {
            **dict.fromkeys(unset),
            "tags": list(spec.image.tags),
            "properties": _wrap("ImageMetaPropsPayload", "1.20", spec.image.properties.to_dict()),
        }
        data["image"] = _wrap("ImageMetaPayload", "1.0", image)
    if group := spec.instance_group:
        fields = _pick(group, ("uuid", "name", "user_id", "project_id", "policy")) | {
            "policies": None,
            "rules": {name: str(value) for name, value in group.rules.items()},
            "members": list(group.members),
            "hosts": list(group.hosts),
        }
        data["instance_group"] = _wrap("ServerGroupPayload", "1.1", fields)
    if topology := spec.numa_topology:
        cells = [
            _wrap("InstanceNUMACellPayload", "1.2", {**_build_cell(cell), "cpu_topology": None})
            for cell in topology.cells
        ]
        fields = _pick(topology, ("emulator_threads_policy",)) | {"cells": cells}
        data["numa_topology"] = _wrap(
            "InstanceNUMATopologyPayload", "1.0", {"instance_uuid": uuid, **fields}
        )
    if pci := spec.pci_requests:
        requests = []
        for request in pci.requests:
            texts = [{key: str(value) for key, value in part.items()} for part in request.spec]
            fields = _pick(request, _PCI_REQUEST) | {"spec": texts}
            requests.append(_wrap("InstancePCIRequestPayload", "1.1", fields))
        data["pci_requests"] = _wrap(
            "InstancePCIRequestsPayload", "1.0", {"instance_uuid": uuid, "requests": requests}
        )
    if destination := spec.requested_destination:
        cell = {"uuid": destination.cell, "name": None, "disabled": False}
        fields = _pick(destination, ("host", "node")) | {
            "cell": destination.cell and _wrap("CellMappingPayload", "2.0", cell),
            "aggregates": list(destination.aggregates) or None,
        }
        data["requested_destination"] = _wrap("DestinationPayload", "1.0", fields)
    if spec.retry:
        nodes = [host.hypervisor_hostname for host in spec.retry.hosts]
        fields = {"num_attempts": spec.retry.num_attempts, "hosts": nodes}
        data["retry"] = _wrap("SchedulerRetriesPayload", "1.0", fields)
    return _wrap("RequestSpecPayload", "1.1", data)


def _wrap(name: str, version: str, data: Json) -> Json:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }


class Notifier:
    """Sender of notifications of the start and result of requests.

    Each process has its own sender, so that forks share no connections.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._senders: dict[int, Sender] = {}

    @contextmanager
    def notify_of_request(self, spec: RequestSpec) -> Iterator[None]:
        """Notify of the start of a request, and at the end of its result or error."""
        self._notify(Event(START, spec))
        try:
            yield
        except Exception as failure:
            self._notify(Event(ERROR, spec, Reason.from_exception(failure)))
            raise
        self._notify(Event(END, spec))

    def close(self) -> None:
        """Send the queued notifications, if the bus accepts them soon."""
        sender = self._senders.pop(os.getpid(), None)
        if sender is not None:
            sender.close()

    def _notify(self, event: Event) -> None:
        settings = self._settings
        if settings is None:
            return
        try:
            # No lock: a child that is forked while another thread holds it would wait forever.
            pid = os.getpid()
            sender = self._senders.get(pid)
            if sender is None:
                sender = self._senders.setdefault(pid, Sender(lambda: Bus(settings)))
            sender.put(event)
        except Exception:
            LOG.exception("a notification was not sent")


#: The notifier that sends nothing.
SILENT = Notifier()


def create_notifier(settings: Settings) -> Notifier:
    """Create the notifier, or raise :class:`ConfigurationError`."""
    if not set(settings.oslo_messaging_notifications.driver) - _NO_DRIVER:
        return SILENT
    Bus(settings).close()
    return Notifier(settings)


class _Context(NamedTuple):
    """User and project of a request, as the context of a message in nova."""

    user_id: str | None
    project_id: str | None

    def redacted_copy(self) -> dict[str, Any]:
        """Return the fields to send, for oslo.messaging."""
        return {**self._asdict(), "user": self.user_id, "project": self.project_id}


class Bus:
    """Connection to the message bus, for use by a single thread."""

    def __init__(self, settings: Settings) -> None:
        options, host = settings.oslo_messaging_notifications, settings.DEFAULT.host
        drivers = [name for name in options.driver if name]
        available = sorted(entry_points(group=_DRIVERS).names)
        for name in drivers:
            if name not in available:
                text = f"unknown driver {name!r}. There are: {', '.join(available)}"
                raise ConfigurationError(f"[{MESSAGING_GROUP}] driver: {text}")
        library = import_oslo_messaging()
        set_exchange()
        # A separate oslo.config object with the same files: the library registers many options,
        # some of them under names of this service's options.
        conf = read_files(Conf(), settings.conf.config_file)
        try:
            with silence_library_logs():
                transport = library.get_notification_transport(conf, options.transport_url)
        except library.MessagingException as error:
            text = " ".join(str(error).split())
            raise ConfigurationError(f"[{MESSAGING_GROUP}] transport_url: {text}") from None
        conf.set_override("driver", drivers, MESSAGING_GROUP)
        conf.set_override("retry", options.retry, MESSAGING_GROUP)
        self._transport: Any = transport
        self._settings = settings.notifications
        senders = {
            UNVERSIONED: (f"scheduler.{host}", options.topics),
            VERSIONED: (f"nova-scheduler:{host}", self._settings.versioned_notifications_topics),
        }
        self._notifiers = {
            form: library.Notifier(transport, publisher_id=publisher, topics=topics)
            for form, (publisher, topics) in senders.items()
        }

    def send(self, event: Event) -> None:
        """Send the enabled messages of an event."""
        form, selecting = self._settings.notification_format, "select_destinations"
        if self._settings.notify_on_run_instance and event.phase in {START, END}:
            self._send(UNVERSIONED, event, "run_instance", build_run_instance_payload(event))
        if form != VERSIONED:
            self._send(UNVERSIONED, event, selecting, build_unversioned_payload(event))
        if form != UNVERSIONED:
            self._send(VERSIONED, event, selecting, build_versioned_payload(event))

    def _send(self, form: str, event: Event, request: str, payload: Json) -> None:
        context = _Context(event.spec.user_id, event.spec.project_id)
        notify = getattr(self._notifiers[form], "error" if event.phase == ERROR else "info")
        notify(context, f"scheduler.{request}.{event.phase}", payload)

    def close(self) -> None:
        """Close the connections."""
        self._transport.cleanup()


class Sender:
    """A queue of events, and a thread that sends them in order."""

    def __init__(self, open_bus: Callable[[], Bus], *, waiting: int = WAITING) -> None:
        self._open_bus = open_bus
        self._queue: Queue[Event | threading.Event | None] = Queue(waiting)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._lost = 0
        self._at_exit: Finalize | None = None

    def put(self, event: Event) -> None:
        """Queue an event, or drop it with a warning if the queue is full."""
        self._start()
        try:
            self._queue.put_nowait(event)
        except Full:
            with self._lock:
                self._lost += 1
                is_first = self._lost == 1
            if is_first:
                LOG.warning(
                    "the message bus accepts no notifications: %d queued, others dropped",
                    self._queue.qsize(),
                )
            return
        if self._lost:
            with self._lock:
                lost, self._lost = self._lost, 0
            LOG.warning("the message bus accepts notifications again: %d were dropped", lost)

    def flush(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds, and return whether the queue was sent."""
        if self._thread is None or self._pid != os.getpid():
            return True
        done = threading.Event()
        try:
            self._queue.put(done, timeout=timeout)
        except Full:
            return False
        return done.wait(timeout)

    def close(self) -> None:
        """Send queued events, if the bus accepts them soon, and stop the thread."""
        if self._at_exit is not None:
            self._at_exit.cancel()
        if self._thread is None or self._pid != os.getpid():
            return
        if self.flush(GRACE):
            self._queue.put(None)
            self._thread.join(GRACE)
        else:
            LOG.warning(
                "the message bus accepts no notifications: %d were not sent", self._queue.qsize()
            )

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._send_queued, name="notifications", daemon=True
                )
                self._thread.start()
                # Unlike atexit, this works in workers of multiprocessing, and does nothing in
                # forked children.
                self._at_exit = Finalize(None, self.close, exitpriority=0)

    def _send_queued(self) -> None:
        bus: Bus | None = None
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            try:
                bus = bus or self._open_bus()
                bus.send(item)
            except Exception:
                # No failure may affect the request, which is already answered.
                LOG.exception("a notification was not sent")
        if bus is not None:
            bus.close()

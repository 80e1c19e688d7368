# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's driver ``test``, which keeps notifications in memory."""

from typing import Any, NamedTuple

from placement_sched.config.options.services import import_oslo_messaging

import_oslo_messaging()

from oslo_messaging.notify import _impl_test  # noqa: E402 - loaded by the line above

#: Options of notifications that stay in this process.
MEMORY_DRIVER_OPTIONS: dict[str, Any] = {
    "oslo_messaging_notifications__driver": ["test"],
    "oslo_messaging_notifications__transport_url": "fake:/",
    "DEFAULT__host": "ctl1",
}


class SentNotification(NamedTuple):
    """A notification as the driver receives it."""

    publisher: str
    event_type: str
    priority: str
    payload: dict[str, Any]
    context: dict[str, Any]

    @property
    def is_versioned(self) -> bool:
        return "nova_object.name" in self.payload


def read_notifications() -> list[SentNotification]:
    """Return all notifications since :func:`clear_notifications`."""
    return [
        SentNotification(
            message["publisher_id"],
            message["event_type"],
            priority.lower(),
            message["payload"],
            context,
        )
        for context, message, priority, _retry in _impl_test.NOTIFICATIONS
    ]


def clear_notifications() -> None:
    _impl_test.reset()

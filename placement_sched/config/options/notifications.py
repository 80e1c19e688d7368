# SPDX-License-Identifier: Apache-2.0
"""Options of [notifications] and [oslo_messaging_notifications].

The latter group belongs to oslo.messaging, which takes a quarter of a second to load and has many
dependencies. oslo.messaging is loaded only if notifications are sent. Therefore this module has
copies of its options.
"""

from importlib import import_module
from typing import Any
from warnings import catch_warnings

from oslo_config import cfg

from placement_sched.config.opts import deprecated_in_default, with_help

UNVERSIONED, VERSIONED, BOTH = "unversioned", "versioned", "both"

GROUP = "oslo_messaging_notifications"

#: The exchange of nova's consumers, unless [DEFAULT] control_exchange sets another.
_EXCHANGE = "nova"

NOTIFICATIONS = with_help(
    cfg.StrOpt(
        "notification_format",
        default=UNVERSIONED,
        **deprecated_in_default("notification_format"),
        choices=[
            (UNVERSIONED, "plain dictionaries, to [oslo_messaging_notifications] topics"),
            (VERSIONED, "nova's versioned objects, to versioned_notifications_topics"),
            (BOTH, "both formats"),
        ],
    ),
    "Format of notifications, which are sent if [oslo_messaging_notifications] driver is set.",
    cfg.ListOpt("versioned_notifications_topics", default=["versioned_notifications"]),
    "Topics of versioned notifications; consumers read the queues <topic>.info and <topic>.error.",
    cfg.BoolOpt("notify_on_run_instance", default=False),
    "Whether to send scheduler.run_instance.start and .end, too, for consumers that were "
    "written for the schedulers of Icehouse and earlier. They are never versioned.",
)

_MESSAGING_OPTIONS = with_help(
    cfg.MultiStrOpt("driver", default=[]),
    "Drivers that send notifications: messagingv2, messaging, routing, log, test or noop. Unset, "
    "no notifications are sent.",
    cfg.StrOpt("transport_url", secret=True),
    "URL of the message bus for notifications; unset, [DEFAULT] transport_url.",
    cfg.ListOpt("topics", default=["notifications"]),
    "Topics of unversioned notifications.",
    cfg.IntOpt("retry", default=-1),
    "Maximum number of retries to send a notification; -1: no limit.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register oslo.messaging's notification options in ``conf``."""
    conf.register_opts(_MESSAGING_OPTIONS, group=GROUP)


def oslo_messaging() -> Any:
    """Import oslo.messaging at first use, and return it."""
    with catch_warnings(action="ignore"):  # eventlet warns about its use
        return import_module("oslo_messaging")


def set_exchange() -> None:
    """Set nova's exchange as the default of oslo.messaging."""
    oslo_messaging().set_transport_defaults(_EXCHANGE)

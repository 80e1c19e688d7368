"""[notifications] and [oslo_messaging_notifications]: which notifications are sent, and where.

The latter are options of oslo.messaging. That library takes a quarter of a second to load and
brings along much that this service does not use, so it is loaded only where notifications are sent.
Until then these options, the same as its own, are all that is known of it.
"""

from importlib import import_module
from typing import Any

from oslo_config import cfg

from placement_sched.config.logs import without_warnings
from placement_sched.config.opts import described, older

UNVERSIONED, VERSIONED, BOTH = "unversioned", "versioned", "both"

GROUP = "oslo_messaging_notifications"

#: Where nova's consumers listen, unless [DEFAULT] control_exchange says otherwise.
_EXCHANGE = "nova"

NOTIFICATIONS = described(
    cfg.StrOpt(
        "notification_format",
        default=UNVERSIONED,
        **older("notification_format"),
        choices=[
            (UNVERSIONED, "plain dictionaries, to [oslo_messaging_notifications] topics"),
            (VERSIONED, "nova's versioned objects, to versioned_notifications_topics"),
            (BOTH, "each in both forms"),
        ],
    ),
    "In which form notifications are sent, where [oslo_messaging_notifications] driver says how.",
    cfg.ListOpt("versioned_notifications_topics", default=["versioned_notifications"]),
    "The topics of versioned notifications; consumers find the queues <topic>.info and "
    "<topic>.error.",
    cfg.BoolOpt("notify_on_run_instance", default=False),
    "Whether scheduler.run_instance.start and .end are sent as well, for consumers that were "
    "written for the schedulers of Icehouse and before. They are never versioned.",
)

_MESSAGING_OPTIONS = described(
    cfg.MultiStrOpt("driver", default=[]),
    "How notifications are sent: messagingv2, messaging, routing, log, test or noop. Unset, none "
    "are.",
    cfg.StrOpt("transport_url", secret=True),
    "The message bus of notifications; unset, [DEFAULT] transport_url.",
    cfg.ListOpt("topics", default=["notifications"]),
    "The topics of unversioned notifications.",
    cfg.IntOpt("retry", default=-1),
    "How often to try again to send a notification; -1 is for ever.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know these options."""
    conf.register_opts(_MESSAGING_OPTIONS, group=GROUP)


def oslo_messaging() -> Any:
    """Return the library, loaded now unless it was before."""
    with without_warnings():
        return import_module("oslo_messaging")


def set_exchange() -> None:
    """Let oslo.messaging have nova's exchange as its default."""
    oslo_messaging().set_transport_defaults(_EXCHANGE)

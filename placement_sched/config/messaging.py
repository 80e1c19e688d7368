"""[oslo_messaging_notifications]: where notifications go. Options of oslo.messaging.

That library takes a quarter of a second to load and brings along much that this service does not
use, so it is loaded only where somebody is to be told. Until then these options, the same as its
own, are all that is known of it.
"""

from importlib import import_module
from typing import Any

from oslo_config import cfg

from placement_sched.config.eventlet_warning import eventlet_unheard

GROUP = "oslo_messaging_notifications"

#: Where nova's consumers listen, unless [DEFAULT] control_exchange says otherwise.
_EXCHANGE = "nova"

_OPTIONS = (
    cfg.MultiStrOpt(
        "driver",
        default=[],
        help="How notifications are sent: messagingv2, messaging, routing, log, test or noop. "
        "Unset, none are.",
    ),
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="The message bus of notifications; unset, [DEFAULT] transport_url.",
    ),
    cfg.ListOpt(
        "topics", default=["notifications"], help="The topics of unversioned notifications."
    ),
    cfg.IntOpt(
        "retry",
        default=-1,
        help="How often to try again to send a notification; -1 is for ever.",
    ),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know these options."""
    conf.register_opts(_OPTIONS, group=GROUP)


def oslo_messaging() -> Any:
    """Return the library, loaded now unless it was before."""
    with eventlet_unheard():
        return import_module("oslo_messaging")


def set_library_defaults() -> None:
    """Let oslo.messaging have nova's exchange as its default (``oslo.config.opts.defaults``)."""
    oslo_messaging().set_transport_defaults(_EXCHANGE)

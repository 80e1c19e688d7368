"""[notifications]: in which form others are told what is scheduled, and of what."""

from oslo_config import cfg

GROUP = "notifications"

UNVERSIONED, VERSIONED, BOTH = "unversioned", "versioned", "both"

OPTIONS = (
    cfg.StrOpt(
        "notification_format",
        default=UNVERSIONED,
        deprecated_name="notification_format",
        deprecated_group="DEFAULT",
        choices=[
            (UNVERSIONED, "plain dictionaries, to [oslo_messaging_notifications] topics"),
            (VERSIONED, "nova's versioned objects, to versioned_notifications_topics"),
            (BOTH, "each in both forms"),
        ],
        help="In which form notifications are sent, where [oslo_messaging_notifications] driver "
        "says how.",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["versioned_notifications"],
        help="The topics of versioned notifications; consumers find the queues <topic>.info and "
        "<topic>.error.",
    ),
    cfg.BoolOpt(
        "notify_on_run_instance",
        default=False,
        help="Whether scheduler.run_instance.start and .end are sent as well, for consumers that "
        "were written for the schedulers of Icehouse and before. They are never versioned.",
    ),
)

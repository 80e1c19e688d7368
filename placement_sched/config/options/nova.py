"""[api_database], [database] and nova's part of [DEFAULT] and [scheduler]: where nova keeps things.

They have the names and meanings of nova.conf, which is handed to the commands as it is.
"""

from oslo_config import cfg

from placement_sched.config.opts import LARGEST, described

API_DATABASE = described(
    cfg.StrOpt("connection", secret=True),
    "nova's API database, as an SQLAlchemy URL. Where it is set, the cloud is nova's: cells, "
    "compute nodes, services, host aggregates, instances and server groups are read from nova's "
    "databases, and cannot be changed here.",
)

DATABASE = described(
    cfg.StrOpt("connection", secret=True),
    "The database, one of those of nova's cells, in which nova-scheduler keeps its own service "
    "record, as an SQLAlchemy URL. URLs of cells that are templates are completed from it.",
)

#: Beside what ``compute`` has of [DEFAULT].
DEFAULT = described(
    cfg.IntOpt("report_interval", default=10, min=1, max=LARGEST),
    "Seconds between two heartbeats of the service record of placement-sched nova-scheduler.",
    cfg.IntOpt("graceful_shutdown_timeout", default=180, min=0, max=LARGEST),
    "Seconds that running requests of placement-sched nova-scheduler get to finish after SIGTERM; "
    "0 is without limit.",
)

#: Beside what ``scheduler`` has of [scheduler].
SCHEDULER = described(
    cfg.IntOpt("workers", min=1),
    "How many processes of placement-sched nova-scheduler answer requests; unset, one for each "
    "processor.",
    cfg.StrOpt("metrics_listen"),
    "Where placement-sched nova-scheduler serves /metrics for Prometheus, /healthz and "
    "/healthz/ready: ADDRESS:PORT, such as 127.0.0.1:9778, or the path of a unix socket. It asks "
    "for no token. Unset, nothing is served.",
    cfg.IntOpt("nova_sync_interval", default=5, min=1, max=LARGEST),
    "Seconds between two readings of what changed in nova's databases. What a request depends on "
    "is read before it as well.",
    cfg.IntOpt("nova_full_sync_interval", default=600, min=10, max=LARGEST),
    "Seconds between two full comparisons with nova's databases.",
)

# SPDX-License-Identifier: Apache-2.0
"""Options of nova.conf about nova's databases and services.

Names and meanings are as in nova.conf, which the commands read unchanged.
"""

from oslo_config import cfg

from placement_sched.config.opts import MAX_INT, with_help

API_DATABASE = with_help(
    cfg.StrOpt("connection", secret=True),
    "SQLAlchemy URL of nova's API database. If it is set, the cloud is managed by nova: cells, "
    "compute nodes, services, host aggregates, instances and server groups are read from nova's "
    "databases, and cannot be changed here.",
)

DATABASE = with_help(
    cfg.StrOpt("connection", secret=True),
    "SQLAlchemy URL of the cell database with nova-scheduler's own service record. It also "
    "completes the URLs of cells that are templates.",
)

#: Options of [DEFAULT] in addition to ``compute.DEFAULT``.
DEFAULT = with_help(
    cfg.IntOpt("report_interval", default=10, min=1, max=MAX_INT),
    "Seconds between two heartbeats of the service record of placement-sched nova-scheduler.",
    cfg.IntOpt("graceful_shutdown_timeout", default=180, min=0, max=MAX_INT),
    "Maximum seconds for running requests of placement-sched nova-scheduler to finish after "
    "SIGTERM; 0: no limit.",
)

#: Options of [scheduler] in addition to ``scheduler.SCHEDULER``.
SCHEDULER = with_help(
    cfg.IntOpt("workers", min=1),
    "Number of worker processes of placement-sched nova-scheduler; unset, the number of "
    "processors.",
    cfg.StrOpt("metrics_listen"),
    "Address of placement-sched nova-scheduler's /metrics for Prometheus, /healthz and "
    "/healthz/ready: ADDRESS:PORT, such as 127.0.0.1:9778, or the path of a unix socket. No token "
    "is required. Unset, they are not served.",
    cfg.IntOpt("nova_sync_interval", default=5, min=1, max=MAX_INT),
    "Seconds between two reads of the changes in nova's databases. The data that a request depends "
    "on is also read before each request.",
    cfg.IntOpt("nova_full_sync_interval", default=600, min=10, max=MAX_INT),
    "Seconds between two full comparisons with nova's databases.",
)

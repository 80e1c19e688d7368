# SPDX-License-Identifier: Apache-2.0
"""Options of [scheduler] for capacity and failover capacity."""

from oslo_config import cfg

from placement_sched.config.settings import MAX_INT, with_help
from placement_sched.limits import MAX_HOST_FAILURES

_SCHEDULER = with_help(
    cfg.FloatOpt("capacity_budget", default=5.0, min=0, max=MAX_INT, mutable=True),
    "Maximum seconds of a capacity request to count instances of its flavors, if a division is not "
    "enough. After that the result is a lower bound. 0: no limit. Each flavor of /metrics has the "
    "same limit.",
    cfg.IntOpt("failover_interval", default=0, min=0, max=MAX_INT, mutable=True),
    "Seconds between two background computations of the failover capacity, in a process of any "
    "server. FailoverCapacityFilter, /metrics and the console show the last result. 0: none.",
    cfg.IntOpt("failover_host_failures", default=1, min=1, max=MAX_HOST_FAILURES, mutable=True),
    "Number of hosts, or of domains, that fail together in this computation.",
    cfg.StrOpt("failover_within", default="", mutable=True),
    "Failure domain of this computation: zone, aggregate, or a key in the metadata of aggregates, "
    "such as rack. Empty: single hosts.",
    cfg.FloatOpt("failover_budget", default=100.0, min=0, max=MAX_INT, mutable=True),
    "Maximum seconds of a failover computation, also over HTTP. The remaining hosts are then "
    "undetermined. 0: no limit.",
    cfg.ListOpt("capacity_flavors", default=[], mutable=True),
    "Flavors, by name or id, whose remaining capacity /metrics shows, in total and for each "
    "zone (at most 50). It is counted in the background, at most once a minute.",
)
OPTIONS = {"scheduler": _SCHEDULER}
#: Mutable options that cannot differ between requests.
SERVER_OPTIONS = frozenset(
    ("scheduler", name)
    for name in (
        "capacity_flavors",
        "failover_interval",
        "failover_host_failures",
        "failover_within",
        "failover_budget",
    )
)

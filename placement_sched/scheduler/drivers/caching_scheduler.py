# SPDX-License-Identifier: Apache-2.0
"""CachingScheduler: the filter scheduler with cached host states."""

from oslo_config import cfg

from placement_sched.config.settings import MAX_INT
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """Filter scheduler with cached host reports.

    Host reports are read again after ``[scheduler] periodic_task_interval`` seconds. Until then,
    each process uses the cached reports, less the amounts of its own placements. Candidates,
    service states and claims are never cached, so a claim cannot fail because of the cache.
    Explanations show the age under ``host_states``. nova removed this driver in Stein (19).
    """

    name = "caching_scheduler"
    caches_states = True

    options = (
        (
            "scheduler",
            cfg.IntOpt(
                "periodic_task_interval",
                default=60,
                min=-1,
                max=MAX_INT,
                deprecated_opts=[
                    cfg.DeprecatedOpt("driver_task_period", group="scheduler"),
                    cfg.DeprecatedOpt("scheduler_driver_task_period", group="DEFAULT"),
                ],
                help="Seconds for which CachingScheduler reuses host reports. 0 reads them for "
                "each request, -1 only once.",
            ),
        ),
    )

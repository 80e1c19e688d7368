"""CachingScheduler: the filter scheduler on host states that are kept for a while."""

from oslo_config import cfg

from placement_sched.config.opts import LARGEST
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """Is the filter scheduler, but looks at the reports of hosts now and then only.

    What hosts reported is read again when ``[scheduler] periodic_task_interval`` seconds have gone
    by; until then each process goes by what it read, less what it placed itself. Which candidates
    there are, whether hosts are up and what is claimed is never kept, so that a claim cannot go
    wrong by it. An explanation shows the age under ``host_states``. Was removed in nova 19 (Stein).
    """

    name = "caching_scheduler"
    keeps_states = True

    options = (
        (
            "scheduler",
            cfg.IntOpt(
                "periodic_task_interval",
                default=60,
                min=-1,
                max=LARGEST,
                deprecated_opts=[
                    cfg.DeprecatedOpt("driver_task_period", group="scheduler"),
                    cfg.DeprecatedOpt("scheduler_driver_task_period", group="DEFAULT"),
                ],
                help="Seconds for which CachingScheduler reuses host reports; 0 reads them for "
                "each request, -1 only once.",
            ),
        ),
    )

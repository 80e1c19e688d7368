"""Every option of the core by group, for registration, the sample and the documentation.

Options of filters, weighers and request filters stand beside those plugins and are added by
``placement_sched.scheduler.loading``.
"""

from oslo_config import cfg

from placement_sched.config import (
    api,
    default,
    filter_scheduler,
    placement,
    placement_database,
    scheduler,
)

GROUPS = (default, api, placement_database, placement, scheduler, filter_scheduler)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` pairs, as ``oslo.config.opts`` entry points give them."""
    return [(module.GROUP, list(module.OPTIONS)) for module in GROUPS]

# SPDX-License-Identifier: Apache-2.0
"""Options of the core and of extensions, by group.

The modules of filters, weighers and request filters define their own options, which
``placement_sched.scheduler.plugins`` adds. An option is ``mutable`` if a change takes effect
without a restart.
"""

from oslo_config import cfg

from placement_sched.config.options import api, compute, placement, scheduler, services
from placement_sched.model.extension import load_hooks

GROUPS: dict[str, tuple[cfg.Opt, ...]] = {
    "DEFAULT": compute.DEFAULT,
    "api": api.API,
    "api_database": compute.API_DATABASE,
    "database": compute.DATABASE,
    "placement_database": placement.PLACEMENT_DATABASE,
    "placement": placement.PLACEMENT,
    "scheduler": scheduler.SCHEDULER,
    "filter_scheduler": scheduler.FILTER_SCHEDULER,
    "metrics": scheduler.METRICS,
    "neutron": services.NEUTRON,
    "notifications": services.NOTIFICATIONS,
    "pci": compute.PCI,
    "trusted_computing": services.TRUSTED_COMPUTING,
    "workarounds": compute.WORKAROUNDS,
}
for _options in load_hooks("options"):
    for _group, _members in _options.items():
        GROUPS[_group] = (*GROUPS.get(_group, ()), *_members)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group, options)`` pairs, as ``oslo.config.opts`` requires."""
    return [(group, list(options)) for group, options in GROUPS.items()]


def set_library_defaults() -> None:
    """Set defaults of library options (``oslo.config.opts.defaults``)."""
    api.set_cors_defaults()
    services.set_exchange()

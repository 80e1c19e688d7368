"""The options of the core by group, for registration, the sample and the documentation.

Options of filters, weighers and request filters stand beside those plugins and are added by
``placement_sched.scheduler.plugins``. An option is ``mutable`` where a change takes effect
without a restart.
"""

from collections.abc import Mapping
from types import MappingProxyType

from oslo_config import cfg

from placement_sched.config.options import (
    api,
    compute,
    filter_scheduler,
    notifications,
    nova,
    placement,
    scheduler,
    services,
)

GROUPS: Mapping[str, tuple[cfg.Opt, ...]] = MappingProxyType(
    {
        "DEFAULT": (*compute.DEFAULT, *nova.DEFAULT),
        "api": api.API,
        "api_database": nova.API_DATABASE,
        "console": api.CONSOLE,
        "database": nova.DATABASE,
        "placement_database": placement.PLACEMENT_DATABASE,
        "placement": placement.PLACEMENT,
        "scheduler": (*scheduler.SCHEDULER, *nova.SCHEDULER),
        "filter_scheduler": filter_scheduler.FILTER_SCHEDULER,
        "metrics": filter_scheduler.METRICS,
        "neutron": services.NEUTRON,
        "notifications": notifications.NOTIFICATIONS,
        "pci": compute.PCI,
        "trusted_computing": services.TRUSTED_COMPUTING,
        "workarounds": compute.WORKAROUNDS,
    }
)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` pairs, as ``oslo.config.opts`` entry points give them."""
    return [(group, list(options)) for group, options in GROUPS.items()]


def set_library_defaults() -> None:
    """Give libraries' options this service's defaults (``oslo.config.opts.defaults``)."""
    api.set_cors_defaults()
    notifications.set_exchange()


def mutable_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options of the core that may change while the server runs."""
    return frozenset(
        (group, option.dest)
        for group, options in GROUPS.items()
        for option in options
        if option.mutable
    )

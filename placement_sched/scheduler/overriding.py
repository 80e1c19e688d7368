"""What a request, or a file beside the configuration, may set for the work on requests."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from placement_sched.config.catalogue import PER_REQUEST
from placement_sched.config.process import new_conf
from placement_sched.config.settings import Settings, registered_options
from placement_sched.errors import Invalid
from placement_sched.scheduler.loading import NOVA, NOVA_DRIVERS, all_announced
from placement_sched.scheduler.plugin import path_of

_OURS = (
    "placement_sched.scheduler.filters.",
    "placement_sched.scheduler.weights.",
    "placement_sched.scheduler.request_filters.",
    "placement_sched.scheduler.drivers.",
    "placement_sched.scheduler.policies.selectors.",
)
#: The options that name classes, which are imported.
_NAMING = (
    ("filter_scheduler", "available_filters"),
    ("filter_scheduler", "enabled_filters"),
    ("filter_scheduler", "weight_classes"),
    ("scheduler", "request_filters"),
    ("scheduler", "driver"),
    ("scheduler", "policy_selection"),
)


def overridden(
    running: Settings, overrides: Mapping[str, Any], source: str = "overrides"
) -> Settings:
    """Return the settings of a request with overrides, ``{"group.option": value}``.

    ``source`` is where they stand, for what is told of them.
    Raises :class:`Invalid` naming the key of an option that is not there, is not read per request
    or has a value that cannot be, and of one that names code which the operator did not.
    """
    for key in overrides:
        if running.meant_by(key, source) in standing_options():
            raise Invalid(f"{source}: {key!r} is not read per request, but when the server starts")
    settings = running.overridden(overrides, source)
    _check_code(running, settings, source)
    return settings


@lru_cache
def standing_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options that the process itself reads, once and for all.

    Options of plugins, shipped or not, are none of them: those are read per request.
    """
    known = registered_options(new_conf())
    # oslo.config learns of these two only when files are read.
    read = {("DEFAULT", "config_file"), ("DEFAULT", "config_dir")}
    every = {(group, name) for group in known for name in known[group]}
    return frozenset(every | read) - PER_REQUEST


def _check_code(running: Settings, overridden: Settings, source: str) -> None:
    """Raise :class:`Invalid` where a request's overrides name code that the operator did not.

    A dotted path is imported, which only the configuration may ask for.
    """
    trusted = {path_of(kind) for kind in all_announced()}
    for group, option in _NAMING:
        before, after = (
            _paths(getattr(getattr(one, group), option)) for one in (running, overridden)
        )
        known = (NOVA_DRIVERS,) if option == "driver" else NOVA
        for path in after - before - trusted:
            if "." in path and not path.startswith((*known, *_OURS)):
                raise Invalid(
                    f"{source}: {group}.{option}: {path!r} is not of the shipped classes, nor "
                    "named in the configuration"
                )


def _paths(value: str | Sequence[str]) -> set[str]:
    return {value} if isinstance(value, str) else set(value)

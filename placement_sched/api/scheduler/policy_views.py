# SPDX-License-Identifier: Apache-2.0
"""Views of scheduling policies: options, their origins, and aggregates."""

import math
from collections.abc import Iterator, Mapping, Sequence

from placement_sched.config.conf import list_server_options
from placement_sched.config.options.compute import RATIOS
from placement_sched.config.settings import Settings
from placement_sched.config.sources import ENVIRONMENT
from placement_sched.errors import ConfigurationError, NotFound
from placement_sched.model.aggregates import DEFAULT_POLICY, HostAggregate
from placement_sched.model.document import Json
from placement_sched.model.names import suggest_name
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.policies.registry import Policies, SchedulingPolicy, get_policies
from placement_sched.scheduler.scheduler import Scheduler

#: Replaces secret values.
_MASK = "***"


def list_policies(scheduler: Scheduler) -> list[Json]:
    """List the default policy, then others of configuration and aggregates."""
    policies, tagged = _read_policies(scheduler)
    listed = policies.names if policies.named else ()
    unlisted = sorted({each.policy or "" for each in tagged}.difference(listed, [DEFAULT_POLICY]))
    names = dict.fromkeys([DEFAULT_POLICY, *listed, *unlisted])
    return [_build_view(name, policies, tagged) for name in names]


def show_policy(scheduler: Scheduler, name: str) -> Json:
    """Return a scheduling policy, or raise :class:`NotFound`."""
    policies, tagged = _read_policies(scheduler)
    name = name.lower()
    existing = {DEFAULT_POLICY, *policies.names, *(each.policy for each in tagged if each.policy)}
    if name not in existing:
        raise NotFound(f"there is no policy {name!r}{suggest_name('policy', name, existing)}")
    return _build_view(name, policies, tagged)


def list_selectors(scheduler: Scheduler) -> list[str]:
    """Return the names of the policy selectors, in order."""
    settings = scheduler.live.get_settings()
    selectors = get_plugins(settings, scheduler.clock).selectors
    return [selector.name or type(selector).__name__ for selector in selectors]


def _read_policies(scheduler: Scheduler) -> tuple[Policies, Sequence[HostAggregate]]:
    with scheduler.database.read() as connection:
        tagged = scheduler.caches.aggregates.get_current(connection).policy_aggregates
    return get_policies(scheduler.live.get_settings(), scheduler.clock), tagged


def _build_view(name: str, policies: Policies, aggregates: Sequence[HostAggregate]) -> Json:
    error, options = None, {}
    plugins: Json = {"request_filters": [], "filters": [], "weighers": []}
    try:
        policy = policies.get(name)
        options = dict(_list_options(policy, policies.default))
        classes = get_plugins(policy.settings, policies.clock)
        plugins = {
            "request_filters": [
                plugin.name or type(plugin).__name__
                for plugin in classes.request_filters
                if plugin.enabled(policy.settings)
            ],
            "filters": [type(plugin).__name__ for plugin in classes.filters],
            "weighers": [
                {"name": type(plugin).__name__, "multiplier": plugin.configured_multiplier}
                for plugin in classes.weighers
            ],
        }
    except ConfigurationError as invalid:
        error = invalid.detail
    return {
        "name": name,
        "usable": error is None,
        "error": error,
        "aggregates": [
            {"id": aggregate.id, "uuid": aggregate.uuid, "name": aggregate.name}
            for aggregate in aggregates
            if aggregate.policy == name
        ],
        "options": options,
        **plugins,
    }


def _list_options(
    policy: SchedulingPolicy, default: SchedulingPolicy
) -> Iterator[tuple[str, Json]]:
    fixed = list_server_options() - RATIOS
    for group, members in sorted(policy.settings.registered.items()):
        for name, option in sorted(members.items()):
            if (group, name) in fixed:
                continue
            source, place = _find_origin(policy.settings, default.settings, group, name)
            value = policy.settings[group, name]
            is_hidden = option.secret and value is not None  # unset values are not secret
            display_value = _MASK if is_hidden else _as_json_value(value)
            yield f"{group}.{name}", {"value": display_value, "source": source, "place": place}


def _find_origin(
    settings: Settings, default: Settings, group: str, name: str
) -> tuple[str, str | None]:
    override = settings.find_override_source(group, name)
    if override is not None and override != default.find_override_source(group, name):
        return "policy", override
    file = default.scheduler.json_config_location
    if override is not None and file:  # only policies and this file override the configuration
        return "options_file", file
    assignment = default.find_assignment(group, name)
    if assignment is None:
        return "default", None
    place = str(assignment.place)
    if place.startswith(ENVIRONMENT):
        return "environment", place.removeprefix(ENVIRONMENT)
    return "configuration", place


def _as_json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _as_json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json_value(part) for part in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)

"""The policies as operators are shown them: options in effect, where each is from, and for whom."""

import math
from collections.abc import Iterator, Mapping, Sequence

from placement_sched.config.conf import server_options
from placement_sched.config.options.compute import RATIOS
from placement_sched.config.sources import DEFAULT, OVERRIDE, Origin
from placement_sched.errors import ConfigurationError, NotFound
from placement_sched.model.aggregates import DEFAULT_POLICY, HostAggregate
from placement_sched.model.document import Json
from placement_sched.model.names import suggested
from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.policies.registry import Policies, SchedulingPolicy, policies_for
from placement_sched.scheduler.scheduler import Scheduler

POLICY = "policy"
OPTIONS_FILE = "options_file"

#: What is shown in place of a secret value.
_MASK = "***"


def all_shown(scheduler: Scheduler) -> list[Json]:
    """Return every policy, the default one first: those listed, and those that aggregates name."""
    policies, tagged = _of_now(scheduler)
    listed = policies.names if policies.named else ()
    others = sorted({each.policy or "" for each in tagged}.difference(listed, [DEFAULT_POLICY]))
    names = dict.fromkeys([DEFAULT_POLICY, *listed, *others])
    return [_shown(name, policies, tagged) for name in names]


def one_shown(scheduler: Scheduler, name: str) -> Json:
    """Return the policy of this name, which may be a section that no aggregate names yet.

    Raises :class:`NotFound` where neither the configuration nor an aggregate knows it.
    """
    policies, tagged = _of_now(scheduler)
    name = name.lower()
    known = {DEFAULT_POLICY, *policies.names, *(each.policy for each in tagged if each.policy)}
    if name not in known:
        raise NotFound(f"there is no policy {name!r}{suggested('policy', name, known)}")
    return _shown(name, policies, tagged)


def selectors_shown(scheduler: Scheduler) -> list[str]:
    """Return by what a request's policy is chosen, in this order."""
    settings = scheduler.live.settings()
    selectors = plugins_for(settings, scheduler.clock).selectors
    return [one.name or type(one).__name__ for one in selectors]


def _of_now(scheduler: Scheduler) -> tuple[Policies, Sequence[HostAggregate]]:
    """Return the policies of this moment, and the aggregates that name one."""
    with scheduler.database.read() as connection:
        tagged = scheduler.memory.aggregates.current(connection).of_policies
    return policies_for(scheduler.live.settings(), scheduler.clock), tagged


def _shown(name: str, policies: Policies, aggregates: Sequence[HostAggregate]) -> Json:
    wrong, options = None, {}
    plugins: Json = {"request_filters": [], "filters": [], "weighers": []}
    try:
        policy = policies.get(name)
        options = dict(_options(policy, policies.default))
        plugins = _plugins(policy, policies)
    except ConfigurationError as failure:
        wrong = failure.detail
    return {
        "name": name,
        "usable": wrong is None,
        "error": wrong,
        "aggregates": [
            {"id": each.id, "uuid": each.uuid, "name": each.name}
            for each in aggregates
            if each.policy == name
        ],
        "options": options,
        **plugins,
    }


def _plugins(policy: SchedulingPolicy, policies: Policies) -> Json:
    """Return what runs for requests under a policy, in order, named as explanations name it."""
    plugins = plugins_for(policy.settings, policies.clock)
    return {
        "request_filters": [
            one.name or type(one).__name__
            for one in plugins.request_filters
            if one.enabled(policy.settings)
        ],
        "filters": [type(one).__name__ for one in plugins.filters],
        "weighers": [
            {"name": type(one).__name__, "multiplier": one.configured_multiplier}
            for one in plugins.weighers
        ],
    }


def _options(policy: SchedulingPolicy, default: SchedulingPolicy) -> Iterator[tuple[str, Json]]:
    """Yield every option that may vary from request to request, with its value and its origin."""
    overridden = {override.key: str(override.place) for override in policy.overrides}
    standing = server_options() - RATIOS
    for group, members in sorted(policy.settings.conf.registered.items()):
        for name, option in sorted(members.items()):
            key = f"{group}.{name}"
            if (group, name) in standing or not policy.settings.has(group, name):
                continue
            place = overridden.get(key)
            origin = _origin(default, group, name) if place is None else Origin(POLICY, place)
            value = getattr(getattr(policy.settings, group), name)
            hidden = option.secret and value is not None  # an unset one may be seen
            shown = _MASK if hidden else _plain(value)
            yield key, {"value": shown, "source": origin.source, "place": origin.place}


def _origin(default: SchedulingPolicy, group: str, name: str) -> Origin:
    """Return the origin of a value that no policy sets."""
    found = default.settings.origin_of(group, name)
    if found.source != OVERRIDE:
        return found
    # While requests are answered, nothing else is laid over the configuration.
    file = default.settings.scheduler.json_config_location
    return Origin(OPTIONS_FILE, file) if file else Origin(DEFAULT)


def _plain(value: object) -> object:
    """Return an option's value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)

"""The policies as operators are shown them: options in effect, where each is from, and for whom."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from placement_sched.config.origin import DEFAULT, LAID_OVER, Origin, origin_of
from placement_sched.config.settings import registered_options
from placement_sched.errors import ConfigurationError, NotFound
from placement_sched.model.host_aggregate import DEFAULT_POLICY, HostAggregate
from placement_sched.scheduler.overriding import standing_options
from placement_sched.scheduler.policies.registry import Policies, Policy
from placement_sched.scheduler.policies.sections import RATIOS

Json = dict[str, Any]

POLICY = "policy"
OPTIONS_FILE = "options_file"

#: What is shown in place of a value that is nobody's business.
_MASK = "***"


def all_shown(policies: Policies, tagged: Iterable[HostAggregate]) -> list[Json]:
    """Return every policy, the default one first: those listed, and those that aggregates name.

    ``tagged`` are the aggregates that have a policy.
    """
    aggregates = tuple(tagged)
    listed = policies.names if policies.named else ()
    others = sorted({each.policy or "" for each in aggregates}.difference(listed, [DEFAULT_POLICY]))
    names = dict.fromkeys([DEFAULT_POLICY, *listed, *others])
    return [_shown(name, policies, aggregates) for name in names]


def one_shown(name: str, policies: Policies, tagged: Iterable[HostAggregate]) -> Json:
    """Return the policy of this name, which may be a section that no aggregate names yet.

    Raises :class:`NotFound` where neither the configuration nor an aggregate knows it.
    """
    aggregates = tuple(tagged)
    name = name.lower()
    known = {DEFAULT_POLICY, *policies.names, *(each.policy for each in aggregates)}
    if name not in known:
        raise NotFound(f"there is no policy {name!r}")
    return _shown(name, policies, aggregates)


def _shown(name: str, policies: Policies, aggregates: Sequence[HostAggregate]) -> Json:
    wrong, options = None, {}
    try:
        options = dict(_options(policies.get(name), policies.default))
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
    }


def _options(policy: Policy, default: Policy) -> Iterator[tuple[str, Json]]:
    """Yield every option that may vary from request to request, with its value and its origin."""
    overridden = {override.key: str(override.place) for override in policy.overrides}
    standing = standing_options() - RATIOS
    for group, members in sorted(registered_options(policy.settings.conf).items()):
        for name, option in sorted(members.items()):
            key = f"{group}.{name}"
            if (group, name) in standing or not policy.settings.has(group, name):
                continue
            place = overridden.get(key)
            origin = _origin(default, group, name) if place is None else Origin(POLICY, place)
            value = getattr(getattr(policy.settings, group), name)
            # That a secret is unset is none.
            hidden = option.secret and value is not None
            yield (
                key,
                {
                    "value": _MASK if hidden else _plain(value),
                    "source": origin.source,
                    "place": origin.place,
                },
            )


def _origin(default: Policy, group: str, name: str) -> Origin:
    """Return the origin of a value that no policy sets."""
    found = origin_of(default.settings, group, name)
    if found.source != LAID_OVER:
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

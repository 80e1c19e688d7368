"""The options that a decision keeps, and how to evaluate a request under them again.

Only options that are read per request are kept, and only those that differ from their defaults:
what the server reads when it starts (addresses of databases, passwords) is never among them.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson
from oslo_config import cfg

from placement_sched.model.decision import Conditions
from placement_sched.settings import Settings
from placement_sched.settings.conf import server_options

#: How many bytes of JSON the options of one decision may take; larger values are left out.
MOST_BYTES = 16_384


@lru_cache(maxsize=64)
def kept_options(settings: Settings) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the options to keep, by ``group.option``, and the names of those left out.

    The smallest are kept first.
    """
    changed = {
        f"{group}.{name}": value
        for group, name, option in _varying(settings)
        if (value := getattr(getattr(settings, group), name)) != option.default
    }
    sizes = {key: len(orjson.dumps(value, default=str)) for key, value in changed.items()}
    kept, room = {}, MOST_BYTES
    for key in sorted(changed, key=lambda key: (sizes[key], key)):
        room -= len(key) + sizes[key]
        if room >= 0:
            kept[key] = changed[key]
    # What a plugin made of its option may be anything; as text it is what an option is set to.
    document = orjson.loads(orjson.dumps(dict(sorted(kept.items())), default=str))
    return document, tuple(sorted(set(changed) - set(kept)))


def as_overrides(then: Conditions, settings: Settings) -> dict[str, Any]:
    """Return what to lay over ``settings`` so that each option has the value it had then.

    None stands for the default. Options that do not exist any more, and those that were left out,
    are not among them.
    """
    keys = {f"{group}.{name}" for group, name, _ in _varying(settings)}
    return {key: then.options.get(key) for key in sorted(keys.difference(then.left_out))}


def _varying(settings: Settings) -> Iterator[tuple[str, str, cfg.Opt]]:
    """Yield group, name and option of what may vary from request to request, but no secrets."""
    standing = server_options()
    for group, members in settings.conf.registered.items():
        for name, option in members.items():
            if (group, name) in standing or option.secret or not settings.has(group, name):
                continue
            yield group, name, option

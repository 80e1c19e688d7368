"""The file of scheduler options, which is read again whenever it changes.

``[scheduler] json_config_location`` names it, as ``scheduler_json_config_location`` did in nova up
to Newton. What it says is laid over the configuration by the mechanism of an explanation's
overrides. Source: "Description of scheduler configuration options", OpenStack Configuration
Reference, Icehouse to Newton.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import orjson

from placement_sched.config.settings import Settings, registered_options
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.whole_numbers import with_whole_numbers
from placement_sched.scheduler.completion import check_aliases
from placement_sched.scheduler.loading import plugins_for
from placement_sched.scheduler.overriding import overridden, standing_options


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings with a file's options laid over them, and what of the file says nothing."""

    settings: Settings
    passed_over: tuple[str, ...] = ()


def read(settings: Settings, clock: Clock = utcnow) -> Reading:
    """Return ``settings`` as the file that they name changes them; none is named by default.

    Options that are not there, or that the server reads once when it starts, are passed over: the
    file may be another program's as well. Raises :class:`ConfigurationError` in one line for a
    file that cannot be read or is no JSON object, and for a value that cannot be.
    """
    path = settings.scheduler.json_config_location
    if not path:
        return Reading(settings)
    source = f"[scheduler] json_config_location: {path}"
    given = dict(_flat(_document(path, source), source))
    useless = {key: why for key in given if (why := _useless(settings, key))}
    heeded = {key: value for key, value in given.items() if key not in useless}
    try:
        changed = overridden(settings, heeded, source)
    except Invalid as wrong:
        raise ConfigurationError(wrong.detail) from None
    try:
        check_aliases(changed)
        plugins_for(changed, clock)
    except ConfigurationError as wrong:
        raise ConfigurationError(f"{source}: {wrong.detail}") from None
    return Reading(changed, tuple(f"{source}: {why}" for why in useless.values()))


def _document(path: str, source: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(Path(path).read_bytes())
    except OSError as failure:
        raise ConfigurationError(f"{source}: {failure.strerror}") from None
    except orjson.JSONDecodeError as wrong:
        raise ConfigurationError(f"{source}: it is no JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"{source}: it is no JSON object of options and values")
    whole: Mapping[str, Any] = with_whole_numbers(found)
    return whole


def _flat(document: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any]]:
    """Yield ``group.option`` and value, also of options that stand in an object of their group."""
    for key, value in document.items():
        options = value.items() if isinstance(value, dict) else (("", value),)
        for name, one in options:
            whole = f"{key}.{name}" if name else key
            if not _may_be_a_value(one):
                raise ConfigurationError(
                    f"{source}: {whole}: a value is a text, a number, true, false or a list of such"
                )
            yield whole, one


def _may_be_a_value(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str | int | float) for item in items)


def _useless(settings: Settings, key: str) -> str | None:
    """Return why an option in the file changes nothing, or None where it does."""
    try:
        meant = settings.meant_by(key)
    except Invalid:
        return f"there is no option {key!r}{_suggestion(settings, key)}"
    if meant in standing_options():
        return f"{key!r} is not read per request, but when the server starts"
    return None


def _suggestion(settings: Settings, key: str) -> str:
    known = (
        f"{group}.{name}"
        for group, options in registered_options(settings.conf).items()
        for name in options
    )
    near = get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""

"""The settings of requests: those of the files, read again on a change, and overrides over them.

The files are the configuration's, as far as their options may vary from request to request, and
the one that ``[scheduler] json_config_location`` names, as ``scheduler_json_config_location`` did
in nova up to Newton: its options override the configuration as those of a request do. Source:
"Description of scheduler configuration options", OpenStack Configuration Reference, Icehouse to
Newton.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import orjson
from oslo_log import log

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.document import with_whole_numbers
from placement_sched.model.naming import did_you_mean, nearest
from placement_sched.scheduler import loading
from placement_sched.scheduler.plugin import path_of
from placement_sched.scheduler.policies.registry import checked_plugins, policies_for
from placement_sched.settings import Settings
from placement_sched.settings.conf import restart_options, server_options
from placement_sched.settings.sources import OF_REQUEST, files_read
from placement_sched.settings.watch import Watch

LOG = log.getLogger(__name__)

#: Seconds between two looks at the files.
PAUSE = 1.0
#: What is logged where files cannot be used, after the reason.
KEPT = "%s; keeping the previous settings"

_FIXED = "{!r} is not read per request, but when the server starts"
_OURS = tuple(
    f"placement_sched.scheduler.{package}."
    for package in ("filters", "weights", "request_filters", "drivers", "policies.selectors")
)


class LiveSettings:
    """The settings in effect from now on: those of the start, and what files say since.

    Where the files cannot be used, or a scheduling policy that is ``in_use`` could not be used any
    more, that is logged and all settings stay as they were. Where the options file is broken
    already, ``settings`` themselves are in effect: the last that could be used, in a worker that
    replaces another.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        elapsed: Callable[[], float] = monotonic,
        in_use: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._clock = clock
        self._in_use = in_use
        self._now = Reading(settings, settings)
        self._watch = Watch(lambda: files_of(self._now.configured), PAUSE, elapsed)
        self._reading = Lock()
        self._read_all = False
        refused = ""
        try:
            self._now = Reading(settings, _with_options_file(settings, clock))
        except ConfigurationError as wrong:
            self._read_all, refused = True, wrong.detail
        if refused:
            LOG.error(KEPT, refused)

    def settings(self) -> Settings:
        """Return the settings in effect, having looked at the files once in :data:`PAUSE` seconds.

        While one thread reads them again, the others go by the previous settings.
        """
        if self._watch.is_due() and self._reading.acquire(blocking=False):
            try:
                if changed := self._watch.changed():
                    self._read_again(changed)
            finally:
                self._reading.release()
        return self._now.in_effect

    def _read_again(self, changed: Collection[str]) -> None:
        files = files_read(self._now.configured.conf)
        whole = self._read_all or any(file in files for file in changed)
        refused = ""
        try:
            self._now = read_again(self._now, self._in_use, self._clock, whole=whole)
            self._read_all = False
        except ConfigurationError as wrong:
            refused = wrong.detail
        if refused:  # logged after the failure, which the log would show once more
            LOG.warning(KEPT, refused)
        else:
            LOG.info("%s: changes applied", ", ".join(changed))


@dataclass(frozen=True, slots=True)
class Reading:
    """What files said at one time: the configuration, and that with the options file over it."""

    configured: Settings
    in_effect: Settings


def files_of(configured: Settings) -> list[str]:
    """Return the files that settings come from, those in a directory of files as there are now."""
    named = configured.scheduler.json_config_location
    files = files_read(configured.conf)
    return [*files, named] if named else files


def read_again(
    before: Reading,
    in_use: Callable[[], Collection[str]],
    clock: Clock = utcnow,
    *,
    whole: bool = True,
) -> Reading:
    """Return what the files say now; unless ``whole``, only the options file is read.

    Raises :class:`ConfigurationError` where they cannot be read or used, or a scheduling policy
    that is ``in_use`` and could be used could not be any more.
    """
    configured = _with_files(before.configured) if whole else before.configured
    in_effect = _with_options_file(configured, clock)
    policies = policies_for(before.in_effect, clock)
    used = [name for name in in_use() if policies.usable(name)]
    policies_for(in_effect, clock).check(used)
    return Reading(configured, in_effect)


def _with_files(running: Settings) -> Settings:
    """Return ``running`` with what its files say now of options that may vary while it runs.

    What else has changed is logged: it applies after a restart only.
    """
    # A directory of files is listed again, as at the start.
    fresh = loading.read_settings(running.conf.config_file or (), loading.full_conf())
    fixed = restart_options()
    changed = running.unlike(fresh)
    for group, name in sorted(changed & fixed):
        LOG.warning("[%s] %s has changed; restart the server to apply it", group, name)
    return running.with_values_of(fresh, changed - fixed)


def _with_options_file(configured: Settings, clock: Clock) -> Settings:
    found = with_options_file(configured, clock)
    for ignored in found.ignored:
        LOG.warning("%s; it is ignored", ignored)
    return found.settings


def overridden(
    running: Settings, overrides: Mapping[str, Any], source: str = OF_REQUEST
) -> Settings:
    """Return the settings of a request with overrides, ``{"group.option": value}``.

    ``source`` is where they stand, for messages. Raises :class:`Invalid` naming the key of an
    option that does not exist, is not read per request or has a wrong value, and of one that names
    code that the operator has not named.
    """
    for key in overrides:
        if running.meant_by(key, source) in server_options():
            raise Invalid(f"{source}: {_FIXED.format(key)}")
    settings = running.overridden(overrides, source)
    _check_code(running, settings, source)
    return settings


def _check_code(running: Settings, overridden: Settings, source: str) -> None:
    """Raise :class:`Invalid` where a request's overrides name code that the operator did not.

    A dotted path is imported, which only the configuration may ask for.
    """
    trusted = {path_of(kind) for kind in loading.all_announced()}
    for group, option in loading.NAMING_CLASSES:
        values = [getattr(getattr(one, group), option) for one in (running, overridden)]
        before, after = ({one} if isinstance(one, str) else set(one) for one in values)
        known = (loading.NOVA_DRIVERS,) if option == "driver" else loading.NOVA
        for path in after - before - trusted:
            if "." in path and not path.startswith((*known, *_OURS)):
                raise Invalid(
                    f"{source}: {group}.{option}: {path!r} is not one of the shipped classes, and "
                    "the configuration does not name it"
                )


@dataclass(frozen=True, slots=True)
class WithOptionsFile:
    """Settings with the options of a file over them, and why some of its options are ignored."""

    settings: Settings
    ignored: tuple[str, ...] = ()


def with_options_file(settings: Settings, clock: Clock = utcnow) -> WithOptionsFile:
    """Return ``settings`` with the options of the file that they name; by default none is named.

    Options that do not exist here, or that the server reads once when it starts, are ignored: the
    file may be another program's as well. Raises :class:`ConfigurationError` in one line for a
    file that cannot be read or is not a JSON object, and for a wrong value.
    """
    path = settings.scheduler.json_config_location
    if not path:
        return WithOptionsFile(settings)
    source = f"[scheduler] json_config_location: {path}"
    given = dict(_flat(_document(path, source), source))
    useless = {key: why for key in given if (why := _useless(settings, key))}
    useful = {key: value for key, value in given.items() if key not in useless}
    try:
        changed = overridden(settings, useful, source)
    except Invalid as wrong:
        raise ConfigurationError(wrong.detail) from None
    try:
        checked_plugins(changed, clock)
    except ConfigurationError as wrong:
        raise ConfigurationError(f"{source}: {wrong.detail}") from None
    return WithOptionsFile(changed, tuple(f"{source}: {why}" for why in useless.values()))


def _document(path: str, source: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(Path(path).read_bytes())
    except OSError as failure:
        raise ConfigurationError(f"{source}: {failure.strerror}") from None
    except orjson.JSONDecodeError as wrong:
        raise ConfigurationError(f"{source}: it is not JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"{source}: it is not a JSON object of options and values")
    whole: Mapping[str, Any] = with_whole_numbers(found)
    return whole


def _flat(document: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any]]:
    """Yield ``group.option`` and value, also of options that stand in an object of their group."""
    for key, value in document.items():
        options = value.items() if isinstance(value, dict) else (("", value),)
        for name, one in options:
            whole = f"{key}.{name}" if name else key
            items = one if isinstance(one, list) else [one]
            if not all(isinstance(item, str | int | float) for item in items):
                raise ConfigurationError(
                    f"{source}: {whole}: must be a string, number, boolean or a list of these"
                )
            yield whole, one


def _useless(settings: Settings, key: str) -> str | None:
    """Return why an option in the file changes nothing, or None where it does."""
    try:
        meant = settings.meant_by(key)
    except Invalid:
        registered = settings.conf.registered
        known = (f"{group}.{name}" for group, options in registered.items() for name in options)
        return f"there is no option {key!r}{did_you_mean(nearest(key, known))}"
    return _FIXED.format(key) if meant in server_options() else None

"""The settings of requests: those of the files, the options file, and overrides over them.

The configuration files are read again when the service gets SIGHUP, as far as their options may
vary from request to request. The file that ``[scheduler] json_config_location`` names, as
``scheduler_json_config_location`` did in nova up to Newton, is read again when it changes: its
options override the configuration as those of a request do. Source: "Description of scheduler
configuration options", OpenStack Configuration Reference, Icehouse to Newton.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import orjson
from oslo_log import log

from placement_sched.config.conf import restart_options, server_options
from placement_sched.config.settings import Settings
from placement_sched.config.sources import OF_REQUEST, files_read
from placement_sched.config.watch import Watch
from placement_sched.errors import ConfigurationError, Error, Invalid, one_line
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.document import with_whole_numbers
from placement_sched.model.names import did_you_mean, nearest
from placement_sched.scheduler import plugins
from placement_sched.scheduler.plugin import path_of
from placement_sched.scheduler.policies.registry import checked_plugins, policies_for

LOG = log.getLogger(__name__)

#: Seconds between two looks at the options file.
PAUSE = 1.0

_FIXED = "{!r} is not read per request, but when the server starts"
_OURS = tuple(
    f"placement_sched.scheduler.{package}."
    for package in ("filters", "weights", "request_filters", "drivers", "policies.selectors")
)
#: One byte that a process shares with those that it forks: the number of reloads, modulo 256.
_RELOADS = mmap(-1, 1)
#: The number of reloads that the settings of this process have, with which a forked one begins.
_REACHED = [0]


class LiveSettings:
    """The settings in effect now.

    The previous settings stay in effect, and the reason is logged, if files cannot be used or a
    scheduling policy that is ``in_use`` could not be used any more. ``configured`` are the settings
    of the configuration files alone.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock = utcnow,
        elapsed: Callable[[], float] = monotonic,
        in_use: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.configured = self._in_effect = settings
        self._clock, self._in_use = clock, in_use
        self._reloads = _REACHED[0]
        self._watch = Watch(self._options_files, PAUSE, elapsed)
        self._reading = Lock()
        self._read_again(whole=False, at_start=True)

    def settings(self) -> Settings:
        """Return the settings in effect, after a reload if one is due.

        While one thread reads the files, the others use the previous settings.
        """
        is_due = self._reloads != _RELOADS[0] or self._watch.is_due()
        if is_due and self._reading.acquire(blocking=False):
            try:
                whole = self._reloads != _RELOADS[0]
                self._reloads = _RELOADS[0]
                changed = self._watch.changed()
                if (whole or changed) and self._read_again(whole=whole) and changed:
                    LOG.info("%s: changes applied", ", ".join(changed))
            finally:
                self._reading.release()
        return self._in_effect

    def reload(self) -> None:
        """Read all files again; if they can be used, let this process's children do so, too."""
        with self._reading:
            self._watch.changed()
            if self._read_again(whole=True, is_reported=True):
                LOG.info("configuration read again: %s", ", ".join(self._files()) or "no files")
                _RELOADS[0] = _REACHED[0] = self._reloads = (_RELOADS[0] + 1) % 256

    def _files(self) -> list[str]:
        return [*files_read(self.configured.conf), *self._options_files()]

    def _options_files(self) -> list[str]:
        path = self.configured.scheduler.json_config_location
        return [path] if path else []

    def _read_again(
        self, *, whole: bool, is_reported: bool = False, at_start: bool = False
    ) -> bool:
        """Read all files, or only the options file; return whether they can be used.

        Changes that need a restart are logged if ``is_reported``.
        """
        refused = ""
        try:
            configured = _with_files(self.configured, is_reported) if whole else self.configured
            in_effect = _with_options_file(configured, self._clock)
            if not at_start:
                policies = policies_for(self._in_effect, self._clock)
                used = [name for name in self._in_use() if policies.usable(name)]
                policies_for(in_effect, self._clock).check(used)
            self.configured, self._in_effect = configured, in_effect
        except Error as wrong:
            refused = wrong.detail
        except Exception as failure:  # noqa: BLE001 - of any plugin; the service goes on
            refused = one_line(failure)
        if refused:  # logged after the failure, which the log would show once more
            LOG.error("%s; keeping the previous settings", refused)
        return not refused


def _with_files(running: Settings, is_reported: bool) -> Settings:
    """Return ``running`` with the files' values of options that may vary while it runs.

    Other changes, which need a restart, are logged if ``is_reported``.
    """
    # A directory of files is listed again, as at the start.
    fresh = plugins.read_settings(running.conf.config_file or (), plugins.full_conf())
    fixed = restart_options()
    changed = running.unlike(fresh)
    for group, name in sorted(changed & fixed) if is_reported else ():
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
    trusted = {path_of(kind) for kind in plugins.all_announced()}
    for group, option in plugins.NAMING_CLASSES:
        values = [getattr(getattr(one, group), option) for one in (running, overridden)]
        before, after = ({one} if isinstance(one, str) else set(one) for one in values)
        known = (plugins.NOVA_DRIVERS,) if option == "driver" else plugins.NOVA
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

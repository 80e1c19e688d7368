# SPDX-License-Identifier: Apache-2.0
"""Settings of requests: configuration files, options file and overrides.

On SIGHUP the service reads its files again, for options that may vary per request. The options file
is named by ``[scheduler] json_config_location`` (in nova up to Newton:
``scheduler_json_config_location``). Its options override the configuration, with the same rules as
the overrides of a request. Source: "Description of scheduler configuration options", OpenStack
Configuration Reference, Icehouse to Newton.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from mmap import mmap
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import orjson
from oslo_log import log

from placement_sched.config.conf import list_server_options, restart_options
from placement_sched.config.settings import Settings
from placement_sched.config.sources import OF_REQUEST, list_files
from placement_sched.errors import ConfigurationError, Error, Invalid, format_one_line
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.document import build_json_path, with_whole_numbers
from placement_sched.scheduler import plugins
from placement_sched.scheduler.plugin import get_class_path
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.policies.registry import get_policies

LOG = log.getLogger(__name__)
T = TypeVar("T")

_FIXED = "{!r} is not read per request, but when the server starts"
_OURS = tuple(
    f"placement_sched.scheduler.{package}."
    for package in ("filters", "weights", "request_filters", "drivers", "policies.selectors")
)


class LiveSettings:
    """The current settings of a process.

    If files are invalid, or would make a policy among the results of ``in_use`` unusable, the
    previous settings stay in effect and the reason is logged. ``configured`` lacks the options
    file. A worker reads no file before its ``parent`` process has reloaded.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock = utcnow,
        in_use: Callable[[], Collection[str]] = tuple,
        parent: "LiveSettings | None" = None,
    ) -> None:
        self.configured = self._in_effect = settings
        self._clock, self._in_use = clock, in_use
        #: A byte that a process shares with its workers: the number of reloads, modulo 256.
        self._all_reloads: mmap = parent._all_reloads if parent else mmap(-1, 1)  # noqa: SLF001 - own class
        self._reloads: int = parent._reloads if parent else 0  # noqa: SLF001 - own class
        self._reading = Lock()
        if parent is None:
            _keep_previous(lambda: self._use(settings))
        else:
            self._in_effect = parent._in_effect  # noqa: SLF001 - own class
            # This creates the plugins before the first request needs them.
            _keep_previous(lambda: get_plugins(self._in_effect, clock))

    def get_settings(self) -> Settings:
        """Return the settings in effect, read again if the parent has reloaded.

        While a thread reads the files, other threads get the previous settings.
        """
        if self._reloads != self._all_reloads[0] and self._reading.acquire(blocking=False):
            try:
                self._reloads = self._all_reloads[0]
                _keep_previous(self._read_again)
            finally:
                self._reading.release()
        return self._in_effect

    def reload(self) -> None:
        """Read all files again, and log changes that need a restart.

        If the files are valid, the child processes also read them again.
        """
        if self.configured.placement_database.shown_at is not None:
            LOG.info("configuration not read again: this server shows a file")
            return
        with self._reading:
            changed = _keep_previous(self._read_again)
            if changed is None:
                return
            for group, name in changed:
                LOG.warning("[%s] %s has changed: restart the server to apply it", group, name)
            file = self.configured.scheduler.json_config_location
            files = [*list_files(self.configured.conf), *([file] if file else [])]
            LOG.info("configuration read again: %s", ", ".join(files) or "no files")
            self._all_reloads[0] = self._reloads = (self._reloads + 1) % 256

    def _read_again(self) -> list[tuple[str, str]]:
        """Read the files again, and return changed options that need a restart."""
        running, fixed = self.configured, sorted(restart_options())
        # This also finds new files in configuration directories.
        fresh = plugins.read_settings(running.conf.config_file or (), plugins.make_full_conf())
        self._use(fresh.with_values({option: running[option] for option in fixed}))
        return [option for option in fixed if fresh[option] != running[option]]

    def _use(self, configured: Settings) -> None:
        """Make ``configured``, with the options file, the current settings.

        Raises :class:`ConfigurationError` if plugins, PCI aliases or a used policy become unusable.
        """
        in_effect, ignored = with_options_file(configured, self._clock)
        for reason in ignored:
            LOG.warning("ignored: %s", reason)
        if configured is not self.configured:
            get_plugins(in_effect, self._clock)
            policies = get_policies(self._in_effect, self._clock)
            used = [name for name in self._in_use() if policies.is_usable(name)]
            get_policies(in_effect, self._clock).check(used)
        self.configured, self._in_effect = configured, in_effect


def _keep_previous(read: Callable[[], T]) -> T | None:
    """Return the result of ``read``, or log its error and return None."""
    try:
        return read()
    except Error as error:
        problem = error.detail
    except Exception as failure:  # noqa: BLE001 - of any plugin; the service goes on
        problem = format_one_line(failure)
    # Logged after the handlers, because within a handler the log would repeat the exception.
    LOG.error("%s (the previous settings remain in effect)", problem)
    return None


def with_overrides(
    running: Settings, overrides: Mapping[str, Any], source: str = OF_REQUEST
) -> Settings:
    """Return ``running`` with the overrides of a request.

    ``overrides`` maps ``group.option`` to values, and ``source`` names their origin in messages.
    Raises :class:`Invalid`, naming the key, for an option that does not exist, that is not read per
    request, that has a wrong value, or that names a class which requests may not import.
    """
    for key in overrides:
        if running.resolve_option(key, source) in list_server_options():
            raise Invalid(_FIXED.format(key), source=source, json_path=f"$.{OF_REQUEST}")
    settings = running.with_overrides(overrides, source)
    _check_code(running, settings, source)
    return settings


def _check_code(running: Settings, overridden: Settings, source: str) -> None:
    """Reject overrides that import classes.

    Allowed are shipped classes, classes that packages announce, and classes that the configuration
    names: importing a dotted path runs code, which only the operator may choose.
    """
    trusted = {get_class_path(plugin_class) for plugin_class in plugins.list_announced()}
    for group, option in plugins.NAMING_CLASSES:
        values = [settings[group, option] for settings in (running, overridden)]
        old_names, new_names = ({each} if isinstance(each, str) else set(each) for each in values)
        nova_prefixes = (plugins.NOVA_DRIVERS,) if option == "driver" else plugins.NOVA
        for path in new_names - old_names - trusted:
            if "." in path and not path.startswith((*nova_prefixes, *_OURS)):
                key = f"{group}.{option}"
                raise Invalid(
                    f"{path!r} is neither a shipped class nor named by the configuration",
                    source=f"{source}: {key}",
                    json_path=build_json_path([OF_REQUEST, key]),
                )


class WithOptionsFile(NamedTuple):
    """Settings with the options of a file, and reasons for ignored options."""

    settings: Settings
    ignored: tuple[str, ...] = ()


def with_options_file(settings: Settings, clock: Clock = utcnow) -> WithOptionsFile:
    """Return ``settings`` with the options of their options file, if any.

    Options that do not exist here, or that the server reads only at its start, are ignored, because
    another program may use the same file. Raises :class:`ConfigurationError` for a file that cannot
    be read or is not a JSON object, and for a wrong value.
    """
    path = settings.scheduler.json_config_location
    if not path:
        return WithOptionsFile(settings)
    source = f"[scheduler] json_config_location: {path}"
    options = dict(_flatten(_read_document(path, source), source))
    ignored = {key: reason for key in options if (reason := _ignore_reason(settings, key))}
    applied = {key: value for key, value in options.items() if key not in ignored}
    try:
        changed = with_overrides(settings, applied, source)
    except Invalid as error:
        raise ConfigurationError(error.detail) from None
    try:
        get_plugins(changed, clock)
    except ConfigurationError as error:
        raise ConfigurationError(f"{source}: {error.detail}") from None
    return WithOptionsFile(changed, tuple(f"{source}: {reason}" for reason in ignored.values()))


def _read_document(path: str, source: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(Path(path).read_bytes())
    except OSError as failure:
        raise ConfigurationError(f"{source}: {failure.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{source}: it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{source}: it is not a JSON object of options and values")
    document: Mapping[str, Any] = with_whole_numbers(value)
    return document


def _flatten(document: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any]]:
    """Yield ``group.option`` and value of each option, nested or not."""
    for key, value in document.items():
        options = value.items() if isinstance(value, dict) else (("", value),)
        for name, option_value in options:
            full_name = f"{key}.{name}" if name else key
            items = option_value if isinstance(option_value, list) else [option_value]
            if not all(isinstance(item, str | int | float) for item in items):
                raise ConfigurationError(
                    f"{source}: {full_name}: must be a string, number, boolean or a list of these"
                )
            yield full_name, option_value


def _ignore_reason(settings: Settings, key: str) -> str | None:
    """Return why an option in the file is ignored, or None if it takes effect."""
    try:
        option = settings.resolve_option(key)
    except Invalid as error:
        return str((error.fault or {})["problem"])
    return _FIXED.format(key) if option in list_server_options() else None

# SPDX-License-Identifier: Apache-2.0
"""Extended oslo.config objects and options, and the immutable settings.

Layers of settings, in order of precedence: overrides of a request, the section of a scheduling
policy, files and environment, defaults. The first two layers are mappings, and the last two layers
are in oslo.config.

oslo.config has no public way to read older option names from the environment, or to give an option
two names without a deprecation. This module contains all code that uses private parts of
oslo.config (see doc/decisions/0006).
"""

import os
from collections import ChainMap
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

from oslo_config import cfg, types
from oslo_config.sources import ConfigurationSource

from placement_sched.config import sources
from placement_sched.config.sources import NO_SECTIONS, OF_REQUEST, Assignment, Sections
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.document import build_json_path
from placement_sched.model.names import suggest_name

P = ParamSpec("P")
T = TypeVar("T")

#: Maximum value of options for seconds (68 years), retries or list sizes. Python and system calls
#: would reject larger values only when they are used.
MAX_INT = 2**31 - 1
#: Maximum seconds (20 days) of database timeouts. PostgreSQL stores them as milliseconds in 32-bit
#: integers.
MAX_WAIT = 20 * 24 * 3600

#: The :class:`~placement_sched.config.Settings` of the running plugin, or None outside of a run.
SETTINGS_IN_EFFECT: ContextVar[Any] = ContextVar("settings in effect", default=None)
#: Command-line options of oslo.config itself, which are not options of a file.
_OF_OSLO_CONFIG = {"config_file", "config_dir", "shell_completion"}
#: Minimum similarity of a suggested option name. It is high, since many names share long parts.
_MIN_SIMILARITY = 0.8


class OptionGroup:
    """A group's options as attributes: ``settings.scheduler.max_attempts``."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self._name, self._values = name, values

    def __getattr__(self, option: str) -> Any:
        """Return the value in effect, or raise :class:`AttributeError`."""
        try:
            return self._values[option]
        except KeyError:
            raise AttributeError(f"no option [{self._name}] {option}") from None

    __getitem__ = __getattr__

    def __contains__(self, option: str) -> bool:
        return option in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def with_fallback(self, group: Mapping[str, Any]) -> "OptionGroup":
        """Return this group with the options of ``group`` that it lacks."""
        return OptionGroup(self._name, ChainMap(self._values, group))  # type: ignore[arg-type]


class Conf(cfg.ConfigOpts):
    """oslo.config object that lists options and follows running plugins."""

    def __init__(self, *, follows_plugins: bool = False) -> None:
        self._follows_plugins = follows_plugins
        #: All registered options by group and attribute name.
        self.registered: dict[str, dict[str, cfg.Opt]] = {"DEFAULT": {}}
        #: Options of oslo.log for the command lines of services, all in ``[DEFAULT]``.
        self.command_line_options: list[cfg.Opt] = []
        #: The assignments of the files that were read.
        self.sections = NO_SECTIONS
        #: The variables that set options.
        self.environment: Mapping[str, str] = os.environ
        super().__init__()
        self._env_driver: Any = _Environment(self._env_driver)

    def __call__(self, *args: Any, use_env: bool = True, **options: Any) -> None:
        """Read files and, with ``use_env``, the environment."""
        self.environment = os.environ if use_env else {}
        super().__call__(*args, use_env=use_env, **options)  # type: ignore[misc] # args is first

    def __getattr__(self, name: str) -> Any:
        settings = SETTINGS_IN_EFFECT.get() if self._follows_plugins else None
        if settings is None:
            return super().__getattr__(name)
        if name in settings.DEFAULT:
            return getattr(settings.DEFAULT, name)
        own = super().__getattr__(name)
        is_group = isinstance(own, self.GroupAttr) and settings.has_group(name)
        return getattr(settings, name).with_fallback(own) if is_group else own

    def register_opt(self, opt: cfg.Opt, group: Any = None, cli: bool = False, **more: Any) -> bool:
        """Register an option, and return False if it was registered before."""
        is_new = bool(super().register_opt(opt, group, cli=cli, **more))
        if is_new and opt.dest not in _OF_OSLO_CONFIG:
            self.registered.setdefault(_get_group_name(group), {})[opt.dest] = opt
            if cli:
                self.command_line_options.append(opt)
        return is_new

    def unregister_opt(self, opt: cfg.Opt, group: Any = None, **cache: Any) -> None:
        """Unregister an option."""
        super().unregister_opt(opt, group, **cache)
        self.registered.get(_get_group_name(group), {}).pop(opt.dest, None)

    def register_missing(self, other: "Conf") -> None:
        """Register the options of ``other`` that this object lacks."""
        for group, members in other.registered.items():
            for name, option in members.items():
                if name not in self.registered.get(group, {}):
                    self.register_opt(option, None if group == "DEFAULT" else group)

    def import_opt(self, name: str, module_str: str, group: Any = None) -> None:
        """Check that an option of nova exists, without an import of its module."""
        is_of_nova = module_str.partition(".")[0] == "nova"
        if not (is_of_nova and find_option(self.registered, _get_group_name(group), name)):
            super().import_opt(name, module_str, group)


def _get_group_name(group: Any) -> str:
    return str(getattr(group, "name", group) or "DEFAULT")


def with_help(*options_and_help: Any) -> tuple[cfg.Opt, ...]:
    """Build options, with their help, from alternating options and texts."""
    options: tuple[cfg.Opt, ...] = options_and_help[::2]
    for option, text in zip(options, options_and_help[1::2], strict=True):
        option.help = text
    return options


def deprecate_in_default(name: str | None = None) -> dict[str, Any]:
    """Build the option arguments for a former name in ``[DEFAULT]``."""
    return {"deprecated_name": name, "deprecated_group": "DEFAULT"}


def is_explicit(conf: cfg.ConfigOpts, group: str, name: str) -> bool:
    """Return whether the operator sets an option explicitly."""
    location = conf.get_location(name, None if group == "DEFAULT" else group)
    return location is not None and location.location.is_user_controlled


def list_names(option: cfg.Opt, group: str, name: str) -> list[tuple[str, str]]:
    """Return the (group, name) pairs of an option, the current pair first."""
    older_names = [
        (old.group or group, (old.name or name).replace("-", "_")) for old in option.deprecated_opts
    ]
    return [(group, name), *older_names]


def find_option(
    options: Mapping[str, Mapping[str, cfg.Opt]], group: str, name: str
) -> tuple[str, str] | None:
    """Return current group and name of an option by any name, or None."""
    if name in options.get(group, ()):
        return group, name
    for current_group, members in options.items():
        for current_name, option in members.items():
            if (group, name) in list_names(option, current_group, current_name):
                return current_group, current_name
    return None


class AliasedBoolOpt(cfg.BoolOpt):
    """A boolean option with a second name, an ``alias`` in its group.

    ``name`` takes precedence over the alias. oslo.config supports only deprecated names, and warns
    on stderr about their use.
    """

    def __init__(self, name: str, *, alias: str, **options: Any) -> None:
        super().__init__(name, deprecated_name=alias, **options)

    def _get_from_namespace(self, namespace: Any, group_name: str | None) -> Any:
        # Separate lookups, so that neither name is deprecated.
        for name in (self.dest, *(old.name for old in self.deprecated_opts)):
            try:
                return namespace._get_value([(group_name, name)])  # noqa: SLF001 - as oslo.config does
            except KeyError:
                continue
        raise KeyError(self.dest)


class _ClampedInteger(types.Integer):
    """Type of an integer that is reduced to the usable range."""

    def __init__(self, accepted_min: int | None, lowest: int, highest: int) -> None:
        super().__init__(min=accepted_min)
        self._lowest, self._highest = lowest, highest

    def __call__(self, value: Any) -> Any:
        """Return the value, or the nearest usable value."""
        number = super().__call__(value)
        return number if number is None else max(self._lowest, min(number, self._highest))


class ClampedIntOpt(cfg.IntOpt):
    """An integer option with the accepted range of nova or placement.

    A value below ``lowest`` or above ``highest`` has the meaning of this limit. ``min`` is the
    minimum in nova or placement, whose options have no maximum.
    """

    def __init__(
        self,
        name: str,
        *,
        lowest: int,
        highest: int = MAX_INT,
        min: int | None = None,  # noqa: A002 - the name in oslo.config
        **options: Any,
    ) -> None:
        super().__init__(name, **options)
        self.type = _ClampedInteger(min, lowest, highest)


class HttpAddress(types.URI):
    """Type of an ``http`` or ``https`` address with a valid port."""

    def __init__(self) -> None:
        super().__init__(max_length=2048, schemes=["http", "https"])

    def __call__(self, value: Any) -> Any:
        """Return the address, or raise :class:`ValueError`."""
        address = super().__call__(value)
        parts = urlsplit(address)
        if not parts.hostname or parts.port == 0:  # reading a port above 65535 raises
            raise ValueError("the address must have a host, and its port must not be 0")
        return address


class _Environment(ConfigurationSource):
    """oslo.config's source of environment variables, with older names."""

    def __init__(self, variables: Any) -> None:
        self._variables, self.get_name = variables, variables.get_name

    def get(self, group_name: str | None, option_name: str, opt: cfg.Opt) -> tuple[Any, Any]:
        for group, name in list_names(opt, group_name or "DEFAULT", option_name):
            value, location = self._variables.get(group, name, opt)
            if location is not None:
                break
        return value, location


def replace_wrong_values(conf: Conf) -> list[ConfigurationError]:
    """Set options with a wrong value to their defaults, and return errors."""
    errors = []
    for group, members in conf.registered.items():
        for name, option in members.items():
            try:
                _read(conf, group, name, option)
            except ConfigurationError as error:
                errors.append(error)
                conf.set_override(name, option.default, None if group == "DEFAULT" else group)
    return errors


class Settings:
    """The immutable options in effect for a request or task.

    ``settings.filter_scheduler.enabled_filters`` reads an option, and so does
    ``settings["filter_scheduler", "enabled_filters"]``. :meth:`with_overrides` returns a new view
    with other values.
    """

    __slots__ = ("_groups", "_overridden", "conf", "derived", "registered", "sections")

    def __init__(
        self,
        conf: Conf,
        registered: Mapping[str, Mapping[str, cfg.Opt]],
        groups: Mapping[str, Mapping[str, Any]],
        sections: Sections,
        overridden: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self.conf = conf
        #: The options by group and name. ``conf`` may have more options.
        self.registered = registered
        #: The assignments of the files by section, including sections of policies.
        self.sections = sections
        #: The cache of :func:`cached_by_settings`.
        self.derived: dict[Hashable, Any] = {}
        self._overridden = overridden
        self._groups = {name: OptionGroup(name, values) for name, values in groups.items()}

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        """Read the values of ``conf``, or raise :class:`ConfigurationError`."""
        # A copy: options that are registered in conf later are not part of these settings.
        registered = {group: dict(members) for group, members in conf.registered.items()}
        groups = {
            group: {name: _read(conf, group, name, option) for name, option in members.items()}
            for group, members in registered.items()
        }
        defaults = groups["DEFAULT"]
        interval = defaults.get("report_interval", 0)
        if interval and defaults["service_down_time"] <= interval:
            # As in nova, so that a host is not down between two of its reports.
            defaults["service_down_time"] = min(int(interval * 2.5), MAX_INT)
        return cls(conf, registered, groups, conf.sections)

    def __getattr__(self, group: str) -> OptionGroup:
        """Return an option group by name, or raise :class:`AttributeError`."""
        try:
            return self._groups[group]
        except KeyError:
            raise AttributeError(f"no option group [{group}]") from None

    def __getitem__(self, option: tuple[str, str]) -> Any:
        """Return the value of an option, by group and name."""
        group, name = option
        return self._groups[group][name]

    @property
    def unknown_owner(self) -> tuple[str, str]:
        """Return the project and user of consumers that were created without them."""
        options = self.placement
        return options.incomplete_consumer_project_id, options.incomplete_consumer_user_id

    def has_group(self, name: str) -> bool:
        """Return whether a section name is an option group."""
        return name in self._groups

    def find_override_source(self, group: str, name: str) -> str | None:
        """Return the source of an option that :meth:`with_overrides` set, or None."""
        return self._overridden.get((group, name))

    def find_assignment(self, group: str, name: str) -> Assignment | None:
        """Return the variable or line of a file that sets an option, or None."""
        names = list_names(self.registered[group][name], group, name)
        return sources.find_assignment(self.sections, names, self.conf.environment)

    def with_overrides(self, overrides: Mapping[str, Any], source: str = OF_REQUEST) -> "Settings":
        """Return new settings with the values of ``{"group.option": value}``.

        A key without a dot belongs to ``DEFAULT``. None means the option's default. Raises
        :class:`Invalid`, naming ``source`` and the key, for an unknown option or a value of a wrong
        type.
        """
        values: dict[tuple[str, str], Any] = {}
        for key, value in overrides.items():
            group, name = self.resolve_option(key, source)
            option = self.registered[group][name]
            try:
                typed = option.default if value is None else sources.convert_value(option, value)
            except ValueError as error:
                path = build_json_path([OF_REQUEST, key])
                raise Invalid(str(error), source=f"{source}: {key}", json_path=path) from None
            values[group, name] = typed
        return self.with_values(values, source)

    def with_values(
        self, values: Mapping[tuple[str, str], Any], source: str | None = None
    ) -> "Settings":
        """Return new settings, with typed values that are overrides of a source."""
        groups = {name: dict(group._values) for name, group in self._groups.items()}  # noqa: SLF001 - own class
        for (group, name), value in values.items():
            groups[group][name] = value
        overridden = {**self._overridden, **dict.fromkeys(values, source)} if source else {}
        return Settings(self.conf, self.registered, groups, self.sections, overridden)

    def resolve_option(self, key: str, source: str = OF_REQUEST) -> tuple[str, str]:
        """Resolve an override's key, or raise :class:`Invalid`."""
        group, _, name = key.rpartition(".")
        if option := find_option(self.registered, group or "DEFAULT", name):
            return option
        names = [
            name if group == "DEFAULT" else f"{group}.{name}"
            for group, members in self.registered.items()
            for name in members
        ]
        suggestion = suggest_name("option", key, names, alike=_MIN_SIMILARITY)
        problem = f"there is no option {key!r}{suggestion}"
        raise Invalid(problem, source=source, json_path=f"$.{OF_REQUEST}")


def cached_by_settings(
    function: Callable[Concatenate[Settings, P], T],
) -> Callable[Concatenate[Settings, P], T]:
    """Cache results in the settings, so that both are released together."""

    @wraps(function)
    def call(settings: Settings, /, *arguments: P.args, **named: P.kwargs) -> T:
        key = (function, arguments, tuple(named.items()))
        if key not in settings.derived:
            settings.derived[key] = function(settings, *arguments, **named)
        result: T = settings.derived[key]
        return result

    return call


def _read(conf: Conf, group: str, name: str, option: cfg.Opt) -> Any:
    try:
        return sources.check_number(option, conf[name] if group == "DEFAULT" else conf[group][name])
    except (cfg.Error, ValueError) as failure:
        # The cause has the reason, without the location that oslo.config adds.
        cause = failure.__context__ if isinstance(failure.__context__, ValueError) else failure
        names = list_names(option, group, name)
        line = sources.find_assignment(conf.sections, names, conf.environment)
        if line is not None:
            reason = sources.describe_reason(line.value, cause)
            message = sources.describe_wrong_value(line, option, reason)
            raise ConfigurationError(message, place=line.place) from None
        reason = sources.describe_reason(option.default, cause)
        raise ConfigurationError(f"[{group}] {name} has a wrong value: {reason}") from None

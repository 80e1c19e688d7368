# SPDX-License-Identifier: Apache-2.0
"""Loading of plugins from folders, dotted paths and entry points.

A plugin is announced if an entry point of an installed package names its class.
"""

import inspect
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, Self, TypeVar

from oslo_config import cfg

from placement_sched.config.conf import CONF, create_conf, read_files, share_files
from placement_sched.config.settings import Conf, Settings, cached_by_settings
from placement_sched.errors import ConfigurationError, format_one_line
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.extension import load_hooks
from placement_sched.model.names import (
    find_nearest,
    find_similar_plugins,
    format_suggestion,
    join_words,
    list_if_few,
    suggest_names,
    suggest_plugin,
)
from placement_sched.scheduler.drivers import BaseDriver, all_drivers
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.host_state import set_host_attributes
from placement_sched.scheduler.plugin import (
    GroupedOption,
    SchedulerPlugin,
    get_class_path,
    is_library,
    register,
)
from placement_sched.scheduler.policies.selectors import BasePolicySelector, all_selectors
from placement_sched.scheduler.request_filters import BaseRequestFilter, all_request_filters
from placement_sched.scheduler.weights import BaseHostWeigher, all_weighers

LOG = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")

Plugin = TypeVar("Plugin", bound=SchedulerPlugin)
Listed = TypeVar("Listed", bound=BaseRequestFilter | BasePolicySelector)
#: Packages of nova whose members are shipped here under the same name.
NOVA = ("nova.scheduler.filters.", "nova.scheduler.weights.")
#: Prefix of the dotted paths of nova's drivers, with or without the module of the driver.
NOVA_DRIVERS = "nova.scheduler."


def load_plugin(load: Callable[[], Loaded]) -> Loaded:
    """Call third-party code, and return its result.

    Raises the errors of the code, and :class:`RuntimeError` if the code would end the process.
    """
    try:
        return load()
    except SystemExit as error:
        raise RuntimeError(f"it ends the process with status {error.code}") from error


def load_entry_point(point: EntryPoint, load: Callable[[], Loaded]) -> Loaded:
    """Return the result of ``load``, which loads an entry point.

    Raises :class:`ConfigurationError`, naming the entry point, if ``load`` fails.
    """
    try:
        return load_plugin(load)
    except Exception as failure:
        reason = describe_import_error(failure)
        words = describe_entry_point(point)
        raise ConfigurationError(f"{words} cannot be loaded: {reason}") from failure


def load_plugin_hooks(hook: str, settings: Settings) -> Sequence[Any]:
    """Return the objects of a hook, or nothing unless ``nova_shim`` is set.

    Raises :class:`ConfigurationError` if ``nova_shim`` is set and no extension has the hook.
    """
    if not settings.filter_scheduler.nova_shim:
        return ()
    disabled = settings.DEFAULT.disabled_extensions
    if hooks := load_hooks(hook, disabled):
        return hooks
    name, option = "nova_plugins", "[filter_scheduler] nova_shim"
    is_disabled = name in disabled
    reason = "disabled by [DEFAULT] disabled_extensions" if is_disabled else "not installed"
    message = f"{option} needs the extension {name}, which is {reason}"
    raise ConfigurationError(message, option=option)


def describe_entry_point(point: EntryPoint) -> str:
    """Describe an entry point for messages: name, value and group."""
    return f"entry point {point.name} ({point.value}) of {point.group}"


def describe_import_error(failure: Exception) -> str:
    """Describe an import error, with the file and line at fault.

    If a module of nova is missing, advice on each import from nova may replace file and line.
    """
    if isinstance(failure, SyntaxError):
        return f"{describe_syntax_error(failure)}; {failure.filename}:{failure.lineno}"
    reason = format_one_line(failure)
    # The failed import is in the last file of the plugin.
    traced = traceback.extract_tb(failure.__traceback__)
    frames = [frame for frame in traced if not is_library(frame.filename)]
    place = f"; {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    for modules in load_hooks("nova_modules"):
        advice = modules.explain_import(failure, frames[-1].filename if frames else None)
        if advice is not None:
            return f"{reason}{advice or place}"
    return reason if isinstance(failure, ModuleNotFoundError) else f"{reason}{place}"


def describe_syntax_error(failure: SyntaxError) -> str:
    """Describe a syntax error, with a note if the source may be Python 2."""
    is_old = any(phrase in failure.msg for phrase in _OF_PYTHON_2)
    problem = failure.msg.partition(". ")[0]  # the rest suggests a correction
    return f"{problem}: Python 2 is not supported" if is_old else problem


#: Phrases of Python's messages about syntax that only Python 2 has.
_OF_PYTHON_2 = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros",
    "inconsistent use of tabs",
)


def list_class_names(module: ModuleType, base: type) -> list[str]:
    """List the names of a module's subclasses of ``base``."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    ]


def suggest_path(path: str, existing: Mapping[str, str], missing: Exception) -> str:
    """Return the end of a sentence that suggests similar dotted paths.

    ``existing`` maps class names to dotted paths. A path with a similar class name takes precedence
    over a similar path. The text is empty if ``missing`` was raised within the module at ``path``.
    """
    named = missing.name if isinstance(missing, (ImportError, AttributeError)) else None
    if isinstance(missing, ModuleNotFoundError):
        is_of_path = f"{path}.".startswith(f"{named}.")
    else:  # otherwise the error comes from the module itself
        is_of_path = isinstance(missing, AttributeError) and named == path.rpartition(".")[2]
    if not is_of_path and not isinstance(missing, ValueError):
        return ""
    names = find_similar_plugins(path.rpartition(".")[2], existing, alike=0.8)
    package = path.partition(".")[0]
    of_package = [each for each in existing.values() if each.partition(".")[0] == package]
    matches = [existing[name] for name in names]
    return format_suggestion(matches or find_nearest(path, of_package, alike=0.4))


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins that settings enable, in the order they run."""

    request_filters: tuple[BaseRequestFilter, ...]
    filters: tuple[BaseHostFilter, ...]
    weighers: tuple[BaseHostWeigher, ...]
    driver: BaseDriver = field(default_factory=FilterScheduler)
    selectors: tuple[BasePolicySelector, ...] = ()

    def enforces(self, policy: str) -> bool:
        """Return whether a plugin enforces a server group policy."""
        name = get_policy_enforcer(policy)
        return any(
            plugin.server_group_policy == policy
            or name in {cls.__name__ for cls in type(plugin).mro()}
            for plugin in (*self.filters, *self.weighers)
        )

    @property
    def all(self) -> tuple[BaseRequestFilter | BaseHostFilter | BaseHostWeigher, ...]:
        """Return the request filters, host filters and weighers."""
        return (*self.request_filters, *self.filters, *self.weighers)

    def has_filter(self, name: str) -> bool:
        """Return whether a filter of this name, or a subclass, is enabled."""
        return any(name == cls.__name__ for each in self.filters for cls in type(each).mro())

    @property
    def reads_flavors(self) -> bool:
        """Return whether any weigher compares the flavors of the cloud."""
        return any(plugin.reads_flavors for plugin in self.weighers)

    def drop_failover_filters(self) -> "Plugins":
        """Return the plugins without filters that read the failover result."""
        filters = tuple(each for each in self.filters if not each.reads_failover_result)
        return self if len(filters) == len(self.filters) else replace(self, filters=filters)

    @property
    def unlimited_hints(self) -> frozenset[str]:
        """Return the scheduler hints that disable the limit of candidates.

        A request with such a hint refers to certain hosts, whose candidates a limit could cut off.
        """
        shipped = (cls.unlimited_hints for cls in all_filters())
        return frozenset[str]().union(*shipped, *(each.unlimited_hints for each in self.filters))

    def select_for_rebuild(self) -> Self:
        """Return the plugins for a rebuild: host filters with ``RUN_ON_REBUILD``."""
        filters = [plugin for plugin in self.filters if plugin.RUN_ON_REBUILD]
        return replace(self, request_filters=(), filters=tuple(filters))


def get_policy_enforcer(policy: str) -> str:
    """Return the name of the shipped plugin that enforces a group policy."""
    classes = (*all_filters(), *all_weighers())
    return next(cls.__name__ for cls in classes if vars(cls).get("server_group_policy") == policy)


@dataclass(frozen=True, slots=True)
class _PluginType(Generic[Plugin]):
    """Type of plugins: base class, entry point group and enabling option."""

    base: type[Plugin]
    shipped: Callable[[], Sequence[type[Plugin]]]
    entry_point_group: str
    option: str
    #: Names of nova's list of shipped plugins in earlier releases.
    older_names: tuple[str, ...] = ()

    def list_all(self) -> list[type[Plugin]]:
        return [*self.shipped(), *self.list_announced()]

    def list_announced(self) -> list[type[Plugin]]:
        return [
            cls
            for point in _list_entry_points(self.entry_point_group)
            for cls in self.load_classes(point)
        ]

    def load_classes(self, entry_point: EntryPoint) -> list[type[Plugin]]:
        value = load_entry_point(entry_point, entry_point.load)
        return self._list_classes(value, describe_entry_point(entry_point))

    def import_classes(self, paths: Iterable[str], option: str = "") -> list[type[Plugin]]:
        """Import the classes at dotted paths, or that functions there return."""
        option = option or self.option

        def import_path(path: str) -> list[type[Plugin]]:
            words = f"{option}: {path}"
            return self._list_classes(self._import_object(path, option), words, option)

        paths = dict.fromkeys(paths)  # a request may repeat a path thousands of times
        return list(dict.fromkeys(_call_all(partial(import_path, path) for path in paths)))

    def _list_classes(self, value: Any, words: str, option: str = "") -> list[type[Plugin]]:
        classes = [value]
        if inspect.isfunction(value):
            try:
                classes = load_plugin(lambda: list(value()))
            except Exception as failure:
                reason = describe_import_error(failure)
                message = f"{words} returns no classes: {reason}"
                raise ConfigurationError(message, option=option) from failure
        for cls in classes:
            if not isinstance(cls, type) or not issubclass(cls, self.base):
                bases = [modules.describe_base(cls) for modules in load_hooks("nova_modules")]
                message = f"{words} is not a {self.base.__name__}{''.join(bases)}"
                raise ConfigurationError(message, option=option)
            if cls is self.base:
                raise ConfigurationError(f"{words} is the abstract base class", option=option)
        return classes

    def _import_object(self, path: str, option: str) -> Any:
        """Import an object. The path of a nova plugin means the shipped plugin."""
        module_name, _, name = path.rpartition(".")
        shipped = {cls.__name__: cls for cls in self.shipped()}
        if path.startswith(NOVA):
            if name in (self.shipped.__name__, *self.older_names):
                return self.shipped
            if name in shipped:
                return shipped[name]
            if not any(modules.has_added(module_name) for modules in load_hooks("nova_modules")):
                hint = suggest_plugin(name, shipped)
                message = f"{option}: there is no {path!r} here{hint}"
                raise ConfigurationError(message, option=option)
        is_ours = module_name.rpartition(".")[0] == self.shipped.__module__
        if is_ours and name in shipped and find_spec(module_name) is None:
            return shipped[name]  # its module was renamed
        paths = {name: get_class_path(cls) for name, cls in shipped.items()}
        try:
            module = load_plugin(lambda: import_module(module_name))
            paths |= {each: f"{module_name}.{each}" for each in list_class_names(module, self.base)}
            return getattr(module, name)
        except (ImportError, ValueError, AttributeError) as missing:
            raise ConfigurationError(
                f"{option}: {path!r} cannot be imported ({describe_import_error(missing)})"
                f"{suggest_path(path, paths, missing)}",
                option=option,
            ) from None
        except Exception as failure:
            reason = f"{type(failure).__name__}: {describe_import_error(failure)}"
            message = f"{option}: {path!r} cannot be imported ({reason})"
            raise ConfigurationError(message, option=option) from failure


def _call_all(calls: Iterable[Callable[[], Iterable[Loaded]]]) -> list[Loaded]:
    """Call all functions, and return their items or raise all their errors."""
    items, errors = _collect(calls)
    if len(errors) > 1:
        problems = "; ".join(error.problem for error in errors)
        joined = ConfigurationError(problems, option=errors[0].option)
        joined.parts = [part for error in errors for part in error.parts or [error]]
        raise joined
    for error in errors:
        raise error
    return items


def _collect(
    calls: Iterable[Callable[[], Iterable[Loaded]]],
) -> tuple[list[Loaded], list[ConfigurationError]]:
    """Call all functions, and return the items and the errors."""
    items: list[Loaded] = []
    errors: dict[str, ConfigurationError] = {}
    for call in calls:
        try:
            items += call()
        except ConfigurationError as error:
            errors[error.problem] = error
    return items, list(errors.values())


@lru_cache
def _list_entry_points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=group), key=lambda entry_point: entry_point.name))


_AVAILABLE = "[filter_scheduler] available_filters"
_FILTERS = _PluginType(
    BaseHostFilter, all_filters, "placement_sched.filters", _AVAILABLE, ("standard_filters",)
)
_WEIGHERS = _PluginType(
    BaseHostWeigher, all_weighers, "placement_sched.weighers", "[filter_scheduler] weight_classes"
)
_REQUEST_FILTERS = _PluginType(
    BaseRequestFilter,
    all_request_filters,
    "placement_sched.request_filters",
    "[scheduler] request_filters",
)
_DRIVERS = _PluginType(BaseDriver, all_drivers, "placement_sched.drivers", "[scheduler] driver")
_SELECTORS = _PluginType(
    BasePolicySelector,
    all_selectors,
    "placement_sched.policy_selectors",
    "[scheduler] policy_selection",
)
_ANNOUNCED: tuple[_PluginType[Any], ...] = (_SELECTORS, _FILTERS, _WEIGHERS, _REQUEST_FILTERS)
_HOST_ATTRIBUTES = "placement_sched.host_attributes"
#: The groups of entry points that are loaded from each installed package.
ENTRY_POINT_GROUPS = (*(each.entry_point_group for each in _ANNOUNCED), _HOST_ATTRIBUTES)


def find_class_errors(settings: Settings) -> list[ConfigurationError]:
    """Return the first error of each option that names plugins."""
    return _collect(_build_class_lists(settings))[1]


def _build_class_lists(settings: Settings) -> list[Callable[[], Iterable[type[SchedulerPlugin]]]]:
    return [
        lambda: _list_request_filter_classes(settings),
        lambda: _list_filter_classes(settings),
        lambda: _list_weigher_classes(settings),
        lambda: [_get_driver_class(settings)],
        lambda: _list_selector_classes(settings),
    ]


@cached_by_settings
def get_plugins(settings: Settings, clock: Clock = utcnow) -> Plugins:
    """Return the plugins that ``settings`` enable, cached in ``settings``.

    Raises :class:`ConfigurationError` for a class that is unknown or cannot be created.
    """

    def make(plugin_class: type[Plugin]) -> Plugin:
        try:
            return plugin_class.with_settings(settings, clock)
        except Exception as failure:
            path, reason = get_class_path(plugin_class), describe_import_error(failure)
            message = f"{path} cannot be created: {type(failure).__name__}: {reason}"
            if isinstance(failure, TypeError) and "argument" in reason:
                message = f"{path} cannot be created without arguments: {reason}"
            raise ConfigurationError(message) from failure

    return Plugins(
        tuple(make(cls) for cls in _list_request_filter_classes(settings)),
        tuple(make(cls) for cls in _list_filter_classes(settings)),
        tuple(make(cls) for cls in _list_weigher_classes(settings)),
        make(_get_driver_class(settings)),
        tuple(make(cls) for cls in _list_selector_classes(settings)),
    )


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group, options)`` of all shipped plugins."""
    return _group_options(_list_shipped_options())


def list_announced_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group, options)`` of announced plugins.

    Options that their modules register are included. A wrong entry point is only logged.
    """
    declared: list[GroupedOption] = []
    for plugin_type in _ANNOUNCED:
        for point in _list_entry_points(plugin_type.entry_point_group):
            try:
                declared += [
                    option for cls in plugin_type.load_classes(point) for option in cls.options
                ]
            except ConfigurationError as error:
                LOG.warning("%s: the sample lacks its options", error.detail)
    shipped_options = make_full_conf().registered
    module_options = [
        (group, option)
        for group, members in CONF.registered.items()
        for name, option in members.items()
        if name not in shipped_options.get(group, {})
    ]
    return _group_options([*declared, *module_options])


def _group_options(options: Iterable[GroupedOption]) -> list[tuple[str, list[cfg.Opt]]]:
    """Group copies of options, marked as mutable: requests may change them."""
    by_group: dict[str, dict[str, cfg.Opt]] = {}
    for group, option in options:
        by_group.setdefault(group, {})[option.dest] = option_copy = copy(option)
        option_copy.mutable = True
    return [(group, list(members.values())) for group, members in sorted(by_group.items())]


def _list_shipped_options() -> list[GroupedOption]:
    classes = (cls for plugin_type in (*_ANNOUNCED, _DRIVERS) for cls in plugin_type.shipped())
    return [option for cls in classes for option in cls.options]


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register the options of all shipped plugins in ``conf``."""
    register(conf, _list_shipped_options())


def make_full_conf() -> Conf:
    """Create an oslo.config object with all options of the product."""
    register_options(conf := create_conf())
    return conf


def read_settings(files: Sequence[str] = (), conf: Conf = CONF) -> Settings:
    """Read settings from files and environment, with options of plugins.

    Raises :class:`ConfigurationError`, naming the file, option or class, if it is invalid.
    """
    register_options(conf)
    settings = Settings.from_conf(share_files(read_files(conf, files)))
    for modules in load_plugin_hooks("nova_modules", settings):
        modules.install()
    points = _list_entry_points(_HOST_ATTRIBUTES)
    set_host_attributes(load_entry_point(point, point.load) for point in points)
    # Announced plugins may be disabled, but overrides of a request may enable them.
    classes = _call_all([list_announced, *_build_class_lists(settings)])
    for cls in [*classes, *_iterate_section_plugins(settings)]:
        register(conf, cls.options)
    # Third-party modules are now imported, so the options that they register can be read.
    conf.register_missing(CONF)
    return Settings.from_conf(conf)


#: The options that name classes to import, with the type of plugin.
NAMING_CLASSES: Mapping[tuple[str, str], _PluginType[Any]] = {
    ("filter_scheduler", "available_filters"): _FILTERS,
    ("filter_scheduler", "enabled_filters"): _FILTERS,
    ("filter_scheduler", "weight_classes"): _WEIGHERS,
    ("scheduler", "request_filters"): _REQUEST_FILTERS,
    ("scheduler", "driver"): _DRIVERS,
    ("scheduler", "policy_selection"): _SELECTORS,
}
#: The types by the names of options in the sections of scheduling policies. In such a section, an
#: option may have the prefix ``scheduler_``.
_SECTION_OPTIONS = {
    name: plugin_type
    for (_, name), plugin_type in NAMING_CLASSES.items()
    if plugin_type is not _SELECTORS
}
_SECTION_OPTIONS["default_filters"] = _FILTERS


def _iterate_section_plugins(settings: Settings) -> Iterator[type[SchedulerPlugin]]:
    """Yield third-party plugins of policies. Errors are reported later."""
    policy_names = [name.lower() for name in settings.scheduler.policies]
    names = policy_names or [name for name in settings.sections if not settings.has_group(name)]
    for line in (line for name in names for line in settings.sections.get(name, ())):
        plugin_type = _SECTION_OPTIONS.get(line.dest.removeprefix("scheduler_"))
        for path in line.value.split(",") if plugin_type else ():
            if plugin_type is None or "." not in path or path.strip().startswith(NOVA_DRIVERS):
                continue
            with suppress(ConfigurationError):
                yield from plugin_type.import_classes([path.strip()])


def _list_request_filter_classes(settings: Settings) -> list[type[BaseRequestFilter]]:
    """Return all request filters, and last the filters in ``request_filters``.

    Unlisted filters also run, so that an override of the option cannot lift the restrictions of a
    filter. Listing a filter moves it to the end, or adds the filter at a dotted path.
    """
    registered = _REQUEST_FILTERS.list_all()
    listed = _resolve_names(_REQUEST_FILTERS, settings.scheduler.request_filters, "request filter")
    return list(dict.fromkeys([*(cls for cls in registered if cls not in listed), *listed]))


def _list_selector_classes(settings: Settings) -> list[type[BasePolicySelector]]:
    return _resolve_names(_SELECTORS, settings.scheduler.policy_selection, "selector")


def _resolve_names(
    plugin_type: _PluginType[Listed], names: Iterable[str], noun: str
) -> list[type[Listed]]:
    """Resolve plugin names or dotted paths to classes, in order."""
    classes = plugin_type.list_all()
    by_name = {name: cls for cls in classes for name in (cls.__name__, cls.name, *cls.aliases)}
    listed: list[type[Listed]] = []
    for name in dict.fromkeys(names):
        if name in by_name:
            listed.append(by_name[name])
        elif "." in name:
            listed += plugin_type.import_classes([name])
        else:
            hint = suggest_plugin(name, by_name)
            message = f"{plugin_type.option}: unknown {noun} {name!r}{hint}"
            raise ConfigurationError(message, option=plugin_type.option)
    return list(dict.fromkeys(listed))


def _list_weigher_classes(settings: Settings) -> list[type[BaseHostWeigher]]:
    configured = _WEIGHERS.import_classes(settings.filter_scheduler.weight_classes)
    classes = dict.fromkeys([*configured, *_WEIGHERS.list_announced()])
    return [cls for cls in classes if cls.is_enabled_by(settings)]


def _list_filter_classes(settings: Settings) -> list[type[BaseHostFilter]]:
    """Return the enabled filters, each named by class or by dotted path."""
    options, enabled = settings.filter_scheduler, "[filter_scheduler] enabled_filters"
    available = [*_FILTERS.list_announced(), *_FILTERS.import_classes(options.available_filters)]
    by_name = {cls.__name__: cls for cls in available}
    names = dict.fromkeys(options.enabled_filters)
    if unknown := [name for name in names if "." not in name and name not in by_name]:
        names_by_suggestion: dict[str, list[str]] = {}
        for name in unknown:
            for near in find_similar_plugins(name, by_name):
                names_by_suggestion.setdefault(near, []).append(repr(name))

        def show(near: str) -> str:
            return (
                f"{near!r} for {join_words(names_by_suggestion[near])}"
                if unknown[1:]
                else repr(near)
            )

        suggestion = suggest_names("plugin", names_by_suggestion, list_if_few(by_name), show)
        noun = "filter" if len(unknown) == 1 else "filters"
        message = f"{enabled}: unknown {noun} {join_words(map(repr, unknown))}{suggestion}"
        raise ConfigurationError(message, option=enabled)
    filters: list[type[BaseHostFilter]] = []
    for name in names:
        is_path = "." in name
        filters += _FILTERS.import_classes([name], enabled)[:1] if is_path else [by_name[name]]
    return filters


def _get_driver_class(settings: Settings) -> type[BaseDriver]:
    """Return the class of the driver, which may have a path of nova's driver."""
    value = settings.scheduler.driver
    by_name = {name: cls for cls in all_drivers() for name in (cls.name, cls.__name__)}
    name = value.rpartition(".")[2] if value.startswith(NOVA_DRIVERS) else value
    if name in by_name:
        return by_name[name]
    if "." in value and name == value:
        return _DRIVERS.import_classes([value])[0]
    hint = suggest_plugin(name, by_name)
    message = f"{_DRIVERS.option}: unknown driver {value!r}{hint}"
    raise ConfigurationError(message, option=_DRIVERS.option)


def list_announced() -> list[type[SchedulerPlugin]]:
    """Return all plugins that installed packages announce."""
    return [cls for plugin_type in _ANNOUNCED for cls in plugin_type.list_announced()]

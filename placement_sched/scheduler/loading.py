"""Finding plugins and making them: by folder, by dotted path and by entry point.

The shipped ones are found by their folder. Third-party plugins are named by dotted path in the
configuration, or announced by entry points.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, TypeVar

from oslo_config import cfg

from placement_sched.config import CONF, Settings
from placement_sched.config.brought import brought_options, register_brought
from placement_sched.config.lines import Sections, files_read, sections_of
from placement_sched.config.process import new_conf, read_files
from placement_sched.errors import ConfigurationError
from placement_sched.model.clock import Clock, utcnow
from placement_sched.scheduler.drivers import BaseDriver, all_drivers
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.plugin import Option, SchedulerPlugin, path_of, register
from placement_sched.scheduler.policies.selectors import BasePolicySelector, all_selectors
from placement_sched.scheduler.request_filters import BaseRequestFilter, all_request_filters
from placement_sched.scheduler.strange_code import (
    classes_of,
    loaded,
    one_line,
    path_suggestion,
    suggestion,
    why,
    why_no_base,
)
from placement_sched.scheduler.weights import BaseHostWeigher, all_weighers

LOG = logging.getLogger(__name__)
Plugin = TypeVar("Plugin", bound=SchedulerPlugin)

#: Packages of nova whose members are the shipped plugins of the same name here.
NOVA = ("nova.scheduler.filters.", "nova.scheduler.weights.")
#: nova's drivers lay in one module each, and have been named by the package alone too.
NOVA_DRIVERS = "nova.scheduler."


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins of one set of settings, in the order they run."""

    request_filters: tuple[BaseRequestFilter, ...]
    filters: tuple[BaseHostFilter, ...]
    weighers: tuple[BaseHostWeigher, ...]
    driver: BaseDriver = field(default_factory=FilterScheduler)
    selectors: tuple[BasePolicySelector, ...] = ()


@dataclass(frozen=True, slots=True)
class _Family:
    """How the plugins of one kind are found, and where the operator names them."""

    base: type[SchedulerPlugin]
    shipped: Callable[[], Sequence[type[Any]]]
    entry_point_group: str
    option: str
    #: What nova called all that it ships in earlier releases, beside the name of today.
    older_names: tuple[str, ...] = ()


_FILTERS = _Family(
    BaseHostFilter,
    all_filters,
    "placement_sched.filters",
    "[filter_scheduler] available_filters",
    older_names=("standard_filters",),
)
_WEIGHERS = _Family(
    BaseHostWeigher,
    all_weighers,
    "placement_sched.weighers",
    "[filter_scheduler] weight_classes",
)
_REQUEST_FILTERS = _Family(
    BaseRequestFilter,
    all_request_filters,
    "placement_sched.request_filters",
    "[scheduler] request_filters",
)
_DRIVERS = _Family(BaseDriver, all_drivers, "placement_sched.drivers", "[scheduler] driver")
_SELECTORS = _Family(
    BasePolicySelector,
    all_selectors,
    "placement_sched.policy_selectors",
    "[scheduler] policy_selection",
)
_ANNOUNCED = (
    (_SELECTORS, BasePolicySelector),
    (_FILTERS, BaseHostFilter),
    (_WEIGHERS, BaseHostWeigher),
    (_REQUEST_FILTERS, BaseRequestFilter),
)


@lru_cache(maxsize=64)
def plugins_for(settings: Settings, clock: Clock = utcnow) -> Plugins:
    """Return the plugins that ``settings`` enable, made once for these settings.

    Raises :class:`ConfigurationError` naming a class that is not there, and the nearest that is.
    """
    return Plugins(
        tuple(_made(kind, settings, clock) for kind in _request_filter_classes(settings)),
        tuple(_made(kind, settings, clock) for kind in _filter_classes(settings)),
        tuple(_made(kind, settings, clock) for kind in _weigher_classes(settings)),
        _made(_driver_class(settings), settings, clock),
        tuple(_made(kind, settings, clock) for kind in _selector_classes(settings)),
    )


def _made(kind: type[Plugin], settings: Settings, clock: Clock) -> Plugin:
    try:
        return kind.with_settings(settings, clock)
    except Exception as failure:
        raise ConfigurationError(
            f"{path_of(kind)} cannot be made with no arguments: {one_line(failure)}"
        ) from failure


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` of all shipped plugins, as entry points give them."""
    families = (_REQUEST_FILTERS, _FILTERS, _WEIGHERS, _DRIVERS, _SELECTORS)
    kinds = [kind for family in families for kind in family.shipped()]
    return _by_group(option for kind in kinds for option in kind.options)


def list_announced_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` of what installed packages announce, in the same way.

    They are those that plugins declare, and those that their modules register as nova's do. An
    entry point that is wrong keeps the service from starting, but nobody from getting a sample.
    """
    declared: list[Option] = []
    for family, base in _ANNOUNCED:
        for one in _announcements(family.entry_point_group):
            try:
                declared += [option for kind in _at(one, base) for option in kind.options]
            except ConfigurationError as wrong:
                LOG.warning("%s; the sample lacks its options", wrong.detail)
    return _by_group([*declared, *brought_options()])


def _by_group(options: Iterable[Option]) -> list[tuple[str, list[cfg.Opt]]]:
    found: dict[str, dict[str, cfg.Opt]] = {}
    for group, option in options:
        found.setdefault(group, {})[option.dest] = option
    return [(group, list(members.values())) for group, members in sorted(found.items())]


def register_options(conf: cfg.ConfigOpts) -> None:
    """Make the options of all shipped plugins known to ``conf``."""
    register(conf, ((group, option) for group, options in list_opts() for option in options))


def full_conf() -> cfg.ConfigOpts:
    """Return a fresh oslo.config object that knows every option of the core and the plugins."""
    conf = new_conf()
    register_options(conf)
    return conf


def read_settings(files: Sequence[str] = (), conf: cfg.ConfigOpts = CONF) -> Settings:
    """Return the settings of ``files`` and the environment, strangers' plugins included.

    Raises :class:`ConfigurationError` with the file, option or class that is wrong.
    """
    register_options(conf)
    settings = Settings.from_conf(read_files(conf, files))
    for kind in (
        # One that is not enabled may be so by a request's overrides, and wants its options then.
        *all_announced(),
        *_request_filter_classes(settings),
        *_filter_classes(settings),
        *_weigher_classes(settings),
        _driver_class(settings),
        *_selector_classes(settings),
    ):
        register(conf, kind.options)
    sections = sections_of(files_read(conf))
    for kind in _named_in(sections, settings):
        register(conf, kind.options)
    # Strangers' modules are imported now, and what options they brought can be read.
    register_brought(conf)
    return Settings.from_conf(conf, sections)


#: The options that name classes, by the names that they have had, and how such are found.
_NAMING_CLASSES: Mapping[str, _Family] = MappingProxyType(
    {
        "available_filters": _FILTERS,
        "enabled_filters": _FILTERS,
        "scheduler_available_filters": _FILTERS,
        "scheduler_default_filters": _FILTERS,
        "weight_classes": _WEIGHERS,
        "scheduler_weight_classes": _WEIGHERS,
        "request_filters": _REQUEST_FILTERS,
        "driver": _DRIVERS,
        "scheduler_driver": _DRIVERS,
    }
)


def _named_in(sections: Sections, settings: Settings) -> Iterator[type[SchedulerPlugin]]:
    """Yield the strangers' plugins that sections of policies name by their paths.

    What is wrong with one is told where its policy is made.
    """
    listed = [name.lower() for name in settings.scheduler.policies]
    names = listed or [name for name in sections if not settings.has_group(name)]
    for line in (line for name in names for line in sections.get(name, ())):
        family = _NAMING_CLASSES.get(line.name.replace("-", "_"))
        for path in line.value.split(",") if family else ():
            if family is None or "." not in path or path.strip().startswith(NOVA_DRIVERS):
                continue
            with suppress(ConfigurationError):
                yield from _named([path.strip()], family, family.base)


def _request_filter_classes(settings: Settings) -> list[type[BaseRequestFilter]]:
    """Return all request filters: those that the operator names last, in that order.

    To name one is to give it its place, or to add it; none goes for not being named, so that a
    list cannot open what another filter keeps shut.
    """
    known = [*all_request_filters(), *_announced(_REQUEST_FILTERS, BaseRequestFilter)]
    by_name = {name: kind for kind in known for name in (kind.__name__, kind.name, *kind.aliases)}
    listed: list[type[BaseRequestFilter]] = []
    for name in settings.scheduler.request_filters:
        if "." in name:
            listed += _named([name], _REQUEST_FILTERS, BaseRequestFilter)
        elif name in by_name:
            listed.append(by_name[name])
        else:
            raise ConfigurationError(
                f"[scheduler] request_filters: there is no request filter {name!r}"
                f"{suggestion(name, by_name)}"
            )
    return _once([*(kind for kind in known if kind not in listed), *listed])


def _weigher_classes(settings: Settings) -> list[type[BaseHostWeigher]]:
    named = _named(settings.filter_scheduler.weight_classes, _WEIGHERS, BaseHostWeigher)
    every = _once([*named, *_announced(_WEIGHERS, BaseHostWeigher)])
    return [kind for kind in every if kind.is_wanted(settings)]


def _filter_classes(settings: Settings) -> list[type[BaseHostFilter]]:
    """Return the enabled filters, each of which must be among the available ones."""
    options = settings.filter_scheduler
    available = [
        *_announced(_FILTERS, BaseHostFilter),
        *_named(options.available_filters, _FILTERS, BaseHostFilter),
    ]
    by_name = {kind.__name__: kind for kind in available}
    return [_enabled(name, by_name) for name in dict.fromkeys(options.enabled_filters)]


def _driver_class(settings: Settings) -> type[BaseDriver]:
    """Return the driver: by its name, or by a dotted path of ours, of nova's or of a stranger's."""
    given = settings.scheduler.driver
    by_name = {name: kind for kind in all_drivers() for name in (kind.name, kind.__name__)}
    name = given.rpartition(".")[2] if given.startswith(NOVA_DRIVERS) else given
    if name in by_name:
        return by_name[name]
    if "." in given and name == given:
        return _named([given], _DRIVERS, BaseDriver)[0]
    raise ConfigurationError(
        f"[scheduler] driver: there is no driver {given!r}{suggestion(name, by_name)}"
    )


def _selector_classes(settings: Settings) -> list[type[BasePolicySelector]]:
    """Return the selectors of policies, in the order in which the operator names them."""
    known = [*all_selectors(), *_announced(_SELECTORS, BasePolicySelector)]
    by_name = {name: kind for kind in known for name in (kind.__name__, kind.name, *kind.aliases)}
    found: list[type[BasePolicySelector]] = []
    for given in settings.scheduler.policy_selection:
        if given in by_name:
            found.append(by_name[given])
        elif "." in given:
            found += _named([given], _SELECTORS, BasePolicySelector)
        else:
            raise ConfigurationError(
                f"[scheduler] policy_selection: there is no selector {given!r}"
                f"{suggestion(given, by_name)}"
            )
    return _once(found)


def _enabled(name: str, available: dict[str, type[BaseHostFilter]]) -> type[BaseHostFilter]:
    if "." in name:
        enabled = replace(_FILTERS, option="[filter_scheduler] enabled_filters")
        return _named([name], enabled, BaseHostFilter)[0]
    if name in available:
        return available[name]
    raise ConfigurationError(
        f"[filter_scheduler] enabled_filters: there is no filter {name!r} among the available"
        f"{suggestion(name, available)}"
    )


@lru_cache
def _announcements(group: str) -> tuple[EntryPoint, ...]:
    """Return a group's entry points by name; what is installed stays while the process runs."""
    return tuple(sorted(entry_points(group=group), key=lambda one: one.name))


def all_announced() -> list[type[SchedulerPlugin]]:
    """Return the plugins of all kinds that installed packages announce."""
    return [kind for family in _ANNOUNCED for kind in _announced(*family)]


def _announced(family: _Family, base: type[Plugin]) -> list[type[Plugin]]:
    """Return the plugins that installed packages announce."""
    return [kind for one in _announcements(family.entry_point_group) for kind in _at(one, base)]


def _at(one: EntryPoint, base: type[Plugin]) -> list[type[Plugin]]:
    """Return the plugins that an entry point names."""
    words = f"entry point {one.name} ({one.value}) of {one.group}"
    try:
        value = loaded(one.load)
    except Exception as failure:
        raise ConfigurationError(f"{words} cannot be loaded: {why(failure)}") from failure
    return _classes(value, words, base)


def _named(paths: Iterable[str], family: _Family, base: type[Plugin]) -> list[type[Plugin]]:
    """Return the classes that dotted paths mean; a function's path means those it returns."""
    found: list[type[Plugin]] = []
    for path in paths:
        found += _classes(_object(path, family), f"{family.option}: {path}", base)
    return _once(found)


def _classes(value: Any, words: str, base: type[Plugin]) -> list[type[Plugin]]:
    kinds = _returned_by(value, words) if inspect.isfunction(value) else [value]
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, base):
            raise ConfigurationError(f"{words} is no {base.__name__}{why_no_base(kind)}")
        if kind is base:
            raise ConfigurationError(f"{words} is the base of all, which does nothing")
    return kinds


def _returned_by(function: Callable[[], Iterable[Any]], words: str) -> list[Any]:
    try:
        return loaded(lambda: list(function()))
    except Exception as failure:
        raise ConfigurationError(f"{words} returns no classes: {one_line(failure)}") from failure


def _object(path: str, family: _Family) -> Any:
    """Return what a dotted path names; nova's paths name what is shipped here for them."""
    module_name, _, name = path.rpartition(".")
    if path.startswith(NOVA):
        return _shipped(path, name, family)
    known = {kind.__name__: path_of(kind) for kind in family.shipped()}
    try:
        module = loaded(lambda: import_module(module_name))
        known |= {other: f"{module_name}.{other}" for other in classes_of(module, family.base)}
        return getattr(module, name)
    except (ImportError, ValueError, AttributeError) as missing:
        raise ConfigurationError(
            f"{family.option}: {path!r} cannot be imported ({why(missing)})"
            f"{path_suggestion(path, known, missing)}"
        ) from None
    except Exception as failure:
        reason = one_line(f"{type(failure).__name__}: {failure}")
        raise ConfigurationError(
            f"{family.option}: {path!r} cannot be imported ({reason})"
        ) from failure


def _shipped(path: str, name: str, family: _Family) -> Any:
    if name in (family.shipped.__name__, *family.older_names):
        return family.shipped
    by_name = {kind.__name__: kind for kind in family.shipped()}
    if name in by_name:
        return by_name[name]
    raise ConfigurationError(
        f"{family.option}: there is no {path!r} here{suggestion(name, by_name)}"
    )


def _once(kinds: list[type[Plugin]]) -> list[type[Plugin]]:
    return list(dict.fromkeys(kinds))

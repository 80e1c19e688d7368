"""Finding plugins and making them: by folder, by dotted path and by entry point.

The shipped ones are found by their folder. Strangers are named by dotted path in the
configuration, or announce themselves through the entry point groups ``placement_sched.filters``,
``placement_sched.weighers`` and ``placement_sched.request_filters``.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from oslo_config import cfg

from placement_sched.config import CONF, Settings
from placement_sched.config.catalogue import PER_REQUEST
from placement_sched.config.process import new_conf, read_files
from placement_sched.config.settings import registered_options
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.clock import Clock, utcnow
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.plugin import SchedulerPlugin, path_of, register
from placement_sched.scheduler.request_filters import BaseRequestFilter, all_request_filters
from placement_sched.scheduler.weights import BaseHostWeigher, all_weighers

Plugin = TypeVar("Plugin", bound=SchedulerPlugin)

#: Packages of nova whose members are the shipped plugins of the same name here.
_NOVA = ("nova.scheduler.filters.", "nova.scheduler.weights.")
_OURS = (
    "placement_sched.scheduler.filters.",
    "placement_sched.scheduler.weights.",
    "placement_sched.scheduler.request_filters.",
)
#: The options that name classes, which are imported.
_NAMING = (
    ("filter_scheduler", "available_filters"),
    ("filter_scheduler", "enabled_filters"),
    ("filter_scheduler", "weight_classes"),
    ("scheduler", "request_filters"),
)


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins of one set of settings, in the order they run."""

    request_filters: tuple[BaseRequestFilter, ...]
    filters: tuple[BaseHostFilter, ...]
    weighers: tuple[BaseHostWeigher, ...]


@dataclass(frozen=True, slots=True)
class _Family:
    """How the plugins of one kind are found, and where the operator names them."""

    base: type[SchedulerPlugin]
    shipped: Callable[[], Sequence[type[Any]]]
    entry_point_group: str
    option: str


_FILTERS = _Family(
    BaseHostFilter,
    all_filters,
    "placement_sched.filters",
    "[filter_scheduler] available_filters",
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
_ANNOUNCED = (
    (_FILTERS, BaseHostFilter),
    (_WEIGHERS, BaseHostWeigher),
    (_REQUEST_FILTERS, BaseRequestFilter),
)


@lru_cache(maxsize=64)
def plugins_for(settings: Settings, clock: Clock = utcnow) -> Plugins:
    """Return the plugins that ``settings`` enable, made once for these settings.

    Raises :class:`ConfigurationError` in one line naming a class that is not there, and the
    nearest name that is.
    """
    return Plugins(
        tuple(_made(kind, settings, clock) for kind in _request_filter_classes(settings)),
        tuple(_made(kind, settings, clock) for kind in _filter_classes(settings)),
        tuple(_made(kind, settings, clock) for kind in _weigher_classes(settings)),
    )


def _made(kind: type[Plugin], settings: Settings, clock: Clock) -> Plugin:
    try:
        return kind.with_settings(settings, clock)
    except Exception as failure:
        raise ConfigurationError(
            f"{path_of(kind)} cannot be made with no arguments: {failure}"
        ) from failure


def overridden(running: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of a request with overrides, ``{"group.option": value}``.

    Raises :class:`Invalid` naming the key of an option that is not there, is not read per request
    or has a value that cannot be, and of one that names code which the operator did not.
    """
    for key in overrides:
        if running.meant_by(key) in _standing_options():
            raise Invalid(f"overrides: {key!r} is not read per request, but when the server starts")
    settings = running.overridden(overrides)
    _check_code(running, settings)
    return settings


@lru_cache
def _standing_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options that the process itself reads, once and for all.

    Options of plugins, shipped or not, are none of them: those are read per request.
    """
    known = registered_options(new_conf())
    return frozenset((group, name) for group in known for name in known[group]) - PER_REQUEST


def _check_code(running: Settings, overridden: Settings) -> None:
    """Raise :class:`Invalid` where a request's overrides name code that the operator did not.

    A dotted path is imported, which only the configuration may ask for.
    """
    trusted = {path_of(kind) for group in _ANNOUNCED for kind in _announced(*group)}
    for group, option in _NAMING:
        before, after = (set(getattr(getattr(one, group), option)) for one in (running, overridden))
        for path in after - before - trusted:
            if "." in path and not path.startswith((*_NOVA, *_OURS)):
                raise Invalid(
                    f"overrides: {group}.{option}: {path!r} is not of the shipped classes, nor "
                    "named in the configuration"
                )


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` of all shipped plugins, as entry points give them."""
    found: dict[str, dict[str, cfg.Opt]] = {}
    for family in (_REQUEST_FILTERS, _FILTERS, _WEIGHERS):
        for kind in family.shipped():
            for group, option in kind.options:
                found.setdefault(group, {})[option.dest] = option
    return [(group, list(options.values())) for group, options in sorted(found.items())]


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
        *_request_filter_classes(settings),
        *_filter_classes(settings),
        *_weigher_classes(settings),
    ):
        register(conf, kind.options)
    # Strangers' modules are imported now, and what options they brought can be read.
    return Settings.from_conf(conf)


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
                f"{_suggestion(name, by_name)}"
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


def _enabled(name: str, available: dict[str, type[BaseHostFilter]]) -> type[BaseHostFilter]:
    if "." in name:
        return _named([name], _FILTERS, BaseHostFilter)[0]
    if name in available:
        return available[name]
    raise ConfigurationError(
        f"[filter_scheduler] enabled_filters: there is no filter {name!r} among the available"
        f"{_suggestion(name, available)}"
    )


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else ""


@lru_cache
def _announcements(group: str) -> tuple[EntryPoint, ...]:
    """Return a group's entry points by name; what is installed stays while the process runs."""
    return tuple(sorted(entry_points(group=group), key=lambda one: one.name))


def _announced(family: _Family, base: type[Plugin]) -> list[type[Plugin]]:
    """Return the plugins that installed packages announce."""
    found: list[type[Plugin]] = []
    for one in _announcements(family.entry_point_group):
        try:
            value = one.load()
        except Exception as failure:
            raise ConfigurationError(
                f"entry point {one.name} of {family.entry_point_group} cannot be loaded: {failure}"
            ) from failure
        found += _classes(value, f"entry point {one.name}", base)
    return found


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
            raise ConfigurationError(f"{words} is no {base.__name__}")
        if kind is base:
            raise ConfigurationError(f"{words} is the base of all, which does nothing")
    return kinds


def _returned_by(function: Callable[[], Iterable[Any]], words: str) -> list[Any]:
    try:
        return list(function())
    except Exception as failure:
        raise ConfigurationError(f"{words} returns no classes: {failure}") from failure


def _object(path: str, family: _Family) -> Any:
    """Return what a dotted path names; nova's paths name what is shipped here for them."""
    module_name, _, name = path.rpartition(".")
    if path.startswith(_NOVA):
        return _shipped(path, name, family)
    try:
        return getattr(import_module(module_name), name)
    except (ImportError, ValueError, AttributeError) as missing:
        known = [path_of(kind) for kind in family.shipped()]
        raise ConfigurationError(
            f"{family.option}: {path!r} cannot be imported ({missing}){_suggestion(path, known)}"
        ) from None
    except Exception as failure:
        reason = " ".join(f"{type(failure).__name__}: {failure}".split())
        raise ConfigurationError(
            f"{family.option}: {path!r} cannot be imported ({reason})"
        ) from failure


def _shipped(path: str, name: str, family: _Family) -> Any:
    if name == family.shipped.__name__:
        return family.shipped
    by_name = {kind.__name__: kind for kind in family.shipped()}
    if name in by_name:
        return by_name[name]
    raise ConfigurationError(
        f"{family.option}: there is no {path!r} here{_suggestion(name, by_name)}"
    )


def _once(kinds: list[type[Plugin]]) -> list[type[Plugin]]:
    return list(dict.fromkeys(kinds))

"""Finding plugins and making them: shipped ones by folder, third-party ones by dotted path.

Packages may also announce theirs by entry points.
"""

import inspect
import linecache
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import chain
from types import ModuleType
from typing import Any, Generic, Self, TypeVar

from oslo_config import cfg

from placement_sched.config.conf import CONF, new_conf, noting_options, read_files, share_files
from placement_sched.config.opts import Conf
from placement_sched.config.settings import Settings
from placement_sched.config.sources import Sections, files_read, sections_of
from placement_sched.errors import ConfigurationError, one_line
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.names import did_you_mean, nearest, suggested
from placement_sched.scheduler.drivers import BaseDriver, all_drivers
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.plugin import GroupedOption, SchedulerPlugin, path_of, register
from placement_sched.scheduler.policies.selectors import BasePolicySelector, all_selectors
from placement_sched.scheduler.request_filters import BaseRequestFilter, all_request_filters
from placement_sched.scheduler.weights import BaseHostWeigher, all_weighers

Loaded = TypeVar("Loaded")

#: The modules of nova that plugins import, and what they import here instead.
_INSTEAD = {
    "nova.scheduler": "placement_sched.scheduler",
    "nova.conf": "placement_sched.config",
    "nova.api.validation.extra_specs": "placement_sched.scheduler.extra_specs",
}
_IMPORT = re.compile(
    r"\s*(?:from\s+(?P<package>nova[\w.]*)\s+import\s+\(?\s*(?P<first>\w*)|import\s+(?P<module>nova[\w.]*))"
)
#: Where the guide says the same.
_PAGE = '"Plugins written for nova" in doc/source/writing_plugins.rst'


def loaded(load: Callable[[], Loaded]) -> Loaded:
    """Return what third-party code returns; the options that it registers are noted.

    Raises whatever that code raises, and :class:`RuntimeError` where it would end the process.
    """
    try:
        with noting_options():
            return load()
    except SystemExit as leaving:
        raise RuntimeError(f"it ends the process with status {leaving.code}") from leaving


def why(failure: Exception) -> str:
    """Return what a failure to import says; for nova's modules also which lines to change."""
    reason = one_line(failure)
    if not isinstance(failure, ModuleNotFoundError) or not _is_novas(failure.name or ""):
        return reason
    # The import itself is the last that is not Python's own machinery.
    files = [frame.filename for frame in traceback.extract_tb(failure.__traceback__)]
    own = [file for file in files if not file.startswith("<")]
    return f"{reason}{_lines_to_change(own[-1] if own else None)}"


def why_no_base(kind: object) -> str:
    """Return why a class lacks one of our bases, where it has nova's instead; else nothing."""
    if not isinstance(kind, type) or not any(_is_novas(one.__module__) for one in kind.__mro__):
        return ""
    return f": its base is nova's{_lines_to_change(inspect.getsourcefile(kind))}"


def _lines_to_change(file: str | None) -> str:
    """Return the end of a sentence: how the imports of a file have to be changed."""
    changes: list[str] = []
    for number, line in enumerate(linecache.getlines(file) if file else (), 1):
        if found := _IMPORT.match(line):
            name = found["module"] or found["package"]
            if name == "nova" and found["first"]:
                name = f"nova.{found['first']}"
            old = next((old for old in _INSTEAD if f"{name}.".startswith(f"{old}.")), None)
            way = f"change {old} to {_INSTEAD[old]}" if old else f"{name} has no counterpart here"
            changes.append(f"{file}:{number}: {way}")
    return f"; {'; '.join(changes)} (see {_PAGE})" if changes else ""


def _is_novas(module: str) -> bool:
    return module.partition(".")[0] == "nova"


def classes_of(module: ModuleType, base: type) -> list[str]:
    """Return the names of the classes below ``base`` that a module has."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    ]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence with the known names of plugins that may be meant."""
    return suggested("plugin", name, known, alike=0.4)


def path_suggestion(path: str, known: Mapping[str, str], missing: Exception) -> str:
    """Return the like for a dotted path, given paths by the name of their class.

    A class that is misspelt, or named without its module, is meant rather than one whose path is
    alike. Nothing is, where ``missing`` is a module that the named one imports: the path is right.
    """
    if isinstance(missing, ModuleNotFoundError) and not f"{path}.".startswith(f"{missing.name}."):
        return ""
    near = [known[name] for name in nearest(path.rpartition(".")[2], known, alike=0.8)]
    return did_you_mean(near or nearest(path, known.values(), alike=0.4))


LOG = logging.getLogger(__name__)
Plugin = TypeVar("Plugin", bound=SchedulerPlugin)
Listed = TypeVar("Listed", bound=BaseRequestFilter | BasePolicySelector)
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

    def enforces(self, policy: str) -> bool:
        """Return whether a plugin enforces a policy of server groups, or is called as ours is."""
        name = enforcer_of(policy)
        return any(
            one.server_group_policy == policy or name in {kind.__name__ for kind in type(one).mro()}
            for one in (*self.filters, *self.weighers)
        )

    @property
    def unlimited_hints(self) -> frozenset[str]:
        """Return the hints that a limit on candidates could cut the hosts of."""
        return _shipped_hints().union(*(one.unlimited_hints for one in self.filters))

    def for_rebuild(self) -> Self:
        """Return what a rebuild runs: no request filter, and the few filters marked for it."""
        filters = [one for one in self.filters if one.RUN_ON_REBUILD]
        return replace(self, request_filters=(), filters=tuple(filters))


@cache
def enforcer_of(policy: str) -> str:
    """Return the name of the shipped plugin that enforces a policy of server groups."""
    kinds = (*all_filters(), *all_weighers())
    return next(one.__name__ for one in kinds if vars(one).get("server_group_policy") == policy)


@cache
def _shipped_hints() -> frozenset[str]:
    return frozenset(hint for kind in all_filters() for hint in kind.unlimited_hints)


@dataclass(frozen=True, slots=True)
class _Family(Generic[Plugin]):
    """How the plugins of one kind are found, and where the operator names them."""

    base: type[Plugin]
    shipped: Callable[[], Sequence[type[Plugin]]]
    entry_point_group: str
    option: str
    #: What nova called all that it ships in earlier releases, beside the name of today.
    older_names: tuple[str, ...] = ()

    def known(self) -> list[type[Plugin]]:
        """Return the plugins that are shipped, and those that installed packages announce."""
        return [*self.shipped(), *self.announced()]

    def announced(self) -> list[type[Plugin]]:
        """Return the plugins that installed packages announce."""
        return [kind for one in _announcements(self.entry_point_group) for kind in self.at(one)]

    def at(self, one: EntryPoint) -> list[type[Plugin]]:
        """Return the plugins that an entry point names."""
        words = f"entry point {one.name} ({one.value}) of {one.group}"
        try:
            value = loaded(one.load)
        except Exception as failure:
            raise ConfigurationError(f"{words} cannot be loaded: {why(failure)}") from failure
        return self._classes(value, words)

    def named(self, paths: Iterable[str], option: str = "") -> list[type[Plugin]]:
        """Return the classes that dotted paths mean; a function's path means those it returns."""
        option = option or self.option
        found = [
            self._classes(self._object(path, option), f"{option}: {path}")
            for path in dict.fromkeys(paths)  # a request may repeat one thousands of times
        ]
        return list(dict.fromkeys(chain(*found)))

    def _classes(self, value: Any, words: str) -> list[type[Plugin]]:
        kinds = [value]
        if inspect.isfunction(value):
            try:
                kinds = loaded(lambda: list(value()))
            except Exception as failure:
                reason = one_line(failure)
                raise ConfigurationError(f"{words} returns no classes: {reason}") from failure
        for kind in kinds:
            if not isinstance(kind, type) or not issubclass(kind, self.base):
                lacking = f"{words} is not a {self.base.__name__}{why_no_base(kind)}"
                raise ConfigurationError(lacking)
            if kind is self.base:
                raise ConfigurationError(f"{words} is the abstract base class")
        return kinds

    def _object(self, path: str, option: str) -> Any:
        """Return what a dotted path names; nova's paths name what is shipped here for them."""
        module_name, _, name = path.rpartition(".")
        shipped = {kind.__name__: kind for kind in self.shipped()}
        if path.startswith(NOVA):
            if name in (self.shipped.__name__, *self.older_names):
                return self.shipped
            if name in shipped:
                return shipped[name]
            hint = suggestion(name, shipped)
            raise ConfigurationError(f"{option}: there is no {path!r} here{hint}")
        here = module_name.rpartition(".")[0] == self.shipped.__module__
        if here and name in shipped and find_spec(module_name) is None:
            return shipped[name]  # its module has had another name
        known = {name: path_of(kind) for name, kind in shipped.items()}
        try:
            module = loaded(lambda: import_module(module_name))
            known |= {other: f"{module_name}.{other}" for other in classes_of(module, self.base)}
            return getattr(module, name)
        except (ImportError, ValueError, AttributeError) as missing:
            raise ConfigurationError(
                f"{option}: {path!r} cannot be imported ({why(missing)})"
                f"{path_suggestion(path, known, missing)}"
            ) from None
        except Exception as failure:
            reason = one_line(f"{type(failure).__name__}: {failure}")
            raise ConfigurationError(
                f"{option}: {path!r} cannot be imported ({reason})"
            ) from failure


@lru_cache
def _announcements(group: str) -> tuple[EntryPoint, ...]:
    """Return a group's entry points by name; what is installed stays while the process runs."""
    return tuple(sorted(entry_points(group=group), key=lambda one: one.name))


_AVAILABLE = "[filter_scheduler] available_filters"
_FILTERS = _Family(
    BaseHostFilter, all_filters, "placement_sched.filters", _AVAILABLE, ("standard_filters",)
)
_WEIGHERS = _Family(
    BaseHostWeigher, all_weighers, "placement_sched.weighers", "[filter_scheduler] weight_classes"
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
_ANNOUNCED: tuple[_Family[Any], ...] = (_SELECTORS, _FILTERS, _WEIGHERS, _REQUEST_FILTERS)


@lru_cache(maxsize=64)
@noting_options()
def plugins_for(settings: Settings, clock: Clock = utcnow) -> Plugins:
    """Return the plugins that ``settings`` enable, made once for these settings.

    Raises :class:`ConfigurationError` for a class that is not there, with the nearest name.
    """

    def made(kind: type[Plugin]) -> Plugin:
        try:
            return kind.with_settings(settings, clock)
        except Exception as failure:
            reason = f"{path_of(kind)} cannot be made with no arguments: {one_line(failure)}"
            raise ConfigurationError(reason) from failure

    return Plugins(
        tuple(made(kind) for kind in _request_filter_classes(settings)),
        tuple(made(kind) for kind in _filter_classes(settings)),
        tuple(made(kind) for kind in _weigher_classes(settings)),
        made(_driver_class(settings)),
        tuple(made(kind) for kind in _listed_selectors(settings)),
    )


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` of all shipped plugins, as entry points give them."""
    return _by_group(_shipped_options())


def list_announced_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` of what installed packages announce, in the same way.

    That is what plugins declare, and what their modules register. A wrong entry point does not
    keep the sample from being printed.
    """
    declared: list[GroupedOption] = []
    for family in _ANNOUNCED:
        for one in _announcements(family.entry_point_group):
            try:
                declared += [option for kind in family.at(one) for option in kind.options]
            except ConfigurationError as wrong:
                LOG.warning("%s; the sample lacks its options", wrong.detail)
    return _by_group([*declared, *CONF.noted()])


def _by_group(options: Iterable[GroupedOption]) -> list[tuple[str, list[cfg.Opt]]]:
    """Return copies marked as mutable, as plugins read their options per request."""
    found: dict[str, dict[str, cfg.Opt]] = {}
    for group, option in options:
        found.setdefault(group, {})[option.dest] = marked = copy(option)
        marked.mutable = True
    return [(group, list(members.values())) for group, members in sorted(found.items())]


def _shipped_options() -> list[GroupedOption]:
    kinds = (kind for family in (*_ANNOUNCED, _DRIVERS) for kind in family.shipped())
    return [option for kind in kinds for option in kind.options]


def register_options(conf: cfg.ConfigOpts) -> None:
    """Make the options of all shipped plugins known to ``conf``."""
    register(conf, _shipped_options())


def full_conf() -> Conf:
    """Return a fresh oslo.config object that knows every option of the core and the plugins."""
    register_options(conf := new_conf())
    return conf


def read_settings(files: Sequence[str] = (), conf: Conf = CONF) -> Settings:
    """Return the settings of ``files`` and the environment, third-party plugins included.

    Raises :class:`ConfigurationError` with the file, option or class that is wrong.
    """
    register_options(conf)
    settings = Settings.from_conf(share_files(read_files(conf, files)))
    for kind in (
        # One that is not enabled may be so by a request's overrides, and wants its options then.
        *all_announced(),
        *_request_filter_classes(settings),
        *_filter_classes(settings),
        *_weigher_classes(settings),
        _driver_class(settings),
        *_listed_selectors(settings),
    ):
        register(conf, kind.options)
    sections = sections_of(files_read(conf))
    for kind in _named_in(sections, settings):
        register(conf, kind.options)
    # Third-party modules are imported now, and the options that they register can be read.
    CONF.register_noted(conf)
    return Settings.from_conf(conf, sections)


#: The options that name classes, which are imported, with the family of these.
NAMING_CLASSES: Mapping[tuple[str, str], _Family[Any]] = {
    ("filter_scheduler", "available_filters"): _FILTERS,
    ("filter_scheduler", "enabled_filters"): _FILTERS,
    ("filter_scheduler", "weight_classes"): _WEIGHERS,
    ("scheduler", "request_filters"): _REQUEST_FILTERS,
    ("scheduler", "driver"): _DRIVERS,
    ("scheduler", "policy_selection"): _SELECTORS,
}
#: By the names that they have in sections of policies; some have begun with ``scheduler_``.
_IN_SECTIONS = {name: one for (_, name), one in NAMING_CLASSES.items() if one is not _SELECTORS}
_IN_SECTIONS["default_filters"] = _FILTERS


def _named_in(sections: Sections, settings: Settings) -> Iterator[type[SchedulerPlugin]]:
    """Yield the third-party plugins that sections of policies name by their paths.

    An error in one is reported where its policy is made.
    """
    listed = [name.lower() for name in settings.scheduler.policies]
    names = listed or [name for name in sections if not settings.has_group(name)]
    for line in (line for name in names for line in sections.get(name, ())):
        family = _IN_SECTIONS.get(line.name.replace("-", "_").removeprefix("scheduler_"))
        for path in line.value.split(",") if family else ():
            if family is None or "." not in path or path.strip().startswith(NOVA_DRIVERS):
                continue
            with suppress(ConfigurationError):
                yield from family.named([path.strip()])


def _request_filter_classes(settings: Settings) -> list[type[BaseRequestFilter]]:
    """Return all request filters: those that the operator names last, in that order.

    To name one is to give it its place, or to add it; none goes for not being named, so that a
    list cannot open what another filter keeps shut.
    """
    known = _REQUEST_FILTERS.known()
    listed = _listed(_REQUEST_FILTERS, settings.scheduler.request_filters, "request filter")
    return list(dict.fromkeys([*(kind for kind in known if kind not in listed), *listed]))


def _listed_selectors(settings: Settings) -> list[type[BasePolicySelector]]:
    return _listed(_SELECTORS, settings.scheduler.policy_selection, "selector")


def _listed(family: _Family[Listed], names: Iterable[str], noun: str) -> list[type[Listed]]:
    """Return the classes that names mean, in their order: their own names, or dotted paths."""
    known = family.known()
    by_name = {name: kind for kind in known for name in (kind.__name__, kind.name, *kind.aliases)}
    listed: list[type[Listed]] = []
    for name in dict.fromkeys(names):
        if name in by_name:
            listed.append(by_name[name])
        elif "." in name:
            listed += family.named([name])
        else:
            hint = suggestion(name, by_name)
            raise ConfigurationError(f"{family.option}: unknown {noun} {name!r}{hint}")
    return list(dict.fromkeys(listed))


def _weigher_classes(settings: Settings) -> list[type[BaseHostWeigher]]:
    named = _WEIGHERS.named(settings.filter_scheduler.weight_classes)
    every = dict.fromkeys([*named, *_WEIGHERS.announced()])
    return [kind for kind in every if kind.is_wanted(settings)]


def _filter_classes(settings: Settings) -> list[type[BaseHostFilter]]:
    """Return the enabled filters, each of which must be among the available ones."""
    options, enabled = settings.filter_scheduler, "[filter_scheduler] enabled_filters"
    available = [*_FILTERS.announced(), *_FILTERS.named(options.available_filters)]
    by_name = {kind.__name__: kind for kind in available}
    found: list[type[BaseHostFilter]] = []
    for name in dict.fromkeys(options.enabled_filters):
        if "." in name:
            found += _FILTERS.named([name], enabled)[:1]
        elif name in by_name:
            found.append(by_name[name])
        else:
            what = f"{enabled}: unknown filter {name!r}{suggestion(name, by_name)}"
            raise ConfigurationError(what)
    return found


def _driver_class(settings: Settings) -> type[BaseDriver]:
    """Return the driver: by its name, or by a dotted path ours, nova's or third-party."""
    given = settings.scheduler.driver
    by_name = {name: kind for kind in all_drivers() for name in (kind.name, kind.__name__)}
    name = given.rpartition(".")[2] if given.startswith(NOVA_DRIVERS) else given
    if name in by_name:
        return by_name[name]
    if "." in given and name == given:
        return _DRIVERS.named([given])[0]
    hint = suggestion(name, by_name)
    raise ConfigurationError(f"[scheduler] driver: unknown driver {given!r}{hint}")


def all_announced() -> list[type[SchedulerPlugin]]:
    """Return the plugins of all kinds that installed packages announce."""
    return [kind for family in _ANNOUNCED for kind in family.announced()]

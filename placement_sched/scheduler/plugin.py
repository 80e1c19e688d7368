"""What request filters, host filters and weighers have in common."""

import importlib
import logging
import pkgutil
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache, lru_cache
from types import ModuleType, TracebackType
from typing import Any, ClassVar, Self, TypeVar

from oslo_config import cfg
from oslo_log import log

from placement_sched import errors
from placement_sched.config.conf import CONF, in_effect, settings_in_effect
from placement_sched.config.opts import described
from placement_sched.config.settings import Settings
from placement_sched.model.clock import Clock, utcnow

LOG = log.getLogger(__name__)

PluginClass = TypeVar("PluginClass")

#: An option and the group it is in.
GroupedOption = tuple[str, cfg.Opt]

#: Whether the caller goes on where a plugin fails.
_TOLERANT: ContextVar[bool] = ContextVar("failures of plugins are tolerated", default=False)


class SchedulerPlugin:
    """A plugin with the settings and the clock that were handed to it.

    A class made with no arguments, as nova and its tests make them, reads the process's options
    (``placement_sched.config.CONF``) and the system's clock. The options it declares in
    ``options`` are known to that object as soon as the class exists.
    """

    options: ClassVar[tuple[GroupedOption, ...]] = ()

    #: The policy of server groups that a filter or weigher enforces, if any.
    server_group_policy: ClassVar[str | None] = None

    _settings: Settings | None = None
    _clock: Clock = staticmethod(utcnow)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        register(CONF, cls.options)

    @classmethod
    def with_settings(cls, settings: Settings, clock: Clock = utcnow) -> Self:
        """Return the plugin made with no arguments, but with these settings and this clock.

        Both are there before ``__init__`` runs, so that it may read options.
        """
        plugin = cls.__new__(cls)
        plugin._settings = settings  # noqa: SLF001 - an instance of this very class
        plugin._clock = clock  # noqa: SLF001 - as above
        with in_effect(settings):
            plugin.__init__()  # type: ignore[misc]
        return plugin

    @property
    def settings(self) -> Settings:
        """Return the options in effect: those handed in, else the process's as they are now."""
        return self._settings or settings_in_effect() or Settings.from_conf(CONF)

    def now(self) -> datetime:
        """Return the current time, naive UTC, of the clock handed in."""
        return self._clock()


def in_group(group: str, *options_and_help: Any) -> tuple[GroupedOption, ...]:
    """Return the options of one group, each followed by its help, as a plugin declares them."""
    return tuple((group, option) for option in described(*options_and_help))


def register(conf: cfg.ConfigOpts, options: Iterable[GroupedOption]) -> None:
    """Make ``options`` known to ``conf``; those it knows already stay as they are."""
    for group, option in options:
        conf.register_opt(option, group=None if group == "DEFAULT" else group)


def path_of(kind: type) -> str:
    """Return the dotted path of a class, by which operators know it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def overrides(plugin: object, base: type, names: tuple[str, ...]) -> bool:
    """Return whether a plugin's class overrides any of these methods of its base."""
    kind: type = type(plugin)
    return _overrides(kind, base, names)


@lru_cache(maxsize=1024)  # asked for each instance of a request
def _overrides(kind: type, base: type, names: tuple[str, ...]) -> bool:
    return any(getattr(kind, name, None) is not getattr(base, name, None) for name in names)


class calling(in_effect):  # noqa: N801 - a context manager is named so
    """Run a plugin's code: its settings are in effect, and what it raises names its class.

    Errors of ours and those that are ``blameless`` go up as they are; any other becomes
    :class:`~placement_sched.errors.PluginFailed`, and is logged with its traceback: as an error,
    unless it is :func:`tolerated`.
    """

    __slots__ = ("_blameless", "_kind")

    def __init__(self, plugin: SchedulerPlugin, blameless: Container[BaseException] = ()) -> None:
        """Take the plugin to be called."""
        super().__init__(plugin.settings)
        self._kind, self._blameless = type(plugin), blameless

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise :class:`PluginFailed` in place of what the plugin raised, if it did."""
        super().__exit__(kind, failure, traceback)
        if failure is None or isinstance(failure, errors.Error):
            return
        of_plugin = isinstance(failure, (Exception, GeneratorExit, SystemExit))
        if not of_plugin or failure in self._blameless:
            return
        path = path_of(self._kind)
        level = logging.DEBUG if _TOLERANT.get() else logging.ERROR
        LOG.log(level, "%s failed", path, exc_info=failure)
        reason = errors.one_line(f"{type(failure).__name__}: {_text(failure)}").rstrip(": ")
        raise errors.PluginFailed(f"{path} failed: {reason}") from failure


@contextmanager
def tolerated() -> Iterator[None]:
    """Log what plugins raise for debugging only: the caller catches it, and answers without it."""
    token = _TOLERANT.set(True)
    try:
        yield
    finally:
        _TOLERANT.reset(token)


def _text(failure: BaseException) -> str:
    """Return the message of a failure as text that can be sent, whatever it is made of."""
    try:
        return str(failure).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - of third-party code, of which anything may come
        return "its message cannot be shown"


def classes_in(package: ModuleType, base: type[PluginClass]) -> list[type[PluginClass]]:
    """Return the public subclasses of ``base`` that the package's modules define, by name."""
    return [kind for kind in _classes_of(package) if issubclass(kind, base)]


@cache  # a folder is looked at once: what is in it stays while the process runs
def _classes_of(package: ModuleType) -> list[type]:
    found: list[type] = []
    for module_info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(module_info.name)
        # What a module only imports is another one's plugin.
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and value.__module__ == module.__name__
            and not value.__name__.startswith("_")
        ]
    return sorted(found, key=lambda kind: kind.__name__)

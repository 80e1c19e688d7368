# SPDX-License-Identifier: Apache-2.0
"""Base class of plugins, and the calls of their methods."""

import importlib
import logging
import pkgutil
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from inspect import currentframe
from pathlib import Path
from traceback import extract_tb
from types import ModuleType, TracebackType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from oslo_config import cfg
from oslo_log import log

from placement_sched import errors
from placement_sched.config.conf import CONF, in_effect
from placement_sched.config.settings import SETTINGS_IN_EFFECT, Settings, with_help
from placement_sched.model.clock import Clock, utcnow

LOG = log.getLogger(__name__)

PluginClass = TypeVar("PluginClass")

#: The group of an option, and the option.
GroupedOption = tuple[str, cfg.Opt]

_PACKAGE, _STANDARD_LIBRARY = Path(__file__).parents[1], Path(sysconfig.get_path("stdlib"))
#: Whether the caller continues after a failure of a plugin.
_TOLERANT: ContextVar[bool] = ContextVar("failures of plugins are tolerated", default=False)


class MissingName(NamedTuple):
    """A name of nova that a plugin reads and this service lacks.

    The plugin may hide the error of the read, and then decides without the value. So each read is
    logged once, and collected for explanations and ``plugin check``.
    """

    file: str
    line: int
    name: str
    problem: str


#: The names that the current calls of plugins have read, a mapping for each call.
_READS: ContextVar[tuple[dict[MissingName, None], ...]] = ContextVar("missing names", default=())
#: Functions of this package between the code that reads a name and :func:`record_missing`.
_READING = {"__getattr__", "get_missing", "find_spec", "build_missing_error"}
_READING |= {"build_attribute_error", "get", "__getitem__", "record_missing", "_find_reader"}


def record_missing(name: str, problem: str) -> None:
    """Record that a plugin reads a missing name.

    Reads by this package itself, such as the checks of a plugin's source, are not recorded.
    """
    place = _find_reader()
    if place is None or name.rpartition(".")[2].startswith("__"):
        return
    missing = MissingName(*place, name, problem)
    for reads in _READS.get():
        reads[missing] = None
    log_missing_once(missing)


@cache
def log_missing_once(missing: MissingName) -> None:
    """Log a missing name, unless the process has logged it."""
    LOG.warning("%s:%d: %s", missing.file, missing.line, missing.problem)


def _find_reader() -> tuple[str, int] | None:
    """Return file and line of the code that reads a name, None for our own."""
    frame = currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        is_own = file.startswith(f"{_PACKAGE}/")
        # The standard library imports modules, and reads attributes of data classes.
        if not _is_standard(file) and not (is_own and frame.f_code.co_name in _READING):
            # oslo.log looks for attributes of contexts that services may have.
            return None if is_own or "/oslo_log/" in file else (file, frame.f_lineno)
        frame = frame.f_back
    return None


@contextmanager
def collect_missing() -> Iterator[dict[MissingName, None]]:
    """Yield a mapping whose keys will be the missing names that plugins read."""
    reads: dict[MissingName, None] = {}
    token = _READS.set((*_READS.get(), reads))
    try:
        yield reads
    finally:
        _READS.reset(token)


class LookupsUnreadable(Exception):
    """A plugin reads the cloud outside of a request."""


class SchedulerPlugin:
    """A plugin with its settings and clock.

    A plugin that is created without arguments, as in nova's tests, reads the options of the process
    (``placement_sched.config.CONF``) and the system clock. Defining a class registers its
    ``options`` in ``CONF``.
    """

    options: ClassVar[tuple[GroupedOption, ...]] = ()

    #: The server group policy that a filter or weigher enforces, if any.
    server_group_policy: ClassVar[str | None] = None

    _settings: Settings | None = None
    _clock: Clock = staticmethod(utcnow)
    #: The names of nova that ``__init__`` has read although they are missing.
    _missing_names: Iterable[MissingName] = ()
    #: Whether ``__init__`` must be called again, because it reads the cloud.
    _is_deferred = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        register(CONF, cls.options)

    @classmethod
    def with_settings(cls, settings: Settings, clock: Clock = utcnow) -> Self:
        """Build a plugin whose ``__init__`` reads these settings and this clock."""
        plugin = cls.__new__(cls)
        plugin._settings = settings  # noqa: SLF001 - an instance of this very class
        plugin._clock = clock  # noqa: SLF001 - as above
        with in_effect(settings):
            plugin._initialize()  # noqa: SLF001 - as above
        return plugin

    def _initialize(self) -> None:
        """Call ``__init__``, or defer the call to a request if it reads the cloud."""
        self._is_deferred = False
        with collect_missing() as reads:
            try:
                self.__init__()  # type: ignore[misc]
            except LookupsUnreadable:
                self._is_deferred = True
        self._missing_names = reads

    @property
    def settings(self) -> Settings:
        """Return the settings of the plugin, or of the process."""
        return self._settings or SETTINGS_IN_EFFECT.get() or Settings.from_conf(CONF)

    def now(self) -> datetime:
        """Return the current time by the plugin's clock, as naive UTC."""
        return self._clock()


def build_group_options(group: str, *options_and_help: Any) -> tuple[GroupedOption, ...]:
    """Return options of a group, given as options each followed by its help."""
    return tuple((group, option) for option in with_help(*options_and_help))


def register(conf: cfg.ConfigOpts, options: Iterable[GroupedOption]) -> None:
    """Register the ``options`` that ``conf`` does not have yet."""
    for group, option in options:
        conf.register_opt(option, group=None if group == "DEFAULT" else group)


def get_class_path(plugin_class: type) -> str:
    """Return the dotted path of a class, as configuration files contain it."""
    return f"{plugin_class.__module__}.{plugin_class.__qualname__}"


def has_overrides(plugin_class: type, base: type, names: tuple[str, ...]) -> bool:
    """Return whether a plugin's class overrides any of these methods."""
    return any(getattr(plugin_class, name, None) is not getattr(base, name, None) for name in names)


#: SQLAlchemy's errors, by name, because modules that plugins import may not import SQLAlchemy.
_DATABASE_ERRORS = frozenset(
    f"sqlalchemy.exc.{name}" for name in ("DBAPIError", "PendingRollbackError", "TimeoutError")
)


class PluginCall(in_effect):
    """Run code of a plugin under its settings, and name the plugin in errors.

    Subclasses of :class:`~placement_sched.errors.Error` and errors of the database are raised
    unchanged. Any other error is raised as :class:`~placement_sched.errors.PluginFailed`. Its
    traceback is logged at level error, or at level debug within :func:`tolerate_failures`.
    """

    __slots__ = ("_plugin", "_plugin_class", "_reads", "_reads_token")

    def __init__(self, plugin: SchedulerPlugin) -> None:
        super().__init__(plugin.settings)
        self._plugin, self._plugin_class = plugin, type(plugin)
        self._reads: dict[MissingName, None] = dict.fromkeys(plugin._missing_names)  # noqa: SLF001 - of this module

    def __enter__(self) -> Self:
        self._reads_token = _READS.set((*_READS.get(), self._reads))
        for missing in self._reads:
            log_missing_once(missing)
        super().__enter__()
        if self._plugin._is_deferred:  # noqa: SLF001 - of this module
            try:
                self._plugin._initialize()  # noqa: SLF001 - of this module
            except BaseException as failure:
                self.__exit__(type(failure), failure, failure.__traceback__)
                raise
        return self

    @property
    def missing_names(self) -> tuple[str, ...]:
        """Return the names that the plugin has read and the shim lacks."""
        return tuple(dict.fromkeys(each.name for each in self._reads)) if self._reads else ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise :class:`PluginFailed` if the plugin's code has raised an error."""
        _READS.reset(self._reads_token)
        super().__exit__(kind, failure, traceback)
        if failure is None or isinstance(failure, errors.Error):
            return
        is_of_plugin = isinstance(failure, (Exception, GeneratorExit, SystemExit))
        # Plugins may read aggregates and instances from the database.
        if not is_of_plugin or _DATABASE_ERRORS & set(map(get_class_path, type(failure).__mro__)):
            return
        path = get_class_path(self._plugin_class)
        level = logging.DEBUG if _TOLERANT.get() else logging.ERROR
        LOG.log(level, "%s failed", path, exc_info=failure)
        reason = errors.format_one_line(
            f"{type(failure).__name__}: {_format_safely(failure)}"
        ).rstrip(": ")
        place = _find_place(self._plugin_class, failure)
        raise errors.PluginFailed(f"{path} failed: {reason}{place}") from failure


def _find_place(plugin_class: type, failure: BaseException) -> str:
    """Describe the place of a failure in a third-party plugin, with advice."""
    if plugin_class.__module__.startswith("placement_sched."):
        return ""
    frames = extract_tb(failure.__traceback__)
    plugin_frames = [frame for frame in frames if not is_library(frame.filename)]
    place = (
        f"{plugin_frames[-1].filename}:{plugin_frames[-1].lineno}" if plugin_frames else "this file"
    )
    owner = type(failure.obj) if isinstance(failure, AttributeError) else object
    hint = ""
    if owner.__name__ == "HostState":
        hint = f". An entry point placement_sched.host_attributes can add it (see {PAGE})"
    elif owner.__module__.startswith("placement_sched.") and PAGE not in _format_safely(failure):
        hint = f", see {PAGE}"
    return f" ({place}){hint}{format_advice(plugin_class)}"


def format_advice(plugin_class: type) -> str:
    """Return the advice that ends the message about a failed plugin."""
    return f". Run placement-sched plugin check {get_class_path(plugin_class)}"


def is_library(file: str) -> bool:
    """Return whether a file is part of this package, Python or oslo.config."""
    return file.startswith(f"{_PACKAGE}/") or "/oslo_config/" in file or _is_standard(file)


def _is_standard(file: str) -> bool:
    return file.startswith(("<", f"{_STANDARD_LIBRARY}/")) and "site-packages" not in file


#: The chapter of the guide about plugins, for messages.
PAGE = '"Bring your filters" in the guide'


@contextmanager
def tolerate_failures() -> Iterator[None]:
    """Log failures of plugins at level debug in this context."""
    token = _TOLERANT.set(True)
    try:
        yield
    finally:
        _TOLERANT.reset(token)


def _format_safely(failure: BaseException) -> str:
    """Return the message of an error as text that UTF-8 can encode."""
    try:
        return str(failure).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - third-party code may raise anything
        return "its message cannot be shown"


def list_classes(package: ModuleType, base: type[PluginClass]) -> list[type[PluginClass]]:
    """List a package's public subclasses of ``base``, sorted by name."""
    return [cls for cls in _load_classes(package) if issubclass(cls, base)]


@cache  # the modules of a package do not change while the process runs
def _load_classes(package: ModuleType) -> list[type]:
    classes: list[type] = []
    for module_info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(module_info.name)
        # A class that a module only imports belongs to another module.
        classes += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and value.__module__ == module.__name__
            and not value.__name__.startswith("_")
        ]
    return sorted(classes, key=lambda cls: cls.__name__)

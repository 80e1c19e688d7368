"""The process's oslo.config object, and how a fresh one is made and read."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import TracebackType
from typing import Any, TypeVar

from oslo_config import cfg

from placement_sched.config import logs
from placement_sched.config.options import api, list_opts, mutable_options, notifications, services
from placement_sched.config.options.compute import RATIOS
from placement_sched.config.options.scheduler import POLICY_OPTIONS
from placement_sched.config.opts import Conf
from placement_sched.config.settings import OptionGroup, Settings
from placement_sched.config.sources import files_read, sections_of, with_directories
from placement_sched.errors import ConfigurationError

_SETTINGS: ContextVar[Settings | None] = ContextVar("settings in effect", default=None)


def settings_in_effect() -> Settings | None:
    """Return the settings that a plugin running now is to see, or None outside of a run."""
    return _SETTINGS.get()


class in_effect:  # noqa: N801 - a context manager is named so
    """Let the process's oslo.config object show ``settings`` to this thread for a while.

    (A class, as a generator takes longer: each plugin is called for each instance of a request.)
    """

    __slots__ = ("_settings", "_token")

    def __init__(self, settings: Settings) -> None:
        """Take the settings to be shown."""
        self._settings = settings

    def __enter__(self) -> None:
        """Show them from now on."""
        self._token = _SETTINGS.set(self._settings)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Show what was shown before."""
        _SETTINGS.reset(self._token)


class _Group:
    """A group of the settings in effect; what they lack is asked of oslo.config."""

    def __init__(self, settings: OptionGroup, name: str, conf: "ProcessConf") -> None:
        self._settings, self._name, self._conf = settings, name, conf

    def __getattr__(self, option: str) -> Any:
        """Return the option's value in effect."""
        if option in self._settings:
            return getattr(self._settings, option)
        return getattr(self._conf.own(self._name), option)

    __getitem__ = __getattr__

    def __contains__(self, option: str) -> bool:
        return hasattr(self, option)


class ProcessConf(Conf):
    """An oslo.config object that shows the settings in effect, where there are any."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str], cfg.Opt] = {}
        super().__init__()

    def note(self, options: Mapping[tuple[str, str], cfg.Opt]) -> None:
        """Remember options, by group and name, that a plugin's module registered when imported."""
        self._noted.update(options)

    def noted(self) -> list[tuple[str, cfg.Opt]]:
        """Return group and option of those noted so far, by group and name."""
        return [(place[0], self._noted[place]) for place in sorted(self._noted)]

    def register_noted(self, conf: Conf) -> None:
        """Make the options noted so far known to ``conf``; what it has under such a name stays."""
        for (group, name), option in self._noted.items():
            if name not in conf.registered.get(group, {}):
                conf.register_opt(option, group=None if group == "DEFAULT" else group)

    def __getattr__(self, name: str) -> Any:
        """Return an option or group; :class:`oslo_config.cfg.NoSuchOptError` as oslo.config."""
        settings = _SETTINGS.get()
        if settings is None:
            return super().__getattr__(name)
        if name in settings.DEFAULT:
            return getattr(settings.DEFAULT, name)
        group = getattr(settings, name, None)
        return _Group(group, name, self) if isinstance(group, OptionGroup) else self.own(name)

    def own(self, name: str) -> Any:
        """Return the option or group of this object itself, whatever settings are in effect."""
        return super().__getattr__(name)


AnyConf = TypeVar("AnyConf", bound=cfg.ConfigOpts)


def new_conf() -> Conf:
    """Return an oslo.config object that knows every option of the core, with nothing read yet."""
    return _with_options(Conf())


def _with_options(conf: AnyConf) -> AnyConf:
    for module in (logs, api, services, notifications):
        module.register(conf)
    for group, options in list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    return conf


@lru_cache
def restart_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options that are read when the server starts, and not again.

    Options of plugins, shipped or not, are not among them: those are read per request.
    """
    # oslo.config learns of these two only when files are read.
    read = {("DEFAULT", "config_file"), ("DEFAULT", "config_dir")}
    known = {(group, name) for group, members in new_conf().registered.items() for name in members}
    return frozenset(known | read) - mutable_options()


def server_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options that cannot differ from request to request."""
    return restart_options() | RATIOS | POLICY_OPTIONS


def read_files(conf: AnyConf, files: Sequence[str] = (), *, alone: bool = False) -> AnyConf:
    """Read ``files`` (INI) and the ``OS_<GROUP>__<OPTION>`` environment into ``conf``; return it.

    The files of the directory ``<file>.d`` come after a file.
    With ``alone`` nothing but the files is read, whatever this machine is configured to. Raises
    :class:`ConfigurationError` with the file and the reason where one cannot be read.
    """
    if isinstance(conf, Conf):
        conf.environment_is_read = not alone
    every = with_directories(files)
    try:
        conf(
            args=[],
            project="placement_sched",
            default_config_files=every,
            version="",
            use_env=not alone,
            default_config_dirs=[] if alone or files else None,
        )
    except cfg.ConfigFilesNotFoundError as missing:
        absent = ", ".join(missing.config_files)
        raise ConfigurationError(f"configuration file not found: {absent}") from None
    except (cfg.Error, ValueError, OSError) as wrong:
        raise ConfigurationError(f"configuration: {' '.join(str(wrong).split())}") from None
    if "api" in conf:  # not where a part of the options is read, as for oslo.messaging
        conf.clear_default(api.STRATEGY, "api")
        # OpenStack's placement has keystone as its default: a file that describes the identity
        # service is meant for that.
        in_files = sections_of(files_read(conf)).get(api.KEYSTONE_GROUP)
        prefix = f"OS_{api.KEYSTONE_GROUP.upper()}__"
        if in_files or (not alone and any(name.startswith(prefix) for name in os.environ)):
            conf.set_default(api.STRATEGY, "keystone", "api")
    return conf


#: What plugins import in place of ``nova.conf``, and what a command reads its settings with.
CONF = _with_options(ProcessConf())


@contextmanager
def noting_options() -> Iterator[None]:
    """Note the options that plugins register while they are imported or made.

    They register them with ``placement_sched.config.CONF`` or with ``oslo_config.cfg.CONF``. They
    stay known while the process runs, as the module does.
    """
    before = _registered()
    try:
        yield
    finally:
        CONF.note({place: one for place, one in _registered().items() if place not in before})


def share_files(conf: Conf) -> Conf:
    """Read the files of ``conf`` into the objects with which plugins register options; return it.

    Options that a plugin registers later, in ``__init__`` or at first use, then have the values of
    the files. An object that has read these files already keeps what it has.
    """
    for other in _seen_by_plugins():
        if other is not conf and _files_of(other) != _files_of(conf):
            read_files(other, conf.config_file, alone=not conf.environment_is_read)
    return conf


def _files_of(conf: Conf) -> tuple[list[str], list[str]] | None:
    return (conf.config_file, conf.config_dir) if "config_file" in conf else None


def _seen_by_plugins() -> tuple[ProcessConf, ProcessConf]:
    """Return what plugins see as ``oslo_config.cfg.CONF``, and CONF.

    In nova that is the same object as ``nova.conf.CONF``. Here it is another one, as plugins of old
    releases register options with it that have other defaults in CONF. While a plugin runs, both
    show the settings in effect.
    """
    if not isinstance(cfg.CONF, ProcessConf):
        cfg.CONF = ProcessConf()
    return cfg.CONF, CONF


def _registered() -> dict[tuple[str, str], cfg.Opt]:
    return {
        (group, name): option
        for conf in _seen_by_plugins()
        for group, members in conf.registered.items()
        for name, option in members.items()
    }

# SPDX-License-Identifier: Apache-2.0
"""The process's oslo.config object, and functions that create and read such objects."""

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
from placement_sched.config.sources import list_files, sections_of, with_directories
from placement_sched.errors import ConfigurationError

_SETTINGS: ContextVar[Settings | None] = ContextVar("settings in effect", default=None)

AnyConf = TypeVar("AnyConf", bound=cfg.ConfigOpts)


def settings_in_effect() -> Settings | None:
    """Return the settings of the running plugin, or None outside of a run."""
    return _SETTINGS.get()


class in_effect:  # noqa: N801 - a context manager is named so
    """Context manager that makes ``CONF`` return ``settings`` in this thread.

    It is a class because a generator is slower, and plugins run for each instance of a request.
    """

    __slots__ = ("_settings", "_token")

    def __init__(self, settings: Settings) -> None:
        """Store the settings."""
        self._settings = settings

    def __enter__(self) -> None:
        """Activate the settings."""
        self._token = _SETTINGS.set(self._settings)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the previous settings."""
        _SETTINGS.reset(self._token)


class _Group:
    """A group of the settings in effect, with oslo.config's values of other options."""

    def __init__(self, settings: OptionGroup, name: str, conf: "ProcessConf") -> None:
        self._settings, self._name, self._conf = settings, name, conf

    def __getattr__(self, option: str) -> Any:

        if option in self._settings:
            return getattr(self._settings, option)
        return getattr(self._conf.own(self._name), option)

    __getitem__ = __getattr__

    def __contains__(self, option: str) -> bool:
        return hasattr(self, option)


class ProcessConf(Conf):
    """An oslo.config object that returns the settings in effect, if there are any."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str], cfg.Opt] = {}
        super().__init__()

    def note(self, options: Mapping[tuple[str, str], cfg.Opt]) -> None:
        """Record the options that a plugin's module registered at import, by group and name."""
        self._noted.update(options)

    def noted(self) -> list[tuple[str, cfg.Opt]]:
        """Return group and option of the recorded options, sorted by group and name."""
        return [(key[0], self._noted[key]) for key in sorted(self._noted)]

    def register_noted(self, conf: Conf) -> None:
        """Register the recorded options in ``conf``, except used names."""
        for (group, name), option in self._noted.items():
            if name not in conf.registered.get(group, {}):
                conf.register_opt(option, group=None if group == "DEFAULT" else group)

    def __getattr__(self, name: str) -> Any:

        settings = _SETTINGS.get()
        if settings is None:
            return super().__getattr__(name)
        if name in settings.DEFAULT:
            return getattr(settings.DEFAULT, name)
        group = getattr(settings, name, None)
        return _Group(group, name, self) if isinstance(group, OptionGroup) else self.own(name)

    def import_opt(self, name: str, module_str: str, group: Any = None) -> None:
        """Check that an option of nova exists, without an import of its module."""
        is_nova = module_str.partition(".")[0] == "nova"
        if not is_nova or name not in CONF.registered.get(str(group or "DEFAULT"), {}):
            super().import_opt(name, module_str, group)

    def own(self, name: str) -> Any:
        """Return an option or group of this object, ignoring the settings in effect."""
        return super().__getattr__(name)


def new_conf() -> Conf:
    """Create an oslo.config object with every core option, before any file is read."""
    return _register_core_options(Conf())


def _register_core_options(conf: AnyConf) -> AnyConf:
    for module in (logs, api, services, notifications):
        module.register(conf)
    for group, options in list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    return conf


@lru_cache
def restart_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options that are read only when the server starts.

    Options of plugins are never among them: they are read per request.
    """
    # oslo.config registers these two only when it reads files.
    read = {("DEFAULT", "config_file"), ("DEFAULT", "config_dir")}
    registered = {
        (group, name) for group, members in new_conf().registered.items() for name in members
    }
    return frozenset(registered | read) - mutable_options()


def server_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options that cannot differ between requests."""
    return restart_options() | RATIOS | POLICY_OPTIONS


def read_files(conf: AnyConf, files: Sequence[str] = (), *, alone: bool = False) -> AnyConf:
    """Read INI files and the ``OS_<GROUP>__<OPTION>`` environment into ``conf``.

    The files of the directory ``<file>.d`` are read after a file. With ``alone`` only ``files`` are
    read, without the environment and default directories. Returns ``conf``. Raises
    :class:`ConfigurationError` if a file cannot be read.
    """
    if isinstance(conf, Conf):
        conf.environment_is_read = not alone
    all_files = with_directories(files)
    try:
        conf(
            args=[],
            project="placement_sched",
            default_config_files=all_files,
            version="",
            use_env=not alone,
            default_config_dirs=[] if alone or files else None,
        )
    except cfg.ConfigFilesNotFoundError as missing:
        absent = ", ".join(missing.config_files)
        raise ConfigurationError(f"configuration file not found: {absent}") from None
    except (cfg.Error, ValueError, OSError) as failure:
        raise ConfigurationError(f"configuration: {' '.join(str(failure).split())}") from None
    if "api" in conf:  # it may have only some of the options, as for oslo.messaging
        conf.clear_default(api.STRATEGY, "api")
        # OpenStack placement's default is keystone: a file that describes the identity service
        # expects it.
        in_files = sections_of(list_files(conf)).get(api.KEYSTONE_GROUP)
        prefix = f"OS_{api.KEYSTONE_GROUP.upper()}__"
        if in_files or (not alone and any(name.startswith(prefix) for name in os.environ)):
            conf.set_default(api.STRATEGY, "keystone", "api")
    return conf


#: The process's object: plugins import it in place of ``nova.conf``, and commands read it.
CONF = _register_core_options(ProcessConf())


@contextmanager
def track_registered_options() -> Iterator[None]:
    """Record the options that plugins register while they are imported or created.

    Plugins register options in ``placement_sched.config.CONF`` or ``oslo_config.cfg.CONF``. The
    options remain registered while the process runs.
    """
    existing = _registered_options()
    try:
        yield
    finally:
        CONF.note(
            {key: option for key, option in _registered_options().items() if key not in existing}
        )


def share_files(conf: Conf) -> Conf:
    """Read the files of ``conf`` into plugins' oslo.config objects, and return ``conf``.

    Options that a plugin registers later, in ``__init__`` or at first use, then have the values of
    the files. An object that has already read the files is left unchanged.
    """
    for plugin_conf in _plugin_confs():
        if plugin_conf is not conf and _files_of(plugin_conf) != _files_of(conf):
            read_files(plugin_conf, conf.config_file, alone=not conf.environment_is_read)
    return conf


def _files_of(conf: Conf) -> tuple[list[str], list[str]] | None:
    return (conf.config_file, conf.config_dir) if "config_file" in conf else None


def _plugin_confs() -> tuple[ProcessConf, ProcessConf]:
    """Return ``oslo_config.cfg.CONF``, as :class:`ProcessConf`, and CONF.

    In nova both are the same object. In this service they differ, because plugins of old releases
    register options in ``cfg.CONF`` that have other defaults in CONF. While a plugin runs, both
    return the settings in effect.
    """
    if not isinstance(cfg.CONF, ProcessConf):
        cfg.CONF = ProcessConf()
    return cfg.CONF, CONF


def _registered_options() -> dict[tuple[str, str], cfg.Opt]:
    return {
        (group, name): option
        for conf in _plugin_confs()
        for group, members in conf.registered.items()
        for name, option in members.items()
    }

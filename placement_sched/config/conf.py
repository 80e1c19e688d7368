# SPDX-License-Identifier: Apache-2.0
"""The process's oslo.config object, and functions for such objects."""

import os
from collections.abc import Sequence
from functools import lru_cache
from types import TracebackType
from typing import Self, TypeVar

from oslo_config import cfg
from oslo_log import log

from placement_sched.config.options import api, list_opts, services
from placement_sched.config.options.compute import RATIOS
from placement_sched.config.options.scheduler import POLICY_OPTIONS
from placement_sched.config.settings import SETTINGS_IN_EFFECT, Conf, Settings
from placement_sched.config.sources import Sections, list_files, read_sections, with_directories
from placement_sched.errors import ConfigurationError
from placement_sched.model.extension import load_hooks

AnyConf = TypeVar("AnyConf", bound=cfg.ConfigOpts)


class in_effect:  # noqa: N801 - a context manager is named so
    """Make ``CONF`` return ``settings`` (a class, as generators are slower)."""

    __slots__ = ("_settings", "_token")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __enter__(self) -> Self:
        self._token = SETTINGS_IN_EFFECT.set(self._settings)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        SETTINGS_IN_EFFECT.reset(self._token)


def create_conf(*, follows_plugins: bool = False) -> Conf:
    """Create an oslo.config object with all core options, and read no files."""
    conf = Conf(follows_plugins=follows_plugins)
    log.register_options(conf)
    api.register(conf)
    services.register(conf)
    register_core_options(conf)
    return conf


def register_core_options(conf: cfg.ConfigOpts) -> None:
    """Register this service's options, but no library options, in ``conf``."""
    for group, options in list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)


@lru_cache
def restart_options() -> frozenset[tuple[str, str]]:
    """Return group and name of the options that are read only at the start."""
    mutable = {
        (group, option.dest)
        for group, options in list_opts()
        for option in options
        if option.mutable
    }
    registered = create_conf().registered.items()
    return frozenset((group, name) for group, members in registered for name in members) - mutable


def list_server_options() -> frozenset[tuple[str, str]]:
    """Return group and name of options that are equal for all requests."""
    access = {("oslo_policy", name) for name in CONF.registered.get("oslo_policy", ())}
    of_extensions = frozenset().union(*load_hooks("server_options"))
    return restart_options() | RATIOS | POLICY_OPTIONS | of_extensions | access


def read_files(
    conf: AnyConf, files: Sequence[str] = (), sections: Sections | None = None
) -> AnyConf:
    """Read INI files and variables ``OS_<GROUP>__<OPTION>`` into ``conf``.

    Returns ``conf``. Raises :class:`ConfigurationError` if a file cannot be read.
    """
    all_files = with_directories(files)
    sections = read_sections(all_files) if sections is None else sections
    try:
        conf(
            args=[],
            project="placement_sched",
            default_config_files=all_files,
            version="",
            default_config_dirs=[],
        )
    except (cfg.Error, ValueError, OSError) as failure:
        raise ConfigurationError(f"configuration: {' '.join(str(failure).split())}") from None
    if isinstance(conf, Conf):
        conf.sections = sections
    if "api" in conf:  # ``conf`` may have only some of the options
        # The default of OpenStack placement is keystone, which a file with options of
        # keystonemiddleware expects.
        prefix = f"OS_{api.KEYSTONE_GROUP.upper()}__"
        if sections.get(api.KEYSTONE_GROUP) or any(name.startswith(prefix) for name in os.environ):
            conf.set_default(api.STRATEGY, "keystone", "api")
        else:
            conf.clear_default(api.STRATEGY, "api")
    return conf


#: The process's object: plugins import it in place of ``nova.conf``, and commands read it. While a
#: plugin runs, it returns the settings of the request.
CONF = create_conf(follows_plugins=True)


def share_files(conf: Conf) -> Conf:
    """Read the files of ``conf`` also into the objects that plugins use."""
    files = list_files(conf)
    for plugin_conf in (cfg.CONF, CONF):
        has_read_files = "config_file" in plugin_conf and list_files(plugin_conf) == files
        if not has_read_files:
            read_files(plugin_conf, files, conf.sections)
        elif plugin_conf is not conf:
            # Values change in a single step, because plugins may be reading options.
            plugin_conf.reload_config_files()
    CONF.sections = conf.sections
    return conf

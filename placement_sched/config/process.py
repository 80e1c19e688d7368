"""The oslo.config object of this process, and how a fresh one is made."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from oslo_config import cfg

from placement_sched.config import api, logs, messaging, middleware, neutron
from placement_sched.config.catalogue import list_opts
from placement_sched.config.environment import Environment
from placement_sched.config.in_effect import ProcessConf
from placement_sched.config.lines import files_read, sections_of
from placement_sched.errors import ConfigurationError

Conf = TypeVar("Conf", bound=cfg.ConfigOpts)


def new_conf() -> cfg.ConfigOpts:
    """Return an oslo.config object that knows every option of the core, with nothing read yet."""
    return _with_options(cfg.ConfigOpts())


def _with_options(conf: Conf) -> Conf:
    # oslo.config has no other way to say where the environment is read.
    conf._env_driver = Environment()  # noqa: SLF001
    logs.register(conf)
    middleware.register(conf)
    neutron.register(conf)
    messaging.register(conf)
    for group, options in list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    return conf


def read_files(conf: cfg.ConfigOpts, files: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read ``files`` (INI) and the ``OS_<GROUP>__<OPTION>`` environment into ``conf``; return it.

    Raises :class:`ConfigurationError` with the file and the reason where one cannot be read.
    """
    return _read(conf, files, use_env=True, default_config_dirs=None)


def read_only_files(conf: cfg.ConfigOpts, files: Sequence[str]) -> cfg.ConfigOpts:
    """Read ``files`` and nothing else, whatever this machine is configured to; return ``conf``.

    Raises :class:`ConfigurationError` as :func:`read_files` does.
    """
    return _read(conf, files, use_env=False, default_config_dirs=[])


def _read(
    conf: cfg.ConfigOpts, files: Sequence[str], *, use_env: bool, **sources: Any
) -> cfg.ConfigOpts:
    try:
        conf(
            args=[],
            project="placement_sched",
            default_config_files=list(files),
            version="",
            use_env=use_env,
            **sources,
        )
    except cfg.ConfigFilesNotFoundError as missing:
        absent = ", ".join(missing.config_files)
        raise ConfigurationError(f"configuration file not found: {absent}") from None
    except (cfg.Error, ValueError, OSError) as wrong:
        raise ConfigurationError(f"configuration: {' '.join(str(wrong).split())}") from None
    if api.GROUP in conf:  # not where a part of the options is read, as for oslo.messaging
        conf.clear_default(api.STRATEGY, api.GROUP)
        if _names_keystone(conf, os.environ if use_env else {}):
            conf.set_default(api.STRATEGY, "keystone", api.GROUP)
    return conf


def _names_keystone(conf: cfg.ConfigOpts, environment: Mapping[str, str]) -> bool:
    """Return whether any option of ``[keystone_authtoken]`` is written, whatever its value.

    OpenStack's placement has keystone as its default: a file that describes the identity service
    is meant for that.
    """
    prefix = f"OS_{api.KEYSTONE_GROUP.upper()}__"
    return bool(sections_of(files_read(conf)).get(api.KEYSTONE_GROUP)) or any(
        variable.startswith(prefix) for variable in environment
    )


CONF = _with_options(ProcessConf())

# In nova there is one object, which plugins brought from there also ask for as oslo.config's own:
# while one of them runs, that shows the settings in effect as well.
cfg.CONF.__class__ = ProcessConf

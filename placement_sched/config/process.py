"""The oslo.config object of this process, and how a fresh one is made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from oslo_config import cfg

from placement_sched.config import logs, messaging, middleware, neutron
from placement_sched.config.catalogue import list_opts
from placement_sched.config.environment import Environment
from placement_sched.config.in_effect import ProcessConf
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


def files_read(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that ``conf`` was read from, in order: what comes later wins."""
    folders = [Path(folder) for folder in conf.config_dir or ()]
    return [
        *(conf.config_file or ()),
        *(str(one) for each in folders for one in sorted(each.glob("*.conf"))),
    ]


def read_only_files(conf: cfg.ConfigOpts, files: Sequence[str]) -> cfg.ConfigOpts:
    """Read ``files`` and nothing else, whatever this machine is configured to; return ``conf``.

    Raises :class:`ConfigurationError` as :func:`read_files` does.
    """
    return _read(conf, files, use_env=False, default_config_dirs=[])


def _read(conf: cfg.ConfigOpts, files: Sequence[str], **sources: Any) -> cfg.ConfigOpts:
    try:
        conf(
            args=[],
            project="placement_sched",
            default_config_files=list(files),
            version="",
            **sources,
        )
    except cfg.ConfigFilesNotFoundError as missing:
        absent = ", ".join(missing.config_files)
        raise ConfigurationError(f"configuration file not found: {absent}") from None
    except (cfg.Error, ValueError, OSError) as wrong:
        raise ConfigurationError(f"configuration: {' '.join(str(wrong).split())}") from None
    return conf


CONF = _with_options(ProcessConf())

# In nova there is one object, which plugins brought from there also ask for as oslo.config's own:
# while one of them runs, that shows the settings in effect as well.
cfg.CONF.__class__ = ProcessConf

"""The oslo.config object of this process, and how a fresh one is made."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.config.catalogue import list_opts
from placement_sched.errors import ConfigurationError


def new_conf() -> cfg.ConfigOpts:
    """Return an oslo.config object that knows every option of the core, with nothing read yet."""
    conf = cfg.ConfigOpts()
    for group, options in list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    return conf


def read_files(conf: cfg.ConfigOpts, files: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read ``files`` (INI) and the ``OS_<GROUP>__<OPTION>`` environment into ``conf``; return it.

    Raises :class:`ConfigurationError` with the file and the reason where one cannot be read.
    """
    try:
        conf(args=[], project="placement_sched", default_config_files=list(files), version="")
    except cfg.ConfigFilesNotFoundError as missing:
        raise ConfigurationError(f"configuration file not found: {missing.config_files}") from None
    except (cfg.Error, ValueError) as wrong:
        raise ConfigurationError(f"configuration: {' '.join(str(wrong).split())}") from None
    return conf


CONF = new_conf()

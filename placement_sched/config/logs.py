"""Logging by oslo.log, with its options (``debug``, ``log_file``, ``use_journal``, ...)."""

from oslo_config import cfg
from oslo_log import log

PRODUCT = "placement_sched"


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know oslo.log's options; as they stand, the log goes to stdout."""
    log.register_options(conf)


def setup(conf: cfg.ConfigOpts) -> None:
    """Start logging as ``conf``, already read, says."""
    log.setup(conf, PRODUCT)

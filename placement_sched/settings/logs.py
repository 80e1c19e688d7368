"""Logging by oslo.log, with its options (``debug``, ``log_file``, ``use_journal``, ...)."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from oslo_config import cfg
from oslo_log import log

from placement_sched.errors import ConfigurationError

PRODUCT = "placement_sched"


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know oslo.log's options; as they stand, the log goes to stderr."""
    log.register_options(conf)


def setup(conf: cfg.ConfigOpts) -> None:
    """Start logging as ``conf``, already read, says.

    Where it says nothing of a place, oslo.log takes stdout, which is for what a command prints.
    Raises :class:`ConfigurationError` where a file that it names cannot be read or written.
    """
    try:
        log.setup(conf, PRODUCT)
    except (log.LogConfigError, OSError) as wrong:
        raise ConfigurationError(f"the log cannot be set up: {wrong}") from None
    if conf.log_config_append:
        return  # a place that the operator names there is meant
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Keep warnings back while a library is loaded that loads eventlet, which warns of its use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

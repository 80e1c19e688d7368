"""Logging by oslo.log, with its options (``debug``, ``log_file``, ``use_journal``, ...)."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.errors import ConfigurationError

PRODUCT = "placement_sched"
#: How messages of libraries begin that say nothing to operators, or advise what they cannot do, by
#: the logger. (``serve`` says itself where there are more workers than cores.)
_UNHELPFUL = {
    "alembic.runtime.migration": ("Context impl ", "Will assume "),
    "_granian": ("Configured number of workers ",),
}


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
    drop_unhelpful()
    # A line that cannot be written, as on a full disk, is lost; its traceback would be one more.
    logging.raiseExceptions = conf.debug
    for handler in logging.getLogger().handlers:
        if type(handler.formatter) is ContextFormatter:
            handler.setFormatter(QuickFormatter.like(handler.formatter))
    if conf.log_config_append:
        return  # a place that the operator names there is meant
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)


def drop_unhelpful() -> None:
    """Keep messages of libraries out of the log that help no operator."""
    for name in _UNHELPFUL:
        logging.getLogger(name).addFilter(_helps)


def _helps(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_UNHELPFUL[record.name])


class QuickFormatter(ContextFormatter):
    """oslo.log's formatter, quicker for the line of a request without an error.

    The same line takes oslo.log half as long as a short read of the database takes. What this does
    not know of, other keys in the format among it, is left to oslo.log.
    """

    _second, _shown = -1, ""

    @classmethod
    def like(cls, one: ContextFormatter) -> "QuickFormatter":
        """Return a formatter whose lines are those of ``one``."""
        return cls(datefmt=one.datefmt, project=one.project, version=one.version, config=one.conf)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        context = getattr(record, "context", None)
        is_plain = record.levelno == logging.INFO and not (record.exc_info or record.stack_info)
        if is_plain and isinstance(context, RequestContext) and sys.exc_info()[0] is None:
            try:
                return self._line(record, context)
            except (KeyError, TypeError, ValueError):
                pass
        return super().format(record)

    def _line(self, record: logging.LogRecord, context: RequestContext) -> str:
        """Return the line; raise :class:`KeyError` where the format has keys not known here."""
        if not context.request_id or context.resource_uuid or self.datefmt is None:
            raise KeyError
        second = int(record.created)
        if second != self._second:
            self._shown, self._second = self.formatTime(record, self.datefmt), second
        caller = {
            "user": context.user_id or "-",
            "project": context.project_id or "-",
            "domain": context.domain_id or "-",
            "system_scope": context.system_scope or "-",
            "user_domain": context.user_domain_id or "-",
            "project_domain": context.project_domain_id or "-",
        }
        values: dict[str, Any] = {
            "asctime": self._shown,
            "msecs": record.msecs,
            "process": record.process,
            "levelname": record.levelname,
            "name": record.name,
            "global_request_id": context.global_request_id,
            "request_id": context.request_id,
            "user_identity": self.conf.logging_user_identity_format % caller,
            "instance": "",
            "message": record.getMessage(),
        }
        line: str = self.conf.logging_context_format_string % values
        return line


@contextmanager
def without_warnings() -> Iterator[None]:
    """Keep warnings back while a library is loaded that loads eventlet, which warns of its use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

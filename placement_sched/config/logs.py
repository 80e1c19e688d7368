# SPDX-License-Identifier: Apache-2.0
"""Logging with oslo.log and its options (``debug``, ``log_file``, ``use_journal``, ...)."""

import faulthandler
import logging
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from threading import Thread
from traceback import TracebackException
from types import TracebackType
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.errors import ConfigurationError, escaped

LOG = log.getLogger(__name__)

PRODUCT = "placement_sched"
#: Prefixes of library messages that are useless to operators, by logger. (``serve`` has its own
#: warning about more workers than cores.)
_USELESS_PREFIXES = {
    "alembic.runtime.migration": ("Context impl ", "Will assume "),
    "_granian": ("Configured number of workers ",),
}
#: Attributes of a record without input from requests: colours are control sequences.
_NOT_ESCAPED = {"color", "exc_text", "stack_info"}


def register(conf: cfg.ConfigOpts) -> None:
    """Register oslo.log's options, whose defaults log to stderr."""
    log.register_options(conf)


def setup(conf: cfg.ConfigOpts) -> None:
    """Start logging with the options of ``conf``, which has been read.

    Without a destination the log goes to stderr instead of oslo.log's stdout, which is for the
    output of commands. Raises :class:`ConfigurationError` if a log file or ``log_config_append``
    cannot be used.
    """
    try:
        log.setup(conf, PRODUCT)
    except (log.LogConfigError, OSError) as failure:
        raise ConfigurationError(f"the log cannot be set up: {failure}") from None
    drop_unhelpful()
    # A line that cannot be written, as on a full disk, is dropped without a traceback.
    logging.raiseExceptions = conf.debug
    for handler in logging.getLogger().handlers:
        if type(handler.formatter) is ContextFormatter:
            handler.setFormatter(EscapingFormatter.like(handler.formatter))
    if conf.log_config_append:
        return  # the operator has configured the handlers
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)


def log_stacks_on_signal() -> None:
    """Let SIGUSR2 write the stacks of all threads to the log of this process and its forks.

    A separate thread writes them, as the signal may interrupt a handler of the log.
    """
    signal.signal(
        signal.SIGUSR2, lambda *_signal: Thread(target=_log_stacks, name="stacks").start()
    )


def _log_stacks() -> None:
    with TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        for line in filter(None, file.read().decode(errors="replace").splitlines()):
            LOG.warning("%s", line)


def report_missing_handler(conf: cfg.ConfigOpts) -> None:
    """Report a ``log_config_append`` without a handler for this service's errors."""
    if conf.log_config_append and not _has_error_handler(logging.getLogger(PRODUCT)):
        sys.stderr.write(
            f"[DEFAULT] log_config_append {conf.log_config_append}: no handler shows errors of "
            f"the logger {PRODUCT}; add a handler to it or to the root logger\n"
        )


def _has_error_handler(logger: logging.Logger) -> bool:
    """Return whether a handler of ``logger`` or its parents accepts errors."""
    current: logging.Logger | None = logger
    if not logger.isEnabledFor(logging.ERROR) or logger.disabled:
        return False
    while current is not None:
        for handler in current.handlers:
            if handler.level <= logging.ERROR and not isinstance(handler, logging.NullHandler):
                return True
        current = current.parent if current.propagate else None
    return False


def drop_unhelpful() -> None:
    """Drop library messages that are useless to operators."""
    for name in _USELESS_PREFIXES:
        logging.getLogger(name).addFilter(_is_useful)


def _is_useful(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_USELESS_PREFIXES[record.name])


class EscapingFormatter(ContextFormatter):
    """oslo.log's formatter with escaped texts, so that no request can forge a log line.

    A traceback keeps its lines, but each exception message in it is a single line.
    """

    @classmethod
    def like(cls, original: ContextFormatter) -> "EscapingFormatter":
        """Return a formatter with the configuration of another."""
        return cls(
            datefmt=original.datefmt,
            project=original.project,
            version=original.version,
            config=original.conf,
        )

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line of a record in the operator's format, with escaped texts."""
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        texts = {
            key: escaped(value)
            for key, value in record.__dict__.items()
            if isinstance(value, str) and key not in _NOT_ESCAPED
        }
        return super().formatMessage(logging.makeLogRecord(record.__dict__ | texts))

    def formatException(  # noqa: N802 - as above
        self, ei: Any, *, record: logging.LogRecord | None = None
    ) -> str:
        """Return a traceback, each line with the operator's prefix."""
        lines = _traceback(ei[1], ei[2])
        if record is None:
            return "\n".join(lines)
        empty = super().formatException((None, None, None), record=record)
        prefix = empty.partition("NoneType: None\n")[2]
        # oslo.log adds an empty line.
        return "\n".join(prefix + line for line in [*lines, ""])


def _traceback(failure: BaseException | None, frames: TracebackType | None) -> list[str]:
    """Return the lines of a traceback.

    The messages and notes of the exception, its causes and the members of a group are escaped.
    """
    if failure is None:  # logged outside of an exception handler
        return ["NoneType: None"]
    report = TracebackException(type(failure), failure, frames)
    pending: list[TracebackException | None] = [report]
    while pending:
        current = pending.pop()
        if current is not None:
            _escape(current)
            pending += [current.__cause__, current.__context__, *(current.exceptions or ())]
    return "".join(report.format()).removesuffix("\n").split("\n")


def _escape(report: TracebackException) -> None:
    """Escape the message and notes of an exception, and the source of a SyntaxError."""
    # ``_str`` is the message; ``filename``, ``text`` and ``msg`` belong to a SyntaxError.
    for name in ("_str", "filename", "text", "msg"):
        text = getattr(report, name, None)
        if isinstance(text, str):
            setattr(report, name, escaped(text.removesuffix("\n")))
    notes: Any = report.__notes__  # a plugin may have set any value
    if notes is not None:
        values = notes if isinstance(notes, list | tuple) else [notes]
        report.__notes__ = [escaped(str(note)) for note in values]


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress eventlet's warning about its use while a library loads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

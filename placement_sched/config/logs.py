"""Logging by oslo.log, with its options (``debug``, ``log_file``, ``use_journal``, ...)."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import TracebackException
from types import TracebackType
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.errors import ConfigurationError, escaped

PRODUCT = "placement_sched"
#: How messages of libraries begin that say nothing to operators, or advise what they cannot do, by
#: the logger. (``serve`` says itself where there are more workers than cores.)
_UNHELPFUL = {
    "alembic.runtime.migration": ("Context impl ", "Will assume "),
    "_granian": ("Configured number of workers ",),
}
#: Texts of a record that no request makes: colours are sequences of control characters.
_NOT_ESCAPED = {"color", "exc_text", "stack_info"}


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
            handler.setFormatter(EscapingFormatter.like(handler.formatter))
    if conf.log_config_append:
        return  # a place that the operator names there is meant
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)


def report_missing_handler(conf: cfg.ConfigOpts) -> None:
    """Write a line to stderr if ``log_config_append`` has no handler for errors of this service."""
    if conf.log_config_append and not _shows_errors(logging.getLogger(PRODUCT)):
        sys.stderr.write(
            f"[DEFAULT] log_config_append {conf.log_config_append}: no handler shows errors of "
            f"the logger {PRODUCT}; add a handler to it or to the root logger\n"
        )


def _shows_errors(logger: logging.Logger) -> bool:
    """Return whether a handler of ``logger`` or its parents takes errors."""
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
    """Keep messages of libraries out of the log that help no operator."""
    for name in _UNHELPFUL:
        logging.getLogger(name).addFilter(_helps)


def _helps(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_UNHELPFUL[record.name])


class EscapingFormatter(ContextFormatter):
    """oslo.log's formatter with escaped texts: nothing in a request can begin a line of the log.

    The lines of a traceback stay, but the message of an exception in it is one line.
    """

    @classmethod
    def like(cls, one: ContextFormatter) -> "EscapingFormatter":
        """Return a formatter whose lines are those of ``one``."""
        return cls(datefmt=one.datefmt, project=one.project, version=one.version, config=one.conf)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line of a record, its texts escaped; the format is the operator's."""
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
        """Return a traceback, each line after what the operator wants before it."""
        lines = _traceback(ei[1], ei[2])
        if record is None:
            return "\n".join(lines)
        nothing = super().formatException((None, None, None), record=record)
        before = nothing.partition("NoneType: None\n")[2]
        # oslo.log has one more, empty line.
        return "\n".join(before + line for line in [*lines, ""])


def _traceback(failure: BaseException | None, frames: TracebackType | None) -> list[str]:
    """Return the traceback of an exception as lines, none of which a text of it began.

    The messages and notes of the exception, of its causes and of a group are escaped.
    """
    if failure is None:  # it was logged outside of any
        return ["NoneType: None"]
    shown = TracebackException(type(failure), failure, frames)
    waiting: list[TracebackException | None] = [shown]
    while waiting:
        one = waiting.pop()
        if one is not None:
            _escape(one)
            waiting += [one.__cause__, one.__context__, *(one.exceptions or ())]
    return "".join(shown.format()).removesuffix("\n").split("\n")


def _escape(one: TracebackException) -> None:
    """Escape what an exception says, and the source of one that is a wrong syntax."""
    # ``_str`` is the message; ``filename``, ``text`` and ``msg`` are those of a SyntaxError.
    for name in ("_str", "filename", "text", "msg"):
        text = getattr(one, name, None)
        if isinstance(text, str):
            setattr(one, name, escaped(text.removesuffix("\n")))
    notes: Any = one.__notes__  # a plugin may have set it to anything
    if notes is not None:
        each = notes if isinstance(notes, list | tuple) else [notes]
        one.__notes__ = [escaped(str(note)) for note in each]


@contextmanager
def without_warnings() -> Iterator[None]:
    """Keep warnings back while a library is loaded that loads eventlet, which warns of its use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

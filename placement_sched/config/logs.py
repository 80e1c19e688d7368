# SPDX-License-Identifier: Apache-2.0
"""Logging with oslo.log and its options, such as ``debug``."""

import ast
import configparser
import faulthandler
import logging
import os
import signal
import sys
import syslog
from importlib.util import find_spec
from logging.config import BaseConfigurator
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.errors import ConfigurationError, escape_unprintable, format_one_line

LOG = log.getLogger(__name__)

PRODUCT = "placement_sched"
#: Prefixes of library messages that are useless to operators, by logger.
_USELESS_PREFIXES = {
    "alembic.runtime.migration": ("Context impl ", "Will assume "),
    "_granian": ("Configured number of workers ",),
}
#: Attributes of a log record that are not escaped. Requests cannot influence them, and a colour
#: consists of control characters.
_NOT_ESCAPED = {"color", "exc_text", "stack_info"}


def setup(conf: cfg.ConfigOpts, service: str = PRODUCT) -> None:
    """Start logging with the options of ``conf``, which has been read.

    With only ``log_dir``, the file has the name of ``service``, as services may share nova.conf.
    Without a destination the log goes to stderr instead of oslo.log's stdout, which is for the
    output of commands. Raises :class:`ConfigurationError` if a log file or ``log_config_append``
    cannot be used.
    """
    if conf.log_dir and not conf.log_file:
        conf.set_default("log_file", f"{service}.log")
    try:
        log.setup(conf, PRODUCT)
    except Exception as failure:
        reason, file = format_one_line(failure), conf.log_config_append
        if file and file not in reason:
            reason = f"[DEFAULT] log_config_append: {file}: {reason}"
        raise ConfigurationError(f"the log cannot be set up: {reason}") from failure
    drop_unhelpful()
    # A line that cannot be written, as on a full disk, is dropped without a traceback.
    logging.raiseExceptions = conf.debug
    for handler in logging.getLogger().handlers:
        if type(formatter := handler.formatter) is ContextFormatter:
            handler.setFormatter(
                EscapingFormatter(project=PRODUCT, datefmt=formatter.datefmt, config=conf)
            )
    if conf.log_config_append:
        return  # the operator has configured the handlers
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            handler.setStream(sys.stderr)


def format_destination(conf: cfg.ConfigOpts) -> str:
    """Return the end of a start message with the log file, if it is set."""
    if conf.log_config_append:
        return f", log as in {conf.log_config_append}"
    return f", log {Path(conf.log_dir or '', conf.log_file)}" if conf.log_file else ""


def check_destination(conf: cfg.ConfigOpts) -> str | None:
    """Return a warning, or raise :class:`ConfigurationError`, about the log."""
    if conf.log_config_append:
        return _check_logging_file(conf.log_config_append)
    problem = ""
    path = Path(conf.log_dir or "", conf.log_file or f"{Path(sys.argv[0]).name}.log")
    target = path if path.exists() else path.parent
    is_writable = not path.is_dir() and os.access(target, os.W_OK)
    facility = f"LOG_{conf.syslog_log_facility.upper().removeprefix('LOG_')}"
    if (conf.log_file or conf.log_dir) and not is_writable:
        problem = f"log_file or log_dir: {target} is not writable"
    elif conf.use_journal and find_spec("systemd") is None:
        problem = "use_journal: Python has no module systemd. Install systemd-python"
    elif (conf.use_journal or conf.use_syslog) and not getattr(syslog, facility, None):
        problem = f"syslog_log_facility: there is no facility {conf.syslog_log_facility!r}"
    if problem:
        raise ConfigurationError(f"the log cannot be set up: [DEFAULT] {problem}")
    return None


def _check_logging_file(name: str) -> str | None:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(Path(name).read_text(encoding="utf-8"))
        sections = {
            kind: {key: parser[f"{kind}_{key}"] for key in _split(parser[f"{kind}s"]["keys"])}
            for kind in ("formatter", "handler", "logger")
        }
        handlers = {key: section["class"] for key, section in sections["handler"].items()}
        for section in (*sections["formatter"].values(), *sections["handler"].values()):
            kind = section.get("class", "Formatter")
            is_short = hasattr(logging, kind.partition(".")[0])
            BaseConfigurator({}).resolve(f"logging.{kind}" if is_short else kind)
            ast.parse(f"{section.get('args', '()')},{section.get('kwargs', '{}')}", mode="eval")
        loggers = {}
        for key, section in sections["logger"].items():
            logging.Handler().setLevel(section.get("level", "NOTSET"))  # checks the level
            classes = [handlers[each] for each in _split(section["handlers"])]
            loggers["" if key == "root" else section["qualname"]] = section, classes
        root = loggers[""]
    except (KeyError, OSError, SyntaxError, configparser.Error, ValueError) as failure:
        is_missing = isinstance(failure, KeyError)
        problem = f"there is no section or key {failure}" if is_missing else str(failure)
        raise ConfigurationError(
            f"the log cannot be set up: [DEFAULT] log_config_append: {name}: "
            f"{format_one_line(problem)}"
        ) from None
    section, classes = loggers.get(PRODUCT, root)
    if section.get("propagate", "1") != "0" and section is not root[0]:
        classes = [*classes, *root[1]]
    if not classes or not all(each.endswith("NullHandler") for each in classes):
        return None
    return (
        f"[DEFAULT] log_config_append: {name} drops all messages of this service, errors too. Add "
        f"a logger with qualname {PRODUCT} and a handler, or a handler to logger_root"
    )


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def log_stacks_on_signal() -> None:
    """Make SIGUSR2 log the stacks of all threads, from a thread of its own."""

    def log_stacks() -> None:
        with TemporaryFile() as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            for line in filter(None, file.read().decode(errors="replace").splitlines()):
                LOG.warning("%s", line)

    signal.signal(signal.SIGUSR2, lambda *_: Thread(target=log_stacks, name="stacks").start())


def drop_unhelpful() -> None:
    """Drop messages of libraries that are useless to operators."""
    for name in _USELESS_PREFIXES:
        logging.getLogger(name).addFilter(
            lambda record: not str(record.msg).startswith(_USELESS_PREFIXES[record.name])
        )


class EscapingFormatter(ContextFormatter):
    """oslo.log's formatter with escaped texts, which prevents forged lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return a record's first line in the operator's format, escaped."""
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        texts = {
            key: escape_unprintable(value)
            for key, value in record.__dict__.items()
            if isinstance(value, str) and key not in _NOT_ESCAPED
        }
        return super().formatMessage(logging.makeLogRecord(record.__dict__ | texts))

    def formatException(  # noqa: N802 - as above
        self, ei: Any, *, record: logging.LogRecord | None = None
    ) -> str:
        """Return a traceback with escaped lines, each with the operator's prefix."""
        text: str = super().formatException(ei, record=record)
        return "\n".join(map(escape_unprintable, text.split("\n")))

# SPDX-License-Identifier: Apache-2.0
"""Log lines equal the lines of oslo.log, and requests cannot forge lines."""

import logging
from errno import ENOSPC
from io import StringIO

import pytest
from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.api.middleware import RequestContext
from placement_sched.config.logs import EscapingFormatter, drop_unhelpful, setup
from placement_sched.model.context import RequestIds

IDS = RequestIds("req-1", "req-2")
KNOWN = {"X-User-Id": "u", "X-Project-Id": "p", "X-Project-Domain-Id": "d"}
FORMATS = [
    {},
    {"logging_context_format_string": "%(asctime)s %(resource)s %(user_name)s %(message)s"},
    {"logging_context_format_string": "%(isotime)s %(funcName)s %(request_id)s %(message)s"},
    {"logging_user_identity_format": "%(user)s %(project)s %(domain_name)s"},
]


def conf_with_options(options):
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([])
    for name, value in options.items():
        conf.set_override(name, value)
    return conf


def make_escaping_formatter(formatter):
    return EscapingFormatter(datefmt=formatter.datefmt, config=formatter.conf)


def build_record(level=logging.INFO, message="100 %% of %s", args=("this",), **extra):
    record = logging.LogRecord("a.name", level, __file__, 7, message, args, None, "f")
    record.__dict__.update(extra)
    return record


@pytest.mark.parametrize("options", FORMATS)
@pytest.mark.parametrize("known", [{}, KNOWN], ids=["anyone", "known"])
@pytest.mark.parametrize("ids", [RequestIds(), RequestIds("req-1"), IDS])
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG, logging.ERROR])
def test_log_line_equals_oslo_log(options, known, ids, level):
    slow = ContextFormatter(datefmt="%Y-%m-%d %H:%M:%S", config=conf_with_options(options))
    context = RequestContext(ids)
    context.confirm(known)
    for record in (build_record(level, context=context), build_record(level)):
        again = build_record(level, **record.__dict__)
        assert make_escaping_formatter(slow).format(record) == slow.format(again)


def test_useless_log_messages_of_libraries_are_dropped(caplog):
    drop_unhelpful()
    caplog.set_level(logging.INFO)
    alembic = logging.getLogger("alembic.runtime.migration")
    alembic.info("Context impl %s.", "PostgresqlImpl")
    alembic.info("Running upgrade 0001 -> 0002, Create the tables of images.")
    logging.getLogger("_granian").warning("Configured number of workers appears to be higher")
    assert caplog.messages == ["Running upgrade 0001 -> 0002, Create the tables of images."]


@pytest.mark.parametrize(("debug", "shown"), [(False, False), (True, True)])
def test_write_failure_shows_a_traceback_with_debug_only(monkeypatch, capsys, debug, shown):
    root = logging.getLogger()
    for name in ("handlers", "level"):
        monkeypatch.setattr(root, name, [] if name == "handlers" else root.level)
    monkeypatch.setattr(logging, "raiseExceptions", True)
    setup(conf_with_options({"debug": debug}))
    (handler,) = root.handlers
    monkeypatch.setattr(handler, "stream", FullDisk())
    root.error("one more")
    assert ("Traceback" in capsys.readouterr().err) == shown


class FullDisk(StringIO):
    """A file on a full disk."""

    def write(self, _text):
        raise OSError(ENOSPC, "No space left on device")


#: A text that imitates a log line and contains control characters of a terminal.
FORGED = "a\n2026-01-01 ERROR forged\r\x1b[2Jb\x85c\u2028d\u2029e\x07f\udcff"
ESCAPED = r"a\n2026-01-01 ERROR forged\r\x1b[2Jb\x85c\u2028d\u2029e\x07f\udcff"


def format_record(record):
    slow = ContextFormatter(datefmt="%H:%M:%S", config=conf_with_options({}))
    return make_escaping_formatter(slow).format(record)


def build_record_with_exception(failure):
    try:
        raise failure
    except type(failure) as raised:
        return build_record(
            logging.ERROR,
            "%s failed",
            ("it",),
            exc_info=(type(raised), raised, raised.__traceback__),
        )


@pytest.mark.parametrize("level", [logging.INFO, logging.ERROR])
@pytest.mark.parametrize("extra", [{}, {"context": RequestContext(IDS)}], ids=["none", "context"])
def test_newlines_in_a_message_are_escaped(level, extra):
    line = format_record(build_record(level, "zone %s", (FORGED,), **extra))
    assert line.splitlines() == [line]
    assert f"zone {ESCAPED}" in line


def build_chained_exception():
    failure = TypeError("outer")
    failure.__cause__ = ValueError(FORGED)
    return failure


def build_exception_with_note():
    failure = ValueError("noted")
    failure.add_note(FORGED)
    return failure


@pytest.mark.parametrize(
    "failure",
    [
        ValueError(FORGED),
        build_chained_exception(),
        build_exception_with_note(),
        ExceptionGroup("two", [ValueError(FORGED)]),
        SyntaxError(FORGED, (FORGED, 1, 1, FORGED)),
    ],
    ids=["alone", "cause", "note", "group", "syntax"],
)
def test_exception_text_cannot_forge_a_line(failure):
    first, *lines = format_record(build_record_with_exception(failure)).splitlines()
    assert any("Traceback (most recent call last)" in line for line in lines)
    assert any("2026-01-01 ERROR forged" in line for line in lines)
    assert all(line.isprintable() for line in (first, *lines))
    # Each line of the message has the prefix of the log.
    assert all(" ERROR a.name " in line.partition("forged")[0] for line in lines)


def check_text_equals_oslo_log(record):
    slow = ContextFormatter(datefmt="%H:%M:%S", config=conf_with_options({}))
    again = build_record(record.levelno, **record.__dict__)
    assert make_escaping_formatter(slow).format(record) == slow.format(again)


def test_plain_traceback_equals_oslo_log():
    check_text_equals_oslo_log(build_record_with_exception(ValueError("plain")))


def test_log_line_with_empty_exc_info_equals_oslo_log():
    check_text_equals_oslo_log(build_record(logging.ERROR, exc_info=(None, None, None)))


def test_line_during_an_exception_equals_oslo_log():
    try:
        int("why")
    except ValueError:
        check_text_equals_oslo_log(build_record(context=RequestContext(IDS)))


def test_configured_colours_are_kept():
    line = "%(color)s%(message)s\x1b[0m"
    # The thread may have a context of an earlier test.
    formats = {f"logging_{which}_format_string": line for which in ("default", "context")}
    slow = ContextFormatter(datefmt="%H:%M:%S", config=conf_with_options(formats))
    line = make_escaping_formatter(slow).format(
        build_record(message="red", args=(), color="\x1b[31m")
    )
    assert line == "\x1b[31mred\x1b[0m"

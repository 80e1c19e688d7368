# SPDX-License-Identifier: Apache-2.0
"""Log lines equal the lines of oslo.log, and requests cannot forge lines."""

import logging
from errno import ENOSPC
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from io import StringIO

import pytest
from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.api.middleware import RequestContext
from placement_sched.config.logs import (
    EscapingFormatter,
    check_destination,
    drop_unhelpful,
    format_destination,
    setup,
)
from placement_sched.errors import ConfigurationError
from placement_sched.model import extension
from placement_sched.model.context import RequestIds
from placement_sched.operations.config_check import log_warnings
from tests.support.states import read_settings_text

REQUEST_IDS = RequestIds("req-1", "req-2")
CALLER_HEADERS = {"X-User-Id": "u", "X-Project-Id": "p", "X-Project-Domain-Id": "d"}
LOG_FORMAT_OPTIONS = [
    {},
    {"logging_context_format_string": "%(asctime)s %(resource)s %(user_name)s %(message)s"},
    {"logging_context_format_string": "%(isotime)s %(funcName)s %(request_id)s %(message)s"},
    {"logging_user_identity_format": "%(user)s %(project)s %(domain_name)s"},
]


def build_log_conf(options):
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([])
    for name, value in options.items():
        conf.set_override(name, value)
    return conf


def make_escaping_formatter(formatter):
    return EscapingFormatter(datefmt=formatter.datefmt, config=formatter.conf)


def build_log_record(level=logging.INFO, message="100 %% of %s", args=("this",), **extra):
    record = logging.LogRecord("a.name", level, __file__, 7, message, args, None, "f")
    record.__dict__.update(extra)
    return record


@pytest.mark.parametrize("options", LOG_FORMAT_OPTIONS)
@pytest.mark.parametrize("caller", [{}, CALLER_HEADERS], ids=["anyone", "caller"])
@pytest.mark.parametrize("ids", [RequestIds(), RequestIds("req-1"), REQUEST_IDS])
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG, logging.ERROR])
def test_log_line_equals_that_of_oslo_log(options, caller, ids, level):
    slow = ContextFormatter(datefmt="%Y-%m-%d %H:%M:%S", config=build_log_conf(options))
    context = RequestContext(ids)
    context.confirm(caller)
    for record in (build_log_record(level, context=context), build_log_record(level)):
        again = build_log_record(level, **record.__dict__)
        assert make_escaping_formatter(slow).format(record) == slow.format(again)


def test_useless_log_messages_of_libraries_are_dropped(caplog):
    drop_unhelpful()
    caplog.set_level(logging.INFO)
    alembic = logging.getLogger("alembic.runtime.migration")
    alembic.info("Context impl %s.", "PostgresqlImpl")
    alembic.info("Running upgrade 0001 -> 0002, Create the tables of images.")
    logging.getLogger("_granian").warning("Configured number of workers appears to be higher")
    assert caplog.messages == ["Running upgrade 0001 -> 0002, Create the tables of images."]


@pytest.fixture
def root(monkeypatch):
    """Return the root logger without handlers, and restore it later."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    return root


@pytest.mark.parametrize(("debug", "has_traceback"), [(False, False), (True, True)])
def test_failed_log_write_shows_a_traceback_with_debug(
    root, monkeypatch, capsys, debug, has_traceback
):
    monkeypatch.setattr(logging, "raiseExceptions", True)
    setup(build_log_conf({"debug": debug}))
    (handler,) = root.handlers
    monkeypatch.setattr(handler, "stream", FileOnFullDisk())
    root.error("one more")
    assert ("Traceback" in capsys.readouterr().err) == has_traceback


class FileOnFullDisk(StringIO):
    """A file on a full disk."""

    def write(self, _text):
        raise OSError(ENOSPC, "No space left on device")


#: A text that imitates a log line and contains control characters of a terminal.
FORGED_LINE = "a\n2026-01-01 ERROR forged\r\x1b[2Jb\x85c\u2028d\u2029e\x07f\udcff"
ESCAPED_LINE = r"a\n2026-01-01 ERROR forged\r\x1b[2Jb\x85c\u2028d\u2029e\x07f\udcff"


def format_with_escaping(record):
    slow = ContextFormatter(datefmt="%H:%M:%S", config=build_log_conf({}))
    return make_escaping_formatter(slow).format(record)


def build_log_record_of_exception(failure):
    try:
        raise failure
    except type(failure) as raised:
        return build_log_record(
            logging.ERROR,
            "%s failed",
            ("it",),
            exc_info=(type(raised), raised, raised.__traceback__),
        )


@pytest.mark.parametrize("level", [logging.INFO, logging.ERROR])
@pytest.mark.parametrize(
    "extra", [{}, {"context": RequestContext(REQUEST_IDS)}], ids=["none", "context"]
)
def test_newlines_in_a_log_message_are_escaped(level, extra):
    line = format_with_escaping(build_log_record(level, "zone %s", (FORGED_LINE,), **extra))
    assert line.splitlines() == [line]
    assert f"zone {ESCAPED_LINE}" in line


def build_exception_with_cause():
    failure = TypeError("outer")
    failure.__cause__ = ValueError(FORGED_LINE)
    return failure


def build_exception_with_note():
    failure = ValueError("noted")
    failure.add_note(FORGED_LINE)
    return failure


@pytest.mark.parametrize(
    "failure",
    [
        ValueError(FORGED_LINE),
        build_exception_with_cause(),
        build_exception_with_note(),
        ExceptionGroup("two", [ValueError(FORGED_LINE)]),
        SyntaxError(FORGED_LINE, (FORGED_LINE, 1, 1, FORGED_LINE)),
    ],
    ids=["alone", "cause", "note", "group", "syntax"],
)
def test_exception_text_cannot_forge_a_log_line(failure):
    first, *lines = format_with_escaping(build_log_record_of_exception(failure)).splitlines()
    assert any("Traceback (most recent call last)" in line for line in lines)
    assert any("2026-01-01 ERROR forged" in line for line in lines)
    assert all(line.isprintable() for line in (first, *lines))
    # Each line of the message has the prefix of the log.
    assert all(" ERROR a.name " in line.partition("forged")[0] for line in lines)


def assert_log_text_equals_oslo_log(record):
    slow = ContextFormatter(datefmt="%H:%M:%S", config=build_log_conf({}))
    again = build_log_record(record.levelno, **record.__dict__)
    assert make_escaping_formatter(slow).format(record) == slow.format(again)


def test_traceback_in_the_log_equals_that_of_oslo_log():
    assert_log_text_equals_oslo_log(build_log_record_of_exception(ValueError("plain")))


def test_log_line_with_empty_exc_info_equals_that_of_oslo_log():
    assert_log_text_equals_oslo_log(build_log_record(logging.ERROR, exc_info=(None, None, None)))


def test_log_line_during_an_exception_equals_that_of_oslo_log():
    try:
        int("why")
    except ValueError:
        assert_log_text_equals_oslo_log(build_log_record(context=RequestContext(REQUEST_IDS)))


def test_colours_of_the_log_format_are_not_escaped():
    line = "%(color)s%(message)s\x1b[0m"
    # The thread may have a context of an earlier test.
    formats = {f"logging_{which}_format_string": line for which in ("default", "context")}
    slow = ContextFormatter(datefmt="%H:%M:%S", config=build_log_conf(formats))
    line = make_escaping_formatter(slow).format(
        build_log_record(message="red", args=(), color="\x1b[31m")
    )
    assert line == "\x1b[31mred\x1b[0m"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"log_dir": "/var/log/nova"}, "placement-sched-nova-shadow.log"),
        ({"log_dir": "/var/log/nova", "log_file": "own.log"}, "own.log"),
    ],
)
def test_services_with_a_common_log_directory_have_files_of_their_own(monkeypatch, options, name):
    monkeypatch.setattr(log, "setup", lambda *_arguments: None)
    conf = build_log_conf(options)
    setup(conf, "placement-sched-nova-shadow")
    assert format_destination(conf) == f", log /var/log/nova/{name}"


def test_start_line_names_no_log_file_without_a_file():
    assert format_destination(build_log_conf({})) == ""


#: The file of nova's and placement's old guides: the root logger drops messages.
OLD_LOGGING_FILE = """\
[loggers]
keys = root, nova{more_loggers}
[handlers]
keys = stderr, null
[formatters]
keys = context
[logger_root]
level = WARNING
handlers = {root_handler}
[logger_nova]
level = INFO
handlers = stderr
qualname = nova
[logger_own]
level = INFO
handlers = {own_handler}
qualname = placement_sched
propagate = {propagate}
[handler_stderr]
class = StreamHandler
args = (sys.stderr,)
formatter = context
[handler_null]
class = logging.NullHandler
formatter = context
args = ()
[formatter_context]
class = oslo_log.formatters.ContextFormatter
"""


@pytest.mark.parametrize(
    ("root_handler", "more_loggers", "own_handler", "propagate", "is_silent"),
    [
        ("null", "", "stderr", 1, True),
        ("stderr", "", "null", 1, False),
        ("", "", "stderr", 1, False),  # Python then writes warnings to stderr
        ("null", ", own", "stderr", 0, False),
        ("stderr", ", own", "null", 1, False),
        ("stderr", ", own", "null", 0, True),
        ("null", ", own", "null", 1, True),
    ],
)
def test_logging_file_that_silences_the_service_is_a_warning(
    tmp_path, root_handler, more_loggers, own_handler, propagate, is_silent
):
    file = tmp_path / "logging.ini"
    file.write_text(
        OLD_LOGGING_FILE.format(
            root_handler=root_handler,
            more_loggers=more_loggers,
            own_handler=own_handler,
            propagate=propagate,
        )
    )
    warning = check_destination(build_log_conf({"log_config_append": str(file)}))
    assert (warning is not None) == is_silent
    if warning is not None:
        assert f"log_config_append: {file} drops all messages of this service" in warning


def test_start_reports_a_logging_file_that_silences_the_service(tmp_path, capsys):
    file = tmp_path / "logging.ini"
    values = {"root_handler": "null", "more_loggers": "", "own_handler": "null", "propagate": 1}
    file.write_text(OLD_LOGGING_FILE.format(**values))
    log_warnings(read_settings_text(tmp_path, f"[DEFAULT]\nlog_config_append = {file}\n"))
    assert f"log_config_append: {file} drops all messages" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [{"log_file": "no/own.log"}, {"log_dir": "no"}, {"log_file": "."}]
)
def test_log_file_that_cannot_be_written_is_an_error(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"log_file or log_dir: .* is not writable"):
        check_destination(build_log_conf(options))
    assert check_destination(build_log_conf({"log_file": "own.log"})) is None
    assert not (tmp_path / "own.log").exists()


WORKING_LOGGING_FILE = OLD_LOGGING_FILE.format(
    root_handler="stderr", more_loggers="", own_handler="stderr", propagate=1
)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("class = StreamHandler", "class = acme.Handler", "acme"),
        ("class = StreamHandler", "class = handlers.NoHandler", "handlers"),
        ("oslo_log.formatters.ContextFormatter", "oslo_log.formatters.No", "No"),
        ("args = (sys.stderr,)", "args = (sys.stderr", r"'\(' was never closed"),
    ],
)
def test_class_or_arguments_of_a_logging_file_that_stop_a_start(root, tmp_path, old, new, problem):
    (file := tmp_path / "logging.ini").write_text(WORKING_LOGGING_FILE)
    conf = build_log_conf({"log_config_append": str(file)})
    assert check_destination(conf) is None
    file.write_text(WORKING_LOGGING_FILE.replace(old, new))
    words = rf"the log cannot be set up: \[DEFAULT\] log_config_append: {file}: .*{problem}"
    for check in (check_destination, setup):
        with pytest.raises(ConfigurationError, match=words):
            check(conf)


@pytest.mark.skipif(find_spec("systemd") is not None, reason="systemd-python is installed")
def test_journal_without_its_bindings_stops_a_start(root):
    conf = build_log_conf({"use_journal": True})
    with pytest.raises(ConfigurationError, match="use_journal: Python has no module systemd"):
        check_destination(conf)
    with pytest.raises(ConfigurationError, match="Systemd bindings do not exist"):
        setup(conf)


def test_unknown_syslog_facility_stops_a_start(root):
    conf = build_log_conf({"use_syslog": True, "syslog_log_facility": "nowhere"})
    for check in (check_destination, setup):
        with pytest.raises(ConfigurationError, match=r"the log cannot be set up: .*facility"):
            check(conf)


def test_start_logs_an_extension_whose_package_is_absent(tmp_path, monkeypatch, caplog):
    point = EntryPoint("acme", "no_such_acme:EXTENSION", extension.ENTRY_POINT_GROUP)
    settings = read_settings_text(tmp_path, "")
    monkeypatch.setattr(extension, "entry_points", lambda **_: [point])
    caplog.set_level(logging.INFO)
    extension.load_entry_points.cache_clear()
    try:
        log_warnings(settings)
    finally:
        extension.load_entry_points.cache_clear()
    lines = [record.getMessage() for record in caplog.records]
    assert "the extension acme is not installed: no module no_such_acme" in lines


def test_start_names_each_package_that_announces_plugins_or_extensions(
    tmp_path, monkeypatch, caplog
):
    settings = read_settings_text(tmp_path, "")
    points = {
        "acme": "[placement_sched.weighers]\nload = acme:LoadWeigher\n",
        "beta": f"[{extension.ENTRY_POINT_GROUP}]\nbeta = beta:EXTENSION\n",
        "other": "[console_scripts]\nother = other:main\n",
    }
    for name, text in points.items():
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    caplog.set_level(logging.INFO)
    log_warnings(settings)
    lines = [record.getMessage() for record in caplog.records]
    assert "packages whose plugins or extensions are loaded: acme 1.0, beta 1.0" in lines

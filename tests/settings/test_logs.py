"""The line of a request is the one that oslo.log would write."""

import logging
from errno import ENOSPC
from io import StringIO

import pytest
from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.api.request_context import RequestContext
from placement_sched.model.request_ids import RequestIds
from placement_sched.settings.logs import QuickFormatter, drop_unhelpful, setup

IDS = RequestIds("req-1", "req-2")
KNOWN = {"X-User-Id": "u", "X-Project-Id": "p", "X-Project-Domain-Id": "d"}
FORMATS = [
    {},
    {"logging_context_format_string": "%(asctime)s %(resource)s %(user_name)s %(message)s"},
    {"logging_context_format_string": "%(isotime)s %(funcName)s %(request_id)s %(message)s"},
    {"logging_user_identity_format": "%(user)s %(project)s %(domain_name)s"},
]


def conf_with(options):
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([])
    for name, value in options.items():
        conf.set_override(name, value)
    return conf


def record_of(level=logging.INFO, message="100 %% of %s", args=("this",), **extra):
    record = logging.LogRecord("a.name", level, __file__, 7, message, args, None, "f")
    record.__dict__.update(extra)
    return record


@pytest.mark.parametrize("options", FORMATS)
@pytest.mark.parametrize("known", [{}, KNOWN], ids=["anyone", "known"])
@pytest.mark.parametrize("ids", [RequestIds(), RequestIds("req-1"), IDS])
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG, logging.ERROR])
def test_a_line_is_that_of_oslo_log(options, known, ids, level):
    slow = ContextFormatter(datefmt="%Y-%m-%d %H:%M:%S", config=conf_with(options))
    context = RequestContext(ids)
    context.confirm(known)
    for record in (record_of(level, context=context), record_of(level)):
        again = record_of(level, **record.__dict__)
        assert QuickFormatter.like(slow).format(record) == slow.format(again)


def test_what_failed_is_told_as_oslo_log_does():
    slow = ContextFormatter(datefmt="%H:%M:%S", config=conf_with({}))
    context = RequestContext(IDS)
    try:
        int("why")
    except ValueError:
        record = record_of(context=context)
        again = record_of(**record.__dict__)
        assert QuickFormatter.like(slow).format(record) == slow.format(again)


def test_messages_of_libraries_that_help_no_operator_are_dropped(caplog):
    drop_unhelpful()
    caplog.set_level(logging.INFO)
    alembic = logging.getLogger("alembic.runtime.migration")
    alembic.info("Context impl %s.", "PostgresqlImpl")
    alembic.info("Running upgrade 0001 -> 0002, Create the tables of images.")
    logging.getLogger("_granian").warning("Configured number of workers appears to be higher")
    assert caplog.messages == ["Running upgrade 0001 -> 0002, Create the tables of images."]


@pytest.mark.parametrize(("debug", "shown"), [(False, False), (True, True)])
def test_line_that_cannot_be_written_is_followed_by_a_traceback_with_debug_only(
    monkeypatch, capsys, debug, shown
):
    root = logging.getLogger()
    for name in ("handlers", "level"):
        monkeypatch.setattr(root, name, [] if name == "handlers" else root.level)
    monkeypatch.setattr(logging, "raiseExceptions", True)
    setup(conf_with({"debug": debug}))
    (handler,) = root.handlers
    monkeypatch.setattr(handler, "stream", FullDisk())
    root.error("one more")
    assert ("Traceback" in capsys.readouterr().err) == shown


class FullDisk(StringIO):
    """A file that takes nothing more."""

    def write(self, _text):
        raise OSError(ENOSPC, "No space left on device")

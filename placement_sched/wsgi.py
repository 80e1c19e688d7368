"""WSGI entry points for gunicorn, uwsgi, granian and mod_wsgi.

``application`` has all faces; ``placement`` is the Placement API alone, at the root.
``flask --app placement_sched.wsgi routes`` lists all routes, however callers authenticate.
Configuration comes from ``PLACEMENT_SCHED_CONFIG`` (files, colon-separated) and the
``OS_<GROUP>__<OPTION>`` environment. It is checked when this module is loaded: a process whose
configuration is wrong, or does not say how callers authenticate, ends with one line on stderr.
"""

import os
import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

import click
from flask.cli import routes_command

from placement_sched import app
from placement_sched.api.application import Application
from placement_sched.api.request_context import WSGI
from placement_sched.config.options.api import KEYSTONE_GROUP, STRATEGY
from placement_sched.config.opts import FILES, files_named, is_explicit
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError, Error
from placement_sched.operations.config_check import log_start
from placement_sched.scheduler.plugins import read_settings

#: The status of a process whose configuration cannot be used: what gunicorn, and what uwsgi with
#: need-app, take for an application that cannot be loaded. They end; with another status they
#: would start the next worker for ever.
UNUSABLE = 22 if "uwsgi" in sys.modules else 3


def _configured() -> Settings:
    """Return the settings, checked before any worker is forked; end the process if they are wrong.

    What belongs to one process, such as connections, is made later.
    """
    try:
        settings = read_settings(files_named())
        context = click.get_current_context(silent=True)
        # Every command but ``flask routes`` may serve.
        if context is None or context.command is not routes_command:
            refuse_unwritten_noauth2(settings)
        app.check_parts(settings)
        log_start(settings)
    except Error as wrong:
        sys.stderr.write(f"{__name__}: {' '.join(wrong.detail.split())}\n")
        sys.stderr.flush()
        raise SystemExit(UNUSABLE) from None
    return settings


def refuse_unwritten_noauth2(settings: Settings) -> None:
    """Raise :class:`ConfigurationError` where noauth2 is nothing but the default.

    Another server says where it listens, so that this service cannot see who may reach it.
    """
    if settings.api.auth_strategy != "noauth2" or is_explicit(settings.conf, "api", STRATEGY):
        return
    named = os.environ.get(FILES)
    files = f"{FILES}={named}" if named else f"{FILES} is not set"
    raise ConfigurationError(
        f"refusing to serve: the configuration ({files}) says neither [api] {STRATEGY} nor "
        f"anything in [{KEYSTONE_GROUP}]; write [api] {STRATEGY} = keystone and "
        f"[{KEYSTONE_GROUP}], or [api] {STRATEGY} = noauth2, which lets anyone in, in a file "
        f"that {FILES} names"
    )


class _OnFirstRequest:
    """An application made when the first request comes, after a server has forked its workers."""

    def __init__(self, make: Callable[[Settings], WSGI]) -> None:
        self._make = make
        self._made: WSGI | None = None
        self._lock = Lock()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if "uwsgi.version" in environ and not environ.get("QUERY_STRING"):
            # uwsgi leaves out a query that does not fit beside the address, which has it as well.
            environ["QUERY_STRING"] = environ.get("REQUEST_URI", "").partition("?")[2]
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = app.served(self._make(_CONFIGURED))
        return self._made(environ, start_response)


_CONFIGURED = _configured()


def make_app() -> Application:
    """Return ``app.create_app``'s application; by this name the command ``flask`` looks for it."""
    return app.create_app(_CONFIGURED)


application = _OnFirstRequest(
    lambda settings: app.application_of(app.make_services(settings, serving=True))
)
placement = _OnFirstRequest(lambda settings: app.placement_app(app.make_services(settings)))

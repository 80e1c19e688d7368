# SPDX-License-Identifier: Apache-2.0
"""WSGI entry points for gunicorn, uwsgi, granian and mod_wsgi.

``application`` has all APIs, ``placement`` only the Placement API at the root.
``flask --app placement_sched.wsgi routes`` lists all routes, whatever authentication is set.
Configuration comes from ``PLACEMENT_SCHED_CONFIG`` (files, colon-separated) and the
``OS_<GROUP>__<OPTION>`` environment. It is checked when this module is loaded: if it is wrong, or
has no explicit authentication, the process exits with a line on stderr.
"""

import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

import click
from flask.cli import routes_command

from placement_sched import app
from placement_sched.api.application import Application
from placement_sched.api.middleware import WSGI
from placement_sched.config import CONF, logs
from placement_sched.config.options.api import KEYSTONE_GROUP, STRATEGY
from placement_sched.config.settings import Settings, is_explicit
from placement_sched.config.sources import FILES, find_files
from placement_sched.errors import ConfigurationError, Error
from placement_sched.operations.config_check import log_warnings
from placement_sched.scheduler.plugins import read_settings

#: The exit status for an unusable configuration. For gunicorn, and for uwsgi with need-app, it
#: means that the application cannot be loaded: they stop. With another status they would start new
#: workers again and again.
UNUSABLE = 22 if "uwsgi" in sys.modules else 3


def _read_settings() -> Settings:
    """Read and check the settings before any fork, or exit."""
    try:
        settings = read_settings(find_files())
        context = click.get_current_context(silent=True)
        # Every command except ``flask routes`` may serve requests.
        if context is None or context.command is not routes_command:
            check_noauth2(settings)
        warnings = app.check_parts(settings)
        logs.setup(CONF)
        log_warnings(settings, warnings)
    except Error as error:
        sys.stderr.write(f"{__name__}: {' '.join(error.detail.split())}\n")
        sys.stderr.flush()
        raise SystemExit(UNUSABLE) from None
    return settings


def check_noauth2(settings: Settings) -> None:
    """Raise :class:`ConfigurationError` if noauth2 is not configured."""
    if settings.api.auth_strategy != "noauth2" or is_explicit(settings.conf, "api", STRATEGY):
        return
    file_names = ", ".join(find_files())
    files = f"read from {file_names}" if file_names else f"{FILES} is not set"
    raise ConfigurationError(
        f"cannot serve: the configuration ({files}) sets neither [api] {STRATEGY} nor "
        f"an option of [{KEYSTONE_GROUP}]. Set [api] {STRATEGY} = keystone and "
        f"[{KEYSTONE_GROUP}], or [api] {STRATEGY} = noauth2, which admits every client, in a file "
        f"that {FILES} names"
    )


class _LazyApplication:
    """Application that is created at the first request, after the fork."""

    def __init__(self, make: Callable[[Settings], WSGI]) -> None:
        self._make = make
        self._application: WSGI | None = None
        self._lock = Lock()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if "uwsgi.version" in environ and not environ.get("QUERY_STRING"):
            # uwsgi omits a long query string here, but REQUEST_URI includes it.
            environ["QUERY_STRING"] = environ.get("REQUEST_URI", "").partition("?")[2]
        if self._application is None:
            with self._lock:
                if self._application is None:
                    self._application = app.wrap_for_worker(self._make(_SETTINGS))
        return self._application(environ, start_response)


_SETTINGS = _read_settings()


def make_app() -> Application:
    """Create the application for the ``flask`` command, which calls this name."""
    return app.create_app(_SETTINGS)


application = _LazyApplication(
    lambda settings: app.make_application(app.make_services(settings, serving=True))
)
placement = _LazyApplication(lambda settings: app.create_placement_app(app.make_services(settings)))

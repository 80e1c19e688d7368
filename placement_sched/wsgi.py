"""WSGI entry points for gunicorn, uwsgi, granian and mod_wsgi.

``application`` has all faces; ``placement`` is the Placement API alone, at the root.
Configuration comes from ``PLACEMENT_SCHED_CONFIG`` (files, colon-separated) and the
``OS_<GROUP>__<OPTION>`` environment.
"""

import gc
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any

from placement_sched.api.access_log import AccessLog
from placement_sched.api.wsgi_types import WSGI
from placement_sched.app import create_app, make_services, placement_app
from placement_sched.config import logs
from placement_sched.config.environment import files_named
from placement_sched.config.process import CONF
from placement_sched.config.settings import Settings
from placement_sched.scheduler.loading import read_settings

#: So many objects more than were freed start a collection of the young ones (Python: 700).
_YOUNG = 10_000


def start(files: Sequence[str]) -> Settings:
    """Read ``files`` and the environment into the process's ``CONF`` and start the log.

    Raises :class:`ConfigurationError` with the option or class that is wrong.
    """
    settings = read_settings(files)
    logs.setup(CONF)
    return settings


def served(application: WSGI) -> WSGI:
    """Return ``application`` as a worker serves it: every request in the access log.

    What is loaded by now stays for good, so the garbage collector need not walk it ever again;
    and an answer of thousands of rows is not taken for garbage every 700 objects. Together they
    halve what a request for 1000 candidates costs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    return AccessLog(application)


class _OnFirstRequest:
    """An application made when the first request comes, after a server has forked its workers."""

    def __init__(self, make: Callable[[], WSGI]) -> None:
        self._make = make
        self._made: WSGI | None = None
        self._lock = Lock()

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = served(self._make())
        return self._made(environ, start_response)


application = _OnFirstRequest(lambda: create_app(start(files_named())))
placement = _OnFirstRequest(lambda: placement_app(make_services(start(files_named()))))

"""``serve``: the HTTP server with all faces."""

import argparse
import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from ipaddress import ip_address
from multiprocessing.sharedctypes import RawValue
from multiprocessing.synchronize import Lock
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined] # it does not say so
from granian.server.mp import MPServer

from placement_sched import app
from placement_sched.api import metrics
from placement_sched.api.application import Application
from placement_sched.api.serving.asgi import Bridge
from placement_sched.cli.arguments import Commands, add_command
from placement_sched.cli.database import refuse_unadopted_database
from placement_sched.cli.listening import connections, free_port, inherited_socket, resolve
from placement_sched.cli.workers import (
    keep_early_signals,
    let_new_workers_stop,
    shared_lock,
    warn_of_idle,
)
from placement_sched.db.urls import database_url
from placement_sched.errors import ConfigurationError, Unavailable, sentence
from placement_sched.operations.config_check import log_start
from placement_sched.operations.followed_settings import FollowedSettings
from placement_sched.operations.prepare import rehearse
from placement_sched.scheduler import live_settings
from placement_sched.scheduler.live_settings import PAUSE
from placement_sched.scheduler.loading import read_settings
from placement_sched.settings import Settings, logs
from placement_sched.settings.conf import CONF
from placement_sched.settings.opts import is_explicit
from placement_sched.settings.sources import named_files

LOG = logging.getLogger(__name__)
#: What the workers of a server inherit: the ``settings`` that it follows.
_AT_START: dict[str, FollowedSettings] = {}
#: Threads per worker. Requests are mostly Python, so more threads only fight over the interpreter;
#: a few keep a worker answering while others wait for a lock (on SQLite no more than half of them,
#: see ``db/transaction.py``). Measured in doc/decisions/0002.
THREADS = 4
#: Seconds that running requests get to finish after SIGTERM.
GRACE = 30
#: glibc's number (malloc.h) for how many heaps there may be.
_M_ARENA_MAX = -8
#: Granian's messages go where all others do, with the time of each.
_GRANIANS_LOG = {
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {"handlers": [], "propagate": True}},
}
#: What the workers of a server inherit: held by the one that says, for all of them, that the
#: database is away at the start.
_DATABASE_AWAY: list[Lock] = []
#: Seconds within which a worker that ends with an error could not start.
START = 5.5


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "serve", "serve every API over HTTP", run)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on, unless systemd passes a socket (default: %(default)s)",
    )
    port_help = "port to listen on; 0 takes a free one (default: %(default)s)"
    parser.add_argument("--port", type=_port, default=8778, help=port_help)
    workers_help = "processes that answer requests (default: %(default)s)"
    parser.add_argument("--workers", type=_positive, default=1, help=workers_help)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; return 0 after a clean stop.

    SIGINT stops it even where the process inherited that it is ignored, as a background job of a
    shell does: other servers do the same, and who sends a signal to a server means it.
    """
    files = [str(Path(name).resolve()) for name in arguments.config_file]
    settings = read_settings(files)
    app.check_parts(settings)  # one line now, rather than one of every worker
    _DATABASE_AWAY[:] = [shared_lock()]
    passed = inherited_socket()
    host, port = passed.getsockname()[:2] if passed else (arguments.host, arguments.port)
    refuse_open_door(settings, host)
    refuse_unadopted_database(settings)  # a worker would answer every request with that alone
    port = port if passed else free_port(host, port)
    server = _Server(
        "placement_sched",
        address=resolve(host)[0],
        port=port,
        interface=Interfaces.ASGINL,
        # While it waits for what may be HTTP/2, granian closes no idle connection.
        http=HTTPModes.http1,
        websockets=False,
        workers=arguments.workers,
        backpressure=connections(),
        respawn_failed_workers=True,
        workers_kill_timeout=GRACE,
        log_level=LogLevels.warning,
        log_dictconfig=_GRANIANS_LOG,
    )
    server.passed = passed
    server.delay = settings.api.shutdown_delay
    server.stopping = RawValue(ctypes.c_bool, False)
    log_start(settings)
    warn_of_idle(arguments.workers)
    followed = FollowedSettings(settings)
    _AT_START["settings"] = followed
    server.check = followed.check
    server.on_startup(partial(_regularly, followed.follow, "followed settings"))
    server.on_startup(partial(_announce, settings, host, port, arguments.workers))
    let_new_workers_stop()
    with ExitStack() as resources:
        if metrics.DIRECTORY not in os.environ:
            metrics.share(resources.enter_context(TemporaryDirectory(prefix="placement_sched_")))
        accepted = RawValue(ctypes.c_bool, False)
        loader = partial(load, files, os.getpid(), server.stopping, accepted)
        server.serve(target_loader=loader, wrap_loader=False)
    return 0


class _Server(MPServer):
    """Granian's server, which does not take a killed worker for one that cannot start.

    Granian's stops for good when a worker ends within 5.5 s of having been replaced, for whatever
    reason, and may overlook one that ends while it replaces another.

    Nor does it replace its workers at SIGHUP: they read what may vary again by themselves, and
    keep what they have where that cannot be used. The log shows at once which of the two it is.
    """

    #: Reads the configuration files again, and logs where they cannot be used.
    check: Callable[[], None]
    #: Seconds for which requests are still answered after SIGTERM.
    delay = 0.0
    #: Whether this time has begun, for the workers to see.
    stopping: ctypes.c_bool
    #: Why the server stops; nothing where no signal asked for it.
    asked_by = ""
    #: The socket to listen on, where systemd has passed one.
    passed: socket.socket | None = None

    def _init_shared_socket(self) -> None:
        """Let all workers accept from one socket where one was passed; else each has its own.

        It stays open in systemd while the server restarts, so that connections wait instead of
        being refused.
        """
        if self.passed is None:
            super()._init_shared_socket()  # type: ignore[no-untyped-call]
            return
        # Not a Unix socket. granian gives neither types.
        listening: Any = SocketHolder(self.passed.fileno(), False, self.backlog)  # type: ignore[call-arg]
        self._ssp, self._shd, self._sso = None, listening, self.passed

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        """Note which signal asks the server to stop."""
        self.asked_by = signal.Signals(args[0]).name if args else ""
        super().signal_handler_interrupt(*args, **kwargs)  # type: ignore[no-untyped-call]

    def shutdown(self, exit_code: int = 0) -> None:
        """Stop the workers; log the beginning and the end of it."""
        LOG.info("stopping: %s", self.asked_by or "a worker cannot start")
        try:
            if self.asked_by == "SIGTERM":
                self._let_proxies_leave()
            self._end_workers()
            super().shutdown(exit_code)  # type: ignore[no-untyped-call]
        finally:
            LOG.info("stopped")

    def _let_proxies_leave(self) -> None:
        """Answer for a while as a server that is not ready; another signal ends this."""
        if not self.delay:
            return
        LOG.info("answering for %g s more; /healthz/ready answers 503 now", self.delay)
        self.main_loop_interrupt.clear()
        self.stopping.value = True
        self.main_loop_interrupt.wait(self.delay)

    def _end_workers(self) -> None:
        """End the workers, and kill those that do not end in time.

        granian would do this, too. But a thread of its own waits for the same processes, and where
        that one is the first to see the end of a worker, granian reports that it refused to stop.
        """
        workers: list[Any] = self.wrks
        for worker in workers:
            worker.terminate()
        deadline = time.monotonic() + GRACE
        while any(worker.is_alive() for worker in workers) and time.monotonic() < deadline:
            time.sleep(0.01)
        for worker in workers:
            if worker.is_alive():
                LOG.warning("killing worker %s: it did not end within %s s", worker.idx + 1, GRACE)
                worker.kill()

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace each worker that ends until a signal asks to stop, or no worker can start."""
        while True:
            self.main_loop_interrupt.wait()
            self.main_loop_interrupt.clear()  # first, so that what happens from now on is seen
            if self.interrupt_signal:
                return
            if self.reload_signal:
                self.reload_signal = False
                self.check()
            ended = list(self.interrupt_children)
            failed = {idx for idx in ended if _could_not_start(self.wrks[idx])}
            if failed & self.respawned_wrks.keys():
                return
            del self.interrupt_children[: len(ended)]
            self._respawn_workers(ended, spawn_target, target_loader)
            for idx in set(ended) - failed:
                del self.respawned_wrks[idx]


def _could_not_start(worker: Any) -> bool:
    """Return whether a worker that is over ended by itself, with an error, and soon."""
    return bool(worker.inner.exitcode > 0 and time.monotonic() - worker.birth <= START)


def load(
    files: Sequence[str], parent: int, stopping: ctypes.c_bool, accepted: ctypes.c_bool
) -> Bridge:
    """Return the application, made in a worker process of the server ``parent``.

    ``stopping`` becomes true in the workers when that server is about to stop, ``accepted`` when
    one of them has found the database fit.

    The database is prepared now where it answers, else at the first request for which it does.
    """
    keep_early_signals(asyncio.get_event_loop())  # that of this worker, which granian has made
    _regularly(partial(_leave_without, parent), "parent-watch", pause=1)
    # glibc gives each thread a heap of its own, none of which is used by another or given back: a
    # worker that has answered questions for everything then holds the largest answer once for each.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    application = _application(files, accepted)
    services = application.services
    away = ""
    try:
        services.ready()
        services.scheduler.memory.fill(services.database)
        rehearse(
            services.database,
            services.scheduler.memory.provider_source,
            services.summaries,
            services.settings,
            services.random,
        )
    except Unavailable as failure:
        away = sentence(failure)
    # Not in the handler: oslo.log would add what is handled there to the line.
    if away and all(lock.acquire(block=False) for lock in _DATABASE_AWAY):
        LOG.warning("starting without the database: %s", away)
    _regularly(services.keep_up, "upkeep")
    options = services.settings.api
    return Bridge(
        app.served(application),
        most=options.max_request_body_size,
        threads=THREADS,
        patience=options.queue_timeout,
        stopping=lambda: stopping.value,
    )


def _regularly(work: Callable[[], None], name: str, pause: float = PAUSE) -> None:
    """Do something now and then beside the requests, whether or not there are any."""

    def do() -> None:
        while True:
            time.sleep(pause)
            try:
                work()
            except Exception as failure:  # noqa: BLE001 - it is tried again later
                LOG.debug("%s: %s", name, failure)

    threading.Thread(target=do, name=name, daemon=True).start()


def _application(files: Sequence[str], accepted: ctypes.c_bool) -> Application:
    """Return the application of a worker; one that replaces another goes by what its siblings do.

    That is what the files said when they could last be used, and the server lives on.
    """
    followed = _AT_START.get("settings")
    if followed is None or not followed.moved:
        application = app.create_app(app.start(files), accepted=accepted)
    else:
        logs.setup(CONF)
        services = app.make_services(followed.as_now(), serving=True, accepted=accepted)
        application = app.application_of(services)
    if not CONF.debug:
        # The server itself follows the files, and says for all workers what has become of them.
        logging.getLogger(live_settings.__name__).setLevel(logging.CRITICAL)
    return application


def _leave_without(parent: int) -> None:
    """Leave when the server process is gone: an orphan would keep answering on its port."""
    if os.getppid() != parent:
        os._exit(1)


def refuse_open_door(settings: Settings, host: str) -> None:
    """Raise :class:`ConfigurationError` where noauth2 would be open to other machines unasked."""
    explicit = is_explicit(settings.conf, "api", "auth_strategy")
    if settings.api.auth_strategy != "noauth2" or explicit:
        return
    if not all(ip_address(address).is_loopback for address in resolve(host)):
        raise ConfigurationError(
            f"refusing to listen on {host} with noauth2, which lets anyone in; configure "
            "keystone, or write [api] auth_strategy = noauth2 in a configuration file"
        )


def shows_console(settings: Settings, host: str) -> bool:
    """Return whether browsers are shown the console at ``host``, the address listened on."""
    enabled: bool | None = settings.console.enabled
    if enabled is None:
        return any(ip_address(address).is_loopback for address in resolve(host))
    return enabled


def _announce(settings: Settings, host: str, port: int, workers: int) -> None:
    url = database_url(settings)
    where = f"[{host}]" if ":" in host else host
    database = f"{url.get_backend_name()} {url.render_as_string(hide_password=True)}"
    sys.stdout.write(
        f"placement-sched serves http://{where}:{port} on {database}, "
        f"auth {settings.api.auth_strategy}, workers {workers}{named_files(settings.conf)}\n"
    )
    if shows_console(settings, host):
        sys.stdout.write(f"the console is at http://{where}:{port}/\n")
    sys.stdout.flush()


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port (0 to 65535)")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)

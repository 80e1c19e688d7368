# SPDX-License-Identifier: Apache-2.0
"""``serve``: HTTP server of all APIs."""

import argparse
import asyncio
import ctypes
import logging
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined] # not declared as exported
from granian.server.mp import MPServer

from placement_sched import app
from placement_sched.api import metrics
from placement_sched.api.routing import Services
from placement_sched.api.serving import AsgiToWsgi
from placement_sched.cli import service
from placement_sched.cli.arguments import Commands, add_command, parse_positive_number
from placement_sched.cli.database import (
    add_cloud_sources,
    check_database_adopted,
    describe_database,
)
from placement_sched.clients.systemd import Notifier
from placement_sched.config import logs
from placement_sched.config.conf import CONF
from placement_sched.config.settings import Settings, is_explicit
from placement_sched.config.sources import format_file_list
from placement_sched.errors import ConfigurationError, Unavailable, format_error
from placement_sched.model.extension import load_hooks
from placement_sched.operations.aggregates import list_policies_in_use
from placement_sched.operations.config_check import log_warnings
from placement_sched.operations.prepare import warm_up
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.plugins import get_plugins

LOG = logging.getLogger(__name__)
#: Threads per worker. Requests are mostly Python code, so more threads only compete for the
#: interpreter. With several threads, a worker still answers while some threads wait for a lock (on
#: SQLite at most half, see ``db/transaction.py``). Measured in doc/decisions/0003.
THREADS = 4
#: Seconds after SIGTERM until a worker with running requests is killed.
GRACE = 30
#: A worker that ends with an error within this number of seconds after its start cannot start.
MAX_START_SECONDS = 5.5
#: A worker hangs if its event loop has not run for this number of seconds. The watchdog of systemd
#: then gets no messages.
HANGS_AFTER = 15
#: Size of the shared array with the last time when the event loop of each worker ran. The index of
#: a worker is its process id modulo this size.
_HEARTBEAT_SLOTS = 1024
#: Seconds between two updates of this array by a worker, and between runs of its periodic tasks.
_HEARTBEAT_INTERVAL = 1.0
#: Number of the parameter of glibc (malloc.h) that limits memory arenas.
_M_ARENA_MAX = -8
#: Number of the option of prctl(2) for the signal that follows the end of the parent.
_PR_SET_PDEATHSIG = 1
#: Logging configuration of granian: messages go to the log of the service, with their times.
_GRANIAN_LOGGING = {
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {"handlers": [], "propagate": True}},
}


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "serve", "serve every API over HTTP", run)
    parser.add_examples(
        "",
        "--bind 0.0.0.0:8778 --workers 4 --config-file placement_sched.conf",
        "--fleet cloud.yaml --nova-conf nova.conf",
    )
    words = "address to listen on, unless systemd passes a socket (default: %(default)s)"
    parser.add_argument("--host", default="127.0.0.1", help=words)
    words = "address and port, instead of --host and --port: 0.0.0.0:8778, [::1]:8778"
    parser.add_argument("--bind", type=_parse_address, metavar="HOST:PORT", help=words)
    port_help = "port to listen on (0 selects a free port, default: %(default)s)"
    parser.add_argument("--port", type=service.parse_port, default=8778, help=port_help)
    workers_help = "number of worker processes (default: %(default)s)"
    parser.add_argument("--workers", type=parse_positive_number, default=1, help=workers_help)
    add_cloud_sources(parser, has_login=False)
    service.add_log_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, and return 0 after a clean stop."""
    settings = service.read_service_settings(arguments)
    warnings = app.check_parts(settings)  # reports an error here instead of in every worker
    passed = service.take_inherited_socket()
    # The demo has no --bind.
    host, port = getattr(arguments, "bind", None) or (arguments.host, arguments.port)
    host, port = passed.getsockname()[:2] if passed else (host, port)
    check_noauth2(settings, host)
    check_database_adopted(settings)  # workers would answer every request with this error
    port = port if passed else service.find_free_port(host, port)
    multiprocessing.set_start_method("fork", force=True)  # workers inherit the settings
    server = _Server(
        "placement_sched",
        # With a socket of systemd, granian tests an address that is not used.
        address="127.0.0.1" if passed else service.resolve(host)[0],
        port=0 if passed else port,
        interface=Interfaces.ASGINL,
        # With HTTP/2 detection, granian does not close idle connections.
        http=HTTPModes.http1,
        websockets=False,
        workers=arguments.workers,
        backpressure=service.raise_connection_limit(),
        respawn_failed_workers=True,
        workers_kill_timeout=GRACE,
        log_level=LogLevels.warning,
        log_dictconfig=_GRANIAN_LOGGING,
    )
    server.delay = settings.api.shutdown_delay
    server.notifier = Notifier()
    logs.setup(CONF, "placement-sched")
    logs.log_stacks_on_signal()
    log_warnings(settings, warnings)
    warn_of_idle_workers(arguments.workers)
    server.live = LiveSettings(
        settings, in_use=lambda: list_policies_in_use(server.live.configured)
    )
    server.on_startup(partial(_print_start_line, settings, host, port, arguments.workers))
    server.on_startup(partial(server.notifier.start, server.is_ready, server.is_alive))
    server.on_shutdown(partial(LOG.info, "stopped"))
    with metrics.share_numbers():
        worker = _Worker(server.live, os.getpid(), server.stopping, server.heartbeats)
        spawn = _accept_from(passed, server.backlog) if passed else None
        server.serve(spawn, worker.load, wrap_loader=False)
    return 0


class _Server(MPServer):
    """Granian's server, which reloads settings and replaces ended workers.

    Granian stops if a worker ends within 5.5 s after its replacement. This server stops only if a
    worker cannot start. At SIGHUP, granian would replace all workers. Here, the workers reload a
    valid configuration and keep their connections.
    """

    live: LiveSettings
    #: Seconds after SIGTERM in which requests are still answered.
    delay = 0.0
    notifier: Notifier
    #: Name of the signal that stops the server.
    stop_signal = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_pid = os.getpid()
        #: Whether ``delay`` has begun. The workers share the flag.
        self.stopping = RawValue(ctypes.c_bool, False)
        #: Monotonic time of the last run of each worker's event loop (0 before the first run).
        self.heartbeats = RawArray(ctypes.c_double, _HEARTBEAT_SLOTS)

    def signal_handler_reload(self, *_args: Any, **_kwargs: Any) -> None:
        """Reload in a thread, as a signal may interrupt a locked section."""
        if os.getpid() != self.server_pid:
            return  # a worker that inherited this handler: LiveSettings notifies workers
        threading.Thread(target=self.live.reload, daemon=True).start()

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        """Stop the server. The first SIGTERM takes effect after ``delay``."""
        if os.getpid() != self.server_pid:
            os._exit(0)  # a worker that does not serve yet
        is_first, self.stop_signal = not self.stop_signal, signal.Signals(args[0]).name
        self.notifier.stop()
        stop = partial(super().signal_handler_interrupt, *args, **kwargs)
        if is_first and self.delay and self.stop_signal == "SIGTERM":
            threading.Thread(target=self._stop_after_delay, args=(stop,), daemon=True).start()
        else:
            stop()

    def is_ready(self) -> bool:
        """Return whether any worker is serving requests."""
        return any(self.heartbeats)

    def is_alive(self) -> bool:
        """Return whether no worker hangs."""
        oldest = time.monotonic() - HANGS_AFTER
        workers: list[Any] = list(self.wrks)
        heartbeats = [self.heartbeats[worker.inner.pid % _HEARTBEAT_SLOTS] for worker in workers]
        return not any(0 < heartbeat < oldest for heartbeat in heartbeats)

    def shutdown(self, exit_code: int = 0) -> None:
        """Stop the workers, and kill workers that do not end within :data:`GRACE`."""
        LOG.info("stopping: %s", self.stop_signal or "a worker cannot start")
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]

    def _stop_after_delay(self, stop: Callable[[], None]) -> None:
        LOG.info("stopping in %g s. /healthz/ready answers 503 now", self.delay)
        self.stopping.value = True
        time.sleep(self.delay)
        stop()

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace each worker that ends, unless it fails to start twice."""
        while True:
            self.main_loop_interrupt.wait()
            self.main_loop_interrupt.clear()  # first, so that later events are not lost
            if self.interrupt_signal:
                return
            ended = list(self.interrupt_children)
            # The workers that failed by themselves soon after their start.
            failed = {
                number
                for number in ended
                if (self.wrks[number].inner.exitcode or 0) > 0
                and time.monotonic() - self.wrks[number].birth <= MAX_START_SECONDS
            }
            if failed & self.respawned_wrks.keys():
                return
            del self.interrupt_children[: len(ended)]
            self._respawn_workers(ended, spawn_target, target_loader)
            for number in ended:
                LOG.warning("worker-%s has ended. A new worker runs in its place", number + 1)
            for number in set(ended) - failed:
                del self.respawned_wrks[number]


def _accept_from(passed: socket.socket, backlog: int) -> Callable[..., None]:
    """Return granian's worker function, changed to serve systemd's socket.

    systemd keeps the socket open while the server restarts, so that connections wait.
    """
    # False: not a Unix socket. granian has no types here.
    listening: Any = SocketHolder(passed.fileno(), False, backlog)  # type: ignore[call-arg]

    def spawn(number: int, name: str, loader: Any, _sockets: Any, *others: Any) -> None:
        sockets = (None, listening), passed
        MPServer._spawn_asgi_worker(number, name, loader, sockets, *others)  # noqa: SLF001

    return spawn


class _Worker:
    """The state that a worker process inherits from the server."""

    def __init__(self, live: LiveSettings, parent: int, stopping: Any, heartbeats: Any) -> None:
        self._live, self._parent, self._stopping = live, parent, stopping
        self._heartbeats = heartbeats
        #: Whether any worker verified the database, and whether any logged its outage.
        self._is_database_verified, self._is_outage_logged = (
            RawValue(ctypes.c_bool, False) for _ in range(2)
        )

    def load(self) -> AsgiToWsgi:
        """Create the application, and prepare the database if it is reachable."""
        loop = asyncio.get_event_loop()  # the loop that granian made for the worker
        self._heartbeats[os.getpid() % _HEARTBEAT_SLOTS] = 0
        loop.call_soon(self._record_heartbeat, loop)
        _stop_at_first_signal(loop)
        # Let Linux kill this worker when the server ends, as it would keep serving the port.
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._parent:
            os._exit(1)
        # glibc has an arena per thread and does not return its memory: a worker would keep the
        # memory of its largest response once per thread.
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        logs.setup(CONF, "placement-sched")
        settings = self._live.configured
        for inherited in (settings, self._live.get_settings()):
            inherited.derived.clear()  # each process creates its own plugins at start
        get_plugins(settings)
        server = app.ServerState(self._live, self._is_database_verified)
        services = app.make_services(settings, serving=True, server=server)
        application = app.make_application(services)
        outage = _prepare(services)
        # Logged outside of the except clause, where oslo.log would add the exception.
        if outage and not self._is_outage_logged.value:
            self._is_outage_logged.value = True
            LOG.warning("starting without the database: %s", outage)
        _run_every_second(services.run_periodic_tasks, "upkeep")
        return AsgiToWsgi(
            app.wrap_for_worker(application),
            limit=settings.api.max_request_body_size,
            threads=THREADS,
            queue_timeout=settings.api.queue_timeout,
            stopping=lambda: bool(self._stopping.value),
        )

    def _record_heartbeat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._heartbeats[os.getpid() % _HEARTBEAT_SLOTS] = time.monotonic()
        loop.call_later(_HEARTBEAT_INTERVAL, self._record_heartbeat, loop)


def _stop_at_first_signal(loop: asyncio.AbstractEventLoop) -> None:
    """Stop a worker at the first SIGTERM or SIGINT and ignore further signals.

    granian's handler would wait forever if it ran twice, and the worker would not stop if the
    handler ran before the loop. uvloop loses a signal that arrives before its loop runs, so Python
    signal handlers are used.
    """
    stopped: list[int] = []

    def add_signal_handler(number: int, handler: Callable[..., None], *args: Any) -> None:
        def stop(*_signal: Any) -> None:
            if not stopped:
                stopped.append(number)
                loop.call_soon_threadsafe(handler, *args)

        signal.signal(number, stop)

    loop.add_signal_handler = add_signal_handler  # type: ignore[method-assign, assignment]


def _prepare(services: Services) -> str:
    """Prepare the database, and return why it is unreachable, or ""."""
    try:
        services.ready()
        services.scheduler.caches.fill(services.database)
        warm_up(
            services.database,
            services.scheduler.caches.choose_provider_source,
            services.settings,
            services.random,
        )
    except Unavailable as failure:
        return format_error(failure)
    return ""


def _run_every_second(work: Callable[[], None], name: str) -> None:

    def run_repeatedly() -> None:
        while True:
            time.sleep(_HEARTBEAT_INTERVAL)
            try:
                work()
            except Exception as failure:  # noqa: BLE001 - retried later
                LOG.debug("%s: %s", name, failure)

    threading.Thread(target=run_repeatedly, name=name, daemon=True).start()


def warn_of_idle_workers(workers: int) -> None:
    """Log a warning if there are more workers than cores."""
    cores = len(os.sched_getaffinity(0))
    if workers > max(cores, 2):  # a second worker answers while the first is busy or replaced
        LOG.warning("%s workers on %s cores: a worker uses a single core", workers, cores)


def check_noauth2(settings: Settings, host: str) -> None:
    """Raise :class:`ConfigurationError` if others could use default noauth2."""
    explicit = is_explicit(settings.conf, "api", "auth_strategy")
    if settings.api.auth_strategy != "noauth2" or explicit:
        return
    if not all(ip_address(address).is_loopback for address in service.resolve(host)):
        raise ConfigurationError(
            f"{host} is not a loopback address, and noauth2 accepts every client: configure "
            "keystone, or set [api] auth_strategy = noauth2 in a configuration file"
        )


def _print_start_line(settings: Settings, host: str, port: int, workers: int) -> None:
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    sys.stdout.write(
        f"placement-sched serves {url} on {describe_database(settings)}, "
        f"auth {settings.api.auth_strategy}, workers {workers}{format_file_list(settings.conf)}"
        f"{logs.format_destination(CONF)}\n"
    )
    for describe in load_hooks("start_line", settings.DEFAULT.disabled_extensions):
        if line := describe(settings, host, url):
            sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parse_address(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([^][]+)\]|([^][:]+)):(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT or [IPV6]:PORT")
    return match[1] or match[2], service.parse_port(match[3])

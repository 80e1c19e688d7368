"""Who is asked: a server by its address, or the scheduler core on the configured database."""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from placement_sched.app import make_services
from placement_sched.cli.database import refuse_absent_file
from placement_sched.cli.direct import DirectScheduler
from placement_sched.cli.scheduler_client import TIMEOUT, SchedulerClient
from placement_sched.scheduler.loading import read_settings

Json = dict[str, Any]

#: The longest that an answer may be waited for, in seconds: a day.
_LONGEST = 86_400


class Scheduler(Protocol):
    """Takes and gives the JSON of ``/scheduler/v1``."""

    @property
    def place(self) -> str:
        """The address of the server or database."""
        ...

    def explain(self, body: Json) -> Json:
        """Return the explanation of ``body``, nothing claimed."""
        ...

    def aggregate_names(self) -> Mapping[str, str]:
        """Return the names of host aggregates by uuid, for people to read."""
        ...

    def select(self, body: Json) -> Json:
        """Return the selections for ``body``; raise :class:`NoValidHost` with the funnel."""
        ...

    def policies(self) -> list[Json]:
        """Return every scheduler policy."""
        ...

    def policy(self, name: str) -> Json:
        """Return one scheduler policy."""
        ...


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name a server."""
    server = parser.add_argument_group("where")
    server.add_argument(
        "--url", help="ask this server (http://127.0.0.1:8778) instead of the database directly"
    )
    server.add_argument(
        "--token",
        default=os.environ.get("OS_TOKEN", "admin"),
        help="token for --url (default: $OS_TOKEN, else admin)",
    )
    server.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="how long to wait for an answer of --url (default: %(default)s)",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"a number of seconds up to {_LONGEST}, not {text!r}")
    return seconds


@contextmanager
def asked_scheduler(arguments: argparse.Namespace) -> Iterator[Scheduler]:
    """Give the one whom the arguments name, its connections closed at the end."""
    if arguments.url:
        yield SchedulerClient(arguments.url, arguments.token, arguments.timeout)
        return
    services = make_services(read_settings(arguments.config_file))
    try:
        refuse_absent_file(services.database, "--url asks a server")
        services.ready()
        yield DirectScheduler(services.scheduler)
    finally:
        services.scheduler.announcer.close()
        services.database.dispose()

"""``nova-scheduler``: nova's scheduler RPC, in nova-scheduler's place."""

import argparse
from pathlib import Path

from placement_sched.cli.arguments import Commands, add_command
from placement_sched.cli.database import refuse_unadopted_database
from placement_sched.db.engine import database_url
from placement_sched.nova import messaging, service
from placement_sched.operations.config_check import log_start
from placement_sched.scheduler.loading import read_settings
from placement_sched.settings import Settings

_EPILOG = """\
nova.conf is read as it is: [DEFAULT] transport_url and host, [api_database] and [database]
connection, [scheduler], [filter_scheduler]. [placement_database] connection, of this service's own
database, may stand in a second file."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "nova-scheduler",
        "answer nova's scheduler RPC, in nova-scheduler's place",
        run,
        epilog=_EPILOG,
    )
    workers_help = "processes that answer requests (default: [scheduler] workers)"
    parser.add_argument("--workers", type=_positive, help=workers_help)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; return 0 after a clean stop."""
    files = [str(Path(name).resolve()) for name in arguments.config_file]
    settings = read_settings(files)
    service.check(settings)
    refuse_unadopted_database(settings)
    log_start(settings, of_nova=True)
    workers = service.workers_of(settings, arguments.workers)
    service.run(settings, workers, announcement_of(settings, workers))
    return 0


def announcement_of(settings: Settings, workers: int) -> str:
    """Return the line that says what is served where."""
    url = database_url(settings)
    database = f"{url.get_backend_name()} {url.render_as_string(hide_password=True)}"
    return (
        f"placement-sched nova-scheduler serves {messaging.bus_of(settings)} on {database}, "
        f"host {settings.DEFAULT.host}, workers {workers}"
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)

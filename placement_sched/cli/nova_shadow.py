# SPDX-License-Identifier: Apache-2.0
"""``nova-shadow``: evaluation of nova's requests alongside nova-scheduler, without claims.

``nova-shadow report`` shows how often nova and this service agree, and why not.
"""

import argparse
import sys
from datetime import datetime
from functools import partial

from placement_sched.cli.arguments import Commands, add_command, add_files, add_format
from placement_sched.cli.database import (
    check_database_adopted,
    describe_database,
    read_configuration,
)
from placement_sched.cli.log_options import add_log_options, read_service_settings
from placement_sched.cli.terminal import print_result
from placement_sched.config import logs
from placement_sched.config.settings import Settings
from placement_sched.config.sources import named_files
from placement_sched.model.clock import parse_time, utcnow
from placement_sched.nova.shadow import service
from placement_sched.nova.shadow.comparison import format_report, report_of
from placement_sched.nova.shadow.tap import NovaBus
from placement_sched.operations.config_check import log_start
from placement_sched.schemas import formats
from placement_sched.store import decisions

_EPILOG = """\
nova.conf is used unchanged: [DEFAULT] transport_url, [api_database] and [database] connection,
[scheduler], [filter_scheduler]. [placement_database] connection, the database of the cloud's
placement, may be in a second file. The report command shows the results."""


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "evaluate nova's requests alongside nova-scheduler, without claims"
    parser = add_command(commands, "nova-shadow", summary, run, epilog=_EPILOG, of_nova=True)
    add_log_options(parser)
    parser.add_examples("--config-file /etc/nova/nova.conf --config-file placement_sched.conf")
    _add_report(parser.add_subparsers(title="commands", metavar="COMMAND"))


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, and return 0 after a clean stop."""
    settings = read_service_settings(arguments)
    transport = service.check(settings)
    check_database_adopted(settings)
    log_start(settings, of_nova=True)
    logs.log_stacks_on_signal()
    service.serve(settings, transport, partial(_announce, settings, transport))
    return 0


def _announce(settings: Settings, transport: NovaBus, queue: str) -> None:
    brokers = ", ".join(map(str, transport.brokers))
    sys.stdout.write(
        f"placement-sched nova-shadow reads queue {queue} of {brokers}, database "
        f"{describe_database(settings)}{named_files(settings.conf)}\n"
    )
    sys.stdout.flush()


def _add_report(group: Commands) -> None:
    """Add the command."""
    summary = "show how often nova and this service agree, and explain each disagreement"
    parser = add_command(group, "report", summary, _run_report, of_nova=None)
    parser.add_examples("--since 24h")
    parser.set_defaults(of_nova=True)
    add_files(parser, of_parent=True)
    parser.add_argument(
        "--since",
        help="only requests since this time (2026-01-31T12:00:00Z), or in this period before now "
        "(30m, 24h, 7d)",
    )
    add_format(parser)


def _run_report(arguments: argparse.Namespace) -> int:
    """Print the report."""
    since = None if arguments.since is None else _read_since(arguments.since)
    with read_configuration(arguments, there=True) as (_, database), database.read() as connection:
        report = report_of(decisions.shadow_results_since(connection, since), since)
    print_result(arguments, report, format_report(report))
    return 0


def _read_since(text: str) -> datetime:
    return formats.read(formats.moment, parse_time(text, utcnow(), "--since"), "--since")

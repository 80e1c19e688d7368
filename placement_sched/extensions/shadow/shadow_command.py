# SPDX-License-Identifier: Apache-2.0
"""``nova-shadow``: evaluation of nova's requests without claims.

``nova-shadow report`` shows how often nova and this service choose the same host, and the reasons
for other choices.
"""

import argparse
import sys
from datetime import datetime
from functools import partial

from placement_sched.cli.arguments import (
    Commands,
    add_command,
    add_files,
    add_format,
    rejected_arguments,
)
from placement_sched.cli.database import (
    check_database_adopted,
    describe_database,
    read_configuration,
)
from placement_sched.cli.output import print_result
from placement_sched.cli.service import add_log_options, read_service_settings, start_log
from placement_sched.config import CONF, logs
from placement_sched.config.settings import Settings
from placement_sched.config.sources import format_file_list
from placement_sched.extensions.shadow import service, store
from placement_sched.extensions.shadow.comparison import build_report, format_report
from placement_sched.model.clock import parse_time, utcnow
from placement_sched.nova.message_bus import NovaBus
from placement_sched.operations.config_check import log_warnings
from placement_sched.schemas import formats

_EPILOG = """\
nova.conf is used unchanged: [DEFAULT] transport_url, [api_database] and [database] connection,
[scheduler], [filter_scheduler]. [placement_database] connection, the database of the cloud's
placement, may be in a second file. The report command shows the results."""


def register(commands: Commands) -> None:
    """Add the commands."""
    summary = "evaluate nova's requests alongside nova-scheduler, without claims"
    parser = add_command(
        commands, "nova-shadow", summary, _run_shadow, epilog=_EPILOG, with_nova_conf=True
    )
    add_log_options(parser)
    parser.add_examples("--config-file /etc/nova/nova.conf --config-file placement_sched.conf")
    _add_report(parser.add_subparsers(title="commands", metavar="COMMAND"))


def _run_shadow(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, and return 0 after a clean stop."""
    settings = read_service_settings(arguments)
    transport = service.check(settings)
    start_log("nova-shadow")
    check_database_adopted(settings)
    log_warnings(settings)
    print_line = partial(_print_start_line, settings, transport)
    service.serve(settings, transport, print_line)
    return 0


def _print_start_line(settings: Settings, transport: NovaBus, queue: str) -> None:
    brokers = ", ".join(map(str, transport.brokers))
    sys.stdout.write(
        f"placement-sched nova-shadow reads queue {queue} of {brokers}, database "
        f"{describe_database(settings)}{format_file_list(settings.conf)}"
        f"{logs.format_destination(CONF)}\n"
    )
    sys.stdout.flush()


def _add_report(group: Commands) -> None:
    summary = "show how often nova and this service agree, and explain each disagreement"
    parser = add_command(group, "report", summary, _run_report, with_nova_conf=None)
    parser.add_examples("--since 24h")
    parser.set_defaults(with_nova_conf=True)
    add_files(parser, with_nova_conf=True, of_parent=True)
    parser.add_argument(
        "--since",
        help="only requests since this time (2026-01-31T12:00:00Z), or in this period before now "
        "(30m, 24h, 7d)",
    )
    add_format(parser)


def _run_report(arguments: argparse.Namespace) -> int:
    since = None if arguments.since is None else _read_since(arguments.since)
    with (
        read_configuration(arguments, must_exist=True) as (_, database),
        database.read() as connection,
    ):
        report = build_report(store.list_since(connection, since), since)
    print_result(arguments, report, format_report(report))
    return 0


def _read_since(text: str) -> datetime:
    with rejected_arguments():
        time = parse_time(text, utcnow(), "--since")
        return formats.read(formats.parse_datetime, time, "--since")

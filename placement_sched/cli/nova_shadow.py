# SPDX-License-Identifier: Apache-2.0
"""``nova-shadow``: evaluation of nova's requests alongside nova-scheduler, without claims."""

import argparse
import sys
from functools import partial

from placement_sched.cli import shadow_report
from placement_sched.cli.arguments import Commands, add_command
from placement_sched.cli.database import check_database_adopted, describe_database
from placement_sched.cli.log_options import add_log_options, read_service_settings
from placement_sched.config import logs
from placement_sched.config.settings import Settings
from placement_sched.config.sources import named_files
from placement_sched.nova.shadow import service
from placement_sched.nova.shadow.tap import NovaBus
from placement_sched.operations.config_check import log_start

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
    shadow_report.register(parser.add_subparsers(title="commands", metavar="COMMAND"))


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

# SPDX-License-Identifier: Apache-2.0
"""``nova-shadow report``: how often nova and this service agree, and why not."""

import argparse
from datetime import datetime

from placement_sched.cli.arguments import Commands, add_command, add_files, add_format
from placement_sched.cli.database import read_configuration
from placement_sched.cli.terminal import print_result
from placement_sched.model.clock import parse_time, utcnow
from placement_sched.nova.shadow.comparing import format_report, report_of
from placement_sched.schemas import formats
from placement_sched.store import shadow_results


def register(group: Commands) -> None:
    """Add the command."""
    summary = "show how often nova and this service agree, and explain each disagreement"
    parser = add_command(group, "report", summary, run, of_nova=None)
    parser.add_examples("--since 24h")
    parser.set_defaults(of_nova=True)
    add_files(parser, of_parent=True)
    parser.add_argument(
        "--since",
        help="only requests since this time (2026-01-31T12:00:00Z), or in this period before now "
        "(30m, 24h, 7d)",
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the report."""
    since = None if arguments.since is None else _read_since(arguments.since)
    with read_configuration(arguments, there=True) as (_, database), database.read() as connection:
        report = report_of(shadow_results.since(connection, since), since)
    print_result(arguments, report, format_report(report))
    return 0


def _read_since(text: str) -> datetime:
    return formats.read(formats.moment, parse_time(text, utcnow(), "--since"), "--since")

# SPDX-License-Identifier: Apache-2.0
"""``free-hosts``: list the hosts without instances."""

import argparse

from placement_sched.cli.arguments import Commands, add_command
from placement_sched.cli.output import print_result
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "free-hosts", "list the hosts without instances", run)
    parser.add_examples("", "--format json")
    add_common_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a host per line."""
    with open_scheduler(arguments) as scheduler:
        document = scheduler.get("free_hosts")
    print_result(arguments, document, document["free_hosts"] or ["no host is free"])
    return 0

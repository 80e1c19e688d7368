"""``policy apply``: brings inventories to the allocation ratios of policies."""

import argparse
import sys

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.cli.terminal import print_json, progressing
from placement_sched.model.clock import utcnow
from placement_sched.operations import policy_ratios
from placement_sched.scheduler.loading import read_settings
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.store import host_aggregates


def add(group: Commands) -> None:
    """Add the command to the group of policies."""
    parser = add_command(
        group,
        "apply",
        summary="bring the inventories of hosts to the allocation ratios of their policies",
        epilog=(
            "For after a change of ratios in the configuration; a server does the same when\n"
            "it starts. Works in batches beside running servers. Stopped, it has done a part\n"
            "and does the rest when it is started again; done again, it changes nothing."
        ),
    )
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Bring all hosts of aggregates with a policy to its ratios, and tell how many changed."""
    settings = read_settings(arguments.config_file)
    policies = policies_for(settings)
    policies.check()
    with open_database(settings) as database, progressing("applying allocation ratios") as told:
        refuse_absent_file(database)
        with database.read() as connection:
            named = {one.policy for one in host_aggregates.snapshot(connection) if one.policy}
        # By a slip in its section a policy's hosts would lose its ratios.
        policies.check(sorted(named & settings.sections.keys()))
        hosts, changed = policy_ratios.apply(database, policies, utcnow, told)
    if arguments.format == "json":
        print_json({"hosts": hosts, "changed": changed})
    else:
        sys.stdout.write(
            f"{hosts} hosts are in aggregates with a policy; "
            f"the inventories of {changed} providers were changed\n"
        )
    return 0

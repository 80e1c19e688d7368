# SPDX-License-Identifier: Apache-2.0
"""``policy``: scheduling policies and the sources of their options."""

import argparse
from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import read_configuration
from placement_sched.cli.output import (
    Column,
    Output,
    make_table,
    print_output,
    print_result,
    show_progress,
)
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import format_count
from placement_sched.operations import aggregates
from placement_sched.scheduler.policies.registry import get_policies
from placement_sched.store.compute import host_aggregates

#: Order of the sources of options: options of the policy first, defaults last.
_ORDER = ("policy", "options_file", "environment", "configuration", "default")


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "policy", "show and apply scheduling policies")
    summary = "list the policies with the options that each policy sets"
    parser = add_command(group, "list", summary, _run_list).add_examples("")
    add_common_arguments(parser, reads_cloud=True)
    summary = "show the options of a policy with the source of each value"
    parser = add_command(group, "show", summary, _run_show).add_examples("default")
    parser.add_argument("name", metavar="NAME", help="name of a policy, such as 'default'")
    add_common_arguments(parser, reads_cloud=True)
    parser = add_command(
        group,
        "apply",
        "apply the allocation ratios of policies to the inventories of their hosts",
        _run_apply,
        epilog=(
            "Run it after changing ratios in the configuration. A server does the same at start.\n"
            "It works in batches alongside running servers, and can be interrupted and repeated."
        ),
    )
    add_format(parser.add_examples(""))


def _run_list(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler:
        policies = scheduler.get("policies")["policies"]
    columns = (
        Column("Policy", itemgetter("name")),
        Column("Aggregates", _list_aggregates),
        Column("Sets", _list_own_options, _format_own_options),
        Column("Error", itemgetter("error"), hidden=True),
    )
    print_output(arguments, Output(policies, columns, policies))
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler:
        policy = scheduler.get("policies", arguments.name)
    options = sorted(
        policy["options"].items(), key=lambda item: (_ORDER.index(item[1]["source"]), item[0])
    )
    columns = (
        Column("Option", itemgetter(0)),
        Column("Value", lambda row: row[1]["value"]),
        Column("From", lambda row: row[1]["source"]),
        Column("Place", lambda row: row[1]["place"]),
    )
    report = partial(_print_policy, policy, options)
    print_output(arguments, Output(policy, columns, options, report))
    return 0


def _print_policy(policy: Json, options: Sequence[tuple[str, Json]], console: Console) -> None:
    aggregates = ", ".join(_list_aggregates(policy)) or "-"
    console.print(Text.assemble((policy["name"], "bold"), f"  aggregates: {aggregates}"))
    if not policy["usable"]:
        console.print(Text(f"cannot be used: {policy['error']}", style="red"))
        return
    table = make_table("Option", "From")
    for name, option in options:
        source, place = option["source"], option["place"]
        # The text output has only the name of a file.
        origin = source if place is None else place.rpartition("/")[2]
        style = "dim" if source == "default" else ""
        table.add_row(Text(_format(name, option)), Text(origin), style=style)
    console.print(table)


def _run_apply(arguments: argparse.Namespace) -> int:
    with (
        read_configuration(arguments, must_exist=True) as (settings, database),
        show_progress("applying allocation ratios") as progress,
    ):
        policies = get_policies(settings)
        policies.check()
        with database.read() as connection:
            names = {row.policy for row in host_aggregates.read_snapshot(connection) if row.policy}
        # With an error in the section of a policy, its hosts would lose the policy's ratios.
        policies.check(sorted(names & settings.sections.keys()))
        hosts, changed = aggregates.apply(database, policies, utcnow, progress)
    line = (
        f"{format_count(hosts, 'host')} {'is' if hosts == 1 else 'are'} in aggregates with a "
        f"policy. Inventories changed: {format_count(changed, 'provider')}"
    )
    print_result(arguments, {"hosts": hosts, "changed": changed}, [line])
    return 0


def _list_aggregates(policy: Json) -> list[str]:
    return [aggregate["name"] for aggregate in policy["aggregates"]]


def _list_own_options(policy: Json) -> Json:
    options = policy["options"].items() if policy["usable"] else ()
    return {name: option["value"] for name, option in options if option["source"] == "policy"}


def _format_own_options(policy: Json) -> str:
    if not policy["usable"]:
        return f"cannot be used: {policy['error']}"
    changed = _list_own_options(policy)
    return "\n".join(_format(name, policy["options"][name]) for name in changed) or "-"


def _format(name: str, option: Json) -> str:
    value = option["value"]
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return f"{name} =" if value in {None, ""} else f"{name} = {value}"

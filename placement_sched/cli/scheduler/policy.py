"""``policy list`` and ``policy show``: the scheduling policies, and what set their options."""

import argparse

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import configured
from placement_sched.cli.scheduler.scheduler_client import add_server_arguments, open_scheduler
from placement_sched.cli.terminal import headed_table, print_json, print_result, progressing
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.operations import aggregates
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.store.compute import host_aggregates

#: What a policy itself sets comes first, and defaults come last.
_ORDER = ("policy", "options_file", "environment", "configuration", "default")


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "policy", "show and apply scheduling policies")
    summary = "list the policies, with what each of them sets"
    parser = add_command(group, "list", summary, run_list)
    add_server_arguments(parser)
    add_format(parser)
    summary = "show the options of a policy, and where each value comes from"
    parser = add_command(group, "show", summary, run_show)
    parser.add_argument("name", metavar="NAME", help="name of a policy, such as 'default'")
    add_server_arguments(parser)
    add_format(parser)
    parser = add_command(
        group,
        "apply",
        "apply the allocation ratios of policies to the inventories of their hosts",
        run_apply,
        epilog=(
            "Run it after changing ratios in the configuration; a server does the same at start.\n"
            "It works in batches beside running servers and can be interrupted and run again."
        ),
    )
    add_format(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Print one line for each policy."""
    with open_scheduler(arguments) as scheduler:
        policies = scheduler.policies()
    if arguments.format == "json":
        print_json(policies)
        return 0
    table = headed_table("Policy", "Aggregates", "Sets")
    for policy in policies:
        options = policy["options"].items() if policy["usable"] else ()
        here = [_set(name, option) for name, option in options if option["source"] == "policy"]
        sets = Text("\n".join(here) or "-") if policy["usable"] else _wrong(policy)
        table.add_row(Text(policy["name"]), Text(_aggregates(policy)), sets)
    Console().print(table)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print every option of a policy that may vary from request to request."""
    with open_scheduler(arguments) as scheduler:
        policy = scheduler.show("policies", arguments.name)
    if arguments.format == "json":
        print_json(policy)
        return 0
    console = Console()
    console.print(Text.assemble((policy["name"], "bold"), f"  aggregates: {_aggregates(policy)}"))
    if not policy["usable"]:
        console.print(_wrong(policy))
        return 0
    table = headed_table("Option", "From")
    in_order = sorted(
        policy["options"].items(), key=lambda item: (_ORDER.index(item[1]["source"]), item[0])
    )
    for name, option in in_order:
        source, place = option["source"], option["place"]
        # Of a file its name is enough for people.
        origin = source if place is None else place.rpartition("/")[2]
        style = "dim" if source == "default" else ""
        table.add_row(Text(_set(name, option)), Text(origin), style=style)
    console.print(table)
    return 0


def run_apply(arguments: argparse.Namespace) -> int:
    """Bring all hosts of aggregates with a policy to its ratios, and print how many changed."""
    with (
        configured(arguments, there=True) as (settings, database),
        progressing("applying allocation ratios") as progress,
    ):
        policies = policies_for(settings)
        policies.check()
        with database.read() as connection:
            named = {one.policy for one in host_aggregates.snapshot(connection) if one.policy}
        # By a slip in its section a policy's hosts would lose its ratios.
        policies.check(sorted(named & settings.sections.keys()))
        hosts, changed = aggregates.apply(database, policies, utcnow, progress)
    line = (
        f"{hosts} hosts are in aggregates with a policy; "
        f"the inventories of {changed} providers were changed"
    )
    print_result(arguments, {"hosts": hosts, "changed": changed}, [line])
    return 0


def _aggregates(policy: Json) -> str:
    return ", ".join(one["name"] for one in policy["aggregates"]) or "-"


def _wrong(policy: Json) -> Text:
    return Text(f"cannot be used: {policy['error']}", style="red")


def _set(name: str, option: Json) -> str:
    value = option["value"]
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return f"{name} =" if value in {None, ""} else f"{name} = {value}"

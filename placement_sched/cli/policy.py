"""``policy list`` and ``policy show``: the scheduler policies, and where their options are from."""

import argparse
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from placement_sched.cli import policy_apply
from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.asked_scheduler import add_server_arguments, asked_scheduler
from placement_sched.cli.terminal import print_json

Json = Mapping[str, Any]

#: What a policy itself says comes first, and last what nobody wrote.
_ORDER = ("policy", "options_file", "environment", "configuration", "default")


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "policy", summary="look at policies, and let them take effect")
    parser = add_command(group, "list", summary="list the policies, with what each of them sets")
    add_server_arguments(parser)
    add_format(parser)
    parser.set_defaults(run=run_list)
    parser = add_command(
        group, "show", summary="show the options of a policy, and where each value comes from"
    )
    parser.add_argument("name", metavar="NAME", help="the policy; default is one, too")
    add_server_arguments(parser)
    add_format(parser)
    parser.set_defaults(run=run_show)
    policy_apply.add(group)


def run_list(arguments: argparse.Namespace) -> int:
    """Print one line for each policy."""
    with asked_scheduler(arguments) as scheduler:
        policies = scheduler.policies()
    if arguments.format == "json":
        print_json(policies)
        return 0
    table = _table("Policy", "Aggregates", "Sets")
    for policy in policies:
        table.add_row(Text(policy["name"]), Text(_aggregates(policy)), _sets(policy))
    Console().print(table)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print every option of a policy that may vary from request to request."""
    with asked_scheduler(arguments) as scheduler:
        policy = scheduler.policy(arguments.name)
    if arguments.format == "json":
        print_json(policy)
        return 0
    console = Console()
    console.print(Text.assemble((policy["name"], "bold"), f"  aggregates: {_aggregates(policy)}"))
    if not policy["usable"]:
        console.print(_wrong(policy))
        return 0
    table = _table("Option", "From")
    for name, option in sorted(policy["options"].items(), key=_place_in_order):
        style = "dim" if option["source"] == "default" else ""
        table.add_row(Text(_set(name, option)), Text(_origin(option)), style=style)
    console.print(table)
    return 0


def _place_in_order(item: tuple[str, Json]) -> tuple[int, str]:
    name, option = item
    return _ORDER.index(option["source"]), name


def _aggregates(policy: Json) -> str:
    return ", ".join(one["name"] for one in policy["aggregates"]) or "-"


def _sets(policy: Json) -> Text:
    if not policy["usable"]:
        return _wrong(policy)
    options = policy["options"].items()
    set_here = {name: option for name, option in options if option["source"] == "policy"}
    return Text("\n".join(_set(*item) for item in set_here.items()) or "-")


def _wrong(policy: Json) -> Text:
    return Text(f"cannot be used: {policy['error']}", style="red")


def _set(name: str, option: Json) -> str:
    value = option["value"]
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    return f"{name} =" if value in {None, ""} else f"{name} = {value}"


def _origin(option: Json) -> str:
    """Return where a value is from; of a file its name is enough for people."""
    place: str | None = option["place"]
    return option["source"] if place is None else place.rpartition("/")[2]


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table

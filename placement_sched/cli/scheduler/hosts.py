"""``hosts list`` and ``hosts show``: the hosts of the cloud, and one of them whole."""

import argparse
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.scheduler.scheduler_client import add_server_arguments, open_scheduler
from placement_sched.cli.terminal import headed_table, print_json, waiting
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.document import Json
from placement_sched.scheduler.host_views import STATES

#: The resource classes of which the list has a column; the rest stands in the JSON.
_COLUMNS = {"VCPU": "Free VCPU", "MEMORY_MB": "Free MB", "DISK_GB": "Free GB"}
_FILTERS = ("host", "search", "zone", "aggregate", "state", "trait")


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "hosts", "list hosts, or show one in detail")
    summary = "list hosts with their zones, states and free resources"
    parser = add_command(group, "list", summary, run_list)
    parser.add_argument("--host", metavar="NAME", help="only this host")
    parser.add_argument("--search", metavar="TEXT", help="only hosts with this text in their names")
    parser.add_argument("--zone", metavar="ZONE", help="only hosts in this availability zone")
    parser.add_argument(
        "--aggregate", metavar="AGGREGATE", help="only hosts of this aggregate (name or uuid)"
    )
    parser.add_argument(
        "--state", choices=STATES, action="append", help="only in this state, or any of several"
    )
    parser.add_argument(
        "--trait", metavar="TRAIT", action="append", help="only hosts with this trait; repeatable"
    )
    add_server_arguments(parser)
    add_format(parser)
    summary = "show a host: its provider tree, instances, services and policy"
    parser = add_command(group, "show", summary, run_show)
    parser.add_argument("host", metavar="HOST", help="name of the host")
    add_server_arguments(parser)
    add_format(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Print one line for each compute node."""
    with open_scheduler(arguments) as scheduler, waiting("reading hosts"):
        found = scheduler.hosts(list(_pairs(arguments)))
    if arguments.format == "json":
        print_json(found)
        return 0
    policies = any(one["policy"] != DEFAULT_POLICY for one in found["hosts"])
    texts = ("Host", "Zone", "State", *(("Policy",) if policies else ()))
    table = headed_table(*texts, "Instances", *_COLUMNS.values())
    for column in table.columns[len(texts) :]:
        column.justify = "right"
    for one in found["hosts"]:
        free = (_free(one["resources"], name) for name in _COLUMNS)
        under = (one["policy"],) if policies else ()
        cells = (_name(one), one["zone"], _state(one), *under, str(one["instances"]), *free)
        table.add_row(*map(Text, cells))
    Console().print(table)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print one host."""
    with open_scheduler(arguments) as scheduler:
        host = scheduler.show("hosts", arguments.host)
    if arguments.format == "json":
        print_json(host)
        return 0
    console = Console()
    console.print(Text.assemble((host["host"], "bold"), f"  {_state(host)}"))
    for name, value in _facts(host):
        console.print(Text(f"{name}: {value}"))
    for node in host["nodes"]:
        console.print(Text(f"\nnode {node['node']}, last heard of {_when(node['last_seen_up'])}"))
        table = headed_table("Provider", "Resource class", "Used", "Capacity")
        for provider in node["providers"]:
            for name, stock in provider["inventories"].items() or [("-", None)]:
                amounts = ("", "") if stock is None else (stock["used"], stock["capacity"])
                table.add_row(Text(provider["name"]), name, *map(str, amounts))
        console.print(table)
        traits = sorted({one for provider in node["providers"] for one in provider["traits"]})
        console.print(Text(f"traits: {', '.join(traits) or '-'}"))
    if host["instances"]:
        console.print()
        table = headed_table("Instance", "Uuid", "Flavor", "Project")
        for one in host["instances"]:
            cells = (one["name"], one["uuid"], one["flavor"], one["project_id"])
            table.add_row(*(Text(str(cell or "-")) for cell in cells))
        console.print(table)
    return 0


def _pairs(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name in _FILTERS:
        value = getattr(arguments, name)
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield name, each


def _name(one: Json) -> str:
    """Return how a node is called: by its host, and its own name where that is another."""
    host, node = one["host"], one["node"]
    return str(host) if node == host or node.startswith(f"{host}.") else f"{host} {node}"


def _state(one: Json) -> str:
    """Return the state of a host, with the reason if there is one."""
    reason = one.get("disabled_reason")
    if one["state"] == "down":
        seen = one["last_seen_up"]
        reason = "forced" if one.get("forced_down") else f"last seen {_when(seen)}"
    return f"{one['state']} ({reason})" if reason else str(one["state"])


def _when(moment: str | None) -> str:
    return "never" if moment is None else f"{moment.replace('T', ' ')[:19]} UTC"


def _free(resources: Json, name: str) -> str:
    one = resources.get(name)
    return "-" if one is None else str(one["capacity"] - one["used"])


def _facts(host: Json) -> Iterator[tuple[str, str]]:
    policy = host["policy"]
    yield "zone", host["zone"]
    yield "aggregates", ", ".join(one["name"] for one in host["aggregates"]) or "-"
    wrong = "" if policy["usable"] else f" (cannot be used: {policy['error']})"
    yield "policy", f"{policy['name']}{wrong}"
    for one in host["services"]:
        yield one["binary"], _state(one)

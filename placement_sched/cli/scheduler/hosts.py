# SPDX-License-Identifier: Apache-2.0
"""``hosts list`` and ``hosts show``: hosts of the cloud."""

import argparse
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.scheduler.scheduler_client import add_server_arguments, open_scheduler
from placement_sched.cli.terminal import make_table, print_json, show_waiting
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.document import Json
from placement_sched.scheduler.host_views import STATES

#: Columns of the list by resource class; the JSON output has all resource classes.
_COLUMNS = {"VCPU": "Free VCPU", "MEMORY_MB": "Free MB", "DISK_GB": "Free GB"}
_FILTERS = ("host", "search", "zone", "aggregate", "state", "trait")


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "hosts", "list hosts, or show a host in detail")
    summary = "list hosts with their zones, states and free resources"
    parser = add_command(group, "list", summary, run_list)
    parser.add_argument("--host", metavar="NAME", help="only this host")
    parser.add_argument("--search", metavar="TEXT", help="only hosts with this text in their names")
    parser.add_argument("--zone", metavar="ZONE", help="only hosts in this availability zone")
    parser.add_argument(
        "--aggregate", metavar="AGGREGATE", help="only hosts of this aggregate (name or uuid)"
    )
    parser.add_argument(
        "--state", choices=STATES, action="append", help="only hosts in this state; repeatable"
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
    """Print a line for each compute node."""
    with open_scheduler(arguments) as scheduler, show_waiting("reading hosts"):
        document = scheduler.hosts(list(_query_pairs(arguments)))
    if arguments.format == "json":
        print_json(document)
        return 0
    policies = any(host["policy"] != DEFAULT_POLICY for host in document["hosts"])
    texts = ("Host", "Zone", "State", *(("Policy",) if policies else ()))
    table = make_table(*texts, "Instances", *_COLUMNS.values())
    for column in table.columns[len(texts) :]:
        column.justify = "right"
    for host in document["hosts"]:
        free = (_free(host["resources"], name) for name in _COLUMNS)
        under = (host["policy"],) if policies else ()
        cells = (_name(host), host["zone"], _state(host), *under, str(host["instances"]), *free)
        table.add_row(*map(Text, cells))
    Console().print(table)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print a host."""
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
        console.print(Text(f"\nnode {node['node']}, last seen {_when(node['last_seen_up'])}"))
        table = make_table("Provider", "Resource class", "Used", "Capacity")
        for provider in node["providers"]:
            for name, stock in provider["inventories"].items() or [("-", None)]:
                amounts = ("", "") if stock is None else (stock["used"], stock["capacity"])
                table.add_row(Text(provider["name"]), name, *map(str, amounts))
        console.print(table)
        traits = sorted({trait for provider in node["providers"] for trait in provider["traits"]})
        console.print(Text(f"traits: {', '.join(traits) or '-'}"))
    if host["instances"]:
        console.print()
        table = make_table("Instance", "Uuid", "Flavor", "Project")
        for trait in host["instances"]:
            cells = (trait["name"], trait["uuid"], trait["flavor"], trait["project_id"])
            table.add_row(*(Text(str(cell or "-")) for cell in cells))
        console.print(table)
    return 0


def _query_pairs(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name in _FILTERS:
        value = getattr(arguments, name)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield name, item


def _name(entry: Json) -> str:
    """Return the host name, followed by the node name if it differs."""
    host, node = entry["host"], entry["node"]
    return str(host) if node == host or node.startswith(f"{host}.") else f"{host} {node}"


def _state(entry: Json) -> str:
    reason = entry.get("disabled_reason")
    if entry["state"] == "down":
        last_seen = entry["last_seen_up"]
        reason = "forced" if entry.get("forced_down") else f"last seen {_when(last_seen)}"
    return f"{entry['state']} ({reason})" if reason else str(entry["state"])


def _when(moment: str | None) -> str:
    return "never" if moment is None else f"{moment.replace('T', ' ')[:19]} UTC"


def _free(resources: Json, name: str) -> str:
    stock = resources.get(name)
    return "-" if stock is None else str(stock["capacity"] - stock["used"])


def _facts(host: Json) -> Iterator[tuple[str, str]]:
    policy = host["policy"]
    yield "zone", host["zone"]
    yield "aggregates", ", ".join(aggregate["name"] for aggregate in host["aggregates"]) or "-"
    wrong = "" if policy["usable"] else f" (cannot be used: {policy['error']})"
    yield "policy", f"{policy['name']}{wrong}"
    for service in host["services"]:
        yield service["binary"], _state(service)

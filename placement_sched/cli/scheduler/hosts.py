# SPDX-License-Identifier: Apache-2.0
"""``host``: commands that list and show hosts."""

import argparse
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_group, add_subcommands
from placement_sched.cli.output import (
    Column,
    Output,
    format_amount,
    is_report,
    make_table,
    print_output,
    show_waiting,
)
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.compute_node import HOST_STATES, NO_HOSTS
from placement_sched.model.document import Json
from placement_sched.model.names import suggest_name

#: Columns of the list by resource class. The JSON output has all resource classes.
_COLUMNS = {"VCPU": "Free VCPU", "MEMORY_MB": "Free memory", "DISK_GB": "Free disk"}
_FILTERS = ("host", "search", "zone", "aggregate", "state", "trait")


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "host", "list and show hosts")
    summary = "list hosts with their zones, states and free resources"
    parser = add_command(group, "list", summary, _run_list)
    parser.add_examples("--zone az1 --state up", "--trait HW_CPU_X86_AVX2")
    parser.add_argument("--host", metavar="HOST", help="only this host")
    parser.add_argument("--search", metavar="TEXT", help="only hosts with this text in their names")
    parser.add_argument("--zone", metavar="ZONE", help="only hosts in this availability zone")
    parser.add_argument(
        "--aggregate", metavar="AGGREGATE", help="only hosts of this aggregate (name or uuid)"
    )
    words = "only hosts in this state (repeatable)"
    parser.add_argument("--state", choices=HOST_STATES, action="append", help=words)
    parser.add_argument(
        "--trait", metavar="TRAIT", action="append", help="only hosts with this trait (repeatable)"
    )
    add_common_arguments(parser, reads_cloud=True)
    summary = "show a host: its provider tree, instances, services and policy"
    parser = add_command(group, "show", summary, _run_show).add_examples("cn1")
    parser.add_argument("host", metavar="HOST", help="name of the host")
    add_common_arguments(parser, reads_cloud=True)
    add_subcommands(group, "host")


def _run_list(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler, show_waiting("reading hosts"):
        document = scheduler.get("hosts", query=list(_iterate_query_pairs(arguments)))
        # Only an empty table needs all hosts, to explain why no host matches.
        is_empty = is_report(arguments) and not document["hosts"]
        everything = scheduler.get("hosts", query=[]) if is_empty else document
    rows = document["hosts"]
    has_policies = any(host["policy"] != DEFAULT_POLICY for host in rows)
    free = (
        Column(
            heading, (get := partial(_compute_free, name)), partial(get, is_text=True), right=True
        )
        for name, heading in _COLUMNS.items()
    )
    columns = (
        Column("Host", itemgetter("host"), _format_name),
        Column("Node", itemgetter("node"), hidden=True),
        Column("Zone", itemgetter("zone")),
        Column("State", itemgetter("state"), _format_state),
        Column("Reason", lambda host: host.get("disabled_reason"), hidden=True),
        Column("Policy", itemgetter("policy"), hidden=not has_policies),
        Column("Instances", itemgetter("instances"), right=True),
        *free,
    )

    def report(console: Console) -> None:
        console.print(Text(_describe_hosts(everything, arguments)), soft_wrap=True)

    print_output(arguments, Output(document, columns, rows, report if is_empty else None))
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler:
        host = scheduler.get("hosts", arguments.host)
    facts = [
        Column(name.capitalize(), partial(lambda value, _row: value, value))
        for name, value in _iterate_facts(host)
    ]
    columns = (
        Column("Host", itemgetter("host")),
        Column("State", itemgetter("state"), _format_state),
        *facts,
        Column("Nodes", lambda host: [node["node"] for node in host["nodes"]]),
        Column(
            "Traits",
            lambda host: sorted({name for node in host["nodes"] for name in _list_traits(node)}),
        ),
        Column("Instances", lambda host: [instance["uuid"] for instance in host["instances"]]),
        Column("Other consumers", lambda host: [each["uuid"] for each in host["other_consumers"]]),
    )
    output = Output(host, columns, [host], partial(_print_host, host), is_show=True)
    print_output(arguments, output)
    return 0


def _print_host(host: Json, console: Console) -> None:
    console.print(Text.assemble((host["host"], "bold"), f"  {_format_state(host)}"))
    for name, value in _iterate_facts(host):
        console.print(Text(f"{name}: {value}"))
    for node in host["nodes"]:
        console.print(
            Text(f"\nnode {node['node']}, last seen {_format_time(node['last_seen_up'])}")
        )
        table = make_table("Provider", "Resource class", "Used", "Capacity")
        for provider in node["providers"]:
            for name, stock in provider["inventories"].items() or [("-", {})]:
                amounts = (format_amount(name, stock.get(key)) for key in ("used", "capacity"))
                table.add_row(Text(provider["name"]), name, *(amounts if stock else ()))
        console.print(table)
        console.print(Text(f"traits: {', '.join(_list_traits(node)) or '-'}"))
    if host["instances"]:
        console.print()
        table = make_table("Instance", "Uuid", "Flavor", "Project")
        for instance in host["instances"]:
            cells = (instance[key] for key in ("name", "uuid", "flavor", "project_id"))
            table.add_row(*(Text(str(cell or "-")) for cell in cells))
        console.print(table)
    if host["other_consumers"]:
        console.print()
        table = make_table("Other consumer", "Type", "Project", "Resources")
        for consumer in host["other_consumers"]:
            amounts = consumer["resources"].items()
            resources = ", ".join(f"{name} {format_amount(name, used)}" for name, used in amounts)
            facts = (consumer["uuid"], consumer["type"], consumer["project_id"], resources)
            table.add_row(*(Text(str(fact or "-")) for fact in facts))
        console.print(table)


def _list_traits(node: Json) -> list[str]:
    return sorted({trait for provider in node["providers"] for trait in provider["traits"]})


def _iterate_query_pairs(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name in _FILTERS:
        value = getattr(arguments, name)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield name, item


def _describe_hosts(document: Json, arguments: argparse.Namespace) -> str:
    rows, aggregates = document["hosts"], document["aggregates"]
    if not rows:
        return NO_HOSTS
    hosts = {row["host"] for row in rows}
    names = {
        "host": hosts,
        "search": hosts,
        "zone": {zone for row in rows for zone in row["zone"].split(",")},
        "aggregate": {aggregate[key] for aggregate in aggregates for key in ("name", "uuid")},
        "trait": set(document["traits"]),
    }
    for option, value in _iterate_query_pairs(arguments):
        existing = names.get(option, {value})
        if option == "search":
            is_known = any(value.lower() in host.lower() for host in hosts)
        else:
            is_known = value in existing
        if not is_known:
            noun = "host" if option == "search" else option
            return f"no host matches --{option} {value!r}{suggest_name(noun, value, existing)}"
    return f"no host matches: {len(rows)} {'hosts exist' if len(rows) > 1 else 'host exists'}"


def _format_name(entry: Json) -> str:
    host, node = entry["host"], entry["node"]
    return str(host) if node == host or node.startswith(f"{host}.") else f"{host} {node}"


def _format_state(entry: Json) -> str:
    reason = entry.get("disabled_reason")
    if entry["state"] == "down":
        last_seen = entry["last_seen_up"]
        reason = "forced" if entry.get("forced_down") else f"last seen {_format_time(last_seen)}"
    return f"{entry['state']} ({reason})" if reason else str(entry["state"])


def _format_time(moment: str | None) -> str:
    return "never" if moment is None else f"{moment.replace('T', ' ')[:19]} UTC"


def _compute_free(name: str, entry: Json, *, is_text: bool = False) -> Any:
    stock = entry["resources"].get(name)
    free = None if stock is None else stock["capacity"] - stock["used"]
    return format_amount(name, free) if is_text else free


def _iterate_facts(host: Json) -> Iterator[tuple[str, str]]:
    policy = host["policy"]
    yield "zone", host["zone"]
    yield "aggregates", ", ".join(aggregate["name"] for aggregate in host["aggregates"]) or "-"
    wrong = "" if policy["usable"] else f" (cannot be used: {policy['error']})"
    yield "policy", f"{policy['name']}{wrong}"
    for service in host["services"]:
        yield service["binary"], _format_state(service)

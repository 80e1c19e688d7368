# SPDX-License-Identifier: Apache-2.0
"""``capacity``: number of instances that still fit, and limits of hosts.

``capacity --host-failures`` checks whether the instances of failed hosts fit on other hosts.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from placement_sched.cli.arguments import Commands, WrongArguments, add_command, add_html
from placement_sched.cli.output import (
    Column,
    Output,
    format_amount,
    make_table,
    print_output,
    show_waiting,
)
from placement_sched.cli.report.html import render_capacity_report
from placement_sched.cli.scheduler import render_explanation, request_options
from placement_sched.cli.scheduler.request_options import (
    add_change_arguments,
    list_request_options,
    replace_json_paths,
    with_changes,
)
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.reader import format_limit_reason
from placement_sched.extensions.what_if.capacity.count import CloudPart
from placement_sched.extensions.what_if.cli.plan_output import print_unknown_facts
from placement_sched.model.document import Json, PathStep
from placement_sched.model.names import format_count

#: Maximum number of limiting reasons per row.
_MAX_REASONS = 3


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "count the instances of a flavor that still fit"
    parser = add_command(commands, "capacity", summary, _run)
    parser.add_examples("m1.small --per zone", "m1.small --change drain=cn1", "--host-failures 1")
    request_options.add_request_arguments(parser, several_flavors=True)
    parser.add_argument(
        "--all-flavors", action="store_true", help="show every stored flavor, each on its own line"
    )
    parser.add_argument(
        "--per",
        choices=[per.value for per in CloudPart],
        help="also show the capacity of each zone, aggregate, host or cell",
    )
    request_options.add_override(parser, "count with another value of an option")
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="count under this policy instead of the policy chosen by the selectors",
    )
    _add_failover_arguments(parser)
    add_change_arguments(parser)
    add_common_arguments(parser, reads_cloud=True)
    add_html(parser)


def _run(arguments: argparse.Namespace) -> int:
    """Print the capacity, and return 0 even if nothing fits."""
    if arguments.host_failures is not None or arguments.within is not None:
        return _run_failover(arguments)
    body = _build_body(arguments)
    with open_scheduler(arguments) as scheduler, request_options.with_option_names(arguments):
        result = scheduler.post("capacity", body=body)
        names = scheduler.map_aggregate_names()
        if arguments.html is not None:
            heading = render_explanation.with_heading("Capacity", scheduler.place)
            render_explanation.write(
                arguments.html, render_capacity_report(result, body, heading, names)
            )
    report = partial(_print, with_names(result, names))
    print_output(arguments, Output(result, _COLUMNS, list(_list_rows(result)), report))
    return 0


def _list_rows(result: Json) -> Iterator[Json]:
    """Yield a row per flavor, followed by rows for parts of the cloud."""
    for total in result.get("flavors", [result]):
        flavor = {"flavor": total.get("flavor")}
        yield {**total, **flavor, "name": None}
        for part in total.get("per", ()):
            yield {**part, **flavor, "exact": total["exact"]}


def _build_body(arguments: argparse.Namespace) -> Json:
    """Build the request body.

    Raises :class:`Invalid` for contradicting options.
    """
    arguments.flavor = arguments.flavor or []  # a list also with FLAVOR
    request_options.move_flavor_argument(arguments)
    flavors = arguments.flavor
    if arguments.count is not None:
        raise WrongArguments("--count is not valid here, as the count is the result")
    if arguments.all_flavors:
        if flavors:
            raise WrongArguments("--flavor cannot be given with --all-flavors")
        arguments.flavor = "all"  # placeholder, removed from the request below
    else:
        arguments.flavor = flavors[0] if flavors else None
    body = {
        key: value
        for key, value in request_options.build_request_body(arguments).items()
        if key not in {"claim", "return_alternates", "hosts", "max_rejected"}
    }
    if arguments.all_flavors or len(flavors) > 1:
        del body["request_spec"]["flavor"]
        body |= {"all_flavors": True} if arguments.all_flavors else {"flavors": flavors}
    body = with_changes(body, arguments)
    for name in ("per", "policy"):
        if getattr(arguments, name) is not None:
            body[name] = getattr(arguments, name)
    return body


def _print(result: Json, console: Console) -> None:
    if "flavors" in result:
        _print_flavors(result["flavors"], console)
        return
    words = "more fit" if result["exact"] else "more fit, counted so far"
    console.print(Text.assemble((f"{result['capacity']:,}", "bold"), f" {words}"))
    _print_doubts(result, console)
    if result["limited_by"]:
        table = make_table("Hosts", "Limited by")
        for entry in result["limited_by"]:
            table.add_row(f"{entry['hosts']:,}", Text(format_limit_reason(entry)))
        console.print(table)
    if result["stranded"]:
        console.print(Text(f"Stranded: {_format_amounts(result['stranded'])}"), soft_wrap=True)
    if result.get("per"):
        parts = _make_parts_table("Where")
        for entry in result["per"]:
            _add_part(parts, entry["name"] or "-", entry)
        console.print(parts)


def _print_flavors(flavors: Iterable[Json], console: Console) -> None:
    table = _make_parts_table("Flavor")
    for flavor in flavors:
        mark = "" if flavor["exact"] else " (not exact)"
        _add_part(table, f"{flavor['flavor']}{mark}", flavor)
        for part in flavor.get("per", ()):
            _add_part(table, f"  {part['name'] or '-'}", part)
    console.print(table if table.row_count else "No flavor is stored.")
    for flavor in flavors:
        if not flavor["exact"] or "rejection" in flavor:
            console.print(Text(f"{flavor['flavor']}:"))
            _print_doubts(flavor, console)


def _make_parts_table(heading: str) -> Table:
    table = make_table(heading, "Fit", "Hosts by limit", "Stranded")
    table.columns[1].justify = "right"
    return table


def _add_part(table: Table, name: str, part: Json) -> None:
    cells = (name, f"{part['capacity']:,}", _format_limits(part), _format_amounts(part["stranded"]))
    table.add_row(*map(Text, cells))


def _format_limits(part: Json) -> str:
    limits = part["limited_by"]
    reasons = [
        f"{limit['hosts']:,} {format_limit_reason(limit)}" for limit in limits[:_MAX_REASONS]
    ]
    unlisted_count = len(limits) - _MAX_REASONS
    return ", ".join(reasons) + (f", {unlisted_count} more" if unlisted_count > 0 else "")


def _print_doubts(result: Json, console: Console) -> None:
    for doubt in result.get("inexact_because", ()):
        console.print(Text(f"Not exact: {doubt}"), soft_wrap=True)
    if rejection := result.get("rejection"):
        console.print(Text(f"The request is rejected: {rejection}"), soft_wrap=True)


def _format_amounts(stranded: Json) -> str:
    return ", ".join(f"{name} {format_amount(name, free)}" for name, free in stranded.items())


_COLUMNS = (
    Column("Flavor", itemgetter("flavor")),
    Column("Where", itemgetter("name")),
    Column("Fit", itemgetter("capacity"), right=True),
    Column("Exact", itemgetter("exact")),
    Column("Hosts by limit", itemgetter("limited_by"), _format_limits),
    Column("Stranded", itemgetter("stranded"), lambda row: _format_amounts(row["stranded"])),
)


#: Further options of ``capacity`` that cannot be combined with ``--host-failures``.
_REQUEST_OPTIONS = ("all_flavors", "per", "override", "policy", "change", "changes", "html")
_FAILOVER_OPTIONS = {"host_failures": "--host-failures", "within": "--within"}


def _add_failover_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("failover capacity")
    group.add_argument(
        "--host-failures",
        type=int,
        metavar="N",
        help="show whether all instances of any N hosts that fail find places on other hosts",
    )
    group.add_argument(
        "--within",
        metavar="zone|aggregate|KEY",
        help="let N domains fail instead of N hosts: zones, aggregates, or the hosts of aggregates "
        "with the same value of this metadata key, such as rack",
    )


def _run_failover(arguments: argparse.Namespace) -> int:
    """Print the failover capacity, and return 0 even if hosts are uncovered."""
    options = ["FLAVOR"] if arguments.request is not None else list_request_options(arguments)
    options += [
        f"--{name.replace('_', '-')}" for name in _REQUEST_OPTIONS if getattr(arguments, name, None)
    ]
    if options:
        raise WrongArguments(f"{options[0]} cannot be combined with --host-failures or --within")
    failures = 1 if arguments.host_failures is None else arguments.host_failures
    body: Json = {"host_failures": failures, "within": arguments.within}

    def find_place(steps: Sequence[PathStep], _key: str | None) -> str | None:
        return _FAILOVER_OPTIONS.get(str(steps[0])) if steps else None

    with (
        open_scheduler(arguments) as scheduler,
        show_waiting("placing the instances of failed hosts"),
        replace_json_paths(find_place),
    ):
        result = scheduler.post("failover_capacity", body=body)
        names = scheduler.map_aggregate_names()
    report = partial(_print_failover, with_names(result, names))
    print_output(arguments, Output(result, _FAILOVER_COLUMNS, list(_list_failures(result)), report))
    return 0


def _list_failures(result: Json) -> Iterator[Json]:
    """Yield a row per unplaced instance, or per failure without any."""
    for failure in result["failures"]:
        facts = {"failure": failure["name"], "state": failure["state"]}
        if not failure["nowhere"]:
            yield facts
        for instance in failure["nowhere"]:
            yield {**instance, **facts}


def _print_failover(result: Json, console: Console) -> None:
    noun = result["within"] or "host"
    failing = noun if result["host_failures"] == 1 else f"set of {result['host_failures']} {noun}s"
    states = ", ".join(
        f"{result[state]:,} {state}" for state in ("covered", "uncovered", "undetermined")
    )
    console.print(Text(f"If a {failing} fails: {states}"))
    if result["bound"]:
        console.print(Text(f"Not exact: {result['bound']}"), soft_wrap=True)
    counts = result.get("other_consumers") or {"consumers": 0}
    if counts["consumers"]:
        consumers = format_count(counts["consumers"], "other consumer")
        hosts = format_count(counts["hosts"], "host")
        console.print(Text(f"Not counted: {consumers} on {hosts}, which nova does not evacuate"))
    print_unknown_facts(result, console)
    if result["failures"]:
        table = make_table("Fails", "Instances", "Nowhere to go", "Lacking")
        table.columns[1].justify = "right"
        for failure in result["failures"]:
            rows = [
                (
                    f"{instance['name'] or instance['uuid']} ({instance['flavor']})",
                    _format_lacking(instance),
                )
                for instance in failure["nowhere"]
            ]
            heads = (failure["name"], f"{failure['instances']:,}")
            for cells in rows or [(_describe_unlisted(failure), "")]:
                table.add_row(*heads, *cells)
                heads = ("", "")
        console.print(table)
    if result["remaining"]:
        table = make_table("Flavor", "More keep this", "Then fails")
        table.columns[1].justify = "right"
        for row in result["remaining"]:
            table.add_row(row["flavor"], _format_remaining(row), _format_breaks(row))
        console.print(table)


def _describe_unlisted(failure: Json) -> str:
    if not failure["stuck"]:
        return str(failure["state"])
    return f"{failure['state']}: {failure['stuck']:,} or more, not listed in time"


def _format_lacking(instance: Json) -> str:
    lacking = instance.get("lacking")
    if not lacking:
        return str(instance.get("reason") or "")
    return ", ".join(f"{name} {format_amount(name, lacking[name])}" for name in lacking)


def _format_remaining(row: Json) -> str:
    """Format how many more instances keep failures covered, or its bounds."""
    if row["exact"]:
        return f"{row['remaining']:,}"
    at_most = "unknown" if row["at_most"] is None else f"{row['at_most']:,}"
    return f"{row['remaining']:,} to {at_most}"


def _format_breaks(row: Json) -> str:
    breaks = row["breaks"]
    if not breaks:
        return ""
    return f"{breaks['domain']}: places for {breaks['placed']} of {breaks['instances']}"


_FAILOVER_COLUMNS = (
    Column("Fails", itemgetter("failure")),
    Column("State", itemgetter("state")),
    Column("Instance", lambda row: row.get("uuid")),
    Column("Name", lambda row: row.get("name")),
    Column("Flavor", lambda row: row.get("flavor")),
    Column("Lacking", lambda row: row.get("lacking"), _format_lacking),
    Column("Reason", lambda row: row.get("reason")),
)

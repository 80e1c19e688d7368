# SPDX-License-Identifier: Apache-2.0
"""``violation list``: servers that today's rules reject on their hosts."""

import argparse
from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import Commands, WrongArguments, add_command, add_group
from placement_sched.cli.output import Column, Output, build_table, print_output, show_progress
from placement_sched.cli.scheduler.request_options import replace_json_path
from placement_sched.cli.scheduler.scheduler_client import (
    SchedulerClient,
    add_common_arguments,
    open_scheduler,
)
from placement_sched.errors import Error
from placement_sched.explain.nested_values import with_names
from placement_sched.extensions.what_if.cli.plan_output import print_unknown_facts
from placement_sched.extensions.what_if.violations.report import report_violations
from placement_sched.extensions.what_if.violations.rules import FILTERS, Filters, select_violations
from placement_sched.limits import MAX_PAGE
from placement_sched.model.document import Json
from placement_sched.model.names import format_count, shorten_names

_COLUMNS = (
    Column("Server", itemgetter("uuid")),
    Column("Name", itemgetter("name")),
    Column("Host", itemgetter("host")),
    Column("Project", itemgetter("project_id"), hidden=True),
    Column("Flavor", itemgetter("flavor"), hidden=True),
    Column("Rule", itemgetter("rule")),
    Column("Reason", itemgetter("reason")),
)
_RULE = "this rule, such as 'trait CUSTOM_SSD', or family of rules, such as trait (repeatable)"


def register(commands: Commands) -> None:
    """Add the group ``violation`` with its command."""
    group = add_group(commands, "violation", "list servers that today's rules reject")
    summary = "list servers that the scheduler would not place on their hosts now"
    parser = add_command(group, "list", summary, _run)
    parser.add_examples("--host cn1", "--rule 'isolated aggregate' --ignore 'over capacity'")
    for key, name, text in (
        ("host", "host", "only servers on this host (repeatable)"),
        ("project_id", "project", "only servers of the project with this id (repeatable)"),
        ("rule", "rule", f"only violations of {_RULE}"),
        ("ignore", "ignore", f"leave out violations of {_RULE}"),
    ):
        parser.add_argument(
            f"--{name}", dest=key, action="append", default=[], metavar=name.upper(), help=text
        )
    add_common_arguments(parser, reads_cloud=True)


def _run(arguments: argparse.Namespace) -> int:
    """Print the violations, and return 0 even if there are any.

    A server returns its last result. Without a server, the servers are checked now.
    """
    filters = {key: getattr(arguments, key) for key in FILTERS}
    with open_scheduler(arguments) as client:
        try:
            result = _compute(client, filters) if client.services else _read(client, filters)
        except Error as failure:
            if failure.fault is None:
                raise
            detail = replace_json_path(failure, lambda steps, _key: f"--{steps[0]}")
            raise WrongArguments(detail) from None
        names = client.map_aggregate_names()
    rows = [
        {**server, "rule": reason["rule"], "reason": reason["reason"]}
        for server in sorted(result["violations"], key=itemgetter("host", "uuid"))
        for reason in with_names(server["reasons"], names)
    ]
    print_output(arguments, Output(result, _COLUMNS, rows, partial(_print, result, rows)))
    return 0


def _compute(client: SchedulerClient, filters: Filters) -> Json:
    """Check the servers in this process."""
    services, translator = client.services, client.translator
    if services is None:
        raise AssertionError("the scheduler is not in this process")
    services.ready()
    if translator:
        filters = {key: [translator.convert(v, key) for v in own] for key, own in filters.items()}
    with show_progress("checking servers", counts=True) as progress:
        report = report_violations(services.scheduler, filters["host"] or None, progress)
    with services.database.read() as connection:
        result = select_violations(connection, services.scheduler, report, filters)
    document: Json = client.restore(result)
    return document


def _read(client: SchedulerClient, filters: Filters) -> Json:
    """Read the last result of a server, page by page."""
    query = [(key, value) for key, own in filters.items() for value in own]
    query.append(("limit", str(MAX_PAGE)))
    result = page = client.get("violations", query=query)
    while (marker := page.pop("next")) is not None:
        page = client.get("violations", query=[*query, ("marker", marker)])
        result["violations"] += page["violations"]
    return result


def _print(result: Json, rows: Sequence[Json], console: Console) -> None:
    servers = format_count(result["servers"], "server")
    line = f"{result['total']:,} of {servers} would not be placed on their hosts now"
    console.print(Text(f"{line} ({result['computed_at']})"), soft_wrap=True)
    if rows:
        counts = (f"{each['rule']} {each['servers']:,}" for each in result["rules"])
        console.print(Text(", ".join(counts)), soft_wrap=True)
        console.print()
        console.print(build_table(_COLUMNS, rows))
    for each in result["unexamined"]:
        count, names = format_count(each["servers"], "server"), shorten_names(each["examples"])
        line = f"Without a result: {count} ({names}): {each['reason']}"
        console.print(Text(line), soft_wrap=True)
    print_unknown_facts(result, console)

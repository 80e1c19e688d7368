# SPDX-License-Identifier: Apache-2.0
"""``violation list``: servers that today's rules reject on their hosts."""

import argparse
from collections.abc import Iterator, Sequence
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
from placement_sched.extensions.what_if.violations.rules import ViolationFilters
from placement_sched.model.document import Json, PathStep
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
_RULE_COLUMNS = (
    Column("Rule", itemgetter("rule")),
    Column("Servers", itemgetter("servers"), right=True),
)
#: The option of each query parameter.
_OPTIONS = {"host": "host", "project_id": "project", "rule": "rule", "ignore": "ignore"}
_PAGE = 1000


def register(commands: Commands) -> None:
    """Add the command to the group ``violation``."""
    group = add_group(commands, "violation", "list servers that today's rules reject")
    summary = "list servers that the scheduler would not place on their hosts now"
    parser = add_command(group, "list", summary, _run)
    parser.add_examples("--host cn1", "--rule 'isolated aggregate' --ignore 'over capacity'")
    rules = "a rule such as 'trait CUSTOM_SSD', its family (trait), or a filter (repeatable)"
    for option, metavar, help_ in (
        ("--host", "HOST", "only servers on this host (repeatable)"),
        ("--project", "PROJECT", "only servers of the project with this id (repeatable)"),
        ("--rule", "RULE", f"only violations of {rules}"),
        ("--ignore", "RULE", f"no violations of {rules}"),
    ):
        parser.add_argument(option, action="append", default=[], metavar=metavar, help=help_)
    add_common_arguments(parser, reads_cloud=True)


def _run(arguments: argparse.Namespace) -> int:
    """Print the violations, and return 0 even if there are any.

    Without a server, all servers are checked now. A server shows its last result.
    """
    pairs = [(key, value) for key, name in _OPTIONS.items() for value in getattr(arguments, name)]
    with open_scheduler(arguments) as client:
        try:
            read = _read_pages if client.services is None else _compute
            result = read(client, pairs)
        except Error as failure:
            if failure.fault is None:
                raise
            raise WrongArguments(replace_json_path(failure, _find_option)) from None
        names = client.map_aggregate_names()
    rows = list(_list_rows(with_names(result, names)))
    report = partial(_print, result, rows)
    print_output(arguments, Output(result, _COLUMNS, rows, report))
    return 0


def _find_option(steps: Sequence[PathStep], _key: str | None) -> str | None:
    option = _OPTIONS.get(str(steps[0])) if steps else None
    return f"--{option}" if option else None


def _compute(client: SchedulerClient, pairs: Sequence[tuple[str, str]]) -> Json:
    services, translator = client.services, client.translator
    if services is None:
        raise AssertionError("the client has no services")
    services.ready()
    if translator:
        pairs = [(key, translator.convert(value, key)) for key, value in pairs]
    hosts, projects, rules, ignored = (
        [value for key, value in pairs if key == name] for name in _OPTIONS
    )
    filters = ViolationFilters(hosts=hosts, projects=projects, rules=rules, ignored=ignored)
    with show_progress("checking servers", counts=True) as progress:
        report = report_violations(services.scheduler, hosts or None, progress)
    with services.database.read() as connection:
        document: Json = client.restore(filters.select(connection, services.scheduler, report))
    return document


def _read_pages(client: SchedulerClient, pairs: Sequence[tuple[str, str]]) -> Json:
    query = [*pairs, ("limit", str(_PAGE))]
    result = client.get("violations", query=query)
    while (marker := result.pop("next")) is not None:
        page = client.get("violations", query=[*query, ("marker", marker)])
        result["violations"] += page["violations"]
        result["next"] = page["next"]
    return result


def _list_rows(result: Json) -> Iterator[Json]:
    """Yield a row for each rule that a server violates, sorted by host."""
    for server in sorted(result["violations"], key=itemgetter("host", "uuid")):
        for reason in server["reasons"]:
            yield {**server, "rule": reason["rule"], "reason": reason["reason"]}


def _print(result: Json, rows: Sequence[Json], console: Console) -> None:
    servers = format_count(result["servers"], "server")
    line = f"{result['total']:,} of {servers} would not be placed on their hosts now"
    console.print(Text(f"{line} ({result['computed_at']})"), soft_wrap=True)
    if rows:
        console.print(build_table(_RULE_COLUMNS, result["rules"]))
        console.print()
        console.print(build_table(_COLUMNS, rows))
    for each in result["unexamined"]:
        count = format_count(each["servers"], "server")
        names = shorten_names(each["examples"])
        console.print(
            Text(f"Without a result: {count}: {each['reason']} ({names})"), soft_wrap=True
        )
    print_unknown_facts(result, console)

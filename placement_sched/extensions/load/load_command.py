# SPDX-License-Identifier: Apache-2.0
"""``load``: load of hosts and servers, and a check of the queries."""

import argparse
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import starmap
from operator import itemgetter

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import Commands, WrongArguments, add_command, add_group
from placement_sched.cli.database import read_configuration
from placement_sched.cli.output import Column, Output, build_table, print_output, show_waiting
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler
from placement_sched.errors import Invalid
from placement_sched.extensions.load.collection import query_load
from placement_sched.extensions.load.values import HOST, MISSING, OK
from placement_sched.extensions.load.views import render_query
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import format_count, suggest_name


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "load", "show and check the load that Prometheus has")
    parser = add_command(
        group,
        "check",
        "compare the results of the queries of [load] with the hosts and servers",
        _run_check,
        epilog=(
            "Without --url or --os-cloud, it sends the queries to Prometheus and stores nothing.\n"
            "With them, it shows the last collection of the server.\n\n"
            "exit status:\n"
            "  0  every query has a result\n"
            "  2  a query failed"
        ),
        wrong_input=2,
    )
    add_common_arguments(parser.add_examples(""))
    summary = "list the load of hosts"
    parser = add_command(group, "list", summary, _run_list).add_examples("")
    parser.add_argument("--query", metavar="NAME", help="only the values of this query")
    add_common_arguments(parser)
    summary = "show the load of a host and of its servers"
    parser = add_command(group, "show", summary, _run_show).add_examples("cn1")
    parser.add_argument("host", metavar="HOST", help="name of the host")
    add_common_arguments(parser)


def _run_check(arguments: argparse.Namespace) -> int:
    """Print the results, and raise :class:`Invalid` if a query failed."""
    with open_scheduler(arguments) as scheduler:
        document = scheduler.get("load")
        if scheduler.is_local and document["collects"]:
            document["queries"] = list(_query_prometheus(arguments))
    queries = document["queries"]
    output = {key: value for key, value in document.items() if key != "hosts"}
    report = partial(_print_check, document)
    print_output(arguments, Output(output, _CHECK_COLUMNS, queries, report))
    failed = [query for query in queries if query["error"]]
    if failed:
        further = f", and {len(failed) - 1} more failed" if failed[1:] else ""
        raise Invalid(f"{_format_option(failed[0])}: {failed[0]['error']}{further}")
    return 0


def _query_prometheus(arguments: argparse.Namespace) -> Iterator[Json]:
    """Yield the queries with new results, which are not stored."""
    with read_configuration(arguments) as (settings, database), show_waiting("querying"):
        for query, report, values in query_load(database, settings, utcnow):
            moments = [value.measured_at for value in values]
            times = min(moments, default=None), max(moments, default=None), 0
            yield render_query(query, report, times, utcnow())


def _run_list(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler, show_waiting("reading load"):
        document = scheduler.get("load")
    names = [query["name"] for query in document["queries"] if query["kind"] == HOST]
    if arguments.query is not None and arguments.query not in names:
        suggestion = suggest_name("query", arguments.query, names)
        raise WrongArguments(f"[load] host_queries has no query {arguments.query!r}{suggestion}")
    rows = [
        {"host": host["host"], **value}
        for host in document["hosts"]
        for value in host["values"]
        if arguments.query in {None, value["query"]}
    ]
    report = None if rows else partial(_print_text, _describe_absence(document))
    print_output(
        arguments, Output(rows, (Column("Host", itemgetter("host")), *_VALUE_COLUMNS), rows, report)
    )
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler:
        document = scheduler.get("load", arguments.host)
    rows = list(_iterate_values(document))
    columns = (Column("Server", itemgetter("server")), *_VALUE_COLUMNS)
    report = None if rows else partial(_print_text, "[load] has no queries")
    print_output(arguments, Output(document, columns, rows, report))
    return 0


def _iterate_values(document: Json) -> Iterator[Json]:
    """Yield a row for each value of the host, and of each of its servers."""
    for value in document["values"]:
        yield {"server": None, **value}
    for server in document["servers"]:
        for value in server["values"]:
            yield {"server": server["uuid"], **value}


def _print_text(text: str, console: Console) -> None:
    console.print(Text(text), soft_wrap=True)


def _print_check(document: Json, console: Console) -> None:
    if not document["collects"]:
        _print_text(_describe_absence(document), console)
    if document["queries"]:
        console.print(build_table(_CHECK_COLUMNS, document["queries"]))
    for query in document["queries"]:
        for sentence in _describe_result(query):
            _print_text(f"{_format_option(query)}: {sentence}", console)


def _describe_absence(document: Json) -> str:
    if not document["queries"]:
        return "[load] has no host_queries: no load is collected"
    if not document["collects"]:
        return "[load] prometheus_url is not set: no load is collected"
    return "no host exists"


def _describe_result(query: Json) -> Iterator[str]:
    """Yield sentences about a query that failed or did not match everything."""
    kind, result = query["kind"], query["result"]
    if query["collected_at"] is None:
        yield "it was not sent yet"
    if query["error"] is not None:
        yield str(query["error"])
    if query["old"]:
        yield f"{format_count(query['old'], 'value')} older than [load] max_age"
    if result is None:
        return
    if not result["series"]:
        yield "Prometheus has no series for it"
    if result["without_label"]:
        labels = ", ".join(result["labels"]) or "none"
        yield (
            f"{result['without_label']} series without the label {query['label']}, see [load] "
            f"{kind}_label. Labels: {labels}"
        )
    if count := result["unmatched"]:
        names = _join_names(count, starmap(_format_label, result["unmatched_labels"].items()))
        yield f"{format_count(count, 'label')} {query['label']} without a {kind}: {names}"
    if count := result["missing"]:
        names = _join_names(count, result["missing_names"])
        yield f"{format_count(count, kind)} without a series: {names}"
    if count := result["several_series"]:
        yield f"{format_count(count, kind)} with several series: aggregate them in the query"
    if count := result["not_a_number"]:
        yield f"{format_count(count, 'value')} NaN or infinite"
    if count := result["out_of_range"]:
        yield f"{format_count(count, 'value')} outside 0 to 1"


def _format_label(label: str, similar_host: str | None) -> str:
    return f"{label} (similar to host {similar_host})" if similar_host else label


def _join_names(count: int, examples: Iterable[str]) -> str:
    names = list(examples)
    further = [f"{count - len(names)} more"] if count > len(names) else []
    return ", ".join([*names, *further])


def _format_option(query: Json) -> str:
    return f"[load] {query['kind']}_queries, {query['name']}"


def _get_state(query: Json) -> str:
    if query["collected_at"] is None:
        return MISSING
    return OK if query["error"] is None else "failed"


def _get_count(name: str, query: Json) -> int | None:
    return None if query["result"] is None else int(query["result"][name])


def _format_age(name: str, row: Json) -> str:
    return "-" if row[name] is None else f"{row[name]:,.0f} s"


def _format_number(name: str, row: Json) -> str:
    return "-" if row[name] is None else f"{row[name]:.3f}"


_VALUE_COLUMNS = (
    Column("Query", itemgetter("query")),
    Column("State", itemgetter("state")),
    *(
        Column(heading, itemgetter(name), partial(_format_number, name), right=True)
        for name, heading in (("value", "Value"), ("smoothed", "Smoothed"))
    ),
    Column("Age", itemgetter("age"), partial(_format_age, "age"), right=True),
)
_CHECK_COLUMNS = (
    Column("Query", itemgetter("name")),
    Column("Of", itemgetter("kind")),
    Column("State", _get_state),
    *(
        Column(heading, partial(_get_count, name), right=True)
        for name, heading in (
            ("series", "Series"),
            ("matched", "Matched"),
            ("unmatched", "Unmatched"),
            ("missing", "Missing"),
            ("out_of_range", "Outside 0 to 1"),
        )
    ),
    Column("Youngest", itemgetter("youngest"), partial(_format_age, "youngest"), right=True),
    Column("Oldest", itemgetter("oldest"), partial(_format_age, "oldest"), right=True),
    Column("Error", itemgetter("error"), hidden=True),
)

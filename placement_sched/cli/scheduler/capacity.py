"""``capacity``: how many more instances of a request fit, and what stops the hosts."""

import argparse
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_format, add_html
from placement_sched.cli.scheduler import render_explanation, request_options
from placement_sched.cli.scheduler.changes import add_change_arguments, with_changes
from placement_sched.cli.scheduler.scheduler_client import add_server_arguments, open_scheduler
from placement_sched.cli.terminal import headed_table, print_json
from placement_sched.console.reports import capacity_report
from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import with_names
from placement_sched.scheduler.capacity.count import Per

_EXAMPLE = """examples:
  placement-sched capacity --flavor m1.small --per zone
  placement-sched capacity --all-flavors
"""
#: What stops most hosts is shown of each line.
_SHOWN = 3


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "count how many more instances of a flavor fit"
    parser = add_command(commands, "capacity", summary, _run, epilog=_EXAMPLE)
    request_options.add_request_arguments(parser, repeatable=("--flavor",))
    parser.add_argument(
        "--all-flavors", action="store_true", help="show every stored flavor, a line for each"
    )
    parser.add_argument(
        "--per",
        choices=[per.value for per in Per],
        help="show the capacity of each zone, aggregate, host or cell as well",
    )
    request_options.add_override(parser, "count with another value of an option")
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="count under this policy instead of the one that the selectors choose",
    )
    add_change_arguments(parser)
    add_server_arguments(parser)
    add_format(parser)
    add_html(parser)


def _run(arguments: argparse.Namespace) -> int:
    """Print the capacity; 0 also where nothing fits."""
    body = _body(arguments)
    with open_scheduler(arguments) as scheduler, request_options.in_words_of_options(arguments):
        answer = scheduler.post("capacity", body)
        names = scheduler.aggregate_names()
        if arguments.html is not None:
            heading = render_explanation.headed("Capacity", scheduler.place)
            render_explanation.write(arguments.html, capacity_report(answer, body, heading, names))
        if arguments.format == "json":
            print_json(answer)
            return 0
        answer = with_names(answer, names)
    if "flavors" in answer:
        _print_flavors(answer["flavors"], Console())
    else:
        _print(answer, Console())
    return 0


def _body(arguments: argparse.Namespace) -> Json:
    """Return the question; raise :class:`Invalid` for flags that contradict."""
    named = arguments.flavor or []
    if arguments.count is not None:
        raise Invalid("--count: the answer is the count")
    if arguments.all_flavors:
        if named:
            raise Invalid("--flavor cannot be given with --all-flavors")
        arguments.flavor = "all"  # in place of a flavor, which the request then has not
    else:
        arguments.flavor = named[0] if named else None
    body = {
        key: value
        for key, value in request_options.request_body(arguments).items()
        if key not in {"claim", "return_alternates", "hosts", "max_rejected"}
    }
    if arguments.all_flavors or len(named) > 1:
        del body["request_spec"]["flavor"]
        body |= {"all_flavors": True} if arguments.all_flavors else {"flavors": named}
    if arguments.override:
        body["overrides"] = {
            **body.get("overrides", {}),
            **request_options.overrides(arguments.override),
        }
    body = with_changes(body, arguments)
    for name in ("per", "policy"):
        if getattr(arguments, name) is not None:
            body[name] = getattr(arguments, name)
    return body


def _print(answer: Json, console: Console) -> None:
    words = "more fit" if answer["exact"] else "more fit, counted so far"
    console.print(Text.assemble((f"{answer['capacity']:,}", "bold"), f" {words}"))
    _print_doubts(answer, console)
    if answer["limited_by"]:
        table = headed_table("Hosts", "Take no more because of")
        for one in answer["limited_by"]:
            table.add_row(f"{one['hosts']:,}", Text(_reason(one)))
        console.print(table)
    if answer["stranded"]:
        console.print(Text(f"Stranded: {_amounts(answer['stranded'])}"), soft_wrap=True)
    if answer.get("per"):
        table = _parts("Where")
        for one in answer["per"]:
            _add_part(table, one["name"] or "-", one)
        console.print(table)


def _print_flavors(flavors: Iterable[Json], console: Console) -> None:
    table = _parts("Flavor")
    for one in flavors:
        mark = "" if one["exact"] else " (not exact)"
        _add_part(table, f"{one['flavor']}{mark}", one)
        for part in one.get("per", ()):
            _add_part(table, f"  {part['name'] or '-'}", part)
    console.print(table if table.row_count else "There is no stored flavor.")
    for one in flavors:
        if not one["exact"] or "refused" in one:
            console.print(Text(f"{one['flavor']}:"))
            _print_doubts(one, console)


def _parts(heading: str) -> Table:
    table = headed_table(heading, "Fit", "Hosts, by what stops them", "Stranded")
    table.columns[1].justify = "right"
    return table


def _add_part(table: Table, name: str, part: Json) -> None:
    stops = part["limited_by"]
    words = [f"{one['hosts']:,} {_reason(one)}" for one in stops[:_SHOWN]]
    more = len(stops) - _SHOWN
    shown = ", ".join(words) + (f", {more} more" if more > 0 else "")
    table.add_row(
        Text(name), f"{part['capacity']:,}", Text(shown), Text(_amounts(part["stranded"]))
    )


def _print_doubts(answer: Json, console: Console) -> None:
    for doubt in answer.get("inexact_because", ()):
        console.print(Text(f"Not exact: {doubt}"), soft_wrap=True)
    if refused := answer.get("refused"):
        console.print(Text(f"The request is refused: {refused}"), soft_wrap=True)


def _reason(one: Json) -> str:
    return f"{one['reason']} {one['detail']}" if "detail" in one else str(one["reason"])


def _amounts(stranded: Json) -> str:
    return ", ".join(f"{name} {free:,}" for name, free in stranded.items())

# SPDX-License-Identifier: Apache-2.0
"""``capacity --host-failures``: checks that instances of failed hosts find places."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter

from rich.console import Console
from rich.text import Text

from placement_sched.cli.output import Column, Output, format_amount, print_output
from placement_sched.cli.scheduler.request_options import in_words_of, list_given
from placement_sched.cli.scheduler.scheduler_client import open_scheduler
from placement_sched.cli.terminal import make_table, show_waiting
from placement_sched.errors import Invalid
from placement_sched.model.document import Json, PathStep

#: Options of ``capacity`` that describe no request.
_OTHERS = ("all_flavors", "per", "override", "policy", "change", "changes", "html")
_OPTIONS = {"host_failures": "--host-failures", "within": "--within"}


def add_failover_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the failover capacity."""
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


def is_failover(arguments: argparse.Namespace) -> bool:
    """Return whether the arguments select the failover capacity."""
    return arguments.host_failures is not None or arguments.within is not None


def run_failover(arguments: argparse.Namespace) -> int:
    """Print the failover capacity, and return 0 even if hosts are uncovered."""
    options = ["FLAVOR"] if arguments.request is not None else list_given(arguments)
    options += [f"--{name.replace('_', '-')}" for name in _OTHERS if getattr(arguments, name, None)]
    if options:
        raise Invalid(f"{options[0]} cannot be combined with --host-failures or --within")
    failures = 1 if arguments.host_failures is None else arguments.host_failures
    body: Json = {"host_failures": failures, "within": arguments.within}

    def place_of(steps: Sequence[PathStep], _key: str | None) -> str | None:
        return _OPTIONS.get(str(steps[0])) if steps else None

    with (
        open_scheduler(arguments) as scheduler,
        show_waiting("placing the instances of failed hosts"),
        in_words_of(place_of),
    ):
        answer = scheduler.post("failover_capacity", body)
    report = partial(_print, answer)
    print_output(arguments, Output(answer, _COLUMNS, list(_list_rows(answer)), report))
    return 0


def _list_rows(answer: Json) -> Iterator[Json]:
    """Yield a row for each instance without a place, or for its failure."""
    for failure in answer["failures"]:
        facts = {"failure": failure["name"], "state": failure["state"]}
        if not failure["nowhere"]:
            yield facts
        for instance in failure["nowhere"]:
            yield {**instance, **facts}


def _print(answer: Json, console: Console) -> None:
    noun = answer["within"] or "host"
    failing = noun if answer["host_failures"] == 1 else f"set of {answer['host_failures']} {noun}s"
    states = ", ".join(
        f"{answer[state]:,} {state}" for state in ("covered", "uncovered", "undetermined")
    )
    console.print(Text(f"If a {failing} fails: {states}"))
    if answer["bound"]:
        console.print(Text(f"Not exact: {answer['bound']}"), soft_wrap=True)
    if answer["failures"]:
        table = make_table("Fails", "Instances", "Nowhere to go", "Lacking")
        table.columns[1].justify = "right"
        for failure in answer["failures"]:
            rows = [
                (f"{each['name'] or each['uuid']} ({each['flavor']})", _format_lacking(each))
                for each in failure["nowhere"]
            ]
            heads = (failure["name"], f"{failure['instances']:,}")
            for cells in rows or [(_describe_unlisted(failure), "")]:
                table.add_row(*heads, *cells)
                heads = ("", "")
        console.print(table)
    if answer["remaining"]:
        table = make_table("Flavor", "More keep this", "Then fails")
        table.columns[1].justify = "right"
        for row in answer["remaining"]:
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
    """Format how many instances keep failures covered, or the bounds of this number."""
    if row["exact"]:
        return f"{row['remaining']:,}"
    at_most = "unknown" if row["at_most"] is None else f"{row['at_most']:,}"
    return f"{row['remaining']:,} to {at_most}"


def _format_breaks(row: Json) -> str:
    breaks = row["breaks"]
    if not breaks:
        return ""
    return f"{breaks['domain']}: places for {breaks['placed']} of {breaks['instances']}"


_COLUMNS = (
    Column("Fails", itemgetter("failure")),
    Column("State", itemgetter("state")),
    Column("Instance", lambda row: row.get("uuid")),
    Column("Name", lambda row: row.get("name")),
    Column("Flavor", lambda row: row.get("flavor")),
    Column("Lacking", lambda row: row.get("lacking"), _format_lacking),
    Column("Reason", lambda row: row.get("reason")),
)

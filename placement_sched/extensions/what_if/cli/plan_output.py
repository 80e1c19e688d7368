# SPDX-License-Identifier: Apache-2.0
"""Output of plans and of their moves."""

import argparse
import sys
from collections import Counter
from functools import partial
from operator import itemgetter

from rich.console import Console

from placement_sched.cli.output import Column, Output, make_table, print_output
from placement_sched.explain.nested_values import Names, with_names
from placement_sched.model.document import Json
from placement_sched.model.instance_request import describe_unknown_facts
from placement_sched.model.names import format_count
from placement_sched.model.provider import describe_other_consumers

#: Heading, key and columns of each printed part of a plan. Row keys are columns in lower case.
_PLAN_PARTS = (
    ("Capacity", "capacity", ("Flavor", "Before", "After")),
    ("Moves, in this order", "moves", ("Instance", "From", "To", "Reason")),
    ("Stuck", "stuck", ("Instance", "Host", "Reason")),
)
#: Columns of the moves of a plan or a rebalance. An instance that is stuck has no destination.
PLAN_MOVE_COLUMNS = (
    Column("Instance", itemgetter("instance")),
    Column("From", itemgetter("from")),
    Column("To", lambda move: move.get("to")),
    Column("Reason", lambda move: move.get("reason")),
)


def print_plan(arguments: argparse.Namespace, plan: Json, names: Names) -> None:
    """Print a plan: capacity, moves and stuck instances.

    ``names`` are the names of aggregates in reasons. JSON and YAML keep the uuids.
    """
    named = with_names(plan, names)
    rows = [*named["moves"], *({**row, "from": row["host"]} for row in named["stuck"])]
    report = partial(_print_plan_parts, named)
    print_output(arguments, Output(plan, PLAN_MOVE_COLUMNS, rows, report))


def _print_plan_parts(plan: Json, console: Console) -> None:
    for heading, key, columns in _PLAN_PARTS:
        if rows := plan.get(key):
            table = make_table(*columns)
            for row in rows:
                table.add_row(*(str(row.get(column.lower(), "")) for column in columns))
            console.print(f"{heading}: {len(rows)}" if key != "capacity" else heading)
            console.print(table)
            console.print()
    console.print(_summarize_moves(plan), soft_wrap=True)
    if note := describe_other_consumers(plan.get("other_consumers", ())):
        console.print(note, soft_wrap=True)
    print_unknown_facts(plan, console)


def print_unknown_facts(plan: Json, console: Console) -> None:
    """Print the unknown facts of requests, which a plan or report ignores."""
    for line in describe_unknown_facts(plan.get("unknown", {})):
        console.print(f"{line} and not considered (see placement-sched nova sync)", soft_wrap=True)


def _summarize_moves(plan: Json) -> str:
    moves, stuck = plan["moves"], plan["stuck"]
    if not moves and not stuck:
        return "no instance has to move"
    targets = Counter(move["to"] for move in moves)
    destination = f" to {format_count(len(targets), 'host')}" if moves else ""
    return f"{format_count(len(moves), 'instance')} would move{destination}, {len(stuck)} could not"


def print_line(text: str) -> None:
    """Print a line immediately, even if stdout is a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

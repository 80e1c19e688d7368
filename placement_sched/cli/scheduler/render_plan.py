# SPDX-License-Identifier: Apache-2.0
"""Output of a plan: capacity, moves and stuck instances."""

import argparse
from collections import Counter
from functools import partial

from rich.console import Console

from placement_sched.cli.output import MOVE_COLUMNS, Output, print_output
from placement_sched.cli.terminal import count_noun, make_table
from placement_sched.model.document import Json


def print_plan(arguments: argparse.Namespace, plan: Json) -> None:
    """Print a plan: capacity, moves and stuck instances."""
    rows = [*plan["moves"], *({**row, "from": row["host"]} for row in plan["stuck"])]
    print_output(arguments, Output(plan, MOVE_COLUMNS, rows, partial(_print_parts, plan)))


def _print_parts(plan: Json, console: Console) -> None:
    for heading, key, columns in _PARTS:
        if rows := plan.get(key):
            table = make_table(*columns)
            for row in rows:
                table.add_row(*(str(row.get(column.lower(), "")) for column in columns))
            console.print(f"{heading}: {len(rows)}" if key != "capacity" else heading)
            console.print(table)
            console.print()
    console.print(_summary(plan), soft_wrap=True)


#: Heading, key and columns of each printed part; the column names are the keys of a row.
_PARTS = (
    ("Capacity", "capacity", ("Flavor", "Before", "After")),
    ("Moves, in this order", "moves", ("Instance", "From", "To", "Reason")),
    ("Stuck", "stuck", ("Instance", "Host", "Reason")),
)


def _summary(plan: Json) -> str:
    moves, stuck = plan["moves"], plan["stuck"]
    if not moves and not stuck:
        return "no instance has to move"
    targets = Counter(move["to"] for move in moves)
    destination = f" to {count_noun(len(targets), 'host')}" if moves else ""
    return f"{count_noun(len(moves), 'instance')} would move{destination}, {len(stuck)} could not"

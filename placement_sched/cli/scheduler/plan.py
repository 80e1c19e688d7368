"""``plan``: what changes of the cloud come to, and which instances would move where."""

import argparse
from collections import Counter

from rich.console import Console

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.scheduler.changes import change_of, changes_in, read_file
from placement_sched.cli.scheduler.scheduler_access import add_server_arguments, open_scheduler
from placement_sched.cli.terminal import headed_table, print_json, waiting
from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.model.flat_changes import FORMS

#: What a file may have.
_KEYS = {"changes", "flavors"}
_EXAMPLE = """example:
  placement-sched plan --change drain=cn1,cn2 --flavor m1.small
"""


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "show what changes of the cloud come to, and which instances would move where"
    plan = add_command(commands, "plan", summary, _run, epilog=_EXAMPLE)
    plan.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="YAML or JSON: a list of changes, or an object with changes and flavors; - is stdin",
    )
    plan.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="CHANGE",
        help=f"one more change: {FORMS}; or as JSON; repeatable",
    )
    plan.add_argument(
        "--flavor",
        action="append",
        default=[],
        metavar="FLAVOR",
        help="count the capacity for this flavor (id or name) before and after; repeatable "
        "(default: every stored flavor)",
    )
    add_server_arguments(plan)
    add_format(plan)


def _run(arguments: argparse.Namespace) -> int:
    """Print the plan; 0 also where instances are stuck."""
    with open_scheduler(arguments) as scheduler, waiting("planning"):
        found = scheduler.plan(_body(arguments))
    if arguments.format == "json":
        print_json(found)
        return 0
    console = Console()
    for heading, key, columns in _PARTS:
        if rows := found.get(key):
            table = headed_table(*columns)
            for row in rows:
                table.add_row(*(str(row.get(column.lower(), "")) for column in columns))
            console.print(f"{heading}: {len(rows)}" if key != "capacity" else heading)
            console.print(table)
            console.print()
    console.print(_summary(found), soft_wrap=True)
    return 0


#: What of a plan is shown, with the columns, whose names are the keys.
_PARTS = (
    ("Capacity", "capacity", ("Flavor", "Before", "After")),
    ("Moves, in this order", "moves", ("Instance", "From", "To", "Reason")),
    ("Stuck", "stuck", ("Instance", "Host", "Reason")),
)


def _summary(found: Json) -> str:
    moves, stuck = found["moves"], found["stuck"]
    if not moves and not stuck:
        return "no instance has to move"
    into = Counter(one["to"] for one in moves)
    where = f" to {len(into)} hosts" if moves else ""
    return f"{len(moves)} instances would move{where}, {len(stuck)} could not"


def _body(arguments: argparse.Namespace) -> Json:
    body = {} if arguments.file is None else read_file(arguments.file)
    if unknown := sorted(body.keys() - _KEYS):
        raise Invalid(f"{arguments.file}: unknown key {unknown[0]!r}; known are changes, flavors")
    changes = [*changes_in(body, arguments.file or ""), *map(change_of, arguments.change)]
    if not changes:
        raise Invalid("give a FILE of changes, or --change")
    flavors = [*(body.get("flavors") or []), *arguments.flavor]
    return {"changes": changes, **({"flavors": flavors} if flavors else {})}

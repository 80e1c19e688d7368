# SPDX-License-Identifier: Apache-2.0
"""``plan-run list`` and ``plan-run show``: plans that were carried out."""

import argparse
from functools import partial
from operator import itemgetter

from placement_sched.cli.arguments import Commands, add_command, add_group
from placement_sched.cli.output import Column, Output, print_output
from placement_sched.cli.scheduler.execution import MOVE_COLUMNS, print_run
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler
from placement_sched.limits import MAX_PAGE
from placement_sched.model.journal.plan_run import KINDS, RUN_STATES

_COLUMNS = (
    Column("Run", itemgetter("uuid")),
    Column("Created", itemgetter("created_at")),
    Column("Kind", itemgetter("kind")),
    Column("State", itemgetter("state")),
    Column("Moves", lambda run: sum(run["counts"].values()), right=True),
    Column("Done", lambda run: run["counts"]["done"], right=True),
    Column("Failed", lambda run: run["counts"]["failed"], right=True),
    Column("Method", itemgetter("method"), hidden=True),
    Column("User", itemgetter("user_id"), hidden=True),
)


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "plan-run", "list plans that were carried out, or show a plan")
    summary = "list plans that were carried out, newest first"
    parser = add_command(group, "list", summary, _run_list).add_examples("--state failed")
    parser.add_argument("--state", choices=RUN_STATES, help="only runs in this state")
    parser.add_argument("--kind", choices=KINDS, help="only runs of this kind")
    parser.add_argument(
        "--limit",
        type=int,
        choices=range(1, MAX_PAGE + 1),
        default=20,
        metavar="N",
        help=f"maximum number of runs, at most {MAX_PAGE} (default: %(default)s)",
    )
    add_common_arguments(parser)
    summary = "show a plan that was carried out: its moves and their states"
    parser = add_command(group, "show", summary, _run_show)
    parser.add_examples("7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c01")
    parser.add_argument("plan_run", metavar="RUN", help="uuid of the run")
    add_common_arguments(parser)


def _run_list(arguments: argparse.Namespace) -> int:
    query = {"state": arguments.state, "kind": arguments.kind, "limit": str(arguments.limit)}
    with open_scheduler(arguments) as scheduler:
        document = scheduler.plan_runs({key: text for key, text in query.items() if text})
    print_output(arguments, Output(document, _COLUMNS, document["plan_runs"]))
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler:
        run = scheduler.show("plan_runs", arguments.plan_run)
    print_output(arguments, Output(run, MOVE_COLUMNS, run["moves"], partial(print_run, run)))
    return 0

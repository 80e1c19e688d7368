# SPDX-License-Identifier: Apache-2.0
"""``rebalance``: proposed moves, which ``--execute`` carries out."""

import argparse
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from placement_sched.cli.arguments import Commands, add_command
from placement_sched.cli.output import MOVE_COLUMNS, Output, build_table, print_output
from placement_sched.cli.scheduler.execution import (
    add_execution_arguments,
    check_execution_arguments,
    execute_plan,
    open_nova,
    resume_run,
)
from placement_sched.cli.scheduler.request_options import in_words_of
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler
from placement_sched.cli.terminal import show_waiting
from placement_sched.errors import Invalid
from placement_sched.model.document import Json, PathStep, join_keys
from placement_sched.model.plan_run import REBALANCE

#: Argument of each part of the request.
_ARGUMENTS = {
    "moves": "--moves",
    "request_spec.flavor": "FLAVOR",
    "request_spec.availability_zone": "--zone",
}


def register(commands: Commands) -> None:
    """Add the command."""
    summary = "propose moves that free capacity, empty hosts or balance the load"
    rebalance = add_command(commands, "rebalance", summary, _run)
    rebalance.add_examples("m1.large --moves 3", "--goal spread")
    rebalance.add_argument(
        "flavor",
        metavar="FLAVOR",
        nargs="?",
        help="with --goal fit: stored flavor (id or name) that shall fit",
    )
    rebalance.add_argument(
        "--goal",
        choices=("fit", "pack", "spread"),
        default="fit",
        help="fit: free capacity for FLAVOR; pack: empty as many hosts as possible; spread: lower "
        "the highest load (default: %(default)s)",
    )
    rebalance.add_argument(
        "--moves",
        type=int,
        default=5,
        metavar="N",
        help="maximum number of proposed moves (default: 5)",
    )
    rebalance.add_argument("--zone", help="with --goal fit: availability zone")
    add_execution_arguments(rebalance)
    add_common_arguments(rebalance)


def _run(arguments: argparse.Namespace) -> int:
    """Print the proposal, or execute it with ``--execute``.

    The status of a proposal is 0 even if no move helps.
    """
    check_execution_arguments(arguments)
    if arguments.resume is not None:
        return resume_run(arguments)
    body = _body(arguments)
    with open_scheduler(arguments) as scheduler, show_waiting("searching"), in_words_of(_place_of):
        proposal = scheduler.post("rebalance", body)
    if arguments.execute and proposal["moves"]:
        with open_scheduler(arguments) as scheduler, open_nova(arguments) as nova:
            return execute_plan(arguments, scheduler, nova, REBALANCE, body, proposal)
    report = partial(_print_proposal, proposal)
    print_output(arguments, Output(proposal, MOVE_COLUMNS, proposal["moves"], report))
    return 0


def _print_proposal(proposal: Json, console: Console) -> None:
    if proposal["moves"]:
        console.print(build_table(MOVE_COLUMNS, proposal["moves"]))
        console.print()
        names = proposal["moves"][0]["passed"]
        console.print(f"Each host was selected by the scheduler and passed {', '.join(names)}.")
    console.print(proposal["outcome"], soft_wrap=True)


def _place_of(steps: Sequence[PathStep], _key: str | None) -> str | None:
    return _ARGUMENTS.get(join_keys(steps[:2]))


def _body(arguments: argparse.Namespace) -> Json:
    body: Json = {"goal": arguments.goal, "moves": arguments.moves}
    if arguments.goal != "fit":
        if arguments.flavor is not None or arguments.zone is not None:
            raise Invalid(f"--goal {arguments.goal} does not accept FLAVOR or --zone")
        return body
    if arguments.flavor is None:
        raise Invalid("--goal fit needs a FLAVOR")
    spec: Json = {"flavor": arguments.flavor}
    if arguments.zone is not None:
        spec["availability_zone"] = arguments.zone
    return {**body, "request_spec": spec}

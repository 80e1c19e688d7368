# SPDX-License-Identifier: Apache-2.0
"""``plan``, ``plan-run`` and ``rebalance``: moves of instances."""

import argparse
from functools import partial
from operator import itemgetter

from rich.console import Console

from placement_sched.cli.arguments import Commands, WrongArguments, add_command, add_group
from placement_sched.cli.output import Column, Output, build_table, print_output, show_waiting
from placement_sched.cli.scheduler import request_options
from placement_sched.cli.scheduler.request_options import replace_json_paths
from placement_sched.cli.scheduler.scheduler_client import add_common_arguments, open_scheduler
from placement_sched.extensions.what_if.cli.execution import (
    MOVE_COLUMNS,
    STUCK_COLUMNS,
    add_execution_arguments,
    check_execution_arguments,
    execute_plan,
    open_nova,
    print_run,
    resume_run,
)
from placement_sched.extensions.what_if.cli.plan_output import (
    PLAN_MOVE_COLUMNS,
    print_plan,
    print_unknown_facts,
)
from placement_sched.extensions.what_if.rebalance import GOALS
from placement_sched.limits import MAX_PAGE
from placement_sched.model.document import Json, join_keys
from placement_sched.model.names import suggest_name
from placement_sched.model.plan_run import KINDS, PLAN, REBALANCE, RUN_STATES
from placement_sched.model.short_forms import FORMS

_RUN_COLUMNS = (
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
#: Argument that sets each part of the request, by JSON path.
_GOAL_ARGUMENTS = {
    "moves": "--moves",
    "request_spec.flavor": "FLAVOR",
    "request_spec.availability_zone": "--zone",
}


def register(commands: Commands) -> None:
    """Add the commands."""
    _add_plan(commands)
    _add_plan_run(commands)
    _add_rebalance(commands)


def _add_plan(commands: Commands) -> None:
    summary = "show the effect of changes to the cloud and the moves of instances"
    plan = add_command(commands, "plan", summary, _run)
    plan.add_examples(
        "--change drain=cn1,cn2 --flavor m1.small", "changes.yaml", "--change drain=cn1 --execute"
    )
    plan.add_argument(
        "changes",
        metavar="FILE",
        nargs="?",
        help="YAML or JSON: a list of changes, or an object with changes, flavors and overrides "
        "(-: stdin)",
    )
    plan.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="CHANGE",
        help=f"a further change: {FORMS}, or as JSON (repeatable)",
    )
    plan.add_argument(
        "--flavor",
        action="append",
        default=[],
        metavar="FLAVOR",
        help="count the capacity for this flavor (id or name) before and after "
        "(repeatable, default: every stored flavor)",
    )
    request_options.add_override(plan, "simulate this value of an option")
    add_execution_arguments(plan)
    add_common_arguments(plan, reads_cloud=True)


def _run(arguments: argparse.Namespace) -> int:
    """Print the plan, or execute it with ``--execute`` or ``--resume``.

    If the plan is only printed, the exit status is 0 even if instances are stuck.
    """
    check_execution_arguments(arguments)
    if arguments.resume is not None:
        names = ("change", "flavor", "override", "execute")
        options = ["FILE"] if arguments.changes is not None else []
        options += [f"--{name}" for name in names if getattr(arguments, name)]
        if options:
            raise WrongArguments(f"--resume does not accept {options[0]}")
        return resume_run(arguments)
    body = _build_body(arguments)
    with (
        open_scheduler(arguments) as scheduler,
        show_waiting("planning"),
        request_options.with_option_names(arguments),
    ):
        plan = scheduler.post("plan", body=body)
        aggregates = scheduler.map_aggregate_names()
    if arguments.execute and plan["moves"]:
        with open_scheduler(arguments) as scheduler, open_nova(arguments) as nova:
            return execute_plan(arguments, scheduler, nova, PLAN, body, plan)
    print_plan(arguments, plan, aggregates)
    return 1 if arguments.execute and plan["stuck"] else 0


def _build_body(arguments: argparse.Namespace) -> Json:
    body = request_options.with_changes({}, arguments, with_flavors=True)
    if "changes" not in body:
        raise WrongArguments("no changes: add a FILE of changes or --change")
    changes = [change for change in body["changes"] if isinstance(change, dict)]
    if arguments.execute and any("add" in change for change in changes):
        raise WrongArguments("--execute does not accept add: the added hosts do not exist")
    return body


def _add_plan_run(commands: Commands) -> None:
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
        document = scheduler.get(
            "plan_runs", query={key: text for key, text in query.items() if text}
        )
    print_output(arguments, Output(document, _RUN_COLUMNS, document["plan_runs"]))
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler:
        run = scheduler.get("plan_runs", arguments.plan_run)
    print_output(arguments, Output(run, MOVE_COLUMNS, run["moves"], partial(print_run, run)))
    return 0


def _add_rebalance(commands: Commands) -> None:
    summary = "propose moves that free capacity, empty hosts, balance the load or end violations"
    rebalance = add_command(commands, "rebalance", summary, _run_rebalance)
    rebalance.add_examples("m1.large --moves 3", "--goal spread", "--goal comply --moves 20")
    rebalance.add_argument(
        "flavor",
        metavar="FLAVOR",
        nargs="?",
        help="with --goal fit: stored flavor (id or name) that shall fit",
    )
    rebalance.add_argument(
        "--goal",
        metavar="GOAL",
        default="fit",
        help="fit (free capacity for FLAVOR), pack (empty as many hosts as possible), spread "
        "(lower the highest load) or comply (end violations) (default: %(default)s)",
    )
    rebalance.add_argument(
        "--moves",
        type=int,
        default=5,
        metavar="N",
        help="maximum number of proposed moves (default: 5)",
    )
    rebalance.add_argument(
        "--zone", help="with --goal fit: FLAVOR must fit in this availability zone"
    )
    add_execution_arguments(rebalance)
    add_common_arguments(rebalance, reads_cloud=True)


def _run_rebalance(arguments: argparse.Namespace) -> int:
    """Print the proposal, or execute it with ``--execute``.

    If the proposal is only printed, the exit status is 0 even if no move helps.
    """
    check_execution_arguments(arguments)
    if arguments.resume is not None:
        return resume_run(arguments)
    body = _rebalance_body(arguments)
    with (
        open_scheduler(arguments) as scheduler,
        show_waiting("searching"),
        replace_json_paths(lambda steps, _key: _GOAL_ARGUMENTS.get(join_keys(steps[:2]))),
    ):
        proposal = scheduler.post("rebalance", body=body)
    if arguments.execute and proposal["moves"]:
        with open_scheduler(arguments) as scheduler, open_nova(arguments) as nova:
            return execute_plan(arguments, scheduler, nova, REBALANCE, body, proposal)
    report = partial(_print_proposal, proposal)
    rows = [*proposal["moves"], *({**row, "from": row["host"]} for row in proposal["stuck"])]
    print_output(arguments, Output(proposal, PLAN_MOVE_COLUMNS, rows, report))
    return 1 if arguments.execute and proposal["stuck"] else 0


def _print_proposal(proposal: Json, console: Console) -> None:
    if proposal["moves"]:
        console.print(build_table(PLAN_MOVE_COLUMNS, proposal["moves"]))
        console.print()
        names = proposal["moves"][0]["passed"]
        console.print(f"Each host was selected by the scheduler and passed {', '.join(names)}.")
    if stuck := proposal["stuck"]:
        console.print(f"Stuck: {len(stuck)}")
        console.print(build_table(STUCK_COLUMNS, stuck))
        console.print()
    console.print(proposal["outcome"], soft_wrap=True)
    print_unknown_facts(proposal, console)


def _rebalance_body(arguments: argparse.Namespace) -> Json:
    if arguments.goal not in GOALS:
        suggestion = suggest_name("goal", arguments.goal, GOALS)
        raise WrongArguments(f"there is no --goal {arguments.goal!r}{suggestion}")
    body: Json = {"goal": arguments.goal, "moves": arguments.moves}
    if arguments.goal != "fit":
        if arguments.flavor is not None or arguments.zone is not None:
            raise WrongArguments(f"--goal {arguments.goal} does not accept FLAVOR or --zone")
        return body
    if arguments.flavor is None:
        raise WrongArguments("--goal fit needs a FLAVOR")
    spec: Json = {"flavor": arguments.flavor}
    if arguments.zone is not None:
        spec["availability_zone"] = arguments.zone
    return {**body, "request_spec": spec}

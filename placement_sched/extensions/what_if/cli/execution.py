# SPDX-License-Identifier: Apache-2.0
"""Arguments and output of commands that carry out the moves of a plan."""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from uuid import uuid4

from rich.console import Console
from rich.text import Text

from placement_sched.cli.arguments import (
    ArgumentGroup,
    EmbeddedParser,
    WrongArguments,
    parse_positive_number,
    parse_seconds,
)
from placement_sched.cli.database import find_cloud_source
from placement_sched.cli.login import make_adapters
from placement_sched.cli.output import Column, Output, build_table, is_report, print_output
from placement_sched.cli.scheduler.scheduler_client import SchedulerClient, open_scheduler
from placement_sched.clients.session import silence_library_logs
from placement_sched.errors import Conflict, Error, Invalid, NotFound, shorten
from placement_sched.extensions.what_if.cli.plan_output import print_line
from placement_sched.extensions.what_if.nova_api import STOPPING_VERSION, VERSION, Nova
from placement_sched.extensions.what_if.plan_runs import PlanExecution
from placement_sched.limits import MAX_MESSAGE_CHARACTERS, MAX_PLAN_MOVES
from placement_sched.model.document import Json
from placement_sched.model.names import canonicalize_uuid, format_count, suggest_name
from placement_sched.model.plan_run import (
    COLD,
    DONE,
    EVACUATE,
    EVACUATION,
    FINAL_STATES,
    LIVE,
    MOVE_STATES,
    RUNNING,
    SKIPPED,
    STOPPED,
    RunMove,
)
from placement_sched.model.provider import describe_other_consumers

#: Exit status after Ctrl-C, as in shells.
INTERRUPTED = 128 + signal.SIGINT

#: Columns of the moves of a run.
MOVE_COLUMNS = (
    Column("Instance", itemgetter("instance")),
    Column("From", itemgetter("from")),
    Column("To", itemgetter("to")),
    Column("State", itemgetter("state")),
    Column("Error", itemgetter("error")),
    Column("Started", itemgetter("started_at"), hidden=True),
    Column("Finished", itemgetter("finished_at"), hidden=True),
    Column("Decision", itemgetter("decision"), hidden=True),
)
#: Columns of instances that stay.
STUCK_COLUMNS = (
    Column("Instance", itemgetter("instance")),
    Column("Host", itemgetter("host")),
    Column("Reason", itemgetter("reason")),
)


def add_nova_url(group: ArgumentGroup) -> None:
    """Add the option of nova's address."""
    group.add_argument(
        "--nova-url",
        metavar="URL",
        help="compute API of nova, such as http://controller:8774/v2.1 (default: the compute "
        "endpoint of the cloud's catalogue)",
    )


def add_execution_arguments(
    parser: argparse.ArgumentParser, *, resumes: bool = True, evacuates: bool = False
) -> None:
    """Add the options for executing a plan, with ``--resume`` if ``resumes``.

    A command that ``evacuates`` has other methods than migrations.
    """
    parser.set_defaults(execute=False, resume=None, cold=False)
    if isinstance(parser, EmbeddedParser):  # the openstack command only shows plans
        return
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--execute",
        action="store_true",
        help="move the instances by nova's API, in the order of the plan (default: only show the "
        "plan)",
    )
    if resumes:
        group.add_argument(
            "--resume", metavar="RUN", help="carry out the remaining moves of this run"
        )
        group.add_argument(
            "--skip",
            metavar="INSTANCE",
            action="append",
            default=[],
            help="with --resume: do not move this instance (uuid, repeatable)",
        )
    if evacuates:
        group.add_argument(
            "--fenced",
            action="store_true",
            help="confirm that no instance of the host runs or writes to a disk any more, for "
            "example because the host is switched off. Needed by --execute",
        )
        group.add_argument(
            "--running",
            action="store_true",
            help="let active instances run on arrival, as nova did before 2023.1 (default: they "
            "arrive stopped)",
        )
    else:
        group.add_argument(
            "--cold",
            action="store_true",
            help="migrate active instances cold and confirm (default: live). Stopped instances "
            "always move cold, and paused instances live",
        )
    group.add_argument(
        "--stop-on-failure",
        action="store_true",
        help="start no further move after a failure (default: go on with the other moves)",
    )
    group.add_argument(
        "--parallel",
        type=parse_positive_number,
        metavar="K",
        help="maximum number of moves at a time (default: 1)",
    )
    group.add_argument(
        "--move-timeout",
        type=parse_seconds,
        default=3600.0,
        metavar="SECONDS",
        help="a move that nova has not finished after this time has failed (default: 3600)",
    )
    add_nova_url(group)


def check_execution_arguments(arguments: argparse.Namespace) -> None:
    """Reject options that have no effect without --execute or --resume."""
    if getattr(arguments, "skip", None) and arguments.resume is None:
        raise WrongArguments("--skip needs --resume")
    if arguments.execute or arguments.resume is not None:
        if find_cloud_source(arguments):
            raise WrongArguments("instances of a fleet file cannot be moved: omit --fleet")
        return
    for name in ("cold", "fenced", "running", "parallel", "stop_on_failure"):
        if getattr(arguments, name, None):
            raise WrongArguments(f"--{name.replace('_', '-')} needs --execute")


@contextmanager
def open_nova(arguments: argparse.Namespace) -> Iterator[Nova]:
    """Yield the client of nova with the login of the arguments.

    Raises :class:`Invalid` if the arguments name neither a cloud nor the address of nova.
    """
    urls = {"compute": ("--nova-url", arguments.nova_url)}
    for adapter in make_adapters(arguments, urls).values():
        with silence_library_logs():
            yield Nova(adapter, arguments.timeout)
        return
    raise Invalid(
        "nova's compute API is not set: add --os-cloud or --nova-url, or set $OS_AUTH_URL"
    )


def set_evacuation_version(nova: Nova, request: Json) -> Nova:
    """Return the client for an evacuation, with the request of its run."""
    return nova.with_version(VERSION if request.get("running") else STOPPING_VERSION)


def execute_plan(
    arguments: argparse.Namespace,
    scheduler: SchedulerClient,
    nova: Nova,
    kind: str,
    request: Json,
    plan: Json,
) -> int:
    """Record a run of a plan, carry out its moves, and return the exit status."""
    if len(plan["moves"]) > MAX_PLAN_MOVES:
        raise Invalid(
            f"the plan has {len(plan['moves'])} moves, and a run has at most {MAX_PLAN_MOVES}: "
            "plan fewer hosts at a time"
        )
    executor = str(uuid4())
    stuck = [
        {
            "instance": row["instance"],
            "host": row["host"],
            "reason": shorten(row["reason"], MAX_MESSAGE_CHARACTERS),
        }
        for row in plan.get("stuck", ())[:MAX_PLAN_MOVES]
    ]
    body = {
        "kind": kind,
        "method": EVACUATE if kind == EVACUATION else COLD if arguments.cold else LIVE,
        "parallel": min(arguments.parallel or 1, MAX_PLAN_MOVES),
        "executor": executor,
        "moves": [{key: move[key] for key in ("instance", "from", "to")} for move in plan["moves"]],
        "stuck": stuck,
        "request": request,
    }
    run = scheduler.post("plan_runs", body=body)
    status = _carry_out(arguments, scheduler, nova, run, executor)
    note = describe_other_consumers(plan.get("other_consumers", ()))
    if note and is_report(arguments):
        print_line(note)
    return status


def resume_run(arguments: argparse.Namespace) -> int:
    """Carry out the open moves of a recorded run, and return the exit status."""
    executor = str(uuid4())
    with open_scheduler(arguments) as scheduler, open_nova(arguments) as client:
        nova, run = client, scheduler.get("plan_runs", arguments.resume)
        if arguments.skip:
            _check_skipped(run, arguments.skip)
        if run["method"] == EVACUATE:
            if arguments.cold:
                raise WrongArguments("--cold: the run evacuates a host")
            nova = set_evacuation_version(nova, run["request"])
        body = {"executor": executor, "state": RUNNING}
        run = scheduler.put("plan_runs", arguments.resume, body=body)
        skipped = {"executor": executor, "state": SKIPPED, "error": "skipped by --skip"}
        for instance in arguments.skip:
            scheduler.put("plan_runs", run["uuid"], "moves", instance, body=skipped)
        run = scheduler.get("plan_runs", run["uuid"]) if arguments.skip else run
        return _carry_out(arguments, scheduler, nova, run, executor)


def _check_skipped(run: Json, instances: Sequence[str]) -> None:
    """Reject instances that have no open move in the run."""
    states = {move["instance"]: move["state"] for move in run["moves"]}
    for instance in map(canonicalize_uuid, instances):
        if instance not in states:
            suggestion = suggest_name("instance", instance, states)
            raise NotFound(
                f"--skip: run {run['uuid']} has no move of instance {instance}{suggestion}"
            )
        if states[instance] in FINAL_STATES:
            raise Conflict(f"--skip: the move of instance {instance} is already {states[instance]}")


def _carry_out(
    arguments: argparse.Namespace, scheduler: SchedulerClient, nova: Nova, run: Json, executor: str
) -> int:
    uuid, has_report = run["uuid"], is_report(arguments)
    if has_report:
        print_line(f"run {uuid}: {format_count(len(run['moves']), 'move')}, {run['method']}")

    def change(body: Json, instance: str | None) -> Json:
        path = () if instance is None else ("moves", instance)
        return scheduler.put("plan_runs", uuid, *path, body={"executor": executor, **body})

    execution = PlanExecution(
        change=change,
        nova=nova,
        method=COLD if arguments.cold else run["method"],
        parallel=arguments.parallel or run["parallel"],
        timeout=arguments.move_timeout,
        stops_on_failure=arguments.stop_on_failure,
        report=_print_event if has_report else lambda *_: None,
    )
    try:
        state = execution.run([RunMove.from_json(move) for move in run["moves"]])
    except Error:
        sys.stderr.write(f"{_resume_hint(uuid)}\n")
        raise
    run = scheduler.get("plan_runs", uuid)
    if has_report:
        print_line("")
    print_output(arguments, Output(run, MOVE_COLUMNS, run["moves"], partial(print_run, run)))
    if state == STOPPED:
        return INTERRUPTED
    return 0 if state == DONE and not run["stuck"] else 1


def _print_event(move: RunMove, state: str, error: str | None) -> None:
    suffix = f": {error}" if error else ""
    print_line(f"{move.instance}  {move.source} -> {move.target}  {state}{suffix}")


def print_run(run: Json, console: Console) -> None:
    """Print the moves of a run, the stuck instances and a summary."""
    console.print(build_table(MOVE_COLUMNS, run["moves"]))
    if run["stuck"]:
        console.print(Text(f"\nStuck: {len(run['stuck'])}"))
        console.print(build_table(STUCK_COLUMNS, run["stuck"]))
    counts = ", ".join(f"{run['counts'][state]} {state}" for state in MOVE_STATES)
    console.print(Text(f"\nrun {run['uuid']} is {run['state']}: {counts}"), soft_wrap=True)
    if run["state"] != DONE:
        console.print(Text(_resume_hint(run["uuid"])), soft_wrap=True)


def _resume_hint(uuid: str) -> str:
    return f"continue with: placement-sched plan --resume {uuid}"

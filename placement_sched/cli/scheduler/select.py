"""``select`` and ``explain``: place a request or show how it would be placed."""

import argparse

from rich.console import Console

from placement_sched.cli.arguments import Commands, add_command, add_format, add_html
from placement_sched.cli.scheduler import report_file, request
from placement_sched.cli.scheduler.changes import add_change_arguments, with_changes
from placement_sched.cli.scheduler.comparison import (
    refuse_unknown,
    render_comparison,
    render_verdicts,
)
from placement_sched.cli.scheduler.funnel import render
from placement_sched.cli.scheduler.scheduler_access import (
    SchedulerApi,
    add_server_arguments,
    open_scheduler,
)
from placement_sched.cli.terminal import print_json
from placement_sched.console.reports import explanation_report, facts_of
from placement_sched.errors import Invalid, NoValidHost
from placement_sched.model.document import Json
from placement_sched.model.explanation import UNKNOWN
from placement_sched.model.explanation_reader import obstacle

_EXAMPLE = """example:
  placement-sched explain --vcpus 4 --ram 8192 --disk 40 --property trait:HW_CPU_X86_AVX2=required
"""


def register(commands: Commands) -> None:
    """Add the two commands."""
    summary = "select hosts for a request and claim its resources"
    select = add_command(commands, "select", summary, _run_select, epilog=_EXAMPLE)
    _add_common(select)
    select.add_argument("--no-claim", action="store_true", help="select, but allocate nothing")
    select.add_argument(
        "--alternates", action="store_true", help="return alternate hosts in the same cell as well"
    )
    summary = "show how a request would be placed, stage by stage; claim nothing"
    explain = add_command(commands, "explain", summary, _run_explain, epilog=_EXAMPLE)
    _add_common(explain)
    explain.add_argument(
        "--host",
        action="append",
        default=[],
        help="show the verdict on this host first, and show only this host (all hosts are still "
        "evaluated); the name of a host, node or provider, or a uuid; repeatable",
    )
    request.add_override(explain, "evaluate with another value of an option")
    explain.add_argument(
        "--keep",
        action="store_true",
        help="record the explanation as a decision, to be shown and replayed with 'decisions'",
    )
    policies = explain.add_mutually_exclusive_group()
    policies.add_argument(
        "--policy",
        metavar="NAME",
        help="evaluate under this policy instead of the one that the selectors choose",
    )
    policies.add_argument(
        "--compare",
        metavar="NAME,NAME",
        help="evaluate under each of these policies, and show them side by side",
    )
    add_change_arguments(explain)
    add_html(explain)


def _add_common(parser: argparse.ArgumentParser) -> None:
    request.add_request_arguments(parser)
    add_server_arguments(parser)
    add_format(parser)


def _run_explain(arguments: argparse.Namespace) -> int:
    """Print the explanation; 0 also without a host. Raises :class:`NotFound` for unknown ones."""
    body = _explain_body(arguments)
    with open_scheduler(arguments) as scheduler, request.in_words_of_options(arguments):
        if arguments.compare is not None:
            return _compare(scheduler, body, arguments)
        explanation = scheduler.post("explain", body)
        verdicts = explanation.get("verdicts", [])
        if arguments.html is not None:
            names = scheduler.aggregate_names()
            heading = report_file.headed("Explanation", scheduler.place, *facts_of(body))
            report = explanation_report(explanation, body["request_spec"], heading, names)
            report_file.write(arguments.html, report)
        if arguments.format == "json":
            print_json(explanation)
        elif not verdicts or any(one["verdict"] != UNKNOWN for one in verdicts):
            names = scheduler.aggregate_names()
            render_verdicts(explanation, Console(), names)
            render(explanation, Console(), names=names)
            if kept := explanation.get("decision"):
                Console().print(f"Kept as decision {kept}", soft_wrap=True)
            if _is_empty(explanation):
                Console().print(f"{scheduler.place} has no resource provider", soft_wrap=True)
    refuse_unknown(verdicts)
    request.refuse_unknown_hosts(explanation["funnel"], arguments)
    return 0


def _explain_body(arguments: argparse.Namespace) -> Json:
    """Return what is asked of ``POST /explain``."""
    if arguments.html is not None and arguments.compare is not None:
        raise Invalid("--html: a report is of one policy; leave out --compare")
    body = request.request_body(arguments)
    body = {key: value for key, value in body.items() if key not in {"claim", "return_alternates"}}
    if arguments.host:
        body["hosts"] = arguments.host
    if arguments.override:
        body["overrides"] = {**body.get("overrides", {}), **request.overrides(arguments.override)}
    body = with_changes(body, arguments)
    body.setdefault("max_rejected", 0)
    if arguments.policy is not None:
        body["policy"] = arguments.policy
    if arguments.keep:
        body["keep"] = True
    return body


def _compare(scheduler: SchedulerApi, body: Json, arguments: argparse.Namespace) -> int:
    policies = list(dict.fromkeys(name.strip().lower() for name in arguments.compare.split(",")))
    if len(policies) < 2 or not all(policies):
        raise Invalid("--compare: name at least two policies, separated by commas")
    body = request.with_instances(body)
    explanations = {name: scheduler.post("explain", {**body, "policy": name}) for name in policies}
    if arguments.format == "json":
        print_json(explanations)
    else:
        render_comparison(explanations, Console(), scheduler.aggregate_names())
    refuse_unknown(next(iter(explanations.values())).get("verdicts", []))
    return 0


def _run_select(arguments: argparse.Namespace) -> int:
    """Place the request, print the funnel and what was claimed; raise :class:`NoValidHost`.

    An answer to a selection has no funnel, so an explanation is asked just before; in between
    another request may take a host. What was selected, and whether, is the selection's to say.
    """
    body = request.with_instances(request.request_body(arguments))
    if arguments.no_claim:
        body["claim"] = False
    if arguments.alternates:
        body["return_alternates"] = True
    with open_scheduler(arguments) as scheduler, request.in_words_of_options(arguments):
        if arguments.format == "json":
            try:
                print_json(scheduler.post("select_destinations", body))
            except NoValidHost as failure:
                print_json({"code": failure.code, "detail": failure.detail, **failure.extra})
                raise
            return 0
        explanation = scheduler.post(
            "explain", {"request_spec": body["request_spec"], "max_rejected": 0}
        )
        names = scheduler.aggregate_names()
        try:
            answer = scheduler.post("select_destinations", body)
        except NoValidHost as failure:
            # Where the request explained still found a host, the selection's own funnel counts.
            found = {} if explanation["outcome"] == "no_valid_host" else failure.extra
            refused = {**explanation, "outcome": "no_valid_host", **found}
            render(refused, Console(), names=names)
            asked = f" in {scheduler.place}" if _is_empty(refused) else ""
            raise NoValidHost(f"no valid host: {obstacle(refused)}{asked}") from None
    chosen = zip(body["request_spec"]["instance_uuids"], answer["selections"], strict=True)
    selected = [{**best, "instance": uuid} for uuid, (best, *_) in chosen]
    title = "Claimed" if body.get("claim", True) else "Selected, not claimed"
    render(explanation, Console(), selected, title, names)
    return 0


def _is_empty(explanation: Json) -> bool:
    """Return whether there is no resource provider at all: it may be the wrong database."""
    found = explanation["funnel"].get("obstacle", {})
    return (found.get("stage"), found.get("name")) == ("allocation_candidates", "providers")

"""``select`` and ``explain``: place a request or show how it would be placed."""

import argparse
import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.asked_scheduler import Scheduler, add_server_arguments, asked_scheduler
from placement_sched.cli.comparison import render_comparison
from placement_sched.cli.funnel import obstacle, render
from placement_sched.cli.request import (
    add_request_arguments,
    pairs,
    request_body,
    with_instances,
)
from placement_sched.cli.terminal import print_json
from placement_sched.cli.verdicts import refuse_unknown, render_verdicts
from placement_sched.cli.wording import in_words_of_options
from placement_sched.errors import Invalid, NoValidHost
from placement_sched.model.host_verdict import UNKNOWN

Json = dict[str, Any]

_EXAMPLE = """example:
  placement-sched explain --vcpus 4 --ram 8192 --disk 40 --property trait:HW_CPU_X86_AVX2=required
"""


def register(commands: Commands) -> None:
    """Add the two commands."""
    select = add_command(
        commands, "select", summary="place a request and claim what it needs", epilog=_EXAMPLE
    )
    _add_common(select)
    select.add_argument("--no-claim", action="store_true", help="select, but allocate nothing")
    select.add_argument(
        "--alternates", action="store_true", help="name alternate hosts in the same cell too"
    )
    select.set_defaults(run=run_select)
    explain = add_command(
        commands,
        "explain",
        summary="show how a request would be placed, stage by stage; claim nothing",
        epilog=_EXAMPLE,
    )
    _add_common(explain)
    explain.add_argument(
        "--host",
        action="append",
        default=[],
        help="give the verdict on this host first, and show only this host (all hosts are still "
        "evaluated); the name of a host, node or provider, or a uuid; repeatable",
    )
    explain.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="GROUP.OPTION=VALUE",
        help="evaluate under another setting; lists as JSON: "
        'filter_scheduler.enabled_filters=["ComputeFilter"]; repeatable',
    )
    policies = explain.add_mutually_exclusive_group()
    policies.add_argument(
        "--policy", metavar="NAME", help="evaluate under this policy, whichever would be chosen"
    )
    policies.add_argument(
        "--compare",
        metavar="NAME,NAME",
        help="evaluate under each of these policies, and show them side by side",
    )
    explain.set_defaults(run=run_explain)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_request_arguments(parser)
    add_server_arguments(parser)
    add_format(parser)


def run_explain(arguments: argparse.Namespace) -> int:
    """Print the explanation; return 0 also where no host is found: that is an answer.

    Raises :class:`NotFound` where a host is asked for that is not known.
    """
    body = request_body(arguments)
    body = {key: value for key, value in body.items() if key not in {"claim", "return_alternates"}}
    if arguments.host:
        body["hosts"] = arguments.host
    if arguments.override:
        body["overrides"] = {**body.get("overrides", {}), **_overrides(arguments.override)}
    body.setdefault("max_rejected", 0)
    if arguments.policy is not None:
        body["policy"] = arguments.policy
    with asked_scheduler(arguments) as scheduler, in_words_of_options(arguments):
        if arguments.compare is not None:
            return _compare(scheduler, body, arguments)
        explanation = scheduler.explain(body)
        verdicts = explanation.get("verdicts", [])
        if arguments.format == "json":
            print_json(explanation)
        elif not verdicts or any(one["verdict"] != UNKNOWN for one in verdicts):
            names = scheduler.aggregate_names()
            render_verdicts(verdicts, Console(), names)
            render(explanation, Console(), names=names)
            if _is_empty(explanation):
                Console().print(f"{scheduler.place} has no resource provider", soft_wrap=True)
    refuse_unknown(verdicts)
    return 0


def _compare(scheduler: Scheduler, body: Json, arguments: argparse.Namespace) -> int:
    """Print the explanations of the very same request under several policies."""
    policies = list(dict.fromkeys(name.strip().lower() for name in arguments.compare.split(",")))
    if len(policies) < 2 or not all(policies):
        raise Invalid("--compare: name two policies or more, with commas between")
    body = with_instances(body)
    explanations = {name: scheduler.explain({**body, "policy": name}) for name in policies}
    if arguments.format == "json":
        print_json(explanations)
    else:
        render_comparison(explanations, Console(), scheduler.aggregate_names())
    refuse_unknown(next(iter(explanations.values())).get("verdicts", []))
    return 0


def run_select(arguments: argparse.Namespace) -> int:
    """Place the request, print the funnel and what was claimed; raise :class:`NoValidHost`.

    An answer to a selection has no funnel, so an explanation is asked just before; in between
    another request may take a host. What was selected, and whether, is the selection's to say.
    """
    body = with_instances(request_body(arguments))
    if arguments.no_claim:
        body["claim"] = False
    if arguments.alternates:
        body["return_alternates"] = True
    with asked_scheduler(arguments) as scheduler, in_words_of_options(arguments):
        if arguments.format == "json":
            return _select_raw(scheduler, body)
        explanation = scheduler.explain({"request_spec": body["request_spec"], "max_rejected": 0})
        names = scheduler.aggregate_names()
        try:
            answer = scheduler.select(body)
        except NoValidHost as failure:
            refused = _refused(explanation, failure)
            render(refused, Console(), names=names)
            asked = f" in {scheduler.place}" if _is_empty(refused) else ""
            raise NoValidHost(f"no valid host: {obstacle(refused)}{asked}") from None
    selected = [
        {**selections[0], "instance": uuid}
        for uuid, selections in zip(
            body["request_spec"]["instance_uuids"], answer["selections"], strict=True
        )
    ]
    title = "Claimed" if body.get("claim", True) else "Selected, not claimed"
    render(explanation, Console(), selected, title, names)
    return 0


def _select_raw(scheduler: Scheduler, body: Json) -> int:
    try:
        print_json(scheduler.select(body))
    except NoValidHost as failure:
        print_json({"code": failure.code, "detail": failure.detail, **failure.extra})
        raise
    return 0


def _refused(explanation: Json, failure: NoValidHost) -> Json:
    """Return the explanation of a request that found no host.

    Where the one asked before the selection still found some, the selection's own funnel counts.
    """
    if explanation["outcome"] == "no_valid_host":
        return explanation
    return {**explanation, "outcome": "no_valid_host", **failure.extra}


def _is_empty(explanation: Json) -> bool:
    """Return whether there is no resource provider at all: it may be the wrong database."""
    found = explanation["funnel"].get("obstacle", {})
    return (found.get("stage"), found.get("name")) == ("allocation_candidates", "providers")


def _overrides(texts: Iterable[str]) -> Json:
    """Return ``GROUP.OPTION=VALUE`` texts as a mapping; a value that is JSON is taken as such."""
    found: Json = {}
    for key, value in pairs(texts, "--override").items():
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found

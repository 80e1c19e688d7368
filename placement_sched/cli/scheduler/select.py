"""``select`` and ``explain``: place a request or show how it would be placed."""

import argparse
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_format, add_html
from placement_sched.cli.scheduler import render_explanation, request_options
from placement_sched.cli.scheduler.changes import add_change_arguments, with_changes
from placement_sched.cli.scheduler.render_explanation import BEST, render
from placement_sched.cli.scheduler.scheduler_client import (
    SchedulerApi,
    add_server_arguments,
    open_scheduler,
)
from placement_sched.cli.terminal import headed_table, print_json
from placement_sched.console.reports import explanation_report, facts_of
from placement_sched.errors import Invalid, NotFound, NoValidHost
from placement_sched.model.document import Json
from placement_sched.model.explanation import PASSED, UNKNOWN
from placement_sched.model.explanation_reader import (
    compared_stages,
    named,
    obstacle,
    path_of,
    with_names,
)
from placement_sched.model.names import did_you_mean, names_instead

#: How many hosts stand side by side.
_SIDE_BY_SIDE = 3
#: What stands where a policy has no such stage.
_NONE = "-"
_EXAMPLE = """example:
  placement-sched explain --vcpus 4 --ram 8192 --disk 40 --property trait:HW_CPU_X86_AVX2=required
"""


def render_verdicts(explanation: Json, console: Console, names: Mapping[str, str]) -> None:
    """Print the verdict on each known host, with every reason and what would have to change.

    Several hosts stand side by side, stage by stage. ``names`` gives names to be shown instead of
    the uuids of aggregates.
    """
    known = [one for one in explanation.get("verdicts", ()) if one["verdict"] != UNKNOWN]
    parts = [_verdict(one, names) for one in known]
    if len(known) > 1:
        for at in range(0, len(known), _SIDE_BY_SIDE):
            table = _side_by_side(explanation, known[at : at + _SIDE_BY_SIDE], names)
            parts.append(Padding(table, (1, 0, 0, 0)))
    if parts:
        console.print(Padding(Group(*parts), (0, 0, 1, 0)))


def _side_by_side(explanation: Json, verdicts: Sequence[Json], names: Mapping[str, str]) -> Table:
    """Return a row for each stage, and in it whether each host passes, or why not."""
    table = headed_table("Stage")
    for one in verdicts:
        table.add_column(_called(one), overflow="fold")
    table.add_row("verdict", *map(_in_a_word, verdicts))
    table.add_section()
    passes = Text("passes", style="green")
    for stages in zip(*(path_of(explanation, one) for one in verdicts), strict=True):
        cells = []
        for _, _, reasons in stages:
            text = with_names("; ".join(one["reason"] for one in reasons), names)
            cells.append(Text(text, style="yellow") if reasons else passes)
        _, name, _ = stages[0]
        table.add_row(Text(with_names(name, names)), *cells)
    return table


def _in_a_word(verdict: Json) -> Text:
    if verdict["verdict"] == PASSED:
        return Text(f"passed, {verdict['rank']} of {verdict['of']}", style="bold green")
    return Text("rejected", style="bold red")


def refuse_unknown(verdicts: Iterable[Json]) -> None:
    """Raise :class:`NotFound` naming the hosts that are not known, and known names near to them."""
    unknown = [one for one in verdicts if one["verdict"] == UNKNOWN]
    if not unknown:
        return
    words = [f"{one['asked']!r}{did_you_mean(one['did_you_mean'])}" for one in unknown]
    # Those are the same for all that have none near, and said once.
    others = [one.get("there_are", ()) for one in unknown if not one["did_you_mean"]]
    instead = names_instead("host", (), others[0]) if others else ""
    noun = "host" if len(words) == 1 else "hosts"
    raise NotFound(f"--host: unknown {noun} {', '.join(words)}{instead}")


def _called(verdict: Json) -> str:
    """Return how a node is called, and by which name it was asked for where that is another."""
    host, node, asked = verdict["host"], verdict["node"], verdict["asked"]
    return named(host, node) + ("" if asked in {host, node} else f", requested as {asked}")


def _in_short(verdict: Json) -> Text:
    if verdict["verdict"] == PASSED:
        place = f"rank {verdict['rank']} of {verdict['of']}, weight {verdict['weight']:.3f}"
        return Text.assemble(("passed", "bold green"), f", {place}")
    rejecting = dict.fromkeys(one["name"] or one["stage"] for one in verdict["reasons"])
    return Text.assemble(("rejected", "bold red"), f" by {', '.join(rejecting)}")


def _verdict(verdict: Json, names: Mapping[str, str]) -> RenderableType:
    heading = Text.assemble((_called(verdict), "bold"), "  ")
    if verdict["verdict"] == PASSED:
        return heading.append_text(_in_short(verdict))
    heading.append("rejected", style="bold red")
    if verdict["would_pass"]:
        heading.append(", passes after the changes below")
    elif verdict["would_pass"] is False:
        heading.append(", also after the changes below")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for one in verdict["reasons"]:
        name = Text("  " + with_names(one["name"] or one["stage"], names), style="cyan")
        table.add_row(name, Text(with_names(one["reason"], names), style="yellow"))
        if one["changes"]:
            words = " or ".join(change["words"] for change in one["changes"])
            table.add_row("", Text(f"to pass: {with_names(words, names)}"))
    return Group(heading, table)


def render_comparison(
    explanations: Mapping[str, Json], console: Console, names: Mapping[str, str]
) -> None:
    """Print a request's explanations, a column a policy; ``names`` replace aggregates' uuids."""
    every = list(explanations.values())
    table = headed_table("Hosts after each stage")
    for policy in explanations:
        table.add_column(policy, justify="right", overflow="fold")
    begun = [one["funnel"]["allocation_candidates"].get("providers") for one in every]
    table.add_row("to begin with", *(_NONE if one is None else str(one) for one in begun))
    for stage, reports in compared_stages(every):
        table.add_row(Text(with_names(stage, names)), *map(_count, reports))
    table.add_section()
    for place in range(BEST):
        cells = [_host(one["hosts"], place) for one in every]
        if any(cells):
            table.add_row("best hosts" if not place else "", *cells)
    # The known hosts that were asked for, each with the verdict on it under each policy.
    rows: dict[str, list[Text]] = {}
    for one in every:
        for verdict in one.get("verdicts", []):
            if verdict["verdict"] != UNKNOWN:
                rows.setdefault(_called(verdict), []).append(_in_short(verdict))
    for host, verdicts in rows.items():
        table.add_row(Text(host), *verdicts)
    table.add_section()
    selected, none = Text("selected", style="bold green"), Text("no valid host", style="bold red")
    table.add_row("outcome", *(selected if one["outcome"] == "selected" else none for one in every))
    refused = [
        Text(f"{policy}: {with_names(obstacle(one), names)}", style="red")
        for policy, one in explanations.items()
        if one["outcome"] != "selected"
    ]
    console.print(Group(table, *refused))


def _count(report: Json | None) -> str:
    """Return how many hosts a stage left, and of how many where it refused some."""
    if report is None:
        return _NONE
    before, after = report["before"], report["after"]
    refused = "" if before == after else f" of {before}"
    return f"{after}{refused}" if before else ""


def _host(hosts: Sequence[Json], place: int) -> str:
    if place >= len(hosts):
        return ""
    host = hosts[place]
    return f"{named(host['host'], host['node'])} {host['weight']:.3f}"


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
    request_options.add_override(explain, "evaluate with another value of an option")
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
    request_options.add_request_arguments(parser)
    add_server_arguments(parser)
    add_format(parser)


def _run_explain(arguments: argparse.Namespace) -> int:
    """Print the explanation; 0 also without a host. Raises :class:`NotFound` for unknown ones."""
    body = _explain_body(arguments)
    with open_scheduler(arguments) as scheduler, request_options.in_words_of_options(arguments):
        if arguments.compare is not None:
            return _compare(scheduler, body, arguments)
        explanation = scheduler.post("explain", body)
        verdicts = explanation.get("verdicts", [])
        if arguments.html is not None:
            names = scheduler.aggregate_names()
            heading = render_explanation.headed("Explanation", scheduler.place, *facts_of(body))
            report = explanation_report(explanation, body["request_spec"], heading, names)
            render_explanation.write(arguments.html, report)
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
    request_options.refuse_unknown_hosts(explanation["funnel"], arguments)
    return 0


def _explain_body(arguments: argparse.Namespace) -> Json:
    """Return what is asked of ``POST /explain``."""
    if arguments.html is not None and arguments.compare is not None:
        raise Invalid("--html: a report is of one policy; leave out --compare")
    body = request_options.request_body(arguments)
    body = {key: value for key, value in body.items() if key not in {"claim", "return_alternates"}}
    if arguments.host:
        body["hosts"] = arguments.host
    if arguments.override:
        body["overrides"] = {
            **body.get("overrides", {}),
            **request_options.overrides(arguments.override),
        }
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
    body = request_options.with_instances(body)
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
    body = request_options.with_instances(request_options.request_body(arguments))
    if arguments.no_claim:
        body["claim"] = False
    if arguments.alternates:
        body["return_alternates"] = True
    with open_scheduler(arguments) as scheduler, request_options.in_words_of_options(arguments):
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

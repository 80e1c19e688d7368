# SPDX-License-Identifier: Apache-2.0
"""``select`` and ``explain``: placement of a request, or its explanation."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.arguments import (
    Commands,
    WrongArguments,
    add_command,
    add_html,
    add_verbose,
    parse_uuid,
)
from placement_sched.cli.output import (
    Column,
    Output,
    TextConsole,
    find_columns,
    is_report,
    make_table,
    print_document,
    print_output,
)
from placement_sched.cli.report.html import iterate_facts, render_explanation_report
from placement_sched.cli.scheduler import render_explanation, request_options
from placement_sched.cli.scheduler.render_explanation import (
    BEST,
    STAGE_COLUMNS,
    list_stages,
    render,
)
from placement_sched.cli.scheduler.request_options import add_change_arguments, with_changes
from placement_sched.cli.scheduler.scheduler_client import (
    SchedulerClient,
    add_common_arguments,
    open_scheduler,
)
from placement_sched.cli.scheduler.server_request import read_server_request
from placement_sched.errors import NotFound, NoValidHost
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.reader import (
    compare_stages,
    describe_obstacle,
    format_node,
    list_stage_reasons,
)
from placement_sched.explain.values import PASSED, UNKNOWN
from placement_sched.model.document import Json
from placement_sched.model.names import format_suggestion, suggest_names

#: Maximum number of hosts per table, as columns.
_MAX_COLUMNS = 3
#: Cell of a stage that a policy does not have.
_NONE = "-"
#: Exit status with ``--fail-on-no-host``. 1 stands for an error, and 2 for wrong usage.
_NO_HOST = 3


def _render_verdicts(explanation: Json, console: Console, names: Mapping[str, str]) -> None:
    verdicts = [
        verdict for verdict in explanation.get("verdicts", ()) if verdict["verdict"] != UNKNOWN
    ]
    parts = [_render_verdict(verdict, names) for verdict in verdicts]
    if len(verdicts) > 1:
        for index in range(0, len(verdicts), _MAX_COLUMNS):
            table = _compare_hosts(explanation, verdicts[index : index + _MAX_COLUMNS], names)
            parts.append(Padding(table, (1, 0, 0, 0), expand=False))
    if parts:
        console.print(Group(*parts, ""))


def _compare_hosts(explanation: Json, verdicts: Sequence[Json], names: Mapping[str, str]) -> Table:
    table = make_table("Stage")
    for verdict in verdicts:
        table.add_column(_format_node_label(verdict), overflow="fold")
    words = [
        Text(f"passed, {verdict['rank']} of {verdict['of']}", style="bold green")
        if verdict["verdict"] == PASSED
        else Text("rejected", style="bold red")
        for verdict in verdicts
    ]
    table.add_row("verdict", *words)
    table.add_section()
    passes = Text("passes", style="green")
    for stages in zip(
        *(list_stage_reasons(explanation, verdict) for verdict in verdicts), strict=True
    ):
        cells = []
        for _, _, reasons in stages:
            text = with_names("; ".join(verdict["reason"] for verdict in reasons), names)
            cells.append(Text(text, style="yellow") if reasons else passes)
        _, name, _ = stages[0]
        table.add_row(Text(with_names(name, names)), *cells)
    return table


def _check_names(verdicts: Iterable[Json]) -> None:
    unknown = [verdict for verdict in verdicts if verdict["verdict"] == UNKNOWN]
    if not unknown:
        return
    unknown_names = [
        f"{each['requested']!r}{format_suggestion(each['similar_names'])}" for each in unknown
    ]
    # The existing names are the same for all hosts without similar names: listed once.
    existing = [each["all_names"] for each in unknown if not each["similar_names"]]
    instead = suggest_names("host", (), existing[0]) if existing else ""
    noun = "host" if len(unknown_names) == 1 else "hosts"
    raise NotFound(f"--host: unknown {noun} {', '.join(unknown_names)}{instead}")


def _format_node_label(verdict: Json) -> str:
    host, node, requested = verdict["host"], verdict["node"], verdict["requested"]
    return format_node(host, node) + (
        "" if requested in {host, node} else f", requested as {requested}"
    )


def _render_short_verdict(verdict: Json) -> Text:
    if verdict["verdict"] == PASSED:
        rank = f"rank {verdict['rank']} of {verdict['of']}, weight {verdict['weight']:.3f}"
        return Text.assemble(("passed", "bold green"), f", {rank}")
    rejecting = dict.fromkeys(reason["name"] or reason["stage"] for reason in verdict["reasons"])
    return Text.assemble(("rejected", "bold red"), f" by {', '.join(rejecting)}")


def _render_verdict(verdict: Json, names: Mapping[str, str]) -> RenderableType:
    heading = Text.assemble((_format_node_label(verdict), "bold"), "  ")
    if verdict["verdict"] == PASSED:
        return heading.append_text(_render_short_verdict(verdict))
    heading.append("rejected", style="bold red")
    if verdict["would_pass"]:
        heading.append(", passes after the changes below")
    elif verdict["would_pass"] is False:
        heading.append(", even after the changes below")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for reason in verdict["reasons"]:
        name = Text("  " + with_names(reason["name"] or reason["stage"], names), style="cyan")
        table.add_row(name, Text(with_names(reason["reason"], names), style="yellow"))
        if reason["changes"]:
            changes = " or ".join(change["words"] for change in reason["changes"])
            table.add_row("", Text(f"to pass: {with_names(changes, names)}"))
    return Group(heading, table)


def _render_comparison(
    explanations: Mapping[str, Json], console: Console, names: Mapping[str, str]
) -> None:
    results = list(explanations.values())
    table = make_table("Hosts after each stage")
    for policy in explanations:
        table.add_column(policy, justify="right", overflow="fold")
    initial = [result["funnel"]["allocation_candidates"].get("providers") for result in results]
    table.add_row("initially", *(_NONE if number is None else str(number) for number in initial))
    for stage, reports in compare_stages(results):
        table.add_row(Text(with_names(stage, names)), *map(_format_count, reports))
    table.add_section()
    for place in range(BEST):
        best = [next(iter(result["hosts"][place:]), None) for result in results]
        cells = [
            f"{format_node(host['host'], host['node'])} {host['weight']:.3f}" if host else ""
            for host in best
        ]
        if any(cells):
            table.add_row("best hosts" if not place else "", *cells)
    # Requested known hosts with their verdict under each policy.
    rows: dict[str, list[Text]] = {}
    for result in results:
        for verdict in result.get("verdicts", []):
            if verdict["verdict"] != UNKNOWN:
                rows.setdefault(_format_node_label(verdict), []).append(
                    _render_short_verdict(verdict)
                )
    for host, verdicts in rows.items():
        table.add_row(Text(host), *verdicts)
    table.add_section()
    selected, none = Text("selected", style="bold green"), Text("no valid host", style="bold red")
    table.add_row(
        "outcome", *(selected if result["outcome"] == "selected" else none for result in results)
    )
    rejections = [
        Text(f"{policy}: {with_names(describe_obstacle(result), names)}", style="red")
        for policy, result in explanations.items()
        if result["outcome"] != "selected"
    ]
    console.print(Group(table, *rejections))


def _format_count(report: Json | None) -> str:
    if report is None:
        return _NONE
    count_before, count_after = report["before"], report["after"]
    suffix = "" if count_before == count_after else f" of {count_before}"
    return f"{count_after}{suffix}" if count_before else ""


def register(commands: Commands) -> None:
    """Add the two commands."""
    summary = "select hosts for a request and claim its resources"
    statuses = (
        "exit status:\n"
        "  0  a host was selected for each instance\n"
        "  1  no host remains, or an error\n"
        "  3  with --fail-on-no-host: no host remains"
    )
    select = add_command(commands, "select", summary, _run_select, epilog=statuses)
    select.add_examples(
        "m1.small --no-claim",
        "--vcpus 4 --ram 8192 --disk 40 --zone az1 --count 2 --fail-on-no-host",
        "cluster.json",
    )
    _add_common(select, no_host=1, reads_cloud=False)
    select.add_argument("--no-claim", action="store_true", help="select without allocations")
    words = "also return alternate hosts in the same cell, which only --format json prints"
    select.add_argument("--alternates", action="store_true", help=words)
    summary = "show how a request would be placed, stage by stage, without a claim"
    statuses = (
        "exit status:\n"
        "  0  the request was explained, also if no host remains\n"
        "  1  an error, such as an unknown flavor\n"
        "  2  wrong usage, or --server names an unknown server\n"
        "  3  with --fail-on-no-host: no host remains, or with --compare under any of the policies"
    )
    explain = add_command(commands, "explain", summary, _run_explain, epilog=statuses)
    explain.add_examples(
        "m1.small --host cn1",
        "--vcpus 4 --ram 8192 --disk 40 --property trait:HW_CPU_X86_AVX2=required",
        "m1.small --url http://127.0.0.1:8778 --fail-on-no-host",
        "--server 5f2c9a7e-3b1d-4c68-9e20-7a8d6b4f1c35 --config-file nova.conf",
        "m1.small --fleet cloud.yaml --nova-conf nova.conf",
    )
    _add_common(explain, no_host=0, reads_cloud=True)
    explain.add_argument(
        "--server",
        type=parse_uuid,
        metavar="UUID",
        help="explain the request of this server, also if its creation failed: nova's request spec "
        "(name nova.conf with --config-file), else the request in its record",
    )
    explain.add_argument(
        "--host",
        metavar="HOST",
        action="append",
        default=[],
        help="show the verdict on this host first and show only this host (all hosts are still "
        "evaluated): name of a host, node or provider, or a uuid (repeatable)",
    )
    request_options.add_override(explain, "evaluate with another value of an option")
    words = "record the explanation as a decision, for 'decision show' and 'decision replay'"
    explain.add_argument("--keep", action="store_true", help=words)
    policies = explain.add_mutually_exclusive_group()
    words = "evaluate under this policy instead of the policy chosen by the selectors"
    policies.add_argument("--policy", metavar="NAME", help=words)
    words = "evaluate under each of these policies and show the results in columns"
    policies.add_argument("--compare", metavar="NAME,NAME", help=words)
    add_change_arguments(explain)
    add_html(explain)


def _add_common(parser: argparse.ArgumentParser, *, no_host: int, reads_cloud: bool) -> None:
    request_options.add_request_arguments(parser)
    parser.add_argument(
        "--fail-on-no-host",
        dest="no_host",
        action="store_const",
        const=_NO_HOST,
        default=no_host,
        help="exit with status %(const)s if no host remains (default: %(default)s)",
    )
    add_common_arguments(parser, reads_cloud=reads_cloud)
    add_verbose(parser)


def _run_explain(arguments: argparse.Namespace) -> int:
    body, server = _explain_body(arguments), arguments.server
    remarks: list[str] = []
    with open_scheduler(arguments) as scheduler, request_options.with_option_names(arguments):
        if server is not None:
            body["request_spec"], remarks = read_server_request(scheduler, arguments, server)
        if arguments.compare is not None:
            return _compare(scheduler, body, arguments)
        explanation = scheduler.post("explain", body=body)
        if server is not None:
            explanation["remarks"] = remarks
        verdicts = explanation.get("verdicts", [])
        if arguments.html is not None:
            names = scheduler.map_aggregate_names()
            heading = render_explanation.with_heading(
                "Explanation", scheduler.place, *iterate_facts(body)
            )
            page = render_explanation_report(explanation, body["request_spec"], heading, names)
            render_explanation.write(arguments.html, page)

        def report(console: Console) -> None:
            if verdicts and all(verdict["verdict"] == UNKNOWN for verdict in verdicts):
                return
            names = scheduler.map_aggregate_names()
            for remark in remarks:
                console.print(remark, soft_wrap=True)
            _render_verdicts(explanation, console, names)
            render(explanation, console, names=names, verbose=arguments.verbose)
            if decision := explanation.get("decision"):
                console.print(f"Recorded as decision {decision}", soft_wrap=True)
            if _is_empty(explanation):
                console.print(f"{scheduler.place} has no resource provider", soft_wrap=True)

        rows = list_stages(explanation)
        print_output(arguments, Output(explanation, STAGE_COLUMNS, rows, report))
    _check_names(verdicts)
    request_options.check_hosts(explanation["funnel"], arguments)
    return 0 if explanation["outcome"] == "selected" else int(arguments.no_host)


def _explain_body(arguments: argparse.Namespace) -> Json:
    if arguments.html is not None and arguments.compare is not None:
        raise WrongArguments(
            "--html cannot be combined with --compare: a report has a single policy"
        )
    if arguments.server is None:
        body = request_options.build_request_body(arguments)
    else:
        words = [arguments.request, *request_options.list_request_options(arguments)]
        if word := next(filter(None, words), None):
            raise WrongArguments(f"--server cannot be combined with {word}")
        body = {}
    body = {key: value for key, value in body.items() if key not in {"claim", "return_alternates"}}
    if arguments.host:
        body["hosts"] = arguments.host
    body = with_changes(body, arguments)
    body.setdefault("max_rejected", 0)
    if arguments.policy is not None:
        body["policy"] = arguments.policy
    if arguments.keep:
        body["keep"] = True
    return body


def _compare(scheduler: SchedulerClient, body: Json, arguments: argparse.Namespace) -> int:
    policies = list(dict.fromkeys(name.strip().lower() for name in arguments.compare.split(",")))
    if len(policies) < 2 or not all(policies):
        raise WrongArguments("--compare: expected at least two policies, separated by commas")
    body = request_options.with_instances(body)
    explanations = {
        name: scheduler.post("explain", body={**body, "policy": name}) for name in policies
    }

    def report(console: Console) -> None:
        _render_comparison(explanations, console, scheduler.map_aggregate_names())

    rows = list_stages(*explanations.values())
    print_output(arguments, Output(explanations, STAGE_COLUMNS, rows, report))
    _check_names(next(iter(explanations.values())).get("verdicts", []))
    outcomes = {explanation["outcome"] for explanation in explanations.values()}
    return 0 if outcomes == {"selected"} else int(arguments.no_host)


def _run_select(arguments: argparse.Namespace) -> int:
    """Print an explanation and the selection, whose response has no funnel."""
    if "receive" not in arguments:  # reject unknown columns before a claim
        find_columns(_SELECTION_COLUMNS, [*arguments.column, *arguments.sort_column])
    body = request_options.build_request_body(arguments, may_be_several=True)
    body = request_options.with_instances(body)
    if arguments.no_claim:
        body["claim"] = False
    if arguments.alternates:
        body["return_alternates"] = True
    with open_scheduler(arguments) as scheduler, request_options.with_option_names(arguments):
        # An explanation is about a single request.
        if not is_report(arguments) or "requests" in body:
            try:
                response = scheduler.post("select_destinations", body=body)
            except NoValidHost as failure:
                if getattr(arguments, "format", None) in {"json", "yaml"}:
                    document = {"code": failure.code, "detail": failure.detail, **failure.extra}
                    print_document(document, arguments.format)
                raise
            print_output(
                arguments, Output(response, _SELECTION_COLUMNS, _list_selections(body, response))
            )
            return 0
        explanation = scheduler.post(
            "explain", body={"request_spec": body["request_spec"], "max_rejected": 0}
        )
        names = scheduler.map_aggregate_names()
        try:
            response = scheduler.post("select_destinations", body=body)
        except NoValidHost as failure:
            # If a host passed in the explanation, the funnel of the failed selection is shown.
            funnel = {} if explanation["outcome"] == "no_valid_host" else failure.extra
            rejected = {**explanation, "outcome": "no_valid_host", **funnel}
            render(rejected, TextConsole(), names=names, verbose=arguments.verbose)
            suffix = f" in {scheduler.place}" if _is_empty(rejected) else ""
            raise NoValidHost(f"no valid host: {describe_obstacle(rejected)}{suffix}") from None
    title = "Claimed" if body.get("claim", True) else "Selected, not claimed"
    selected, verbose = _list_selections(body, response), arguments.verbose
    render(explanation, TextConsole(), selected, title, names, verbose=verbose)
    return 0


def _list_selections(body: Json, response: Json) -> list[Json]:
    entries, results = body.get("requests", [body]), response.get("results", [response])
    return [
        {**best, "instance": uuid}
        for entry, result in zip(entries, results, strict=True)
        for uuid, (best, *_) in zip(
            entry["request_spec"]["instance_uuids"], result["selections"], strict=True
        )
    ]


_SELECTION_COLUMNS = (
    Column("Instance", itemgetter("instance")),
    Column("Host", itemgetter("service_host")),
    Column("Node", itemgetter("nodename")),
    Column("Zone", itemgetter("availability_zone")),
    Column("Weight", itemgetter("weight"), right=True),
)


def _is_empty(explanation: Json) -> bool:
    """Return whether no resource provider exists, as in a wrong database."""
    reason = explanation["funnel"].get("obstacle", {})
    return (reason.get("stage"), reason.get("name")) == ("allocation_candidates", "providers")

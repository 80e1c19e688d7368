# SPDX-License-Identifier: Apache-2.0
"""``decision``: list, show, replay, watch and purge recorded decisions."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from math import inf
from operator import itemgetter
from time import monotonic, sleep
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from placement_sched.api.scheduler.decision_views import read_query
from placement_sched.cli.arguments import (
    Commands,
    EmbeddedParser,
    add_command,
    add_format,
    add_group,
    add_html,
    add_verbose,
    parse_positive_number,
    rejected_arguments,
)
from placement_sched.cli.database import read_configuration
from placement_sched.cli.output import (
    Column,
    Output,
    build_table,
    find_columns,
    format_yaml,
    make_table,
    print_csv,
    print_output,
    print_result,
    print_rows,
    show_progress,
)
from placement_sched.cli.report.html import render_decision_report
from placement_sched.cli.scheduler import render_explanation
from placement_sched.cli.scheduler.render_explanation import render
from placement_sched.cli.scheduler.request_options import replace_json_paths
from placement_sched.cli.scheduler.scheduler_client import (
    SchedulerClient,
    add_common_arguments,
    add_server_arguments,
    open_scheduler,
)
from placement_sched.errors import Invalid, NotFound, Unavailable, format_error
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.phrases import join_code
from placement_sched.explain.reader import format_value, with_all_keys
from placement_sched.model.clock import format_duration, parse_time, read_duration, utcnow
from placement_sched.model.decision import KINDS
from placement_sched.model.document import Json, PathStep, join_keys
from placement_sched.model.names import format_count, read_uuid
from placement_sched.operations.periodic import purge_decisions

#: Maximum number of instances of a decision in a list.
_MAX_INSTANCES = 3


def _render_list(page: Json, console: Console, rejected: str | None, place: str) -> None:
    decisions = page["decisions"]
    if not decisions:
        console.print(Text(f"no decision matches in {place}"), soft_wrap=True)
    elif rejected is None:
        console.print(build_table(_COLUMNS, decisions))
    else:
        for decision in decisions:
            flavor = (f"  {decision['flavor'] or ''}", "dim")
            time = (_format_time(decision), "bold")
            console.print(Text.assemble(time, f"  {decision['uuid']}", flavor))
            for reason in _format_reasons(decision["rejections"]):
                console.print(Padding(Text(reason, style="yellow"), (0, 0, 0, 4)))
    if counts := page.get("rejected"):
        unknown = f"For {counts['unknown']} of them, the recorded funnel does not show whether "
        details = f" {unknown}{rejected} was rejected" if counts["unknown"] else ""
        console.print(
            f"{format_count(counts['examined'], 'decision')} examined.{details}", soft_wrap=True
        )
    if page["next"] is not None:
        console.print(f"there may be more: --marker {page['next']}", soft_wrap=True)


def _render_decision(
    decision: Json,
    console: Console,
    names: Mapping[str, str] | None = None,
    *,
    verbose: bool = False,
) -> None:
    ids = [decision["request_id"], decision["global_request_id"]]
    conditions = decision["conditions"] or {}
    rows = [
        ("Decision", f"{decision['uuid']}  {decision['kind']}, made {_format_time(decision)}"),
        ("Request", "  ".join(filter(None, ids))),
        ("Project", decision["project_id"]),
        ("Flavor", decision["flavor"]),
    ]
    overrides = conditions.get("overrides", {})
    rows += [("Override", f"{key} = {format_value(value)}") for key, value in overrides.items()]
    rows += [("With change", json.dumps(change)) for change in conditions.get("changes", ())]
    for label, value in rows:
        if value:
            console.print(Text.assemble((f"{label:<12}", "bold"), value), soft_wrap=True)
    console.print()
    if decision["funnel"] is None:
        console.print("no funnel is recorded for this decision")
        return
    funnel = with_all_keys(decision["funnel"])
    candidates = funnel["allocation_candidates"]
    if not candidates["steps"] and candidates["hosts"]:
        number = format_count(candidates["hosts"], "host")
        console.print(
            f"{number} had allocation candidates (only 'explain' and 'decision replay' show the "
            "steps of the search)",
            style="dim",
        )
    explanation = {
        "outcome": decision["outcome"],
        "policy": decision["policy"],
        "reason": decision["reason"],
        "funnel": funnel,
        "hosts": decision["best"],
    }
    pairs = zip(decision["instances"], decision["selections"], strict=False)
    selected = [{**best, "instance": place["uuid"]} for place, (best, *_) in pairs]
    claimed = decision["kind"] == "select"
    title = "Claimed" if claimed else "Selected, not claimed"
    render(explanation, console, selected, title, names, verbose=verbose)


def _render_differences(
    result: Json, console: Console, names: Mapping[str, str] | None = None
) -> None:
    decision, differences = result["then"], result["differences"]
    head = (
        ("Decision", "bold"),
        f"  {decision['uuid']}  {decision['kind']}, made {_format_time(decision)}",
    )
    console.print(Text.assemble(*head), soft_wrap=True)
    if not differences:
        console.print(Text("nothing differs", style="bold green"))
        return
    table = make_table("", "then", "now")
    for row in differences:
        label, old, new = (with_names(part, names or {}) for part in row.values())
        table.add_row(Text(label), Text(format_value(old)), Text(format_value(new)))
    console.print(table)
    for verdict in result["now"].get("verdicts", ()):
        for reason in _format_reasons(verdict["reasons"]):
            console.print(Text(f"{verdict['host']}: {reason}", style="yellow"), soft_wrap=True)


def _list_hosts(decision: Json) -> list[str | None]:
    return [instance["host"] for instance in decision["instances"]]


def _format_hosts(decision: Json) -> str:
    hosts = list(filter(None, _list_hosts(decision)))
    unlisted = [f"{len(hosts) - _MAX_INSTANCES} more"] if len(hosts) > _MAX_INSTANCES else []
    return ", ".join([*hosts[:_MAX_INSTANCES], *unlisted]) or "no valid host"


def _format_reasons(rejections: Iterable[Json]) -> list[str]:
    return [f"{row['stage']} {row['name']}: {row['reason']}" for row in rejections]


def _format_time(decision: Json) -> str:
    return str(decision["created_at"]).removesuffix("Z").replace("T", " ")


#: Columns of decisions.
_COLUMNS = (
    Column("Made", itemgetter("created_at"), _format_time),
    Column("Decision", itemgetter("uuid")),
    Column("Hosts", _list_hosts, _format_hosts),
    Column("Flavor", itemgetter("flavor")),
    Column("Kind", itemgetter("kind")),
    Column("Request", itemgetter("request_id"), hidden=True),
    Column("Policy", itemgetter("policy"), hidden=True),
    Column("Outcome", itemgetter("outcome"), hidden=True),
    Column("Project", itemgetter("project_id"), hidden=True),
    Column("Stage", lambda row: row.get("stage"), hidden=True),
    Column("Reason", lambda row: row.get("reason"), hidden=True),
    Column(
        "Code",
        lambda row: (kind := row.get("reason_kind")) and join_code(kind, row["reason_subject"]),
        hidden=True,
    ),
    Column("Rejections", lambda row: _format_reasons(row.get("rejections", ())), hidden=True),
    Column("Instances", lambda row: [entry["uuid"] for entry in row["instances"]], hidden=True),
)
_DIFFERENCES = (
    Column("What", itemgetter("what")),
    Column("Then", itemgetter("then"), lambda row: format_value(row["then"])),
    Column("Now", itemgetter("now"), lambda row: format_value(row["now"])),
)
#: Default of ``--limit``, and maximum number of decisions per page.
_LIMIT, _PAGE = 50, 1000
#: Exit status of a watch that ended before the request would fit.
_NO_FIT = 3
#: Seconds between two queries for new decisions.
_PAUSE = 2.0
#: Maximum delay until a decision appears in a list: its time is the start of the claim, which may
#: wait for locks while later decisions are recorded.
_OVERLAP = timedelta(seconds=120)
_TIMES = "an ISO 8601 time (UTC without a zone), or an age such as 90s, 30m, 2h, 7d"
#: Filters of decisions by the parameter of the query: the placeholder and help of the option.
_FILTERS = {
    "policy": ("NAME", "only decisions under this scheduling policy"),
    "flavor": ("FLAVOR", "only decisions for this flavor"),
    "stage": (
        "STAGE",
        "only decisions without a host because of this stage, such as ComputeFilter",
    ),
    "reason": (
        "KIND[:SUBJECT]",
        "only decisions without a host for this kind of reason, such as capacity:MEMORY_MB",
    ),
    "instance": ("UUID", "only decisions about this instance"),
    "host": ("HOST", "only decisions that selected this host"),
    "request_id": ("REQ", "only decisions on this request: its own id, or nova's (req-...)"),
    "since": ("TIME", f"only decisions since {_TIMES}"),
    "until": ("TIME", f"only decisions before {_TIMES}"),
    "rejected": (
        "HOST",
        "only decisions that rejected this host or node, with the rejecting stages",
    ),
}
#: Filters of a list and of a purge.
_COMMON_FILTERS = ("outcome", "kind", "project_id")

#: Examples of a command about a decision.
_EXAMPLES = (
    "--request-id req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40",
    "--instance 5f3c2d1e-0000-4000-8000-000000000001",
)


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(
        commands, "decision", "list, show, replay, watch and purge recorded decisions"
    )
    summary = "list recorded decisions, newest first"
    parser = add_command(group, "list", summary, _run_list)
    parser.add_examples(
        "--outcome no_valid_host --since 2h",
        "--rejected cn1 --since 1d",
        "--stage ComputeFilter",
        "--reason capacity:MEMORY_MB --since 7d",
    )
    _add_common_filters(parser)
    for name, (metavar, text) in _FILTERS.items():
        parser.add_argument(_get_option(name), metavar=metavar, help=text)
    words = "maximum number of decisions (default: %(default)s)"
    parser.add_argument("--limit", type=parse_positive_number, default=_LIMIT, help=words)
    parser.add_argument("--marker", metavar="UUID", help="begin after this decision")
    parser.set_defaults(follow=False)
    if not isinstance(parser, EmbeddedParser):
        words = "then print new decisions until Ctrl-C"
        parser.add_argument("--follow", action="store_true", help=words)
    add_common_arguments(parser)
    summary = "show a decision in the layout of explain"
    parser = add_command(group, "show", summary, _run_show).add_examples(*_EXAMPLES)
    _add_which(parser)
    add_common_arguments(parser)
    add_verbose(parser)
    add_html(parser)
    summary = "repeat the request of a decision without a claim and show the differences"
    parser = add_command(group, "replay", summary, _run_replay).add_examples(*_EXAMPLES)
    _add_which(parser)
    parser.add_argument(
        "--settings",
        choices=("now", "then"),
        default="now",
        help="settings of the replay: the current settings, or the settings of the decision "
        "(default: %(default)s)",
    )
    add_common_arguments(parser)
    parser = add_command(
        group,
        "watch",
        "wait until the request of a decision without a host would fit",
        _run_watch,
        epilog=(
            "The request is evaluated again, with the current settings and without a claim.\n\n"
            "exit status:\n"
            "  0  the request fits now: send it again\n"
            "  1  an error\n"
            "  3  the request did not fit within --max-wait\n"
            "  130  interrupted"
        ),
    )
    parser.add_examples(f"{_EXAMPLES[0]} --max-wait 2h")
    _add_which(parser)
    words = "time between two evaluations: 90s, 30m, 2h, 7d (default: %(default)s)"
    parser.add_argument("--interval", metavar="TIME", type=_parse_seconds, default="1m", help=words)
    words = "stop after this time: 90s, 30m, 2h, 7d (default: never)"
    parser.add_argument("--max-wait", metavar="TIME", type=_parse_seconds, help=words)
    add_server_arguments(parser)
    add_format(parser)
    parser = add_command(
        group,
        "purge",
        "delete recorded decisions from the configured database",
        _run_purge,
        epilog=(
            "Servers automatically delete decisions older than [scheduler] decision_retention.\n"
            "A request that a client repeats after a lost response gets the first result only\n"
            "while its decision exists."
        ),
    )
    parser.add_examples("--older-than 30d --dry-run", "--before 2026-01-31 --kind explain")
    which = parser.add_mutually_exclusive_group(required=True)
    words = f"delete decisions made before {_TIMES}"
    which.add_argument("--before", "--older-than", metavar="TIME", help=words)
    which.add_argument("--all", action="store_true", help="delete all decisions made until now")
    _add_common_filters(parser)
    parser.add_argument("--dry-run", action="store_true", help="count without deleting")
    add_format(parser)


def _add_common_filters(parser: argparse.ArgumentParser) -> None:
    for name, choices, text in (
        ("--outcome", ("selected", "no_valid_host"), "only decisions with this outcome"),
        ("--kind", KINDS, "only decisions of this kind"),
    ):
        # Hyphens may stand for underscores.
        parser.add_argument(
            name, type=lambda word: word.replace("-", "_"), choices=choices, help=text
        )
    words = "only decisions for this project"
    parser.add_argument("--project", dest="project_id", metavar="ID", help=words)


def _add_which(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "decision", nargs="?", metavar="DECISION", help="uuid of the decision, or a request id"
    )
    which.add_argument("--request-id", metavar="REQ", help="the newest decision of this request")
    which.add_argument("--instance", metavar="UUID", help="the newest decision about this instance")


def _run_list(arguments: argparse.Namespace) -> int:
    query = _build_query(arguments)
    with open_scheduler(arguments) as scheduler, replace_json_paths(_find_option):
        if arguments.follow:
            _follow(scheduler, arguments, query)
            return 0
        page = _list_decisions(scheduler, query, arguments.limit, arguments.marker)

        report = partial(_render_list, page, rejected=arguments.rejected, place=scheduler.place)
        print_output(arguments, Output(page, _COLUMNS, page["decisions"], report))
        _reject_unknown(page)
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler, replace_json_paths(_find_option):
        decision = scheduler.get("decisions", _find_decision(scheduler, arguments))
        names = scheduler.map_aggregate_names()
        if arguments.html is not None:
            heading = render_explanation.with_heading(
                f"Decision {decision['uuid']}", scheduler.place
            )
            render_explanation.write(
                arguments.html, render_decision_report(decision, heading, names)
            )
        report = partial(_render_decision, decision, names=names, verbose=arguments.verbose)
        print_output(arguments, Output(decision, _COLUMNS, [decision], report, is_show=True))
    return 0


def _run_replay(arguments: argparse.Namespace) -> int:
    with open_scheduler(arguments) as scheduler, replace_json_paths(_find_option):
        uuid = _find_decision(scheduler, arguments)
        result = scheduler.post("decisions", uuid, "replay", body={"settings": arguments.settings})

        def report(console: Console) -> None:
            _render_differences(result, console, scheduler.map_aggregate_names())

        print_output(arguments, Output(result, _DIFFERENCES, result["differences"], report))
    return 0


def _run_watch(arguments: argparse.Namespace) -> int:
    deadline = inf if arguments.max_wait is None else monotonic() + arguments.max_wait
    reason, hosts = None, list[str]()
    with open_scheduler(arguments) as scheduler, replace_json_paths(_find_option):
        uuid = _find_decision(scheduler, arguments)
        while True:
            hosts, obstacle = _evaluate(scheduler, uuid, is_first=reason is None)
            if hosts:
                line = f"fits now on {', '.join(dict.fromkeys(hosts))}"
                break
            if arguments.format == "text" and obstacle != reason:
                sys.stdout.write(f"does not fit: {obstacle}\n")
                sys.stdout.flush()
            reason = obstacle
            if (remaining := deadline - monotonic()) <= 0:
                line = f"did not fit within {format_duration(arguments.max_wait)}"
                break
            sleep(min(arguments.interval, remaining))
    print_result(arguments, {"decision": uuid, "fits": bool(hosts), "hosts": hosts}, [line])
    return 0 if hosts else _NO_FIT


def _evaluate(scheduler: SchedulerClient, uuid: str, *, is_first: bool) -> tuple[list[str], str]:
    """Return the hosts that the instances would get now, or an obstacle."""
    try:
        result = scheduler.post("decisions", uuid, "replay", body={"max_rejected": 0})
    except Unavailable as failure:
        if is_first:
            raise
        return [], format_error(failure)
    if result["then"]["outcome"] == "selected":
        raise Invalid(f"decision {uuid} selected a host: only a decision without a host can wait")
    if (result["then"]["conditions"] or {}).get("together"):
        raise Invalid(
            f"decision {uuid} belongs to several requests that were sent together: it cannot be "
            "evaluated alone"
        )
    hosts = [best["service_host"] for best, *_ in result["now"]["selections"]]
    obstacle = result["now"]["funnel"].get("obstacle") or {}
    return hosts, obstacle.get("reason", "no valid host")


def _run_purge(arguments: argparse.Namespace) -> int:
    now = utcnow()
    # Times are recorded in seconds: decisions of the current second are included.
    following_second = (now + timedelta(seconds=1)).isoformat()
    with rejected_arguments():
        until = following_second if arguments.all else parse_time(arguments.before, now, "--before")
    query = {name: getattr(arguments, name) for name in _COMMON_FILTERS}
    with replace_json_paths(lambda _steps, _key: "--before"):
        decisions = read_query({**query, "until": until})
    with (
        read_configuration(arguments, must_exist=True) as (_, database),
        show_progress("deleting decisions") as progress,
    ):
        number = purge_decisions(database, decisions, progress, dry_run=arguments.dry_run)
    done = "would be deleted" if arguments.dry_run else "deleted"
    line = f"{format_count(number, 'decision')} made before {until} {done}"
    document = {"decisions": number, "before": until, "dry_run": arguments.dry_run}
    print_result(arguments, document, [line])
    return 0


def _get_option(name: str) -> str:
    return "--project" if name == "project_id" else f"--{name.replace('_', '-')}"


def _find_option(steps: Sequence[PathStep], _key: str | None) -> str | None:
    return _get_option(join_keys(steps))


def _build_query(arguments: argparse.Namespace) -> dict[str, str]:
    query = {name: getattr(arguments, name) for name in (*_COMMON_FILTERS, *_FILTERS)}
    query = {name: value for name, value in query.items() if value is not None}
    now = utcnow()
    with rejected_arguments():
        for name in {"since", "until"} & query.keys():
            query[name] = parse_time(query[name], now, f"--{name}")
    return query


def _parse_seconds(text: str) -> float:
    try:
        return read_duration(text)
    except (ValueError, OverflowError):
        problem = f"expected a time such as 90s, 30m, 2h, not {text!r}"
        raise argparse.ArgumentTypeError(problem) from None


def _find_decision(scheduler: SchedulerClient, arguments: argparse.Namespace) -> str:
    query = {"request_id": arguments.request_id, "instance": arguments.instance}
    decision: str | None = arguments.decision
    if decision is not None and decision.startswith("req-"):
        query["request_id"] = decision
    elif decision is not None:
        if read_uuid(decision) is None:
            raise Invalid(
                f"{decision!r} is neither the uuid of a decision nor a request id (req-...)"
            )
        return decision
    query = {name: value for name, value in query.items() if value is not None}
    newest = scheduler.get("decisions", query={**query, "limit": "1"})["decisions"]
    if not newest:
        ((name, value),) = query.items()
        words = f"no decision of {name.replace('_', ' ')} {value} is recorded"
        raise NotFound(f"{words} in {scheduler.place}")
    uuid: str = newest[0]["uuid"]
    return uuid


def _list_decisions(
    scheduler: SchedulerClient, query: dict[str, str], limit: int, marker: str | None
) -> Json:
    """Return up to ``limit`` decisions, or a page if ``rejected`` is set."""
    decisions: list[Json] = []
    while True:
        size = {"limit": str(min(limit - len(decisions), _PAGE))}
        page = scheduler.get(
            "decisions", query={**query, **size, **({"marker": marker} if marker else {})}
        )
        decisions += page["decisions"]
        marker = page["next"]
        if marker is None or len(decisions) >= limit or "rejected" in query:
            return {**page, "decisions": decisions}


def _reject_unknown(page: Json) -> None:
    if warnings := page.get("warnings"):
        raise NotFound("; ".join(f"{_get_option(row['key'])}: {row['detail']}" for row in warnings))


def _follow(
    scheduler: SchedulerClient, arguments: argparse.Namespace, query: dict[str, str]
) -> None:
    form: str = arguments.format
    columns = find_columns(_COLUMNS, arguments.column)

    def show(decisions: list[Json]) -> None:
        rows = decisions[::-1]
        if form == "json":
            sys.stdout.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        elif form == "yaml":
            sys.stdout.writelines(format_yaml([row]) for row in rows)
        else:
            print_rows(form, columns, rows)
        sys.stdout.flush()

    if form == "csv":
        print_csv([column.name for column in columns])
    try:
        page = _list_decisions(scheduler, query, max(_PAGE, arguments.limit), None)
        _reject_unknown(page)
        existing = page["decisions"]
        show(existing[: arguments.limit])
        for new in iterate_new_decisions(scheduler, query, existing):
            show(new)
            sleep(_PAUSE)
    except KeyboardInterrupt:  # the user ends the command
        return


def iterate_new_decisions(
    scheduler: SchedulerClient, filters: dict[str, str], newest_decisions: list[Json]
) -> Iterator[Any]:
    """Yield new decisions of each step, by the clock of the server."""
    seen_times = {row["uuid"]: row["created_at"] for row in newest_decisions}
    while True:
        query = dict(filters)
        if seen_times:
            newest = max(map(datetime.fromisoformat, seen_times.values())).replace(tzinfo=None)
            query["since"] = (newest - _OVERLAP).isoformat()
        rows = _list_decisions(scheduler, query, _PAGE, None)["decisions"]
        yield [row for row in rows if row["uuid"] not in seen_times]
        seen_times = {row["uuid"]: row["created_at"] for row in rows} or seen_times

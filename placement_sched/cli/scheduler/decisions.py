"""``decisions``: list, show, replay and purge what the scheduler recorded of its requests."""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from time import sleep
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group, add_html
from placement_sched.cli.database import configured
from placement_sched.cli.scheduler import render_explanation
from placement_sched.cli.scheduler.render_explanation import render
from placement_sched.cli.scheduler.request_options import PathStep, in_words_of, keys_in
from placement_sched.cli.scheduler.scheduler_client import (
    SchedulerApi,
    add_server_arguments,
    open_scheduler,
)
from placement_sched.cli.terminal import headed_table, print_json, print_result, progressing
from placement_sched.console.reports import decision_report
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.clock import AGE, moment_of, utcnow
from placement_sched.model.decision import SELECT
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import completed, in_words, with_names
from placement_sched.model.names import read_uuid
from placement_sched.operations.retention import purge_decisions
from placement_sched.scheduler.decision_views import decisions_wanted

#: How many instances of a decision a list shows.
_INSTANCES = 3


def render_list(page: Json, console: Console, refused: str | None) -> None:
    """Print decisions, and what is not among them."""
    decisions = page["decisions"]
    if not decisions:
        console.print("no decision found")
    elif refused is None:
        console.print(_table(decisions))
    else:
        _render_rejections(decisions, console)
    if counts := page.get("refused"):
        console.print(
            f"{counts['examined']} decisions examined; {counts['unknown']} of them do not keep "
            f"enough of their funnels to know whether they rejected {refused}",
            soft_wrap=True,
        )
    if page["next"] is not None:
        console.print(f"there may be more: --marker {page['next']}", soft_wrap=True)


def _table(decisions: Iterable[Json]) -> Table:
    table = headed_table()
    table.add_column("Made", no_wrap=True)
    table.add_column("Decision", no_wrap=True)
    table.add_column("Host", overflow="fold")
    for one in decisions:
        about = "".join(f"\n{line}" for line in _also(one))
        decision = Text.assemble(one["uuid"], (about, "dim"))
        table.add_row(Text(_time(one)), decision, _hosts(one))
    return table


def _render_rejections(decisions: Iterable[Json], console: Console) -> None:
    """Print for each decision by which stages it rejected the host."""
    for one in decisions:
        flavor = f"  {one['flavor'] or ''}"
        console.print(Text.assemble((_time(one), "bold"), f"  {one['uuid']}", (flavor, "dim")))
        for reason in _reasons(one["rejections"]):
            console.print(Padding(Text(reason, style="yellow"), (0, 0, 0, 4)))


def in_one_line(decision: Json) -> str:
    """Return what a list that is followed shows of a decision."""
    words = (
        _time(decision),
        decision["uuid"],
        decision["kind"],
        decision["outcome"],
        decision["flavor"] or "-",
        ", ".join(_places(decision)),
        decision["request_id"] or "-",
    )
    return "  ".join(words)


def render_decision(
    decision: Json, console: Console, names: Mapping[str, str] | None = None
) -> None:
    """Print a decision as an explanation of its request is printed."""
    for label, value in _heading(decision):
        console.print(Text.assemble((f"{label:<12}", "bold"), value), soft_wrap=True)
    console.print()
    if decision["funnel"] is None:
        console.print("no funnel is recorded with it")
        return
    funnel = completed(decision["funnel"])
    found = funnel["allocation_candidates"]
    if not found["steps"] and found["hosts"]:
        console.print(
            f"{found['hosts']} hosts had allocation candidates (a selection does not count the "
            "steps of the search; 'explain' and 'decisions replay' do)",
            style="dim",
        )
    explanation = {
        "outcome": decision["outcome"],
        "policy": decision["policy"],
        "funnel": funnel,
        "hosts": decision["best"],
    }
    pairs = zip(decision["instances"], decision["selections"], strict=False)
    selected = [{**best, "instance": place["uuid"]} for place, (best, *_) in pairs]
    claimed = decision["kind"] == "select"
    title = "Claimed" if claimed else "Selected, not claimed"
    render(explanation, console, selected, title, names)


def _heading(decision: Json) -> list[tuple[str, str]]:
    ids = [decision["request_id"], decision["global_request_id"]]
    rows = [
        ("Decision", f"{decision['uuid']}  {decision['kind']}, made {_time(decision)}"),
        ("Request", "  ".join(one for one in ids if one)),
        ("Project", decision["project_id"] or ""),
        ("Flavor", decision["flavor"] or ""),
    ]
    conditions = decision["conditions"] or {}
    overrides = conditions.get("overrides", {})
    rows += [("Override", f"{key} = {in_words(value)}") for key, value in overrides.items()]
    rows += [("With change", json.dumps(change)) for change in conditions.get("changes", ())]
    return [(label, value) for label, value in rows if value]


def render_differences(
    answer: Json, console: Console, names: Mapping[str, str] | None = None
) -> None:
    """Print what differs between a decision and its replay, side by side."""
    then, found = answer["then"], answer["differences"]
    head = ("Decision", "bold"), f"  {then['uuid']}  {then['kind']}, made {_time(then)}"
    console.print(Text.assemble(*head), soft_wrap=True)
    if not found:
        console.print(Text("nothing differs", style="bold green"))
        return
    table = headed_table("", "then", "now")
    for one in found:
        what, before, after = (with_names(part, names or {}) for part in one.values())
        table.add_row(Text(what), Text(in_words(before)), Text(in_words(after)))
    console.print(table)
    for verdict in answer["now"].get("verdicts", ()):
        for reason in _reasons(verdict["reasons"]):
            console.print(Text(f"{verdict['host']}: {reason}", style="yellow"), soft_wrap=True)


def _also(decision: Json) -> Iterator[str]:
    """Yield what else a list shows of a decision: flavor, kind, policy, and request."""
    policy = decision["policy"] or DEFAULT_POLICY
    about = (
        decision["flavor"],
        None if decision["kind"] == SELECT else decision["kind"],
        None if policy == DEFAULT_POLICY else f"policy {policy}",
    )
    if line := "  ".join(filter(None, about)):
        yield line
    if decision["request_id"]:
        yield decision["request_id"]


def _hosts(decision: Json) -> Text:
    """Return where the first instances went."""
    hosts = [one["host"] for one in decision["instances"] if one["host"] is not None]
    if not hosts:
        return Text("no valid host", style="red")
    more = len(hosts) - _INSTANCES
    return Text("\n".join([*hosts[:_INSTANCES], *([f"{more} more"] if more > 0 else [])]))


def _places(decision: Json) -> Iterator[str]:
    """Yield where each instance went."""
    for one in decision["instances"]:
        yield f"{one['uuid']} on {one['host'] or 'no host'}"


def _reasons(rejections: Iterable[Json]) -> list[str]:
    return [f"{one['stage']} {one['name']}: {one['reason']}" for one in rejections]


def _time(decision: Json) -> str:
    return str(decision["created_at"]).removesuffix("Z").replace("T", " ")


#: How many decisions are listed where no ``--limit`` is given, and how many a page has at most.
_LIMIT, _PAGE = 50, 1000
#: Seconds between two looks for new decisions.
_PAUSE = 2.0
#: A decision counts as made when its claim began: one that waited for locks comes later than others
#: that were made after it. For so long it is still found.
_OVERLAP = timedelta(seconds=120)
_TIMES = "an ISO 8601 time (UTC without a zone), or an age such as 90s, 30m, 2h, 7d"
#: The option of a parameter, where it has another name.
_OPTION_OF = {"project_id": "project"}
_FILTERS = ("outcome", "kind", "policy", "flavor", "project", "instance", "host", "request_id")

_EXAMPLE = """examples:
  placement-sched decisions list --outcome no_valid_host --since 2h
  placement-sched decisions list --refused cn7 --since 1d
  placement-sched decisions show --request-id req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40
  placement-sched decisions replay --instance 5f3c2d1e-0000-4000-8000-000000000001
"""


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "decisions", "list, show, replay and purge recorded decisions")
    summary = "list recorded decisions, the newest first"
    parser = add_command(group, "list", summary, run_list, epilog=_EXAMPLE)
    _add_filters(parser)
    parser.add_argument(
        "--refused",
        metavar="HOST",
        help="only those known to have rejected this host or node, with the stages that did",
    )
    parser.add_argument(
        "--limit",
        type=_number,
        default=_LIMIT,
        help="list at most this many (default: %(default)s)",
    )
    parser.add_argument("--marker", metavar="UUID", help="begin after this decision")
    parser.add_argument(
        "--follow", action="store_true", help="then print new ones as they come, until Ctrl-C"
    )
    _add_common(parser)
    summary = "show a decision as explain shows a request"
    parser = add_command(group, "show", summary, run_show, epilog=_EXAMPLE)
    _add_which(parser)
    _add_common(parser)
    add_html(parser)
    summary = "run the request of a decision again, claim nothing, and show what differs"
    parser = add_command(group, "replay", summary, run_replay, epilog=_EXAMPLE)
    _add_which(parser)
    parser.add_argument(
        "--settings",
        choices=("now", "then"),
        default="now",
        help="the settings to run with: those in effect now, or those of the decision "
        "(default: %(default)s)",
    )
    _add_common(parser)
    parser = add_command(
        group,
        "purge",
        "delete recorded decisions from the configured database",
        run_purge,
        epilog=(
            "Servers delete those older than [scheduler] decision_retention by themselves. A\n"
            "request that is sent again after its answer was lost finds it only while its\n"
            "decision is kept."
        ),
    )
    _add_purge(parser)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--outcome", choices=("selected", "no_valid_host"), help="only decisions with this outcome"
    )
    kinds = ("select", "no_claim", "explain", "shadow")
    parser.add_argument("--kind", choices=kinds, help="only of this kind")
    parser.add_argument("--policy", metavar="NAME", help="only under this scheduling policy")
    parser.add_argument("--flavor", metavar="NAME", help="only for this flavor")
    parser.add_argument("--project", metavar="ID", help="only for this project")
    parser.add_argument("--instance", metavar="UUID", help="only about this instance")
    parser.add_argument("--host", help="only those that chose this host")
    parser.add_argument(
        "--request-id", metavar="REQ", help="only of this request: its own id, or nova's (req-...)"
    )
    parser.add_argument("--since", metavar="TIME", help=f"only since {_TIMES}")
    parser.add_argument("--until", metavar="TIME", help=f"only before {_TIMES}")


def _add_which(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "decision", nargs="?", metavar="DECISION", help="the decision's uuid, or a request id"
    )
    which.add_argument("--request-id", metavar="REQ", help="the newest decision of this request")
    which.add_argument("--instance", metavar="UUID", help="the newest decision about this instance")


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    add_format(parser)


def _add_purge(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--before", metavar="TIME", help=f"those made before {_TIMES}")
    which.add_argument("--older-than", metavar="AGE", help="those older than 90s, 30m, 2h, 7d")
    which.add_argument("--all", action="store_true", help="delete all decisions made until now")
    kinds = ("select", "no_claim", "explain", "shadow")
    parser.add_argument("--kind", choices=kinds, help="only of this kind")
    parser.add_argument(
        "--outcome", choices=("selected", "no_valid_host"), help="only with this outcome"
    )
    parser.add_argument("--project", metavar="ID", help="only for this project")
    parser.add_argument("--dry-run", action="store_true", help="count them, delete nothing")
    add_format(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Print the decisions that the arguments ask for, and with ``--follow`` those to come."""
    asked = _asked(arguments)
    with open_scheduler(arguments) as scheduler, in_words_of(_option_of):
        if arguments.follow:
            _follow(scheduler, arguments, asked)
            return 0
        page = _listed(scheduler, asked, arguments.limit, arguments.marker)
        if arguments.format == "json":
            print_json(page)
        else:
            render_list(page, Console(), arguments.refused)
        _refuse_unknown(page)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print one decision; with ``--html`` write its report, too."""
    with open_scheduler(arguments) as scheduler, in_words_of(_option_of):
        decision = scheduler.show("decisions", _which(scheduler, arguments))
        names = scheduler.aggregate_names()
        if arguments.html is not None:
            heading = render_explanation.headed(f"Decision {decision['uuid']}", scheduler.place)
            render_explanation.write(arguments.html, decision_report(decision, heading, names))
        if arguments.format == "json":
            print_json(decision)
        else:
            render_decision(decision, Console(), names)
    return 0


def run_replay(arguments: argparse.Namespace) -> int:
    """Print what differs between a decision and the same request now; 0 in either case."""
    with open_scheduler(arguments) as scheduler, in_words_of(_option_of):
        uuid = _which(scheduler, arguments)
        answer = scheduler.replay(uuid, {"settings": arguments.settings})
        if arguments.format == "json":
            print_json(answer)
        else:
            render_differences(answer, Console(), scheduler.aggregate_names())
    return 0


def run_purge(arguments: argparse.Namespace) -> int:
    """Delete decisions, and print how many; with ``--dry-run`` only how many there are."""
    now = utcnow()
    if arguments.older_than is not None and not AGE.fullmatch(arguments.older_than):
        raise Invalid(f"--older-than {arguments.older_than}: expected 90s, 30m, 2h, 7d or the like")
    given = arguments.before or arguments.older_than
    # Times are recorded by the second: those made in this one are made until now, too.
    now_whole = (now + timedelta(seconds=1)).isoformat()
    until = (
        now_whole
        if given is None
        else moment_of(given, now, "--before" if arguments.before else "--older-than")
    )
    kept = {"outcome": arguments.outcome, "kind": arguments.kind, "project_id": arguments.project}
    with in_words_of(lambda _steps, _key: "--before"):
        wanted = decisions_wanted({**kept, "until": until})
    with (
        configured(arguments, there=True) as (_, database),
        progressing("deleting decisions") as progress,
    ):
        number = purge_decisions(database, wanted, progress, dry_run=arguments.dry_run)
    done = "would be deleted" if arguments.dry_run else "deleted"
    line = f"{number} decision{'s' * (number != 1)} made before {until} {done}"
    document = {"decisions": number, "before": until, "dry_run": arguments.dry_run}
    print_result(arguments, document, [line])
    return 0


def _option_of(steps: Sequence[PathStep], _key: str | None) -> str | None:
    """Return the option that a parameter of a list comes from."""
    return f"--{_OPTION_OF.get(keys_in(steps), keys_in(steps)).replace('_', '-')}"


def _asked(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the query of a list."""
    names = {option: name for name, option in _OPTION_OF.items()}
    asked = {names.get(name, name): getattr(arguments, name) for name in (*_FILTERS, "refused")}
    now = utcnow()
    for name in ("since", "until"):
        time = getattr(arguments, name)
        asked[name] = None if time is None else moment_of(time, now, f"--{name}")
    return {name: value for name, value in asked.items() if value is not None}


def _number(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"expected a number from 1, not {text!r}")
    return int(text)


def _which(scheduler: SchedulerApi, arguments: argparse.Namespace) -> str:
    """Return the uuid of the decision that the arguments name; raise :class:`NotFound`."""
    asked = {"request_id": arguments.request_id, "instance": arguments.instance}
    named: str | None = arguments.decision
    if named is not None and named.startswith("req-"):
        asked["request_id"] = named
    elif named is not None:
        if read_uuid(named) is None:
            raise Invalid(f"{named!r} is neither the uuid of a decision nor a request id (req-...)")
        return named
    asked = {name: value for name, value in asked.items() if value is not None}
    newest = scheduler.decisions({**asked, "limit": "1"})["decisions"]
    if not newest:
        ((name, value),) = asked.items()
        raise NotFound(f"no decision of {name.replace('_', ' ')} {value} is recorded")
    uuid: str = newest[0]["uuid"]
    return uuid


def _listed(scheduler: SchedulerApi, asked: dict[str, str], limit: int, marker: str | None) -> Json:
    """Return up to ``limit`` decisions, from as many pages as it takes.

    Of those that rejected a host one page is examined, which says how to go on.
    """
    found: list[Json] = []
    while True:
        more = {"limit": str(min(limit - len(found), _PAGE))}
        page = scheduler.decisions({**asked, **more, **({"marker": marker} if marker else {})})
        found += page["decisions"]
        marker = page["next"]
        if marker is None or len(found) >= limit or "refused" in asked:
            return {**page, "decisions": found}


def _refuse_unknown(page: Json) -> None:
    """Raise :class:`NotFound` where a list is empty as a name that was asked for is not there."""
    if warnings := page.get("warnings"):
        raise NotFound("; ".join(f"--{one['key']}: {one['detail']}" for one in warnings))


def _follow(scheduler: SchedulerApi, arguments: argparse.Namespace, asked: dict[str, str]) -> None:
    """Print what there is, the oldest first, and then what comes, until the user interrupts."""

    def show(decisions: list[Json]) -> None:
        for one in reversed(decisions):
            line = json.dumps(one, ensure_ascii=False) if as_json else in_one_line(one)
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    as_json = arguments.format == "json"
    try:
        page = _listed(scheduler, asked, max(_PAGE, arguments.limit), None)
        _refuse_unknown(page)
        there = page["decisions"]
        show(there[: arguments.limit])
        for new in new_ones(scheduler, asked, there):
            show(new)
            sleep(_PAUSE)
    except KeyboardInterrupt:  # how a user ends it
        return


def new_ones(scheduler: SchedulerApi, asked: dict[str, str], there: list[Json]) -> Iterator[Any]:
    """Yield, each time it is asked, the decisions that have come since, the newest first.

    ``there`` are the newest at the start. Times are the server's, whatever the clock here says.
    """
    known = {one["uuid"]: one["created_at"] for one in there}
    while True:
        query = dict(asked)
        if known:
            newest = max(map(datetime.fromisoformat, known.values())).replace(tzinfo=None)
            query["since"] = (newest - _OVERLAP).isoformat()
        found = _listed(scheduler, query, _PAGE, None)["decisions"]
        yield [one for one in found if one["uuid"] not in known]
        known = {one["uuid"]: one["created_at"] for one in found} or known

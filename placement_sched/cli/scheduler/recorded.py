"""Renders recorded decisions: a list, one as explain shows it, and what differs in a replay."""

import json
from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.scheduler.funnel import render
from placement_sched.cli.terminal import headed_table
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.decision import SELECT
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import completed, in_words, with_names

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

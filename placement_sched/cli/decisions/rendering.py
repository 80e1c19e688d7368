"""Renders recorded decisions: a list, one as explain shows it, and what differs in a replay."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from placement_sched.cli.funnel import render
from placement_sched.cli.terminal import headed_table
from placement_sched.model.document import Json
from placement_sched.model.results.reading import with_names

#: How many instances of a decision a list shows.
_INSTANCES = 3
#: What the funnel of an outline lacks.
_OUTLINED: Json = {"detail": "", "rejected": [], "changes": {}}


def render_list(page: Json, console: Console, refused: str | None) -> None:
    """Print a table of decisions, and what is not in it."""
    decisions = page["decisions"]
    if decisions:
        last = "Instance" if refused is None else f"{refused} was rejected by"
        table = headed_table("Made", "Decision", "Outcome", "Flavor", last)
        for one in decisions:
            table.add_row(
                Text(_time(one)),
                Text("\n".join(part for part in (one["uuid"], one["request_id"]) if part)),
                _outcome(one),
                Text(one["flavor"] or "-"),
                Text("\n".join(_places(one) if refused is None else _reasons(one["rejections"]))),
            )
        console.print(table)
    else:
        console.print("no decision found")
    if unknown := page.get("refused"):
        console.print(
            f"{unknown['examined']} decisions examined; {unknown['unknown']} of them do not keep "
            f"enough of their funnels to know whether they rejected {refused}",
            soft_wrap=True,
        )
    if page["next"] is not None:
        console.print(f"there may be more: --marker {page['next']}", soft_wrap=True)


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
    funnel = _complete(decision["funnel"])
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
    rows += [("Override", f"{key} = {_value(value)}") for key, value in overrides.items()]
    return [(label, value) for label, value in rows if value]


def _complete(funnel: Json) -> Json:
    """Return a kept funnel with nothing in place of what an outline leaves out."""
    found = funnel["allocation_candidates"]
    return {
        **funnel,
        "request_filters": [{**_OUTLINED, **one} for one in funnel["request_filters"]],
        "allocation_candidates": {
            **found,
            "steps": [{**_OUTLINED, **one} for one in found["steps"]],
        },
        "filters": [{**_OUTLINED, **one} for one in funnel["filters"]],
    }


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
        table.add_row(Text(what), Text(_value(before)), Text(_value(after)))
    console.print(table)
    for verdict in answer["now"].get("verdicts", ()):
        for reason in _reasons(verdict["reasons"]):
            console.print(Text(f"{verdict['host']}: {reason}", style="yellow"), soft_wrap=True)


def _value(value: Any) -> str:
    match value:
        case None:
            return "-"
        case {"before": before, "after": after}:
            return f"{before} -> {after}"
        case {"allocations": allocations}:
            return "; ".join(
                f"{uuid}: {_amounts(part['resources'])}" for uuid, part in allocations.items()
            )
        case dict():
            return "; ".join(f"{key}: {_value(part)}" for key, part in value.items())
        case list():
            return ", ".join(map(_value, value)) or "-"
        case float():
            return f"{value:.6g}"
    return str(value)


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in sorted(resources.items()))


def _outcome(decision: Json) -> Text:
    found = decision["outcome"] == "selected"
    kind = "" if decision["kind"] == "select" else f"\n{decision['kind']}"
    policy = "" if decision["policy"] in {None, "default"} else f"\npolicy {decision['policy']}"
    style = "green" if found else "red"
    return Text.assemble((decision["outcome"], style), kind, policy)


def _places(decision: Json) -> list[str]:
    """Return where the first instances went."""
    places = decision["instances"]
    shown = [f"{one['uuid']} on {one['host'] or 'no host'}" for one in places[:_INSTANCES]]
    more = len(places) - len(shown)
    return [*shown, f"{more} more"] if more else shown


def _reasons(rejections: Iterable[Json]) -> list[str]:
    return [f"{one['stage']} {one['name']}: {one['reason']}" for one in rejections]


def _time(decision: Json) -> str:
    return str(decision["created_at"]).removesuffix("Z").replace("T", " ")

"""Renders one request under several policies side by side: what each stage left, and who won."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from placement_sched.cli.funnel import BEST, obstacle, stages
from placement_sched.cli.reasons import named
from placement_sched.cli.verdicts import called, in_short
from placement_sched.model.host_verdict import UNKNOWN

Json = Mapping[str, Any]

#: What stands where a policy has no such stage.
_NONE = "-"


def render_comparison(
    explanations: Mapping[str, Json], console: Console, names: Mapping[str, str]
) -> None:
    """Print the explanations of a request, one column for each policy.

    ``names`` gives names to be shown instead of the uuids of aggregates.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("Hosts after each stage", overflow="fold")
    for policy in explanations:
        table.add_column(policy, justify="right", overflow="fold")
    counts = {policy: _counts(one) for policy, one in explanations.items()}
    begun = [one["funnel"]["allocation_candidates"].get("providers") for one in _all(explanations)]
    table.add_row("to begin with", *(_NONE if one is None else str(one) for one in begun))
    for stage in _stages(explanations):
        cells = [counts[policy].get(stage, _NONE) for policy in explanations]
        table.add_row(Text(_named(stage, names)), *cells)
    table.add_section()
    for place in range(BEST):
        cells = [_host(one, place) for one in _all(explanations)]
        if any(cells):
            table.add_row("best hosts" if not place else "", *cells)
    for label, verdicts in _verdicts(explanations):
        table.add_row(label, *verdicts)
    table.add_section()
    table.add_row("outcome", *(_outcome(one) for one in _all(explanations)))
    refused = [
        Text(f"{policy}: {_named(obstacle(one), names)}", style="red")
        for policy, one in explanations.items()
        if one["outcome"] != "selected"
    ]
    console.print(Group(table, *refused))


def _all(explanations: Mapping[str, Json]) -> list[Json]:
    return list(explanations.values())


def _stages(explanations: Mapping[str, Json]) -> list[str]:
    """Return every stage once: the steps of all searches, then the filters of all policies."""
    filters = [report["name"] for one in _all(explanations) for report in one["funnel"]["filters"]]
    every = [name for one in _all(explanations) for name, _ in stages(one["funnel"])]
    steps = [name for name in every if name not in filters]
    return list(dict.fromkeys([*steps, *filters]))


def _counts(explanation: Json) -> dict[str, str]:
    """Return how many hosts each stage left, and of how many where it refused some."""
    found = {}
    for name, stage in stages(explanation["funnel"]):
        before, after = stage["before"], stage["after"]
        refused = "" if before == after else f" of {before}"
        found[name] = f"{after}{refused}" if before else ""
    return found


def _host(explanation: Json, place: int) -> str:
    hosts = explanation["hosts"]
    if place >= len(hosts):
        return ""
    host = hosts[place]
    return f"{named(host['host'], host['node'])} {host['weight']:.3f}"


def _verdicts(explanations: Mapping[str, Json]) -> Iterator[tuple[Text, list[Text]]]:
    """Yield a row for each known host that was asked for: the verdict on it under each policy."""
    rows: dict[str, list[Text]] = {}
    for one in _all(explanations):
        for verdict in one.get("verdicts", []):
            if verdict["verdict"] != UNKNOWN:
                rows.setdefault(called(verdict), []).append(in_short(verdict))
    for name, cells in rows.items():
        yield Text(name), cells


def _outcome(explanation: Json) -> Text:
    if explanation["outcome"] == "selected":
        return Text("selected", style="bold green")
    return Text("no valid host", style="bold red")


def _named(text: str, names: Mapping[str, str]) -> str:
    for uuid, name in names.items():
        text = text.replace(uuid, name)
    return text

"""Renders verdicts on single hosts, and one request under several policies side by side."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.scheduler.funnel import BEST
from placement_sched.cli.terminal import headed_table
from placement_sched.errors import NotFound
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


#: What stands where a policy has no such stage.
_NONE = "-"


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

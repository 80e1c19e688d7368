"""Renders an explanation (contract §4) as text: the rejections by stage, and the best hosts."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.terminal import headed_table
from placement_sched.console.reports import Heading
from placement_sched.errors import Invalid
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.explanation import meeting_all_but
from placement_sched.model.explanation_reader import (
    grouped,
    named,
    obstacle,
    passed,
    stages,
    with_names,
)

#: How many of the hosts that passed are shown with their weights.
BEST = 3
#: How many different reasons of one stage are shown.
_REASONS = 5
#: How many characters stand for all hosts that there were to begin with.
_BAR = 16
_READABLE = 0o666


def render(
    explanation: Json,
    console: Console,
    selected: Sequence[Json] = (),
    title: str = "Claimed",
    names: Mapping[str, str] | None = None,
) -> None:
    """Print an answer of ``POST /explain``, and under ``title`` what was selected after it.

    Each of ``selected`` is a selection with ``instance`` (its uuid) added. ``names`` gives names
    to be shown instead of the uuids of aggregates, where the caller knows them.
    """
    funnel = with_names(explanation["funnel"], names or {})
    explanation = {**explanation, "funnel": funnel}
    query = funnel["allocation_candidates"]["query"]
    warning = Text("Warning", style="bold yellow")
    if explanation["outcome"] == "selected":
        number = (f"{_hosts(passed(explanation))} passed", "bold green")
        conclusion = Text.assemble(number, f"  policy {explanation['policy']}")
    else:
        conclusion = Text.assemble(("No valid host", "bold red"), f"  {obstacle(explanation)}")
        for one in funnel.get("would_fit", ())[:_REASONS]:
            if not _repeats(one, obstacle(explanation)):
                conclusion.append(f"\n  {one['words']}", style="yellow")
    full = "█" if console.encoding.lower().startswith("utf") else "#"
    parts: list[RenderableType] = [
        *_policy(funnel.get("policy")),
        *(
            _labelled((warning, Text(one["detail"], style="yellow")))
            for one in funnel.get("warnings", ())
        ),
        _request_filters(funnel["request_filters"]),
        _labelled((Text("Query", style="bold"), Text(query, style="dim"))),
        _stages(funnel, full),
        conclusion,
    ]
    if explanation["hosts"]:
        parts.append(_best(explanation, funnel["weighers"]))
    if selected:
        parts.append(_selected(selected, title))
    console.print(Group(*parts))


def _repeats(sentence: Json, reason: str) -> bool:
    """Return whether a sentence says no more than why there is no host: neither host nor change."""
    names = [one["name"] for one in sentence["without"]]
    known = sentence["hosts"] == 1 or sentence["change"]
    return not known and reason == meeting_all_but(sentence["hosts"], names)


def _policy(report: Json | None) -> Iterator[RenderableType]:
    if report is None:
        return
    yield Text.assemble(("Policy", "bold"), f"  {report['name']}")
    rows: list[tuple[Text, RenderableType]] = []
    for selector in report["selectors"]:
        matched = ", ".join(f"{one['aggregate']}: {one['policy']}" for one in selector["matched"])
        asked = "" if selector["asked"] is None else f"{selector['asked']}: "
        where = (f" ({matched})" if matched else "", "dim")
        text = Text.assemble(asked, selector["outcome"], where)
        rows.append((Text(f"  {selector['name']}", style="cyan"), text))
    if rows:
        yield _labelled(*rows)


def _request_filters(reports: Sequence[Json]) -> RenderableType:
    heading = Text("Request filters", style="bold")
    applied = [report for report in reports if report["applied"] or report.get("refusal")]
    if not applied:
        return heading.append("  none changed the request", style="not bold")
    rows: list[tuple[Text, RenderableType]] = []
    for report in applied:
        lines = [
            Text(_brief(value) if name == report["name"] else f"{name}: {_brief(value)}")
            for name, value in report["changes"].items()
        ] or [Text("changed nothing", style="dim")]
        if report.get("refusal"):
            lines.append(Text(f"rejected: {report['refusal']}", style="red"))
        rows.append((Text(f"  {report['name']}", style="cyan"), Group(*lines)))
    return Group(heading, _labelled(*rows))


def _labelled(*rows: tuple[Text, RenderableType]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _brief(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:BEST])
        return f"{shown}, ... ({len(value)})" if len(value) > BEST else shown
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_brief(part)}" for key, part in value.items())
    return str(value)


def _stages(funnel: Json, full: str) -> RenderableType:
    table = headed_table()
    for heading in ("in", "out"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", width=_BAR, no_wrap=True)
    table.add_column("Stage, and what it removed", overflow="fold")
    unreached: list[str] = []
    whole = 0
    for name, stage in stages(funnel):
        before, after = stage["before"], stage["after"]
        whole = whole or before
        if not before:
            unreached.append(name)
            continue
        color = "green" if after else "red"
        # As long as the share of hosts left, and visible where any is left.
        bar = Text(full * max(round(_BAR * after / whole), min(after, 1)), style=color)
        table.add_row(str(before), str(after), bar, _stage(name, stage, color))
    if unreached:
        table.add_row("", "", "", Text(f"not reached: {', '.join(unreached)}", style="dim"))
    return Padding(table, (1, 0))


def _stage(name: str, stage: Json, color: str) -> RenderableType:
    removed = stage["before"] - stage["after"]
    title = Text(name, style="" if stage["after"] else f"bold {color}")
    if not removed:
        return title
    shown = grouped(stage["rejected"])[:_REASONS]
    lines: list[RenderableType] = [title]
    for reason in shown:
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        example = f"({'e.g. ' * (reason.count > 1)}{reason.example})"
        text = Text.assemble((reason.text, "yellow"), " ", (example, "dim"))
        number = f"{reason.count} host{'s' * (reason.count > 1)}: "
        grid.add_row(Text(number, style="yellow"), text)
        lines.append(grid)
    hidden = removed - sum(reason.count for reason in shown)
    if hidden > 0:
        lines.append(Text(f"{hidden} more" if shown else f"{hidden} removed", style="dim"))
    return Group(*lines)


def _best(explanation: Json, weighers: Sequence[Json]) -> RenderableType:
    """Return the best hosts side by side, so that many weighers fit as well as few."""
    hosts, number = explanation["hosts"], passed(explanation)
    best = hosts[:BEST]
    table = headed_table()
    asked = "verdicts" in explanation
    table.add_column("Requested" if asked else f"Best {len(best)} of {number}", no_wrap=True)
    for host in best:
        name = Text(named(host["host"], host["node"]))
        table.add_column(name, justify="right", overflow="fold")
    if asked:
        ranks = {(one["host"], one["node"]): one["rank"] for one in explanation["verdicts"]}
        places = [ranks.get((host["host"], host["node"])) for host in best]
        table.add_row("rank", *(f"{place} of {number}" for place in places))
    table.add_row("weight", *(f"{host['weight']:.3f}" for host in best), style="bold")
    no_effect: list[str] = []
    for name in [weigher["name"] for weigher in weighers]:
        weights = [host["weights"].get(name) for host in hosts]
        if any(weight and weight["weighted"] for weight in weights):
            table.add_row(f"  {name}", *map(_weight, weights[: len(best)]))
        else:
            no_effect.append(name)
    if not no_effect:
        return Padding(table, (1, 0))
    without_effect = Text(f"Weighers without effect: {', '.join(no_effect)}", style="dim")
    return Group(Padding(table, (1, 0, 0, 0)), Padding(without_effect, (0, 0, 1, 0)))


def _weight(weight: Json | None) -> Text:
    if weight is None:
        return Text("-")
    factor = weight["multiplier"]
    product = "" if factor == 1 else f"{factor:g} x {weight['normalized']:.3f} = "
    raw = f" (raw {weight['raw']:.10g})"
    weighted = weight["weighted"] + 0.0  # -0.0 becomes 0.0
    return Text.assemble(f"{product}{weighted:.3f}", (raw, "dim"))


def _selected(selected: Sequence[Json], title: str) -> RenderableType:
    """Return where each instance goes; allocations are shown once where all are equal."""
    amounts = [_amounts(selection) for selection in selected]
    alike = len(set(amounts)) == 1
    table = headed_table()
    table.add_column("Instance", no_wrap=True)
    for heading in ("Host", "Zone") if alike else ("Host", "Zone", "Allocations"):
        table.add_column(heading, overflow="fold")
    for selection, words in zip(selected, amounts, strict=True):
        host = Text(named(selection["service_host"], selection["nodename"]))
        zone = Text(str(selection["availability_zone"] or "-"))
        table.add_row(selection["instance"], host, zone, *(() if alike else (Text(words),)))
    several = len(selected) > 1
    hosts = _hosts(len({(one["service_host"], one["nodename"]) for one in selected}))
    spread = f"  {len(selected)} instances on {hosts}" if several else ""
    each = f"  {'each ' if several else ''}{amounts[0]}" if alike and amounts[0] else ""
    top = Text.assemble((title, "bold green"), spread, each)
    return Group(top, Padding(table, (1, 0, 0, 0)))


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _amounts(selection: Json) -> str:
    allocations = (selection["allocation_request"] or {}).get("allocations", {})
    return "; ".join(
        ", ".join(f"{name}={amount}" for name, amount in sorted(part["resources"].items()))
        for part in allocations.values()
    )


def headed(title: str, place: str, *facts: tuple[str, str]) -> Heading:
    """Return the heading of a report that is made now, of what ``place`` answered."""
    return Heading(title=title, place=place, made=utcnow(), facts=facts)


def write(file: Path, report: str) -> None:
    """Write a report; what was in the file before is replaced.

    Raises :class:`Invalid` where that cannot be, and leaves the file as it was.
    """
    made = None
    try:
        with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as made:
            made.write(report)
        mask = os.umask(0)
        os.umask(mask)
        Path(made.name).chmod(_READABLE & ~mask)
        Path(made.name).replace(file)
    except OSError as failure:
        if made is not None:
            with suppress(OSError):
                Path(made.name).unlink()
        raise Invalid(f"--html {file}: {failure.strerror}") from None

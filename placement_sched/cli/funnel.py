"""Renders an explanation (contract §4) for people: what each stage removed, why, who won."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

Json = Mapping[str, Any]

#: How many of the hosts that passed are shown with their weights.
BEST = 3
#: How many different reasons of one stage are shown.
REASONS = 5

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w-])(?!\.\w)")


def render(
    explanation: Json,
    console: Console,
    selected: Sequence[Json] = (),
    title: str = "Claimed",
) -> None:
    """Print an answer of ``POST /explain``, and under ``title`` what was selected after it.

    Each of ``selected`` is a selection with ``instance`` (its uuid) added.
    """
    funnel = explanation["funnel"]
    parts: list[RenderableType] = [
        _request_filters(funnel["request_filters"]),
        _stages(funnel),
        _conclusion(explanation),
    ]
    if explanation["hosts"]:
        parts.append(_best(explanation["hosts"]))
    if selected:
        parts.append(_selected(selected, title))
    console.print(Group(*parts))


def grouped(reasons: Iterable[str]) -> list[tuple[int, str]]:
    """Return how often each reason was given, most frequent first.

    Reasons that differ in numbers only are one; where the numbers differ their range is shown:
    ``4096 free`` and ``8192 free`` become ``4096..8192 free``.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for reason in reasons:
        alike[_NUMBER.sub("#", reason)].append(reason)
    counted = [(len(members), _spanning(members)) for members in alike.values()]
    return sorted(counted, key=lambda entry: (-entry[0], entry[1]))


def _spanning(reasons: Sequence[str]) -> str:
    """Return one sentence for reasons of the same words: each number, or the range it takes."""
    columns = iter(zip(*(_NUMBER.findall(reason) for reason in reasons), strict=True))

    def span(_match: re.Match[str]) -> str:
        numbers = sorted(set(next(columns)), key=float)
        return numbers[0] if len(numbers) == 1 else f"{numbers[0]}..{numbers[-1]}"

    return _NUMBER.sub(span, reasons[0])


def _request_filters(reports: Sequence[Json]) -> RenderableType:
    lines = Text("Request filters", style="bold")
    applied = [report for report in reports if report["applied"] or report.get("refusal")]
    if not applied:
        lines.append("  none changed the request", style="not bold")
    for report in applied:
        lines.append(f"\n  {report['name']}", style="not bold cyan")
        if report.get("refusal"):
            lines.append(f"  refused: {report['refusal']}", style="not bold red")
        for name, value in report["changes"].items():
            lines.append(f"  {name}: {_brief(value)}", style="not bold")
    return lines


def _brief(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:BEST])
        return f"{shown}, ... ({len(value)})" if len(value) > BEST else shown
    return str(value)


def _stages(funnel: Json) -> RenderableType:
    candidates = funnel["allocation_candidates"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", expand=False)
    table.add_column("Stage", overflow="fold")
    table.add_column("in", justify="right", no_wrap=True)
    table.add_column("out", justify="right", no_wrap=True)
    table.add_column("Removed, and why", overflow="fold", ratio=1)
    for name, stage in stages(funnel):
        style = "red" if stage["before"] and not stage["after"] else ""
        table.add_row(
            Text(name), str(stage["before"]), str(stage["after"]), _reasons(stage), style=style
        )
    query = Text.assemble(("Query", "bold"), "  ", candidates["query"], overflow="fold")
    return Group(query, table)


def stages(funnel: Json) -> Iterator[tuple[str, Json]]:
    """Yield the name and the report of each stage that hosts went through, in order."""
    for step in funnel["allocation_candidates"]["steps"]:
        yield f"{step['constraint']} {step['detail']}".strip(), step
    for report in funnel["filters"]:
        yield report["name"], report


def _reasons(stage: Json) -> Text:
    removed = stage["before"] - stage["after"]
    if not removed:
        return Text("-", style="dim")
    counted = grouped(entry["reason"] for entry in stage["rejected"])
    lines = [f"{count} x {reason}" for count, reason in counted[:REASONS]]
    untold = removed - sum(count for count, _ in counted[:REASONS])
    if untold > 0:
        lines.append(f"{untold} more" if lines else f"{untold} removed")
    return Text("\n".join(lines))


def _conclusion(explanation: Json) -> RenderableType:
    if explanation["outcome"] == "selected":
        return Text.assemble(
            (f"{len(explanation['hosts'])} hosts passed", "bold green"),
            f"  policy {explanation['policy']}",
        )
    return Text.assemble(("No valid host", "bold red"), f"  {obstacle(explanation)}")


def obstacle(explanation: Json) -> str:
    """Return which stage stands in the way of a request that found no host."""
    funnel = explanation["funnel"]
    for report in funnel["request_filters"]:
        if report.get("refusal"):
            return f"{report['name']} refused the request: {report['refusal']}"
    for miss in funnel["allocation_candidates"].get("nearest_misses", ()):
        return (
            f"{miss['constraint']} {miss['detail']} alone stands in the way of "
            f"{miss['hosts']} hosts"
        )
    for name, stage in stages(funnel):
        if stage["before"] and not stage["after"]:
            return f"{name} refused every one of the {stage['before']} hosts that came to it"
    if explanation["hosts"]:
        return "there are hosts for some of the instances, but not for all"
    return "there was no host to begin with"


def _best(hosts: Sequence[Json]) -> RenderableType:
    best = hosts[:BEST]
    weighers = sorted({name for host in best for name in host["weights"]})
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=f"Best {len(best)} of {len(hosts)}",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("Host", overflow="fold")
    table.add_column("weight", justify="right", no_wrap=True)
    for name in weighers:
        table.add_column(name, justify="right", overflow="fold")
    for host in best:
        row = [_weight(host["weights"].get(name)) for name in weighers]
        table.add_row(Text(_named(host["host"], host["node"])), f"{host['weight']:.3f}", *row)
    return table


def _weight(weight: Json | None) -> str:
    """Return what a weigher added to a host's weight, how, and what it saw on the host."""
    if weight is None:
        return "-"
    factor = weight["multiplier"]
    product = "" if factor == 1 else f"{factor:g} x {weight['normalized']:.3f} = "
    return f"{product}{weight['weighted']:.3f}\nraw {weight['raw']:.10g}"


def _named(host: str, node: str) -> str:
    return host if host == node else f"{host} ({node})"


def _selected(selected: Sequence[Json], title: str) -> RenderableType:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    table.add_column("Instance", no_wrap=True)
    for heading in ("Host", "Zone", "Allocations"):
        table.add_column(heading, overflow="fold")
    for selection in selected:
        table.add_row(
            selection["instance"],
            Text(_named(selection["service_host"], selection["nodename"])),
            Text(str(selection["availability_zone"] or "-")),
            Text(_amounts(selection)),
        )
    return table


def _amounts(selection: Json) -> str:
    allocations = (selection["allocation_request"] or {}).get("allocations", {})
    return "; ".join(
        ", ".join(f"{name}={amount}" for name, amount in sorted(part["resources"].items()))
        for part in allocations.values()
    )

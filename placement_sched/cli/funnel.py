"""Renders an explanation (contract §4) for people: what each stage removed, why, who won."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.reasons import Reason, grouped, named

Json = Mapping[str, Any]

#: How many of the hosts that passed are shown with their weights.
BEST = 3
#: How many different reasons of one stage are shown.
REASONS = 5
#: How many characters stand for all hosts that there were to begin with.
BAR = 16


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
    funnel = _with_names(explanation["funnel"], names or {})
    explanation = {**explanation, "funnel": funnel}
    full = "█" if console.encoding.lower().startswith("utf") else "#"
    parts: list[RenderableType] = [
        *_policy(funnel.get("policy")),
        *_warnings(funnel.get("warnings", ())),
        _request_filters(funnel["request_filters"]),
        _query(funnel["allocation_candidates"]["query"]),
        _stages(funnel, full),
        _conclusion(explanation),
    ]
    if explanation["hosts"]:
        parts.append(_best(explanation, funnel["weighers"]))
    if selected:
        parts.append(_selected(selected, title))
    console.print(Group(*parts))


def _with_names(value: Any, names: Mapping[str, str]) -> Any:
    """Return the funnel with names for uuids everywhere but in the query, which stays exact."""
    if not names:
        return value
    if isinstance(value, str):
        for uuid, name in names.items():
            value = value.replace(uuid, name)
        return value
    if isinstance(value, Mapping):
        return {
            key: part if key == "query" else _with_names(part, names) for key, part in value.items()
        }
    return [_with_names(part, names) for part in value] if isinstance(value, list) else value


def _policy(report: Json | None) -> Iterator[RenderableType]:
    """Yield the policy of the request and how it was chosen, where there are policies."""
    if report is None:
        return
    yield Text.assemble(("Policy", "bold"), f"  {report['name']}")
    grid = _labelled()
    for selector in report["selectors"]:
        matched = ", ".join(f"{one['aggregate']}: {one['policy']}" for one in selector["matched"])
        told = (
            selector["outcome"]
            if selector["asked"] is None
            else (f"{selector['asked']}: {selector['outcome']}")
        )
        text = Text.assemble(told, (f" ({matched})" if matched else "", "dim"))
        grid.add_row(Text(f"  {selector['name']}", style="cyan"), text)
    if report["selectors"]:
        yield grid


def _warnings(warnings: Sequence[Json]) -> Iterator[RenderableType]:
    """Yield what of flavor and image has no effect, where there is such a thing."""
    for warning in warnings:
        grid = _labelled()
        grid.add_row(Text("Warning", style="bold yellow"), Text(warning["detail"], style="yellow"))
        yield grid


def _request_filters(reports: Sequence[Json]) -> RenderableType:
    heading = Text("Request filters", style="bold")
    applied = [report for report in reports if report["applied"] or report.get("refusal")]
    if not applied:
        return heading.append("  none changed the request", style="not bold")
    grid = _labelled()
    for report in applied:
        lines = [
            Text(_brief(value) if name == report["name"] else f"{name}: {_brief(value)}")
            for name, value in report["changes"].items()
        ]
        if report.get("refusal"):
            lines.append(Text(f"refused: {report['refusal']}", style="red"))
        grid.add_row(Text(f"  {report['name']}", style="cyan"), Group(*lines))
    return Group(heading, grid)


def _query(text: str) -> RenderableType:
    grid = _labelled()
    grid.add_row(Text("Query", style="bold"), Text(text, style="dim"))
    return grid


def _labelled() -> Table:
    """Return rows of a label and what hangs from it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _brief(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:BEST])
        return f"{shown}, ... ({len(value)})" if len(value) > BEST else shown
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_brief(part)}" for key, part in value.items())
    return str(value)


def _stages(funnel: Json, full: str) -> RenderableType:
    table = _table()
    table.add_column("in", justify="right", no_wrap=True)
    table.add_column("out", justify="right", no_wrap=True)
    table.add_column("", width=BAR, no_wrap=True)
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
        bar = Text(_bar(after, whole, full), style=color)
        table.add_row(str(before), str(after), bar, _stage(name, stage, color))
    if unreached:
        table.add_row("", "", "", Text(f"not reached: {', '.join(unreached)}", style="dim"))
    return _spaced(table)


def stages(funnel: Json) -> Iterator[tuple[str, Json]]:
    """Yield the name and the report of each stage that hosts went through, in order.

    Where hosts that offer pinned CPUs as VCPU were looked for as well, those steps come second.
    """
    candidates = funnel["allocation_candidates"]
    for step in candidates["steps"]:
        yield _label(step), step
    for step in candidates.get("fallback", {}).get("steps", ()):
        yield f"with VCPU for PCPU: {_label(step)}", step
    for report in funnel["filters"]:
        yield report["name"], report


def _label(step: Json) -> str:
    """Return the name of a step, and the option that sets it where one does."""
    text = f"{step['constraint']} {step['detail']}".strip()
    return f"{text} by {step['option']}" if step.get("option") else text


def _bar(count: int, whole: int, full: str) -> str:
    """Return a bar as long as the share of hosts left; none looks empty while there is one."""
    return full * max(round(BAR * count / whole), 1 if count else 0)


def _stage(name: str, stage: Json, color: str) -> RenderableType:
    removed = stage["before"] - stage["after"]
    title = Text(name, style="" if stage["after"] else f"bold {color}")
    if not removed:
        return title
    shown = grouped(stage["rejected"])[:REASONS]
    lines: list[RenderableType] = [title, *(_reason(reason) for reason in shown)]
    untold = removed - sum(reason.count for reason in shown)
    if untold > 0:
        lines.append(Text(f"{untold} more" if shown else f"{untold} removed", style="dim"))
    return Group(*lines)


def _reason(reason: Reason) -> RenderableType:
    """Return one line, or several that hang from it."""
    count = f"{reason.count} x "
    table = Table.grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    # Without a blank, so that the example is not torn apart where the line is full.
    example = f"({reason.example})" if reason.count == 1 else f"({reason.example},...)"
    table.add_row(
        Text(count, style="yellow"), Text.assemble((reason.text, "yellow"), " ", (example, "dim"))
    )
    return table


def _conclusion(explanation: Json) -> RenderableType:
    if explanation["outcome"] == "selected":
        return Text.assemble(
            (f"{_hosts(_passed(explanation))} passed", "bold green"),
            f"  policy {explanation['policy']}",
        )
    return Text.assemble(("No valid host", "bold red"), f"  {obstacle(explanation)}")


def obstacle(explanation: Json) -> str:
    """Return in one sentence which stage kept a request from finding a host."""
    found = explanation["funnel"].get("obstacle")
    return found["reason"] if found else "the server does not say at which stage"


def _passed(explanation: Json) -> int:
    """Return how many hosts passed, of which the explanation may show only some."""
    passed = [stage["after"] for _, stage in stages(explanation["funnel"])]
    return passed[-1] if passed else len(explanation["hosts"])


def _best(explanation: Json, weighers: Sequence[Json]) -> RenderableType:
    """Return the best hosts side by side, so that many weighers fit as well as few."""
    hosts, passed = explanation["hosts"], _passed(explanation)
    best = hosts[:BEST]
    table = _table()
    asked = "verdicts" in explanation
    table.add_column("Asked for" if asked else f"Best {len(best)} of {passed}", no_wrap=True)
    for host in best:
        name = Text(named(host["host"], host["node"]))
        table.add_column(name, justify="right", overflow="fold")
    if asked:
        ranks = {(one["host"], one["node"]): one["rank"] for one in explanation["verdicts"]}
        places = [ranks.get((host["host"], host["node"])) for host in best]
        table.add_row("rank", *(f"{place} of {passed}" for place in places))
    table.add_row(
        Text("weight", style="bold"),
        *(Text(f"{host['weight']:.3f}", style="bold") for host in best),
    )
    silent: list[str] = []
    for name in [weigher["name"] for weigher in weighers]:
        weights = [host["weights"].get(name) for host in best]
        if any(weight and weight["weighted"] for weight in weights):
            table.add_row(f"  {name}", *map(_weight, weights))
        else:
            silent.append(name)
    if not silent:
        return _spaced(table)
    unheard = Text(f"Weighers without effect: {', '.join(silent)}", style="dim")
    return Group(Padding(table, (1, 0, 0, 0)), Padding(unheard, (0, 0, 1, 0)))


def _weight(weight: Json | None) -> Text:
    """Return what a weigher added to a host's weight, how, and what it saw on the host."""
    if weight is None:
        return Text("-")
    factor = weight["multiplier"]
    product = "" if factor == 1 else f"{factor:g} x {weight['normalized']:.3f} = "
    raw = f" (raw {weight['raw']:.10g})"
    return Text.assemble(f"{product}{weight['weighted']:.3f}", (raw, "dim"))


def _selected(selected: Sequence[Json], title: str) -> RenderableType:
    """Return where each instance goes; what each takes is told once, where it is the same."""
    amounts = [_amounts(selection) for selection in selected]
    alike = len(set(amounts)) == 1
    table = _table()
    table.add_column("Instance", no_wrap=True)
    for heading in ("Host", "Zone") if alike else ("Host", "Zone", "Allocations"):
        table.add_column(heading, overflow="fold")
    for selection, told in zip(selected, amounts, strict=True):
        table.add_row(
            selection["instance"],
            Text(named(selection["service_host"], selection["nodename"])),
            Text(str(selection["availability_zone"] or "-")),
            *(() if alike else (Text(told),)),
        )
    top = _heading(selected, title, amounts[0] if alike else "")
    return Group(top, Padding(table, (1, 0, 0, 0)))


def _heading(selected: Sequence[Json], title: str, amounts: str) -> Text:
    hosts = len({(one["service_host"], one["nodename"]) for one in selected})
    spread = f"  {len(selected)} instances on {_hosts(hosts)}"
    each = "  each " if len(selected) > 1 else "  "
    return Text.assemble(
        (title, "bold green"),
        spread if len(selected) > 1 else "",
        f"{each}{amounts}" if amounts else "",
    )


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))


def _spaced(table: Table) -> RenderableType:
    return Padding(table, (1, 0))


def _amounts(selection: Json) -> str:
    allocations = (selection["allocation_request"] or {}).get("allocations", {})
    return "; ".join(
        ", ".join(f"{name}={amount}" for name, amount in sorted(part["resources"].items()))
        for part in allocations.values()
    )

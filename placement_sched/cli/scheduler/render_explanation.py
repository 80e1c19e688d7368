# SPDX-License-Identifier: Apache-2.0
"""Text output of an explanation: rejections by stage and best hosts."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.output import Column, make_table
from placement_sched.cli.report.html import Heading
from placement_sched.errors import Invalid
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.phrases import describe_cut_hosts
from placement_sched.explain.reader import (
    count_passed,
    describe_obstacle,
    format_missing_names,
    format_node,
    group_reasons,
    iterate_stages,
)
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import format_count

#: Maximum number of passed hosts that are printed with their weights.
BEST = 3
#: Maximum number of different reasons per stage.
_MAX_REASONS = 5
#: Length of the bar of all initial hosts, in characters.
_BAR = 16


def render(
    explanation: Json,
    console: Console,
    selected: Sequence[Json] = (),
    title: str = "Claimed",
    names: Mapping[str, str] | None = None,
    *,
    verbose: bool = False,
) -> None:
    """Print the response of ``POST /explain``, and selections under ``title``.

    Each selection has the additional key ``instance`` (uuid). ``names`` maps uuids of aggregates to
    the names that replace the uuids. With ``verbose`` the candidates query is printed too.
    """
    funnel = with_names(explanation["funnel"], names or {})
    reason = with_names(explanation.get("reason"), names)
    explanation = {**explanation, "funnel": funnel, "reason": reason}
    query = funnel["allocation_candidates"]["query"]
    warning = Text("Warning", style="bold yellow")
    if explanation["outcome"] == "selected":
        number = (f"{format_count(count_passed(explanation), 'host')} passed", "bold green")
        conclusion = Text.assemble(number, f"  policy {explanation['policy']}")
    else:
        conclusion = Text.assemble(
            ("No valid host", "bold red"), f"  {describe_obstacle(explanation)}"
        )
        for entry in funnel.get("would_fit", ())[:_MAX_REASONS]:
            # Some entries only repeat the obstacle.
            if not _repeats(entry, funnel.get("obstacle", {})):
                conclusion.append(f"\n  {entry['words']}", style="yellow")
    full = "█" if console.encoding.lower().startswith("utf") else "#"
    parts: list[RenderableType] = [
        *_render_policy(funnel.get("policy")),
        *(
            _make_labelled_table((warning, Text(entry["detail"], style="yellow")))
            for entry in funnel.get("warnings", ())
        ),
        _render_request_filters(funnel["request_filters"]),
        *(
            [_make_labelled_table((Text("Query", style="bold"), Text(query, style="dim")))]
            * verbose
        ),
        _render_stages(funnel, full),
        conclusion,
    ]
    if explanation["hosts"]:
        parts.append(_render_best(explanation, funnel["weighers"]))
    if selected:
        parts.append(_render_selected(selected, title))
    console.print(Group(*parts))


def _repeats(entry: Json, obstacle: Json) -> bool:
    if entry["hosts"] == 1 or entry["change"] or entry["hosts"] != obstacle.get("hosts"):
        return False
    without = [
        {key: value for key, value in each.items() if key not in {"stage", "name"}}
        for each in entry["without"]
    ]
    return without == obstacle.get("constraints")


def _render_policy(report: Json | None) -> Iterator[RenderableType]:
    if report is None:
        return
    yield Text.assemble(("Policy", "bold"), f"  {report['name']}")
    rows: list[tuple[Text, RenderableType]] = []
    for selector in report["selectors"]:
        matched = ", ".join(f"{row['aggregate']}: {row['policy']}" for row in selector["matched"])
        value = f"{selector['requested']}: " if selector.get("requested") is not None else ""
        matches = (f" ({matched})" if matched else "", "dim")
        text = Text.assemble(value, selector["outcome"], matches)
        rows.append((Text(f"  {selector['name']}", style="cyan"), text))
    if rows:
        yield _make_labelled_table(*rows)


def _render_request_filters(reports: Sequence[Json]) -> RenderableType:
    heading = Text("Request filters", style="bold")
    listed = [report for report in reports if report["applied"] or report.get("reason")]
    if not listed:
        return heading.append("  none changed the request", style="not bold")
    rows: list[tuple[Text, RenderableType]] = []
    for report in listed:
        if not report["applied"]:
            words = Text(f"not applied: {report['reason']}", style="dim")
            rows.append((Text(f"  {report['name']}", style="cyan"), words))
            continue
        lines = [
            Text(
                _shorten_value(value)
                if name == report["name"]
                else f"{name}: {_shorten_value(value)}"
            )
            for name, value in report["changes"].items()
        ] or [Text("changed nothing", style="dim")]
        if report.get("rejection"):
            lines.append(Text(f"rejected: {report['rejection']}", style="red"))
        rows.append((Text(f"  {report['name']}", style="cyan"), Group(*lines)))
    return Group(heading, _make_labelled_table(*rows))


def _make_labelled_table(*rows: tuple[Text, RenderableType]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _shorten_value(value: object) -> str:
    if isinstance(value, list):
        text = ", ".join(str(item) for item in value[:BEST])
        return f"{text}, ... ({len(value)})" if len(value) > BEST else text
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_shorten_value(part)}" for key, part in value.items())
    return str(value)


def _render_stages(funnel: Json, full: str) -> RenderableType:
    table = make_table()
    for heading in ("in", "out"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", width=_BAR, no_wrap=True)
    table.add_column("Stage and removed hosts", overflow="fold")
    unreached: list[str] = []
    first_count = 0
    for name, stage in iterate_stages(funnel):
        count_before, count_after = stage["before"], stage["after"]
        first_count = first_count or count_before
        if not count_before:
            unreached.append(name)
            continue
        color = "green" if count_after else "red"
        # Proportional to the remaining hosts, with at least one character if any remain.
        bar = Text(
            full * max(round(_BAR * count_after / first_count), min(count_after, 1)), style=color
        )
        table.add_row(str(count_before), str(count_after), bar, _render_stage(name, stage, color))
    if unreached:
        table.add_row("", "", "", Text(f"not reached: {', '.join(unreached)}", style="dim"))
    return Padding(table, (1, 0), expand=False)


def _render_stage(name: str, stage: Json, color: str) -> RenderableType:
    removed = stage["before"] - stage["after"]
    title = Text(name, style="" if stage["after"] else f"bold {color}")
    warning = format_missing_names(stage)
    lines: list[RenderableType] = [title, *([Text(warning, style="yellow")] if warning else ())]
    if not removed:
        return Group(*lines)
    reasons = group_reasons(stage["rejected"])[:_MAX_REASONS]
    for reason in reasons:
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        example = f"({'e.g. ' * (reason.count > 1)}{reason.example})"
        text = Text.assemble((reason.text, "yellow"), " ", (example, "dim"))
        number = f"{format_count(reason.count, 'host')}: "
        grid.add_row(Text(number, style="yellow"), text)
        lines.append(grid)
    hidden = removed - sum(reason.count for reason in reasons)
    if cut := stage.get("cut"):
        lines.append(Text(describe_cut_hosts(cut), style="yellow"))
    elif hidden > 0:
        lines.append(Text(f"{hidden} more" if reasons else f"{hidden} removed", style="dim"))
    return Group(*lines)


def _render_best(explanation: Json, weighers: Sequence[Json]) -> RenderableType:
    hosts, number = explanation["hosts"], count_passed(explanation)
    best = hosts[:BEST]
    table = make_table()
    has_verdicts = "verdicts" in explanation
    table.add_column("Requested" if has_verdicts else f"Best {len(best)} of {number}", no_wrap=True)
    for host in best:
        name = Text(format_node(host["host"], host["node"]))
        table.add_column(name, justify="right", overflow="fold")
    if has_verdicts:
        ranks = {(row["host"], row["node"]): row["rank"] for row in explanation["verdicts"]}
        host_ranks = [ranks.get((host["host"], host["node"])) for host in best]
        table.add_row("rank", *(f"{rank} of {number}" for rank in host_ranks))
    table.add_row("weight", *(f"{host['weight']:.3f}" for host in best), style="bold")
    no_effect: list[str] = []
    for name in [weigher["name"] for weigher in weighers]:
        weights = [host["weights"].get(name) for host in hosts]
        if any(weight and weight["weighted"] for weight in weights):
            table.add_row(f"  {name}", *map(_render_weight, weights[: len(best)]))
        else:
            no_effect.append(name)
    lines = [
        Text(f"{format_node(host['host'], host['node'])}: {name} {weight['detail']}", style="dim")
        for host in best
        for name, weight in host["weights"].items()
        if "detail" in weight
    ]
    lines += [
        Text(f"{weigher['name']}: {format_missing_names(weigher)}", style="yellow")
        for weigher in weighers
        if "missing_names" in weigher
    ]
    if no_effect:
        lines.append(Text(f"Weighers without effect: {', '.join(no_effect)}", style="dim"))
    if not lines:
        return Padding(table, (1, 0), expand=False)
    return Group(Padding(table, (1, 0, 0, 0)), Padding(Group(*lines), (0, 0, 1, 0)))


def _render_weight(weight: Json | None) -> Text:
    if weight is None:
        return Text("-")
    factor = weight["multiplier"]
    # A weigher that assigns weights adds an amount to the product.
    is_product = factor != 1 and factor * weight["normalized"] == weight["weighted"]
    product = f"{factor:g} x {weight['normalized']:.3f} = " if is_product else ""
    raw = f" (raw {weight['raw']:.10g})"
    weighted = weight["weighted"] + 0.0  # -0.0 becomes 0.0
    return Text.assemble(f"{product}{weighted:.3f}", (raw, "dim"))


def _render_selected(selected: Sequence[Json], title: str) -> RenderableType:
    amounts = [_format_amounts(selection) for selection in selected]
    is_same = len(set(amounts)) == 1
    table = make_table()
    table.add_column("Instance", no_wrap=True)
    for heading in ("Host", "Zone") if is_same else ("Host", "Zone", "Allocations"):
        table.add_column(heading, overflow="fold")
    for selection, amount in zip(selected, amounts, strict=True):
        host = Text(format_node(selection["service_host"], selection["nodename"]))
        zone = Text(str(selection["availability_zone"] or "-"))
        table.add_row(selection["instance"], host, zone, *(() if is_same else (Text(amount),)))
    is_several = len(selected) > 1
    nodes = {(selection["service_host"], selection["nodename"]) for selection in selected}
    hosts = format_count(len(nodes), "host")
    spread = f"  {len(selected)} instances on {hosts}" if is_several else ""
    amount_of_each = (
        f"  {'each ' if is_several else ''}{amounts[0]}" if is_same and amounts[0] else ""
    )
    top = Text.assemble((title, "bold green"), spread, amount_of_each)
    return Group(top, Padding(table, (1, 0, 0, 0)))


def _format_reasons(row: tuple[str, str, Json]) -> list[str]:
    reasons = group_reasons(row[2]["rejected"])
    return [f"{reason.count}: {reason.text} ({reason.example})" for reason in reasons]


#: Columns of the stages of explanations. A row has the policy, the name and the report of a stage.
STAGE_COLUMNS = (
    Column("Policy", itemgetter(0)),
    Column("Stage", itemgetter(1)),
    Column("In", lambda row: row[2]["before"], right=True),
    Column("Out", lambda row: row[2]["after"], right=True),
    Column("Reasons", _format_reasons),
)


def list_stages(*explanations: Json) -> list[tuple[str, str, Json]]:
    """List the stages of explanations as rows of :data:`STAGE_COLUMNS`."""
    return [
        (explanation["policy"], name, report)
        for explanation in explanations
        for name, report in iterate_stages(explanation["funnel"])
    ]


def _format_amounts(selection: Json) -> str:
    allocations = (selection["allocation_request"] or {}).get("allocations", {})
    return "; ".join(
        ", ".join(f"{name}={amount}" for name, amount in sorted(part["resources"].items()))
        for part in allocations.values()
    )


def with_heading(title: str, source: str, *facts: tuple[str, str]) -> Heading:
    """Build the heading of a report from ``source``, with the current time."""
    return Heading(title=title, source=source, created_at=utcnow(), facts=facts)


def write(file: Path, report: str) -> None:
    """Write a report, or raise :class:`Invalid` if the file cannot be written."""
    try:
        file.write_text(report, encoding="utf-8")
    except OSError as failure:
        raise Invalid(f"--html {file}: {failure.strerror}") from None

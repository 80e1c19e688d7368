"""Renders the verdicts of an explanation (``verdicts``): what became of the hosts asked for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_sched.cli.reasons import named
from placement_sched.errors import NotFound
from placement_sched.model.host_verdict import PASSED, UNKNOWN
from placement_sched.model.nearest import did_you_mean

Json = Mapping[str, Any]


def render_verdicts(verdicts: Sequence[Json], console: Console, names: Mapping[str, str]) -> None:
    """Print the verdict on each known host, with every reason why it was rejected.

    ``names`` gives names to be shown instead of the uuids of aggregates.
    """
    parts = [_verdict(one, names) for one in verdicts if one["verdict"] != UNKNOWN]
    if parts:
        console.print(Padding(Group(*parts), (0, 0, 1, 0)))


def refuse_unknown(verdicts: Iterable[Json]) -> None:
    """Raise :class:`NotFound` naming the hosts that are not known, and known names near to them."""
    words = [
        f"{one['asked']!r}{did_you_mean(one['did_you_mean'])}"
        for one in verdicts
        if one["verdict"] == UNKNOWN
    ]
    if words:
        noun = "host" if len(words) == 1 else "hosts"
        raise NotFound(f"--host: unknown {noun} {', '.join(words)}")


def called(verdict: Json) -> str:
    """Return how a node is called, and by which name it was asked for where that is another."""
    name = named(verdict["host"], verdict["node"])
    return (
        name
        if verdict["asked"] in {verdict["host"], verdict["node"]}
        else (f"{name}, asked for as {verdict['asked']}")
    )


def in_short(verdict: Json) -> Text:
    """Return a verdict in one line, without the words of its reasons."""
    if verdict["verdict"] == PASSED:
        place = f"rank {verdict['rank']} of {verdict['of']}, weight {verdict['weight']:.3f}"
        return Text.assemble(("passed", "bold green"), f", {place}")
    if verdict["verdict"] == UNKNOWN:
        return Text("unknown", style="red")
    stages = dict.fromkeys(one["name"] or one["stage"] for one in verdict["reasons"])
    return Text.assemble(("rejected", "bold red"), f" by {', '.join(stages)}")


def _verdict(verdict: Json, names: Mapping[str, str]) -> RenderableType:
    heading = Text.assemble((called(verdict), "bold"), "  ")
    if verdict["verdict"] == PASSED:
        return heading.append_text(in_short(verdict))
    heading.append("rejected", style="bold red")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, reason in _reasons(verdict, names):
        table.add_row(Text(f"  {name}", style="cyan"), Text(reason, style="yellow"))
    return Group(heading, table)


def _reasons(verdict: Json, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for one in verdict["reasons"]:
        name, reason = one["name"] or one["stage"], one["reason"]
        for uuid, aggregate in names.items():
            name, reason = name.replace(uuid, aggregate), reason.replace(uuid, aggregate)
        yield name, reason

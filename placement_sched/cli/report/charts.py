# SPDX-License-Identifier: Apache-2.0
"""Numbers for charts of explanations and capacity.

A chart is 100 units wide. The templates draw the numbers of this module unchanged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement_sched.explain import reader
from placement_sched.explain.phrases import describe_cut_hosts, describe_stage
from placement_sched.model.document import Json

#: Maximum number of hosts in a weights chart, and number of colours.
BEST, COLOURS = 10, 8
_WIDTH = 100.0
#: Colours of stages. Blue and green are the colours of hosts that remain or are selected.
_STAGE_COLOURS = (1, 3, 4, 5, 7, 6)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Weights whose sum is less than this are not drawn.
_MIN_WEIGHT = 1e-9


@dataclass(frozen=True, slots=True)
class StagePicture:
    """A stage of the funnel: counts and widths of hosts that remain or not."""

    number: int
    name: str
    before: int
    after: int
    remaining_width: float
    rejected_width: float
    reasons: tuple[reader.GroupedReason, ...]
    rejected: tuple[tuple[str, str], ...]
    #: The nodes of ``rejected``, in the same order.
    nodes: tuple[str, ...]
    #: Index among the stages that reject hosts.
    marker_index: int
    #: Words for the rejections of the stage, or "".
    words: str = ""
    #: A warning about the filter, or "".
    warning: str = ""
    #: A sentence about the hosts that the limit of candidates cut, or "".
    cut: str = ""

    @property
    def css_class(self) -> str:
        """Return the CSS class of the stage's colour.

        Hosts that the limit cut fit, and have a pale colour of the hosts that remain.
        """
        return "cut" if self.cut else f"part{self.colour}"

    @property
    def colour(self) -> int:
        """Return the number of the stage's colour."""
        return _STAGE_COLOURS[self.marker_index % len(_STAGE_COLOURS)]

    @property
    def letter(self) -> str:
        """Return the letter of the stage: A to Z, then AA to ZZ."""
        return _LETTERS[self.marker_index % len(_LETTERS)] * (
            self.marker_index // len(_LETTERS) + 1
        )

    @property
    def removed(self) -> int:
        """Return the number of rejected hosts."""
        return self.before - self.after

    @property
    def unlisted(self) -> int:
        """Return the number of rejected hosts that are not listed."""
        return max(self.removed - len(self.rejected), 0)


@dataclass(frozen=True, slots=True)
class FunnelPicture:
    """The stages in order, and the names of stages that no host has reached."""

    stages: tuple[StagePicture, ...]
    unreached: tuple[str, ...]


def build_funnel_picture(funnel: Json) -> FunnelPicture:
    """Build the chart of a funnel."""
    pictures: list[StagePicture] = []
    unreached: list[str] = []
    total = 0
    for name, stage in reader.iterate_stages(funnel):
        before, after = stage["before"], stage["after"]
        total = total or before
        if not before:
            unreached.append(name)
            continue
        rejected = stage["rejected"]
        pictures.append(
            StagePicture(
                number=len(pictures) + 1,
                name=name,
                before=before,
                after=after,
                remaining_width=_WIDTH * after / total,
                rejected_width=_WIDTH * (before - after) / total,
                reasons=tuple(reader.group_reasons(rejected)),
                rejected=tuple(
                    (reader.format_node(row["host"], row["node"]), row["reason"])
                    for row in rejected
                ),
                nodes=tuple(row["node"] for row in rejected),
                words=describe_stage(stage),
                warning=reader.format_missing_names(stage),
                cut=describe_cut_hosts(stage["cut"]) if stage.get("cut") else "",
                marker_index=sum(picture.removed > 0 for picture in pictures),
            )
        )
    return FunnelPicture(tuple(pictures), tuple(unreached))


@dataclass(frozen=True, slots=True)
class WeightPart:
    """A weigher's part of a host's weight, with start and width of its bar."""

    weigher: str
    colour: int
    weighted: float
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class WeightBar:
    """The weight of a host that passed, divided into its parts."""

    name: str
    node: str
    weight: float
    parts: tuple[WeightPart, ...]
    weights: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class WeightsPicture:
    """Chart of the best hosts as stacked bars.

    ``zero`` is the position of weight 0. ``weighers`` have a name and a colour, and change the
    weight of any host that passed. The weighers in ``without_effect`` change no weight.
    """

    bars: tuple[WeightBar, ...]
    weighers: tuple[tuple[str, int], ...]
    without_effect: tuple[str, ...]
    zero: float


def build_weights_picture(hosts: Sequence[Json], weighers: Sequence[Json]) -> WeightsPicture:
    """Build the chart of the best of ``hosts``, which are in final order."""
    best = hosts[:BEST]
    names = [weigher["name"] for weigher in weighers]
    effective = [name for name in names if any(get_weight(host, name) for host in hosts)]
    colours = {name: number % COLOURS for number, name in enumerate(effective)}
    below = max((-_sum_weights(host, effective, -1) for host in best), default=0.0)
    above = max((_sum_weights(host, effective, 1) for host in best), default=0.0)
    scale = _WIDTH / (below + above) if below + above > _MIN_WEIGHT else 0.0
    bars = tuple(
        WeightBar(
            name=reader.format_node(host["host"], host["node"]),
            node=host["node"],
            weight=host["weight"],
            parts=tuple(_build_parts(host, colours, below, scale)),
            weights=host["weights"],
        )
        for host in best
    )
    without_effect = tuple(name for name in names if name not in colours)
    return WeightsPicture(bars, tuple(colours.items()), without_effect, below * scale)


def _build_parts(
    host: Json, colours: Mapping[str, int], below: float, scale: float
) -> Iterator[WeightPart]:
    ends = {1: below, -1: below}
    for name, colour in colours.items():
        weighted = get_weight(host, name)
        if not weighted:
            continue
        sign = 1 if weighted > 0 else -1
        begin = ends[sign]
        ends[sign] = begin + weighted
        start = min(begin, ends[sign])
        yield WeightPart(name, colour, weighted, start * scale, abs(weighted) * scale)


def _sum_weights(host: Json, names: Sequence[str], sign: int) -> float:
    return sum(weighted for name in names if (weighted := get_weight(host, name)) * sign > 0)


def get_weight(host: Json, name: str) -> float:
    """Return a weigher's part of a host's weight."""
    weight: Mapping[str, Any] = host["weights"].get(name) or {}
    return float(weight.get("weighted", 0.0))


@dataclass(frozen=True, slots=True)
class CapacityPicture:
    """The bars of a capacity response, each flavor followed by its parts.

    A bar is the JSON object of a flavor or part with its ``name``, whether it ``is_part`` of a
    flavor, and its ``width`` relative to the largest capacity.
    """

    #: The title of the column of names.
    subject: str
    bars: tuple[Json, ...]


def build_capacity_picture(result: Json, per: str | None) -> CapacityPicture:
    """Build the chart of a ``POST /capacity`` response."""
    bars: list[Json] = []
    for flavor in result.get("flavors", [result]):
        defaults = {"exact": True, "inexact_because": (), "rejection": ""}
        bars.append({**defaults, **flavor, "name": flavor.get("flavor", ""), "is_part": False})
        bars += [
            {**defaults, **part, "name": part["name"] or "-", "is_part": True}
            for part in flavor.get("per", ())
        ]
    largest = max((bar["capacity"] for bar in bars), default=0)
    for bar in bars:
        bar["width"] = _WIDTH * bar["capacity"] / max(largest, 1)
    titles = [*(["Flavor"] if "flavors" in result else []), *([per.capitalize()] if per else [])]
    return CapacityPicture(", ".join(titles) or "Where", tuple(bars))

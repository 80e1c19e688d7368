"""What the pictures of an explanation show, in numbers: the funnel, and the weights of hosts.

A picture is a hundred wide; its template draws what is given here and knows no rule.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import GroupedReason, grouped, named, stages

#: How many of the best hosts a picture of weights has, and the most colours of its weighers.
BEST, COLOURS = 10, 8
_WIDTH = 100.0
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Weights of less than this together are not drawn.
_LITTLE = 1e-9


@dataclass(frozen=True, slots=True)
class StagePicture:
    """One stage of the funnel: how many hosts came in and out, and why the others were rejected.

    ``stayed`` and ``left`` are widths: of the hosts that came out, and of those that did not.
    """

    number: int
    name: str
    before: int
    after: int
    stayed: float
    left: float
    reasons: tuple[GroupedReason, ...]
    rejected: tuple[tuple[str, str], ...]
    #: The names of their nodes, in the same order.
    nodes: tuple[str, ...]
    #: Which of the stages that reject hosts it is, from 0.
    place: int

    @property
    def colour(self) -> int:
        """Return the number of its colour; the first is that of the hosts that stay."""
        return 1 + self.place % (COLOURS - 1)

    @property
    def letter(self) -> str:
        """Return what it is marked with beside its colour: A to Z, then AA."""
        return _LETTERS[self.place % len(_LETTERS)] * (self.place // len(_LETTERS) + 1)

    @property
    def removed(self) -> int:
        """Return how many hosts the stage rejected."""
        return self.before - self.after

    @property
    def unlisted(self) -> int:
        """Return how many of those that were rejected are not listed."""
        return max(self.removed - len(self.rejected), 0)


@dataclass(frozen=True, slots=True)
class FunnelPicture:
    """All stages that hosts came to, in order, and the names of those that none came to."""

    stages: tuple[StagePicture, ...]
    unreached: tuple[str, ...]


def funnel_picture(funnel: Json) -> FunnelPicture:
    """Return the picture of a funnel."""
    shown: list[StagePicture] = []
    unreached: list[str] = []
    whole = 0
    for name, stage in stages(funnel):
        before, after = stage["before"], stage["after"]
        whole = whole or before
        if not before:
            unreached.append(name)
            continue
        rejected = stage["rejected"]
        shown.append(
            StagePicture(
                number=len(shown) + 1,
                name=name,
                before=before,
                after=after,
                stayed=_WIDTH * after / whole,
                left=_WIDTH * (before - after) / whole,
                reasons=tuple(grouped(rejected)),
                rejected=tuple(
                    (named(one["host"], one["node"]), one["reason"]) for one in rejected
                ),
                nodes=tuple(one["node"] for one in rejected),
                place=sum(one.removed > 0 for one in shown),
            )
        )
    return FunnelPicture(tuple(shown), tuple(unreached))


@dataclass(frozen=True, slots=True)
class WeightPart:
    """What one weigher adds to a host's weight, or takes off it: where its bar begins and ends."""

    weigher: str
    colour: int
    weighted: float
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class WeightBar:
    """A host that passed, with its weight and the parts of it."""

    name: str
    node: str
    weight: float
    parts: tuple[WeightPart, ...]
    weights: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class WeightsPicture:
    """The best hosts as stacked bars; ``zero`` is where nothing is added or taken off.

    ``weighers`` have an effect on a host that passed, shown or not, ``without_effect`` have none.
    """

    bars: tuple[WeightBar, ...]
    weighers: tuple[tuple[str, int], ...]
    without_effect: tuple[str, ...]
    zero: float


def weights_picture(hosts: Sequence[Json], weighers: Sequence[Json]) -> WeightsPicture:
    """Return the picture of the best of these hosts, which are in their final order."""
    best = hosts[:BEST]
    names = [weigher["name"] for weigher in weighers]
    effective = [name for name in names if any(_weighted(host, name) for host in hosts)]
    colours = {name: number % COLOURS for number, name in enumerate(effective)}
    below = max((-_sum(host, effective, -1) for host in best), default=0.0)
    above = max((_sum(host, effective, 1) for host in best), default=0.0)
    scale = _WIDTH / (below + above) if below + above > _LITTLE else 0.0
    bars = tuple(
        WeightBar(
            name=named(host["host"], host["node"]),
            node=host["node"],
            weight=host["weight"],
            parts=tuple(_parts(host, colours, below, scale)),
            weights=host["weights"],
        )
        for host in best
    )
    without = tuple(name for name in names if name not in colours)
    return WeightsPicture(bars, tuple(colours.items()), without, below * scale)


def _parts(
    host: Json, colours: Mapping[str, int], below: float, scale: float
) -> Iterator[WeightPart]:
    ends = {1: below, -1: below}
    for name, colour in colours.items():
        weighted = _weighted(host, name)
        if not weighted:
            continue
        sign = 1 if weighted > 0 else -1
        begin = ends[sign]
        ends[sign] = begin + weighted
        start = min(begin, ends[sign])
        yield WeightPart(name, colour, weighted, start * scale, abs(weighted) * scale)


def _sum(host: Json, names: Sequence[str], sign: int) -> float:
    return sum(one for name in names if (one := _weighted(host, name)) * sign > 0)


def _weighted(host: Json, name: str) -> float:
    weight: Mapping[str, Any] = host["weights"].get(name) or {}
    return float(weight.get("weighted", 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBar:
    """How many more fit of a flavor, or in a part of the cloud; ``width`` is by the largest."""

    name: str
    capacity: int
    width: float
    exact: bool
    doubts: tuple[str, ...]
    refused: str
    stops: tuple[Json, ...]
    stranded: Mapping[str, int]
    is_part: bool


@dataclass(frozen=True, slots=True)
class CapacityPicture:
    """The bars of an answer, a flavor followed by its parts; ``what`` heads their names."""

    what: str
    bars: tuple[CapacityBar, ...]


def capacity_picture(answer: Json, per: str | None) -> CapacityPicture:
    """Return the picture of an answer of ``POST /capacity``, of one flavor or several."""
    flavors: Sequence[Json] = answer.get("flavors", [answer])
    rows: list[tuple[str, Json, bool]] = []
    for one in flavors:
        rows.append((one.get("flavor", ""), one, False))
        rows += [(part["name"] or "-", part, True) for part in one.get("per", ())]
    largest = max((one["capacity"] for _, one, _ in rows), default=0)
    what = [*(["Flavor"] if "flavors" in answer else []), *([per.capitalize()] if per else [])]
    return CapacityPicture(
        ", ".join(what) or "Where",
        tuple(_capacity_bar(name, one, largest, is_part=is_part) for name, one, is_part in rows),
    )


def _capacity_bar(name: str, one: Json, largest: int, *, is_part: bool) -> CapacityBar:
    return CapacityBar(
        name=name,
        capacity=one["capacity"],
        width=_WIDTH * one["capacity"] / largest if largest else 0.0,
        exact=one.get("exact", True),
        doubts=tuple(one.get("inexact_because", ())),
        refused=one.get("refused", ""),
        stops=tuple(one["limited_by"]),
        stranded=one["stranded"],
        is_part=is_part,
    )

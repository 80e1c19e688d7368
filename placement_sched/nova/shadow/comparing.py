"""Compares where nova put the instances of a request with where they were put here.

nova takes any of the hosts of equal weight, so that another of them agrees as well. Where it took
another one for an earlier instance of the same request, the two hosts have changed their parts for
the later ones: there, nova's host stands for the one chosen here and the other way round.

nova's own claim may come before the evaluation has read what is allocated, which then counts it as
another's: nova's host has less room here than it had for nova. Such an evaluation is late. It still
agrees where the host is the same or weighs the same; that it does not agree is reported only where
the reason has nothing to do with room, and else the verdict is that it cannot be compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any, NamedTuple, Self

from placement_sched.model import shadow_result
from placement_sched.model.document import Json
from placement_sched.model.explanation import CANDIDATES, FILTERS, FilterReport, Funnel
from placement_sched.scheduler.weights import WeighedHost

#: How many hosts are noted: those that passed, those that were refused, and the best of a step.
MOST_PASSED, MOST_REFUSED, MOST_BEST = 1000, 500, 200
#: How many of the best hosts all steps of one request have together, at most.
MOST_IN_ALL = 2000
#: No more characters of a reason are kept.
_REASON = 200


class HostName(NamedTuple):
    """A compute host and its node."""

    host: str
    node: str

    def __str__(self) -> str:
        """Return how people read it: a node of another name than its host is named as well."""
        return self.host if self.host == self.node else f"{self.host} ({self.node})"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a host did not pass: the family of stages, the stage, and its reason."""

    stage: str
    name: str
    reason: str

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.name}: {self.reason}" if self.name else self.reason


@dataclass(frozen=True, slots=True)
class Step:
    """How one instance was placed here: among the ``best``, nova may take any.

    ``more`` of the best are not noted. ``chosen`` is None where there was no host.
    """

    chosen: HostName | None
    weight: float | None = None
    best: frozenset[HostName] = frozenset()
    more: int = 0

    @classmethod
    def of(cls, ordered: Iterable[WeighedHost], subset: int, most: int) -> Self:
        """Return the step that takes the first of these.

        ``subset`` is how many of the best hosts are drawn among, as host_subset_size says.
        """
        hosts = tuple(ordered)
        if not hosts:
            return cls(None)
        top = max(host.weight for host in hosts)
        by_weight = sorted(hosts, key=lambda host: -host.weight)
        equal = [
            host for rank, host in enumerate(by_weight) if rank < subset or same(host.weight, top)
        ]
        best = frozenset(map(name_of, equal[:most]))
        return cls(name_of(hosts[0]), hosts[0].weight, best, len(equal) - len(best))

    def as_json(self) -> Json:
        """Return the step as it is kept."""
        return {
            "chosen": self.chosen and list(self.chosen),
            "weight": self.weight,
            "best": [list(one) for one in sorted(self.best)],
            "more": self.more,
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """Return the step that was kept."""
        chosen = kept["chosen"] and HostName(*kept["chosen"])
        best = frozenset(HostName(*one) for one in kept["best"])
        return cls(chosen, kept["weight"], best, kept["more"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What is noted of one evaluated request.

    ``steps`` are of the instances in their order, those placed before one found no host too.
    ``late`` are the instances that nova had claimed for before the evaluation was done.
    ``obstacle`` is why there was no host.
    """

    steps: tuple[Step, ...] = ()
    passed: Mapping[HostName, float] = field(default_factory=dict)
    refused: Mapping[HostName, Refused] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    obstacle: str | None = None

    def as_json(self) -> Json:
        """Return the notes as they are kept."""
        return {
            "steps": [one.as_json() for one in self.steps],
            "passed": [[*name, weight] for name, weight in self.passed.items()],
            "refused": [
                [*name, one.stage, one.name, one.reason] for name, one in self.refused.items()
            ],
            "late": sorted(self.late),
            "obstacle": self.obstacle,
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """Return the notes that were kept."""
        refused = kept["refused"]
        return cls(
            steps=tuple(map(Step.read, kept["steps"])),
            passed={HostName(host, node): weight for host, node, weight in kept["passed"]},
            refused={HostName(host, node): Refused(*why) for host, node, *why in refused},
            late=frozenset(kept["late"]),
            obstacle=kept["obstacle"],
        )


def same(one: float, other: float) -> bool:
    """Return whether two weights are the same but for how they were computed."""
    return isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def name_of(weighed: WeighedHost) -> HostName:
    """Return the host and the node of a weighed host."""
    return HostName(weighed.obj.host, weighed.obj.nodename)


def refused_in(funnel: Funnel) -> dict[HostName, Refused]:
    """Return why each host that the funnel lists did not pass, as many as are noted."""
    found: dict[HostName, Refused] = {}
    for name, why in _each_refusal(funnel):
        if len(found) >= MOST_REFUSED:
            break
        found.setdefault(name, why)
    return found


def _each_refusal(funnel: Funnel) -> Iterator[tuple[HostName, Refused]]:
    """Yield the rejected hosts of each stage; the filters' first, which had most of the run."""
    filters: Iterable[FilterReport] = funnel.filters
    for report in filters:
        for one in report.rejected:
            reason = one.reason[:_REASON]
            yield HostName(one.host, one.node), Refused(FILTERS, report.name, reason)
    searched = funnel.allocation_candidates
    for search in (searched, searched.fallback) if searched.fallback else (searched,):
        for step in search.steps:
            for one in step.rejected:
                reason = one.reason[:_REASON]
                yield HostName(one.host, one.node), Refused(CANDIDATES, step.constraint, reason)


#: The filters whose answer changes once the instance itself is counted on the host.
_OF_ROOM = frozenset(
    {
        "room_left",
        "AggregateCoreFilter",
        "AggregateDiskFilter",
        "AggregateIoOpsFilter",
        "AggregateNumInstancesFilter",
        "AggregateRamFilter",
        "AggregateTypeAffinityFilter",
        "CoreFilter",
        "DiskFilter",
        "IoOpsFilter",
        "NumInstancesFilter",
        "NUMATopologyFilter",
        "PciPassthroughFilter",
        "RamFilter",
        "TypeAffinityFilter",
    }
)


@dataclass(frozen=True, slots=True)
class NovaOutcome:
    """Where nova put an instance first; None where it found no host.

    ``ended_on`` is the host of a later attempt, where the first one failed. ``first_known`` is
    false where only the host of a later attempt is known.
    """

    host: HostName | None
    ended_on: HostName | None = None
    first_known: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one instance, nova's host, and what explains the two."""

    verdict: str
    nova_host: HostName | None = None
    detail: Json = field(default_factory=dict)

    @property
    def needs_reason(self) -> bool:
        """Return whether nothing was noted of nova's host, so that it has to be looked at again."""
        return self.verdict in shadow_result.DISAGREEING and "why" not in self.detail


def judge(
    notes: Notes, instances: Sequence[str], found: Sequence[NovaOutcome | None]
) -> list[Judged]:
    """Return the verdict on each instance; what nova did with it is None where it is not known."""
    parts = _Parts()
    judged = []
    for position, (uuid, outcome) in enumerate(zip(instances, found, strict=True)):
        step = notes.steps[position] if position < len(notes.steps) else Step(None)
        judged.append(_judge(notes, step, outcome, parts, late=uuid in notes.late))
    return judged


def verdict_of_all(verdicts: Iterable[str]) -> str:
    """Return the verdict on a request from those on its instances: the gravest."""
    return min(verdicts, key=shadow_result.VERDICTS.index)


@dataclass(slots=True)
class _Parts:
    """Which host stands for which, since nova drew another of those that weigh the same."""

    of: dict[HostName, HostName] = field(default_factory=dict)

    def here(self, nova: HostName) -> HostName:
        return self.of.get(nova, nova)

    def changed(self, nova: HostName, ours: HostName) -> None:
        """Note that what is ``nova`` there is ``ours`` here; each keeps one part."""
        was = self.here(nova)
        other = next((one for one, part in self.of.items() if part == ours), ours)
        self.of[nova], self.of[other] = ours, was


def _judge(
    notes: Notes, step: Step, outcome: NovaOutcome | None, parts: _Parts, *, late: bool
) -> Judged:
    ours = step.chosen
    if outcome is None:
        return Judged(
            shadow_result.UNKNOWN, detail=_detail(step, why="it is not known what nova did")
        )
    if outcome.host is None:
        return _without_nova(notes, step)
    nova = outcome.host
    if not outcome.first_known:
        why = f"an attempt failed, and {nova} is the host of a later one"
        return Judged(shadow_result.ALTERNATE, nova, _detail(step, why=why))
    ended = f"; the attempt failed, and a later one was on {outcome.ended_on}"
    more = ended if outcome.ended_on else ""
    if ours is None:
        return _against(notes, step, nova, shadow_result.ONLY_NOVA, late=late, more=more)
    here = parts.here(nova)
    if here == ours or here in step.best:
        parts.changed(nova, ours)
        return _agreeing(step, nova, ours, more)
    if step.more and _may_be_equal(notes, step, here):
        why = f"{step.more} more hosts weigh the same as {ours} than are noted"
        return Judged(shadow_result.UNKNOWN, nova, _detail(step, why=why))
    return _against(notes, step, nova, shadow_result.OTHER_HOST, late=late, more=more)


def _without_nova(notes: Notes, step: Step) -> Judged:
    """Return the verdict on an instance for which nova found no host."""
    if step.chosen is None:
        return Judged(shadow_result.BOTH_NO_HOST, detail=_detail(step, why=notes.obstacle))
    why = f"nova found no host; {step.chosen} was chosen here{_weighing(step.weight)}"
    return Judged(shadow_result.ONLY_OURS, detail=_detail(step, why=why))


def _agreeing(step: Step, nova: HostName, ours: HostName, more: str) -> Judged:
    """Return the verdict where nova took what was chosen here, or what weighs the same."""
    if nova == ours:
        return Judged(shadow_result.SAME_HOST, nova, _detail(step, why=more.lstrip("; ") or None))
    why = f"{nova} weighs the same as {ours}{more}"
    return Judged(shadow_result.EQUAL_WEIGHT, nova, _detail(step, why=why))


def _may_be_equal(notes: Notes, step: Step, nova: HostName) -> bool:
    """Return whether a host may be one of the best that are not noted."""
    if nova in notes.refused:
        return False
    weight = notes.passed.get(nova)
    only = len(notes.steps) == 1 and weight is not None and step.weight is not None
    return not only or same(weight or 0.0, step.weight or 0.0)


def _against(
    notes: Notes, step: Step, nova: HostName, verdict: str, *, late: bool, more: str
) -> Judged:
    """Return the verdict that nova's host is another, and why, as far as it was noted."""
    refused, weight = notes.refused.get(nova), notes.passed.get(nova)
    if late and not _is_certain(refused):
        claimed = f"nova had claimed for the instance before it was evaluated here{more}"
        return Judged(shadow_result.UNKNOWN, nova, _detail(step, why=claimed))
    ours = "" if step.chosen is None else f"; {step.chosen} was chosen{_weighing(step.weight)}"
    why: str | None = None
    if refused is not None:
        why = f"{nova} did not pass here: {refused}{ours}{more}"
    elif weight is not None and step.chosen is None:
        why = f"{nova} passed here, but not for all instances: {notes.obstacle}{more}"
    elif weight is not None and step is notes.steps[0]:
        why = f"{nova} weighs {weight:g} here{ours}{more}"
    elif weight is not None:  # what was noted of it is of the first instance
        weight = None
        why = f"{nova} was not among the best after the earlier instances{ours}{more}"
    return Judged(verdict, nova, _detail(step, weight=weight, why=why))


def _is_certain(refused: Refused | None) -> bool:
    """Return whether a host was refused for what nova's own claim there cannot have changed."""
    return refused is not None and refused.stage == FILTERS and refused.name not in _OF_ROOM


def _weighing(weight: float | None) -> str:
    return "" if weight is None else f" with the weight {weight:g}"


def _detail(step: Step, **facts: Any) -> Json:
    found = {
        "our_node": step.chosen and step.chosen.node,
        "our_weight": step.weight,
        "nova_weight": facts.get("weight"),
        "why": facts.get("why"),
    }
    return {name: value for name, value in found.items() if value is not None}

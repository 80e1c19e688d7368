"""What is noted of an evaluation until it is known what nova did.

Which hosts nova may take by the order of weights, the weight of each host that passed, and why the
others did not. It is bounded in size, and written as JSON into the request's first result.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import Any, NamedTuple, Self

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

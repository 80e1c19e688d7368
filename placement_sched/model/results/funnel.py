"""The explanation of one run: its stages, which of them left no host, and what became of hosts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from placement_sched.model.document import Json
from placement_sched.model.results import stages
from placement_sched.model.results.stages import EVERYTHING, FilterReport, Obstacle, View
from placement_sched.model.results.would_fit import WouldFit
from placement_sched.model.verdict import Remedy

FLAVOR, IMAGE = "flavor", "image"
#: The families of stages, as the funnel names them.
REQUEST_FILTERS, FILTERS = "request_filters", "filters"
#: How errors and logs name the part of a flavor or an image that has a key.
_PARTS = {FLAVOR: "flavor extra spec", IMAGE: "image property"}
#: No more characters of a value are shown: a caller may send any number of them.
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Ignored:
    """An extra spec or an image property without effect, and what was expected in its place."""

    source: str
    key: str
    value: str
    expected: str

    @property
    def detail(self) -> str:
        """Return in one line what is ignored and why."""
        both = (self.key, self.value)
        said = "=".join(_cut(text if text.isprintable() else repr(text)) for text in both)
        return f"ignored: {_PARTS[self.source]} {said}: expected {self.expected}"

    @property
    def refusal(self) -> str:
        """Return why a request is refused for it, where nothing may be ignored."""
        said = f"{_PARTS[self.source]} {self.key!r}"
        return f"{said}: expected {self.expected}, got {_cut(repr(self.value))}"

    def as_json(self) -> dict[str, str]:
        """Return the entry of a funnel's ``warnings``."""
        return {"key": self.key, "source": self.source, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class UnknownHost:
    """A host that a request names and that is not there: in which list of the request, and where.

    ``detail`` says so in one line, with the nearest name that is known.
    """

    key: str
    position: int
    detail: str

    def as_json(self) -> dict[str, str]:
        """Return the entry of a funnel's ``warnings``."""
        return {"key": self.key, "source": "request_spec", "detail": self.detail}


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(frozen=True, slots=True)
class RoomReport:
    """How many instances are asked for, and for how many the hosts that passed have room at most.

    The room was counted before any instance was placed.
    """

    instances: int
    at_most: int

    @property
    def words(self) -> str:
        """Return in one sentence that there is not enough room."""
        most = f"{self.at_most} of the {self.instances} instances"
        return f"the hosts that passed have room for at most {most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorReport:
    """The result of one selector for a request, and the aggregates that matched.

    Each of ``matched`` is an aggregate's name, uuid and policy.
    """

    name: str
    asked: str | None = None
    matched: tuple[tuple[str, str, str], ...] = ()
    outcome: str

    def as_json(self) -> Json:
        """Return the entry as an explanation shows it."""
        keys = ("aggregate", "uuid", "policy")
        return {
            **asdict(self),
            "matched": [dict(zip(keys, one, strict=True)) for one in self.matched],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    """Which policy a request is under, and what each selector that was asked found."""

    name: str
    selectors: tuple[SelectorReport, ...] = ()

    def as_json(self) -> Json:
        """Return the entry as an explanation shows it."""
        return {"name": self.name, "selectors": [one.as_json() for one in self.selectors]}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterReport:
    """The filters for an instance that found no host, after ``placed`` of the ``asked`` did."""

    placed: int
    asked: int
    filters: tuple[FilterReport, ...]

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the entry as an explanation shows it."""
        return {"placed": self.placed, "filters": [report.as_json(view) for report in self.filters]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """All stages of one run, for the first instance of the request.

    ``policy`` says how the request's policy was chosen, where there are policies.
    ``states_age`` is how many seconds ago the reports were read that hosts were judged by, where
    the driver keeps them. ``selected`` is whether every instance of the request found a host.
    ``warnings`` are what of flavor and image has no effect, and named hosts that are not there.
    """

    request_filters: tuple[stages.RequestFilterReport, ...]
    allocation_candidates: stages.CandidatesReport
    filters: tuple[FilterReport, ...] = ()
    weighers: tuple[stages.WeigherReport, ...] = ()
    states_age: float | None = None
    policy: PolicyReport | None = None
    later: LaterReport | None = None
    warnings: tuple[Ignored | UnknownHost, ...] = ()
    room: RoomReport | None = None
    would_fit: tuple[WouldFit, ...] = ()
    selected: bool = True

    @property
    def obstacle(self) -> Obstacle | None:
        """Return which stage kept the request from finding hosts; None where it found them."""
        if self.selected:
            return None
        for one in self.request_filters:
            if one.refusal is not None:
                return Obstacle(REQUEST_FILTERS, one.name, one.words)
        last = _emptied(self.filters)
        if last is not None:
            words = last.words + self.allocation_candidates.cut_words
            return Obstacle(FILTERS, last.name, words)
        found = self.allocation_candidates.hosts
        return self._of_later if found else self.allocation_candidates.obstacle

    @property
    def _of_later(self) -> Obstacle:
        if self.room is not None:
            return Obstacle("room", "room", self.room.words)
        words, last = "there are hosts for some of the instances, but not for all of them", None
        if self.later is not None:
            placed, last = self.later.placed, _emptied(self.later.filters)
            words = (
                f"{placed} of the {self.later.asked} instances {'fit' if placed > 1 else 'fits'}"
            )
        if last is None:
            return Obstacle("later_instance", "", words)
        return Obstacle("later_instance", last.name, f"{words}; for the next one {last.words}")

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the funnel as the contract shows it.

        ``host_states`` is there only where they are kept, ``policy`` where there are policies, and
        ``later_instance`` where the first instances found hosts, and one after them found none.
        ``room`` is there where more instances are asked for than the hosts have room for,
        ``obstacle`` where the request found no host, ``would_fit`` where that was asked for and
        something is known, and ``warnings`` where something is ignored.
        """
        age, obstacle = self.states_age, self.obstacle
        keys: Json = {
            "policy": self.policy and self.policy.as_json(),
            "warnings": [one.as_json() for one in self.warnings] or None,
            REQUEST_FILTERS: [report.as_json() for report in self.request_filters],
            stages.CANDIDATES: self.allocation_candidates.as_json(view),
            FILTERS: [report.as_json(view) for report in self.filters],
            "weighers": [asdict(report) for report in self.weighers],
            "host_states": None if age is None else {"age_s": round(age, 3)},
            "room": self.room and asdict(self.room),
            "obstacle": obstacle and asdict(obstacle),
            "would_fit": [one.as_json() for one in self.would_fit] or None,
            "later_instance": self.later and self.later.as_json(view),
        }
        return {key: shown for key, shown in keys.items() if shown is not None}


def _emptied(reports: Iterable[FilterReport]) -> FilterReport | None:
    return next((one for one in reports if one.before and not one.after), None)


class WeightReport(NamedTuple):
    """How one weigher judged one host; ``raw`` is after clamping by minval and maxval."""

    raw: float
    normalized: float
    multiplier: float

    def as_json(self) -> Json:
        """Return the entry as the contract shows it."""
        return {**self._asdict(), "weighted": self.multiplier * self.normalized}


class HostReport(NamedTuple):
    """A host that passed, with its weight and what each weigher (by name) gave to it."""

    host: str
    node: str
    weight: float
    weights: Mapping[str, WeightReport]

    def as_json(self) -> Json:
        """Return the entry as the contract shows it."""
        return self.with_weights({name: one.as_json() for name, one in self.weights.items()})

    def with_weights(self, weights: Json) -> Json:
        """Return the same, with what it shows of the weights."""
        return {"host": self.host, "node": self.node, "weight": self.weight, "weights": weights}


def hosts_as_json(hosts: Iterable[HostReport], view: View = EVERYTHING) -> list[Json]:
    """Return the hosts that passed, in the order given, as the contract shows them.

    Hosts that share the report of a weigher share what is shown of it: there are few of them.
    """
    some = [host for host in hosts if view.shows(host.host, host.node)]
    if not some:
        return []
    same: Json = {}
    differing: list[tuple[str, list[Json]]] = []
    for name in some[0].weights:
        column = [host.weights[name] for host in some]
        same[name] = column[0].as_json()
        if column.count(column[0]) < len(column):
            entries = {id(one): one.as_json() for one in {id(one): one for one in column}.values()}
            differing.append((name, [entries[id(one)] for one in column]))
    shown = []
    for at, host in enumerate(some):
        weights = same.copy()
        for name, of_hosts in differing:
            weights[name] = of_hosts[at]
        shown.append(host.with_weights(weights))
    return shown


PASSED, REJECTED, UNKNOWN = "passed", "rejected", "unknown"


@dataclass(frozen=True, slots=True)
class RejectReason:
    """One stage that rejects a host: its family, its name in the funnel, and why.

    ``changes`` are alternatives: after each of them this stage would not reject the host.
    """

    stage: str
    name: str
    reason: str
    changes: tuple[Remedy, ...] = ()

    @classmethod
    def of_request_filter(cls, report: stages.RequestFilterReport) -> "RejectReason":
        """Return the reason of a request filter that refused the whole request."""
        return cls(REQUEST_FILTERS, report.name, report.refusal or "")

    @classmethod
    def of_step(cls, step: stages.StepReport, before: str = "") -> "RejectReason":
        """Return the reason of a step of the search; ``before`` goes before its name."""
        (rejected,) = step.rejected
        name = f"{before}{step.label}"
        return cls(stages.CANDIDATES, name, rejected.reason, rejected.changes)

    @classmethod
    def of_filters(cls, report: FilterReport) -> Iterator["RejectReason"]:
        """Yield the reason of each host that a stage rejected."""
        for rejected in report.rejected:
            yield cls(FILTERS, report.name, rejected.reason, rejected.changes)

    def as_json(self) -> Json:
        """Return the entry of ``reasons``."""
        return {
            "stage": self.stage,
            "name": self.name,
            "reason": self.reason,
            "changes": [change.as_json() for change in self.changes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVerdict:
    """The verdict on one compute node that an explanation was asked about, by any of its names.

    ``asked`` is the requested name. A provider that is not a known compute node has its name as
    ``host`` and ``node``, and no ``compute_node_uuid``. ``rank`` counts from 1, among ``of`` hosts
    that passed. ``would_pass`` is whether a rejected host passes after the first change of each
    reason, None where that was not tried. ``did_you_mean`` are known names near to one that is not
    known; where none is near and there are few, ``there_are`` all of them.
    """

    asked: str
    verdict: str
    host: str | None = None
    node: str | None = None
    compute_node_uuid: str | None = None
    rank: int | None = None
    of: int | None = None
    weight: float | None = None
    reasons: tuple[RejectReason, ...] = ()
    would_pass: bool | None = None
    did_you_mean: tuple[str, ...] = ()
    there_are: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the entry of ``verdicts``; every key is always there."""
        shown = {name: getattr(self, name) for name in self.__slots__}
        return {
            **shown,
            "reasons": [reason.as_json() for reason in self.reasons],
            "did_you_mean": list(self.did_you_mean),
            "there_are": list(self.there_are),
        }

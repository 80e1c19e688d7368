"""The explanation of one run: its stages, which of them left no host, and what became of hosts."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

from placement_sched.model.document import Json
from placement_sched.model.names import listed
from placement_sched.model.verdict import Remedy


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Which stage of a run left no host: its family, its name in the funnel, and one sentence."""

    stage: str
    name: str
    reason: str

    @property
    def kind(self) -> str:
        """Return the name without what was requested, of which there is no end: ``resources``."""
        return self.name.split(" ")[0] if self.stage == CANDIDATES else self.name


@dataclass(frozen=True, slots=True)
class View:
    """How much of a report an answer shows.

    ``hosts`` restricts its lists to hosts or nodes of these names (None: all); ``max_rejected``
    bounds each list of rejected hosts (0: no bound).
    """

    hosts: Collection[str] | None = None
    max_rejected: int = 100

    def shows(self, host: str, node: str) -> bool:
        """Return whether this host is to be shown."""
        return self.hosts is None or host in self.hosts or node in self.hosts


EVERYTHING = View(max_rejected=0)


@dataclass(frozen=True, slots=True)
class Rejected:
    """One host that a stage rejected, and why.

    ``changes`` are alternatives after each of which it would not, where a single host is asked for.
    """

    host: str
    node: str
    reason: str
    changes: tuple[Remedy, ...] = ()

    def as_json(self) -> Json:
        """Return the entry as the contract shows it."""
        return {"host": self.host, "node": self.node, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilterReport:
    """What one request filter did: whether it applied, for how long, what it changed.

    ``refusal`` is set where it rejected the whole request; later ones run nevertheless.
    """

    name: str
    applied: bool
    elapsed_ms: float
    changes: Mapping[str, Any] = field(default_factory=dict)
    refusal: str | None = None

    @property
    def words(self) -> str:
        """Return in one sentence that it refused the request."""
        return f"{self.name} rejected the request: {self.refusal}"

    def as_json(self) -> Json:
        """Return the entry as the contract shows it; a refusing one has ``refusal`` as well."""
        shown: Json = {
            "name": self.name,
            "applied": self.applied,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "changes": dict(self.changes),
        }
        return shown if self.refusal is None else {**shown, "refusal": self.refusal}


@dataclass(frozen=True, slots=True)
class StepReport:
    """One narrowing step of the candidates search, with the providers it refused.

    ``option`` names the option that sets a limit, and where its value stands.
    """

    constraint: str
    detail: str
    before: int
    after: int
    rejected: tuple[Rejected, ...] = ()
    option: str | None = None

    @property
    def label(self) -> str:
        """Return constraint and detail in one text."""
        return f"{self.constraint} {self.detail}".strip()

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the entry as the contract shows it; ``option`` only where one set it."""
        shown: Json = {
            "constraint": self.constraint,
            "detail": self.detail,
            "before": self.before,
            "after": self.after,
            "rejected": _shown(self.rejected, view),
        }
        return shown if self.option is None else {**shown, "option": self.option}


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A constraint of a search that found nothing, without which so many hosts would be found.

    ``others`` are further ones, as ``(constraint, detail)``, that have to go together with it.
    ``roots`` are the ids of the root providers of these hosts.
    """

    constraint: str
    detail: str
    hosts: int
    others: tuple[tuple[str, str], ...] = ()
    roots: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, terms: Sequence[tuple[str, str]], hosts: int, roots: tuple[int, ...] = ()) -> Self:
        """Return the near miss of these constraints, as ``(constraint, detail)``, together."""
        (constraint, detail), *others = terms
        return cls(constraint, detail, hosts, tuple(others), roots)

    @property
    def terms(self) -> tuple[tuple[str, str], ...]:
        """Return all its constraints."""
        return ((self.constraint, self.detail), *self.others)

    def as_json(self) -> Json:
        """Return the entry of ``nearest_misses``; ``and`` only where several have to go."""
        shown: Json = {"constraint": self.constraint, "detail": self.detail, "hosts": self.hosts}
        if self.others:
            shown["and"] = [{"constraint": kind, "detail": text} for kind, text in self.others]
        return shown


@dataclass(frozen=True, slots=True)
class NearMisses:
    """The nearest misses of a search that found nothing: sets of equally many constraints.

    ``complete`` is false where the work allowed did not suffice to look at all that are so small;
    those found are correct.
    """

    found: tuple[NearMiss, ...] = ()
    complete: bool = True

    @classmethod
    def of(cls, found: Iterable[NearMiss], *, complete: bool = True) -> Self:
        """Return these, the one that most hosts would be found without first."""
        return cls(tuple(sorted(found, key=lambda miss: -miss.hosts)), complete)

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the keys of a report that show them; none where there are none.

        ``nearest_misses_complete`` is there, and false, where there may be more than are shown.
        """
        shown = self.found[: view.max_rejected or None]
        keys: Json = {"nearest_misses": [miss.as_json() for miss in shown]} if shown else {}
        if not self.complete or len(shown) < len(self.found):
            keys["nearest_misses_complete"] = False
        return keys


#: The family of the steps of a search, as the funnel names it.
CANDIDATES = "allocation_candidates"
#: The name of the stage that leaves out candidates of providers that are not known compute nodes.
COMPUTE_NODES = "compute_nodes"
#: The name of the stage that leaves out hosts which earlier instances of the same request filled.
USED_UP = "room_left"


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesReport:
    """The query for allocation candidates, and the result of each step.

    ``query`` is the exact query string of ``GET /allocation_candidates``, as far as it was built;
    ``providers`` how many root providers there were to begin with; ``hosts`` how many came back.
    ``fallback`` is the report of the second query, which looks for pinned CPUs as VCPU.
    """

    query: str
    providers: int = 0
    hosts: int = 0
    steps: tuple[StepReport, ...] = ()
    nearest_misses: NearMisses = field(default_factory=NearMisses)
    fallback: Self | None = None

    @property
    def obstacle(self) -> Obstacle:
        """Return what kept the search from finding a candidate."""
        for miss in self.nearest_misses.found:
            terms = [(miss.constraint, miss.detail), *miss.others]
            named = [f"{kind} {detail}".strip() for kind, detail in terms]
            return Obstacle(CANDIDATES, listed(named), meeting_all_but(miss.hosts, named))
        for step in self.steps:
            if step.before and not step.after:
                words = f"{step.label} rejected {_all_remaining(step.before)}"
                return Obstacle(CANDIDATES, step.label, words)
        if self.query:
            return Obstacle(CANDIDATES, "providers", "there is no resource provider")
        return Obstacle(CANDIDATES, "requested_hosts", "there is no such host")

    @property
    def cut_words(self) -> str:
        """Return what follows a headline if a limit left out hosts: how many, and what helps."""
        for step in self.steps:
            if step.option is not None and step.before > step.after:
                return (
                    f"; the limit of candidates ({step.option}) left out "
                    f"{_hosts(step.before - step.after)} before: raise the limit, or set "
                    "[placement] allocation_candidates_generation_strategy = breadth-first"
                )
        return ""

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the entry as the contract shows it; ``nearest_misses`` only where no host fits."""
        return {
            "query": self.query,
            "providers": self.providers,
            "hosts": self.hosts,
            "steps": [step.as_json(view) for step in self.steps],
            **self.nearest_misses.as_json(view),
            **({"fallback": self.fallback.as_json(view)} if self.fallback else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterReport:
    """What one host filter took in, let out and refused."""

    name: str
    before: int
    after: int
    rejected: tuple[Rejected, ...] = ()

    @property
    def words(self) -> str:
        """Return in one sentence that it left no host."""
        if self.name == COMPUTE_NODES:
            return _NOT_REPORTED.format(_hosts(self.before))
        if self.name == USED_UP:
            return "no host has capacity left"
        return f"{self.name} rejected {_all_remaining(self.before)}"

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the entry as the contract shows it."""
        return {
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "rejected": _shown(self.rejected, view),
        }


@dataclass(frozen=True, slots=True)
class WeigherReport:
    """A weigher that ran, with its configured multiplier (single hosts may have another)."""

    name: str
    multiplier: float


_NOT_REPORTED = (
    "{} can take the request, but none is a known compute node: report the compute nodes with "
    "PUT /scheduler/v1/compute_nodes/{{uuid}}, under the uuids of the providers (see the guide, "
    '"Beside OpenStack placement", "Hosts")'
)


#: The constraint that only hosts with a disabled compute service do not meet.
_IS_ENABLED = "root_required !COMPUTE_STATUS_DISABLED"


def meeting_all_but(hosts: int, constraints: Collection[str]) -> str:
    """Return how many hosts the search would find without these constraints.

    It does not say that they would fit: no filter has looked at them.
    """
    has_status = _IS_ENABLED in constraints
    others = [text for text in constraints if text != _IS_ENABLED]
    meets = "meets" if hosts == 1 else "meet"
    is_disabled = f"{'is' if hosts == 1 else 'are'} disabled and " if has_status else ""
    but = f"all constraints but {listed(others)}" if others else "all other constraints"
    return f"{_hosts(hosts)} {is_disabled}{meets} {but}"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _all_remaining(count: int) -> str:
    return "the last remaining host" if count == 1 else f"all {count} remaining hosts"


def _shown(rejected: tuple[Rejected, ...], view: View) -> list[Json]:
    entries = [entry for entry in rejected if view.shows(entry.host, entry.node)]
    return [entry.as_json() for entry in (entries[: view.max_rejected or None])]


#: So many hosts are named.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldFit:
    """The hosts that would be found but for some stages, and what changes that, in a sentence.

    ``without`` are family and name of the stages; each of the hosts, known as ``hosts``, passes all
    others. ``exact`` is false where there may be more hosts than were tried.
    """

    without: tuple[tuple[str, str], ...]
    hosts: tuple[str, ...]
    why: str
    change: Remedy | None = None
    exact: bool = True

    @property
    def words(self) -> str:
        """Return the sentence."""
        number = len(self.hosts)
        some = self.hosts[0] if number == 1 and self.exact else f"{number} host{'s' * (number > 1)}"
        return f"{'' if self.exact else 'at least '}{some} {self.why}"

    def as_json(self) -> Json:
        """Return the entry of ``would_fit``."""
        return {
            "words": self.words,
            "hosts": len(self.hosts),
            "exact": self.exact,
            "examples": list(self.hosts[:_NAMED]),
            "without": [{"stage": stage, "name": name} for stage, name in self.without],
            "change": self.change and self.change.as_json(),
        }


def least(found: Sequence[WouldFit]) -> tuple[WouldFit, ...]:
    """Return those without the fewest stages, the one with most hosts first."""
    fewest = min((len(one.without) for one in found), default=0)
    some = [one for one in found if len(one.without) == fewest]
    return tuple(sorted(some, key=lambda one: (-len(one.hosts), one.without, one.why)))


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

    request_filters: tuple[RequestFilterReport, ...]
    allocation_candidates: CandidatesReport
    filters: tuple[FilterReport, ...] = ()
    weighers: tuple[WeigherReport, ...] = ()
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
            CANDIDATES: self.allocation_candidates.as_json(view),
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
    def of_request_filter(cls, report: RequestFilterReport) -> "RejectReason":
        """Return the reason of a request filter that refused the whole request."""
        return cls(REQUEST_FILTERS, report.name, report.refusal or "")

    @classmethod
    def of_step(cls, step: StepReport, before: str = "") -> "RejectReason":
        """Return the reason of a step of the search; ``before`` goes before its name."""
        (rejected,) = step.rejected
        name = f"{before}{step.label}"
        return cls(CANDIDATES, name, rejected.reason, rejected.changes)

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

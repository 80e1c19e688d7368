"""The explanation of one run: what each stage took in, let out and refused (contract §4).

Values are complete; :class:`View` says how much of the lists an answer shows. Counts are always
exact, whatever the view leaves out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from placement_sched.model.ignored import Ignored
from placement_sched.model.obstacle import Obstacle, RoomReport
from placement_sched.model.policy_report import PolicyReport

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """How much of a report an answer shows.

    ``hosts`` restricts its lists to hosts or nodes of these names (None: all); ``max_rejected``
    bounds each list of refused hosts (0: no bound).
    """

    hosts: Collection[str] | None = None
    max_rejected: int = 100

    def shows(self, host: str, node: str) -> bool:
        """Return whether this host is to be shown."""
        return self.hosts is None or host in self.hosts or node in self.hosts


EVERYTHING = View(max_rejected=0)


@dataclass(frozen=True, slots=True)
class Rejected:
    """One host that a stage refused, and why."""

    host: str
    node: str
    reason: str

    def as_json(self) -> Json:
        """Return the entry as the contract shows it."""
        return {"host": self.host, "node": self.node, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilterReport:
    """What one request filter did: whether it applied, for how long, what it changed.

    ``refusal`` is set where it refused the whole request; later ones narrow it all the same.
    """

    name: str
    applied: bool
    elapsed_ms: float
    changes: Mapping[str, Any] = field(default_factory=dict)
    refusal: str | None = None

    @property
    def words(self) -> str:
        """Return in one sentence that it refused the request."""
        return f"{self.name} refused the request: {self.refusal}"

    def as_json(self) -> Json:
        """Return the entry as the contract shows it; a refusing one has ``refusal`` as well."""
        shown: Json = {
            "name": self.name,
            "applied": self.applied,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "changes": dict(self.changes),
        }
        return shown if self.refusal is None else {**shown, "refusal": self.refusal}


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """

    constraint: str
    detail: str
    hosts: int
    others: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, terms: Sequence[tuple[str, str]], hosts: int) -> Self:
        """Return the near miss of these constraints, as ``(constraint, detail)``, together."""
        (constraint, detail), *others = terms
        return cls(constraint, detail, hosts, tuple(others))

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
    those told are true all the same.
    """

    told: tuple[NearMiss, ...] = ()
    complete: bool = True

    @classmethod
    def of(cls, found: Iterable[NearMiss], *, complete: bool = True) -> Self:
        """Return these, the one that most hosts would be found without first."""
        return cls(tuple(sorted(found, key=lambda miss: -miss.hosts)), complete)

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the keys of a report that tell of them; none where there is nothing to tell.

        ``nearest_misses_complete`` is there, and false, where there may be more than are shown.
        """
        shown = self.told[: view.max_rejected or None]
        keys: Json = {}
        if shown:
            keys["nearest_misses"] = [miss.as_json() for miss in shown]
        if not self.complete or len(shown) < len(self.told):
            keys["nearest_misses_complete"] = False
        return keys


#: The name of the stage that leaves out candidates of providers that are no known compute node.
COMPUTE_NODES = "compute_nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesReport:
    """What was asked of the candidates search, and what came of it.

    ``query`` is the exact query string of ``GET /allocation_candidates``, as far as it was built;
    ``providers`` how many root providers there were to begin with; ``hosts`` how many came back.
    ``fallback`` tells of the second question, where pinned CPUs are looked for as VCPU too.
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
        family = "allocation_candidates"
        for miss in self.nearest_misses.told:
            terms = [(miss.constraint, miss.detail), *miss.others]
            named = " and ".join(f"{kind} {detail}".strip() for kind, detail in terms)
            return Obstacle(family, named, f"{_hosts(miss.hosts)} would fit but for {named}")
        for step in self.steps:
            if step.before and not step.after:
                words = f"{step.label} rejected {_all_remaining(step.before)}"
                return Obstacle(family, step.label, words)
        if self.query:
            return Obstacle(family, "providers", "there is no resource provider")
        return Obstacle(family, "requested_hosts", "there is no such host")

    def falling_back_to(self, other: Self, hosts: int) -> Self:
        """Return this report with that of the second question; ``hosts`` came back of both."""
        return replace(self, fallback=other, hosts=hosts)

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the entry as the contract shows it; ``nearest_misses`` only where nobody fits."""
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

    def as_json(self) -> Json:
        """Return the entry as the contract shows it."""
        return {"name": self.name, "multiplier": self.multiplier}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterReport:
    """How the hosts looked to an instance that found none, after so many that were placed."""

    placed: int
    filters: tuple[FilterReport, ...]

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the entry as an explanation shows it."""
        return {
            "placed": self.placed,
            "filters": [report.as_json(view) for report in self.filters],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """All stages of one run, for the first instance of the request.

    ``policy`` tells how the request's policy was chosen, where there are policies.
    ``states_age`` is how many seconds ago the reports were read that hosts were judged by, where
    the driver keeps them. ``selected`` is whether every instance of the request found a host.
    ``warnings`` are what of flavor and image has no effect.
    """

    request_filters: tuple[RequestFilterReport, ...]
    allocation_candidates: CandidatesReport
    filters: tuple[FilterReport, ...] = ()
    weighers: tuple[WeigherReport, ...] = ()
    states_age: float | None = None
    policy: PolicyReport | None = None
    later: LaterReport | None = None
    warnings: tuple[Ignored, ...] = ()
    room: RoomReport | None = None
    selected: bool = True

    @property
    def obstacle(self) -> Obstacle | None:
        """Return which stage kept the request from finding hosts; None where it found them."""
        if self.selected:
            return None
        for one in self.request_filters:
            if one.refusal is not None:
                return Obstacle("request_filters", one.name, one.words)
        last = emptied(self.filters)
        if last is not None:
            return Obstacle("filters", last.name, last.words)
        found = self.allocation_candidates.hosts
        return self._of_later if found else self.allocation_candidates.obstacle

    @property
    def _of_later(self) -> Obstacle:
        """Return what kept an instance from a host though others found one."""
        if self.room is not None:
            return Obstacle("room", "room", self.room.words)
        if self.later is None:
            words = "there are hosts for some of the instances, but not for all of them"
            return Obstacle("later_instance", "", words)
        last = emptied(self.later.filters)
        placed = self.later.placed
        first = "the first instance" if placed == 1 else f"the first {placed} instances"
        words = f"{first} found a host, the next one did not"
        if last is None:
            return Obstacle("later_instance", "", words)
        return Obstacle("later_instance", last.name, f"{words}: {last.words}")

    def as_json(self, view: View = EVERYTHING) -> Json:
        """Return the funnel as the contract shows it.

        ``host_states`` is there only where they are kept, ``policy`` where there are policies, and
        ``later_instance`` where the first instances found hosts, and one after them found none.
        ``room`` is there where more instances are asked for than the hosts have room for,
        ``obstacle`` where the request found no host, and ``warnings`` where something is ignored.
        """
        kept: Json = (
            {} if self.states_age is None else {"host_states": {"age_s": round(self.states_age, 3)}}
        )
        policy: Json = {} if self.policy is None else {"policy": self.policy.as_json()}
        ignored = [one.as_json() for one in self.warnings]
        return {
            **policy,
            **({"warnings": ignored} if ignored else {}),
            "request_filters": [report.as_json() for report in self.request_filters],
            "allocation_candidates": self.allocation_candidates.as_json(view),
            "filters": [report.as_json(view) for report in self.filters],
            "weighers": [report.as_json() for report in self.weighers],
            **kept,
            **({} if self.room is None else {"room": self.room.as_json()}),
            **({} if (found := self.obstacle) is None else {"obstacle": found.as_json()}),
            **({} if self.later is None else {"later_instance": self.later.as_json(view)}),
        }


def emptied(reports: Iterable[FilterReport]) -> FilterReport | None:
    """Return the stage that rejected the last host, if one did."""
    return next((one for one in reports if one.before and not one.after), None)


_NOT_REPORTED = (
    "{} can take the request, but none is a known compute node: report the compute nodes with "
    "PUT /scheduler/v1/compute_nodes/{{uuid}}, under the uuids of the providers (see the guide, "
    '"Beside OpenStack placement", "Hosts")'
)


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _all_remaining(count: int) -> str:
    return "the last remaining host" if count == 1 else f"all {count} remaining hosts"


def _shown(rejected: tuple[Rejected, ...], view: View) -> list[Json]:
    entries = [entry for entry in rejected if view.shows(entry.host, entry.node)]
    return [entry.as_json() for entry in (entries[: view.max_rejected or None])]

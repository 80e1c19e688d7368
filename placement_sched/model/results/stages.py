"""The report of each stage of a run: what it took in, let out and rejected (contract §4).

Values are complete; :class:`View` says how much of the lists an answer shows. Counts are always
exact, whatever the view leaves out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from placement_sched.model.document import Json
from placement_sched.model.naming import listed
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

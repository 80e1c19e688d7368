# SPDX-License-Identifier: Apache-2.0
"""Explanations of scheduling runs: stages, rejected and passing hosts.

:mod:`placement_sched.explain.phrases` builds the sentences.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Self

from placement_sched.explain import phrases
from placement_sched.limits import MAX_FIT_EXAMPLES
from placement_sched.model.constraint import LIMIT, Constraint, LimitingOption
from placement_sched.model.document import Json
from placement_sched.model.names import join_words
from placement_sched.model.rejection import (
    CANDIDATES,
    FILTERS,
    OTHER,
    REQUEST_FILTERS,
    USED_UP,
    Rejection,
    SuggestedChange,
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The stage that left no host.

    ``stage`` is the family of the stage, such as ``filters``, and ``name`` its name, such as
    ``RamFilter``. ``reason`` is a sentence for operators. ``values`` are the kind and the values of
    the constraint, or of a filter's most frequent rejection. ``constraints`` are set for a stage of
    the candidate search.
    """

    stage: str
    name: str
    reason: str
    values: Json = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()

    @property
    def label(self) -> str:
        """Return the name without details, as a metric label."""
        return self.constraints[0].family if self.constraints else self.name

    @property
    def title(self) -> str:
        """Return the name without requested amounts."""
        titles = (phrases.format_title(constraint_as_json(each)) for each in self.constraints)
        return join_words(titles) if self.constraints else self.name

    @property
    def kind(self) -> str:
        """Return the kind of the rejection, such as ``capacity``."""
        return str(self.values.get("kind", OTHER))

    @property
    def subject(self) -> str:
        """Return the subject of the rejection, such as ``VCPU``, or an empty text."""
        return phrases.get_subject(self.values)

    def as_json(self) -> Json:
        """Return the stage as the value of ``obstacle``."""
        own = {"stage": self.stage, "name": self.name, "reason": self.reason}
        return {**own, **self.values, **own}


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """The hosts that the lists in a result show.

    ``hosts`` are the names of the shown hosts or nodes (None: all). ``max_rejected`` is the maximum
    length of each list of rejected hosts (0: unlimited).
    """

    hosts: Collection[str] | None = None
    max_rejected: int = 100

    def shows(self, host: str, node: str) -> bool:
        """Return whether the lists show a compute node (its host and its name)."""
        return self.hosts is None or host in self.hosts or node in self.hosts


EVERYTHING = ExplanationView(max_rejected=0)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected host, with the reason.

    Each change in ``changes`` avoids the rejection. Only reports on single hosts have changes.
    """

    host: str
    node: str
    rejection: Rejection
    changes: tuple[SuggestedChange, ...] = ()

    @property
    def reason(self) -> str:
        """Return the sentence about the rejection."""
        return phrases.describe_rejection(self.rejection)

    def as_json(self) -> Json:
        """Return the host as an entry of ``rejected``."""
        names = {"host": self.host, "node": self.node}
        return {**names, "reason": "", **phrases.build_reason(self.rejection), **names}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilterReport:
    """The result of a request filter, with the changes that it made.

    If the filter rejected the whole request, ``rejection`` is the reason. Later request filters run
    also after a rejection. ``reason`` may be set if the filter was not applied.
    """

    name: str
    applied: bool
    elapsed_ms: float
    changes: Mapping[str, Any] = field(default_factory=dict)
    rejection: Rejection | None = None
    reason: str | None = None

    @property
    def words(self) -> str:
        """Return the sentence about the rejection of the request."""
        return phrases.describe_rejected_request(self.name, self.rejection_text)

    @property
    def rejection_text(self) -> str | None:
        """Return the reason for rejecting the request, or None."""
        return None if self.rejection is None else phrases.describe_rejection(self.rejection)

    def as_json(self) -> Json:
        """Return the report as an entry of ``request_filters``.

        ``rejection`` is present only if the filter rejected the request, ``reason`` only if it was
        not applied for a reason in the cloud.
        """
        entry: Json = {
            "name": self.name,
            "applied": self.applied,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "changes": dict(self.changes),
        }
        if self.rejection is not None:
            entry["rejection"] = self.rejection_text
            entry = {**entry, **self.rejection.as_json(), **entry}
        return entry if self.reason is None else {**entry, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class StepReport:
    """A constraint of the candidate search, and the hosts that it rejected.

    ``before`` and ``after`` are numbers of root providers. If the step is the limit of candidates,
    ``option`` is the option that sets the limit.
    """

    constraint: Constraint
    before: int
    after: int
    rejected: tuple[Rejected, ...] = ()
    option: LimitingOption | None = None

    @property
    def label(self) -> str:
        """Return the constraint and its detail as a single text."""
        return phrases.format_label(constraint_as_json(self.constraint))

    def as_json(self, view: ExplanationView = EVERYTHING) -> Json:
        """Return the step as an entry of ``steps``.

        ``option`` and ``option_source`` are present only if they are set, and ``cut`` only for the
        limit of candidates.
        """
        entry: Json = {
            **constraint_as_json(self.constraint),
            "before": self.before,
            "after": self.after,
            "rejected": _build_rejected_json(self.rejected, view),
        }
        if self.constraint.family == LIMIT:
            entry["cut"] = self.before - self.after
        return entry if self.option is None else {**entry, **self.option.as_json()}


def constraint_as_json(constraint: Constraint) -> Json:
    """Return a constraint as keys of a step or near miss."""
    values = constraint.as_json()
    return {"constraint": constraint.family, "detail": phrases.format_detail(values), **values}


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Constraints without which a search would find hosts.

    The search found no candidates. Without ``constraints`` it would find ``hosts`` hosts. ``roots``
    are the uuids of their root providers.
    """

    constraints: tuple[Constraint, ...]
    hosts: int
    roots: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def as_json(self) -> Json:
        """Return the near miss as an entry of ``nearest_misses``.

        The key ``and``, if present, lists all constraints except the first.
        """
        first, *further = map(constraint_as_json, self.constraints)
        return {**first, "hosts": self.hosts, **({"and": further} if further else {})}


@dataclass(frozen=True, slots=True)
class NearMisses:
    """The smallest sets of constraints without which a search finds hosts.

    ``complete`` is false if a limit of work ended the search before all sets of this size were
    tried. The sets in ``misses`` are correct in any case.
    """

    misses: tuple[NearMiss, ...] = ()
    complete: bool = True

    @classmethod
    def from_misses(cls, misses: Iterable[NearMiss], *, complete: bool = True) -> Self:
        """Sort near misses by their number of hosts, largest first."""
        return cls(tuple(sorted(misses, key=lambda miss: -miss.hosts)), complete)

    def as_json(self, view: ExplanationView = EVERYTHING) -> Json:
        """Return the keys about near misses for a JSON object, maybe none.

        ``nearest_misses_complete`` is false if there may be more near misses than are listed. It is
        absent otherwise.
        """
        misses = self.misses[: view.max_rejected or None]
        keys: Json = {"nearest_misses": [miss.as_json() for miss in misses]} if misses else {}
        if not self.complete or len(misses) < len(self.misses):
            keys["nearest_misses_complete"] = False
        return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesReport:
    """Report on a candidate search: its query and the result of each step.

    ``query`` is the exact query string of ``GET /allocation_candidates``, or empty if no query was
    built. ``providers`` is the number of root providers before the first step, and ``hosts`` the
    number of hosts with candidates. ``fallback`` is the report of the second query, which requests
    pinned CPUs as VCPU. ``other_roots`` names root providers that are no hosts, but have the
    resources.
    """

    query: str
    providers: int = 0
    hosts: int = 0
    steps: tuple[StepReport, ...] = ()
    nearest_misses: NearMisses = field(default_factory=NearMisses)
    fallback: Self | None = None
    other_roots: tuple[str, ...] = ()

    @property
    def obstacle(self) -> Obstacle:
        """Return the step that left no candidate, as a stage of the funnel."""
        for miss in self.nearest_misses.misses:
            constraints = list(map(constraint_as_json, miss.constraints))
            name = join_words(map(phrases.format_label, constraints))
            words = phrases.describe_hosts_without(miss.hosts, constraints)
            values = {**phrases.select_subject(constraints[0]), "hosts": miss.hosts}
            values["constraints"] = constraints
            return Obstacle(CANDIDATES, name, words, values, miss.constraints)
        for step in self.steps:
            if step.before and not step.after:
                words = phrases.describe_last_stage(step.label, step.before)
                values = phrases.select_subject(step.constraint.as_json())
                values["hosts"] = step.before
                return Obstacle(CANDIDATES, step.label, words, values, (step.constraint,))
        name = "providers" if self.query else "requested_hosts"
        return Obstacle(CANDIDATES, name, phrases.NO_HOST[name], {"kind": name})

    @property
    def limit_words(self) -> str:
        """Return text about hosts that the limit of candidates excluded.

        The text follows a sentence without its period. It is empty if no host was excluded.
        """
        for step in self.steps:
            if step.option is not None and step.before > step.after:
                return phrases.describe_limit(step.option.as_json(), step.before - step.after)
        return ""

    def as_json(self, view: ExplanationView = EVERYTHING) -> Json:
        """Return the report as the value of ``allocation_candidates``."""
        return {
            "query": self.query,
            "providers": self.providers,
            "hosts": self.hosts,
            "steps": [step.as_json(view) for step in self.steps],
            **self.nearest_misses.as_json(view),
            **({"fallback": self.fallback.as_json(view)} if self.fallback else {}),
        }


class Unexamined(NamedTuple):
    """A host that passed because a filter reads an unknown field of it."""

    host: str
    node: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterReport:
    """A host filter, with the numbers of hosts before and after it.

    ``missing`` are the names of nova that it has read although this service lacks them. It may have
    hidden the error, so its result may differ from nova's. ``unexamined`` are hosts that passed.
    """

    name: str
    before: int
    after: int
    rejected: tuple[Rejected, ...] = ()
    missing: tuple[str, ...] = ()
    unexamined: tuple[Unexamined, ...] = ()

    @property
    def words(self) -> str:
        """Return the sentence about a filter that left no host."""
        return phrases.describe_last_filter(self.name, self.before)

    def build_obstacle(self, stage: str, words: str) -> Obstacle:
        """Return the filter as the stage that left no host.

        Its values are the kind and the subject of most rejections.
        """
        stage_values = {} if self.name == USED_UP else {"filter": self.name}
        counts: Counter[str] = Counter()
        subjects: dict[str, Json] = {}
        for each in self.rejected:
            values = phrases.select_subject({**stage_values, **each.rejection.as_json()})
            code = phrases.build_code(values)
            subjects.setdefault(code, values)
            counts[code] += 1
        values = {"filter": self.name}
        if counts:
            values = subjects[max(counts, key=counts.__getitem__)]
        return Obstacle(stage, self.name, words, {**values, "hosts": self.before})

    def as_json(self, view: ExplanationView = EVERYTHING) -> Json:
        """Return the entry of ``filters``, with optional keys if not empty."""
        entry: Json = {
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "rejected": _build_rejected_json(self.rejected, view),
        }
        if self.unexamined:
            entries = (each._asdict() for each in self.unexamined if view.shows(*each[:2]))
            entry["not_examined"] = list(islice(entries, view.max_rejected or None))
        return {**entry, "missing_names": list(self.missing)} if self.missing else entry


@dataclass(frozen=True, slots=True)
class WeigherReport:
    """A weigher and its configured multiplier (aggregates may override it).

    All hosts weigh the same if it reads the field ``unexamined``, which is unknown for any host.
    """

    name: str
    multiplier: float
    missing: tuple[str, ...] = ()
    unexamined: str | None = None

    def as_json(self) -> Json:
        """Return the report as an entry of ``weighers``, as for filters."""
        entry: Json = {"name": self.name, "multiplier": self.multiplier}
        if self.unexamined:
            entry["not_examined"] = self.unexamined
        return {**entry, "missing_names": list(self.missing)} if self.missing else entry


def _build_rejected_json(rejected: tuple[Rejected, ...], view: ExplanationView) -> list[Json]:
    entries = [entry for entry in rejected if view.shows(entry.host, entry.node)]
    return [entry.as_json() for entry in (entries[: view.max_rejected or None])]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSuggestion:
    """Hosts that pass all stages except some, and a change for them.

    Each of ``hosts`` passes all stages except the stages in ``without``: pairs of the family, and
    the keys of the stage in JSON. ``change`` would let the hosts pass (None: not determined).
    ``clause`` ends :attr:`words`.
    If ``exact`` is false, there may be more such hosts, because not all hosts were tested.
    """

    without: tuple[tuple[str, Json], ...]
    hosts: tuple[str, ...]
    clause: str
    change: SuggestedChange | None = None
    exact: bool = True

    @property
    def words(self) -> str:
        """Return the sentence about the hosts."""
        return phrases.describe_fit(self.hosts, self.clause, exact=self.exact)

    def as_json(self) -> Json:
        """Return the hosts as an entry of ``would_fit``."""
        return {
            "words": self.words,
            "hosts": len(self.hosts),
            "exact": self.exact,
            "examples": list(self.hosts[:MAX_FIT_EXAMPLES]),
            "without": [{"stage": stage, **values} for stage, values in self.without],
            "change": self.change and self.change.as_json(),
        }


def select_fewest_changes(entries: Sequence[FitSuggestion]) -> tuple[FitSuggestion, ...]:
    """Return the entries with the fewest failed stages, most hosts first."""
    fewest = min((len(entry.without) for entry in entries), default=0)
    smallest = [entry for entry in entries if len(entry.without) == fewest]

    def get_order(entry: FitSuggestion) -> tuple[int, list[tuple[str, str]], str]:
        stages = [(stage, values["name"]) for stage, values in entry.without]
        return -len(entry.hosts), stages, entry.clause

    return tuple(sorted(smallest, key=get_order))


FLAVOR, IMAGE = "flavor", "image"
#: The names of extra specs and image properties in errors and logs.
_PARTS = {FLAVOR: "flavor extra spec", IMAGE: "image property"}
#: Maximum number of characters of a value in a message, because callers choose its length.
_MAX_VALUE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class IgnoredValue:
    """An extra spec or image property that is ignored for its wrong value."""

    source: str
    key: str
    value: str
    expected: str

    @property
    def detail(self) -> str:
        """Return the text of the warning."""
        both = (self.key, self.value)
        pair = "=".join(_cut(text if text.isprintable() else repr(text)) for text in both)
        return f"ignored: {_PARTS[self.source]} {pair}: expected {self.expected}"

    @property
    def rejection(self) -> str:
        """Return the text of the error that replaces the warning if configured."""
        name = f"{_PARTS[self.source]} {self.key!r}"
        return f"{name}: expected {self.expected}, got {_cut(repr(self.value))}"

    def as_json(self) -> dict[str, str]:
        """Return the ignored key as an entry of ``warnings`` in a funnel."""
        return {"key": self.key, "source": self.source, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class IneffectiveKey:
    """A part of the request that has no effect, and the reason.

    The part is a hint, an extra spec, or the host at ``position`` in the list ``key``. With the
    source ``nova``, it is a field of nova's records that is outdated.
    """

    key: str
    source: str
    detail: str
    position: int = 0

    def as_json(self) -> dict[str, str]:
        """Return the key as an entry of ``warnings`` in a funnel."""
        return {"key": self.key, "source": self.source, "detail": self.detail}


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}..."


@dataclass(frozen=True, slots=True)
class RoomReport:
    """The number of requested instances, and how many fit at most.

    ``resource_class`` is the class that most hosts lack for more instances, or empty.
    """

    instances: int
    at_most: int
    resource_class: str = ""

    def as_json(self) -> Json:
        """Return the report as the value of ``room``."""
        return {key: value for key, value in asdict(self).items() if value != ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorReport:
    """The result of a policy selector (plugin that chooses the policy).

    ``matched`` has the name, uuid and scheduling policy of each aggregate that meets the request's
    criterion. ``outcome`` is ``chosen``, or the reason why the selector chose no policy.
    """

    name: str
    requested: str | None = None
    matched: tuple[tuple[str, str, str], ...] = ()
    outcome: str

    def as_json(self) -> Json:
        """Return the report as an entry of ``selectors``."""
        keys = ("aggregate", "uuid", "policy")
        return {
            **asdict(self),
            "matched": [dict(zip(keys, match, strict=True)) for match in self.matched],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    """The scheduling policy of a request, and the results of its selectors."""

    name: str
    selectors: tuple[SelectorReport, ...] = ()

    def as_json(self) -> Json:
        """Return the report as the value of ``policy``."""
        return {"name": self.name, "selectors": [selector.as_json() for selector in self.selectors]}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterInstanceReport:
    """Reports of the filters for the first instance that found no host.

    ``placed`` is the number of earlier instances, which found hosts.
    """

    placed: int
    requested: int
    filters: tuple[FilterReport, ...]

    def as_json(self, view: ExplanationView = EVERYTHING) -> Json:
        """Return the report as the value of ``later_instance``."""
        return {"placed": self.placed, "filters": [report.as_json(view) for report in self.filters]}


@dataclass(frozen=True, kw_only=True)
class Funnel:
    """All stages of a run for the first instance, with numbers of hosts.

    ``policy`` is None without scheduling policies. ``states_age`` is the age in seconds of cached
    host states, or None if the driver does not cache host states. ``selected`` is true if every
    instance found a host. ``warnings`` are keys of flavor, image and hints without effect, and
    unknown hosts.
    """

    request_filters: tuple[RequestFilterReport, ...]
    allocation_candidates: CandidatesReport
    filters: tuple[FilterReport, ...] = ()
    weighers: tuple[WeigherReport, ...] = ()
    states_age: float | None = None
    policy: PolicyReport | None = None
    later: LaterInstanceReport | None = None
    warnings: tuple[IgnoredValue | IneffectiveKey, ...] = ()
    room: RoomReport | None = None
    would_fit: tuple[FitSuggestion, ...] = ()
    selected: bool = True

    @cached_property
    def obstacle(self) -> Obstacle | None:
        """Return the stage that left no host, or None if hosts were selected."""
        if self.selected:
            return None
        for report in self.request_filters:
            if report.rejection is not None:
                values = {"filter": report.name, **report.rejection.as_json()}
                return Obstacle(REQUEST_FILTERS, report.name, report.words, values)
        last_filter = _find_last_filter(self.filters)
        if last_filter is not None:
            words = last_filter.words + self.allocation_candidates.limit_words
            return last_filter.build_obstacle(FILTERS, words)
        hosts = self.allocation_candidates.hosts
        return self._later_obstacle if hosts else self.allocation_candidates.obstacle

    @property
    def _later_obstacle(self) -> Obstacle:
        if self.room is not None:
            words = phrases.describe_room(self.room.at_most, self.room.instances)
            values = phrases.select_subject({"kind": "room", **self.room.as_json()})
            return Obstacle("room", "room", words, values)
        placed, requested, last_filter = 0, 0, None
        if self.later is not None:
            placed, requested = self.later.placed, self.later.requested
            last_filter = _find_last_filter(self.later.filters)
        stage = None if last_filter is None else last_filter.words
        words = phrases.describe_later_instance(placed, requested, stage)
        if last_filter is None:
            return Obstacle("later_instance", "", words, {"kind": "later_instance"})
        return last_filter.build_obstacle("later_instance", words)

    @cached_property
    def document(self) -> Json:
        """Return the JSON with lists of limited length, for errors and decisions."""
        return self.as_json(ExplanationView())

    def as_json(self, view: ExplanationView = EVERYTHING) -> Json:
        """Return the funnel as JSON, without keys whose value is None.

        ``later_instance`` is present if the first instances found hosts and a later instance found
        none, ``room`` if more instances are requested than fit on the hosts, ``obstacle`` if the
        request found no host, and ``would_fit`` if it was requested and there are results.
        """
        age, obstacle = self.states_age, self.obstacle
        keys: Json = {
            "policy": self.policy and self.policy.as_json(),
            "warnings": [warning.as_json() for warning in self.warnings] or None,
            REQUEST_FILTERS: [report.as_json() for report in self.request_filters],
            CANDIDATES: self.allocation_candidates.as_json(view),
            FILTERS: [report.as_json(view) for report in self.filters],
            "weighers": [report.as_json() for report in self.weighers],
            "host_states": None if age is None else {"age_s": round(age, 3)},
            "room": self.room and self.room.as_json(),
            "obstacle": obstacle and obstacle.as_json(),
            "would_fit": [entry.as_json() for entry in self.would_fit] or None,
            "later_instance": self.later and self.later.as_json(view),
        }
        return {key: value for key, value in keys.items() if value is not None}


def _find_last_filter(reports: Iterable[FilterReport]) -> FilterReport | None:
    return next((report for report in reports if report.before and not report.after), None)


class WeightReport(NamedTuple):
    """The weight that a weigher gives to a host.

    ``raw`` is the weight before normalization, between minval and maxval of the weigher. ``detail``
    describes the amounts that lead to the weight, or is None. ``added`` is the amount that a
    weigher written for nova has added to the weight of the host by assignment.
    """

    raw: float
    normalized: float
    multiplier: float
    detail: str | None = None
    added: float = 0.0

    def as_json(self) -> Json:
        """Return the weight as an entry of ``weights``."""
        numbers = {"raw": self.raw, "normalized": self.normalized, "multiplier": self.multiplier}
        weight: Json = {**numbers, "weighted": self.multiplier * self.normalized + self.added}
        return weight if self.detail is None else {**weight, "detail": self.detail}


class HostReport(NamedTuple):
    """A passing host, with its total weight and the weight of each weigher."""

    host: str
    node: str
    weight: float
    weights: Mapping[str, WeightReport]


def build_hosts_json(hosts: Iterable[HostReport], view: ExplanationView = EVERYTHING) -> list[Json]:
    """Return the entries of the key ``hosts``, in the order of ``hosts``.

    Hosts with the same report of a weigher share its JSON object, because few reports differ.
    """
    reports = [host for host in hosts if view.shows(host.host, host.node)]
    weights = {id(weight): weight for host in reports for weight in host.weights.values()}
    entries = {key: weight.as_json() for key, weight in weights.items()}
    return [
        {
            "host": host.host,
            "node": host.node,
            "weight": host.weight,
            "weights": {name: entries[id(weight)] for name, weight in host.weights.items()},
        }
        for host in reports
    ]


PASSED, REJECTED, UNKNOWN = "passed", "rejected", "unknown"

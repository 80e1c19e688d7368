# SPDX-License-Identifier: Apache-2.0
"""Comparison of nova's placements with this service's, and its report.

nova chooses any of several hosts of equal weight, so that each of these hosts counts as agreement.
If nova chose another host of equal weight for an earlier instance of a request, the two hosts swap
their roles for the later instances: nova's host stands for the host chosen by this service, and
vice versa.

nova may claim before the evaluation has read the allocations. Such an evaluation is late: nova's
own claim reduces the remaining capacity of nova's host. A late evaluation agrees if the host or the
weight is the same, and disagrees only for reasons other than capacity. Otherwise it is not
comparable.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isclose
from typing import Any, NamedTuple, Self

from placement_sched.explain.phrases import describe_rejection
from placement_sched.explain.values import Funnel
from placement_sched.limits import MAX_SHADOW_REJECTED
from placement_sched.model import shadow_result
from placement_sched.model.document import Json
from placement_sched.model.rejection import CANDIDATES, FILTERS, OTHER
from placement_sched.model.shadow_result import AGREEING, DISAGREEING, OPEN, ShadowResult
from placement_sched.scheduler.weights import WeighedHost

#: Maximum length of a recorded reason, in characters.
_MAX_REASON = 200
#: The filters that may reject a host because the instance itself is already counted on it.
_CAPACITY_FILTERS = frozenset(
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


class HostName(NamedTuple):
    """A compute host and its node."""

    host: str
    node: str

    def __str__(self) -> str:
        return self.host if self.host == self.node else f"{self.host} ({self.node})"


@dataclass(frozen=True, slots=True)
class HostRejection:
    """The rejection of a host: stage, name, reason, and values with the kind."""

    stage: str
    name: str
    reason: str
    values: Mapping[str, Any] = field(default_factory=lambda: {"kind": OTHER})

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.name else self.reason


@dataclass(frozen=True, slots=True)
class InstanceStep:
    """The placement of an instance by this service.

    ``best`` are the hosts that count as agreement if nova chooses them. ``more`` is the number of
    further such hosts, which are not recorded. ``chosen`` is None if there was no host.
    """

    chosen: HostName | None
    weight: float | None = None
    best: frozenset[HostName] = frozenset()
    more: int = 0

    @classmethod
    def from_weighed_hosts(cls, ordered: Iterable[WeighedHost], subset: int, limit: int) -> Self:
        """Build the step that places an instance on the first of the hosts.

        ``subset`` is host_subset_size: the choice is random among this number of the best hosts. At
        most ``limit`` of them are recorded.
        """
        hosts = tuple(ordered)
        if not hosts:
            return cls(None)
        top = max(host.weight for host in hosts)
        by_weight = sorted(hosts, key=lambda host: -host.weight)
        equal = [
            host
            for rank, host in enumerate(by_weight)
            if rank < subset or is_same_weight(host.weight, top)
        ]
        best = frozenset(map(get_host_name, equal[:limit]))
        return cls(get_host_name(hosts[0]), hosts[0].weight, best, len(equal) - len(best))

    def as_json(self) -> Json:
        """Return the step as JSON."""
        return {
            "chosen": self.chosen and list(self.chosen),
            "weight": self.weight,
            "best": [list(host) for host in sorted(self.best)],
            "more": self.more,
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read a step from JSON."""
        chosen = document["chosen"] and HostName(*document["chosen"])
        best = frozenset(HostName(*host) for host in document["best"])
        return cls(chosen, document["weight"], best, document["more"])


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """The recorded results of the evaluation of a request.

    ``steps`` are in the order of the instances. ``passed`` maps the hosts that passed to weights.
    ``late`` are the instances that nova had claimed for before the end of the evaluation.
    ``obstacle`` is the reason if there was no host.
    """

    steps: tuple[InstanceStep, ...] = ()
    passed: Mapping[HostName, float] = field(default_factory=dict)
    rejected: Mapping[HostName, HostRejection] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    obstacle: str | None = None

    def as_json(self) -> Json:
        """Return the record as JSON."""
        return {
            "steps": [step.as_json() for step in self.steps],
            "passed": [[*name, weight] for name, weight in self.passed.items()],
            "rejected": [
                [*name, rejection.stage, rejection.name, rejection.reason, rejection.values]
                for name, rejection in self.rejected.items()
            ],
            "late": sorted(self.late),
            "obstacle": self.obstacle,
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read a record from JSON."""
        rejected = document["rejected"]
        return cls(
            steps=tuple(map(InstanceStep.read, document["steps"])),
            passed={HostName(host, node): weight for host, node, weight in document["passed"]},
            rejected={HostName(host, node): HostRejection(*why) for host, node, *why in rejected},
            late=frozenset(document["late"]),
            obstacle=document["obstacle"],
        )


def is_same_weight(first: float, second: float) -> bool:
    """Return whether two weights differ only by rounding."""
    return isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)


def get_host_name(weighed: WeighedHost) -> HostName:
    """Return the host and the node of a weighed host."""
    return HostName(weighed.obj.host, weighed.obj.nodename)


def map_rejections(funnel: Funnel) -> dict[HostName, HostRejection]:
    """Map hosts to their rejections in a funnel, up to a maximum number.

    Rejections by filters come first, although the filters run last.
    """
    candidates = funnel.allocation_candidates
    searches = (candidates, candidates.fallback) if candidates.fallback else (candidates,)
    steps = [
        (CANDIDATES, step.constraint.family, step.rejected) for s in searches for step in s.steps
    ]
    filters = [(FILTERS, report.name, report.rejected) for report in funnel.filters]
    rejections: dict[HostName, HostRejection] = {}
    for stage, name, rejected in (*filters, *steps):
        for host in rejected:
            if len(rejections) >= MAX_SHADOW_REJECTED:
                return rejections
            reason = describe_rejection(host.rejection)[:_MAX_REASON]
            rejection = HostRejection(stage, name, reason, host.rejection.as_json())
            rejections.setdefault(HostName(host.host, host.node), rejection)
    return rejections


@dataclass(frozen=True, slots=True)
class NovaOutcome:
    """The result of nova's scheduling of an instance.

    ``host`` is the first host that nova chose, or None if nova found no host. ``ended_on`` is the
    host of a later attempt, if the first attempt failed.
    """

    host: HostName | None
    ended_on: HostName | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of nova's host for an instance with this service's."""

    verdict: str
    nova_host: HostName | None = None
    detail: Json = field(default_factory=dict)

    @property
    def needs_reason(self) -> bool:
        """Return whether the verdict is a disagreement without a reason."""
        return self.verdict in shadow_result.DISAGREEING and "why" not in self.detail


def judge(
    notes: EvaluationRecord, instances: Sequence[str], outcomes: Sequence[NovaOutcome | None]
) -> list[Comparison]:
    """Judge each instance, given its outcome (None if unknown)."""
    swaps = _HostSwaps()
    judged = []
    for position, (uuid, outcome) in enumerate(zip(instances, outcomes, strict=True)):
        step = notes.steps[position] if position < len(notes.steps) else InstanceStep(None)
        verdict, why, weight = _judge(notes, step, outcome, swaps, late=uuid in notes.late)
        nova_host = None if outcome is None else outcome.host
        rejection = notes.rejected.get(nova_host) if nova_host and verdict in DISAGREEING else None
        facts = {
            "our_node": step.chosen and step.chosen.node,
            "our_weight": step.weight,
            "nova_weight": weight,
            "why": why,
            "rejection": rejection and rejection.values,
        }
        detail = {name: value for name, value in facts.items() if value is not None}
        judged.append(Comparison(verdict, nova_host, detail))
    return judged


def find_worst_verdict(verdicts: Iterable[str]) -> str:
    """Return the gravest verdict on the instances of a request."""
    return min(verdicts, key=shadow_result.VERDICTS.index)


@dataclass(slots=True)
class _HostSwaps:
    """Hosts that swap roles after nova chose another host of equal weight."""

    counterparts: dict[HostName, HostName] = field(default_factory=dict)

    def get_counterpart(self, nova: HostName) -> HostName:
        return self.counterparts.get(nova, nova)

    def swap(self, nova: HostName, ours: HostName) -> None:
        """Swap the roles of nova's host and of our host."""
        previous = self.get_counterpart(nova)
        replaced = next((host for host, part in self.counterparts.items() if part == ours), ours)
        self.counterparts[nova], self.counterparts[replaced] = ours, previous


#: A verdict, its reason or None, and the weight of nova's host here or None.
_Judgement = tuple[str, str | None, float | None]


def _judge(
    notes: EvaluationRecord,
    step: InstanceStep,
    outcome: NovaOutcome | None,
    swaps: _HostSwaps,
    *,
    late: bool,
) -> _Judgement:
    ours = step.chosen
    if outcome is None:
        return shadow_result.UNKNOWN, "nova's outcome is unknown", None
    nova = outcome.host
    if nova is None and ours is None:
        return shadow_result.BOTH_NO_HOST, notes.obstacle, None
    if nova is None:
        why = f"nova found no host, but {ours} was chosen here{_format_weight(step.weight)}"
        return shadow_result.ONLY_OURS, why, None
    ended = f"The attempt failed, and a later attempt was on {outcome.ended_on}"
    more = f". {ended}" if outcome.ended_on else ""
    counterpart = swaps.get_counterpart(nova)
    if ours is not None and (counterpart == ours or counterpart in step.best):
        swaps.swap(nova, ours)
        if nova == ours:
            return shadow_result.SAME_HOST, ended if more else None, None
        return shadow_result.EQUAL_WEIGHT, f"{nova} weighs the same as {ours}{more}", None
    if ours is not None and step.more and _can_be_equal(notes, step, counterpart):
        why = f"further hosts of the same weight as {ours} that are not recorded: {step.more}"
        return shadow_result.UNKNOWN, why, None
    return _explain_disagreement(notes, step, nova, late=late, more=more)


def _can_be_equal(notes: EvaluationRecord, step: InstanceStep, nova: HostName) -> bool:
    """Return whether nova's host may weigh as much as the chosen host."""
    if nova in notes.rejected:
        return False
    weight = notes.passed.get(nova)
    only = len(notes.steps) == 1 and weight is not None and step.weight is not None
    return not only or is_same_weight(weight or 0.0, step.weight or 0.0)


def _explain_disagreement(
    notes: EvaluationRecord, step: InstanceStep, nova: HostName, *, late: bool, more: str
) -> _Judgement:
    """Return the verdict that nova took another host, with the reason."""
    rejection, weight = notes.rejected.get(nova), notes.passed.get(nova)
    if late and not _is_certain(rejection):
        claimed = f"nova had claimed for the instance before it was evaluated here{more}"
        return shadow_result.UNKNOWN, claimed, None
    ours = "" if step.chosen is None else f". {step.chosen} was chosen{_format_weight(step.weight)}"
    why: str | None = None
    if rejection is not None:
        why = f"{nova} did not pass here: {rejection}{ours}{more}"
    elif weight is not None and step.chosen is None:
        why = f"{nova} passed here, but not for all instances: {notes.obstacle}{more}"
    elif weight is not None and step is notes.steps[0]:
        why = f"{nova} weighs {weight:g} here{ours}{more}"
    elif weight is not None:  # the weight for the first instance
        weight = None
        why = f"{nova} was not among the best after the earlier instances{ours}{more}"
    verdict = shadow_result.ONLY_NOVA if step.chosen is None else shadow_result.OTHER_HOST
    return verdict, why, weight


def _is_certain(rejection: HostRejection | None) -> bool:
    """Return whether nova's claim cannot be the cause of a rejection."""
    return (
        rejection is not None
        and rejection.stage == FILTERS
        and rejection.name not in _CAPACITY_FILTERS
    )


def _format_weight(weight: float | None) -> str:
    return "" if weight is None else f" with the weight {weight:g}"


#: Each verdict in words, in the order of the report.
WORDS = {
    "same_host": "the same host",
    "equal_weight": "another host of equal weight, or other order of equal hosts",
    "both_no_host": "neither found a host",
    "other_host": "another host",
    "only_nova": "only nova found a host",
    "only_ours": "only this service found a host",
    "failed": "could not be evaluated here",
    "unknown": "not comparable",
    "pending": "nova's choice pending",
}


def build_report(results: Iterable[ShadowResult], since: datetime | None = None) -> Json:
    """Build the report: counts of requests by verdict, and disagreements.

    A request has the gravest verdict of its instances. ``agreement`` is a percentage of the
    comparable requests, or None if there are none.
    """
    requests: dict[str, list[ShadowResult]] = {}
    for result in results:
        requests.setdefault(result.decision, []).append(result)
    verdicts = Counter(
        find_worst_verdict(result.verdict for result in instances)
        for instances in requests.values()
    )
    agreeing = sum(verdicts[verdict] for verdict in AGREEING)
    compared = agreeing + sum(verdicts[verdict] for verdict in DISAGREEING)
    return {
        "since": None if since is None else since.isoformat(),
        "requests": len(requests),
        "instances": sum(map(len, requests.values())),
        "compared": compared,
        "agreement": round(100 * agreeing / compared, 2) if compared else None,
        "verdicts": {verdict: verdicts[verdict] for verdict in WORDS if verdicts[verdict]},
        "disagreements": [
            _describe_disagreement(result)
            for instances in requests.values()
            for result in instances
            if result.verdict in DISAGREEING
        ],
    }


def _describe_disagreement(result: ShadowResult) -> Json:
    detail = result.detail
    return {
        "request_id": result.request_ids.request_id or detail.get("request_id"),
        "decision": None if result.verdict == "failed" else result.decision,
        "at": None if result.created_at is None else result.created_at.isoformat(),
        "instance": result.instance,
        "flavor": result.flavor,
        "verdict": result.verdict,
        "our_host": result.our_host,
        "our_weight": detail.get("our_weight"),
        "nova_host": result.nova_host,
        "nova_weight": detail.get("nova_weight"),
        "why": detail.get("why"),
        "rejection": detail.get("rejection"),
    }


def format_report(report: Json) -> Iterator[str]:
    """Yield the report as lines of text."""
    when = f" since {report['since']}" if report["since"] else ""
    if not report["requests"]:
        yield f"no request was evaluated alongside nova-scheduler{when}"
        return
    requests, instances, compared = (report[key] for key in ("requests", "instances", "compared"))
    request, instance = f"request{'s' * (requests != 1)}", f"instance{'s' * (instances != 1)}"
    yield f"{requests} {request} for {instances} {instance}{when}"
    if compared:
        request = f"compared request{'s' * (compared != 1)}"
        yield f"{report['agreement']:g} % of {compared} {request} agree with nova's choice"
    else:
        yield "no request could be compared yet"
    yield ""
    for verdict, count in report["verdicts"].items():
        has_share = compared and verdict not in OPEN
        share = f"{100 * count / compared:5.1f} %" if has_share else ""
        yield f"  {count:6}  {share:7}  {WORDS[verdict]}"
    for item in report["disagreements"]:
        yield ""
        flavor = f", flavor {item['flavor']}" if item["flavor"] else ""
        yield f"{item['request_id'] or 'no request id'} at {item['at']}: {WORDS[item['verdict']]}"
        yield f"  instance {item['instance']}{flavor}"
        if item["verdict"] != "failed":
            ours = _format_host(item["our_host"], item["our_weight"])
            yield f"  here: {ours}; nova: {_format_host(item['nova_host'], item['nova_weight'])}"
        if item["why"]:
            yield f"  {item['why']}"
        if item["decision"]:
            yield f"  decision {item['decision']}"


def _format_host(host: str | None, weight: float | None) -> str:
    if host is None:
        return "no host"
    return host if weight is None else f"{host} (weight {weight:g})"

"""A decision: the request, its outcome, and the selections, which say where each instance goes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple, Self
from uuid import UUID

import orjson

from placement_sched.model.document import Json
from placement_sched.model.explanation import CANDIDATES
from placement_sched.model.hardware.numa import NUMATopologyLimits
from placement_sched.model.request_ids import NO_REQUEST, RequestIds

SELECTED, NO_VALID_HOST = "selected", "no_valid_host"
#: The kinds: a selection with and without a claim, an explanation, and a shadow run next to nova.
SELECT, NO_CLAIM, EXPLAIN, SHADOW = "select", "no_claim", "explain", "shadow"


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """A requested instance and its host; None where no host was found."""

    instance: str
    host: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionSeed:
    """The seed of the random choices of one run: the uuid of its decision, and the attempt.

    The same seed makes the same choices, so that a decision can be repeated. Each further attempt,
    after others took what was chosen, has choices of its own.
    """

    decision: str
    attempt: int = 0

    @classmethod
    def drawn(cls, random: Random) -> Self:
        """Return the seed of a new decision, whose uuid ``random`` draws."""
        return cls(str(UUID(int=random.getrandbits(128), version=4)))

    def random(self) -> Random:
        """Return the random source of the run."""
        return Random(f"{self.decision}/{self.attempt}")  # noqa: S311 - chooses hosts, guards nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a request was evaluated under, beside the cloud: what it takes to repeat the run.

    ``options`` are those read per request that differed from their defaults, by ``group.option``,
    under policy and overrides; ``left_out`` are the names of those too large to be kept.
    ``overrides`` and ``policy`` are what an explanation was asked for by name, ``changes`` those of
    the cloud that it supposed, as the JSON objects that were sent, ``alternates``
    whether alternate hosts were wanted, ``names_group`` whether the request named a stored server
    group, ``attempt`` that of the :class:`DecisionSeed`.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    policy: str | None = None
    changes: tuple[Json, ...] = ()
    alternates: bool = False
    names_group: bool = False
    attempt: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of which :meth:`from_json` makes the same again."""
        return {**asdict(self), "left_out": list(self.left_out), "changes": list(self.changes)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Return the conditions that a decision keeps."""
        lists = {name: tuple(kept.get(name, ())) for name in ("left_out", "changes")}
        return cls(**{**kept, **lists})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """What a list shows of a decision.

    ``places`` are in the order of the answer's selections. ``request_ids`` are those of the request
    that was answered first, where it was sent more than once. ``kind`` says whether what it chose
    was claimed; ``flavor`` is the name of the flavor, where it has one.
    """

    uuid: str
    outcome: str
    project_id: str | None
    places: tuple[PlacedInstance, ...] = ()
    created_at: datetime | None = None
    request_ids: RequestIds = NO_REQUEST
    kind: str = SELECT
    policy: str | None = None
    flavor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(DecisionSummary):
    """One recorded answer of ``select_destinations``, or a kept explanation.

    ``digest`` is :func:`digest_of` of the request, by which a repeated one is known. ``best`` are
    the first hosts that passed, with their weights, as an explanation shows them. ``conditions``
    are None in decisions of releases that did not keep them.
    """

    digest: str
    request: Mapping[str, Any]
    answer: Mapping[str, Any]
    funnel: Mapping[str, Any] | None = None
    best: Sequence[Mapping[str, Any]] = ()
    conditions: Conditions | None = None

    def chosen(self, uuids: Sequence[str]) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Yield instance, provider and resource class, with the amount that was chosen.

        ``uuids`` are those of the instances, in the order of the request.
        """
        for uuid, (best, *_) in zip(uuids, self.answer["selections"], strict=True):
            for provider, part in best["allocation_request"]["allocations"].items():
                for name, amount in part["resources"].items():
                    yield (uuid, provider, name), amount


@dataclass(frozen=True, slots=True)
class KeptFunnel:
    """What a decision keeps of its run: the funnel, bounded, and the best hosts."""

    funnel: Mapping[str, Any] | None
    best: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsWanted:
    """Which decisions to list; None is any.

    ``instance`` and ``host`` are those of one of its places. ``request_id`` is either of the ids of
    its request. ``since`` and ``until`` are naive UTC; ``until`` itself is not included.
    """

    outcome: str | None = None
    kind: str | None = None
    project_id: str | None = None
    policy: str | None = None
    flavor: str | None = None
    instance: str | None = None
    host: str | None = None
    request_id: str | None = None
    global_request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def digest_of(request: Mapping[str, Any]) -> str:
    """Return a digest that is equal for equal requests only, whatever the order of their keys."""
    return sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()


#: The microversion whose form ``allocation_request`` has, as contract §4 fixes it. It is recorded
#: with the answer and names what was written then (allocations and mappings, the same since 1.34),
#: so that it does not follow the newest version that the API speaks.
_ALLOCATION_REQUEST_VERSION = "1.39"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One host for one instance, as ``select_destinations`` answers it (contract §4).

    ``allocation_request`` is what ``PUT /allocations`` takes: allocations and mappings. None where
    nothing is to be allocated: the instance is rebuilt where it is.
    """

    service_host: str
    nodename: str
    compute_node_uuid: str
    cell_uuid: str | None
    availability_zone: str
    weight: float
    allocation_request: Mapping[str, Any] | None
    limits: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the entry as the contract shows it."""
        return {
            "service_host": self.service_host,
            "nodename": self.nodename,
            "compute_node_uuid": self.compute_node_uuid,
            "cell_uuid": self.cell_uuid,
            "availability_zone": self.availability_zone,
            "limits": {name: _limit_as_json(limit) for name, limit in self.limits.items()},
            "weight": self.weight,
            "allocation_request": self.allocation_request,
            "allocation_request_version": (
                None if self.allocation_request is None else _ALLOCATION_REQUEST_VERSION
            ),
        }


def _limit_as_json(limit: Any) -> Any:
    if isinstance(limit, NUMATopologyLimits):
        return limit.as_json()
    try:
        orjson.dumps(limit)
    except TypeError:
        return str(limit)  # a third-party filter wrote it
    return limit


class DecisionLabels(NamedTuple):
    """What a scheduling decision is counted under; the stage that left no host, if one did."""

    outcome: str
    policy: str
    stage: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One thing that differs; None where there is no such thing, or an option has its default."""

    what: str
    then: Any
    now: Any


#: A thing that may differ, by its name.
_Facts = Mapping[str, Any]


def differences(then: Json, now: Json) -> Iterator[RunDifference]:
    """Yield what differs, in the order of the stages of a run: outcome first, selections last."""
    outline = bool(_funnel(then).get("outline") or _funnel(now).get("outline"))
    both_counted = all(_funnel(one).get(CANDIDATES, {}).get("steps") for one in (then, now))
    for facts in (_outcome, _options, _request_filters, _search, _filters, _weighers, _selections):
        before, after = facts(then), facts(now)
        for what in {**before, **after}:
            if what.startswith(_STEP) and not both_counted:
                continue
            if outline and (what == _QUERY or facts is _request_filters):
                continue
            if before.get(what) != after.get(what):
                yield RunDifference(what, before.get(what), after.get(what))
        if facts is _weighers:
            yield from _weights(then, now)


def _funnel(run: Json) -> Json:
    return run.get("funnel") or {}


def _outcome(run: Json) -> _Facts:
    obstacle = _funnel(run).get("obstacle") or {}
    return {
        "outcome": run["outcome"],
        "policy": run["policy"],
        "refusing stage": obstacle.get("reason"),
    }


def _options(run: Json) -> _Facts:
    conditions = run.get("conditions") or {}
    options = conditions.get("options", {})
    return {f"option {key}": value for key, value in options.items()}


def _request_filters(run: Json) -> _Facts:
    return {
        f"request filter {one['name']}": {
            key: value for key, value in one.items() if key not in {"name", "elapsed_ms"}
        }
        for one in _funnel(run).get("request_filters", ())
    }


_STEP, _QUERY = "step ", "query"


def _search(run: Json) -> _Facts:
    found = _funnel(run).get(CANDIDATES)
    if not found:
        return {}
    again = found.get("fallback", {}).get("steps", ())
    return {
        _QUERY: found["query"],
        "hosts found": found["hosts"],
        **_counts(_STEP, found["steps"]),
        **_counts(f"{_STEP}with VCPU for PCPU: ", again),
    }


def _filters(run: Json) -> _Facts:
    funnel = _funnel(run)
    later = funnel.get("later_instance") or {}
    return {
        **_counts("filter ", funnel.get("filters", ())),
        "instances placed before one found no host": later.get("placed"),
        **_counts("filter of the later instance ", later.get("filters", ())),
        "room": funnel.get("room"),
    }


def _counts(kind: str, stages: Iterable[Json]) -> dict[str, Any]:
    """Return how many each stage took in and let out; stages of one name are numbered."""
    counts: dict[str, Any] = {}
    for stage in stages:
        name = stage.get("name") or f"{stage['constraint']} {stage.get('detail', '')}".strip()
        what, number = f"{kind}{name}", 1
        while what in counts:
            number += 1
            what = f"{kind}{name} ({number})"
        counts[what] = {"before": stage["before"], "after": stage["after"]}
    return counts


def _weighers(run: Json) -> _Facts:
    """Return the multipliers of the weighers, and the first hosts that passed."""
    facts: dict[str, Any] = {
        f"multiplier of {one['name']}": one["multiplier"]
        for one in _funnel(run).get("weighers", ())
    }
    hosts = run.get("best") or ()
    return {**facts, "first hosts": [_named(one["host"], one["node"]) for one in hosts]}


def _weights(then: Json, now: Json) -> Iterator[RunDifference]:
    """Yield the weights that differ of each host that is among the first in both runs."""
    before, after = (
        {
            _named(one["host"], one["node"]): {
                "weight": one["weight"],
                **{name: weight["weighted"] for name, weight in one["weights"].items()},
            }
            for one in run.get("best") or ()
        }
        for run in (then, now)
    )
    for name in before:
        if name not in after or before[name] == after[name]:
            continue
        # A weigher that gives none of the first hosts any weight is not listed.
        pairs = {
            key: (before[name].get(key, 0.0), after[name].get(key, 0.0))
            for key in {**before[name], **after[name]}
        }
        unlike = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        if unlike:
            was, is_now = ({key: pair[at] for key, pair in unlike.items()} for at in (0, 1))
            yield RunDifference(f"weights of {name}", was, is_now)


def _selections(run: Json) -> _Facts:
    """Return where each instance goes, with which allocations, and its alternates."""
    facts: dict[str, Any] = {}
    selections = run["selections"] or [()] * len(run["instances"])
    for instance, some in zip(run["instances"], selections, strict=True):
        uuid, names = (
            instance["uuid"],
            [_named(one["service_host"], one["nodename"]) for one in some],
        )
        facts[f"host of instance {uuid}"] = next(iter(names), None)
        facts[f"alternates of instance {uuid}"] = names[1:] or None
        for best in some[:1]:
            facts[f"weight of instance {uuid}"] = best["weight"]
            facts[f"allocations of instance {uuid}"] = best["allocation_request"]
    return facts


def _named(host: str, node: str) -> str:
    return host if host == node else f"{host} ({node})"

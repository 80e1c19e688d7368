# SPDX-License-Identifier: Apache-2.0
"""Scheduling decisions: the request, its outcome and its selections."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple, Self
from uuid import UUID

import orjson

from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.document import Json
from placement_sched.model.hardware.numa import NUMATopologyLimits
from placement_sched.model.rejection import CANDIDATES

SELECTED, NO_VALID_HOST = "selected", "no_valid_host"
#: Kinds of decisions: a selection with or without a claim, an explanation, the evaluation of a
#: request to nova's scheduler (shadow), and the check of a move.
SELECT, NO_CLAIM, EXPLAIN, SHADOW = "select", "no_claim", "explain", "shadow"
MOVE = "move"
KINDS = (SELECT, NO_CLAIM, EXPLAIN, SHADOW, MOVE)


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """A requested instance, and its host (None if no host was found)."""

    instance: str
    host: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionSeed:
    """Seed for all random choices of a scheduling run.

    The seed consists of the uuid of the decision and the number of the attempt. Equal seeds make
    equal choices, so that a decision can be replayed. An attempt after a lost claim has a new seed.
    """

    decision: str
    attempt: int = 0

    @classmethod
    def draw(cls, random: Random) -> Self:
        """Create a seed for a new decision, whose uuid comes from ``random``."""
        return cls(str(UUID(int=random.getrandbits(128), version=4)))

    def build_random(self) -> Random:
        """Create the random source for the choices of the run."""
        return Random(f"{self.decision}/{self.attempt}")  # noqa: S311 - chooses hosts, guards nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The settings of a scheduling run, recorded for its replay.

    ``options`` maps ``group.option`` to each value that is read per request and was not the
    default, except values too large to store (``left_out``). ``overrides`` and ``policy`` are
    parameters of an explanation, and ``changes`` the JSON of simulated changes. ``alternates`` is
    true if alternate hosts were requested, ``names_group`` if the request named a stored server
    group, ``together`` if the call had other requests. ``attempt`` is that of
    :class:`DecisionSeed`.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    policy: str | None = None
    changes: tuple[Json, ...] = ()
    alternates: bool = False
    names_group: bool = False
    attempt: int = 0
    together: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_json` reads.

        Older workers cannot read ``together``, which is therefore only present if true.
        """
        values = asdict(self)
        if not self.together:
            del values["together"]
        return {**values, "left_out": list(self.left_out), "changes": list(self.changes)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read the recorded conditions of a decision."""
        lists = {name: tuple(stored.get(name, ())) for name in ("left_out", "changes")}
        return cls(**{**stored, **lists})


@dataclass(frozen=True, slots=True)
class Notice:
    """State of the webhook notice that a rejected request would now fit.

    ``decision`` is the uuid of the request's decision. ``pending`` has digests of the webhook
    addresses that have not accepted the notice. After ``ended_at`` the notice is not sent again.
    """

    decision: str
    attempts: int = 0
    pending: tuple[str, ...] = ()
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """The fields of a decision that lists of decisions show.

    ``instances`` are in the order of the selections. ``request_ids`` are of the request that was
    answered first. ``kind`` is in :data:`KINDS`. ``stage`` and ``reason`` are the stage that left
    no host and its sentence, ``reason_kind`` and ``reason_subject`` the kind and subject (such as a
    resource class) of its constraint or, of a filter, its most frequent rejection. They are None if
    hosts were selected, the last two also in decisions of earlier releases.
    """

    uuid: str
    outcome: str
    project_id: str | None
    instances: tuple[PlacedInstance, ...] = ()
    created_at: datetime | None = None
    request_ids: RequestIds = NO_REQUEST
    kind: str = SELECT
    policy: str | None = None
    flavor: str | None = None
    stage: str | None = None
    reason: str | None = None
    reason_kind: str | None = None
    reason_subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(DecisionSummary):
    """A recorded result of ``select_destinations``, or a recorded explanation.

    ``digest`` (:func:`compute_digest`) identifies a repeated request. ``best`` has the hosts of
    greatest weight, as ``hosts`` in an explanation. Old decisions have no ``conditions``.
    """

    digest: str
    request: Mapping[str, Any]
    result: Mapping[str, Any]
    funnel: Mapping[str, Any] | None = None
    best: Sequence[Mapping[str, Any]] = ()
    conditions: Conditions | None = None

    def iterate_chosen_amounts(
        self, uuids: Sequence[str]
    ) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Yield the allocated amounts of the selected hosts.

        Yields ``((instance, provider, class), amount)``, for instances in the order of ``uuids``.
        """
        for uuid, (best, *_) in zip(uuids, self.result["selections"], strict=True):
            for provider, part in best["allocation_request"]["allocations"].items():
                for name, amount in part["resources"].items():
                    yield (uuid, provider, name), amount


@dataclass(frozen=True, slots=True)
class RecordedFunnel:
    """The recorded stages of a decision, and its hosts of highest weight."""

    funnel: Mapping[str, Any] | None
    best: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuery:
    """The conditions that listed decisions meet (None: any value).

    With ``instance`` and ``host``, the decision placed this instance on this host. ``request_id``
    may be a global id. ``since`` is inclusive, ``until`` exclusive, both in naive UTC.
    """

    outcome: str | None = None
    kind: str | None = None
    project_id: str | None = None
    policy: str | None = None
    flavor: str | None = None
    stage: str | None = None
    reason_kind: str | None = None
    reason_subject: str | None = None
    instance: str | None = None
    host: str | None = None
    request_id: str | None = None
    global_request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class DecisionCount:
    """The numbers of decisions with equal values, and without a host."""

    values: tuple[str | None, ...]
    count: int
    failed: int


def compute_digest(request: Mapping[str, Any]) -> str:
    """Return the SHA-256 digest of a request, which ignores the order of keys."""
    return sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()


#: The microversion of ``allocation_request`` in recorded results. It stays fixed when
#: the API supports newer microversions, because it describes the stored form (allocations and
#: mappings, unchanged since 1.34).
_ALLOCATION_REQUEST_VERSION = "1.39"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A host for an instance, and its allocations except for a rebuild."""

    service_host: str
    nodename: str
    compute_node_uuid: str
    cell_uuid: str | None
    availability_zone: str
    weight: float
    allocation_request: AllocationRequest | None
    limits: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read a selection from an entry of ``selections``."""
        values = {each.name: stored[each.name] for each in fields(cls)}
        if (request := values["allocation_request"]) is not None:
            values["allocation_request"] = AllocationRequest.from_json(request)
        return cls(**values)

    def limits_as_json(self) -> dict[str, Any]:
        """Return the limits as JSON, with other objects as text."""
        return {name: _limit_as_json(limit) for name, limit in self.limits.items()}

    def as_json(self) -> dict[str, Any]:
        """Return the selection as an entry of ``selections``."""
        request = self.allocation_request
        return {
            "service_host": self.service_host,
            "nodename": self.nodename,
            "compute_node_uuid": self.compute_node_uuid,
            "cell_uuid": self.cell_uuid,
            "availability_zone": self.availability_zone,
            "limits": self.limits_as_json(),
            "weight": self.weight,
            "allocation_request": request and request.as_json(),
            "allocation_request_version": request and _ALLOCATION_REQUEST_VERSION,
        }


def _limit_as_json(limit: Any) -> Any:
    if isinstance(limit, NUMATopologyLimits):
        return limit.as_json()
    try:
        orjson.dumps(limit)
    except TypeError:
        return str(limit)  # set by a third-party filter
    return limit


class DecisionLabels(NamedTuple):
    """The labels of a decision in metrics.

    ``stage`` and ``name`` are the family and the name of the stage that left no host, or empty.
    """

    outcome: str
    policy: str
    stage: str = ""
    name: str = ""


class ReasonLabels(NamedTuple):
    """The labels of a request without a host in metrics.

    ``kind`` is a kind of reason of this release or ``other``. ``resource_class`` may be empty.
    """

    kind: str
    resource_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """The new decision about a request, and its labels in metrics.

    ``decision`` is None for a repeated request, and for an unrecorded explanation. ``labels`` is
    None if metrics do not count the result, ``reason`` if hosts were selected.
    """

    decision: Decision | None = None
    funnel: Mapping[str, Any] | None = None
    labels: DecisionLabels | None = None
    reason: ReasonLabels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingResult(RequestResult):
    """The selected host and its alternates for each instance of a request.

    ``uuid`` is the decision's. ``instance_uuids`` are None unless they were generated.
    """

    uuid: str
    policy: str
    selections: tuple[tuple[Selection, ...], ...]
    instance_uuids: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read the recorded result of a repeated request."""
        uuids = stored.get("instance_uuids")
        return cls(
            uuid=stored["decision"],
            policy=stored["policy"],
            selections=tuple(
                tuple(map(Selection.from_json, entries)) for entries in stored["selections"]
            ),
            instance_uuids=None if uuids is None else tuple(uuids),
        )

    def as_json(self) -> Json:
        """Return the result as recorded, and as the body of a response."""
        body: Json = {
            "decision": self.uuid,
            "policy": self.policy,
            "selections": [[each.as_json() for each in entries] for entries in self.selections],
        }
        if self.instance_uuids is not None:
            body["instance_uuids"] = list(self.instance_uuids)
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationResult(RequestResult):
    """The explanation of a request, as JSON."""

    explanation: Json


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A value that differs between two runs (None: missing or default)."""

    what: str
    then: Any
    now: Any


#: The values of a run that are compared with another run, by their names in differences.
_Facts = Mapping[str, Any]


def find_differences(then: Json, now: Json) -> Iterator[RunDifference]:
    """Yield the differences between two runs in the order of their stages."""
    is_outline = bool(_get_funnel(then).get("outline") or _get_funnel(now).get("outline"))
    both_have_steps = all(_get_funnel(run).get(CANDIDATES, {}).get("steps") for run in (then, now))
    for facts in (
        _map_outcome,
        _map_request_filters,
        _map_search,
        _map_filters,
        _map_weighers,
        _map_weights,
        _map_selections,
    ):
        values_then, values_now = facts(then), facts(now)
        for name in {**values_then, **values_now}:
            old, new = values_then.get(name), values_now.get(name)
            is_step = facts is _map_search and name not in {_QUERY, _HOSTS_FOUND}
            if old == new or (is_step and not both_have_steps):
                continue
            if is_outline and (name == _QUERY or facts is _map_request_filters):
                continue
            if facts is _map_weights:
                if old is None or new is None:  # the host is recorded in a single run only
                    continue
                names = [key for key in {**old, **new} if old.get(key, 0.0) != new.get(key, 0.0)]
                old, new = ({key: each.get(key, 0.0) for key in names} for each in (old, new))
            if old != new:
                yield RunDifference(name, old, new)


def _get_funnel(run: Json) -> Json:
    return run.get("funnel") or {}


def _map_outcome(run: Json) -> _Facts:
    obstacle = _get_funnel(run).get("obstacle") or {}
    options = (run.get("conditions") or {}).get("options", {})
    return {
        "outcome": run["outcome"],
        "policy": run["policy"],
        "rejecting stage": obstacle.get("reason"),
        **{f"option {key}": value for key, value in options.items()},
    }


def _map_request_filters(run: Json) -> _Facts:
    return {
        f"request filter {report['name']}": {
            key: value for key, value in report.items() if key not in {"name", "elapsed_ms"}
        }
        for report in _get_funnel(run).get("request_filters", ())
    }


_QUERY, _HOSTS_FOUND = "query", "hosts found"


def _map_search(run: Json) -> _Facts:
    report = _get_funnel(run).get(CANDIDATES)
    if not report:
        return {}
    fallback_steps = report.get("fallback", {}).get("steps", ())
    return {
        _QUERY: report["query"],
        _HOSTS_FOUND: report["hosts"],
        **_map_counts("step ", report["steps"]),
        **_map_counts("step with VCPU for PCPU: ", fallback_steps),
    }


def _map_filters(run: Json) -> _Facts:
    funnel = _get_funnel(run)
    later = funnel.get("later_instance") or {}
    return {
        **_map_counts("filter ", funnel.get("filters", ())),
        "instances placed before one found no host": later.get("placed"),
        **_map_counts("filter of the later instance ", later.get("filters", ())),
        "room": funnel.get("room"),
    }


def _map_counts(kind: str, stages: Iterable[Json]) -> dict[str, Any]:
    """Map each stage to its counts, with numbers for repeated names."""
    counts: dict[str, Any] = {}
    for stage in stages:
        name = stage.get("name") or f"{stage['constraint']} {stage.get('detail', '')}".strip()
        key, number = f"{kind}{name}", 1
        while key in counts:
            number += 1
            key = f"{kind}{name} ({number})"
        counts[key] = {"before": stage["before"], "after": stage["after"]}
    return counts


def _map_weighers(run: Json) -> _Facts:
    facts: dict[str, Any] = {
        f"multiplier of {weigher['name']}": weigher["multiplier"]
        for weigher in _get_funnel(run).get("weighers", ())
    }
    hosts = run.get("best") or ()
    return {**facts, "first hosts": [_format_node(host["host"], host["node"]) for host in hosts]}


def _map_weights(run: Json) -> _Facts:
    return {
        f"weights of {_format_node(host['host'], host['node'])}": {
            "weight": host["weight"],
            **{name: weight["weighted"] for name, weight in host["weights"].items()},
        }
        for host in run.get("best") or ()
    }


def _map_selections(run: Json) -> _Facts:
    facts: dict[str, Any] = {}
    selections = run["selections"] or [()] * len(run["instances"])
    for instance, hosts in zip(run["instances"], selections, strict=True):
        uuid = instance["uuid"]
        names = [_format_node(host["service_host"], host["nodename"]) for host in hosts]
        facts[f"host of instance {uuid}"] = next(iter(names), None)
        facts[f"alternates of instance {uuid}"] = names[1:] or None
        for best in hosts[:1]:
            facts[f"weight of instance {uuid}"] = best["weight"]
            facts[f"allocations of instance {uuid}"] = best["allocation_request"]
    return facts


def _format_node(host: str, node: str) -> str:
    return host if host == node else f"{host} ({node})"

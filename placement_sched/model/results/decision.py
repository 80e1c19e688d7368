"""A decision: the request, its outcome, and the selections, which say where each instance goes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple, Self
from uuid import UUID

import orjson

from placement_sched.model.document import Json
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

# SPDX-License-Identifier: Apache-2.0
"""Host aggregates and server groups, and their sync with placement.

The attributes have nova's names.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from placement_sched.model.document import NovaObject, NovaObjectDictCompat
from placement_sched.model.names import canonicalize_uuid

#: The metadata key that makes an aggregate an availability zone.
ZONE_KEY = "availability_zone"
#: The metadata key that sets the scheduling policy of requests for the aggregate's hosts.
POLICY_KEY = "sched_policy"
#: The scheduling policy of a request if no aggregate with another policy is selected.
DEFAULT_POLICY = "default"
#: Prefix of the metadata keys whose values are project ids, separated by commas.
TENANT_PREFIX = "filter_tenant_id"
#: Prefix of metadata such as ``trait:X=required``: only requests for X use the aggregate's hosts.
_TRAIT_PREFIX = "trait:"
AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
#: The policies of a server group, as in nova.
POLICIES = (AFFINITY, ANTI_AFFINITY, "soft-affinity", "soft-anti-affinity")
#: The rule of an anti-affinity group: the maximum number of its members on one host.
MAX_SERVER_PER_HOST = "max_server_per_host"
_COPIED_KEYS = ("uuid", "name", "project_id", "user_id")
#: A provider uuid and a trait name.
ProviderTrait = tuple[str, str]
#: Attributes of providers that a sync changes, as in placement's paths and documents.
SyncedAttribute = Literal["aggregates", "traits"]


def parse_policy_name(text: str) -> str:
    """Convert a metadata value of :data:`POLICY_KEY` to a policy name."""
    return text.strip().lower()


@dataclass(frozen=True, slots=True)
class PolicyTag:
    """A scheduling policy that the metadata of an aggregate names."""

    aggregate_id: int
    aggregate_name: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAggregate(NovaObjectDictCompat):
    """A host aggregate. Its placement aggregate has the same uuid."""

    id: int
    uuid: str
    name: str
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def availability_zone(self) -> str | None:
        """Return the availability zone that the metadata set, or None."""
        return self.metadata.get(ZONE_KEY)

    @property
    def policy(self) -> str | None:
        """Return the scheduling policy that the metadata set, or None."""
        name = self.metadata.get(POLICY_KEY)
        return None if name is None else parse_policy_name(name)

    @property
    def reserving_traits(self) -> tuple[str, ...]:
        """Return the traits that a request must require to use these hosts."""
        return tuple(
            key.removeprefix(_TRAIT_PREFIX)
            for key, value in self.metadata.items()
            if value == "required" and key.startswith(_TRAIT_PREFIX)
        )


def parse_zones(text: str | None) -> frozenset[str]:
    """Return the zones in the comma-separated text of a request or aggregate."""
    return frozenset(part.strip() for part in (text or "").split(",") if part.strip())


def list_projects(aggregate: HostAggregate, prefix: str = TENANT_PREFIX) -> set[str]:
    """Return the projects in the values of metadata keys with this prefix."""
    tags = (value for key, value in aggregate.metadata.items() if key.startswith(prefix))
    return {part.strip() for tag in tags for part in tag.split(",")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGroup(NovaObject):
    """A server group under nova's names, either stored or sent in a request.

    ``members`` are uuids of instances, ``hosts`` their hosts. Both are empty in a list of groups.
    """

    policy: str
    rules: Mapping[str, int] = field(default_factory=dict)
    uuid: str | None = None
    name: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    members: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a server group from a request's JSON object."""
        return cls(
            **{name: document.get(name) for name in _COPIED_KEYS},
            policy=document["policy"],
            rules=document.get("rules") or {},
            members=tuple(map(canonicalize_uuid, document.get("members") or ())),
            hosts=tuple(document.get("hosts") or ()),
        )

    def as_document(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_document` reads."""
        return {
            **{name: getattr(self, name) for name in (*_COPIED_KEYS, "policy")},
            "rules": dict(self.rules),
            "members": list(self.members),
            "hosts": list(self.hosts),
        }

    def with_members(self, uuids: Iterable[str], hosts: Iterable[str]) -> Self:
        """Return a copy with more members and the hosts of these members."""
        members = tuple(dict.fromkeys((*self.members, *uuids)))
        return replace(self, members=members, hosts=tuple(dict.fromkeys((*self.hosts, *hosts))))

    @property
    def policies(self) -> list[str]:
        """Return the only policy as a list, for plugins of old nova releases."""
        return [self.policy]

    @property
    def is_strict(self) -> bool:
        """Return whether the policy can reject hosts, unlike a soft policy."""
        return not self.policy.startswith("soft-")


class SyncCode(IntEnum):
    """Exit statuses of ``nova-manage placement sync_aggregates``.

    Source: nova's guide, "nova-manage placement". Only our ``sync_traits`` has the last two.
    """

    DONE = 0
    SEVERAL_NODES = 1
    PLACEMENT_FAILED = 2
    UPDATE_FAILED = 3
    HOST_UNKNOWN = 4
    NO_NODE = 5
    NO_PROVIDER = 6
    TRAIT_REJECTED = 7
    AGGREGATE_UNKNOWN = 8


#: Problems from most to least severe: failures that stop the command, problems for an operator to
#: decide, missing objects. The most severe problem sets the exit status.
_BY_SEVERITY = (
    SyncCode.PLACEMENT_FAILED,
    SyncCode.SEVERAL_NODES,
    SyncCode.UPDATE_FAILED,
    SyncCode.TRAIT_REJECTED,
    SyncCode.AGGREGATE_UNKNOWN,
    SyncCode.NO_PROVIDER,
    SyncCode.NO_NODE,
    SyncCode.HOST_UNKNOWN,
)


@dataclass(frozen=True, slots=True, order=True)
class SyncProblem:
    """A problem that prevented the sync of ``about``, a host or a trait."""

    code: SyncCode
    about: str
    detail: str


class ProviderChange(NamedTuple):
    """An aggregate or a trait to add to providers, or to remove from them.

    ``name`` is the aggregate's uuid or the trait. ``providers`` maps the uuid of each provider to
    the uuid of the host aggregate that requires the change.
    """

    attribute: SyncedAttribute
    name: str
    providers: Mapping[str, str]
    adding: bool


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of a :class:`ProviderChange`, by provider uuid.

    ``failed`` maps providers to the reason. Providers in no set needed no change.
    """

    done: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


def find_most_severe(problems: Iterable[SyncProblem]) -> SyncCode:
    """Return the most severe code, or ``SyncCode.DONE`` without problems."""
    codes = {problem.code for problem in problems}
    return next((code for code in _BY_SEVERITY if code in codes), SyncCode.DONE)


@dataclass(frozen=True)
class HostMap:
    """The host aggregates, hosts and compute nodes of a cloud.

    ``nodes`` maps hosts to the uuids of their compute nodes, which are also the uuids of their root
    providers. ``service_hosts`` are all hosts with a nova-compute service, even without nodes.
    """

    aggregates: tuple[HostAggregate, ...]
    service_hosts: frozenset[str]
    nodes: Mapping[str, frozenset[str]]

    @cached_property
    def host_of(self) -> dict[str, str]:
        """Map the uuid of each compute node to its host."""
        return {uuid: host for host, uuids in self.nodes.items() for uuid in uuids}

    def list_nodes(self, aggregate: HostAggregate) -> frozenset[str]:
        """Return the uuids of the compute nodes on the hosts of an aggregate."""
        return frozenset(
            uuid for host in aggregate.hosts for uuid in self.nodes.get(host, frozenset())
        )

    def find_by_uuid(self, uuid: str) -> HostAggregate | None:
        """Return the aggregate with this uuid, or None if it does not exist."""
        return next((item for item in self.aggregates if item.uuid == uuid), None)

    def find_disagreements(self, members: Mapping[str, frozenset[str]]) -> Iterator["Disagreement"]:
        """Yield the differences between placement aggregates and host aggregates.

        ``members`` maps the uuid of each placement aggregate to the uuids of its providers. Only
        compute nodes are compared. Other members, such as sharing providers, belong to no host.
        """
        for aggregate in self.aggregates:
            actual, expected = members.get(aggregate.uuid, frozenset()), self.list_nodes(aggregate)
            missing, stale = expected - actual, (actual & self.host_of.keys()) - expected
            if missing or stale:
                yield Disagreement(aggregate, missing, frozenset(stale))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A difference between a placement aggregate and its host aggregate.

    The placement aggregate lacks some compute nodes, and has ``stale`` compute nodes.
    """

    aggregate: HostAggregate
    lacking: frozenset[str]
    stale: frozenset[str]

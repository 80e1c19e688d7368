"""A host aggregate: a named set of hosts with metadata, as nova has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from placement_sched.model.document import NovaObject
from placement_sched.model.names import canonical

#: The metadata key that makes an aggregate an availability zone.
ZONE_KEY = "availability_zone"
#: The metadata key that names the policy under which the hosts' requests are scheduled.
POLICY_KEY = "sched_policy"
#: The policy that nothing has to be written for.
DEFAULT_POLICY = "default"
#: What the keys begin with that reserve an aggregate, by ``trait:X=required``.
_TRAIT_PREFIX = "trait:"


def policy_name(text: str) -> str:
    """Return the policy that a value of :data:`POLICY_KEY` names; case does not count."""
    return text.strip().lower()


@dataclass(frozen=True, slots=True)
class Tag:
    """What names a policy: an aggregate's number and name, and the policy."""

    aggregate_id: int
    aggregate_name: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAggregate:
    """One aggregate; its uuid is the placement aggregate's as well."""

    id: int
    uuid: str
    name: str
    hosts: frozenset[str]
    metadata: Mapping[str, str]
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def availability_zone(self) -> str | None:
        """Return the zone its metadata names, or None."""
        return self.metadata.get(ZONE_KEY)

    @property
    def policy(self) -> str | None:
        """Return the policy its metadata name, or None; case does not count."""
        name = self.metadata.get(POLICY_KEY)
        return None if name is None else policy_name(name)

    @property
    def reserving_traits(self) -> tuple[str, ...]:
        """Return the traits that its metadata require of requests for its hosts."""
        return tuple(
            key.removeprefix(_TRAIT_PREFIX)
            for key, value in self.metadata.items()
            if value == "required" and key.startswith(_TRAIT_PREFIX)
        )


def zones(text: str | None) -> frozenset[str]:
    """Return the zones named, separated by commas, in a request or in aggregate metadata."""
    return frozenset(part.strip() for part in (text or "").split(",") if part.strip())


AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
#: What a group may ask of its members' hosts, in nova's words.
POLICIES = (AFFINITY, ANTI_AFFINITY, "soft-affinity", "soft-anti-affinity")
#: The one rule that there is: how many members of an anti-affinity group one host may have.
MOST_PER_HOST = "max_server_per_host"
_PLAIN = ("uuid", "name", "project_id", "user_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGroup(NovaObject):
    """A group as kept, and as plugins see it: nova's InstanceGroup attribute names.

    ``members`` are the uuids of its instances, ``hosts`` the names of the hosts that these are on;
    a list of groups leaves them out. A group that a request describes need not have a uuid.
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
        """Return the group that a request's JSON object describes."""
        return cls(
            **{name: document.get(name) for name in _PLAIN},
            policy=document["policy"],
            rules=document.get("rules") or {},
            members=tuple(map(canonical, document.get("members") or ())),
            hosts=tuple(document.get("hosts") or ()),
        )

    def as_document(self) -> dict[str, Any]:
        """Return the JSON object of which :meth:`from_document` makes this group again."""
        return {
            **{name: getattr(self, name) for name in (*_PLAIN, "policy")},
            "rules": dict(self.rules),
            "members": list(self.members),
            "hosts": list(self.hosts),
        }

    @property
    def policies(self) -> list[str]:
        """Return the policy as a list, as old plugins of nova read it."""
        return [self.policy]

    @property
    def is_strict(self) -> bool:
        """Return whether the policy rejects hosts, rather than lowers their weight."""
        return not self.policy.startswith("soft-")

"""A host aggregate: a named set of hosts with metadata, as nova has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

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

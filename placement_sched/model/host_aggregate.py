"""A host aggregate: a named set of hosts with metadata, as nova has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

#: The metadata key that makes an aggregate an availability zone.
ZONE_KEY = "availability_zone"
#: What the keys begin with that reserve an aggregate, by ``trait:X=required``.
TRAIT_PREFIX = "trait:"


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
    def reserving_traits(self) -> tuple[str, ...]:
        """Return the traits that its metadata require of whoever uses its hosts."""
        return tuple(
            key.removeprefix(TRAIT_PREFIX)
            for key, value in self.metadata.items()
            if value == "required" and key.startswith(TRAIT_PREFIX)
        )

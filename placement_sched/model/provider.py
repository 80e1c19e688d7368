"""A resource provider: a node of a tree that has inventories, traits and aggregates."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One resource provider; ``id`` is the table's, uuids are what the API shows."""

    id: int
    uuid: str
    name: str
    generation: int
    root_id: int
    root_uuid: str
    parent_uuid: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None

"""A resource provider: a node of a tree that has inventories, traits and aggregates."""

from datetime import datetime
from typing import NamedTuple


class Provider(NamedTuple):
    """One resource provider; ``id`` is the table's, uuids are what the API shows.

    A tuple, since lists of providers have thousands, and tuples are made ten times as quickly.
    """

    id: int
    uuid: str
    name: str
    generation: int
    root_id: int
    root_uuid: str
    parent_uuid: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None

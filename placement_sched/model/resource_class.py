"""A resource class: a kind of thing that is counted."""

from dataclasses import dataclass
from datetime import datetime

#: What the name of every class that is not of os-resource-classes begins with.
CUSTOM_PREFIX = "CUSTOM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClass:
    """One resource class; ``id`` is the table's."""

    id: int
    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None

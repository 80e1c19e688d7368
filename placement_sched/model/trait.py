"""A trait: a name that says what a provider can or is."""

from dataclasses import dataclass
from datetime import datetime

#: What the name of every trait that is not of os-traits begins with.
CUSTOM_PREFIX = "CUSTOM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """One trait; ``id`` is the table's."""

    id: int
    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None

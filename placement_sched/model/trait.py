"""A trait: a name that says what a provider can or is."""

from datetime import datetime
from typing import NamedTuple

#: What the name of every trait that is not of os-traits begins with.
CUSTOM_PREFIX = "CUSTOM_"


class Trait(NamedTuple):
    """One trait; ``id`` is the table's.

    A tuple, since providers have dozens each, and tuples are made ten times as quickly.
    """

    id: int
    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None

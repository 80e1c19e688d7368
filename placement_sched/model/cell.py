"""A cell of nova, and whether its database answers."""

from dataclasses import dataclass
from datetime import datetime

#: The cell of instances that were never placed: it has no hosts.
CELL0 = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaCell:
    """A cell as it is recorded here; times are naive UTC.

    ``read_at`` is when the cell's database last answered. ``away_since`` is None while it answers;
    else it is since when it does not, and ``failure`` is what the driver said.
    """

    uuid: str
    name: str | None = None
    disabled: bool = False
    read_at: datetime | None = None
    away_since: datetime | None = None
    failure: str | None = None

    @property
    def is_away(self) -> bool:
        """Return whether the cell's database did not answer when it was last asked."""
        return self.away_since is not None

    @property
    def title(self) -> str:
        """Return how messages call the cell: by its name, or its uuid where it has none."""
        return self.name or self.uuid

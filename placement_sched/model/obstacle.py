"""Why a request found no host: the stage that left none, and room for too few instances."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Which stage of a run left no host: its family, its name in the funnel, and one sentence."""

    stage: str
    name: str
    reason: str

    def as_json(self) -> Json:
        """Return the entry as an explanation shows it."""
        return {"stage": self.stage, "name": self.name, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class RoomReport:
    """How many instances are asked for, and how many the hosts that passed have room for at most.

    It was counted before any was placed.
    """

    instances: int
    at_most: int

    @property
    def words(self) -> str:
        """Return in one sentence that there is not enough room."""
        return (
            f"the hosts that passed have room for at most {self.at_most} of the "
            f"{self.instances} instances"
        )

    def as_json(self) -> Json:
        """Return the entry as an explanation shows it."""
        return {"instances": self.instances, "at_most": self.at_most}

"""How the scheduler policy of a request was chosen."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorReport:
    """What one selector made of a request: what it went by, and the aggregates that matched.

    Each of ``matched`` is an aggregate's name, uuid and policy.
    """

    name: str
    outcome: str
    asked: str | None = None
    matched: tuple[tuple[str, str, str], ...] = ()

    def as_json(self) -> Json:
        """Return the entry as an explanation shows it."""
        keys = ("aggregate", "uuid", "policy")
        return {
            "name": self.name,
            "asked": self.asked,
            "matched": [dict(zip(keys, one, strict=True)) for one in self.matched],
            "outcome": self.outcome,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    """Which policy a request is under, and what each selector that was asked found."""

    name: str
    selectors: tuple[SelectorReport, ...] = ()

    def as_json(self) -> Json:
        """Return the entry as an explanation shows it."""
        return {"name": self.name, "selectors": [one.as_json() for one in self.selectors]}

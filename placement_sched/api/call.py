"""What a route's handler receives and returns; no web framework here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placement_sched.api.auth import Identity
from placement_sched.api.microversion import Headers, Version
from placement_sched.api.services import Services
from placement_sched.config.settings import Settings
from placement_sched.model.request_ids import RequestIds
from placement_sched.scheduler.policies.registry import Policies, policies_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, authenticated, negotiated and validated.

    ``query`` keeps the pairs in the order sent; ``body`` is the decoded JSON (None without one), or
    the number of bytes where the route takes data;
    ``base`` is the prefix of links in answers (``/placement``), ``url`` the same with scheme and
    host.
    """

    services: Services
    identity: Identity
    version: Version
    query: tuple[tuple[str, str], ...]
    body: Any
    base: str
    url: str
    ids: RequestIds
    headers: Headers

    def values(self, key: str) -> tuple[str, ...]:
        """Return every value that the query string gives for ``key``."""
        return tuple(value for name, value in self.query if name == key)

    def value(self, key: str) -> str | None:
        """Return the last value that the query string gives for ``key``, or None."""
        return next(iter(reversed(self.values(key))), None)

    def first(self, key: str) -> str | None:
        """Return the first value that the query string gives for ``key``, or None."""
        return next(iter(self.values(key)), None)

    def check(self, rule: str) -> None:
        """Raise :class:`Forbidden` unless the caller may do ``rule`` in his own project."""
        target = {"project_id": self.identity.project_id or ""}
        self.services.policy.check(rule, self.identity, target)

    def policies(self) -> Policies:
        """Return the scheduler policies of the configuration."""
        return policies_for(self.settings, self.services.clock)

    @property
    def settings(self) -> Settings:
        """Return the options in effect now: files that change are read again."""
        return self.services.scheduler.live.settings()

    def now(self) -> datetime:
        """Return the current time, UTC without a zone, as the tables keep it."""
        return self.services.clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One response: ``body`` is encoded as JSON unless it is bytes already; None is no body."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    last_modified: datetime | None = None


Handler = Callable[..., Answer]

"""The call that a handler receives, and the answer that it returns; no web framework here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

from placement_sched.api.auth import Identity
from placement_sched.api.metrics import Metrics
from placement_sched.api.policy import Policy
from placement_sched.api.versions import Headers, Version
from placement_sched.candidates.summaries import Summaries
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.clock import Clock
from placement_sched.model.request_ids import RequestIds
from placement_sched.scheduler.policies.registry import Policies, policies_for
from placement_sched.scheduler.scheduler import Scheduler

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The settings, the database, the policy, the clock (naive UTC) and the random source.

    ``metrics`` counts requests as they are answered; what a handler did it takes from the
    request's statistics.
    """

    settings: Settings
    database: Database
    policy: Policy
    metrics: Metrics
    clock: Clock
    random: Random
    summaries: Summaries
    scheduler: Scheduler
    #: Prepares the database on first use; raises ``Unavailable`` while it cannot.
    ready: Callable[[], None]
    #: Does what is to be done now and then, whether or not anybody asks for anything.
    keep_up: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, authenticated, negotiated and validated.

    ``query`` has the pairs in the order sent; ``body`` the decoded JSON (or None), or the number of
    bytes where the route takes data; ``base`` is the prefix of links in answers (``/placement``),
    ``url`` the same with scheme and host.
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
        """Raise :class:`Forbidden` unless the caller may do ``rule`` in their own project."""
        target = {"project_id": self.identity.project_id or ""}
        self.services.policy.check(rule, self.identity, target)

    def may(self, rule: str) -> bool:
        """Return whether the policy allows the caller ``rule`` on what is their own."""
        project_id, user_id = self.identity.project_id, self.identity.user_id
        target = {"project_id": project_id, "user_id": user_id, "owner": project_id}
        return self.services.policy.allows(rule, self.identity, target)

    def read(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs
    ) -> T:
        """Return what ``operation`` reads, which takes a connection first."""
        with self.services.database.read() as connection:
            return operation(connection, *args, **more)

    def write(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs
    ) -> T:
        """Run ``operation``, which takes a connection first, in one transaction."""
        return self.services.database.write(lambda connection: operation(connection, *args, **more))

    def policies(self) -> Policies:
        """Return the scheduling policies of the configuration."""
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
    """One response: ``body`` is encoded as JSON unless it is bytes already, or None for none."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    last_modified: datetime | None = None


Handler = Callable[..., Answer]


def in_transaction(
    handler: Callable[Concatenate[Call, Connection, P], Answer],
) -> Callable[Concatenate[Call, P], Answer]:
    """Return a handler that runs as one transaction, whose connection it takes after the call."""

    @wraps(handler)
    def run(call: Call, /, *args: P.args, **names: P.kwargs) -> Answer:
        return call.services.database.write(
            lambda connection: handler(call, connection, *args, **names)
        )

    return run

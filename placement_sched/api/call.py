# SPDX-License-Identifier: Apache-2.0
"""The arguments and results of handlers, independent of the web framework."""

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
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.clock import Clock
from placement_sched.model.context import RequestIds
from placement_sched.scheduler.policies.registry import Policies, policies_for
from placement_sched.scheduler.scheduler import Scheduler

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The dependencies of handlers.

    The clock returns naive UTC. ``metrics`` counts answered requests, with the statistics of each
    request.
    """

    settings: Settings
    database: Database
    policy: Policy
    metrics: Metrics
    clock: Clock
    random: Random
    scheduler: Scheduler
    #: Prepares the database on first use. Raises ``Unavailable`` if that fails.
    ready: Callable[[], None]
    #: Runs the periodic tasks, with or without requests.
    run_periodic_tasks: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A request that has passed all checks.

    ``query`` are the names and values of the query string in order. ``body`` is the decoded JSON or
    None. For a route with ``data`` set, ``body`` is the number of bytes. ``base`` is the prefix of
    links in answers (``/placement``), and ``url`` is ``base`` with scheme and host.
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
        """Return every value of a query parameter."""
        return tuple(value for name, value in self.query if name == key)

    def value(self, key: str) -> str | None:
        """Return the last value of a query parameter, or None."""
        return next(iter(reversed(self.values(key))), None)

    def check(self, rule: str) -> None:
        """Reject the caller unless ``rule`` allows them in their own project.

        Raises :class:`Forbidden`.
        """
        target = {"project_id": self.identity.project_id or ""}
        self.services.policy.check(rule, self.identity, target)

    def may(self, rule: str) -> bool:
        """Return whether ``rule`` allows the caller on their own objects."""
        project_id, user_id = self.identity.project_id, self.identity.user_id
        target = {"project_id": project_id, "user_id": user_id, "owner": project_id}
        return self.services.policy.allows(rule, self.identity, target)

    def read(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs
    ) -> T:
        """Call ``operation`` with a read connection and the arguments, and return its result."""
        with self.services.database.read() as connection:
            return operation(connection, *args, **more)

    def write(
        self, operation: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs
    ) -> T:
        """Call ``operation`` in a transaction, with the connection as first argument."""
        return self.services.database.write(lambda connection: operation(connection, *args, **more))

    def policies(self) -> Policies:
        """Return the scheduling policies of the configuration."""
        return policies_for(self.settings, self.services.clock)

    @property
    def settings(self) -> Settings:
        """Return the current options, after reading changed files again."""
        return self.services.scheduler.live.settings()

    def now(self) -> datetime:
        """Return the current time in naive UTC, the format of the tables."""
        return self.services.clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """A response.

    ``body`` is encoded as JSON unless it is bytes or None.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    last_modified: datetime | None = None


Handler = Callable[..., ApiResponse]


def in_transaction(
    handler: Callable[Concatenate[ApiCall, Connection, P], ApiResponse],
) -> Callable[Concatenate[ApiCall, P], ApiResponse]:
    """Decorate a handler to run in a transaction.

    The connection is the second argument of the handler.
    """

    @wraps(handler)
    def run(call: ApiCall, /, *args: P.args, **names: P.kwargs) -> ApiResponse:
        return call.services.database.write(
            lambda connection: handler(call, connection, *args, **names)
        )

    return run

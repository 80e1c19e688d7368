"""Request filters: each narrows a request before allocation candidates are asked for.

A request filter takes the request and returns a narrower one; it never widens it and never
changes what it was given.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from placement_sched.config import Settings
from placement_sched.model.destination import Destination
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.folder import classes_in
from placement_sched.scheduler.plugin import SchedulerPlugin


class World(Protocol):
    """What request filters may ask about the cloud; read when it is first asked for."""

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return all host aggregates, by id."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The narrower request, and for the report what was added to it, by name."""

    spec: RequestSpec
    changes: Mapping[str, Any] = field(default_factory=dict)


def narrowed(spec: RequestSpec, destination: Destination) -> RequestSpec:
    """Return the request, for this narrower destination."""
    return replace(spec, requested_destination=destination)


class BaseRequestFilter(SchedulerPlugin):
    """The base of all request filters."""

    #: What the explanation calls it.
    name: ClassVar[str] = ""

    def enabled(self, settings: Settings) -> bool:
        """Return whether the operator has switched it on."""
        raise NotImplementedError(f"{type(self).__name__} does not say whether it is enabled")

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal | None:
        """Return the narrower request, why no host can take it, or None: this is not about it."""
        raise NotImplementedError(f"{type(self).__name__} does nothing")


def all_request_filters() -> list[type[BaseRequestFilter]]:
    """Return the request filter classes that are shipped, in the order they run."""
    return classes_in(sys.modules[__name__], BaseRequestFilter)

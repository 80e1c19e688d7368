"""Request filters: each narrows a request before allocation candidates are asked for.

A request filter takes the request and returns a narrower one; it never widens it and never
changes what it was given.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from placement_sched.config import Settings
from placement_sched.model.destination import Destination
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.folder import classes_in
from placement_sched.scheduler.plugin import SchedulerPlugin

#: The shipped request filters in the order in which they run: nova's, and then ours. One that is
#: not named here runs after these; several such in the order of their names.
ORDER = (
    "require_tenant_aggregate",
    "map_az_to_placement_aggregate",
    "require_image_type_support",
    "compute_status_filter",
    "forbidden_aggregates",
    "transform_image_metadata",
    "accelerators_filter",
    "packed_virtqueue_filter",
    "routed_networks_filter",
    "remote_managed_ports_filter",
    "ephemeral_encryption_filter",
    "virtio_sound_filter",
    "tpm_secret_security_filter",
    "owner_nova_filter",
    "required_aggregates_by_trait",
)


class World(Protocol):
    """What request filters may ask about the cloud; read when it is first asked for."""

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return all host aggregates, by id."""

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the aggregates that resource providers are in, by their uuid.

        A provider that is not there, or in no aggregate, is left out.
        """

    def all_nodes_have(self, trait: str) -> bool:
        """Return whether the root provider of every enabled compute node has a trait.

        It is false where there is no such node.
        """


@dataclass(frozen=True, slots=True)
class Outcome:
    """The narrower request, and for the report what was added to it, by name."""

    spec: RequestSpec
    changes: Mapping[str, Any] = field(default_factory=dict)


class BaseRequestFilter(SchedulerPlugin):
    """The base of all request filters."""

    #: What explanations and ``[scheduler] request_filters`` call it.
    name: ClassVar[str] = ""
    #: Other names by which operators know it.
    aliases: ClassVar[tuple[str, ...]] = ()

    def enabled(self, settings: Settings) -> bool:
        """Return whether the operator has switched it on; one without an option always is."""
        return True

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal | None:
        """Return the narrower request, why no host can take it, or None: this is not about it."""
        raise NotImplementedError(f"{type(self).__name__} does nothing")


def all_request_filters() -> list[type[BaseRequestFilter]]:
    """Return the request filter classes that are shipped, in the order they run."""
    found = classes_in(sys.modules[__name__], BaseRequestFilter)
    return sorted(found, key=_place)


def _place(kind: type[BaseRequestFilter]) -> tuple[int, str]:
    """Return what request filters are sorted by."""
    name = kind.name or kind.__name__
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def narrowed(spec: RequestSpec, destination: Destination) -> RequestSpec:
    """Return the request, for this narrower destination."""
    return replace(spec, requested_destination=destination)


def confined(spec: RequestSpec, aggregates: Iterable[str]) -> Outcome:
    """Return the request for hosts in at least one of the aggregates of these uuids."""
    uuids = list(aggregates)
    return Outcome(narrowed(spec, spec.destination.requiring(uuids)), {"aggregates": uuids})


def kept_out(spec: RequestSpec, aggregates: Iterable[str]) -> Outcome:
    """Return the request for hosts in none of the aggregates of these uuids."""
    known = spec.destination.forbidden
    added = [uuid for uuid in aggregates if uuid not in known]
    if not added:
        return Outcome(spec)
    changes = {"forbidden_aggregates": added}
    return Outcome(narrowed(spec, spec.destination.forbidding(added)), changes)


def requiring(spec: RequestSpec, *traits: str) -> Outcome:
    """Return the request for hosts whose root provider has these traits as well."""
    added = sorted(set(traits) - spec.root_required)
    if not added:
        return Outcome(spec)
    params = spec.request_level_params
    params = replace(params, root_required=params.root_required.union(added))
    return Outcome(replace(spec, request_level_params=params), {"root_required": added})


def forbidding(spec: RequestSpec, *traits: str) -> Outcome:
    """Return the request for hosts whose root provider has none of these traits."""
    added = sorted(set(traits) - spec.root_forbidden)
    if not added:
        return Outcome(spec)
    params = spec.request_level_params
    params = replace(params, root_forbidden=params.root_forbidden.union(added))
    return Outcome(replace(spec, request_level_params=params), {"root_forbidden": added})

"""Request filters: each narrows a request before allocation candidates are asked for.

A request filter takes the request and returns a narrower one; it never widens it and never
changes what it was given.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from placement_sched.config.settings import Settings
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import Destination, RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.plugin import SchedulerPlugin, classes_in

__all__ = ["BaseRequestFilter", "Outcome", "Refusal", "RequestSpec", "TraitFilter", "World"]
__all__ += ["all_request_filters", "confined", "forbidding", "kept_out", "narrowed", "requiring"]

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
        """Return the uuids of providers' aggregates by provider uuid, without those in none."""

    def all_nodes_have(self, trait: str) -> bool:
        """Return whether compute nodes are enabled, and the root provider of each has a trait."""


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

    #: The option of ``[scheduler]`` that switches it on; one without is always on.
    enabled_by: ClassVar[str] = ""

    def enabled(self, settings: Settings) -> bool:
        """Return whether the operator has switched it on."""
        return not self.enabled_by or bool(getattr(settings.scheduler, self.enabled_by))

    def apply(self, spec: RequestSpec, world: World) -> Outcome | Refusal | None:
        """Return the narrower request, why no host can take it, or None: this is not about it."""
        raise NotImplementedError(f"{type(self).__name__} implements no apply()")


class TraitFilter(BaseRequestFilter):
    """The base of those that require traits of the root provider, or forbid them."""

    forbids = False

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for hosts that have the traits, or not; None where none are named."""
        traits = self._traits(spec)
        change = forbidding if self.forbids else requiring
        return change(spec, *traits) if traits else None

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        raise NotImplementedError


def all_request_filters() -> list[type[BaseRequestFilter]]:
    """Return the request filter classes that are shipped, in the order they run."""

    def place(kind: type[BaseRequestFilter]) -> tuple[int, str]:
        name = kind.name or kind.__name__
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    return sorted(classes_in(sys.modules[__name__], BaseRequestFilter), key=place)


def narrowed(spec: RequestSpec, destination: Destination) -> RequestSpec:
    """Return the request, for this narrower destination."""
    return replace(spec, requested_destination=destination)


def confined(spec: RequestSpec, aggregates: Iterable[str]) -> Outcome:
    """Return the request for hosts in at least one of the aggregates of these uuids."""
    uuids = list(aggregates)
    return Outcome(narrowed(spec, spec.destination.requiring(uuids)), {"aggregates": uuids})


def kept_out(spec: RequestSpec, aggregates: Iterable[str]) -> Outcome:
    """Return the request for hosts in none of the aggregates of these uuids."""
    added = [uuid for uuid in aggregates if uuid not in spec.destination.forbidden]
    narrower = narrowed(spec, spec.destination.forbidding(added)) if added else spec
    return Outcome(narrower, {"forbidden_aggregates": added} if added else {})


def requiring(spec: RequestSpec, *traits: str) -> Outcome:
    """Return the request for hosts whose root provider has these traits as well."""
    return _with_traits(spec, "root_required", set(traits) - spec.root_required)


def forbidding(spec: RequestSpec, *traits: str) -> Outcome:
    """Return the request for hosts whose root provider has none of these traits."""
    return _with_traits(spec, "root_forbidden", set(traits) - spec.root_forbidden)


def _with_traits(spec: RequestSpec, name: str, added: set[str]) -> Outcome:
    params = spec.request_level_params
    changed: dict[str, Any] = {name: getattr(params, name).union(added)}
    narrower = replace(spec, request_level_params=replace(params, **changed))
    return Outcome(narrower, {name: sorted(added)}) if added else Outcome(spec)

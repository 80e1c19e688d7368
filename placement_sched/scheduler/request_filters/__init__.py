# SPDX-License-Identifier: Apache-2.0
"""Request filters, and the base classes for writing them.

A request filter adds constraints to a request before the candidate search. It returns a
new request with at least the same constraints, and never changes its argument.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from placement_sched.config.settings import Settings
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import Destination, RequestSpec
from placement_sched.scheduler.plugin import SchedulerPlugin, list_classes

__all__ = [
    "BaseRequestFilter",
    "NotApplied",
    "Rejection",
    "RequestFilterContext",
    "RequestFilterResult",
    "RequestSpec",
    "TraitFilter",
]
__all__ += [
    "all_request_filters",
    "forbid_aggregates",
    "forbid_traits",
    "require_aggregates",
    "require_traits",
    "with_destination",
]

#: Order of the shipped request filters: nova's filters, then the filters that nova lacks. Unlisted
#: request filters run afterwards, in the order of their names.
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


class RequestFilterContext(Protocol):
    """Parts of the cloud that request filters read, loaded on first use."""

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return all host aggregates, sorted by id."""

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Map each provider in an aggregate to the uuids of its aggregates."""

    def count_nodes_lacking_trait(self, trait: str) -> tuple[int, int] | None:
        """Return the numbers of enabled nodes without a trait, and of all of them.

        None if no provider has the trait. Both numbers are 0 if all nodes have it.
        """


@dataclass(frozen=True, slots=True)
class RequestFilterResult:
    """Request with added constraints, which the report shows as ``changes``."""

    spec: RequestSpec
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotApplied:
    """Reason why a filter is not applied, for explanations."""

    reason: str


class BaseRequestFilter(SchedulerPlugin):
    """Base class of all request filters."""

    #: Name in explanations and in ``[scheduler] request_filters``.
    name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()

    #: The option of ``[scheduler]`` that enables the filter. Empty: it is always enabled.
    enabled_by: ClassVar[str] = ""

    def enabled(self, settings: Settings) -> bool:
        """Return whether the filter is enabled."""
        return not self.enabled_by or bool(getattr(settings.scheduler, self.enabled_by))

    def apply(
        self, spec: RequestSpec, context: RequestFilterContext
    ) -> RequestFilterResult | Rejection | NotApplied | None:
        """Return the request with added constraints, or reject the request.

        Returns None, or :class:`NotApplied` with a reason, if the filter does not apply.
        """
        raise NotImplementedError(f"{type(self).__name__} implements no apply()")


class TraitFilter(BaseRequestFilter):
    """Base class of request filters by traits of the root provider."""

    #: Whether the traits are forbidden, rather than required.
    forbids = False

    def apply(self, spec: RequestSpec, context: RequestFilterContext) -> RequestFilterResult | None:
        """Return the request with the traits added, or None for no traits."""
        traits = self._list_traits(spec)
        add_traits = forbid_traits if self.forbids else require_traits
        return add_traits(spec, *traits) if traits else None

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        raise NotImplementedError


def all_request_filters() -> list[type[BaseRequestFilter]]:
    """Return the shipped request filter classes in their order."""

    def get_sort_key(kind: type[BaseRequestFilter]) -> tuple[int, str]:
        name = kind.name or kind.__name__
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    return sorted(list_classes(sys.modules[__name__], BaseRequestFilter), key=get_sort_key)


def with_destination(spec: RequestSpec, destination: Destination) -> RequestSpec:
    """Return the request with another destination."""
    return replace(spec, requested_destination=destination)


def require_aggregates(spec: RequestSpec, aggregates: Iterable[str]) -> RequestFilterResult:
    """Return the request for hosts in at least one of the aggregates."""
    uuids = list(aggregates)
    return RequestFilterResult(
        with_destination(spec, spec.destination.requiring(uuids)), {"aggregates": uuids}
    )


def forbid_aggregates(spec: RequestSpec, aggregates: Iterable[str]) -> RequestFilterResult:
    """Return the request for hosts in none of the aggregates."""
    added = [uuid for uuid in aggregates if uuid not in spec.destination.forbidden]
    changed_spec = with_destination(spec, spec.destination.forbidding(added)) if added else spec
    return RequestFilterResult(changed_spec, {"forbidden_aggregates": added} if added else {})


def require_traits(spec: RequestSpec, *traits: str) -> RequestFilterResult:
    """Return the request for hosts whose root provider also has these traits."""
    return _with_traits(spec, "root_required", set(traits) - spec.root_required)


def forbid_traits(spec: RequestSpec, *traits: str) -> RequestFilterResult:
    """Return the request for hosts whose root provider lacks these traits."""
    return _with_traits(spec, "root_forbidden", set(traits) - spec.root_forbidden)


def _with_traits(spec: RequestSpec, name: str, added: set[str]) -> RequestFilterResult:
    params = spec.request_level_params
    changed: dict[str, Any] = {name: getattr(params, name).union(added)}
    changed_spec = replace(spec, request_level_params=replace(params, **changed))
    if not added:
        return RequestFilterResult(spec)
    return RequestFilterResult(changed_spec, {name: sorted(added)})

"""The request spec: what is to be placed, under the attribute names that nova's plugins know."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from placement_sched.errors import Invalid, NotFound
from placement_sched.model.allocation import canonical
from placement_sched.model.destination import Destination
from placement_sched.model.filter_properties import (
    filter_properties_dict,
    filter_property,
    request_dict,
)
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.network_request import NetworkRequest
from placement_sched.model.nova_object import NovaObject
from placement_sched.model.numa_topology import InstanceNUMATopology
from placement_sched.model.pci_request import InstancePCIRequests
from placement_sched.model.requested_group import RequestedGroup
from placement_sched.model.server_group import ServerGroup

Document = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TriedHost(NovaObject):
    """A host that was tried before, named as nova's compute node objects name it."""

    host: str
    hypervisor_hostname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(NovaObject):
    """Earlier tries of this request."""

    num_attempts: int = 0
    hosts: tuple[TriedHost, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(NovaObject):
    """Limits that a chosen host is to be held to: memory in MB, disk in GB."""

    vcpu: float | None = None
    memory_mb: float | None = None
    disk_gb: float | None = None
    numa_topology: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLevelParams:
    """Traits of the root provider, and groups of suffixes that must lie in one subtree."""

    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """One request, of one or several equal instances.

    ``instance_uuid`` is the instance in hand, see :meth:`for_instance`. ``instance_uuids``, in
    lower case with hyphens, is empty where the caller named none.
    ``scheduler_hints`` has lists of strings. It can be read like the dictionary that nova's filters
    had before there were request specs, see ``model/filter_properties.py``.
    """

    flavor: Flavor
    image: Image = field(default_factory=Image)
    project_id: str | None = None
    user_id: str | None = None
    num_instances: int = 1
    instance_uuid: str | None = None
    instance_uuids: tuple[str, ...] = ()
    is_bfv: bool = False
    availability_zone: str | None = None
    ignore_hosts: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    requested_destination: Destination | None = None
    retry: Retry | None = None
    limits: Limits | None = None
    instance_group: ServerGroup | None = None
    scheduler_hints: Mapping[str, list[str]] = field(default_factory=dict)
    requested_resources: tuple[RequestedGroup, ...] = ()
    request_level_params: RequestLevelParams = field(default_factory=RequestLevelParams)
    requested_networks: tuple[NetworkRequest, ...] = ()
    security_groups: tuple[str, ...] = ()
    network_metadata: Any = None
    numa_topology: InstanceNUMATopology | None = None
    pci_requests: InstancePCIRequests | None = None

    def get_scheduler_hint(self, name: str, default: Any = None) -> Any:
        """Return the hint: its only value where it has one, its list where it has several."""
        values = self.scheduler_hints.get(name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else values

    def get(self, name: str, default: Any = None) -> Any:
        """Return what plugins of former days read of a dictionary in place of this."""
        told = filter_property(self, name)
        return default if told is None else told

    def __getitem__(self, name: str) -> Any:
        told = filter_property(self, name)
        if told is None:
            raise KeyError(name)
        return told

    def __contains__(self, name: str) -> bool:
        return self.obj_attr_is_set(name) or filter_property(self, name) is not None

    def obj_clone(self) -> Self:
        """Return a request that may be changed without this one, as nova's objects do."""
        return deepcopy(self)

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether there is an attribute of this name, as nova's objects tell it."""
        return hasattr(self, name)

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """Return the request as a dictionary of former days, as nova's request spec does."""
        return request_dict(self)

    def to_legacy_filter_properties_dict(self) -> dict[str, Any]:
        """Return the rest of it, as nova's request spec does."""
        return filter_properties_dict(self)

    @property
    def is_rebuild(self) -> bool:
        """Return whether an instance is rebuilt where it is, as nova's hint for that tells."""
        return self.scheduler_hints.get("_nova_check_type") == ["rebuild"]

    def in_group_on(self, host: str) -> Self:
        """Return this request with the instance in hand a member of its group, on ``host``.

        Without a group it is the same request.
        """
        if self.instance_group is None:
            return self
        joined = self.instance_group.joined_by(self.instance_uuid, host)
        return replace(self, instance_group=joined)

    def for_instance(self, uuid: str | None) -> Self:
        """Return this request with that instance in hand."""
        return replace(self, instance_uuid=uuid)

    @property
    def destination(self) -> Destination:
        """Return where the request may go; anywhere, where it names nothing."""
        return self.requested_destination or Destination()

    @property
    def vcpus(self) -> int:
        """Return the flavor's virtual CPUs."""
        return self.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        """Return the flavor's memory in MB."""
        return self.flavor.memory_mb

    @property
    def root_gb(self) -> int:
        """Return the flavor's root disk in GB."""
        return self.flavor.root_gb

    @property
    def ephemeral_gb(self) -> int:
        """Return the flavor's ephemeral disk in GB."""
        return self.flavor.ephemeral_gb

    @property
    def swap(self) -> int:
        """Return the flavor's swap in MB."""
        return self.flavor.swap

    @property
    def root_required(self) -> frozenset[str]:
        """Return the traits that the root provider must have."""
        return self.request_level_params.root_required

    @property
    def root_forbidden(self) -> frozenset[str]:
        """Return the traits that the root provider must not have."""
        return self.request_level_params.root_forbidden

    @property
    def same_subtree(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of suffixes whose providers must lie in one subtree."""
        return self.request_level_params.same_subtree


def request_spec_from(document: Document) -> RequestSpec:
    """Return the request that a JSON object (contract §4, already of its schema) describes.

    Raises :class:`Invalid` naming an image property that cannot be or an instance named twice,
    and :class:`NotFound` where a flavor or image, or :class:`Invalid` where a server group, is
    only named: who asks looks stored ones up.
    """
    uuids = _instances(document.get("instance_uuids") or ())
    destination = document.get("requested_destination")
    plain = {name: document[name] for name in _PLAIN if document.get(name) is not None}
    lists: dict[str, Any] = {name: tuple(document.get(name) or ()) for name in _LISTS}
    return RequestSpec(
        **plain,
        **lists,
        flavor=Flavor.from_document(_described(document, "flavor") or {}),
        image=Image.from_document(_described(document, "image")),
        num_instances=len(uuids) or document.get("num_instances") or 1,
        instance_uuids=uuids,
        instance_uuid=uuids[0] if uuids else document.get("instance_uuid"),
        requested_destination=_made(Destination.from_document, destination or None),
        retry=_retry(document.get("retry")),
        limits=Limits(**document["limits"]) if document.get("limits") else None,
        instance_group=_group(document.get("instance_group")),
        scheduler_hints=_hints(document.get("scheduler_hints") or {}),
        requested_resources=tuple(
            map(RequestedGroup.from_document, document.get("requested_resources") or ())
        ),
        numa_topology=_made(InstanceNUMATopology.from_document, document.get("numa_topology")),
        pci_requests=_made(InstancePCIRequests.from_document, document.get("pci_requests")),
        requested_networks=tuple(
            map(NetworkRequest.from_document, document.get("requested_networks") or ())
        ),
        request_level_params=_request_level_params(document.get("request_level_params") or {}),
    )


_PLAIN = (
    "project_id",
    "user_id",
    "is_bfv",
    "availability_zone",
    "network_metadata",
)
_LISTS = (
    "ignore_hosts",
    "force_hosts",
    "force_nodes",
    "security_groups",
)


def _instances(given: Sequence[str]) -> tuple[str, ...]:
    """Return the instances in the one spelling under which they are kept."""
    uuids = tuple(canonical(uuid) for uuid in given)
    if twice := next((uuid for uuid, number in Counter(uuids).items() if number > 1), None):
        raise Invalid(f"instance {twice} is named twice (at $.request_spec.instance_uuids)")
    return uuids


def _described(document: Document, noun: str) -> Document | None:
    """Return the flavor or image as an object."""
    given = document.get(noun)
    if isinstance(given, str):
        raise NotFound(f"There is no stored {noun} {given!r}; give the {noun} as an object.")
    return given


def _made(make: Callable[[Document], T], document: Document | None) -> T | None:
    """Return what is made of a JSON object, where there is one."""
    return None if document is None else make(document)


def _group(given: Document | str | None) -> ServerGroup | None:
    """Return the server group as an object."""
    if isinstance(given, str):
        raise Invalid(f"There is no server group {given} (at $.request_spec.instance_group)")
    return None if given is None else ServerGroup.from_document(given)


def _retry(document: Document | None) -> Retry | None:
    if document is None:
        return None
    return Retry(
        num_attempts=document.get("num_attempts") or 0,
        hosts=tuple(TriedHost(host, node) for host, node in document.get("hosts") or ()),
    )


def _hints(document: Document) -> dict[str, list[str]]:
    """Return hints as lists of strings, as nova keeps them, whether given so or single."""
    return {
        name: [value] if isinstance(value, str) else list(value) for name, value in document.items()
    }


def _request_level_params(document: Document) -> RequestLevelParams:
    required, forbidden = document.get("root_required"), document.get("root_forbidden")
    for trait in sorted(set(required or ()) & set(forbidden or ())):
        place = "$.request_spec.request_level_params"
        raise Invalid(
            f"trait {trait} is both required (at {place}.root_required) and forbidden (at "
            f"{place}.root_forbidden)"
        )
    return RequestLevelParams(
        root_required=frozenset(required or ()),
        root_forbidden=frozenset(forbidden or ()),
        same_subtree=tuple(tuple(group) for group in document.get("same_subtree") or ()),
    )

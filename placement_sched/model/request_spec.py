# SPDX-License-Identifier: Apache-2.0
"""Request specs, under nova's attribute names."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Self, TypeVar

from placement_sched.errors import Invalid, NotFound
from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.context import RequestContext, build_context, read_host
from placement_sched.model.document import Document, NovaObject, PluginValue
from placement_sched.model.flavor import Flavor, SizedByFlavor
from placement_sched.model.hardware.numa import InstanceNUMATopology
from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.image import Image
from placement_sched.model.names import canonicalize_uuid
from placement_sched.model.preferences import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination(NovaObject):
    """The requested host, node, cell and placement aggregates.

    Each item of ``aggregates`` has uuids joined by commas, and a host must be in at least 1 of the
    aggregates of each item. A host must not be in any aggregate of ``forbidden_aggregates``.
    """

    host: str | None = None
    node: str | None = None
    cell: str | None = None
    aggregates: tuple[str, ...] = ()
    forbidden_aggregates: tuple[str, ...] = ()
    allow_cross_cell_move: bool = False

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Build a destination from its JSON object, treating null as absent."""
        return cls(
            **{name: document.get(name) for name in ("host", "node", "cell")},
            aggregates=tuple(document.get("aggregates") or ()),
            forbidden_aggregates=tuple(document.get("forbidden_aggregates") or ()),
            allow_cross_cell_move=bool(document.get("allow_cross_cell_move")),
        )

    @property
    def only_cell(self) -> str | None:
        """Return the uuid of the only allowed cell, or None if all are allowed."""
        return (
            canonicalize_uuid(self.cell) if self.cell and not self.allow_cross_cell_move else None
        )

    @property
    def preferred_cell(self) -> str | None:
        """Return the uuid of a cell that is preferred but not required, or None."""
        return canonicalize_uuid(self.cell) if self.cell and self.allow_cross_cell_move else None

    def requiring(self, uuids: Iterable[str]) -> Self:
        """Return a copy that also requires at least 1 of the aggregates."""
        return replace(self, aggregates=(*self.aggregates, ",".join(uuids)))

    def forbidding(self, uuids: Iterable[str]) -> Self:
        """Return a copy that also forbids the aggregates."""
        forbidden = self.forbidden
        added = [uuid for uuid in uuids if uuid not in forbidden]
        return replace(self, forbidden_aggregates=(*self.forbidden_aggregates, *added))

    @property
    def forbidden(self) -> frozenset[str]:
        """Return the forbidden aggregates, split at commas, in canonical spelling."""
        return frozenset(
            canonicalize_uuid(uuid)
            for joined in self.forbidden_aggregates
            for uuid in joined.split(",")
        )


@dataclass(frozen=True, slots=True)
class TriedHost(NovaObject):
    """A compute node of an earlier attempt, under nova's attribute names."""

    host: str
    hypervisor_hostname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(NovaObject):
    """The earlier attempts of a request that is sent again."""

    num_attempts: int = 0
    hosts: tuple[TriedHost, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the attempts from their JSON object in a request spec."""
        hosts = tuple(TriedHost(host, node) for host, node in document.get("hosts") or ())
        return cls(num_attempts=document.get("num_attempts") or 0, hosts=hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(NovaObject):
    """Limits for the chosen host: memory in MB, disk in GB."""

    vcpu: float | None = None
    memory_mb: float | None = None
    disk_gb: float | None = None
    numa_topology: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLevelParams(PluginValue):
    """Root provider traits, and groups whose providers must share a subtree."""

    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the parameters from their JSON object in a request spec.

        Raises :class:`Invalid` if a trait is both required and forbidden.
        """
        required = frozenset(document.get("root_required") or ())
        forbidden = frozenset(document.get("root_forbidden") or ())
        for trait in sorted(required & forbidden):
            json_path = "$.request_spec.request_level_params"
            raise Invalid(
                f"trait {trait} is both required (at {json_path}.root_required) and forbidden",
                json_path=f"{json_path}.root_forbidden",
            )
        subtrees = tuple(map(tuple, document.get("same_subtree") or ()))
        return cls(root_required=required, root_forbidden=forbidden, same_subtree=subtrees)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedGroup(NovaObject):
    """A requested group of resources, under the names of nova's RequestGroup.

    ``requester_id`` becomes the suffix of the group. A provider must be in at least 1 aggregate of
    each tuple of ``aggregates``, and in no aggregate of ``forbidden_aggregates``.
    """

    requester_id: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    aggregates: tuple[tuple[str, ...], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None
    use_same_provider: bool = True
    #: The part of the request or flavor that the group comes from, or None if the group is in
    #: ``requested_resources``.
    source: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a group from an item of ``requested_resources``."""
        return cls(
            requester_id=document.get("requester_id"),
            resources=dict(document.get("resources") or {}),
            required_traits=frozenset(document.get("required_traits") or ()),
            forbidden_traits=frozenset(document.get("forbidden_traits") or ()),
            # Alternative aggregates are a list, or a string with uuids joined by commas.
            aggregates=tuple(
                tuple(item.split(",") if isinstance(item, str) else item)
                for item in document.get("aggregates") or ()
            ),
            forbidden_aggregates=frozenset(document.get("forbidden_aggregates") or ()),
            in_tree=document.get("in_tree"),
            use_same_provider=document.get("use_same_provider", True),
        )

    @property
    def is_empty(self) -> bool:
        """Return whether the group requests nothing."""
        return not (
            self.resources
            or self.required_traits
            or self.forbidden_traits
            or self.aggregates
            or self.forbidden_aggregates
        )

    def with_trait(self, trait: str) -> Self:
        """Return a copy with a further required trait."""
        return replace(self, required_traits=self.required_traits | {trait})


#: The default type of a port (Networking API, "Port binding").
NORMAL = "normal"
#: The type of ports that a SmartNIC or DPU serves.
REMOTE_MANAGED = "remote-managed"
#: Values of nova's API in place of a network id: allocate a network, or attach no network.
_NETWORK_KEYWORDS = frozenset({"auto", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A neutron port: its network, its type, and the subnets of its fixed IPs."""

    network_id: str
    vnic_type: str = NORMAL
    subnet_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest(PluginValue):
    """A requested network or existing port.

    ``vnic_type``, ``subnet_ids`` (of the port's fixed IPs) and ``segments`` are None if unknown. A
    host must reach any of ``segments``, which only routed networks have.
    """

    network_id: str | None = None
    address: str | None = None
    port_id: str | None = None
    pci_request_id: str | None = None
    tag: str | None = None
    arq_uuid: str | None = None
    device_profile: str | None = None
    vnic_type: str | None = None
    subnet_ids: tuple[str, ...] | None = None
    segments: tuple[str, ...] | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read an item of ``requested_networks``, maybe with neutron's names."""
        fixed_ips, segments = document.get("fixed_ips"), document.get("segments")
        return cls(
            **{name: document.get(name) for name in _COPIED_NETWORK_KEYS},
            vnic_type=document.get("vnic_type") or document.get("binding:vnic_type"),
            subnet_ids=None if fixed_ips is None else tuple(ip["subnet_id"] for ip in fixed_ips),
            segments=None if segments is None else _canonicalize_uuids(segments),
        )

    @property
    def subnet_id(self) -> str | None:
        """Return the subnet of the port's first fixed IP, as in nova."""
        return self.subnet_ids[0] if self.subnet_ids else None

    @property
    def named_network(self) -> str | None:
        """Return the id of the network, or None if the request has no such id."""
        return None if self.network_id in _NETWORK_KEYWORDS else self.network_id

    @property
    def is_open(self) -> bool:
        """Return whether the request names no network, port or subnet."""
        return not (self.named_network or self.port_id or self.subnet_id)

    @property
    def label(self) -> str:
        """Return a name for messages: subnet, or else network, or else port."""
        if self.subnet_id:
            return f"subnet {self.subnet_id}"
        return f"network {self.named_network}" if self.named_network else f"port {self.port_id}"

    def with_port(self, port: Port) -> Self:
        """Return a copy completed with the attributes of the port in neutron."""
        return replace(
            self,
            network_id=port.network_id,
            vnic_type=self.vnic_type or port.vnic_type,
            subnet_ids=port.subnet_ids if self.subnet_ids is None else self.subnet_ids,
        )

    def with_segments(self, segments: tuple[str, ...]) -> Self:
        """Return a copy with the segments of its network."""
        return replace(self, segments=_canonicalize_uuids(segments))


_COPIED_NETWORK_KEYS = (
    "network_id",
    "address",
    "port_id",
    "pci_request_id",
    "tag",
    "arq_uuid",
    "device_profile",
)


def _canonicalize_uuids(segments: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonicalize_uuid, segments)))


T = TypeVar("T")
RequestPart = TypeVar("RequestPart")
#: The scheduler hint that marks a rebuild in nova's requests.
REBUILD_HINT = "_nova_check_type"
#: Maximum number of cached results of :meth:`RequestSpec.read_once`.
_MAX_CACHED_PARTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec(SizedByFlavor, PluginValue):
    """A request for a number of equal instances.

    ``instance_uuid`` is the instance that is being placed. ``instance_uuids``, in lower case with
    hyphens, is empty if the caller named none. Filters of Icehouse to Liberty can read the spec as
    the dictionary ``filter_properties``: ``filter_properties.get("instance_type")["memory_mb"]``.
    The key ``config_options`` is always missing. Sources: nova's developer documentation of these
    releases, and the observed behaviour of nova 34.
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
    spread: Spread | None = field(default=None, repr=False, compare=False)
    #: The flavors of the cloud, only for plugins that read them (``reads_flavors``).
    cloud_flavors: tuple[Flavor, ...] = field(default=(), repr=False, compare=False)
    _document: Document = field(default_factory=dict, repr=False, compare=False)
    _hardware: RequestedHardware | None = field(default=None, repr=False, compare=False)
    _read_cache: dict[Any, tuple[object, Any]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def as_document(self) -> Document:
        """Return the JSON object of the request, as decisions record it.

        Values that were derived later, such as a NUMA topology, are not part of it.
        """
        return self._document

    def with_group(self, group: ServerGroup) -> Self:
        """Return the request with the current members of its server group."""
        document = {**self._document, "instance_group": group.as_document()}
        return replace(self, instance_group=group, _document=document)

    @property
    def hardware(self) -> RequestedHardware:
        """Return the requested hardware, cached for this request."""
        hardware = self._hardware
        if (
            hardware is None
            or hardware.flavor is not self.flavor
            or hardware.image is not self.image
        ):
            hardware = RequestedHardware(self.flavor, self.image)
            object.__setattr__(self, "_hardware", hardware)
        return hardware

    def read_once(self, part: RequestPart, read: Callable[[RequestPart], T]) -> T:
        """Return ``read(part)``, called once for all copies of the request.

        A list of thousands of items is thus not read again for each host, instance or filter.
        """
        key = read, id(part)
        entry = self._read_cache.get(key)
        if entry is None or entry[0] is not part:
            if len(self._read_cache) >= _MAX_CACHED_PARTS:
                self._read_cache.clear()
            entry = self._read_cache[key] = part, read(part)
        result: T = entry[1]
        return result

    def clear_read_cache(self) -> None:
        """Clear the cache of :meth:`read_once` after changes of the request."""
        self._read_cache.clear()

    def get_scheduler_hint(self, name: str, default: Any = None) -> Any:
        """Return the value of a hint, or a list if it has several values."""
        values = self.scheduler_hints.get(name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else values

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a key of ``filter_properties``, or ``default``."""
        read = _FILTER_PROPERTIES.get(name)
        value = None if read is None else read(self)
        return default if value is None else value

    def __getitem__(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: str) -> bool:
        return self.obj_attr_is_set(name) or self.get(name) is not None

    def obj_clone(self) -> Self:
        """Return a deep copy, as nova's objects do."""
        return deepcopy(self)

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether the attribute exists, as on nova's objects."""
        return hasattr(self, name)

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """Return the dictionary ``filter_properties["request_spec"]``."""
        image = {name: getattr(self.image, name) for name in _IMAGE_KEYS}
        return {
            "num_instances": self.num_instances,
            "instance_uuids": list(self.instance_uuids),
            "instance_type": self.flavor,
            "image": {**image, "properties": self.image.properties.to_dict()},
            "instance_properties": {
                "uuid": self.instance_uuid,
                "host": read_host(self.instance_uuid),
                **{name: getattr(self, name) for name in _INSTANCE_KEYS},
            },
        }

    def to_legacy_filter_properties_dict(self) -> dict[str, Any]:
        """Return ``filter_properties`` with only the keys that current nova has."""
        values = {name: read(self) for name, read in _NOVA_FILTER_PROPERTIES.items()}
        return {name: value for name, value in values.items() if value not in (None, {})}

    @property
    def is_rebuild(self) -> bool:
        """Return whether nova's hint marks the request as a rebuild."""
        return self.scheduler_hints.get(REBUILD_HINT) == ["rebuild"]

    def with_group_member_on(self, host: str) -> Self:
        """Return a copy whose group has the current instance on ``host``."""
        group = self.instance_group
        if group is None:
            return self
        new = () if self.instance_uuid is None else (self.instance_uuid,)
        spread = None if self.spread is None else self.spread.with_member_on(host)
        return replace(self, instance_group=group.with_members(new, (host,)), spread=spread)

    def with_instance(self, uuid: str | None) -> Self:
        """Return a copy with another current instance."""
        return replace(self, instance_uuid=uuid)

    @property
    def destination(self) -> Destination:
        """Return the requested destination, or an empty destination."""
        return self.requested_destination or Destination()

    @property
    def _context(self) -> RequestContext:
        """Return the request context, under nova's name, for plugins."""
        owner = self.user_id, self.project_id
        entry = self._read_cache.get("context")
        if entry is None or entry[0] != owner:
            entry = self._read_cache["context"] = owner, build_context(*owner)
        context: RequestContext = entry[1]
        return context

    @property
    def swap(self) -> int:
        """Return the flavor's swap in MB."""
        return self.flavor.swap

    @property
    def root_required(self) -> frozenset[str]:
        """Return the required traits of the root provider."""
        return self.request_level_params.root_required

    @property
    def root_forbidden(self) -> frozenset[str]:
        """Return the forbidden traits of the root provider."""
        return self.request_level_params.root_forbidden

    @property
    def same_subtree(self) -> tuple[tuple[str, ...], ...]:
        """Return the suffixes of groups that must be in the same subtree."""
        return self.request_level_params.same_subtree


_IMAGE_KEYS = ("id", "name", "disk_format", "container_format", "min_ram", "min_disk")
_SIZE_KEYS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_OWNER_KEYS = ("project_id", "user_id", "availability_zone")
_INSTANCE_KEYS = (*_OWNER_KEYS, *_SIZE_KEYS, "numa_topology", "pci_requests")
_Reader = Callable[[RequestSpec], Any]


def _map_limits(spec: RequestSpec) -> dict[str, Any]:
    names = ("vcpu", "memory_mb", "disk_gb", "numa_topology")
    values = {name: getattr(spec.limits, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _map_retry(spec: RequestSpec) -> dict[str, Any] | None:
    if spec.retry is None:
        return None
    hosts = [[tried.host, tried.hypervisor_hostname] for tried in spec.retry.hosts]
    return {"num_attempts": spec.retry.num_attempts, "hosts": hosts}


def _read_group(read: Callable[[ServerGroup], Any]) -> _Reader:
    return lambda spec: None if spec.instance_group is None else read(spec.instance_group)


#: The keys of ``filter_properties`` that current nova has (None: the request has no such value).
#: Hints and limits are always set, because old filters write limits, and read hints without a test.
_NOVA_FILTER_PROPERTIES: Mapping[str, _Reader] = {
    "scheduler_hints": lambda spec: {
        name: spec.get_scheduler_hint(name) for name in spec.scheduler_hints
    },
    "ignore_hosts": lambda spec: list(spec.ignore_hosts) or None,
    "force_hosts": lambda spec: list(spec.force_hosts) or None,
    "force_nodes": lambda spec: list(spec.force_nodes) or None,
    "retry": _map_retry,
    "limits": _map_limits,
    "group_updated": _read_group(lambda _: True),
    "group_uuid": _read_group(lambda group: group.uuid),
    "group_hosts": _read_group(lambda group: set(group.hosts)),
    "group_members": _read_group(lambda group: set(group.members)),
    "group_policies": _read_group(lambda group: set(group.policies)),
    "requested_destination": attrgetter("requested_destination"),
}
_FILTER_PROPERTIES: Mapping[str, _Reader] = {
    **_NOVA_FILTER_PROPERTIES,
    "context": attrgetter("_context"),
    "request_spec": RequestSpec.to_legacy_request_spec_dict,
    "instance_type": attrgetter("flavor"),
    "instance_uuids": lambda spec: list(spec.instance_uuids) or None,
    "os_type": lambda spec: spec.image.properties.get("os_type"),
    **{name: attrgetter(name) for name in (*_OWNER_KEYS, "num_instances", "pci_requests")},
}


def parse_request_spec(document: Document) -> RequestSpec:
    """Read a request spec from a JSON object that conforms to its schema.

    The caller must have replaced names of stored objects by the objects. Raises :class:`Invalid`
    for the name of a server group, and :class:`NotFound` for the name of a flavor or image. Also
    raises :class:`Invalid` for an invalid image property and a repeated instance.
    """
    uuids = tuple(map(canonicalize_uuid, document.get("instance_uuids") or ()))
    if repeated := next((uuid for uuid, number in Counter(uuids).items() if number > 1), None):
        raise Invalid(f"instance {repeated} is repeated", json_path="$.request_spec.instance_uuids")
    group = document.get("instance_group")
    if isinstance(group, str):
        raise Invalid(
            f"There is no server group {group}", json_path="$.request_spec.instance_group"
        )
    hints = document.get("scheduler_hints") or {}
    values = {name: document[name] for name in _COPIED_KEYS if document.get(name) is not None}
    lists: dict[str, Any] = {name: tuple(document.get(name) or ()) for name in _LIST_KEYS}
    if ":" in values.get("availability_zone", ""):
        _force_by_zone(values, lists)
    return RequestSpec(
        **values,
        **lists,
        flavor=Flavor.from_document(_require_object(document, "flavor") or {}),
        image=Image.from_document(_require_object(document, "image")),
        num_instances=len(uuids) or document.get("num_instances") or 1,
        instance_uuids=uuids,
        instance_uuid=uuids[0] if uuids else document.get("instance_uuid"),
        requested_destination=_build_optional(
            Destination.from_document, document.get("requested_destination") or None
        ),
        retry=_build_optional(Retry.from_document, document.get("retry")),
        limits=Limits(**document["limits"]) if document.get("limits") else None,
        instance_group=_build_optional(ServerGroup.from_document, group),
        # Lists of strings, as in nova, also for a single string.
        scheduler_hints={
            name: [hint] if isinstance(hint, str) else list(hint) for name, hint in hints.items()
        },
        requested_resources=tuple(
            map(RequestedGroup.from_document, document.get("requested_resources") or ())
        ),
        numa_topology=_build_optional(
            InstanceNUMATopology.from_document, document.get("numa_topology")
        ),
        pci_requests=_build_optional(
            InstancePCIRequests.from_document, document.get("pci_requests")
        ),
        requested_networks=tuple(
            map(NetworkRequest.from_document, document.get("requested_networks") or ())
        ),
        request_level_params=RequestLevelParams.from_document(
            document.get("request_level_params") or {}
        ),
        _document=document,
    )


_COPIED_KEYS = ("project_id", "user_id", "is_bfv", "availability_zone", "network_metadata")
_LIST_KEYS = ("ignore_hosts", "force_hosts", "force_nodes", "security_groups")


def _force_by_zone(values: dict[str, Any], lists: dict[str, Any]) -> None:
    """Split ``ZONE:HOST``, ``ZONE:HOST:NODE`` or ``ZONE::NODE`` in parts."""
    text = values["availability_zone"]
    zone, host, *nodes = text.split(":")
    if len(nodes) > 1:
        json_path = "$.request_spec.availability_zone"
        raise Invalid(f"{text!r} does not have the form ZONE:HOST:NODE", json_path=json_path)
    forced = {"force_hosts": (host,), "force_nodes": tuple(nodes)}
    lists |= {name: names for name, names in forced.items() if any(names)}
    values["availability_zone"] = None if host or any(nodes) else zone


def _require_object(document: Document, noun: str) -> Document | None:
    value = document.get(noun)
    if isinstance(value, str):
        raise NotFound(f"There is no stored {noun} {value!r}. Give the {noun} as an object.")
    return value


def _build_optional(make: Callable[[Document], T], document: Document | None) -> T | None:
    return None if document is None else make(document)

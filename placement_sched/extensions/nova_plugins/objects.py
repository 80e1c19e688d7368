# SPDX-License-Identifier: Apache-2.0
"""Look-ups in ``nova.objects``, ``nova.db``, ``nova.availability_zones``.

Results are objects of this service, with nova's attribute names. They cannot be saved.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from placement_sched.config.conf import CONF
from placement_sched.extensions.nova_plugins import exception
from placement_sched.extensions.nova_plugins.lookups import get_lookups
from placement_sched.extensions.nova_plugins.missing import build_missing_error
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.aggregates import ServerGroup as _ServerGroup
from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.model.compute_node import ComputeNode as _ComputeNode
from placement_sched.model.document import PluginValue
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image as ImageMeta
from placement_sched.model.image import ImageProperties as ImageMetaProps
from placement_sched.model.instance import HostInstance, NovaCell
from placement_sched.model.request_spec import Destination, RequestSpec
from placement_sched.scheduler.host_state import OLDEST_SERVICE_VERSION

__all__ = ["Destination", "Flavor", "ImageMeta", "ImageMetaProps", "RequestSpec"]

T = TypeVar("T")


def register_all() -> None:
    """Do nothing, because all objects are already registered."""


class ObjectList(list[Any], PluginValue):
    """A list of objects, with nova's attribute ``objects``."""

    def __init__(self, items: Any = (), *, objects: Iterable[Any] | None = None) -> None:
        """Create a list of items, or of ``objects`` after a context as in nova."""
        super().__init__(items if objects is None else objects)

    @property
    def objects(self) -> list[Any]:
        """Return the list."""
        return self


def _require_first(matches: Iterable[T], error: str, name: object) -> T:
    """Return the first object, or raise nova's exception named ``error``."""
    return require_object(next(iter(matches), None), error, name)


def require_object(item: T | None, error: str, name: object) -> T:
    """Return an object, or raise nova's exception ``error`` for None."""
    if item is None:
        raise getattr(exception, error)(f"{error}: {name} could not be found.")
    return item


class Aggregate(HostAggregate):
    """Host aggregates by id or uuid."""

    @staticmethod
    def get_by_id(context: Any, aggregate_id: int) -> HostAggregate:
        """Return an aggregate by its id."""
        matches = (each for each in get_lookups().aggregates if each.id == aggregate_id)
        return _require_first(matches, "AggregateNotFound", aggregate_id)

    @staticmethod
    def get_by_uuid(context: Any, aggregate_uuid: str) -> HostAggregate:
        """Return an aggregate by its uuid."""
        matches = (each for each in get_lookups().aggregates if each.uuid == aggregate_uuid)
        return _require_first(matches, "AggregateNotFound", aggregate_uuid)


class AggregateList(ObjectList):
    """Host aggregates."""

    @classmethod
    def get_all(cls, context: Any) -> "AggregateList":
        """Return all aggregates."""
        return cls(get_lookups().aggregates)

    @classmethod
    def get_by_host(cls, context: Any, host: str, key: str | None = None) -> "AggregateList":
        """Return the aggregates of a host, with ``key`` in their metadata if set."""
        matches = get_lookups().aggregates_of(host)
        return cls(each for each in matches if key is None or key in each.metadata)

    @classmethod
    def get_by_metadata_key(
        cls, context: Any, key: str, hosts: Iterable[str] | None = None
    ) -> "AggregateList":
        """Return the aggregates with a metadata key and any of these hosts."""
        host_names = None if hosts is None else set(hosts)
        matches = (each for each in get_lookups().aggregates if key in each.metadata)
        return cls(each for each in matches if host_names is None or host_names & each.hosts)

    @classmethod
    def get_by_metadata(
        cls, context: Any, key: str | None = None, value: str | None = None
    ) -> "AggregateList":
        """Return the aggregates with this metadata key and value (None: any)."""
        return cls(
            each
            for each in get_lookups().aggregates
            if (key is None or key in each.metadata)
            and (
                value is None
                or value in ([each.metadata.get(key)] if key else each.metadata.values())
            )
        )


class ComputeNode(_ComputeNode):
    """Compute nodes by uuid or name."""

    @staticmethod
    def get_by_uuid(context: Any, uuid: str) -> _ComputeNode:
        """Return a node by its uuid."""
        return require_object(get_lookups().nodes.get(str(uuid)), "ComputeHostNotFound", uuid)

    @staticmethod
    def get_by_host_and_nodename(context: Any, host: str, nodename: str) -> _ComputeNode:
        """Return a node by its host and hypervisor hostname."""
        nodes = get_lookups().nodes_of(host)
        matches = (node for node in nodes if node.hypervisor_hostname == nodename)
        return _require_first(matches, "ComputeHostNotFound", host)

    @staticmethod
    def get_first_node_by_host_for_old_compat(context: Any, host: str) -> _ComputeNode:
        """Return the first node of a host."""
        return _require_first(get_lookups().nodes_of(host), "ComputeHostNotFound", host)


class ComputeNodeList(ObjectList):
    """Compute nodes."""

    @classmethod
    def get_all(cls, context: Any) -> "ComputeNodeList":
        """Return all nodes."""
        return cls(get_lookups().all_nodes())

    @classmethod
    def get_all_by_host(cls, context: Any, host: str) -> "ComputeNodeList":
        """Return the nodes of a host."""
        nodes = get_lookups().nodes_of(host)
        _require_first(nodes, "ComputeHostNotFound", host)
        return cls(nodes)


class Service(PluginValue):
    """Compute services by host."""

    @staticmethod
    def get_by_compute_host(context: Any, host: str) -> Any:
        """Return the nova-compute service of a host."""
        return require_object(get_lookups().services.get(host), "ComputeHostNotFound", host)

    @staticmethod
    def get_minimum_version(context: Any, binary: str, use_slave: bool = False) -> int:
        """Return the lowest version of the services of a binary, or 0.

        Only the versions of nova-compute are recorded, and as in nova, services that are forced
        down do not count.
        """
        return get_lookups().minimum_version if binary == COMPUTE_BINARY else OLDEST_SERVICE_VERSION


class ServiceList(ObjectList):
    """Services of hosts."""

    @classmethod
    def get_all(
        cls, context: Any, disabled: bool | None = None, set_zones: bool = False
    ) -> "ServiceList":
        """Return the nova-compute services, or the disabled or enabled services."""
        services = filter(None, map(get_lookups().services.get, sorted(get_lookups().host_names)))
        return cls(each for each in services if disabled in {None, each.disabled})

    @classmethod
    def get_by_binary(
        cls, context: Any, binary: str, include_disabled: bool = False
    ) -> "ServiceList":
        """Return the services of a binary."""
        services = cls.get_all(context, None if include_disabled else False)
        return cls(each for each in services if each.binary == binary)


class Instance(HostInstance):
    """Instances by uuid."""

    @staticmethod
    def get_by_uuid(context: Any, uuid: str, expected_attrs: Any = None) -> HostInstance:
        """Return a recorded instance."""
        return require_object(get_lookups().instance(uuid), "InstanceNotFound", uuid)


class InstanceList(ObjectList):
    """Instances on a host."""

    @classmethod
    def get_by_host(
        cls, context: Any, host: str, expected_attrs: Any = None, use_slave: bool = False
    ) -> "InstanceList":
        """Return the recorded instances on a host."""
        return cls(get_lookups().instances_on(host))

    @classmethod
    def get_by_filters(
        cls, context: Any, filters: Mapping[str, Any], *_arguments: Any, **_named: Any
    ) -> "InstanceList":
        """Return the recorded instances on hosts whose fields have these values.

        A list allows any of its values. Raises :class:`AttributeError` for an unknown field.
        """
        conditions = {key: value for key, value in filters.items() if key != "deleted"}
        for key in conditions.keys() - HostInstance.__dataclass_fields__.keys():
            raise build_missing_error(f"nova.objects.InstanceList.get_by_filters({key})")
        lookups = get_lookups()
        instances = (each for host in lookups.host_names for each in lookups.instances_on(host))
        return cls(
            instance
            for instance in instances
            if not filters.get("deleted")
            and all(
                getattr(instance, key) in (value if isinstance(value, list | set) else [value])
                for key, value in conditions.items()
            )
        )

    def fill_metadata(self) -> None:
        """Do nothing, because metadata are read on first use."""

    @classmethod
    def get_uuids_by_host(cls, context: Any, host: str) -> list[str]:
        """Return the uuids of the recorded instances on a host."""
        return [instance.uuid for instance in get_lookups().instances_on(host)]


class InstanceGroup(_ServerGroup):
    """Server groups by uuid, instance or hint."""

    @staticmethod
    def get_by_uuid(context: Any, uuid: str) -> _ServerGroup:
        """Return a group with its members and their hosts."""
        return require_object(get_lookups().groups.get(uuid), "InstanceGroupNotFound", uuid)

    @staticmethod
    def get_by_instance_uuid(context: Any, instance_uuid: str) -> _ServerGroup:
        """Return the group of an instance."""
        group = get_lookups().group_of_instance(instance_uuid)
        return require_object(group, "InstanceGroupNotFound", instance_uuid)

    @classmethod
    def get_by_hint(cls, context: Any, hint: str) -> _ServerGroup:
        """Return the group whose uuid or name is the hint."""
        groups = get_lookups().named_groups
        named = (uuid for uuid, group in groups.items() if group.name == hint)
        return cls.get_by_uuid(context, hint if hint in groups else next(named, hint))


@dataclass(frozen=True)
class CellMapping(PluginValue):
    """A cell of nova."""

    uuid: str
    name: str | None = None
    disabled: bool = False

    @classmethod
    def get_by_uuid(cls, context: Any, uuid: str | None) -> "CellMapping":
        """Return a cell by its uuid."""
        cell = get_lookups().cells.get(uuid or "") or NovaCell(uuid=uuid or "")
        return cls(cell.uuid, cell.name, cell.disabled)


class CellMappingList(ObjectList):
    """The cells of nova."""

    @classmethod
    def get_all(cls, context: Any) -> "CellMappingList":
        """Return the recorded cells."""
        return cls(CellMapping.get_by_uuid(context, uuid) for uuid in sorted(get_lookups().cells))


@dataclass(frozen=True)
class HostMapping(PluginValue):
    """The cell of a host."""

    host: str
    cell_mapping: CellMapping

    @classmethod
    def get_by_host(cls, context: Any, host: str) -> "HostMapping":
        """Return the mapping of a host."""
        node = _require_first(get_lookups().nodes_of(host), "HostMappingNotFound", host)
        return cls(host, CellMapping.get_by_uuid(context, node.cell_uuid))


@dataclass(frozen=True)
class InstanceMapping(PluginValue):
    """The cell of an instance."""

    instance_uuid: str
    cell_mapping: CellMapping | None

    @classmethod
    def get_by_instance_uuid(cls, context: Any, instance_uuid: str) -> "InstanceMapping":
        """Return the mapping of an instance."""
        match = get_lookups().instance(instance_uuid)
        instance = require_object(match, "InstanceMappingNotFound", instance_uuid)
        if instance.host is None:
            return cls(instance_uuid, None)
        return cls(instance_uuid, HostMapping.get_by_host(context, instance.host).cell_mapping)


# Functions of nova.db that are methods of objects in later releases.
aggregate_get_all = AggregateList.get_all
aggregate_get_by_host = AggregateList.get_by_host
compute_node_get_all = ComputeNodeList.get_all
service_get_by_compute_host = Service.get_by_compute_host


def aggregate_metadata_get_by_host(
    context: Any, host: str, key: str | None = None
) -> dict[str, set[str]]:
    """Map each metadata key of a host's aggregates to its values."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for aggregate in AggregateList.get_by_host(context, host, key):
        for name, value in aggregate.metadata.items():
            values[name].add(value)
    return dict(values)


def aggregate_values_from_db(context: Any, host: str, key_name: str) -> set[str]:
    """Return the values of a metadata key in the aggregates of a host."""
    return aggregate_metadata_get_by_host(context, host, key_name).get(key_name, set())


def aggregate_metadata_get_by_metadata_key(
    context: Any, aggregate_id: int, key: str
) -> dict[str, set[str]]:
    """Return the value of a metadata key of an aggregate."""
    metadata = Aggregate.get_by_id(context, aggregate_id).metadata
    return {key: {metadata[key]}} if key in metadata else {}


def aggregate_host_get_by_metadata_key(context: Any, key: str) -> dict[str, set[str]]:
    """Map each host to the values that its aggregates have for a metadata key."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for aggregate in AggregateList.get_by_metadata_key(context, key):
        for host in aggregate.hosts:
            values[host].add(aggregate.metadata[key])
    return dict(values)


def instance_get_all_by_host(
    context: Any, host: str, columns_to_join: Any = None
) -> Sequence[HostInstance]:
    """Return the recorded instances on a host."""
    return InstanceList.get_by_host(context, host)


def instance_get_by_uuid(context: Any, uuid: str, columns_to_join: Any = None) -> HostInstance:
    """Return a recorded instance."""
    return Instance.get_by_uuid(context, uuid)


def instance_metadata_get(context: Any, instance_uuid: str) -> Mapping[str, str | None]:
    """Return the metadata of a recorded instance."""
    return Instance.get_by_uuid(context, instance_uuid).metadata


def instance_system_metadata_get(context: Any, instance_uuid: str) -> Mapping[str, str | None]:
    """Return the system metadata of a recorded instance."""
    return Instance.get_by_uuid(context, instance_uuid).system_metadata


def get_host_availability_zone(context: Any, host: str) -> str:
    """Return the availability zone of a host."""
    zones = aggregate_metadata_get_by_host(context, host, "availability_zone")
    return str(min(zones.get("availability_zone", {CONF.default_availability_zone})))

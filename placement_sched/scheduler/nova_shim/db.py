# SPDX-License-Identifier: Apache-2.0
"""``nova.db`` and ``nova.availability_zones``: the functions about hosts and aggregates."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from placement_sched.config.conf import CONF
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.instance import HostInstance
from placement_sched.scheduler.nova_shim import objects
from placement_sched.scheduler.nova_shim.lookups import ServiceRecord, get_cloud


def aggregate_get_all(context: Any) -> Sequence[HostAggregate]:
    """Return all host aggregates, as nova's function."""
    return get_cloud().aggregates


def aggregate_get_by_host(
    context: Any, host: str, key: str | None = None
) -> Sequence[HostAggregate]:
    """Return the aggregates of a host, restricted to a metadata key if it is given."""
    return objects.AggregateList.get_by_host(context, host, key)


def aggregate_metadata_get_by_host(
    context: Any, host: str, key: str | None = None
) -> dict[str, set[str]]:
    """Map each metadata key of a host's aggregates to its values."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for aggregate in objects.AggregateList.get_by_host(context, host, key):
        for name, value in aggregate.metadata.items():
            values[name].add(value)
    return dict(values)


def aggregate_values_from_db(context: Any, host: str, key_name: str) -> set[str]:
    """Return the values of a metadata key in a host's aggregates (nova of 2014)."""
    return aggregate_metadata_get_by_host(context, host, key_name).get(key_name, set())


def aggregate_metadata_get_by_metadata_key(
    context: Any, aggregate_id: int, key: str
) -> dict[str, set[str]]:
    """Return the value of a metadata key of an aggregate."""
    metadata = objects.Aggregate.get_by_id(context, aggregate_id).metadata
    return {key: {metadata[key]}} if key in metadata else {}


def aggregate_host_get_by_metadata_key(context: Any, key: str) -> dict[str, set[str]]:
    """Map each host to the values that its aggregates have for a metadata key."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for aggregate in objects.AggregateList.get_by_metadata_key(context, key):
        for host in aggregate.hosts:
            values[host].add(aggregate.metadata[key])
    return dict(values)


def compute_node_get_all(context: Any) -> Sequence[ComputeNode]:
    """Return all compute nodes."""
    return get_cloud().all_nodes()


def instance_get_all_by_host(
    context: Any, host: str, columns_to_join: Any = None
) -> Sequence[HostInstance]:
    """Return the recorded instances on a host."""
    return objects.InstanceList.get_by_host(context, host)


def instance_get_by_uuid(context: Any, uuid: str, columns_to_join: Any = None) -> HostInstance:
    """Return a recorded instance."""
    return objects.Instance.get_by_uuid(context, uuid)


def instance_metadata_get(context: Any, instance_uuid: str) -> Mapping[str, str | None]:
    """Return the metadata of a recorded instance."""
    return objects.Instance.get_by_uuid(context, instance_uuid).metadata


def instance_system_metadata_get(context: Any, instance_uuid: str) -> Mapping[str, str | None]:
    """Return the system metadata of a recorded instance."""
    return objects.Instance.get_by_uuid(context, instance_uuid).system_metadata


def service_get_by_compute_host(context: Any, host: str) -> ServiceRecord:
    """Return the nova-compute service of a host."""
    service: ServiceRecord = objects.Service.get_by_compute_host(context, host)
    return service


def get_host_availability_zone(context: Any, host: str) -> str:
    """Return the availability zone of a host."""
    zones = aggregate_metadata_get_by_host(context, host, "availability_zone")
    return str(min(zones.get("availability_zone", {CONF.default_availability_zone})))

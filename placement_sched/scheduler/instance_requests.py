# SPDX-License-Identifier: Apache-2.0
"""Recorded requests, completed with port resources from allocations.

Nova does not keep the port resources of an instance. If they are not recorded, the allocations of
the instance on bandwidth and packet rate providers of neutron's agents stand for them.
"""

from collections.abc import Collection, Iterable

from placement_sched.db.transaction import Connection
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.instance_request import find_unknown_facts
from placement_sched.store.compute import instances
from placement_sched.store.placement import allocations, traits

_PORTS = "requested_resources"
#: The resource classes of neutron's ports (neutron's guide, "QoS"), for example bandwidth.
_PORT_CLASSES = "NET_"
_PHYSNET, _VNIC_TYPE = "CUSTOM_PHYSNET_", "CUSTOM_VNIC_TYPE_"


def read_requests(connection: Connection, uuids: Collection[str]) -> dict[str, Json]:
    """Map the uuids of instances to their requests.

    Unknown keys are missing. Unrecorded port resources are unknown without allocations.
    """
    requests = instances.map_requests(connection, uuids)
    lacking = [uuid for uuid in uuids if _PORTS not in requests.get(uuid, {})]
    ports = _read_port_resources(connection, lacking) if lacking else {}
    return requests | {
        uuid: {**requests.get(uuid, {}), _PORTS: groups} for uuid, groups in ports.items()
    }


def map_unknown_facts(connection: Connection, uuids: Collection[str]) -> dict[str, list[str]]:
    """Map the unknown facts of requests to their instances."""
    requests = read_requests(connection, uuids)
    return group_rows(
        (fact, record.uuid)
        for record in instances.list_by_uuids(connection, uuids)
        for fact in find_unknown_facts(record, requests.get(record.uuid))
    )


def _read_port_resources(connection: Connection, uuids: Collection[str]) -> dict[str, list[Json]]:
    """Map instances with allocations to request groups of their ports."""
    rows = allocations.list_by_consumers(connection, uuids)
    by_instance = group_rows((row.consumer.uuid, row) for row in rows)
    amounts = {
        uuid: nest_rows(
            (row.provider_uuid, row.resource_class, row.used)
            for row in allocated
            if row.resource_class.startswith(_PORT_CLASSES)
        )
        for uuid, allocated in by_instance.items()
    }
    providers = {provider for by_provider in amounts.values() for provider in by_provider}
    names = traits.ASSOCIATIONS.map_by_provider_uuid(connection, providers) if providers else {}
    return {
        uuid: [
            {
                "requester_id": provider,
                "resources": resources,
                "required_traits": _select_traits(names.get(provider, ())),
            }
            for provider, resources in sorted(by_provider.items())
        ]
        for uuid, by_provider in amounts.items()
    }


def _select_traits(names: Iterable[str]) -> list[str]:
    """Select the physical network, and a vnic type without alternatives."""
    vnic_types = [name for name in names if name.startswith(_VNIC_TYPE)]
    required = [name for name in names if name.startswith(_PHYSNET)]
    return sorted(required + (vnic_types if len(vnic_types) == 1 else []))

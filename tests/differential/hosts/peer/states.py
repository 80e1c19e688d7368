# SPDX-License-Identifier: Apache-2.0
"""Nova's host states, made of reports as its host manager makes them of its databases."""

import json
from datetime import datetime

from nova import objects, utils
from nova.scheduler.host_manager import HostState

_PLAIN = (
    "uuid",
    "host",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "host_ip",
    "cpu_info",
    "vcpus",
    "vcpus_used",
    "memory_mb",
    "memory_mb_used",
    "free_ram_mb",
    "local_gb",
    "local_gb_used",
    "free_disk_gb",
    "disk_available_least",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
)


def states_of(told):
    aggregates = [
        (set(one["hosts"]), _aggregate(number, one))
        for number, one in enumerate(told["aggregates"], start=1)
    ]
    # As nova's host manager has them, the instances of a host are the same for all its nodes.
    instances = {one["report"]["host"]: {} for one in told["hosts"]}
    for each in told["instances"]:
        instances.setdefault(each["host"], {})[each["uuid"]] = _instance(each)
    return [
        _host_state(
            one["report"],
            one["service"],
            [made for hosts, made in aggregates if one["report"]["host"] in hosts],
            instances[one["report"]["host"]],
        )
        for one in told["hosts"]
    ]


def _host_state(report, service, aggregates, instances):
    state = HostState(report["host"], report["hypervisor_hostname"], report["cell_uuid"])
    state.update(_node(report), _service(report, service), aggregates, instances)
    if state.metrics is not None:
        state.metrics = objects.MonitorMetricList(
            objects=[_metric(one) for one in report["metrics"]]
        )
    return state


def _metric(told):
    if isinstance(told.get("value"), float):
        (read,) = objects.MonitorMetricList.from_json(json.dumps([told]))
        return read
    return objects.MonitorMetric(**told)


def _node(report):
    return objects.ComputeNode(
        **{name: report[name] for name in _PLAIN},
        supported_hv_specs=[objects.HVSpec.from_list(one) for one in report["supported_hv_specs"]],
        stats=report["stats"],
        metrics=None,
        pci_device_pools=_pci_pools(report["pci_device_pools"]),
        numa_topology=_numa_topology(report["numa_topology"]),
        updated_at=None,
    )


def _pci_pools(told):
    return objects.PciDevicePoolList(objects=[objects.PciDevicePool.from_dict(one) for one in told])


def _numa_topology(told):
    if told is None:
        return None
    cells = [
        objects.NUMACell(
            id=one["id"],
            cpuset=set(one["cpuset"]),
            pcpuset=set(one.get("pcpuset", ())),
            memory=one["memory"],
            cpu_usage=one.get("cpu_usage", 0),
            memory_usage=one.get("memory_usage", 0),
            pinned_cpus=set(one.get("pinned_cpus", ())),
            siblings=[set(each) for each in one.get("siblings", ())],
            mempages=[
                objects.NUMAPagesTopology(**{"used": 0, "reserved": 0, **each})
                for each in one.get("mempages", ())
            ],
            network_metadata=objects.NetworkMetadata(
                **{"physnets": set(), "tunneled": False, **(one.get("network_metadata") or {})}
            ),
            socket=one.get("socket"),
        )
        for one in told["cells"]
    ]
    return objects.NUMATopology(cells=cells)._to_json()


def _service(report, told):
    made = objects.Service(
        host=report["host"],
        binary="nova-compute",
        topic="compute",
        disabled=told["disabled"],
        disabled_reason=told["disabled_reason"],
        forced_down=told["forced_down"],
        last_seen_up=datetime.fromisoformat(told["last_seen_up"]),
        created_at=None,
    )
    return dict(made.items())


def _aggregate(number, told):
    return objects.Aggregate(id=number, hosts=told["hosts"], metadata=told["metadata"])


def _instance(told):
    image = {**(told["image"] or {})}
    return objects.Instance(
        uuid=told["uuid"],
        host=told["host"],
        project_id=told["project_id"],
        image_ref=image.get("id", ""),
        system_metadata={
            key: str(value) for key, value in utils.get_system_metadata_from_image(image).items()
        },
    )


def group_of(told):
    return objects.InstanceGroup(
        uuid="9c9c9c9c-0000-4000-8000-000000000001",
        policy=told["policy"],
        policies=[told["policy"]],
        rules={key: str(value) for key, value in (told.get("rules") or {}).items()},
        members=told["members"],
        hosts=told["hosts"],
    )

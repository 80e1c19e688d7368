# SPDX-License-Identifier: Apache-2.0
"""Nova's host states, built from reports as its host manager builds them from databases."""

import json
from datetime import datetime

from nova import objects, utils
from nova.scheduler.host_manager import HostState

_COPIED_FIELDS = (
    "uuid", "host", "hypervisor_hostname", "hypervisor_type", "hypervisor_version", "host_ip",
    "cpu_info", "vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb", "local_gb",
    "local_gb_used", "free_disk_gb", "disk_available_least", "cpu_allocation_ratio",
    "ram_allocation_ratio", "disk_allocation_ratio",
)  # fmt: skip


def build_host_states(document):
    aggregates = [
        (set(item["hosts"]), _build_aggregate(number, item))
        for number, item in enumerate(document["aggregates"], start=1)
    ]
    # In nova's host manager, all nodes of a host have the same instances.
    instances = {host["report"]["host"]: {} for host in document["hosts"]}
    for each in document["instances"]:
        instances.setdefault(each["host"], {})[each["uuid"]] = _build_instance(each)
    return [
        _build_host_state(
            host["report"],
            host["service"],
            [aggregate for hosts, aggregate in aggregates if host["report"]["host"] in hosts],
            instances[host["report"]["host"]],
        )
        for host in document["hosts"]
    ]


def _build_host_state(report, service, aggregates, instances):
    state = HostState(report["host"], report["hypervisor_hostname"], report["cell_uuid"])
    state.update(_build_node(report), _build_service(report, service), aggregates, instances)
    if state.metrics is not None:
        state.metrics = objects.MonitorMetricList(
            objects=[_build_metric(metric) for metric in report["metrics"]]
        )
    return state


def _build_metric(document):
    if isinstance(document.get("value"), float):
        (metric,) = objects.MonitorMetricList.from_json(json.dumps([document]))
        return metric
    return objects.MonitorMetric(**document)


def _build_node(report):
    return objects.ComputeNode(
        **{name: report[name] for name in _COPIED_FIELDS},
        supported_hv_specs=[
            objects.HVSpec.from_list(spec) for spec in report["supported_hv_specs"]
        ],
        stats=report["stats"],
        metrics=None,
        pci_device_pools=objects.PciDevicePoolList(objects=[]),
        numa_topology=None,
        updated_at=None,
    )


def _build_service(report, document):
    service = objects.Service(
        host=report["host"],
        binary="nova-compute",
        topic="compute",
        disabled=document["disabled"],
        disabled_reason=document["disabled_reason"],
        forced_down=document["forced_down"],
        last_seen_up=datetime.fromisoformat(document["last_seen_up"]),
        created_at=None,
    )
    return dict(service.items())


def _build_aggregate(number, document):
    return objects.Aggregate(id=number, hosts=document["hosts"], metadata=document["metadata"])


def _build_instance(document):
    image = {**(document["image"] or {})}
    return objects.Instance(
        uuid=document["uuid"],
        host=document["host"],
        project_id=document["project_id"],
        image_ref=image.get("id", ""),
        system_metadata={
            key: str(value) for key, value in utils.get_system_metadata_from_image(image).items()
        },
    )


def build_instance_group(document):
    return objects.InstanceGroup(
        uuid="9c9c9c9c-0000-4000-8000-000000000001",
        policy=document["policy"],
        policies=[document["policy"]],
        rules={key: str(value) for key, value in (document.get("rules") or {}).items()},
        members=document["members"],
        hosts=document["hosts"],
    )

# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference: requests to the application and their responses.

``python -m tests.docs.samples`` sends the request samples of ``api-ref/source/samples`` and writes
the responses next to them. ``test_samples.py`` compares the files with new responses.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.db.transaction import Database
from placement_sched.extensions.what_if.violations.task import VIOLATION_THREAD
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.support.concurrency import join_threads
from tests.support.versions import LATEST

SAMPLES_FOLDER = Path(__file__).parents[2] / "api-ref" / "source" / "samples"

SAMPLE_TIME = datetime(2026, 1, 1, 12, 0, 0)

CN1_UUID = "7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c01"
CN2_UUID = "7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c02"
WIN1_UUID = "7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c0a"
NFS_SHARE_UUID = "c3a1f1de-6a0b-4a63-9b3e-2f6f0d0c9e11"
GPU_UUID = "c3a1f1de-6a0b-4a63-9b3e-2f6f0d0c9e12"
AGGREGATE_UUID = "5f0d5a52-8a4e-4b0b-8c29-8a1b6c4f7e21"
CONSUMER_UUID = "b41d1f2e-7f0e-4bb6-9a38-6a5c2d3e4f01"
UNKNOWN_UUID = "b41d1f2e-7f0e-4bb6-9a38-6a5c2d3e4f02"
INSTANCE_UUID = "e0c5b3a2-1d4f-4e6a-8b7c-9d0e1f2a3b41"
RECORDED_INSTANCE = "e0c5b3a2-1d4f-4e6a-8b7c-9d0e1f2a3b42"
SECOND_INSTANCE = "e0c5b3a2-1d4f-4e6a-8b7c-9d0e1f2a3b43"
MIGRATION_UUID = "e0c5b3a2-1d4f-4e6a-8b7c-9d0e1f2a3b44"
IMAGE_UUID = "3d1a9c7e-5b2f-4f8d-a6e4-0c9b8a7d6e51"
PROJECT_ID = "6f70656e737461636b20697320616c6c"
GLOBAL_REQUEST_ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
USER_ID = "a2d4c6e8f0b1a3c5d7e9f1b2a4c6d8e0"


def read_request(name: str) -> Any:
    """Return the body of the request sample of this name, or None."""
    path = SAMPLES_FOLDER / f"{name}-request.json"
    return json.loads(path.read_text()) if name and path.exists() else None


_NODE_REPORT = read_request("scheduler/compute_nodes-report")
_ALLOCATIONS_BODY = read_request("placement/allocations-put")
_REQUEST_SPEC = read_request("scheduler/select_destinations")["request_spec"]
_FLAVOR = _REQUEST_SPEC["flavor"]
_HUGE_FLAVOR = {**_FLAVOR, "name": "m1.huge", "memory_mb": 262144}
_IMPOSSIBLE_REQUEST = {
    "request_spec": {**_REQUEST_SPEC, "instance_uuids": [UNKNOWN_UUID], "flavor": _HUGE_FLAVOR}
}

_PROVIDERS = "/placement/resource_providers"
_SCHEDULER = "/scheduler/v1"
_AGGREGATES = "/compute/v2.1/os-aggregates"
_IMAGES = "/image/v2/images"
_FLAVORS = "/compute/v2.1/flavors"
_SERVERS = "/compute/v2.1/servers"
_SERVER_GROUPS = "/compute/v2.1/os-server-groups"
_SERVICES = "/compute/v2.1/os-services"
_HYPERVISORS = "/compute/v2.1/os-hypervisors"
_MIGRATIONS = "/compute/v2.1/os-migrations"
_CN2_SERVICE = {"host": "cn2", "binary": "nova-compute"}
_INSTANCE_ON_CN2 = {
    "host": "cn2",
    "node": "cn2.example.org",
    "project_id": PROJECT_ID,
    "user_id": USER_ID,
}
_FLAVOR_RESOURCES = {"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 40}


@dataclass(frozen=True)
class Sample:
    """A request, whose response becomes a sample if it has a name.

    Without ``body``, the request sample of the name is sent, if it exists.
    In a path, ``<id>`` is the id of the last object in the list of the previous response.
    ``compute`` is the microversion of the compute API.
    """

    name: str
    method: str
    path: str
    body: Any = None
    status: int = 200
    content_type: str = "application/json"
    compute: str = "2.100"


SAMPLES = (
    Sample("root-show", "GET", "/"),
    Sample("health-live", "GET", "/healthz"),
    Sample("health-ready", "GET", "/healthz/ready"),
    Sample("placement/root-show", "GET", "/placement"),
    Sample("compute/versions-list", "GET", "/compute"),
    Sample("compute/versions-show", "GET", "/compute/v2.1"),
    Sample("image/versions-list", "GET", "/image/v2"),
    Sample("identity/versions-list", "GET", "/identity", status=300),
    Sample("identity/versions-show", "GET", "/identity/v3"),
    Sample("identity/versions-reject", "GET", "/identity/v3/projects", status=403),
    Sample("scheduler/root-show", "GET", f"{_SCHEDULER}"),
    # Hosts report
    Sample("scheduler/compute_nodes-report_many", "POST", f"{_SCHEDULER}/compute_nodes"),
    Sample("scheduler/compute_nodes-report", "PUT", f"{_SCHEDULER}/compute_nodes/{CN1_UUID}"),
    Sample("scheduler/compute_nodes-show", "GET", f"{_SCHEDULER}/compute_nodes/{CN1_UUID}"),
    Sample("scheduler/compute_nodes-list", "GET", f"{_SCHEDULER}/compute_nodes?limit=1"),
    Sample(
        "scheduler/compute_nodes-error",
        "PUT",
        f"{_SCHEDULER}/compute_nodes/{CN1_UUID}",
        {**_NODE_REPORT, "vcpus": "many"},
        status=400,
    ),
    # Host aggregates
    Sample("compute/os_aggregates-create", "POST", _AGGREGATES),
    Sample("compute/os_aggregates-update", "PUT", f"{_AGGREGATES}/1"),
    Sample("compute/os_aggregates-set_metadata", "POST", f"{_AGGREGATES}/1/action"),
    Sample("", "POST", f"{_AGGREGATES}/1/action", {"add_host": {"host": "cn2"}}),
    Sample("compute/os_aggregates-remove_host", "POST", f"{_AGGREGATES}/1/action"),
    Sample("compute/os_aggregates-add_host", "POST", f"{_AGGREGATES}/1/action"),
    Sample("compute/os_aggregates-show", "GET", f"{_AGGREGATES}/1"),
    Sample("compute/os_aggregates-list", "GET", _AGGREGATES),
    Sample("compute/os_aggregates-images", "POST", f"{_AGGREGATES}/1/images", status=202),
    Sample("compute/os_aggregates-error", "GET", f"{_AGGREGATES}/99", status=404),
    # Flavors
    Sample("compute/flavors-create", "POST", _FLAVORS),
    Sample(
        "",
        "POST",
        _FLAVORS,
        {"flavor": {"id": "1", "name": "m1.tiny", "ram": 512, "vcpus": 1, "disk": 1}},
    ),
    Sample("compute/os_extra_specs-create", "POST", f"{_FLAVORS}/win/os-extra_specs"),
    Sample("compute/os_extra_specs-update", "PUT", f"{_FLAVORS}/win/os-extra_specs/hw:cpu_sockets"),
    Sample("compute/os_extra_specs-show", "GET", f"{_FLAVORS}/win/os-extra_specs/hw:cpu_sockets"),
    Sample("", "DELETE", f"{_FLAVORS}/win/os-extra_specs/hw:cpu_sockets"),
    Sample("compute/os_extra_specs-list", "GET", f"{_FLAVORS}/win/os-extra_specs"),
    Sample(
        "compute/os_extra_specs-error",
        "PUT",
        f"{_FLAVORS}/win/os-extra_specs/hw:cpu_policy",
        {"hw:cpu_policy": "pinned"},
        status=400,
    ),
    Sample("compute/flavors-update", "PUT", f"{_FLAVORS}/win"),
    Sample("compute/flavors-add_tenant_access", "POST", f"{_FLAVORS}/win/action"),
    Sample("compute/flavors-access", "GET", f"{_FLAVORS}/win/os-flavor-access"),
    Sample("compute/flavors-show", "GET", f"{_FLAVORS}/win"),
    Sample("compute/flavors-list", "GET", f"{_FLAVORS}?is_public=none&limit=1"),
    Sample("compute/flavors-detail", "GET", f"{_FLAVORS}/detail?is_public=none"),
    Sample("compute/flavors-remove_tenant_access", "POST", f"{_FLAVORS}/win/action"),
    Sample("compute/flavors-error", "GET", f"{_FLAVORS}/m1.huge", status=404),
    # Placement by hand
    Sample("", "POST", _PROVIDERS, {"uuid": NFS_SHARE_UUID, "name": "nfs-share"}),
    Sample("placement/resource_providers-create_child", "POST", _PROVIDERS),
    Sample("placement/resource_providers-show", "GET", f"{_PROVIDERS}/{GPU_UUID}"),
    Sample("placement/resource_providers-update", "PUT", f"{_PROVIDERS}/{NFS_SHARE_UUID}"),
    Sample(
        "placement/resource_providers-list",
        "GET",
        f"{_PROVIDERS}?in_tree={CN1_UUID}&resources=VCPU:4,MEMORY_MB:8192",
    ),
    Sample("placement/error", "GET", f"{_PROVIDERS}/{UNKNOWN_UUID}", status=404),
    Sample("placement/resource_classes-create", "POST", "/placement/resource_classes", status=201),
    Sample("placement/resource_classes-show", "GET", "/placement/resource_classes/CUSTOM_FPGA"),
    Sample("placement/resource_classes-list", "GET", "/placement/resource_classes"),
    Sample(
        "placement/inventories-create",
        "POST",
        f"{_PROVIDERS}/{NFS_SHARE_UUID}/inventories",
        status=201,
    ),
    Sample("placement/inventories-replace", "PUT", f"{_PROVIDERS}/{GPU_UUID}/inventories"),
    Sample("placement/inventories-update", "PUT", f"{_PROVIDERS}/{GPU_UUID}/inventories/VGPU"),
    Sample("placement/inventories-list", "GET", f"{_PROVIDERS}/{CN1_UUID}/inventories"),
    Sample("placement/inventories-show", "GET", f"{_PROVIDERS}/{GPU_UUID}/inventories/VGPU"),
    Sample("", "PUT", "/placement/traits/CUSTOM_LICENSED_WINDOWS", status=201),
    Sample("placement/traits-list", "GET", "/placement/traits?name=startswith:HW_CPU_X86_AVX512V"),
    Sample("placement/traits-replace", "PUT", f"{_PROVIDERS}/{WIN1_UUID}/traits"),
    Sample("placement/traits-of_provider", "GET", f"{_PROVIDERS}/{WIN1_UUID}/traits"),
    Sample("scheduler/hosts-list", "GET", f"{_SCHEDULER}/hosts?zone=nova&search=1"),
    Sample("scheduler/overview-show", "GET", f"{_SCHEDULER}/overview"),
    Sample("placement/aggregates-replace", "PUT", f"{_PROVIDERS}/{NFS_SHARE_UUID}/aggregates"),
    Sample("placement/aggregates-list", "GET", f"{_PROVIDERS}/{NFS_SHARE_UUID}/aggregates"),
    Sample(
        "placement/allocation_candidates-list",
        "GET",
        "/placement/allocation_candidates?resources=VCPU:4,MEMORY_MB:8192"
        f"&required=CUSTOM_LICENSED_WINDOWS&member_of=!in:{AGGREGATE_UUID}&limit=10",
    ),
    Sample(
        "placement/allocation_candidates-granular",
        "GET",
        "/placement/allocation_candidates?resources=VCPU:4,MEMORY_MB:8192"
        "&resources_GPU=VGPU:1&group_policy=none",
    ),
    Sample(
        "placement/allocations-put", "PUT", f"/placement/allocations/{CONSUMER_UUID}", status=204
    ),
    Sample("placement/allocations-show", "GET", f"/placement/allocations/{CONSUMER_UUID}"),
    Sample(
        "placement/allocations-conflict",
        "PUT",
        f"/placement/allocations/{CONSUMER_UUID}",
        {**_ALLOCATIONS_BODY, "allocations": {CN1_UUID: {"resources": {"VCPU": 2}}}},
        status=409,
    ),
    Sample("placement/allocations-post", "POST", "/placement/allocations", status=204),
    Sample("placement/allocations-of_provider", "GET", f"{_PROVIDERS}/{CN2_UUID}/allocations"),
    Sample("placement/usages-of_provider", "GET", f"{_PROVIDERS}/{CN2_UUID}/usages"),
    Sample("placement/usages-of_project", "GET", f"/placement/usages?project_id={PROJECT_ID}"),
    Sample("", "DELETE", f"/placement/allocations/{UNKNOWN_UUID}", status=204),
    # Server groups
    Sample("compute/os_server_groups-create", "POST", _SERVER_GROUPS),
    Sample("compute/os_server_groups-show", "GET", f"{_SERVER_GROUPS}/{{server_group}}"),
    Sample("compute/os_server_groups-list", "GET", f"{_SERVER_GROUPS}?limit=2"),
    # Images
    Sample("image/images-create", "POST", _IMAGES, status=201),
    Sample(
        "image/images-update",
        "PATCH",
        f"{_IMAGES}/{IMAGE_UUID}",
        content_type="application/openstack-images-v2.1-json-patch",
    ),
    Sample("image/images-show", "GET", f"{_IMAGES}/{IMAGE_UUID}"),
    Sample("image/images-list", "GET", f"{_IMAGES}?tag=windows&sort=name:asc&limit=2"),
    Sample("image/images-error", "GET", f"{_IMAGES}/{UNKNOWN_UUID}", status=404),
    # Scheduling
    Sample("scheduler/explain", "POST", f"{_SCHEDULER}/explain"),
    Sample("scheduler/explain-hosts", "POST", f"{_SCHEDULER}/explain"),
    Sample("scheduler/capacity", "POST", f"{_SCHEDULER}/capacity"),
    Sample("scheduler/failover_capacity", "POST", f"{_SCHEDULER}/failover_capacity"),
    Sample("scheduler/explain-no_valid_host", "POST", f"{_SCHEDULER}/explain", _IMPOSSIBLE_REQUEST),
    Sample("scheduler/select_destinations", "POST", f"{_SCHEDULER}/select_destinations"),
    Sample(
        "scheduler/select_destinations-no_valid_host",
        "POST",
        f"{_SCHEDULER}/select_destinations",
        _IMPOSSIBLE_REQUEST,
        status=409,
    ),
    Sample("scheduler/plan", "POST", f"{_SCHEDULER}/plan"),
    Sample(
        "", "PUT", f"{_SERVICES}/force-down", _CN2_SERVICE | {"forced_down": True}, compute="2.52"
    ),
    Sample("scheduler/evacuation", "POST", f"{_SCHEDULER}/evacuation"),
    Sample(
        "", "PUT", f"{_SERVICES}/force-down", _CN2_SERVICE | {"forced_down": False}, compute="2.52"
    ),
    # A second instance on cn2, only for the advice
    Sample(
        "",
        "PUT",
        f"/placement/allocations/{SECOND_INSTANCE}",
        {**_ALLOCATIONS_BODY, "allocations": {CN2_UUID: {"resources": _FLAVOR_RESOURCES}}},
        status=204,
    ),
    Sample(
        "",
        "PUT",
        f"{_SCHEDULER}/instances/{SECOND_INSTANCE}",
        {**_INSTANCE_ON_CN2, "flavor": _FLAVOR},
    ),
    Sample("scheduler/rebalance", "POST", f"{_SCHEDULER}/rebalance"),
    # Its flavor now requires a trait that cn2 lacks
    Sample(
        "",
        "PUT",
        f"{_SCHEDULER}/instances/{SECOND_INSTANCE}",
        {
            **_INSTANCE_ON_CN2,
            "flavor": {**_FLAVOR, "extra_specs": {"trait:HW_CPU_X86_AVX512F": "required"}},
        },
    ),
    Sample("scheduler/violations-compute", "POST", f"{_SCHEDULER}/violations", status=202),
    Sample("scheduler/violations-list", "GET", f"{_SCHEDULER}/violations"),
    Sample("", "DELETE", f"{_SCHEDULER}/instances/{SECOND_INSTANCE}", status=204),
    Sample(
        "scheduler/decisions-list", "GET", f"{_SCHEDULER}/decisions?project_id={PROJECT_ID}&limit=2"
    ),
    Sample("scheduler/decisions-show", "GET", f"{_SCHEDULER}/decisions/<id>"),
    # Its host is disabled when the request is replayed
    Sample("", "PUT", f"{_SERVICES}/disable", _CN2_SERVICE, compute="2.52"),
    Sample("", "GET", f"{_SCHEDULER}/decisions?project_id={PROJECT_ID}&limit=2"),
    Sample("scheduler/decisions-replay", "POST", f"{_SCHEDULER}/decisions/<id>/replay"),
    Sample("", "PUT", f"{_SERVICES}/enable", _CN2_SERVICE, compute="2.52"),
    Sample("scheduler/decision_counts-show", "GET", f"{_SCHEDULER}/decision_counts"),
    Sample("scheduler/aggregate_check-show", "GET", f"{_SCHEDULER}/aggregate_check"),
    Sample("scheduler/policies-list", "GET", f"{_SCHEDULER}/policies"),
    Sample("scheduler/policies-show", "GET", f"{_SCHEDULER}/policies/default"),
    # A plan is carried out
    Sample("scheduler/plan_runs-create", "POST", f"{_SCHEDULER}/plan_runs", status=201),
    Sample("scheduler/plan_runs-list", "GET", f"{_SCHEDULER}/plan_runs?limit=1"),
    Sample(
        "scheduler/plan_runs-change_move",
        "PUT",
        f"{_SCHEDULER}/plan_runs/<id>/moves/{INSTANCE_UUID}",
    ),
    Sample("", "GET", f"{_SCHEDULER}/plan_runs?limit=1"),
    Sample("scheduler/plan_runs-show", "GET", f"{_SCHEDULER}/plan_runs/<id>"),
    Sample("", "GET", f"{_SCHEDULER}/plan_runs?limit=1"),
    Sample("scheduler/plan_runs-change", "PUT", f"{_SCHEDULER}/plan_runs/<id>"),
    Sample("scheduler/instances-record", "PUT", f"{_SCHEDULER}/instances/{RECORDED_INSTANCE}"),
    Sample("scheduler/instances-show", "GET", f"{_SCHEDULER}/instances/{INSTANCE_UUID}"),
    Sample("scheduler/instances-list", "GET", f"{_SCHEDULER}/instances?host=cn2&limit=1"),
    Sample("scheduler/hosts-show", "GET", f"{_SCHEDULER}/hosts/cn2"),
    # Services and hypervisors
    Sample(
        "compute/os_services-disable_log_reason",
        "PUT",
        f"{_SERVICES}/disable-log-reason",
        compute="2.52",
    ),
    Sample("compute/os_services-disable", "PUT", f"{_SERVICES}/disable", compute="2.52"),
    Sample("compute/os_services-enable", "PUT", f"{_SERVICES}/enable", compute="2.52"),
    Sample("compute/os_services-force_down", "PUT", f"{_SERVICES}/force-down", compute="2.52"),
    Sample("compute/os_services-list", "GET", f"{_SERVICES}?host=cn1"),
    Sample("compute/os_services-update", "PUT", f"{_SERVICES}/<id>"),
    Sample("", "GET", f"{_SERVICES}?host=cn2"),
    Sample("compute/os_services-error", "DELETE", f"{_SERVICES}/<id>", status=409),
    Sample("compute/os_hypervisors-list", "GET", f"{_HYPERVISORS}?limit=1&with_servers=true"),
    Sample("compute/os_hypervisors-detail", "GET", f"{_HYPERVISORS}/detail?limit=2"),
    Sample(
        "compute/os_hypervisors-show",
        "GET",
        f"{_HYPERVISORS}/{CN2_UUID}?with_servers=true",
        compute="2.87",
    ),
    Sample(
        "compute/os_hypervisors-statistics", "GET", f"{_HYPERVISORS}/statistics", compute="2.87"
    ),
    Sample(
        "compute/os_hypervisors-uptime", "GET", f"{_HYPERVISORS}/{WIN1_UUID}/uptime", compute="2.87"
    ),
    Sample("compute/os_hypervisors-search", "GET", f"{_HYPERVISORS}/cn2/search", compute="2.52"),
    Sample("compute/os_hypervisors-servers", "GET", f"{_HYPERVISORS}/cn2/servers", compute="2.52"),
    Sample("compute/os_hypervisors-error", "GET", f"{_HYPERVISORS}/{UNKNOWN_UUID}", status=404),
    # What users see of it
    Sample("compute/servers-list", "GET", f"{_SERVERS}?all_tenants=1&limit=1"),
    Sample("compute/servers-detail", "GET", f"{_SERVERS}/detail?all_tenants=1&host=cn2"),
    Sample("compute/servers-show", "GET", f"{_SERVERS}/{RECORDED_INSTANCE}"),
    Sample("compute/os_availability_zone-list", "GET", "/compute/v2.1/os-availability-zone"),
    Sample(
        "compute/os_availability_zone-detail", "GET", "/compute/v2.1/os-availability-zone/detail"
    ),
    # The recorded instance moves from cn2 to cn1
    Sample(
        "",
        "PUT",
        f"/placement/allocations/{MIGRATION_UUID}",
        {
            **_ALLOCATIONS_BODY,
            "allocations": {CN2_UUID: {"resources": _FLAVOR_RESOURCES}},
            "consumer_type": "MIGRATION",
        },
        status=204,
    ),
    Sample(
        "",
        "PUT",
        f"/placement/allocations/{RECORDED_INSTANCE}",
        {**_ALLOCATIONS_BODY, "allocations": {CN1_UUID: {"resources": _FLAVOR_RESOURCES}}},
        status=204,
    ),
    Sample("compute/os_migrations-list", "GET", f"{_MIGRATIONS}?limit=1"),
)


def send_requests_to_new_application() -> Iterator[tuple[str, Any]]:
    """Send the requests to an application on a new database, and yield name and sample."""
    with tempfile.TemporaryDirectory() as folder:
        settings = make_settings(
            f"sqlite:///{folder}/story.db",
            scheduler__enable_isolated_aggregate_filtering=True,
            # The default, which the response with the policies contains.
            DEFAULT__service_down_time=60,
        )
        database = Database(settings)
        sync(database, lambda: SAMPLE_TIME)
        database.dispose()
        application = create_app(settings, clock=lambda: SAMPLE_TIME, random=Random(1))
        try:
            yield from send_requests_to(TestApp(application))
        finally:
            application.close()


def send_requests_to(client: TestApp) -> Iterator[tuple[str, Any]]:
    """Send the requests to an application with an empty database, and yield the samples."""
    group = ""  # the uuid of the last server group
    listed: list[Any] = []
    for sample in SAMPLES:
        headers = {
            "X-Auth-Token": "admin",
            "OpenStack-API-Version": f"placement {LATEST}, compute {sample.compute}",
            "X-Openstack-Request-Id": GLOBAL_REQUEST_ID,
        }
        body = sample.body or read_request(sample.name)
        arguments: dict[str, Any] = {"headers": headers}
        if body is not None:
            arguments = {
                "headers": {**headers, "Content-Type": sample.content_type},
                "body": json.dumps(body).encode(),
            }
        path = sample.path.format(server_group=group)
        path = path.replace("<id>", str(listed[-1]) if listed else "")
        response = client.request(path, method=sample.method, status=sample.status, **arguments)
        join_threads(VIOLATION_THREAD)
        document = response.json if response.body else None
        if sample.name == "compute/os_server_groups-create":
            group = document["server_group"]["id"]
        first = next(iter(document.values()), None) if document else None
        listed = (
            [each.get("id", each.get("uuid")) for each in first]
            if _is_list_of_objects(first)
            else []
        )
        if sample.name and document is not None:
            yield f"{sample.name}-response.json", document


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not {"id", "uuid"}.isdisjoint(value[0])


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: The uuids that requests contain.
_UUIDS_OF_REQUESTS = frozenset(
    uuid
    for sample in SAMPLES
    for uuid in _UUID.findall(f"{sample.path} {sample.body} {read_request(sample.name)}")
)


def replace_changing_values(document: Any) -> Any:
    """Replace new uuids, durations and the newest version in a document."""
    if isinstance(document, dict):
        return {
            _replace_changing_text(key): 0
            if key in {"duration", "elapsed_ms", "max_version"}
            else replace_changing_values(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [replace_changing_values(value) for value in document]
    return _replace_changing_text(document) if isinstance(document, str) else document


def _replace_changing_text(text: str) -> str:
    return _UUID.sub(lambda found: found[0] if found[0] in _UUIDS_OF_REQUESTS else "(made)", text)


def build_response_samples() -> dict[str, Any]:
    """Return every response sample by its file name."""
    return dict(send_requests_to_new_application())


def write_response_samples() -> None:
    """Write the response samples."""
    for name, document in build_response_samples().items():
        path = SAMPLES_FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    write_response_samples()

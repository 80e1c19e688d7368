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
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.support.versions import LATEST

SAMPLES_FOLDER = Path(__file__).parents[2] / "api-ref" / "source" / "samples"

NOW = datetime(2026, 1, 1, 12, 0, 0)

CN1_UUID = "7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c01"
CN2_UUID = "7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c02"
WIN1 = "7d6fc2c4-2f0a-4a0e-8d0f-0d6a3c5b1c0a"
NFS_SHARE = "c3a1f1de-6a0b-4a63-9b3e-2f6f0d0c9e11"
GPU = "c3a1f1de-6a0b-4a63-9b3e-2f6f0d0c9e12"
AGGREGATE_UUID = "5f0d5a52-8a4e-4b0b-8c29-8a1b6c4f7e21"
CONSUMER_UUID = "b41d1f2e-7f0e-4bb6-9a38-6a5c2d3e4f01"
UNKNOWN_UUID = "b41d1f2e-7f0e-4bb6-9a38-6a5c2d3e4f02"
INSTANCE_UUID = "e0c5b3a2-1d4f-4e6a-8b7c-9d0e1f2a3b41"
RECORDED_INSTANCE = "e0c5b3a2-1d4f-4e6a-8b7c-9d0e1f2a3b42"
SECOND_INSTANCE = "e0c5b3a2-1d4f-4e6a-8b7c-9d0e1f2a3b43"
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
_GROUPS = "/compute/v2.1/os-server-groups"
_SERVICES = "/compute/v2.1/os-services"
_HYPERVISORS = "/compute/v2.1/os-hypervisors"
_CN2_SERVICE = {"host": "cn2", "binary": "nova-compute"}
_INSTANCE_ON_CN2 = {
    "host": "cn2",
    "node": "cn2.example.org",
    "project_id": PROJECT_ID,
    "user_id": USER_ID,
}
_FLAVOR_RESOURCES = {"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 40}


@dataclass(frozen=True)
class Step:
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
    compute: str = "2.96"


STEPS = (
    Step("root-show", "GET", "/"),
    Step("health-live", "GET", "/healthz"),
    Step("health-ready", "GET", "/healthz/ready"),
    Step("placement/root-show", "GET", "/placement"),
    Step("compute/versions-list", "GET", "/compute"),
    Step("compute/versions-show", "GET", "/compute/v2.1"),
    Step("image/versions-list", "GET", "/image/v2"),
    Step("identity/versions-list", "GET", "/identity", status=300),
    Step("identity/versions-show", "GET", "/identity/v3"),
    Step("identity/versions-refuse", "GET", "/identity/v3/projects", status=403),
    Step("scheduler/root-show", "GET", f"{_SCHEDULER}"),
    # Hosts report
    Step("scheduler/compute_nodes-report_many", "POST", f"{_SCHEDULER}/compute_nodes"),
    Step("scheduler/compute_nodes-report", "PUT", f"{_SCHEDULER}/compute_nodes/{CN1_UUID}"),
    Step("scheduler/compute_nodes-show", "GET", f"{_SCHEDULER}/compute_nodes/{CN1_UUID}"),
    Step("scheduler/compute_nodes-list", "GET", f"{_SCHEDULER}/compute_nodes?limit=1"),
    Step(
        "scheduler/compute_nodes-error",
        "PUT",
        f"{_SCHEDULER}/compute_nodes/{CN1_UUID}",
        {**_NODE_REPORT, "vcpus": "many"},
        status=400,
    ),
    # Host aggregates
    Step("compute/os_aggregates-create", "POST", _AGGREGATES),
    Step("compute/os_aggregates-update", "PUT", f"{_AGGREGATES}/1"),
    Step("compute/os_aggregates-set_metadata", "POST", f"{_AGGREGATES}/1/action"),
    Step("", "POST", f"{_AGGREGATES}/1/action", {"add_host": {"host": "cn2"}}),
    Step("compute/os_aggregates-remove_host", "POST", f"{_AGGREGATES}/1/action"),
    Step("compute/os_aggregates-add_host", "POST", f"{_AGGREGATES}/1/action"),
    Step("compute/os_aggregates-show", "GET", f"{_AGGREGATES}/1"),
    Step("compute/os_aggregates-list", "GET", _AGGREGATES),
    Step("compute/os_aggregates-images", "POST", f"{_AGGREGATES}/1/images", status=202),
    Step("compute/os_aggregates-error", "GET", f"{_AGGREGATES}/99", status=404),
    # Flavors
    Step("compute/flavors-create", "POST", _FLAVORS),
    Step(
        "",
        "POST",
        _FLAVORS,
        {"flavor": {"id": "1", "name": "m1.tiny", "ram": 512, "vcpus": 1, "disk": 1}},
    ),
    Step("compute/os_extra_specs-create", "POST", f"{_FLAVORS}/win/os-extra_specs"),
    Step("compute/os_extra_specs-update", "PUT", f"{_FLAVORS}/win/os-extra_specs/hw:cpu_sockets"),
    Step("compute/os_extra_specs-show", "GET", f"{_FLAVORS}/win/os-extra_specs/hw:cpu_sockets"),
    Step("", "DELETE", f"{_FLAVORS}/win/os-extra_specs/hw:cpu_sockets"),
    Step("compute/os_extra_specs-list", "GET", f"{_FLAVORS}/win/os-extra_specs"),
    Step(
        "compute/os_extra_specs-error",
        "PUT",
        f"{_FLAVORS}/win/os-extra_specs/hw:cpu_policy",
        {"hw:cpu_policy": "pinned"},
        status=400,
    ),
    Step("compute/flavors-update", "PUT", f"{_FLAVORS}/win"),
    Step("compute/flavors-add_tenant_access", "POST", f"{_FLAVORS}/win/action"),
    Step("compute/flavors-access", "GET", f"{_FLAVORS}/win/os-flavor-access"),
    Step("compute/flavors-show", "GET", f"{_FLAVORS}/win"),
    Step("compute/flavors-list", "GET", f"{_FLAVORS}?is_public=none&limit=1"),
    Step("compute/flavors-detail", "GET", f"{_FLAVORS}/detail?is_public=none"),
    Step("compute/flavors-remove_tenant_access", "POST", f"{_FLAVORS}/win/action"),
    Step("compute/flavors-error", "GET", f"{_FLAVORS}/m1.huge", status=404),
    # Placement by hand
    Step("", "POST", _PROVIDERS, {"uuid": NFS_SHARE, "name": "nfs-share"}),
    Step("placement/resource_providers-create_child", "POST", _PROVIDERS),
    Step("placement/resource_providers-show", "GET", f"{_PROVIDERS}/{GPU}"),
    Step("placement/resource_providers-update", "PUT", f"{_PROVIDERS}/{NFS_SHARE}"),
    Step(
        "placement/resource_providers-list",
        "GET",
        f"{_PROVIDERS}?in_tree={CN1_UUID}&resources=VCPU:4,MEMORY_MB:8192",
    ),
    Step("placement/error", "GET", f"{_PROVIDERS}/{UNKNOWN_UUID}", status=404),
    Step("placement/resource_classes-create", "POST", "/placement/resource_classes", status=201),
    Step("placement/resource_classes-show", "GET", "/placement/resource_classes/CUSTOM_FPGA"),
    Step("placement/resource_classes-list", "GET", "/placement/resource_classes"),
    Step(
        "placement/inventories-create", "POST", f"{_PROVIDERS}/{NFS_SHARE}/inventories", status=201
    ),
    Step("placement/inventories-replace", "PUT", f"{_PROVIDERS}/{GPU}/inventories"),
    Step("placement/inventories-update", "PUT", f"{_PROVIDERS}/{GPU}/inventories/VGPU"),
    Step("placement/inventories-list", "GET", f"{_PROVIDERS}/{CN1_UUID}/inventories"),
    Step("placement/inventories-show", "GET", f"{_PROVIDERS}/{GPU}/inventories/VGPU"),
    Step("", "PUT", "/placement/traits/CUSTOM_LICENSED_WINDOWS", status=201),
    Step("placement/traits-list", "GET", "/placement/traits?name=startswith:HW_CPU_X86_AVX512V"),
    Step("placement/traits-replace", "PUT", f"{_PROVIDERS}/{WIN1}/traits"),
    Step("placement/traits-of_provider", "GET", f"{_PROVIDERS}/{WIN1}/traits"),
    Step("scheduler/hosts-list", "GET", f"{_SCHEDULER}/hosts?zone=nova&search=1"),
    Step("scheduler/overview-show", "GET", f"{_SCHEDULER}/overview"),
    Step("placement/aggregates-replace", "PUT", f"{_PROVIDERS}/{NFS_SHARE}/aggregates"),
    Step("placement/aggregates-list", "GET", f"{_PROVIDERS}/{NFS_SHARE}/aggregates"),
    Step(
        "placement/allocation_candidates-list",
        "GET",
        "/placement/allocation_candidates?resources=VCPU:4,MEMORY_MB:8192"
        f"&required=CUSTOM_LICENSED_WINDOWS&member_of=!in:{AGGREGATE_UUID}&limit=10",
    ),
    Step(
        "placement/allocation_candidates-granular",
        "GET",
        "/placement/allocation_candidates?resources=VCPU:4,MEMORY_MB:8192"
        "&resources_GPU=VGPU:1&group_policy=none",
    ),
    Step("placement/allocations-put", "PUT", f"/placement/allocations/{CONSUMER_UUID}", status=204),
    Step("placement/allocations-show", "GET", f"/placement/allocations/{CONSUMER_UUID}"),
    Step(
        "placement/allocations-conflict",
        "PUT",
        f"/placement/allocations/{CONSUMER_UUID}",
        {**_ALLOCATIONS_BODY, "allocations": {CN1_UUID: {"resources": {"VCPU": 2}}}},
        status=409,
    ),
    Step("placement/allocations-post", "POST", "/placement/allocations", status=204),
    Step("placement/allocations-of_provider", "GET", f"{_PROVIDERS}/{CN2_UUID}/allocations"),
    Step("placement/usages-of_provider", "GET", f"{_PROVIDERS}/{CN2_UUID}/usages"),
    Step("placement/usages-of_project", "GET", f"/placement/usages?project_id={PROJECT_ID}"),
    Step("", "DELETE", f"/placement/allocations/{UNKNOWN_UUID}", status=204),
    # Server groups
    Step("compute/os_server_groups-create", "POST", _GROUPS),
    Step("compute/os_server_groups-show", "GET", f"{_GROUPS}/{{server_group}}"),
    Step("compute/os_server_groups-list", "GET", f"{_GROUPS}?limit=2"),
    # Images
    Step("image/images-create", "POST", _IMAGES, status=201),
    Step(
        "image/images-update",
        "PATCH",
        f"{_IMAGES}/{IMAGE_UUID}",
        content_type="application/openstack-images-v2.1-json-patch",
    ),
    Step("image/images-show", "GET", f"{_IMAGES}/{IMAGE_UUID}"),
    Step("image/images-list", "GET", f"{_IMAGES}?tag=windows&sort=name:asc&limit=2"),
    Step("image/images-error", "GET", f"{_IMAGES}/{UNKNOWN_UUID}", status=404),
    Step("image/import_methods-list", "GET", "/image/v2/info/import"),
    # Scheduling
    Step("scheduler/explain", "POST", f"{_SCHEDULER}/explain"),
    Step("scheduler/explain-hosts", "POST", f"{_SCHEDULER}/explain"),
    Step("scheduler/capacity", "POST", f"{_SCHEDULER}/capacity"),
    Step("scheduler/failover_capacity", "POST", f"{_SCHEDULER}/failover_capacity"),
    Step("scheduler/explain-no_valid_host", "POST", f"{_SCHEDULER}/explain", _IMPOSSIBLE_REQUEST),
    Step("scheduler/select_destinations", "POST", f"{_SCHEDULER}/select_destinations"),
    Step(
        "scheduler/select_destinations-no_valid_host",
        "POST",
        f"{_SCHEDULER}/select_destinations",
        _IMPOSSIBLE_REQUEST,
        status=409,
    ),
    Step("scheduler/plan", "POST", f"{_SCHEDULER}/plan"),
    # A second instance on cn2, only for the advice
    Step(
        "",
        "PUT",
        f"/placement/allocations/{SECOND_INSTANCE}",
        {**_ALLOCATIONS_BODY, "allocations": {CN2_UUID: {"resources": _FLAVOR_RESOURCES}}},
        status=204,
    ),
    Step(
        "",
        "PUT",
        f"{_SCHEDULER}/instances/{SECOND_INSTANCE}",
        {**_INSTANCE_ON_CN2, "flavor": _FLAVOR},
    ),
    Step("scheduler/rebalance", "POST", f"{_SCHEDULER}/rebalance"),
    Step("", "DELETE", f"{_SCHEDULER}/instances/{SECOND_INSTANCE}", status=204),
    Step(
        "scheduler/decisions-list", "GET", f"{_SCHEDULER}/decisions?project_id={PROJECT_ID}&limit=2"
    ),
    Step("scheduler/decisions-show", "GET", f"{_SCHEDULER}/decisions/<id>"),
    # Its host is disabled when the request is replayed
    Step("", "PUT", f"{_SERVICES}/disable", _CN2_SERVICE, compute="2.52"),
    Step("", "GET", f"{_SCHEDULER}/decisions?project_id={PROJECT_ID}&limit=2"),
    Step("scheduler/decisions-replay", "POST", f"{_SCHEDULER}/decisions/<id>/replay"),
    Step("", "PUT", f"{_SERVICES}/enable", _CN2_SERVICE, compute="2.52"),
    Step("scheduler/decision_counts-show", "GET", f"{_SCHEDULER}/decision_counts"),
    Step("scheduler/aggregate_check-show", "GET", f"{_SCHEDULER}/aggregate_check"),
    Step("scheduler/policies-list", "GET", f"{_SCHEDULER}/policies"),
    Step("scheduler/policies-show", "GET", f"{_SCHEDULER}/policies/default"),
    # A plan is carried out
    Step("scheduler/plan_runs-create", "POST", f"{_SCHEDULER}/plan_runs", status=201),
    Step("scheduler/plan_runs-list", "GET", f"{_SCHEDULER}/plan_runs?limit=1"),
    Step(
        "scheduler/plan_runs-change_move",
        "PUT",
        f"{_SCHEDULER}/plan_runs/<id>/moves/{INSTANCE_UUID}",
    ),
    Step("", "GET", f"{_SCHEDULER}/plan_runs?limit=1"),
    Step("scheduler/plan_runs-show", "GET", f"{_SCHEDULER}/plan_runs/<id>"),
    Step("", "GET", f"{_SCHEDULER}/plan_runs?limit=1"),
    Step("scheduler/plan_runs-change", "PUT", f"{_SCHEDULER}/plan_runs/<id>"),
    Step("scheduler/instances-record", "PUT", f"{_SCHEDULER}/instances/{RECORDED_INSTANCE}"),
    Step("scheduler/instances-show", "GET", f"{_SCHEDULER}/instances/{INSTANCE_UUID}"),
    Step("scheduler/instances-list", "GET", f"{_SCHEDULER}/instances?host=cn2&limit=1"),
    Step("scheduler/hosts-show", "GET", f"{_SCHEDULER}/hosts/cn2"),
    # Services and hypervisors
    Step(
        "compute/os_services-disable_log_reason",
        "PUT",
        f"{_SERVICES}/disable-log-reason",
        compute="2.52",
    ),
    Step("compute/os_services-disable", "PUT", f"{_SERVICES}/disable", compute="2.52"),
    Step("compute/os_services-enable", "PUT", f"{_SERVICES}/enable", compute="2.52"),
    Step("compute/os_services-force_down", "PUT", f"{_SERVICES}/force-down", compute="2.52"),
    Step("compute/os_services-list", "GET", f"{_SERVICES}?host=cn1"),
    Step("compute/os_services-update", "PUT", f"{_SERVICES}/<id>"),
    Step("", "GET", f"{_SERVICES}?host=cn2"),
    Step("compute/os_services-error", "DELETE", f"{_SERVICES}/<id>", status=409),
    Step("compute/os_hypervisors-list", "GET", f"{_HYPERVISORS}?limit=1&with_servers=true"),
    Step("compute/os_hypervisors-detail", "GET", f"{_HYPERVISORS}/detail?limit=2"),
    Step(
        "compute/os_hypervisors-show",
        "GET",
        f"{_HYPERVISORS}/{CN2_UUID}?with_servers=true",
        compute="2.87",
    ),
    Step("compute/os_hypervisors-statistics", "GET", f"{_HYPERVISORS}/statistics", compute="2.87"),
    Step("compute/os_hypervisors-uptime", "GET", f"{_HYPERVISORS}/{WIN1}/uptime", compute="2.87"),
    Step("compute/os_hypervisors-search", "GET", f"{_HYPERVISORS}/cn2/search", compute="2.52"),
    Step("compute/os_hypervisors-servers", "GET", f"{_HYPERVISORS}/cn2/servers", compute="2.52"),
    Step("compute/os_hypervisors-error", "GET", f"{_HYPERVISORS}/{UNKNOWN_UUID}", status=404),
    # What users see of it
    Step("compute/servers-list", "GET", f"{_SERVERS}?all_tenants=1&limit=1"),
    Step("compute/servers-detail", "GET", f"{_SERVERS}/detail?all_tenants=1&host=cn2"),
    Step("compute/servers-show", "GET", f"{_SERVERS}/{RECORDED_INSTANCE}"),
    Step("compute/os_availability_zone-list", "GET", "/compute/v2.1/os-availability-zone"),
    Step("compute/os_availability_zone-detail", "GET", "/compute/v2.1/os-availability-zone/detail"),
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
        sync(database, lambda: NOW)
        database.dispose()
        application = create_app(settings, clock=lambda: NOW, random=Random(1))
        try:
            yield from send_requests_to(TestApp(application))
        finally:
            application.close()


def send_requests_to(client: TestApp) -> Iterator[tuple[str, Any]]:
    """Send the requests to an application with an empty database, and yield the samples."""
    group = ""  # the uuid of the last server group
    listed: list[Any] = []
    for step in STEPS:
        headers = {
            "X-Auth-Token": "admin",
            "OpenStack-API-Version": f"placement {LATEST}, compute {step.compute}",
            "X-Openstack-Request-Id": GLOBAL_REQUEST_ID,
        }
        body = step.body or read_request(step.name)
        arguments: dict[str, Any] = {"headers": headers}
        if body is not None:
            arguments = {
                "headers": {**headers, "Content-Type": step.content_type},
                "body": json.dumps(body).encode(),
            }
        path = step.path.format(server_group=group)
        path = path.replace("<id>", str(listed[-1]) if listed else "")
        answer = client.request(path, method=step.method, status=step.status, **arguments)
        response = answer.json if answer.body else None
        if step.name == "compute/os_server_groups-create":
            group = response["server_group"]["id"]
        first = next(iter(response.values()), None) if response else None
        listed = (
            [each.get("id", each.get("uuid")) for each in first]
            if _is_list_of_objects(first)
            else []
        )
        if step.name and response is not None:
            yield f"{step.name}-response.json", response


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not {"id", "uuid"}.isdisjoint(value[0])


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: The uuids that requests contain.
_UUIDS_OF_REQUESTS = frozenset(
    uuid
    for step in STEPS
    for uuid in _UUID.findall(f"{step.path} {step.body} {read_request(step.name)}")
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

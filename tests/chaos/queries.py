# SPDX-License-Identifier: Apache-2.0
"""Query strings of valid requests, including the forms of the console."""

from collections.abc import Mapping, Sequence

from tests.chaos.writes import AGGREGATES, HOSTS, PROVIDER_UUIDS, TRAITS

_FLAVOR_SIZE_FIELDS = {"vcpus": ["1", "2"], "ram": ["64", "1024"], "disk": ["1", "0"]}
#: The fields of the forms that describe a request.
_REQUEST_FORM_FIELDS = {
    "zone": ["nova", "az1"],
    "project": ["p1"],
    "property": ["trait:CUSTOM_RED=required", "hw:cpu_policy=shared\nresources:VCPU=1"],
    "image_property": ["hw_machine_type=q35"],
    "hint": ["different_host=00000000-0000-0000-0000-000000000001", "same_host=[]"],
    "force_host": HOSTS[:2],
    "ignore_host": HOSTS[2:],
    "policy": ["default"],
    "change": ["drain=cn1", "add=cn2*3", "inventory=cn2:VCPU=64", "aggregate=a1:+cn1,ssd=true"],
    "override": ["filter_scheduler.ram_weight_multiplier=-1.0"],
    "filter_scheduler.cpu_weight_multiplier": ["2.5", "-1"],
}
_ASK_PAGE_FIELDS = {
    "count": ["1", "2"],
    "beside": ["default"],
    "beside_as_configured": ["1"],
    **_REQUEST_FORM_FIELDS,
}
_PAGE_LIMITS = {"limit": ["1", "5"]}
#: Required parameters of a query string.
REQUIRED_PARAMETERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "GET /placement/allocation_candidates": {
        "resources": ["VCPU:1", "VCPU:1,MEMORY_MB:64", "CUSTOM_A:1"]
    },
    "GET /placement/usages": {"project_id": ["p1"]},
    "GET /console/ask": _FLAVOR_SIZE_FIELDS,
    "GET /console/ask/report": _FLAVOR_SIZE_FIELDS,
    "GET /console/capacity": _FLAVOR_SIZE_FIELDS,
    "GET /console/capacity/report": _FLAVOR_SIZE_FIELDS,
    "GET /console/capacity/failover": {"host_failures": ["1", "2"]},
    "GET /console/capacity/moves": {"goal": ["pack", "spread"]},
}
#: Optional parameters of a query string.
OPTIONAL_PARAMETERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "GET /placement/allocation_candidates": {
        "required": ["CUSTOM_RED", "!CUSTOM_BLUE", "in:CUSTOM_RED,HW_CPU_X86_AVX2"],
        "member_of": [AGGREGATES[0], f"in:{AGGREGATES[0]},{AGGREGATES[1]}", f"!{AGGREGATES[2]}"],
        "in_tree": PROVIDER_UUIDS,
        "resources_A": ["VCPU:1"],
        "resources_B": ["CUSTOM_B:1"],
        "group_policy": ["none", "isolate"],
        **_PAGE_LIMITS,
    },
    "GET /placement/resource_providers": {
        "name": PROVIDER_UUIDS,
        "uuid": PROVIDER_UUIDS,
        "in_tree": PROVIDER_UUIDS,
        "resources": ["VCPU:1"],
        "required": TRAITS,
        "member_of": AGGREGATES,
    },
    "GET /placement/traits": {"name": ["startswith:HW", "in:CUSTOM_RED"], "associated": ["true"]},
    "GET /placement/usages": {"user_id": ["u1"], "consumer_type": ["INSTANCE", "all"]},
    "GET /compute/v2.1/flavors": {"is_public": ["None", "true"], "minRam": ["1"], **_PAGE_LIMITS},
    "GET /compute/v2.1/flavors/detail": {
        "sort_key": ["name"],
        "sort_dir": ["desc"],
        **_PAGE_LIMITS,
    },
    "GET /compute/v2.1/os-services": {"host": HOSTS, "binary": ["nova-compute"]},
    "GET /compute/v2.1/os-hypervisors": {"with_servers": ["true"], **_PAGE_LIMITS},
    "GET /compute/v2.1/os-hypervisors/detail": {"hypervisor_hostname_pattern": ["cn"]},
    "GET /compute/v2.1/os-server-groups": {"all_projects": ["1"], "offset": ["1"], **_PAGE_LIMITS},
    "GET /compute/v2.1/servers": {
        "all_tenants": ["1"],
        "name": ["web", "^web-[0-9]+$", "(.+)+!"],
        "status": ["ACTIVE"],
        **_PAGE_LIMITS,
    },
    "GET /compute/v2.1/servers/detail": {"all_tenants": ["1"], "sort_key": ["created_at"]},
    "GET /image/v2/images": {"name": ["i"], "sort": ["name:asc"], "tag": ["a"], **_PAGE_LIMITS},
    "GET /scheduler/v1/compute_nodes": {"host": HOSTS, **_PAGE_LIMITS},
    "GET /scheduler/v1/decisions": {
        "outcome": ["selected", "no_valid_host"],
        "rejected": HOSTS,
        "host": HOSTS,
        **_PAGE_LIMITS,
    },
    "GET /scheduler/v1/hosts": {"search": ["cn"], "state": ["up"], "trait": TRAITS, **_PAGE_LIMITS},
    "GET /scheduler/v1/instances": {"host": HOSTS, "project_id": ["p1"], **_PAGE_LIMITS},
    "GET /console/ask": {**_ASK_PAGE_FIELDS, "host": HOSTS},
    "GET /console/ask/report": _ASK_PAGE_FIELDS,
    "GET /console/capacity": {
        **_REQUEST_FORM_FIELDS,
        "per": ["zone", "aggregate", "host", "cell"],
        "all": ["1"],
        "drain": HOSTS,
        "remove": HOSTS,
        "add": ["cn1:2", "cn2"],
        "instead": ["add"],
        "more": ["3"],
    },
    "GET /console/capacity/report": {**_REQUEST_FORM_FIELDS, "per": ["zone", "host"]},
    "GET /console/capacity/failover": {"within": ["zone", "aggregate"]},
    "GET /console/capacity/moves": {"moves": ["1", "3"]},
    "GET /console/cloud": {
        "search": ["cn"],
        "zone": ["nova", "az1", "nowhere"],
        "aggregate": ["a1"],
        "state": ["up", "down"],
        "trait": TRAITS,
        "colour": ["free:VCPU"],
        "group": ["aggregate"],
    },
    "GET /console/decisions": {
        "outcome": ["selected"],
        "kind": ["select"],
        "since": ["1h", "2026-01-01T00:00:00Z"],
        "until": ["2026-12-31"],
        "host": HOSTS,
        "rejected": HOSTS,
        "project_id": ["p1"],
        "policy": ["default"],
    },
    "GET /console/decisions/<uuid>/replay": {"settings": ["now", "then"]},
    "GET /console/policies": {"policy": ["default"], "beside": ["default"]},
    "GET /console/sign-in": {"next": ["/console/ask"], "ended": ["1"]},
}

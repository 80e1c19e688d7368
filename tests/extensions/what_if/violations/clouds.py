# SPDX-License-Identifier: Apache-2.0
"""Random clouds, and explanations for servers on a cloud without them."""

import json
from copy import deepcopy
from uuid import uuid4

from tests.scheduler.fleets import load_fleet
from tests.support.statements import execute_statements

OWNER = {"project": "p", "user": "u"}
SSD, LICENSE, POOL, POOL_AGGREGATE = "CUSTOM_SSD", "CUSTOM_LICENSE", "pool", str(uuid4())
UP = "2099-01-01T00:00:00Z"
#: The facts of a request without special wishes. Without them, violations may be doubtful.
REQUEST = {
    "availability_zone": None,
    "scheduler_hints": {},
    "is_bfv": False,
    "requested_resources": [],
}
_SIZES = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
FLAVORS = [
    {"name": "small", **_SIZES},
    {"name": "large", "vcpus": 2, "memory_mb": 1024, "root_gb": 2},
    {"name": "ssd", **_SIZES, "extra_specs": {f"trait:{SSD}": "required"}},
    {"name": "no-ssd", **_SIZES, "extra_specs": {f"trait:{SSD}": "forbidden"}},
    {"name": "licensed", **_SIZES, "extra_specs": {f"trait:{LICENSE}": "required"}},
    {"name": "gpu", **_SIZES, "extra_specs": {"resources:VGPU": "1"}},
    {"name": "pair", **_SIZES, "extra_specs": {"resources1:VGPU": "1", "group_policy": "none"}},
    {"name": "fast", **_SIZES, "extra_specs": {"aggregate_instance_extra_specs:fast": "yes"}},
    {"name": "spread", **_SIZES, "extra_specs": {"scheduler:spread_by": "rack"}},
]
FLAVORS[-1]["extra_specs"]["scheduler:max_skew"] = "1"
GROUPS = [
    {"name": "apart", "policy": "anti-affinity", **OWNER},
    {"name": "two", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}, **OWNER},
    {"name": "together", "policy": "affinity", **OWNER},
    {"name": "soft", "policy": "soft-anti-affinity", **OWNER},
]
FILTERS = [
    *("ComputeFilter", "NumInstancesFilter", "IoOpsFilter", "RetryFilter"),
    *("AggregateInstanceExtraSpecsFilter", "AggregateMultiTenancyIsolation", "SameHostFilter"),
    *("DifferentHostFilter", "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"),
    "TopologySpreadFilter",
]
OPTIONS = {
    "scheduler__enable_isolated_aggregate_filtering": "true",
    "filter_scheduler__enabled_filters": ",".join(FILTERS),
    "filter_scheduler__max_instances_per_host": 1,
    "filter_scheduler__max_io_ops_per_host": 0,
}
#: The same without filters that are no rules.
RULES = {**OPTIONS, "filter_scheduler__enabled_filters": ",".join(FILTERS[4:])}


def make_host(name, **more):
    sizes = {"vcpus": 3, "memory_mb": 4096, "local_gb": 20, "cpu_allocation_ratio": 1.0}
    return {"host": name, **sizes, "last_seen_up": UP, **more}


def make_server(name, host, flavor="small", **more):
    return {"name": name, "host": host, "flavor": flavor, **OWNER, "request": REQUEST, **more}


def draw_cloud(random):
    """Draw a cloud whose servers are on random hosts.

    The capacity of some hosts is reduced after the servers were placed.
    """
    hosts = [f"cn{number}" for number in range(random.randint(2, 4))]
    sharing = {host for host in hosts if random.random() < 0.3}
    document = {
        "traits": [SSD, LICENSE],
        "flavors": FLAVORS,
        "server_groups": GROUPS,
        "hosts": [_draw_host(random, host, is_sharing=host in sharing) for host in hosts],
        "services": [{"host": hosts[0], "status": random.choice(["enabled", "disabled"])}],
        "aggregates": [
            _draw_aggregate(random, hosts, "license", f"trait:{LICENSE}", "required"),
            _draw_aggregate(random, hosts, "fast", "fast", random.choice(["yes", "no"])),
            _draw_aggregate(random, hosts, "tenant", "filter_tenant_id", random.choice("pq")),
            {"name": "r1", "hosts": hosts[:1], "metadata": {"rack": "r1"}},
            {"name": "r2", "hosts": hosts[1:], "metadata": {"rack": "r2"}},
            {"name": "az", "hosts": hosts[:2], "availability_zone": "az1"},
        ],
        "instances": [],
    }
    if sharing:
        shared = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "aggregates": [POOL_AGGREGATE]}
        disk = {"DISK_GB": {"total": 100}}
        document["providers"] = [{"name": POOL, "inventories": disk, **shared}]
        members = {"uuid": POOL_AGGREGATE, "hosts": sorted(sharing)}
        document["aggregates"].append({"name": "storage", **members})
    gpus = {each["name"] for host in document["hosts"] for each in host.get("providers", ())}
    for number in range(random.randint(2, 9)):
        server = _draw_server(random, number, hosts, sharing, gpus)
        document["instances"].append(server)
    return document, _draw_changes(random, hosts)


def _draw_host(random, name, *, is_sharing):
    more = {"traits": [each for each in (SSD, LICENSE) if random.random() < 0.5]}
    if random.random() < 0.5:
        inventories = {"VGPU": {"total": random.choice([1, 4])}}
        more["providers"] = [{"name": f"{name}_gpu", "inventories": inventories}]
    if is_sharing:
        more |= {"local_gb": 0, "inventories": {"DISK_GB": None}}
    return make_host(name, vcpus=random.choice([4, 20]), **more)


def _draw_aggregate(random, hosts, name, key, value):
    members = [host for host in hosts if random.random() < 0.4]
    return {"name": name, "hosts": members, "metadata": {key: value}}


def _draw_server(random, number, hosts, sharing, gpus):
    host, flavor = random.choice(hosts), random.choice([*FLAVORS, FLAVORS[0], FLAVORS[-1]])
    disk = POOL if host in sharing else host
    allocations = {host: {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["memory_mb"]}}
    allocations.setdefault(disk, {})["DISK_GB"] = flavor["root_gb"]
    if flavor["name"] in {"gpu", "pair"} and f"{host}_gpu" in gpus and number < 1:
        allocations[f"{host}_gpu"] = {"VGPU": 1}
    if random.random() < 0.05:
        allocations = {}
    hints = {}
    if number and random.random() < 0.15:
        hints[random.choice(["same_host", "different_host"])] = [make_server_uuid(number - 1)]
    zone = random.choice([None, None, None, "az1"])
    request = {**REQUEST, "scheduler_hints": hints, "availability_zone": zone}
    server = make_server(f"i{number}", host, flavor["name"], request=request)
    server |= {"uuid": make_server_uuid(number), "allocations": allocations}
    if flavor["name"] in {"small", "spread"} or random.random() < 0.3:
        server["server_group"] = random.choice(GROUPS)["name"]
    return server


def make_server_uuid(number):
    return f"00000000-0000-4000-8000-{number:012}"


def _draw_changes(random, hosts):
    """Return SQL statements that change the cloud under its servers."""
    statements = []
    for host in hosts:
        if random.random() < 0.4:
            provider = f"(SELECT id FROM resource_providers WHERE name = '{host}')"
            column = random.choice(
                ["allocation_ratio = 0.25", "max_unit = 1", "reserved = total - 1"]
            )
            statements.append(
                f"UPDATE inventories SET {column} WHERE resource_provider_id = {provider} "
                "AND resource_class_id = 0"
            )
    return statements


def load(app, document, statements):
    load_fleet(app, json.dumps(document))
    execute_statements(app.app.services.database, *statements)
    return app


def find_rejected_servers(make_app, document, statements):
    """Explain the request of each server on a cloud without the server.

    Compute services are enabled. The filters of ``make_app`` are rules. Returns the rejecting
    stages of each rejected server.
    """
    rejected = {}
    for position, server in enumerate(document["instances"]):
        if not server["allocations"]:
            continue
        smaller_cloud = deepcopy(document)
        del smaller_cloud["instances"][position]
        smaller_cloud["services"] = []
        app = load(make_app(), smaller_cloud, statements)
        flavor = next(each for each in document["flavors"] if each["name"] == server["flavor"])
        spec = {**server["request"], "flavor": flavor["name"], "project_id": "p", "user_id": "u"}
        if "server_group" in server:
            groups = app.get("/compute/v2.1/os-server-groups", {"all_projects": "1"}).json
            (spec["instance_group"],) = (
                each["id"]
                for each in groups["server_groups"]
                if each["name"] == server["server_group"]
            )
        body = {"request_spec": spec, "hosts": [server["host"]]}
        response = app.post_json("/scheduler/v1/explain", body, status="*")
        if response.status_int != 200:
            rejected[server["uuid"]] = None
        elif (verdict := response.json["verdicts"][0])["verdict"] == "rejected":
            rejected[server["uuid"]] = {
                (each["stage"], each["name"], each["kind"]) for each in verdict["reasons"]
            }
    return rejected

# SPDX-License-Identifier: Apache-2.0
"""Reading of a generated cloud: calls, versions, rights and faults."""

from datetime import datetime

import pytest

from placement_sched.clients.api_reader import CallPool, MissingRight
from placement_sched.clients.cloud_reader import EarlierReading, read_cloud
from placement_sched.errors import ServiceFailed
from tests.clients.generated_apis import BASES, GeneratedCloud, build_uuid

NOW = datetime(2026, 1, 2)
PLACEMENT, COMPUTE, IMAGE = BASES.values()
PROVIDERS = f"{PLACEMENT}/resource_providers"


def read(cloud, *, parallel=4, **options):
    with CallPool(parallel, sleep=lambda _: None) as pool:
        return read_cloud(cloud.open_readers(pool), pool, lambda: NOW, **options)


def forbid(rule):
    document = {"forbidden": {"message": f"Policy doesn't allow {rule} to be performed."}}
    return lambda _number: (403, document, {})


@pytest.mark.parametrize(
    ("cloud", "most"),
    [
        (GeneratedCloud(hosts=1000, servers=20_000, traits=300, aggregates=60), 2_700),
        (GeneratedCloud(hosts=1000, children=3, servers=20_000, traits=300, aggregates=60), 9_500),
    ],
    ids=["flat", "trees"],
)
@pytest.mark.slow
def test_large_cloud_is_read_with_few_calls(cloud, most):
    reading = read(cloud)
    assert len(reading.providers) == 1000 * (1 + cloud.children)
    assert len(reading.lists.servers) == len(reading.allocations) == 20_000
    assert reading.calls == len(cloud.paths) <= most


def test_number_of_calls_is_two_for_each_provider_and_one_for_each_trait_and_aggregate():
    base = GeneratedCloud(hosts=50, traits=5, aggregates=2)
    calls = read(base).calls
    for change, more in (
        ({"hosts": 60}, 20),
        ({"hosts": 50, "children": 1}, 100),
        ({"hosts": 50, "traits": 8}, 3),
        ({"hosts": 50, "aggregates": 4}, 2),
    ):
        cloud = GeneratedCloud(**{"traits": 5, "aggregates": 2, **change})
        assert read(cloud).calls == calls + more, change


def test_values_of_all_apis_are_read():
    cloud = GeneratedCloud(hosts=4, children=1, servers=8, traits=3)
    reading = read(cloud)
    root = reading.providers[build_uuid(1, 2)]
    assert (root.name, root.parent, root.generation) == ("cn2", None, 1)
    assert root.inventories["VCPU"].allocation_ratio == 4.0
    assert root.traits == {"CUSTOM_T_0", "CUSTOM_T_1"}
    assert root.aggregates == {build_uuid(4, 0), build_uuid(4, 1)}
    child = reading.providers[build_uuid(2, 200)]
    assert (child.parent, child.aggregates) == (root.uuid, frozenset())
    record = reading.lists.servers[build_uuid(3, 2)].record
    assert (record.host, record.vm_state, record.flavor["name"]) == ("cn2", "active", "tiny")
    assert record.request == {
        "is_bfv": False, "availability_zone": "az1", "scheduler_hints": {"key": ["value"]}
    }  # fmt: skip
    assert record.image == {"id": build_uuid(5, 0), "properties": {"hw_disk_bus": "virtio"}}
    (image,) = reading.lists.images
    assert (image.name, image.properties) == ("cirros", {"hw_disk_bus": "virtio"})
    assert reading.lists.projects == {"1": {"p"}}
    (group,) = reading.lists.server_groups
    assert (group.policy, group.rules) == ("anti-affinity", {"max_server_per_host": 2})
    report = reading.lists.reports[0]
    assert (report["vcpus"], report["stats"]) == (64, {"num_instances": 2})
    assert reading.missing.keys() == {"provider_aggregates"}
    assert reading.allocations[record.uuid] == {
        root.uuid: {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
    }


def test_best_microversions_are_used():
    cloud = GeneratedCloud(newest={"placement": "1.99", "compute": "2.200"})
    read(cloud)
    assert cloud.versions[f"{COMPUTE}/os-hypervisors/detail"] == "compute 2.87"
    assert cloud.versions[f"{COMPUTE}/servers/detail"] == "compute 2.100"
    assert cloud.versions[PROVIDERS] == "placement 1.39"


@pytest.mark.parametrize(
    ("newest", "facts"),
    [
        ("2.99", {"scheduler_hints"}),
        ("2.95", {"scheduler_hints", "image_properties", "pinned_zones"}),
        ("2.61", {"scheduler_hints", "image_properties", "pinned_zones", "down_cells"}),
    ],
)
def test_older_nova_loses_named_facts(newest, facts):
    cloud = GeneratedCloud(newest={"placement": "1.39", "compute": newest})
    reading = read(cloud)
    further = {"server_group_rules"} if newest == "2.61" else set()
    assert reading.missing.keys() - {"provider_aggregates"} == facts | further
    request = reading.lists.servers[build_uuid(3, 0)].record.request
    assert ("availability_zone" in request) is ("pinned_zones" not in facts)


def test_oldest_placement_is_read_without_a_list_for_each_trait():
    cloud = GeneratedCloud(hosts=9, traits=2, newest={"placement": "1.14", "compute": "2.61"})
    reading = read(cloud)
    assert reading.versions == {"placement": "1.14", "compute": "2.61"}
    assert reading.providers[build_uuid(1, 4)].traits == {"CUSTOM_T_0", "CUSTOM_T_1"}
    assert f"{PROVIDERS}/{build_uuid(1, 4)}/traits" in cloud.paths


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        ({"placement": "1.13", "compute": "2.61"}, "placement microversion 1.14 .* is needed"),
        ({"placement": "1.39", "compute": "2.60"}, "compute microversion 2.61 .* is needed"),
    ],
)
def test_too_old_services_are_named(newest, words):
    with pytest.raises(ServiceFailed, match=words):
        read(GeneratedCloud(newest=newest))


def test_all_missing_rights_are_named_at_once():
    rules = ("os_compute_api:os-hypervisors:list-detail", "os_compute_api:os-services:list")
    paths = ("os-hypervisors/detail", "os-services")
    faults = {f"{COMPUTE}/{path}": forbid(rule) for path, rule in zip(paths, rules, strict=True)}
    with pytest.raises(MissingRight) as failure:
        read(GeneratedCloud(faults=faults), parallel=12)
    assert set(failure.value.rules) == set(rules)


def test_rule_is_named_if_the_response_does_not_name_it():
    cloud = GeneratedCloud(faults={f"{PLACEMENT}/traits": lambda _: (403, {}, {})})
    with pytest.raises(MissingRight, match="placement:traits:list"):
        read(cloud)


def test_hidden_host_of_servers_is_a_missing_right():
    cloud = GeneratedCloud()
    server = cloud.build_server(0)
    del server["OS-EXT-SRV-ATTR:host"]
    cloud.faults[f"{COMPUTE}/servers/detail"] = lambda _: (200, {"servers": [server]}, {})
    with pytest.raises(MissingRight, match="os_compute_api:os-extended-server-attributes"):
        read(cloud)


@pytest.mark.parametrize(
    ("path", "fact"),
    [
        (f"{COMPUTE}/os-server-groups", "server_groups"),
        (f"{IMAGE}/images", "images"),
        (f"{COMPUTE}/flavors/1/os-flavor-access", "flavor_access"),
    ],
)
def test_less_important_rights_are_missing_facts(path, fact):
    reading = read(GeneratedCloud(faults={path: forbid("os_compute_api:any:rule")}))
    assert reading.missing[fact] == "the policy rule os_compute_api:any:rule does not allow it"


def test_provider_that_changes_is_read_again():
    cloud = GeneratedCloud(hosts=3)
    uuid = build_uuid(1, 1)

    def change(number):
        # The second list has the traits of providers, after their inventories.
        if number == 1:
            cloud.generations[uuid] = 7

    cloud.faults[f"{PLACEMENT}/traits"] = change
    reading = read(cloud)
    assert reading.providers[uuid].generation == 7
    assert cloud.paths.count(f"{PROVIDERS}/{uuid}/inventories") == 2
    assert cloud.paths.count(f"{PROVIDERS}/{build_uuid(1, 0)}/inventories") == 1
    assert reading.providers[uuid].traits == {"CUSTOM_T_0"}
    assert "one_moment" not in reading.missing


def test_provider_that_never_rests_is_named():
    cloud = GeneratedCloud(hosts=3)
    uuid = build_uuid(1, 1)

    def change(number):
        cloud.generations[uuid] = number + 2

    cloud.faults[PROVIDERS] = change
    assert "1 providers changed while they were read" in read(cloud).missing["one_moment"]


def test_provider_deleted_during_the_reading_is_left_out():
    cloud = GeneratedCloud(hosts=3)
    uuid = build_uuid(1, 2)

    def delete(_number):
        cloud.hosts = 2

    cloud.faults[f"{PROVIDERS}/{uuid}/inventories"] = delete
    assert uuid not in read(cloud).providers


def test_provider_that_is_listed_but_cannot_be_read_is_an_error():
    path = f"{PROVIDERS}/{build_uuid(1, 1)}/inventories"
    cloud = GeneratedCloud(faults={path: lambda _: (404, {"errors": []}, {})})
    with pytest.raises(ServiceFailed, match=f"lists the resource provider {build_uuid(1, 1)}, but"):
        read(cloud)


def test_provider_whose_parent_is_not_listed_is_an_error():
    cloud = GeneratedCloud(hosts=2, children=1)
    rows = [row for row in cloud.list_providers() if row["uuid"] != build_uuid(1, 1)]
    cloud.list_providers = lambda: rows
    words = f"lists the resource provider {build_uuid(2, 100)}, but not its parent"
    with pytest.raises(ServiceFailed, match=words):
        read(cloud)


def test_server_that_moved_or_was_deleted_during_the_reading_is_resolved():
    cloud = GeneratedCloud(hosts=3, servers=6)
    moved, deleted = build_uuid(3, 0), build_uuid(3, 5)

    def move(_number):
        cloud.server_changes[0] = {"OS-EXT-SRV-ATTR:host": "cn1", "updated": "2026-01-02T00:00:01Z"}
        cloud.server_changes[5] = {"OS-EXT-STS:vm_state": "deleted"}
        resources = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
        cloud.extra_consumers[moved] = {
            "allocations": {build_uuid(1, 1): {"resources": resources}},
            "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE",
        }  # fmt: skip
        cloud.extra_consumers[deleted] = {"allocations": {}}

    cloud.faults[f"{PROVIDERS}/{build_uuid(1, 2)}/allocations"] = move
    reading = read(cloud)
    assert reading.lists.servers[moved].record.host == "cn1"
    assert reading.allocations[moved].keys() == {build_uuid(1, 1)}
    assert deleted not in reading.lists.servers
    assert deleted not in reading.allocations


def test_consumers_without_a_server_are_migrations_hidden_servers_or_unexplained():
    cloud = GeneratedCloud(hosts=3, servers=6)
    root = build_uuid(1, 0)
    migration, hidden, lost = (build_uuid(8, number) for number in range(3))
    for uuid in (migration, hidden, lost):
        cloud.extra_consumers[uuid] = {
            "allocations": {root: {"resources": {"VCPU": 2}}}, "project_id": "p", "user_id": "u",
            "consumer_type": "MIGRATION" if uuid == migration else "unknown",
        }  # fmt: skip
    server = build_uuid(3, 1)
    cloud.migrations = [{"id": 1, "uuid": migration, "instance_uuid": server}]
    cloud.hidden_servers[hidden] = {
        **cloud.build_server(0), "id": hidden, "OS-EXT-STS:vm_state": "soft-delete"
    }  # fmt: skip
    reading = read(cloud)
    assert reading.migrations == {migration: server}
    assert reading.lists.servers[hidden].record.vm_state == "soft-delete"
    assert reading.consumers.keys() == {migration, hidden, lost}
    assert reading.consumers[lost].consumer_type is None
    assert reading.appeared == frozenset()


def test_unchanged_providers_of_an_earlier_reading_are_not_read_again():
    cloud = GeneratedCloud(hosts=20, children=1, servers=40)
    first = read(cloud)
    earlier = EarlierReading(began=first.began, providers=first.providers)
    changed = build_uuid(1, 3)
    cloud.generations[changed] = 2
    # Placement does not raise the generation when a server is deleted.
    without_server = build_uuid(1, 19)
    cloud.servers = 39
    cloud.paths.clear()
    second = read(cloud, earlier=earlier)
    assert second.reused == 38
    calls = [path for path in cloud.paths if path.endswith("/inventories")]
    assert set(calls) == {f"{PROVIDERS}/{uuid}/inventories" for uuid in (changed, without_server)}
    cloud.generations, cloud.servers = {changed: 2}, 39
    complete = read(cloud)
    assert second.providers == complete.providers
    assert second.allocations == complete.allocations
    assert second.calls < complete.calls - 70


def test_aggregates_of_sharing_providers_are_read_for_all_their_hosts():
    cloud = GeneratedCloud(hosts=6, aggregates=0)
    own, storage = build_uuid(9, 0), build_uuid(1, 5)
    read_aggregates = cloud._read_aggregates
    cloud._read_aggregates = lambda row: [own] if row["uuid"] == storage else read_aggregates(row)
    cloud._get_placement_traits = lambda *_: {"traits": ["MISC_SHARES_VIA_AGGREGATE"]}
    rows = cloud.list_providers()
    route = cloud._get_placement_resource_providers

    def list_some(parts, query):
        if "required" in query:
            return {"resource_providers": rows[5:]}
        return route(parts, query)

    cloud._get_placement_resource_providers = list_some
    reading = read(cloud)
    assert reading.providers[storage].aggregates == {own}
    assert reading.providers[build_uuid(1, 0)].aggregates == {own}


def test_cell_that_is_down_is_named():
    cloud = GeneratedCloud(servers=2)
    partial = {"id": build_uuid(3, 1), "status": "UNKNOWN", "tenant_id": "p"}
    servers = [cloud.build_server(0), partial]
    services = [
        *cloud._get_compute_os_services((), {})["services"][:1],
        {"binary": "nova-compute", "host": "cn9", "status": "UNKNOWN", "id": build_uuid(6, 9)},
    ]
    cloud.faults = {
        f"{COMPUTE}/servers/detail": lambda _: (200, {"servers": servers}, {}),
        f"{COMPUTE}/os-services": lambda _: (200, {"services": services}, {}),
    }
    reading = read(cloud)
    assert reading.missing["down_cells"] == "cells do not answer: 1 hosts, such as cn9"
    assert [service.host for service in reading.lists.services] == ["cn0"]
    assert reading.lists.servers[build_uuid(3, 1)].is_partial

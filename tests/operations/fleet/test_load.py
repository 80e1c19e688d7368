# SPDX-License-Identifier: Apache-2.0
"""Loading of fleet files: changes, errors and concurrent writes."""

import threading
from datetime import timedelta

import pytest
from sqlalchemy import delete, select, update

from placement_sched.db.tables import (
    allocations,
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, Invalid
from placement_sched.operations.fleet import load as operation
from placement_sched.store.checks import Invariant
from placement_sched.store.placement import resource_providers as provider_trees
from tests.support.clouds import uuid_of
from tests.support.reports import NOW
from tests.support.statements import execute_without_foreign_keys, record_statements
from tests.verifier.model import Fault
from tests.verifier.verify import verify

HOSTS_FILE = """
hosts:
  - host: cn[1-3]
    vcpus: 8
    memory_mb: 4096
    local_gb: 100
    traits: [HW_CPU_X86_AVX]
"""
WHOLE_CLOUD_FILE = (
    HOSTS_FILE
    + """
    providers:
      - name: "{root}_gpu[0-1]"
        inventories: {VGPU: {total: 4}}
        traits: [CUSTOM_FAST]
services:
  - {host: cn3, status: disabled, disabled_reason: broken}
aggregates:
  - {name: az1, availability_zone: z1, hosts: "cn[1-2]"}
  - {name: fast, metadata: {trait:CUSTOM_FAST: required}, hosts: [cn3]}
flavors:
  - {name: small, id: s1, vcpus: 1, memory_mb: 512, root_gb: 5, extra_specs: {hw:x: 1}}
  - {name: secret, vcpus: 2, memory_mb: 512, is_public: false, projects: [p, q]}
images:
  - name: windows
    visibility: shared
    tags: [b, a]
    properties: {trait:CUSTOM_FAST: required}
server_groups:
  - {name: apart, policy: anti-affinity, rules: {max_server_per_host: 2}, project: p, user: u}
providers:
  - name: storage
    inventories: {DISK_GB: {total: 1000, reserved: 10}}
    aggregates: [aaaaaaaa-0000-4000-8000-000000000001]
instances:
  - {name: "web[1-2]", host: cn1, flavor: small, image: windows, project: p, user: u,
     server_group: apart}
  - {name: gpu, host: cn2, flavor: small, allocations: {cn2: {VCPU: 2}, cn2_gpu1: {VGPU: 1}}}
allocations:
  - consumer: bbbbbbbb-0000-4000-8000-000000000001
    project: p
    user: u
    type: MIGRATION
    allocations: {cn1: {VCPU: 1}}
"""
)


def read_provider(cloud, name):
    (provider,) = [row for row in cloud.state.providers.values() if row.name == name]
    return provider


def read_instance(cloud, name):
    (instance,) = [row for row in cloud.state.instances.values() if row.display_name == name]
    return instance


def read_allocations_by_provider(cloud, name):
    state = cloud.state
    names = {uuid: provider.name for uuid, provider in state.providers.items()}
    consumer = state.consumers.get(read_instance(cloud, name).uuid)
    return (
        {names[key]: dict(amounts) for key, amounts in consumer.allocations.items()}
        if consumer
        else {}
    )


def test_fleet_load_creates_hosts_providers_flavors_and_instances(cloud):
    assert ("new", "host", "cn3") in cloud.load(WHOLE_CLOUD_FILE)
    state = cloud.state
    assert {node.host for node in state.nodes.values()} == {"cn1", "cn2", "cn3"}
    cn1, gpu = read_provider(cloud, "cn1"), read_provider(cloud, "cn2_gpu1")
    assert {name: inventory.total for name, inventory in cn1.inventories.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 4096,
        "DISK_GB": 100,
    }
    assert gpu.parent == read_provider(cloud, "cn2").uuid
    assert (gpu.traits, gpu.inventories["VGPU"].total) == ({"CUSTOM_FAST"}, 4)
    assert read_provider(cloud, "cn3").traits == {"HW_CPU_X86_AVX", "COMPUTE_STATUS_DISABLED"}
    zones = {aggregate.name: aggregate for aggregate in state.aggregates.values()}
    assert zones["az1"].hosts == {"cn1", "cn2"}
    assert cn1.aggregates == {zones["az1"].uuid}
    assert state.services["cn3", "nova-compute"].disabled_reason == "broken"
    assert state.flavors["s1"].flavor.extra_specs == {"hw:x": "1"}
    (secret,) = [flavor for flavor in state.flavors.values() if flavor.flavor.name == "secret"]
    assert secret.projects == {"p", "q"}
    (image,) = state.images.values()
    assert image.tags == {"a", "b"}
    assert read_allocations_by_provider(cloud, "web2") == {
        "cn1": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}
    }
    assert read_allocations_by_provider(cloud, "gpu") == {
        "cn2": {"VCPU": 2},
        "cn2_gpu1": {"VGPU": 1},
    }
    assert read_instance(cloud, "web1").image["name"] == "windows"
    (group,) = state.server_groups.values()
    assert (group.name, group.rules, group.project_id) == ("apart", {"max_server_per_host": 2}, "p")
    assert read_instance(cloud, "web1").server_group == group.uuid
    assert len(state.consumers) == 4


@pytest.mark.all_databases
def test_second_load_of_a_fleet_file_changes_nothing(cloud):
    cloud.load(WHOLE_CLOUD_FILE)
    before = cloud.state
    assert cloud.load(WHOLE_CLOUD_FILE) == []
    assert cloud.load(cloud.dump()) == []
    assert cloud.state == before


def test_fleet_file_accepts_metrics_in_the_format_of_nova_compute(sqlite_cloud):
    sqlite_cloud.load(
        """
        hosts:
          - host: cn1
            vcpus: 8
            memory_mb: 4096
            metrics:
              - {name: cpu.percent, value: 0.25, timestamp: "2026-11-21T10:11:12.345678"}
              - {name: cpu.idle.percent, value: 1.0}
              - {name: cpu.user.percent, value: 1}
              - {name: numa.membw.max, numa_membw_values: {"0": 10, "1": 43}}
        """
    )
    (node,) = sqlite_cloud.state.nodes.values()
    assert [metric.value for metric in node.reported_metrics] == [25, 100, 1, None]
    assert node.reported_metrics[3].numa_membw_values == {"0": 10, "1": 43}
    assert sqlite_cloud.load(sqlite_cloud.dump()) == []


def test_dry_run_of_fleet_load_reports_changes_without_writing(cloud):
    empty = cloud.state
    message = cloud.load(WHOLE_CLOUD_FILE, dry_run=True)
    assert cloud.state == empty
    assert cloud.load(WHOLE_CLOUD_FILE) == message


def test_fleet_load_keeps_objects_missing_in_the_file(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    state = sqlite_cloud.state
    assert sqlite_cloud.load("flavors: [{name: small, memory_mb: 600}]") == [
        ("changed", "flavor", "small")
    ]
    after = sqlite_cloud.state
    assert after.flavors["s1"].flavor.memory_mb == 600
    assert after.flavors["s1"].flavor.vcpus == 1
    assert (after.nodes, after.providers, after.aggregates, after.images) == (
        state.nodes,
        state.providers,
        state.aggregates,
        state.images,
    )


def test_fleet_load_updates_objects_in_the_file(cloud):
    cloud.load(WHOLE_CLOUD_FILE)
    cloud.load(
        """
        hosts:
          - host: cn1
            traits: [CUSTOM_OTHER]
            inventories: {VGPU: {total: 2}}
          - {host: cn2, vcpus: 16, memory_mb: 4096}
        aggregates:
          - {name: az1, metadata: {colour: red}, availability_zone: z1, hosts: [cn1, cn2]}
          - {name: fast, metadata: {}, hosts: [cn1]}
        flavors:
          - {name: small, extra_specs: {}}
          - {name: secret, projects: [r]}
        images:
          - {name: windows, tags: [c], properties: {}}
        services:
          - {host: cn3, status: enabled}
        providers:
          - {name: storage, inventories: {DISK_GB: {total: 5}}, traits: [CUSTOM_SLOW]}
        instances:
          - {name: "web[1-2]", allocations: {}}
        """
    )
    cn1, cn2, cn3 = (read_provider(cloud, f"cn{number}") for number in (1, 2, 3))
    assert cn1.traits == {"CUSTOM_OTHER"}
    assert {name: inventory.total for name, inventory in cn1.inventories.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 4096,
        "DISK_GB": 100,
        "VGPU": 2,
    }
    assert {name: inventory.total for name, inventory in cn2.inventories.items()} == {
        "VCPU": 16,
        "MEMORY_MB": 4096,
    }
    assert cn2.traits == {"HW_CPU_X86_AVX"}
    assert cn3.traits == {"HW_CPU_X86_AVX"}
    state = cloud.state
    zone, fast = state.aggregates.values()
    assert zone.metadata == {"availability_zone": "z1", "colour": "red"}
    assert fast.metadata == {}
    assert (cn1.aggregates, cn3.aggregates) == ({zone.uuid, fast.uuid}, set())
    assert state.flavors["s1"].flavor.extra_specs == {}
    (image,) = state.images.values()
    assert (image.tags, image.properties) == ({"c"}, {})
    assert read_provider(cloud, "storage").traits == {"CUSTOM_SLOW"}
    assert read_allocations_by_provider(cloud, "web1") == {}


def test_fleet_load_updates_the_server_group_of_the_same_name(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    sqlite_cloud.load("server_groups: [{name: apart, policy: affinity}]")
    (group,) = sqlite_cloud.state.server_groups.values()
    assert (group.policy, group.rules, group.project_id) == ("affinity", {}, "p")


def test_server_groups_with_equal_names_are_selected_by_uuid(sqlite_cloud):
    uuids = [uuid_of(name) for name in "ab"]
    for uuid in uuids:
        sqlite_cloud.load(f"server_groups: [{{name: g, uuid: {uuid}, policy: affinity}}]")
    with pytest.raises(Invalid, match="2 server groups are named g"):
        sqlite_cloud.load("server_groups: [{name: g, policy: affinity}]")
    with pytest.raises(Invalid, match="2 server groups are named g: use an id"):
        sqlite_cloud.load("instances: [{name: one, server_group: g}]")
    sqlite_cloud.load(f"instances: [{{name: one, server_group: {uuids[1]}}}]")
    assert read_instance(sqlite_cloud, "one").server_group == uuids[1]


def test_fleet_load_moves_allocations_of_a_moved_instance(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    sqlite_cloud.load("instances: [{name: web1, host: cn3}]")
    assert read_allocations_by_provider(sqlite_cloud, "web1") == {
        "cn3": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}
    }
    assert sqlite_cloud.load("instances: [{name: web1, host: cn3}]") == []


def test_load_can_remove_an_inventory_and_the_allocations_of_it_together(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    sqlite_cloud.load(
        """
        hosts: [{host: cn2, inventories: {VCPU: null}}]
        instances: [{name: gpu, allocations: {cn2_gpu0: {VGPU: 1}}}]
        """
    )
    assert "VCPU" not in read_provider(sqlite_cloud, "cn2").inventories


def test_load_moves_a_host_to_another_zone_if_the_file_lists_both_aggregates(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    sqlite_cloud.load(
        """
        aggregates:
          - {name: az2, availability_zone: z2, hosts: [cn3]}
        """
    )
    sqlite_cloud.load(
        """
        aggregates:
          - {name: az3, availability_zone: z3, hosts: [cn3]}
          - {name: az2, hosts: []}
        """
    )
    zones = {zone.name: zone.hosts for zone in sqlite_cloud.state.aggregates.values()}
    assert (zones["az2"], zones["az3"]) == (set(), {"cn3"})


def test_fleet_load_renames_and_moves_providers(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    storage = read_provider(sqlite_cloud, "storage").uuid
    sqlite_cloud.load(
        f"""
        hosts:
          - host: cn1
            providers: [{{name: "{{root}}-store", uuid: {storage}}}]
        """
    )
    moved = read_provider(sqlite_cloud, "cn1-store")
    assert (moved.uuid, moved.parent) == (storage, read_provider(sqlite_cloud, "cn1").uuid)
    assert moved.inventories["DISK_GB"].total == 1000


def test_fleet_load_renames_a_node_by_its_uuid(sqlite_cloud):
    sqlite_cloud.load(HOSTS_FILE)
    uuid = read_provider(sqlite_cloud, "cn3").uuid
    sqlite_cloud.load(f"hosts: [{{host: other, uuid: {uuid}}}]")
    assert read_provider(sqlite_cloud, "other").uuid == uuid
    assert {node.host for node in sqlite_cloud.state.nodes.values()} == {"cn1", "cn2", "other"}


def test_host_in_a_fleet_file_can_have_several_nodes(sqlite_cloud):
    sqlite_cloud.load(
        """
        hosts: [{host: ironic, node: "metal[1-3]", vcpus: 1, memory_mb: 1, host_ip: 10.0.0.1}]
        instances: [{name: one, host: ironic, node: metal2, flavor: {vcpus: 1, memory_mb: 1}}]
        """
    )
    assert read_allocations_by_provider(sqlite_cloud, "one") == {
        "metal2": {"VCPU": 1, "MEMORY_MB": 1}
    }
    assert "node: metal[1-3]" in sqlite_cloud.dump()


def test_host_addresses_and_uuids_are_numbered_like_their_name_pattern(sqlite_cloud):
    sqlite_cloud.load(
        """
        hosts:
          - host: cn[1-2]
            uuid: 11111111-0000-4000-8000-[000000000001-000000000002]
            host_ip: 10.0.0.[1-2]
            vcpus: 1
            memory_mb: 1
        """
    )
    assert [
        (node.uuid[-1], node.host, node.host_ip) for node in sqlite_cloud.state.nodes.values()
    ] == [("1", "cn1", "10.0.0.1"), ("2", "cn2", "10.0.0.2")]
    assert "uuid: 11111111-0000-4000-8000-[000000000001-000000000002]" in sqlite_cloud.dump()


def test_dump_shows_similar_hosts_and_instances_as_name_ranges(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    dumped = sqlite_cloud.dump()
    assert "- host: cn[1-3]\n" in dumped
    assert "name: '{root}_gpu0'" in dumped
    assert "- name: web[1-2]\n  host: cn1\n" in dumped


def test_fleet_load_sets_last_seen_up_of_new_hosts_only(sqlite_cloud):
    sqlite_cloud.load(
        "hosts: [{host: cn1, vcpus: 1, memory_mb: 1, last_seen_up: 2020-01-01T00:00:00}]"
    )
    sqlite_cloud.load(
        "hosts: [{host: cn1, vcpus: 2, memory_mb: 1}, {host: cn2, vcpus: 2, memory_mb: 1}]"
    )
    seen = {node.host: node.last_seen_up.year for node in sqlite_cloud.state.nodes.values()}
    assert seen == {"cn1": 2020, "cn2": 2026}


def test_provider_aggregates_differing_from_host_aggregates_are_kept(sqlite_cloud, empty_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    number = read_provider(sqlite_cloud, "cn1").uuid
    sqlite_cloud.database.write(
        lambda connection: connection.execute(
            delete(resource_provider_aggregates).where(
                resource_provider_aggregates.c.resource_provider_id
                == connection.scalar(
                    resource_providers.select()
                    .with_only_columns(resource_providers.c.id)
                    .where(resource_providers.c.uuid == number)
                )
            )
        )
    )
    other = empty_cloud()
    other.load(sqlite_cloud.dump())
    assert read_provider(other, "cn1").aggregates == set()
    assert other.state == sqlite_cloud.state
    assert other.load(sqlite_cloud.dump()) == []


def test_fleet_load_restores_the_disabled_trait_of_a_disabled_host(sqlite_cloud):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    sqlite_cloud.database.write(
        lambda connection: connection.execute(delete(resource_provider_traits))
    )
    sqlite_cloud.load("services: [{host: cn3, status: disabled}]\nhosts: [{host: cn3, traits: []}]")
    assert read_provider(sqlite_cloud, "cn3").traits == {"COMPUTE_STATUS_DISABLED"}


def test_provider_that_differs_from_its_node_report_is_dumped_and_restored(
    sqlite_cloud, empty_cloud
):
    sqlite_cloud.load(HOSTS_FILE)
    sqlite_cloud.database.write(
        lambda connection: connection.execute(
            update(resource_providers)
            .where(resource_providers.c.name == "cn2")
            .values(name="elsewhere")
        )
    )
    sqlite_cloud.database.write(
        lambda connection: connection.execute(
            delete(inventories).where(inventories.c.resource_class_id == 0)
        )
    )
    other = empty_cloud()
    other.load(sqlite_cloud.dump())
    assert other.state == sqlite_cloud.state
    assert other.dump() == sqlite_cloud.dump()


def test_images_with_missing_or_equal_names_are_selected_by_id(sqlite_cloud, empty_cloud):
    one, two, three = (uuid_of(name) for name in "abc")
    sqlite_cloud.load(f"images: [{{id: {one}}}, {{id: {two}, name: i}}, {{id: {three}, name: i}}]")
    other = empty_cloud()
    other.load(sqlite_cloud.dump())
    assert other.state == sqlite_cloud.state
    with pytest.raises(Invalid, match="2 images are named i"):
        sqlite_cloud.load("images: [{name: i}]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "aggregates:\n- {name: az3, availability_zone: z3, hosts: [cn3, cn1]}",
            r"f.yaml:2:45: aggregate az3: Cannot add host to aggregate .* zone\(s\) z1: cn1\.",
        ),
        (
            "aggregates:\n- {name: az1, availability_zone: z2}",
            "f.yaml:2:34: aggregate az1: Cannot update aggregate ",
        ),
        (
            "aggregates:\n- {name: az1, hosts: [cn2]}",
            "f.yaml:2:22: aggregate az1: Cannot remove host from aggregate ",
        ),
        (
            "instances:\n- {name: odd, allocations: {storage: {VGPU: 1}}}",
            "f.yaml:2:15: provider storage has no inventory of VGPU",
        ),
        ("hosts:\n- {host: cn1, inventories: {VCPU: null}}", "Inventory for 'VCPU' .* in use"),
    ],
    ids=["zone", "zone of instances", "leaving", "no inventory", "in use"],
)
def test_fleet_load_error_names_the_entry_and_changes_nothing(sqlite_cloud, text, message):
    sqlite_cloud.load(WHOLE_CLOUD_FILE)
    before = sqlite_cloud.state
    with pytest.raises(Error, match=message):
        sqlite_cloud.load(f"{text}\nflavors: [{{name: another, vcpus: 1, memory_mb: 1}}]")
    assert sqlite_cloud.state == before


@pytest.mark.all_databases
def test_concurrent_fleet_loads_are_serialized(cloud):
    texts = [HOSTS_FILE, HOSTS_FILE.replace("vcpus: 8", "vcpus: 16")]
    threads = [threading.Thread(target=cloud.load, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(cloud.state.nodes) == 3
    assert len({node.vcpus for node in cloud.state.nodes.values()}) == 1


def test_fleet_load_is_retried_after_a_concurrent_update(sqlite_cloud, monkeypatch):
    apply, rejections = operation.apply, [operation.ConcurrentUpdate("rival")]

    def raise_concurrent_update_once(*arguments):
        if rejections:
            raise rejections.pop()
        apply(*arguments)

    monkeypatch.setattr(operation, "apply", raise_concurrent_update_once)
    sqlite_cloud.load(HOSTS_FILE)
    assert len(sqlite_cloud.state.nodes) == 3


def test_statement_count_of_fleet_load_is_independent_of_hosts_and_instances(empty_cloud):
    counts = []
    for size in (2, 40):
        cloud = empty_cloud()
        text = f"""
        flavors: [{{name: "small", vcpus: 1, memory_mb: 1}}]
        aggregates: [{{name: a, hosts: "cn[1-{size}]"}}]
        hosts:
          - host: cn[1-{size}]
            vcpus: 8
            memory_mb: 100
            traits: [CUSTOM_A, CUSTOM_B]
            providers: [{{name: "{{root}}_n[0-1]", inventories: {{PCPU: {{total: 1}}}}}}]
        instances: [{{name: "i[1-{size}]", host: "cn[1-{size}]", flavor: small}}]
        """
        with record_statements(cloud.database) as statements:
            cloud.load(text)
        with record_statements(cloud.database) as changed:
            cloud.load(text.replace("CUSTOM_B", "CUSTOM_C").replace("total: 1", "total: 2"))
        with record_statements(cloud.database) as dumped:
            cloud.dump()
        counts.append([len(statements), len(changed), len(dumped)])
    assert counts[0] == counts[1]


SMALL_HOST_FILE = """
hosts:
  - {host: cn1, vcpus: 8, memory_mb: 4096, local_gb: 20}
"""
LARGE_ALLOCATIONS_FILE = """
instances:
  - {name: "web[1-2]", host: cn1, allocations: {cn1: {VCPU: 1, DISK_GB: 15}}}
  - {name: large, host: cn1, allocations: {cn1: {DISK_GB: 25}}}
"""


def are_all_violations_over_capacity(violations):
    invariants = {violation.invariant for violation in violations}
    return invariants == {Invariant.OVER_CAPACITY, Fault.UNITS}


def assert_over_capacity_is_allowed(cloud):
    verified = verify(cloud.database)
    assert verified.violations == ()
    assert are_all_violations_over_capacity(verified.allowed)


@pytest.mark.all_databases
def test_loaded_allocations_above_the_capacity_of_a_host_violate_no_invariant(cloud):
    cloud.load(SMALL_HOST_FILE + LARGE_ALLOCATIONS_FILE)
    assert_over_capacity_is_allowed(cloud)


def test_load_of_allocations_above_an_old_inventory_violates_no_invariant(cloud):
    cloud.load(SMALL_HOST_FILE)
    long_ago = NOW - timedelta(days=1000)
    execute_without_foreign_keys(
        cloud.database, update(inventories).values(created_at=long_ago, updated_at=long_ago)
    )
    cloud.load(LARGE_ALLOCATIONS_FILE)
    assert_over_capacity_is_allowed(cloud)
    # A later allocation did not exist before the inventory shrank.
    execute_without_foreign_keys(
        cloud.database, update(allocations).values(updated_at=NOW + timedelta(seconds=1))
    )
    assert are_all_violations_over_capacity(verify(cloud.database).violations)


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_load_preserves_concurrent_changes_of_providers_not_in_the_file(cloud, monkeypatch):
    """Another client changes and deletes providers that are not in the file."""
    cloud.load(
        """
        hosts:
        - {host: cn1, vcpus: 8, memory_mb: 1024, local_gb: 10}
        providers:
        - {name: shared, inventories: {DISK_GB: {total: 100}}}
        - {name: victim, inventories: {DISK_GB: {total: 100}}}
        """
    )
    providers = {provider.name: provider for provider in cloud.state.providers.values()}

    def write_rows(connection):
        provider_trees.remove(connection, providers["victim"].uuid)
        is_its = resource_providers.c.name == "shared"
        shared = select(resource_providers.c.id).where(is_its).scalar_subquery()
        of_shared = update(inventories).where(inventories.c.resource_provider_id == shared)
        connection.execute(of_shared.values(total=555))

    write_aggregates = operation._write_aggregates

    def write_aggregates_after_another_client(*arguments):
        other = Database(cloud.settings)
        other.write(write_rows)
        other.dispose()
        write_aggregates(*arguments)

    monkeypatch.setattr(operation, "_write_aggregates", write_aggregates_after_another_client)
    cloud.load("aggregates: [{name: racks, hosts: [cn1]}]")
    after = {provider.name: provider for provider in cloud.state.providers.values()}
    assert "victim" not in after
    assert after["shared"].inventories["DISK_GB"].total == 555

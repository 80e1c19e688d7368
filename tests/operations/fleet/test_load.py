# SPDX-License-Identifier: Apache-2.0
"""A fleet file makes the cloud what it says, wholly or not at all, and leaves the rest alone."""

import threading
from datetime import timedelta

import pytest
from sqlalchemy import delete, select, update

from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.db.transaction import Database
from placement_sched.errors import Conflict, Invalid
from placement_sched.model.checks import Invariant
from placement_sched.operations.fleet import load as operation
from placement_sched.store.placement import provider_trees
from tests.support.clouds import uuid_of
from tests.support.invariants import break_tables, run_verifier
from tests.support.reports import NOW
from tests.support.statements import record_statements
from tests.verifier.model import Fault

HOSTS = """
hosts:
  - host: cn[1-3]
    vcpus: 8
    memory_mb: 4096
    local_gb: 100
    traits: [HW_CPU_X86_AVX]
"""
WHOLE = (
    HOSTS
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


def provider(cloud, name):
    (found,) = [one for one in cloud.state.providers.values() if one.name == name]
    return found


def instance(cloud, name):
    (found,) = [one for one in cloud.state.instances.values() if one.display_name == name]
    return found


def held(cloud, name):
    state = cloud.state
    names = {uuid: one.name for uuid, one in state.providers.items()}
    consumer = state.consumers.get(instance(cloud, name).uuid)
    return (
        {names[uuid]: dict(some) for uuid, some in consumer.allocations.items()} if consumer else {}
    )


def test_a_whole_cloud_is_made(cloud):
    assert ("new", "host", "cn3") in cloud.load(WHOLE)
    state = cloud.state
    assert {node.host for node in state.nodes.values()} == {"cn1", "cn2", "cn3"}
    cn1, gpu = provider(cloud, "cn1"), provider(cloud, "cn2_gpu1")
    assert {name: one.total for name, one in cn1.inventories.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 4096,
        "DISK_GB": 100,
    }
    assert gpu.parent == provider(cloud, "cn2").uuid
    assert (gpu.traits, gpu.inventories["VGPU"].total) == ({"CUSTOM_FAST"}, 4)
    assert provider(cloud, "cn3").traits == {"HW_CPU_X86_AVX", "COMPUTE_STATUS_DISABLED"}
    zones = {one.name: one for one in state.aggregates.values()}
    assert zones["az1"].hosts == {"cn1", "cn2"}
    assert cn1.aggregates == {zones["az1"].uuid}
    assert state.services["cn3", "nova-compute"].disabled_reason == "broken"
    assert state.flavors["s1"].flavor.extra_specs == {"hw:x": "1"}
    (secret,) = [one for one in state.flavors.values() if one.flavor.name == "secret"]
    assert secret.projects == {"p", "q"}
    (image,) = state.images.values()
    assert image.tags == {"a", "b"}
    assert held(cloud, "web2") == {"cn1": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}}
    assert held(cloud, "gpu") == {"cn2": {"VCPU": 2}, "cn2_gpu1": {"VGPU": 1}}
    assert instance(cloud, "web1").image["name"] == "windows"
    (group,) = state.server_groups.values()
    assert (group.name, group.rules, group.project_id) == ("apart", {"max_server_per_host": 2}, "p")
    assert instance(cloud, "web1").server_group == group.uuid
    assert len(state.consumers) == 4


@pytest.mark.all_databases
def test_loaded_again_nothing_changes(cloud):
    cloud.load(WHOLE)
    before = cloud.state
    assert cloud.load(WHOLE) == []
    assert cloud.load(cloud.dump()) == []
    assert cloud.state == before


def test_metrics_of_a_file_may_be_as_nova_compute_stores_them(small):
    small.load(
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
    (node,) = small.state.nodes.values()
    assert [one.value for one in node.reported_metrics] == [25, 100, 1, None]
    assert node.reported_metrics[3].numa_membw_values == {"0": 10, "1": 43}
    assert small.load(small.dump()) == []


def test_a_dry_run_reports_the_same_and_changes_nothing(cloud):
    empty = cloud.state
    message = cloud.load(WHOLE, dry_run=True)
    assert cloud.state == empty
    assert cloud.load(WHOLE) == message


def test_a_dry_run_refuses_what_the_load_would_and_in_the_same_words(small):
    small.load(WHOLE)
    text = "aggregates: [{name: az3, availability_zone: z3, hosts: [cn1]}]"
    message = []
    for dry_run in (True, False):
        with pytest.raises(Conflict) as refused:
            small.load(text, dry_run=dry_run)
        message.append(str(refused.value))
    assert message[0] == message[1]


def test_dump_then_load_is_the_identity_on_every_database(cloud, empty_cloud):
    cloud.load(WHOLE)
    other = empty_cloud()
    other.load(cloud.dump())
    assert other.dump() == cloud.dump()


def test_what_a_file_does_not_name_stays(small):
    small.load(WHOLE)
    before = small.state
    assert small.load("flavors: [{name: small, memory_mb: 600}]") == [
        ("changed", "flavor", "small")
    ]
    after = small.state
    assert after.flavors["s1"].flavor.memory_mb == 600
    assert after.flavors["s1"].flavor.vcpus == 1
    assert (after.nodes, after.providers, after.aggregates, after.images) == (
        before.nodes,
        before.providers,
        before.aggregates,
        before.images,
    )


def test_what_a_file_names_becomes_just_so(cloud):
    cloud.load(WHOLE)
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
    cn1, cn2, cn3 = (provider(cloud, f"cn{number}") for number in (1, 2, 3))
    assert cn1.traits == {"CUSTOM_OTHER"}
    assert {name: one.total for name, one in cn1.inventories.items()} == {
        "VCPU": 8,
        "MEMORY_MB": 4096,
        "DISK_GB": 100,
        "VGPU": 2,
    }
    assert {name: one.total for name, one in cn2.inventories.items()} == {
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
    assert provider(cloud, "storage").traits == {"CUSTOM_SLOW"}
    assert held(cloud, "web1") == {}


def test_a_server_group_is_changed_by_its_name(small):
    small.load(WHOLE)
    small.load("server_groups: [{name: apart, policy: affinity}]")
    (group,) = small.state.server_groups.values()
    assert (group.policy, group.rules, group.project_id) == ("affinity", {}, "p")


def test_server_groups_of_one_name_are_selected_by_uuid(small):
    uuids = [uuid_of(name) for name in "ab"]
    for uuid in uuids:
        small.load(f"server_groups: [{{name: g, uuid: {uuid}, policy: affinity}}]")
    with pytest.raises(Invalid, match="2 server groups are named g"):
        small.load("server_groups: [{name: g, policy: affinity}]")
    with pytest.raises(Invalid, match="2 server groups are named g, use an id"):
        small.load("instances: [{name: one, server_group: g}]")
    small.load(f"instances: [{{name: one, server_group: {uuids[1]}}}]")
    assert instance(small, "one").server_group == uuids[1]


def test_an_instance_that_moves_takes_its_allocations_along(small):
    small.load(WHOLE)
    small.load("instances: [{name: web1, host: cn3}]")
    assert held(small, "web1") == {"cn3": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}}
    assert small.load("instances: [{name: web1, host: cn3}]") == []


def test_an_instance_may_leave_what_is_then_removed(small):
    small.load(WHOLE)
    small.load(
        """
        hosts: [{host: cn2, inventories: {VCPU: null}}]
        instances: [{name: gpu, allocations: {cn2_gpu0: {VGPU: 1}}}]
        """
    )
    assert "VCPU" not in provider(small, "cn2").inventories


def test_a_host_changes_its_zone_with_a_file_that_names_both(small):
    small.load(WHOLE)
    small.load(
        """
        aggregates:
          - {name: az2, availability_zone: z2, hosts: [cn3]}
        """
    )
    small.load(
        """
        aggregates:
          - {name: az3, availability_zone: z3, hosts: [cn3]}
          - {name: az2, hosts: []}
        """
    )
    zones = {one.name: one.hosts for one in small.state.aggregates.values()}
    assert (zones["az2"], zones["az3"]) == (set(), {"cn3"})


def test_providers_can_be_renamed_and_moved(small):
    small.load(WHOLE)
    storage = provider(small, "storage").uuid
    small.load(
        f"""
        hosts:
          - host: cn1
            providers: [{{name: "{{root}}-store", uuid: {storage}}}]
        """
    )
    moved = provider(small, "cn1-store")
    assert (moved.uuid, moved.parent) == (storage, provider(small, "cn1").uuid)
    assert moved.inventories["DISK_GB"].total == 1000


def test_a_node_can_be_renamed_by_its_uuid(small):
    small.load(HOSTS)
    uuid = provider(small, "cn3").uuid
    small.load(f"hosts: [{{host: other, uuid: {uuid}}}]")
    assert provider(small, "other").uuid == uuid
    assert {node.host for node in small.state.nodes.values()} == {"cn1", "cn2", "other"}


def test_a_host_may_have_several_nodes(small):
    small.load(
        """
        hosts: [{host: ironic, node: "metal[1-3]", vcpus: 1, memory_mb: 1, host_ip: 10.0.0.1}]
        instances: [{name: one, host: ironic, node: metal2, flavor: {vcpus: 1, memory_mb: 1}}]
        """
    )
    assert held(small, "one") == {"metal2": {"VCPU": 1, "MEMORY_MB": 1}}
    assert "node: metal[1-3]" in small.dump()


def test_addresses_and_uuids_go_with_the_names(small):
    small.load(
        """
        hosts:
          - host: cn[1-2]
            uuid: 11111111-0000-4000-8000-[000000000001-000000000002]
            host_ip: 10.0.0.[1-2]
            vcpus: 1
            memory_mb: 1
        """
    )
    assert [(node.uuid[-1], node.host, node.host_ip) for node in small.state.nodes.values()] == [
        ("1", "cn1", "10.0.0.1"),
        ("2", "cn2", "10.0.0.2"),
    ]
    assert "uuid: 11111111-0000-4000-8000-[000000000001-000000000002]" in small.dump()


def test_hosts_that_are_alike_share_ranges(small):
    small.load(WHOLE)
    dumped = small.dump()
    assert "- host: cn[1-3]\n" in dumped
    assert "name: '{root}_gpu0'" in dumped
    assert "- name: web[1-2]\n  host: cn1\n" in dumped


def test_last_seen_up_is_now_for_new_hosts_and_stays_for_others(small):
    small.load("hosts: [{host: cn1, vcpus: 1, memory_mb: 1, last_seen_up: 2020-01-01T00:00:00}]")
    small.load("hosts: [{host: cn1, vcpus: 2, memory_mb: 1}, {host: cn2, vcpus: 2, memory_mb: 1}]")
    seen = {node.host: node.last_seen_up.year for node in small.state.nodes.values()}
    assert seen == {"cn1": 2020, "cn2": 2026}


def test_memberships_that_disagree_with_host_aggregates_stay_so(small, empty_cloud):
    small.load(WHOLE)
    number = provider(small, "cn1").uuid
    small.database.write(
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
    other.load(small.dump())
    assert provider(other, "cn1").aggregates == set()
    assert other.state == small.state
    assert other.load(small.dump()) == []


def test_a_mark_that_a_disabled_host_lost_is_put_back(small):
    small.load(WHOLE)
    small.database.write(lambda connection: connection.execute(delete(resource_provider_traits)))
    small.load("services: [{host: cn3, status: disabled}]\nhosts: [{host: cn3, traits: []}]")
    assert provider(small, "cn3").traits == {"COMPUTE_STATUS_DISABLED"}


def test_a_provider_that_is_not_as_reports_make_it_stays_so(small, empty_cloud):
    small.load(HOSTS)
    small.database.write(
        lambda connection: connection.execute(
            update(resource_providers)
            .where(resource_providers.c.name == "cn2")
            .values(name="elsewhere")
        )
    )
    small.database.write(
        lambda connection: connection.execute(
            delete(inventories).where(inventories.c.resource_class_id == 0)
        )
    )
    other = empty_cloud()
    other.load(small.dump())
    assert other.state == small.state
    assert other.dump() == small.dump()


def test_an_image_without_a_name_and_two_of_one_name_are_selected_by_their_ids(small, empty_cloud):
    one, two, three = (uuid_of(name) for name in "abc")
    small.load(f"images: [{{id: {one}}}, {{id: {two}, name: i}}, {{id: {three}, name: i}}]")
    other = empty_cloud()
    other.load(small.dump())
    assert other.state == small.state
    with pytest.raises(Invalid, match="2 images are named i"):
        small.load("images: [{name: i}]")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("aggregates: [{name: az3, availability_zone: z3, hosts: [cn1]}]", Conflict),
        ("aggregates: [{name: az1, availability_zone: z2}]", Invalid),
        ("hosts: [{host: cn1, inventories: {VCPU: null}}]", Invalid),
        ("instances: [{name: odd, allocations: {storage: {VGPU: 1}}}]", Invalid),
    ],
    ids=["zone", "zone of instances", "in use", "no inventory"],
)
def test_where_the_cloud_is_against_it_nothing_is_changed(small, text, error):
    small.load(WHOLE)
    before = small.state
    with pytest.raises(error):
        small.load("flavors: [{name: another, vcpus: 1, memory_mb: 1}]\n" + text)
    assert small.state == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "aggregates:\n- {name: az3, availability_zone: z3, hosts: [cn3, cn1]}",
            "f.yaml:2:45: aggregate az3: Cannot add host to aggregate ",
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
            "hosts:\n- {host: cn1, inventories: {VCPU: null}}",
            "f.yaml:2:15: provider cn1: the inventory of VCPU is in use by ",
        ),
        (
            "instances:\n- {name: odd, allocations: {storage: {VGPU: 1}}}",
            "f.yaml:2:15: odd: provider storage has no inventory of VGPU",
        ),
    ],
    ids=["zone", "zone of instances", "leaving", "in use", "no inventory"],
)
def test_a_refusal_names_the_entry_and_its_place(small, text, message):
    small.load(WHOLE)
    with pytest.raises((Conflict, Invalid)) as refused:
        small.load(text)
    assert str(refused.value).startswith(message)


def test_a_zone_conflict_names_the_hosts(small):
    small.load(WHOLE)
    with pytest.raises(Conflict, match=r"already in availability zone\(s\) z1: cn1\."):
        small.load("aggregates: [{name: az3, availability_zone: z3, hosts: [cn1, cn3]}]")


def test_a_service_keeps_its_uuid_apart_from_others(small):
    small.load(f"services: [{{host: a, binary: nova-scheduler, uuid: {uuid_of('s')}}}]")
    with pytest.raises(Invalid, match=r"^f.yaml:1:.* already belongs to nova-scheduler of a"):
        small.load(f"services: [{{host: b, binary: nova-scheduler, uuid: {uuid_of('s')}}}]")


@pytest.mark.all_databases
def test_two_loads_at_once_take_turns(cloud):
    texts = [HOSTS, HOSTS.replace("vcpus: 8", "vcpus: 16")]
    threads = [threading.Thread(target=cloud.load, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(cloud.state.nodes) == 3
    assert len({node.vcpus for node in cloud.state.nodes.values()}) == 1


def test_a_load_is_repeated_after_a_concurrent_update(small, monkeypatch):
    apply, refusals = operation.apply, [operation.ConcurrentUpdate("rival")]

    def raced(*arguments):
        if refusals:
            raise refusals.pop()
        apply(*arguments)

    monkeypatch.setattr(operation, "apply", raced)
    small.load(HOSTS)
    assert len(small.state.nodes) == 3


def test_concurrent_updates_end_the_load_after_some_attempts(small, monkeypatch):
    def raced(*_):
        raise operation.ConcurrentUpdate("rival")

    monkeypatch.setattr(operation, "apply", raced)
    with pytest.raises(operation.ConcurrentUpdate, match="gave up after 10 attempts"):
        small.load(HOSTS)


def test_statements_do_not_depend_on_how_many_hosts_and_instances_there_are(empty_cloud):
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
        with record_statements(cloud.database) as first:
            cloud.load(text)
        with record_statements(cloud.database) as changed:
            cloud.load(text.replace("CUSTOM_B", "CUSTOM_C").replace("total: 1", "total: 2"))
        with record_statements(cloud.database) as dumped:
            cloud.dump()
        counts.append([len(first), len(changed), len(dumped)])
    assert counts[0] == counts[1]


def test_a_heartbeat_that_moved_meanwhile_is_no_change(small):
    small.load(HOSTS)
    small.database.write(
        lambda connection: connection.execute(
            update(compute_nodes).values(last_seen_up=compute_nodes.c.last_seen_up)
        )
    )
    assert small.load(HOSTS) == []


SHRUNK = """
hosts:
  - {host: cn1, vcpus: 8, memory_mb: 4096, local_gb: 20}
"""
HOLDING = """
instances:
  - {name: "web[1-2]", host: cn1, allocations: {cn1: {VCPU: 1, DISK_GB: 15}}}
  - {name: large, host: cn1, allocations: {cn1: {DISK_GB: 25}}}
"""


def assert_allowed(cloud):
    found = run_verifier(cloud.database)
    assert found.violations == ()
    assert {one.invariant for one in found.allowed} == {Invariant.OVER_CAPACITY, Fault.UNITS}


@pytest.mark.all_databases
def test_what_is_held_of_hosts_that_shrank_violates_no_invariant(cloud):
    cloud.load(SHRUNK + HOLDING)
    assert_allowed(cloud)


def test_what_is_loaded_onto_a_host_that_shrank_before_violates_no_invariant(cloud):
    cloud.load(SHRUNK)
    long_ago = NOW - timedelta(days=1000)
    break_tables(
        cloud.database, update(inventories).values(created_at=long_ago, updated_at=long_ago)
    )
    cloud.load(HOLDING)
    assert_allowed(cloud)
    # What is claimed of it later than that is not held already.
    break_tables(cloud.database, update(allocations).values(updated_at=NOW + timedelta(seconds=1)))
    assert {one.invariant for one in run_verifier(cloud.database).violations} == {
        Invariant.OVER_CAPACITY,
        Fault.UNITS,
    }


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_writes_of_others_during_a_load_stay(cloud):
    """To providers that the file does not name: one is changed, and one is deleted."""
    cloud.load(
        """
        hosts:
        - {host: cn1, vcpus: 8, memory_mb: 1024, local_gb: 10}
        providers:
        - {name: shared, inventories: {DISK_GB: {total: 100}}}
        - {name: victim, inventories: {DISK_GB: {total: 100}}}
        """
    )
    providers = {one.name: one for one in cloud.state.providers.values()}

    def work(connection):
        provider_trees.remove(connection, providers["victim"].uuid)
        is_its = resource_providers.c.name == "shared"
        shared = select(resource_providers.c.id).where(is_its).scalar_subquery()
        of_shared = update(inventories).where(inventories.c.resource_provider_id == shared)
        connection.execute(of_shared.values(total=555))

    def meanwhile(what):
        if what == "aggregates":
            other = Database(cloud.fleet.settings)
            other.write(work)
            other.dispose()

    text = "aggregates: [{name: racks, hosts: [cn1]}]"
    cloud.fleet.load(text, "f.yaml", dry_run=False, progress=meanwhile)
    after = {one.name: one for one in cloud.state.providers.values()}
    assert "victim" not in after
    assert after["shared"].inventories["DISK_GB"].total == 555

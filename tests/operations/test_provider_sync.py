# SPDX-License-Identifier: Apache-2.0
"""``sync_aggregates`` and ``sync_traits``: providers follow host aggregates."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.db.transaction import Database
from placement_sched.errors import NotFound, ServiceFailed
from placement_sched.model.aggregates import HostAggregate, HostMap, SyncCode, SyncProblem
from placement_sched.operations import aggregates as own_aggregates
from placement_sched.operations.provider_sync import (
    LocalPlacement,
    group_by_name,
    sync_aggregates,
    sync_traits,
)
from placement_sched.store.compute import host_aggregates
from placement_sched.store.placement import aggregates, resource_providers, traits
from placement_sched.store.placement import aggregates as provider_aggregates
from tests.conftest import delete_test_rows, make_settings
from tests.exploring import scale_example_count
from tests.support.clouds import uuid_of
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    add_unrecorded_trait,
    build_aggregate_join,
    build_local_services,
    build_trait_addition,
    build_trait_removal,
    read_members,
    read_providers_with_trait,
    set_metadata,
    sync_own_aggregates,
    sync_own_traits,
)
from tests.support.hosts import NOW, add_node, add_service
from tests.support.providers import make_provider
from tests.support.statements import record_statements


def add_to_placement_aggregate(database, name, *providers):
    """Add providers to a placement aggregate without nova."""

    def write_rows(connection):
        rows = resource_providers.map_by_uuid(connection, providers).values()
        ids = [provider.id for provider in rows]
        aggregates.add_members(connection, uuid_of(name), ids, NOW)

    database.write(write_rows)


def read_provider_generation(database, provider):
    with database.read() as connection:
        return resource_providers.get_by_uuid(connection, provider).generation


def test_aggregate_sync_adds_missing_placement_aggregates(database):
    node_1, node_2, node_3 = (add_node(database, host) for host in ("cn1", "cn2", "cn3"))
    add_aggregate(database, "fast", ["cn1", "cn2"])
    add_to_placement_aggregate(database, "fast", node_1)
    synced = sync_own_aggregates(database)
    assert synced.code is SyncCode.DONE
    assert (group_by_name(synced.added), synced.stale) == ({uuid_of("fast"): {node_2}}, set())
    assert read_members(database, "fast") == {node_1, node_2}
    assert node_3 not in read_members(database, "fast")


def test_second_sync_of_aggregates_changes_nothing(database):
    nodes = [add_node(database, f"cn{number}") for number in range(8)]
    for name in ("a", "b", "c"):
        add_aggregate(database, name, [f"cn{number}" for number in range(8)])
    sync_own_aggregates(database)
    generations = [read_provider_generation(database, node) for node in nodes]
    with record_statements(database) as statements:
        synced = sync_own_aggregates(database)
    assert (synced.added, synced.removed, synced.stale, synced.problems) == (
        set(),
        set(),
        set(),
        [],
    )
    assert len(statements) == 4
    assert [read_provider_generation(database, node) for node in nodes] == generations == [3] * 8


@pytest.mark.parametrize("sync", [sync_aggregates, sync_traits])
def test_statement_count_of_sync_is_independent_of_hosts(database, sync):
    hosts = [f"cn{number}" for number in range(40)]
    for host in hosts:
        add_node(database, host)
    counts = []
    for number in (1, 2, 40):
        metadata = {f"trait:CUSTOM_{number}": "required"}
        add_aggregate(database, f"a{number}", hosts[:number], metadata)
        with record_statements(database) as statements:
            assert len(sync(*build_local_services(database)).added) == number
        counts.append(len(statements))
    assert counts[1] == counts[2]


def test_stale_aggregate_membership_is_removed_only_with_the_option(database):
    node, stale_node = add_node(database, "cn1"), add_node(database, "cn2")
    add_aggregate(database, "fast", ["cn1"])
    add_to_placement_aggregate(database, "fast", node, stale_node)
    synced = sync_own_aggregates(database)
    fast = uuid_of("fast")
    assert synced.stale == {(stale_node, fast)}
    assert synced.code is SyncCode.DONE
    assert read_members(database, "fast") == {node, stale_node}
    removed = sync_own_aggregates(database, remove_stale=True)
    assert (removed.removed, removed.stale) == ({(stale_node, fast)}, set())
    assert read_members(database, "fast") == {node}


def test_aggregate_membership_of_storage_is_never_stale(sqlite_database):
    add_node(sqlite_database, "cn1")
    storage = make_provider(sqlite_database, DISK_GB=1000)
    add_aggregate(sqlite_database, "fast", ["cn1"])
    add_to_placement_aggregate(sqlite_database, "fast", storage)
    synced = sync_own_aggregates(sqlite_database, remove_stale=True)
    assert {aggregate for _, aggregate in synced.added} == {uuid_of("fast")}
    assert synced.stale | synced.removed == set()
    assert storage in read_members(sqlite_database, "fast")


def test_aggregate_sync_keeps_aggregates_only_in_placement(sqlite_database):
    node = add_node(sqlite_database, "cn1")
    add_to_placement_aggregate(sqlite_database, "routed-network", node)
    synced = sync_own_aggregates(sqlite_database, remove_stale=True)
    assert (synced.added, synced.removed, synced.stale) == (set(), set(), set())
    assert read_members(sqlite_database, "routed-network") == {node}


def test_aggregate_sync_failures_have_exit_codes_of_nova_manage(database):
    synced_node = add_node(database, "good")
    several = {add_node(database, "several", f"node{number}") for number in (1, 2)}
    add_service(database, "serving")
    gone = add_node(database, "gone", provider=False)
    add_aggregate(database, "all", ["good", "several", "serving", "gone", "ghost"])
    add_to_placement_aggregate(database, "all", *several)
    synced = sync_own_aggregates(database, remove_stale=True)
    assert read_members(database, "all") == {synced_node} | several
    assert {(problem.code, problem.about) for problem in synced.problems} == {
        (SyncCode.SEVERAL_NODES, "several"),
        (SyncCode.NO_NODE, "serving"),
        (SyncCode.HOST_UNKNOWN, "ghost"),
        (SyncCode.NO_PROVIDER, "gone"),
    }
    assert gone in next(problem.detail for problem in synced.problems if problem.about == "gone")
    assert synced.code is SyncCode.SEVERAL_NODES


class FailingPlacementService(LocalPlacement):
    """A placement service that fails in the second batch."""

    batch = 1
    service = "placement"

    def change(self, change):
        self.batches = getattr(self, "batches", 0) + 1
        if self.batches == 2:
            raise ServiceFailed("gone for lunch", service=self.service)
        return super().change(change)


def test_aggregate_sync_reports_changes_before_a_failure_of_placement(sqlite_database):
    first_node, _ = sorted(add_node(sqlite_database, host) for host in ("cn1", "cn2"))
    add_aggregate(sqlite_database, "fast", ["cn1", "cn2"])
    read_hosts, _ = build_local_services(sqlite_database)
    placement = FailingPlacementService(sqlite_database, lambda: NOW, has_local_hosts=True)
    synced = sync_aggregates(read_hosts, placement)
    assert synced.added == {(first_node, uuid_of("fast"))}
    problem = SyncProblem(SyncCode.PLACEMENT_FAILED, "placement", "gone for lunch")
    assert synced.problems == [problem]


def test_aggregate_sync_raises_a_failure_of_nova(sqlite_database):
    for host in ("cn1", "cn2"):
        add_node(sqlite_database, host)
    add_aggregate(sqlite_database, "fast", ["cn1", "cn2"])
    read_hosts, _ = build_local_services(sqlite_database)
    placement = FailingPlacementService(sqlite_database, lambda: NOW, has_local_hosts=True)
    placement.service = "compute"
    with pytest.raises(ServiceFailed, match="gone for lunch"):
        sync_aggregates(read_hosts, placement)


def test_aggregate_sync_reports_progress_and_each_change(sqlite_database):
    node = add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "fast", ["cn1"])
    notes, steps = [], []
    sync_aggregates(
        *build_local_services(sqlite_database),
        note=notes.append,
        progress=lambda done, of: steps.append((done, of)),
    )
    assert notes == [f"cn1 (provider {node}) added to fast"]
    assert steps == [(1, 1)]


def test_aggregate_change_based_on_an_outdated_read_writes_nothing(database):
    """An outdated read of the aggregate changes nothing."""
    node_1, node_2 = add_node(database, "cn1"), add_node(database, "cn2")
    add_aggregate(database, "fast", ["cn1"])
    read_hosts, placement = build_local_services(database)
    stale = read_hosts()

    def swap_hosts_of_aggregate(connection):
        number = host_aggregates.find_id(connection, "fast")
        own_aggregates.remove_host(connection, number, "cn1", NOW)
        own_aggregates.add_hosts(connection, number, ["cn2"], NOW)

    database.write(swap_hosts_of_aggregate)
    assert placement.change(build_aggregate_join(stale.aggregates[0].uuid, node_1)).done == set()
    departure = build_aggregate_join(stale.aggregates[0].uuid, node_2)._replace(adding=False)
    assert placement.change(departure).done == set()
    assert read_members(database, "fast") == {node_2}


TRAIT_METADATA = {f"trait:{LICENSED_TRAIT}": "required"}
REMOVED_TRAIT_METADATA = {f"trait:{LICENSED_TRAIT}": None}


def remove_trait_as_operator(database, provider, trait=LICENSED_TRAIT):
    def write_rows(connection):
        number = resource_providers.get_by_uuid(connection, provider).id
        traits.remove_from_providers(connection, trait, [number], NOW)

    database.write(write_rows)


def get_sync_changes(synced):
    return synced.created, synced.added, synced.removed


def list_sync_problems(synced):
    return {(problem.code, problem.about) for problem in synced.problems}


def read_synced_traits(database):
    with database.read() as connection:
        return traits.read_synced(connection)


def test_trait_sync_sets_the_trait_on_every_node_of_the_hosts(database):
    inside = {add_node(database, "win1", f"node{number}") for number in (1, 2)}
    add_node(database, "cn1")
    aggregate = add_aggregate(
        database, "windows", ["win1"], {**TRAIT_METADATA, "os_distro": "windows"}
    )
    synced = sync_own_traits(database)
    assert (synced.created, synced.added) == (
        [LICENSED_TRAIT],
        {(node, LICENSED_TRAIT) for node in inside},
    )
    assert synced.code is SyncCode.DONE
    assert read_providers_with_trait(database) == inside
    assert read_synced_traits(database) == {(node, LICENSED_TRAIT): aggregate for node in inside}


def test_trait_sync_ignores_metadata_with_other_values(sqlite_database):
    add_node(sqlite_database, "cn1")
    add_aggregate(
        sqlite_database, "a", ["cn1"], {"trait:CUSTOM_A": "forbidden", "CUSTOM_B": "required"}
    )
    synced = sync_own_traits(sqlite_database)
    assert (synced.created, synced.added, synced.problems) == ([], set(), [])


def test_trait_sync_creates_the_trait_of_an_aggregate_without_hosts(sqlite_database):
    """A request that names a missing trait is rejected, so the trait must exist."""
    add_aggregate(sqlite_database, "windows", [], TRAIT_METADATA)
    assert sync_own_traits(sqlite_database).created == [LICENSED_TRAIT]
    with sqlite_database.read() as connection:
        assert traits.list_by_names(connection, [LICENSED_TRAIT])


def test_second_sync_of_traits_changes_nothing(database):
    hosts = [f"cn{number}" for number in range(8)]
    nodes = [add_node(database, host) for host in hosts]
    for name in ("a", "b"):
        add_aggregate(database, name, hosts, TRAIT_METADATA)
    sync_own_traits(database)
    with record_statements(database) as statements:
        synced = sync_own_traits(database)
    assert (synced.created, synced.added, synced.removed) == ([], set(), set())
    assert len(statements) == 6
    with database.read() as connection:
        rows = resource_providers.map_by_uuid(connection, nodes).values()
    assert {provider.generation for provider in rows} == {1}


def remove_nodes_from_host_map(hosts, *names):
    """Return the host map without the compute nodes of these hosts."""
    nodes = {host: uuids for host, uuids in hosts.nodes.items() if host not in names}
    return dataclasses.replace(hosts, nodes=nodes)


def test_trait_sync_keeps_the_trait_of_a_host_without_node(database):
    """A node that is missing in the list may still exist."""
    node, other_node = add_node(database, "win1"), add_node(database, "win2")
    add_aggregate(database, "windows", ["win1", "win2"], TRAIT_METADATA)
    read_hosts, placement = build_local_services(database)
    sync_traits(read_hosts, placement)
    novas = LocalPlacement(database, lambda: NOW, has_local_hosts=False)
    synced = sync_traits(lambda: remove_nodes_from_host_map(read_hosts(), "win1"), novas)
    assert synced.removed == set()
    assert list_sync_problems(synced) == {(SyncCode.NO_NODE, "win1")}
    assert read_providers_with_trait(database) == {node, other_node}
    assert read_synced_traits(database).keys() == {
        (node, LICENSED_TRAIT),
        (other_node, LICENSED_TRAIT),
    }
    set_metadata(database, "windows", REMOVED_TRAIT_METADATA)
    synced = sync_traits(lambda: remove_nodes_from_host_map(read_hosts(), "win1"), novas)
    assert synced.removed == {(node, LICENSED_TRAIT), (other_node, LICENSED_TRAIT)}


def test_trait_sync_sets_a_manually_removed_trait_again(sqlite_database):
    node = add_node(sqlite_database, "win1")
    add_aggregate(sqlite_database, "windows", ["win1"], TRAIT_METADATA)
    sync_own_traits(sqlite_database)
    remove_trait_as_operator(sqlite_database, node)
    assert sync_own_traits(sqlite_database).added == {(node, LICENSED_TRAIT)}
    assert read_providers_with_trait(sqlite_database) == {node}


def test_trait_sync_forgets_a_manually_removed_trait(sqlite_database):
    node = add_node(sqlite_database, "win1")
    add_aggregate(sqlite_database, "windows", ["win1"], TRAIT_METADATA)
    sync_own_traits(sqlite_database)
    remove_trait_as_operator(sqlite_database, node)
    set_metadata(sqlite_database, "windows", REMOVED_TRAIT_METADATA)
    assert sync_own_traits(sqlite_database).removed == set()
    assert read_synced_traits(sqlite_database) == {}
    add_unrecorded_trait(sqlite_database, node)
    sync_own_traits(sqlite_database)
    assert read_providers_with_trait(sqlite_database) == {node}


def test_trait_sync_keeps_a_trait_that_another_aggregate_requires(database):
    node = add_node(database, "win1")
    add_aggregate(database, "one", ["win1"], TRAIT_METADATA)
    add_aggregate(database, "two", ["win1"], TRAIT_METADATA)
    sync_own_traits(database)
    set_metadata(database, "one", REMOVED_TRAIT_METADATA)
    assert sync_own_traits(database).removed == set()
    assert read_synced_traits(database) == {(node, LICENSED_TRAIT): uuid_of("two")}
    set_metadata(database, "two", REMOVED_TRAIT_METADATA)
    assert sync_own_traits(database, aggregate="two").removed == {(node, LICENSED_TRAIT)}


def test_trait_sync_can_be_limited_to_one_aggregate(sqlite_database):
    node_1, node_2 = add_node(sqlite_database, "cn1"), add_node(sqlite_database, "cn2")
    add_aggregate(sqlite_database, "one", ["cn1"], {"trait:CUSTOM_ONE": "required"})
    add_aggregate(sqlite_database, "two", ["cn2"], {"trait:CUSTOM_TWO": "required"})
    assert sync_own_traits(sqlite_database, aggregate="one").added == {(node_1, "CUSTOM_ONE")}
    assert sync_own_traits(sqlite_database, aggregate="two").added == {(node_2, "CUSTOM_TWO")}
    set_metadata(sqlite_database, "one", {"trait:CUSTOM_ONE": None})
    assert sync_own_traits(sqlite_database, aggregate="two").removed == set()
    assert sync_own_traits(sqlite_database, aggregate="one").removed == {(node_1, "CUSTOM_ONE")}


def test_trait_sync_keeps_the_trait_of_an_unknown_aggregate(database):
    """An earlier sync followed nova's host aggregates. This sync follows the local aggregates."""
    node = add_node(database, "cn1")
    theirs = HostAggregate(
        id=1,
        uuid=uuid_of("nova's"),
        name="nova's",
        hosts=frozenset({"cn1"}),
        metadata=TRAIT_METADATA,
        created_at=NOW,
    )
    hosts = HostMap((theirs,), frozenset({"cn1"}), {"cn1": frozenset({node})})
    elsewhere = LocalPlacement(database, lambda: NOW, has_local_hosts=False)
    elsewhere.change(build_aggregate_join(theirs.uuid, node))
    sync_traits(lambda: hosts, elsewhere)
    synced = sync_own_traits(database)
    assert (synced.removed, synced.code) == (set(), SyncCode.AGGREGATE_UNKNOWN)
    assert [problem.about for problem in synced.problems] == ["cn1"]
    assert read_providers_with_trait(database) == {node}
    elsewhere.change(build_aggregate_join(theirs.uuid, node)._replace(adding=False))
    assert sync_own_traits(database).removed == {(node, LICENSED_TRAIT)}


def test_trait_sync_of_an_unknown_aggregate_name_is_an_error(sqlite_database):
    with pytest.raises(NotFound, match="no host aggregate named 'nix'"):
        sync_own_traits(sqlite_database, aggregate="nix")


@pytest.mark.parametrize(
    "name", ["HW_CPU_X86_AVX1024", "CUSTOM_lower", "CUSTOM_", "", "CUSTOM_A,B"]
)
def test_trait_sync_rejects_an_invalid_trait_and_sets_others(sqlite_database, name):
    node = add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "odd", ["cn1"], {f"trait:{name}": "required", **TRAIT_METADATA})
    synced = sync_own_traits(sqlite_database)
    assert synced.code is SyncCode.TRAIT_REJECTED
    assert [(problem.about, "aggregate odd" in problem.detail) for problem in synced.problems] == [
        (name, True)
    ]
    assert synced.added == {(node, LICENSED_TRAIT)}


def test_trait_sync_failures_have_exit_codes_of_nova_manage(sqlite_database):
    synced_node = add_node(sqlite_database, "good")
    add_service(sqlite_database, "serving")
    add_node(sqlite_database, "gone", provider=False)
    add_aggregate(sqlite_database, "all", ["good", "serving", "gone", "ghost"], TRAIT_METADATA)
    add_aggregate(sqlite_database, "does not ask", ["elsewhere"])
    synced = sync_own_traits(sqlite_database)
    assert read_providers_with_trait(sqlite_database) == {synced_node}
    assert list_sync_problems(synced) == {
        (SyncCode.NO_NODE, "serving"),
        (SyncCode.HOST_UNKNOWN, "ghost"),
        (SyncCode.NO_PROVIDER, "gone"),
    }
    assert synced.code is SyncCode.NO_PROVIDER


def test_dry_run_of_trait_sync_reports_changes_without_writing(sqlite_database):
    node_1, node_2 = add_node(sqlite_database, "cn1"), add_node(sqlite_database, "cn2")
    add_aggregate(sqlite_database, "old", ["cn1"], TRAIT_METADATA)
    sync_own_traits(sqlite_database)
    set_metadata(sqlite_database, "old", REMOVED_TRAIT_METADATA)
    add_aggregate(sqlite_database, "new", ["cn2"], {"trait:CUSTOM_NEW": "required"})
    planned = sync_own_traits(sqlite_database, dry_run=True)
    assert (
        read_providers_with_trait(sqlite_database),
        read_providers_with_trait(sqlite_database, "CUSTOM_NEW"),
    ) == ({node_1}, set())
    done = sync_own_traits(sqlite_database)
    assert get_sync_changes(planned) == get_sync_changes(done)
    assert (done.added, done.removed) == ({(node_2, "CUSTOM_NEW")}, {(node_1, LICENSED_TRAIT)})


def test_trait_change_based_on_outdated_metadata_writes_nothing(database):
    node = add_node(database, "cn1")
    add_aggregate(database, "a", ["cn1"], TRAIT_METADATA)
    _, placement = build_local_services(database)
    set_metadata(database, "a", REMOVED_TRAIT_METADATA)
    assert (
        placement.change(build_trait_addition(LICENSED_TRAIT, {node: uuid_of("a")})).done == set()
    )
    set_metadata(database, "a", TRAIT_METADATA)
    sync_own_traits(database)
    assert placement.change(build_trait_removal(LICENSED_TRAIT, node)).done == set()
    assert read_providers_with_trait(database) == {node}


def test_trait_sync_with_remote_host_aggregates_ignores_own_metadata(sqlite_database):
    """Nova's host aggregates are in another service."""
    node = add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "a", ["cn1"], TRAIT_METADATA)
    read_hosts, _ = build_local_services(sqlite_database)
    novas = read_hosts()
    set_metadata(sqlite_database, "a", REMOVED_TRAIT_METADATA)
    placement = LocalPlacement(sqlite_database, lambda: NOW, has_local_hosts=False)
    assert sync_traits(lambda: novas, placement).added == {(node, LICENSED_TRAIT)}
    assert sync_traits(read_hosts, placement).removed == {(node, LICENSED_TRAIT)}


TRAIT_NAMES = ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX2"]
HOST_NAMES = ["cn1", "cn2", "cn3"]
RANDOM_AGGREGATES = st.fixed_dictionaries(
    {
        "hosts": st.frozensets(st.sampled_from(HOST_NAMES)),
        "traits": st.frozensets(st.sampled_from(TRAIT_NAMES)),
    }
)
RANDOM_AGGREGATE_LISTS = st.lists(RANDOM_AGGREGATES, max_size=3)
MANUAL_TRAITS = st.frozensets(st.tuples(st.sampled_from(HOST_NAMES), st.sampled_from(TRAIT_NAMES)))


@pytest.fixture(scope="module")
def module_database(sqlite_template, tmp_path_factory):
    path = tmp_path_factory.mktemp("shared") / "shared.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(make_settings(f"sqlite:///{path}"))
    yield database
    database.dispose()


def read_sync_state(database, nodes):
    """Return the aggregate members, providers with traits, generations and synced traits."""
    with database.read() as connection:
        rows = resource_providers.map_by_uuid(connection, nodes.values()).values()
    return (
        {name: read_members(database, name) for name in "abc"},
        {trait: read_providers_with_trait(database, trait) for trait in TRAIT_NAMES},
        {provider.uuid: provider.generation for provider in rows},
        read_synced_traits(database),
    )


@settings(
    max_examples=scale_example_count(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    first_aggregates=RANDOM_AGGREGATE_LISTS,
    second_aggregates=RANDOM_AGGREGATE_LISTS,
    manual_traits=MANUAL_TRAITS,
)
def test_random_syncs_set_only_required_and_manual_traits(
    module_database, first_aggregates, second_aggregates, manual_traits
):
    delete_test_rows(module_database.url.render_as_string(hide_password=False))
    nodes = {host: add_node(module_database, host) for host in HOST_NAMES}
    for host, trait in sorted(manual_traits):
        add_unrecorded_trait(module_database, nodes[host], trait)
    for cloud in (first_aggregates, second_aggregates):
        replace_all_aggregates(module_database, cloud)
        sync_own_aggregates(module_database, remove_stale=True)
        sync_own_traits(module_database)
        once = read_sync_state(module_database, nodes)
        sync_own_aggregates(module_database, remove_stale=True)
        sync_own_traits(module_database)
        assert read_sync_state(module_database, nodes) == once
        for trait in TRAIT_NAMES:
            members = [aggregate["hosts"] for aggregate in cloud if trait in aggregate["traits"]]
            manual = {host for host, name in manual_traits if name == trait}
            expected = {nodes[host] for host in manual.union(*members)}
            assert read_providers_with_trait(module_database, trait) == expected
        for name, aggregate in zip("abc", cloud, strict=False):
            expected = {nodes[host] for host in aggregate["hosts"]}
            assert read_members(module_database, name) == expected


def replace_all_aggregates(database, cloud):
    """Replace all host aggregates without changes in placement.

    The provider aggregates of deleted host aggregates are emptied, as requests do.
    """

    def delete_all_aggregates(connection):
        for aggregate in host_aggregates.read_snapshot(connection):
            ids = host_aggregates.find_provider_ids(connection, HOST_NAMES)
            provider_aggregates.remove_members(connection, aggregate.uuid, ids, NOW)
            for host in aggregate.hosts:
                host_aggregates.remove_host(connection, aggregate.id, host)
            host_aggregates.remove(connection, aggregate.id)

    database.write(delete_all_aggregates)
    for name, aggregate in zip("abc", cloud, strict=False):
        metadata = {f"trait:{trait}": "required" for trait in aggregate["traits"]}
        add_aggregate(database, name, aggregate["hosts"], metadata)

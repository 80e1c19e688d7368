# SPDX-License-Identifier: Apache-2.0
"""``sync_aggregates``: provider aggregates follow host aggregates."""

import pytest

from placement_sched.errors import ServiceFailed
from placement_sched.model.provider_sync import HostMap, SyncCode, SyncProblem
from placement_sched.operations import aggregates as own_aggregates
from placement_sched.operations.provider_sync import OwnPlacement, by_name, sync_aggregates
from placement_sched.store.compute import host_aggregates
from placement_sched.store.placement import aggregates, resource_providers
from tests.support.host_maps import (
    HostMapSequence,
    add_aggregate,
    aggregate_uuid,
    build_join,
    build_leave,
    local_services,
    read_members,
)
from tests.support.hosts import NOW, add_node, add_service
from tests.support.providers import make_provider
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def add_to_placement_aggregate(database, name, *providers):
    """Add providers to a placement aggregate without nova."""

    def write_rows(connection):
        rows = resource_providers.by_uuids(connection, providers).values()
        ids = [provider.id for provider in rows]
        aggregates.add_members(connection, aggregate_uuid(name), ids, NOW)

    database.write(write_rows)


def generation(database, provider):
    with database.read() as connection:
        return resource_providers.by_uuid(connection, provider).generation


def test_missing_placement_aggregates_are_added(database):
    one, two, other = (add_node(database, host) for host in ("cn1", "cn2", "cn3"))
    add_aggregate(database, "fast", ["cn1", "cn2"])
    add_to_placement_aggregate(database, "fast", one)
    synced = sync_aggregates(*local_services(database))
    assert synced.code is SyncCode.DONE
    assert (by_name(synced.added), synced.stale) == ({aggregate_uuid("fast"): {two}}, set())
    assert read_members(database, "fast") == {one, two}
    assert other not in read_members(database, "fast")


def test_second_sync_changes_nothing(database):
    nodes = [add_node(database, f"cn{number}") for number in range(8)]
    for name in ("a", "b", "c"):
        add_aggregate(database, name, [f"cn{number}" for number in range(8)])
    sync_aggregates(*local_services(database))
    generations = [generation(database, node) for node in nodes]
    with record_statements(database) as statements:
        synced = sync_aggregates(*local_services(database))
    assert (synced.added, synced.removed, synced.stale, synced.problems) == (
        set(),
        set(),
        set(),
        [],
    )
    assert len(statements) == 4
    assert [generation(database, node) for node in nodes] == generations == [3] * 8


def test_statement_count_is_independent_of_batch_size(database):
    hosts = [f"cn{number}" for number in range(40)]
    for host in hosts:
        add_node(database, host)
    add_aggregate(database, "first", hosts[:1])
    sync_aggregates(*local_services(database))
    add_aggregate(database, "small", hosts[:2])
    with record_statements(database) as few:
        sync_aggregates(*local_services(database))
    add_aggregate(database, "large", hosts)
    with record_statements(database) as many:
        sync_aggregates(*local_services(database))
    assert len(many) == len(few)
    assert len(read_members(database, "large")) == 40


def test_stale_membership_is_removed_only_with_the_option(database):
    one, left = add_node(database, "cn1"), add_node(database, "cn2")
    add_aggregate(database, "fast", ["cn1"])
    add_to_placement_aggregate(database, "fast", one, left)
    synced = sync_aggregates(*local_services(database))
    fast = aggregate_uuid("fast")
    assert synced.stale == {(left, fast)}
    assert synced.code is SyncCode.DONE
    assert read_members(database, "fast") == {one, left}
    removed = sync_aggregates(*local_services(database), remove_stale=True)
    assert (removed.removed, removed.stale) == ({(left, fast)}, set())
    assert read_members(database, "fast") == {one}


def test_provider_without_compute_node_is_never_stale(sqlite_database):
    add_node(sqlite_database, "cn1")
    storage = make_provider(sqlite_database, DISK_GB=1000)
    add_aggregate(sqlite_database, "fast", ["cn1"])
    add_to_placement_aggregate(sqlite_database, "fast", storage)
    synced = sync_aggregates(*local_services(sqlite_database), remove_stale=True)
    assert {aggregate for _, aggregate in synced.added} == {aggregate_uuid("fast")}
    assert synced.stale | synced.removed == set()
    assert storage in read_members(sqlite_database, "fast")


def test_aggregates_only_in_placement_are_unchanged(sqlite_database):
    node = add_node(sqlite_database, "cn1")
    add_to_placement_aggregate(sqlite_database, "routed-network", node)
    synced = sync_aggregates(*local_services(sqlite_database), remove_stale=True)
    assert (synced.added, synced.removed, synced.stale) == (set(), set(), set())
    assert read_members(sqlite_database, "routed-network") == {node}


def test_each_failure_has_novas_exit_code_and_others_continue(database):
    good = add_node(database, "good")
    several = {add_node(database, "several", f"node{number}") for number in (1, 2)}
    add_service(database, "serving")
    gone = add_node(database, "gone", provider=False)
    add_aggregate(database, "all", ["good", "several", "serving", "gone", "ghost"])
    add_to_placement_aggregate(database, "all", *several)
    synced = sync_aggregates(*local_services(database), remove_stale=True)
    assert read_members(database, "all") == {good} | several
    assert {(problem.code, problem.about) for problem in synced.problems} == {
        (SyncCode.SEVERAL_NODES, "several"),
        (SyncCode.NO_NODE, "serving"),
        (SyncCode.HOST_UNKNOWN, "ghost"),
        (SyncCode.NO_PROVIDER, "gone"),
    }
    assert gone in next(problem.detail for problem in synced.problems if problem.about == "gone")
    assert synced.code is SyncCode.SEVERAL_NODES


class FailingPlacement(OwnPlacement):
    """A placement service that fails in the second batch."""

    batch = 1
    service = "placement"

    def change(self, change):
        self.batches = getattr(self, "batches", 0) + 1
        if self.batches == 2:
            raise ServiceFailed("gone for lunch", service=self.service)
        return super().change(change)


def test_changes_before_a_placement_failure_are_reported(sqlite_database):
    first, _ = sorted(add_node(sqlite_database, host) for host in ("cn1", "cn2"))
    add_aggregate(sqlite_database, "fast", ["cn1", "cn2"])
    read_hosts, _ = local_services(sqlite_database)
    placement = FailingPlacement(sqlite_database, lambda: NOW, own_hosts=True)
    synced = sync_aggregates(read_hosts, placement)
    assert synced.added == {(first, aggregate_uuid("fast"))}
    problem = SyncProblem(SyncCode.PLACEMENT_FAILED, "placement", "gone for lunch")
    assert synced.problems == [problem]


def test_failure_of_another_service_is_not_placements(sqlite_database):
    for host in ("cn1", "cn2"):
        add_node(sqlite_database, host)
    add_aggregate(sqlite_database, "fast", ["cn1", "cn2"])
    read_hosts, _ = local_services(sqlite_database)
    placement = FailingPlacement(sqlite_database, lambda: NOW, own_hosts=True)
    placement.service = "compute"
    with pytest.raises(ServiceFailed, match="gone for lunch"):
        sync_aggregates(read_hosts, placement)


def test_progress_and_each_change_are_reported(sqlite_database):
    node = add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "fast", ["cn1"])
    notes, steps = [], []
    sync_aggregates(
        *local_services(sqlite_database),
        note=notes.append,
        progress=lambda done, of: steps.append((done, of)),
    )
    assert notes == [f"cn1 (provider {node}) added to fast"]
    assert steps == [(1, 1)]


def test_host_that_joins_during_removal_is_added_back(sqlite_database):
    """The client that adds the host changes no aggregate, because the provider is still in it."""
    late = add_node(sqlite_database, "late")
    add_aggregate(sqlite_database, "fast")
    add_to_placement_aggregate(sqlite_database, "fast", late)
    read_hosts, _ = local_services(sqlite_database)
    before = read_hosts()
    after = HostMap(
        aggregates=tuple(aggregate_with_host(aggregate, "late") for aggregate in before.aggregates),
        known=before.known,
        nodes=before.nodes,
    )
    elsewhere = OwnPlacement(sqlite_database, lambda: NOW, own_hosts=False)
    synced = sync_aggregates(HostMapSequence(before, after), elsewhere, remove_stale=True)
    assert read_members(sqlite_database, "fast") == {late}
    assert synced.removed == set()


def test_host_that_leaves_during_adding_is_removed_again(sqlite_database):
    gone = add_node(sqlite_database, "gone")
    add_aggregate(sqlite_database, "fast", ["gone"])
    read_hosts, _ = local_services(sqlite_database)
    before = read_hosts()
    after = HostMap(aggregates=(), known=before.known, nodes=before.nodes)
    elsewhere = OwnPlacement(sqlite_database, lambda: NOW, own_hosts=False)
    sync_aggregates(HostMapSequence(before, after), elsewhere)
    assert read_members(sqlite_database, "fast") == set()
    assert gone not in read_members(sqlite_database, "fast")


def aggregate_with_host(aggregate, host):
    return type(aggregate)(
        id=aggregate.id,
        uuid=aggregate.uuid,
        name=aggregate.name,
        hosts=aggregate.hosts | {host},
        metadata=aggregate.metadata,
    )


def test_own_host_aggregates_are_reread_under_lock(database):
    """An outdated read of the aggregate changes nothing."""
    one, two = add_node(database, "cn1"), add_node(database, "cn2")
    add_aggregate(database, "fast", ["cn1"])
    read_hosts, placement = local_services(database)
    stale = read_hosts()

    def swap_hosts(connection):
        number = host_aggregates.id_of_name(connection, "fast")
        own_aggregates.remove_host(connection, number, "cn1", NOW)
        own_aggregates.add_hosts(connection, number, ["cn2"], NOW)

    database.write(swap_hosts)
    assert placement.change(build_join(stale.aggregates[0].uuid, one)).done == set()
    assert placement.change(build_leave(stale.aggregates[0].uuid, two)).done == set()
    assert read_members(database, "fast") == {two}

# SPDX-License-Identifier: Apache-2.0
"""Recording reports: what they make, what they leave alone, and what it costs."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from placement_sched.errors import Conflict, Duplicate, InUse, Invalid
from placement_sched.model.provider import ConsumerClaim, Inventory
from placement_sched.operations import aggregates as aggregates_module
from placement_sched.operations import reports
from placement_sched.store.compute import compute_nodes, services
from placement_sched.store.placement import (
    aggregates,
    allocations,
    inventories,
    resource_providers,
    traits,
)
from tests.conftest import make_settings
from tests.support.reports import NOW, build_report, node_uuid, remove_keys
from tests.support.service_changes import disable
from tests.support.statements import record_statements

LATER = NOW + timedelta(seconds=30)
DISABLED = "COMPUTE_STATUS_DISABLED"


def report(database, settings, *documents, now=NOW):
    parsed = reports.parse_reports(documents, settings, now)
    return database.write(lambda connection: reports.record_reports(connection, parsed, now))


@pytest.fixture
def told(database, settings):
    """A function that records reports."""

    def tell(*documents, now=NOW):
        return report(database, settings, *documents, now=now)

    return tell


def provider(database, number=1):
    with database.read() as connection:
        return resource_providers.by_uuids(connection, [node_uuid(number)]).get(node_uuid(number))


def inventories_of(database, number=1):
    with database.read() as connection:
        found = inventories.of_provider(connection, provider(database, number).id)
    return {one.resource_class: (one.total, one.reserved, one.allocation_ratio) for one in found}


def traits_of(database, number=1):
    with database.read() as connection:
        found = traits.of_provider(connection, provider(database, number).id)
    return {trait.name for trait in found}


def aggregates_of(database, number=1):
    with database.read() as connection:
        return set(aggregates.of_provider(connection, provider(database, number).id))


def an_aggregate(database, number, *hosts):
    def work(connection):
        made = aggregates_module.create(connection, node_uuid(number), f"a{number}", None, NOW)
        if hosts:
            aggregates_module.add_hosts(connection, made.id, hosts, NOW)

    database.write(work)
    return node_uuid(number)


def allocate(database, number=1, **amounts):
    claim = ConsumerClaim(
        consumer=node_uuid(900 + number),
        allocations={node_uuid(number): amounts},
        project_id="p",
        user_id="u",
    )
    database.write(lambda connection: allocations.replace(connection, [claim], NOW))


def test_report_makes_node_service_provider_and_inventories(database, told):
    recorded = told(build_report(reserved={"MEMORY_MB": 512}))
    assert recorded == reports.RecordedReports(created=1)
    made = provider(database)
    assert (made.name, made.parent_uuid, made.root_uuid) == ("cn1", None, node_uuid(1))
    assert inventories_of(database) == {
        "VCPU": (8, 0, 4.0),
        "MEMORY_MB": (16384, 512, 1.0),
        "DISK_GB": (100, 0, 1.0),
    }
    with database.read() as connection:
        (service,) = services.search(connection)
        (disk,) = [
            one
            for one in inventories.of_provider(connection, made.id)
            if one.resource_class == "DISK_GB"
        ]
    assert (service.host, service.binary, service.last_seen_up) == ("cn1", "nova-compute", NOW)
    assert (disk.min_unit, disk.max_unit, disk.step_size) == (1, 100, 1)


def test_same_report_again_is_a_heartbeat_only(database, told):
    told(build_report(cpu_allocation_ratio=1 / 3))
    before = provider(database)
    assert told(build_report(cpu_allocation_ratio=1 / 3), now=LATER) == reports.RecordedReports(
        unchanged=1
    )
    assert provider(database) == before
    with database.read() as connection:
        assert compute_nodes.by_uuid(connection, node_uuid(1)).last_seen_up == LATER
        assert services.search(connection)[0].last_seen_up == LATER


def test_report_of_other_use_leaves_the_generation(database, told):
    told(build_report())
    before = provider(database)
    assert told(build_report(vcpus_used=4)) == reports.RecordedReports(changed=1)
    assert provider(database) == before


def test_report_of_other_totals_raises_the_generation(database, told):
    told(build_report())
    before = provider(database)
    told(build_report(vcpus=16))
    assert provider(database).generation == before.generation + 1
    assert inventories_of(database)["VCPU"] == (16, 0, 4.0)


def test_inventory_that_somebody_changed_is_set_right(database, told):
    told(build_report())
    number = provider(database).id
    wrong = {number: [Inventory(resource_class="VCPU", total=1)]}
    database.write(lambda connection: inventories.replace_many(connection, wrong, NOW))
    assert told(build_report()) == reports.RecordedReports(unchanged=1)
    assert inventories_of(database)["VCPU"] == (8, 0, 4.0)


def test_inventories_of_other_classes_stay(database, told):
    told(build_report())
    number = provider(database).id
    more = {number: [Inventory(resource_class="PCPU", total=2)]}
    database.write(lambda connection: inventories.replace_many(connection, more, NOW))
    told(build_report(local_gb=0))
    assert set(inventories_of(database)) == {"VCPU", "MEMORY_MB", "PCPU"}


def test_class_that_is_allocated_cannot_go(database, told):
    told(build_report(1), build_report(2))
    allocate(database, 1, DISK_GB=1)
    with pytest.raises(InUse, match="'DISK_GB'.*" + node_uuid(1)):
        told(build_report(2, vcpus=9), build_report(1, local_gb=0))
    assert "DISK_GB" in inventories_of(database)
    assert inventories_of(database, 2)["VCPU"] == (8, 0, 4.0)


def test_class_allocated_elsewhere_can_go(database, told):
    told(build_report(1), build_report(2))
    allocate(database, 1, DISK_GB=1)
    told(build_report(2, local_gb=0))
    assert set(inventories_of(database, 2)) == {"VCPU", "MEMORY_MB"}


def test_shrinking_below_what_is_allocated_is_told_as_it_is(database, told):
    told(build_report())
    allocate(database, 1, MEMORY_MB=16000)
    told(build_report(memory_mb=8192))
    assert inventories_of(database)["MEMORY_MB"] == (8192, 0, 1.0)


def test_report_without_inventories_touches_no_provider(database, told):
    told(build_report(inventories=False))
    assert provider(database) is None
    told(build_report())
    before = provider(database)
    told(build_report(vcpus=64, inventories=False))
    assert provider(database) == before
    assert inventories_of(database)["VCPU"] == (8, 0, 4.0)


def test_provider_that_is_there_is_kept_and_renamed(database, told):
    told(build_report(1, hypervisor_hostname="old"), build_report(2))
    before = provider(database)
    told(build_report(1), build_report(2))
    after = provider(database)
    assert (after.id, after.name, after.generation) == (before.id, "cn1", before.generation)


@pytest.mark.parametrize("known", [False, True], ids=["new node", "known node"])
def test_provider_name_of_another_is_refused(database, told, known):
    stranger = resource_providers.NewProvider(node_uuid(50), "cn1")
    database.write(lambda connection: resource_providers.create_many(connection, [stranger], NOW))
    if known:
        told(build_report(1, hypervisor_hostname="other"))
    with pytest.raises(Duplicate, match=node_uuid(50)) as taken:
        told(build_report(2), build_report(1))
    assert taken.value.code == "scheduler.duplicate"
    assert provider(database, 2) is None


def test_nothing_is_recorded_where_one_is_refused(database, told):
    told(build_report(1))
    with pytest.raises(Duplicate):
        told(build_report(2), build_report(3, host="cn1", hypervisor_hostname="cn1"))
    with database.read() as connection:
        assert len(compute_nodes.search(connection)) == 1
        assert len(services.search(connection)) == 1


def test_ratios_come_from_the_configuration(sqlite_database, sqlite_url):
    settings = make_settings(
        sqlite_url,
        DEFAULT__cpu_allocation_ratio=8.0,
        DEFAULT__ram_allocation_ratio=0.0,
        DEFAULT__initial_ram_allocation_ratio=1.5,
    )
    report(sqlite_database, settings, build_report(disk_allocation_ratio=0.0))
    ratios = {name: ratio for name, (_, _, ratio) in inventories_of(sqlite_database).items()}
    assert ratios == {"VCPU": 8.0, "MEMORY_MB": 1.5, "DISK_GB": 1.0}


def test_new_node_joins_the_aggregates_of_its_host(database, told):
    told(build_report(1))
    first, second = an_aggregate(database, 71, "cn1"), an_aggregate(database, 72, "cn1")
    told(build_report(2, host="cn1"), build_report(3))
    assert aggregates_of(database, 2) == {first, second}
    assert aggregates_of(database, 3) == set()


def test_node_that_moves_changes_aggregates(database, told):
    told(build_report(1), build_report(2), build_report(3))
    here, both = an_aggregate(database, 71, "cn1"), an_aggregate(database, 72, "cn1", "cn2")
    there = an_aggregate(database, 73, "cn2")
    told(build_report(1, host="cn2"))
    assert aggregates_of(database, 1) == {both, there}
    assert aggregates_of(database, 2) == {both, there}
    told(build_report(1, host="cn3"))
    assert aggregates_of(database, 1) == set()
    assert here


def test_membership_taken_away_by_hand_is_not_forced_again(database, told):
    told(build_report(1))
    uuid = an_aggregate(database, 71, "cn1")
    number = provider(database).id
    database.write(lambda connection: aggregates.remove_members(connection, uuid, [number], NOW))
    told(build_report(1, vcpus=16))
    assert aggregates_of(database) == set()


def test_new_node_of_a_disabled_host_is_marked(database, told):
    told(build_report(1))
    database.write(lambda connection: disable(connection, "cn1", "broken"))
    told(build_report(2, host="cn1"), build_report(3))
    assert traits_of(database, 2) == {DISABLED}
    assert traits_of(database, 3) == set()
    told(build_report(2, host="cn3"))
    assert traits_of(database, 2) == set()


def test_mark_that_was_lost_comes_back_with_the_next_report(database, told):
    told(build_report())
    database.write(lambda connection: disable(connection, "cn1"))
    number = provider(database).id
    database.write(lambda connection: traits.take_off(connection, DISABLED, [number], NOW))
    told(build_report())
    assert traits_of(database) == {DISABLED}
    before = provider(database)
    told(build_report())
    assert provider(database) == before


def test_several_nodes_of_a_host_make_one_heartbeat_the_latest(database, told):
    told(
        build_report(1, host="rack"),
        build_report(2, host="rack", last_seen_up="2025-01-01T00:00:00Z"),
    )
    with database.read() as connection:
        (service,) = services.search(connection)
    assert service.last_seen_up == NOW


@pytest.mark.parametrize(
    ("documents", "path"),
    [
        ([build_report(1), build_report(2), build_report(1, host="b")], "$[2].uuid"),
        (
            [build_report(1), build_report(2, host="cn1", hypervisor_hostname="cn1")],
            "hypervisor_hostname",
        ),
        ([build_report(1), build_report(2, hypervisor_hostname="cn1")], "$[1].hypervisor_hostname"),
        ([build_report(1), remove_keys(build_report(2), "host")], "$[1]"),
    ],
    ids=["uuid", "names", "provider name", "fault"],
)
def test_fault_in_a_list_is_told_with_its_place(sqlite_settings, documents, path):
    with pytest.raises(Invalid) as fault:
        reports.parse_reports(documents, sqlite_settings, NOW)
    assert path in fault.value.detail


def test_nodes_without_inventories_may_share_a_name(database, told):
    told(
        build_report(1, inventories=False),
        build_report(2, hypervisor_hostname="cn1", inventories=False),
    )
    with database.read() as connection:
        assert len(compute_nodes.search(connection, hypervisor_hostname="cn1")) == 2


def test_statements_do_not_depend_on_the_number_of_reports(database, settings):
    an_aggregate(database, 71)
    report(database, settings, build_report(70))  # the first of all makes what later ones find
    counts = {}
    for size in (20, 600):
        first = size * 1000
        fleet = [build_report(first + number) for number in range(size)]
        with record_statements(database) as seen:
            report(database, settings, *fleet)
            report(database, settings, *fleet, now=LATER)
            report(database, settings, *(one | {"vcpus": 9} for one in fleet))
            report(database, settings, *(one | {"local_gb": 0} for one in fleet))
        counts[size] = len(seen)
    assert counts[20] == counts[600]


@pytest.mark.slow
def test_statements_grow_by_chunk(sqlite_database, sqlite_settings):
    def cost(size, first):
        with record_statements(sqlite_database) as seen:
            report(
                sqlite_database,
                sqlite_settings,
                *(build_report(first + number) for number in range(size)),
            )
        return len(seen)

    cost(1, 0)  # the first of all makes what later ones find
    assert cost(20, 10_000) == cost(reports.CHUNK, 20_000)
    # One statement opens the transaction.
    assert cost(2 * reports.CHUNK, 30_000) == 2 * cost(reports.CHUNK, 40_000) - 1


@pytest.mark.all_databases
def test_first_reports_of_one_node_at_once_all_succeed(database, settings):
    barrier = Barrier(4)

    def tell(number):
        barrier.wait(timeout=60)
        return report(database, settings, build_report(1, vcpus=number + 1))

    with ThreadPoolExecutor(4) as pool:
        recorded = sum(pool.map(tell, range(4)), reports.RecordedReports())
    assert (recorded.created, recorded.changed + recorded.unchanged) == (1, 3)


@pytest.mark.all_databases
def test_rivals_for_one_name_never_share_it(database, settings):
    barrier = Barrier(4)

    def tell(number):
        barrier.wait(timeout=60)
        try:
            report(database, settings, build_report(number + 1, host="h", hypervisor_hostname="n"))
        except Conflict:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(tell, range(4))) == 1
    with database.read() as connection:
        assert len(compute_nodes.search(connection)) == 1


@pytest.mark.all_databases
def test_node_that_reports_while_its_host_is_disabled_is_marked(database, settings):
    """Whichever comes first, the provider of a disabled host ends up marked."""
    for round_ in range(5):
        host = f"h{round_}"
        report(database, settings, build_report(100 + round_, host=host))
        barrier = Barrier(2)

        def disable_host(host=host, barrier=barrier):
            barrier.wait(timeout=60)
            database.write(lambda c: disable(c, host))

        def add_node(host=host, barrier=barrier, number=200 + round_):
            barrier.wait(timeout=60)
            report(database, settings, build_report(number, host=host))

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(disable_host), pool.submit(add_node)]:
                done.result()
        assert DISABLED in traits_of(database, 200 + round_)


@pytest.mark.all_databases
def test_node_that_reports_while_its_host_joins_an_aggregate_is_in_it(database, settings):
    for round_ in range(5):
        host = f"h{round_}"
        report(database, settings, build_report(100 + round_, host=host))
        barrier = Barrier(2)

        def tag(host=host, barrier=barrier, number=300 + round_):
            barrier.wait(timeout=60)
            an_aggregate(database, number, host)

        def add_node(host=host, barrier=barrier, number=200 + round_):
            barrier.wait(timeout=60)
            report(database, settings, build_report(number, host=host))

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(tag), pool.submit(add_node)]:
                done.result()
        assert aggregates_of(database, 200 + round_) == {node_uuid(300 + round_)}


def test_deleted_node_can_report_again(database, told):
    told(build_report())
    database.write(lambda connection: reports.remove_node(connection, node_uuid(1)))
    assert told(build_report()) == reports.RecordedReports(created=1)
    assert inventories_of(database)["VCPU"] == (8, 0, 4.0)

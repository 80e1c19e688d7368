# SPDX-License-Identifier: Apache-2.0
"""Reports of compute nodes, their root providers, and deletion of nodes."""

from datetime import timedelta
from functools import partial

import pytest

from placement_sched.errors import Conflict, Duplicate, InUse, Invalid, NotFound
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
from tests.support.concurrency import run_concurrently
from tests.support.recorded_reports import (
    DISABLED_TRAIT,
    disable_service,
    read_provider,
    read_traits,
    record_report,
)
from tests.support.reports import NOW, build_report, node_uuid, remove_keys
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

HALF_MINUTE_LATER = NOW + timedelta(seconds=30)
#: Number of concurrent creations of a node and its provider.
CONCURRENT_CREATION_ROUNDS = 4


@pytest.fixture
def send_reports(database, settings):

    def send_report(*documents, now=NOW):
        return record_report(database, settings, *documents, now=now)

    return send_report


def read_inventories(database, number=1):
    with database.read() as connection:
        _, rows = inventories.get_by_provider_uuid(connection, node_uuid(number))
    return {
        inventory.resource_class: (inventory.total, inventory.reserved, inventory.allocation_ratio)
        for inventory in rows
    }


def read_aggregates(database, number=1):
    with database.read() as connection:
        return aggregates.map_by_provider_id(connection).get(
            read_provider(database, number).id, set()
        )


def create_aggregate(database, number, *hosts):
    def write_rows(connection):
        aggregate = aggregates_module.create(connection, node_uuid(number), f"a{number}", None, NOW)
        if hosts:
            aggregates_module.add_hosts(connection, aggregate.id, hosts, NOW)

    database.write(write_rows)
    return node_uuid(number)


def allocate_resources(database, number=1, **amounts):
    claim = ConsumerClaim(
        consumer=node_uuid(900 + number),
        allocations={node_uuid(number): amounts},
        project_id="p",
        user_id="u",
    )
    database.write(lambda connection: allocations.replace(connection, [claim], NOW))


def test_report_creates_node_service_provider_and_inventories(database, send_reports):
    recorded = send_reports(build_report(reserved={"MEMORY_MB": 512}))
    assert recorded == reports.RecordedReports(created=1)
    provider = read_provider(database)
    assert (provider.name, provider.parent_uuid, provider.root_uuid) == ("cn1", None, node_uuid(1))
    assert read_inventories(database) == {
        "VCPU": (8, 0, 4.0),
        "MEMORY_MB": (16384, 512, 1.0),
        "DISK_GB": (100, 0, 1.0),
    }
    with database.read() as connection:
        (service,) = services.search(connection)
        (disk,) = [
            inventory
            for inventory in inventories.get_by_provider_uuid(connection, provider.uuid)[1]
            if inventory.resource_class == "DISK_GB"
        ]
    assert (service.host, service.binary, service.last_seen_up) == ("cn1", "nova-compute", NOW)
    assert (disk.min_unit, disk.max_unit, disk.step_size) == (1, 100, 1)


def test_unchanged_report_updates_only_the_heartbeat(database, send_reports):
    send_reports(build_report(cpu_allocation_ratio=1 / 3))
    provider = read_provider(database)
    assert send_reports(
        build_report(cpu_allocation_ratio=1 / 3), now=HALF_MINUTE_LATER
    ) == reports.RecordedReports(unchanged=1)
    assert read_provider(database) == provider
    with database.read() as connection:
        assert compute_nodes.get_by_uuid(connection, node_uuid(1)).last_seen_up == HALF_MINUTE_LATER
        assert services.search(connection)[0].last_seen_up == HALF_MINUTE_LATER


def test_report_with_other_usage_keeps_the_provider_generation(database, send_reports):
    send_reports(build_report())
    before = read_provider(database)
    assert send_reports(build_report(vcpus_used=4)) == reports.RecordedReports(changed=1)
    assert read_provider(database) == before


def test_report_with_other_totals_raises_the_provider_generation(database, send_reports):
    send_reports(build_report())
    before = read_provider(database)
    send_reports(build_report(vcpus=16))
    assert read_provider(database).generation == before.generation + 1
    assert read_inventories(database)["VCPU"] == (16, 0, 4.0)


def test_externally_changed_inventory_is_restored_by_the_next_report(database, send_reports):
    send_reports(build_report())
    number = read_provider(database).id
    wrong = {number: [Inventory(resource_class="VCPU", total=1)]}
    database.write(lambda connection: inventories.put(connection, wrong, NOW))
    assert send_reports(build_report()) == reports.RecordedReports(unchanged=1)
    assert read_inventories(database)["VCPU"] == (8, 0, 4.0)


def test_report_does_not_remove_inventories_of_classes_it_does_not_report(database, send_reports):
    send_reports(build_report())
    number = read_provider(database).id
    more = {number: [Inventory(resource_class="PCPU", total=2)]}
    database.write(lambda connection: inventories.put(connection, more, NOW))
    send_reports(build_report(local_gb=0))
    assert set(read_inventories(database)) == {"VCPU", "MEMORY_MB", "PCPU"}


def test_report_cannot_remove_an_allocated_resource_class(database, send_reports):
    send_reports(build_report(1), build_report(2))
    allocate_resources(database, 1, DISK_GB=1)
    with pytest.raises(InUse, match="'DISK_GB'.*" + node_uuid(1)):
        send_reports(build_report(2, vcpus=9), build_report(1, local_gb=0))
    assert "DISK_GB" in read_inventories(database)
    assert read_inventories(database, 2)["VCPU"] == (8, 0, 4.0)


def test_report_can_remove_a_class_allocated_on_another_provider(database, send_reports):
    send_reports(build_report(1), build_report(2))
    allocate_resources(database, 1, DISK_GB=1)
    send_reports(build_report(2, local_gb=0))
    assert set(read_inventories(database, 2)) == {"VCPU", "MEMORY_MB"}


def test_report_of_an_inventory_below_its_allocations_is_accepted(database, send_reports):
    send_reports(build_report())
    allocate_resources(database, 1, MEMORY_MB=16000)
    send_reports(build_report(memory_mb=8192))
    assert read_inventories(database)["MEMORY_MB"] == (8192, 0, 1.0)


def test_report_without_inventories_changes_no_provider(database, send_reports):
    send_reports(build_report(inventories=False))
    assert read_provider(database) is None
    send_reports(build_report())
    before = read_provider(database)
    send_reports(build_report(vcpus=64, inventories=False))
    assert read_provider(database) == before
    assert read_inventories(database)["VCPU"] == (8, 0, 4.0)


def test_report_renames_the_existing_provider_of_the_node_uuid(database, send_reports):
    send_reports(build_report(1, hypervisor_hostname="old"), build_report(2))
    before = read_provider(database)
    send_reports(build_report(1), build_report(2))
    after = read_provider(database)
    assert (after.id, after.name, after.generation) == (before.id, "cn1", before.generation)


@pytest.mark.parametrize("existing", [False, True], ids=["new node", "known node"])
def test_report_with_the_name_of_another_provider_is_rejected(database, send_reports, existing):
    stranger = resource_providers.NewProvider(node_uuid(50), "cn1")
    database.write(lambda connection: resource_providers.create_many(connection, [stranger], NOW))
    if existing:
        send_reports(build_report(1, hypervisor_hostname="other"))
    with pytest.raises(Duplicate, match=node_uuid(50)) as error:
        send_reports(build_report(2), build_report(1))
    assert error.value.code == "scheduler.duplicate"
    assert read_provider(database, 2) is None


def test_rejected_report_of_a_list_rejects_the_whole_list(database, send_reports):
    send_reports(build_report(1))
    with pytest.raises(Duplicate):
        send_reports(build_report(2), build_report(3, host="cn1", hypervisor_hostname="cn1"))
    with database.read() as connection:
        assert len(compute_nodes.search(connection)) == 1
        assert len(services.search(connection)) == 1


def test_ratios_that_a_report_gives_as_0_are_those_of_the_configuration(
    sqlite_database, sqlite_url
):
    settings = make_settings(
        sqlite_url,
        DEFAULT__cpu_allocation_ratio=8.0,
        DEFAULT__ram_allocation_ratio=0.0,
        DEFAULT__initial_ram_allocation_ratio=1.5,
    )
    record_report(sqlite_database, settings, build_report(disk_allocation_ratio=0.0))
    ratios = {name: ratio for name, (_, _, ratio) in read_inventories(sqlite_database).items()}
    assert ratios == {"VCPU": 8.0, "MEMORY_MB": 1.5, "DISK_GB": 1.0}


def test_new_node_joins_the_aggregates_of_its_host(database, send_reports):
    send_reports(build_report(1))
    first, second = create_aggregate(database, 71, "cn1"), create_aggregate(database, 72, "cn1")
    send_reports(build_report(2, host="cn1"), build_report(3))
    assert read_aggregates(database, 2) == {first, second}
    assert read_aggregates(database, 3) == set()


def test_node_reported_with_another_host_gets_the_aggregates_of_that_host(database, send_reports):
    send_reports(build_report(1), build_report(2), build_report(3))
    here, both = create_aggregate(database, 71, "cn1"), create_aggregate(database, 72, "cn1", "cn2")
    aggregate = create_aggregate(database, 73, "cn2")
    send_reports(build_report(1, host="cn2"))
    assert read_aggregates(database, 1) == {both, aggregate}
    assert read_aggregates(database, 2) == {both, aggregate}
    send_reports(build_report(1, host="cn3"))
    assert read_aggregates(database, 1) == set()
    assert here


def test_report_does_not_restore_a_removed_aggregate_membership(database, send_reports):
    send_reports(build_report(1))
    uuid = create_aggregate(database, 71, "cn1")
    number = read_provider(database).id
    database.write(lambda connection: aggregates.remove_members(connection, uuid, [number], NOW))
    send_reports(build_report(1, vcpus=16))
    assert read_aggregates(database) == set()


def test_new_node_of_a_disabled_host_has_the_disabled_trait(database, send_reports):
    send_reports(build_report(1))
    database.write(lambda connection: disable_service(connection, "cn1", "broken"))
    send_reports(build_report(2, host="cn1"), build_report(3))
    assert read_traits(database, 2) == {DISABLED_TRAIT}
    assert read_traits(database, 3) == set()
    send_reports(build_report(2, host="cn3"))
    assert read_traits(database, 2) == set()


def test_lost_disabled_trait_is_restored_by_the_next_report(database, send_reports):
    send_reports(build_report())
    database.write(lambda connection: disable_service(connection, "cn1"))
    number = read_provider(database).id
    database.write(
        lambda connection: traits.remove_from_providers(connection, DISABLED_TRAIT, [number], NOW)
    )
    send_reports(build_report())
    assert read_traits(database) == {DISABLED_TRAIT}
    before = read_provider(database)
    send_reports(build_report())
    assert read_provider(database) == before


def test_last_seen_up_of_a_service_is_the_latest_of_all_its_nodes(database, send_reports):
    send_reports(
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
def test_error_in_a_list_of_reports_names_its_index(sqlite_settings, documents, path):
    with pytest.raises(Invalid) as fault:
        reports.parse_reports(documents, sqlite_settings, NOW)
    assert path in fault.value.detail


def test_nodes_without_inventories_can_share_a_name(database, send_reports):
    send_reports(
        build_report(1, inventories=False),
        build_report(2, hypervisor_hostname="cn1", inventories=False),
    )
    with database.read() as connection:
        assert len(compute_nodes.search(connection, hypervisor_hostname="cn1")) == 2


def test_statement_count_of_reports_is_independent_of_their_number(database, settings):
    create_aggregate(database, 71)
    record_report(database, settings, build_report(70))  # creates rows that later reports use
    counts = {}
    for size in (20, 600):
        first_number = size * 1000
        fleet = [build_report(first_number + number) for number in range(size)]
        with record_statements(database) as statements:
            record_report(database, settings, *fleet)
            record_report(database, settings, *fleet, now=HALF_MINUTE_LATER)
            record_report(database, settings, *(document | {"vcpus": 9} for document in fleet))
            record_report(database, settings, *(document | {"local_gb": 0} for document in fleet))
        counts[size] = len(statements)
    assert counts[20] == counts[600]


@pytest.mark.all_databases
def test_concurrent_first_reports_of_a_node_succeed(database, settings):
    parsed = [build_report(1, vcpus=number) for number in range(1, 5)]
    recorded = sum(
        run_concurrently(*(partial(record_report, database, settings, row) for row in parsed)),
        reports.RecordedReports(),
    )
    assert (recorded.created, recorded.changed + recorded.unchanged) == (1, 3)


@pytest.mark.all_databases
def test_concurrent_reports_never_share_a_name(database, settings):

    def send_report(number):
        report = build_report(number, host="h", hypervisor_hostname="n")
        try:
            record_report(database, settings, report)
        except Conflict:
            return 0
        return 1

    assert sum(run_concurrently(*(partial(send_report, number) for number in range(1, 5)))) == 1
    with database.read() as connection:
        assert len(compute_nodes.search(connection)) == 1


@pytest.mark.all_databases
def test_node_reported_while_its_host_is_disabled_gets_the_disabled_trait(database, settings):
    """In either order, the provider of a disabled host has the trait."""
    for number in range(1, CONCURRENT_CREATION_ROUNDS):
        record_report(database, settings, build_report(100 + number, host=f"h{number}"))
        disable_host = partial(disable_service, host=f"h{number}")
        report = build_report(200 + number, host=f"h{number}")
        run_concurrently(
            partial(database.write, disable_host),
            partial(record_report, database, settings, report),
        )
        assert DISABLED_TRAIT in read_traits(database, 200 + number)


@pytest.mark.all_databases
def test_node_reported_while_its_host_joins_an_aggregate_is_in_it(database, settings):
    for number in range(1, CONCURRENT_CREATION_ROUNDS):
        record_report(database, settings, build_report(100 + number, host=f"h{number}"))
        report = build_report(200 + number, host=f"h{number}")
        run_concurrently(
            partial(create_aggregate, database, 300 + number, f"h{number}"),
            partial(record_report, database, settings, report),
        )
        assert read_aggregates(database, 200 + number) == {node_uuid(300 + number)}


def test_deleted_node_can_report_again(database, send_reports):
    send_reports(build_report())
    database.write(lambda connection: reports.remove_node(connection, node_uuid(1)))
    assert send_reports(build_report()) == reports.RecordedReports(created=1)
    assert read_inventories(database)["VCPU"] == (8, 0, 4.0)


def remove_node(database, number=1):
    database.write(lambda connection: reports.remove_node(connection, node_uuid(number)))


def list_hosts_with_service(database):
    with database.read() as connection:
        return [service.host for service in services.search(connection)]


def test_node_is_removed_with_its_provider(database, settings):
    record_report(database, settings, build_report(1), build_report(2))
    create_aggregate(database, 70, "cn1", "cn2")
    remove_node(database)
    assert read_provider(database) is None
    assert read_provider(database, 2) is not None
    assert list_hosts_with_service(database) == ["cn2"]
    with database.read() as connection:
        assert [node.host for node in compute_nodes.search(connection)] == ["cn2"]


def test_removed_node_keeps_the_service_of_a_host_with_another_node(database, settings):
    record_report(database, settings, build_report(1, host="rack"), build_report(2, host="rack"))
    remove_node(database, 1)
    assert list_hosts_with_service(database) == ["rack"]
    remove_node(database, 2)
    assert list_hosts_with_service(database) == []


def test_node_with_child_providers_is_not_removed(database, settings):
    record_report(database, settings, build_report())
    database.write(
        lambda connection: resource_providers.create(
            connection, uuid=node_uuid(9), name="numa0", parent_uuid=node_uuid(1), now=NOW
        )
    )
    with pytest.raises(InUse, match="child"):
        remove_node(database)


def test_node_without_provider_is_removed(database, settings):
    record_report(database, settings, build_report(inventories=False))
    remove_node(database)
    assert list_hosts_with_service(database) == []


def test_deletion_of_an_unknown_node_is_not_found(database):
    with pytest.raises(NotFound) as missing:
        remove_node(database)
    assert missing.value.code == "scheduler.not_found"


def test_deletion_of_a_node_by_the_uuid_of_a_provider_is_not_found(database):
    stray = resource_providers.NewProvider(node_uuid(1), "stray")
    database.write(lambda connection: resource_providers.create_many(connection, [stray], NOW))
    with pytest.raises(NotFound):
        remove_node(database)
    assert read_provider(database) is not None


PROVIDERS_PATH = "/placement/resource_providers"


@pytest.fixture
def report_nodes_without_inventories(database, settings):
    def send_report(*documents):
        return record_report(
            database, settings, *(document | {"inventories": False} for document in documents)
        )

    return send_report


def create_provider(database, number, **fields):
    values = {"uuid": node_uuid(number), "name": f"node{number}", "parent_uuid": None} | fields
    return database.write(lambda connection: reports.create(connection, now=NOW, **values))


def test_provider_of_a_reported_node_joins_the_aggregates_of_its_host(
    app, report_nodes_without_inventories
):
    database = app.app.services.database
    report_nodes_without_inventories(build_report(1), build_report(2))
    aggregate_1, aggregate_2 = (
        create_aggregate(database, 71, "cn1"),
        create_aggregate(database, 72, "cn1"),
    )
    body = {"uuid": node_uuid(1), "name": "cn1"}
    provider = app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS).json
    response = app.get(f"{PROVIDERS_PATH}/{node_uuid(1)}/aggregates", headers=LATEST_HEADERS).json
    assert set(response["aggregates"]) == {aggregate_1, aggregate_2}
    # The client can use the generation of the response.
    assert provider["generation"] == response["resource_provider_generation"]
    create_provider(database, 2)
    assert read_aggregates(database, 2) == set()


def test_inventories_of_a_later_report_change_no_aggregates(
    database, settings, report_nodes_without_inventories
):
    report_nodes_without_inventories(build_report(1))
    aggregate = create_aggregate(database, 71, "cn1")
    create_provider(database, 1, name="cn1")
    record_report(database, settings, build_report(1))
    assert read_aggregates(database, 1) == {aggregate}


def test_child_provider_joins_no_aggregate(database, report_nodes_without_inventories):
    report_nodes_without_inventories(build_report(1))
    create_aggregate(database, 71, "cn1")
    create_provider(database, 2)
    create_provider(database, 1, parent_uuid=node_uuid(2))
    assert read_aggregates(database, 1) == set()


def test_provider_without_a_reported_node_joins_no_aggregate(database):
    provider = create_provider(database, 1)
    assert (provider.generation, provider.parent_uuid) == (0, None)
    with database.read() as connection:
        assert resource_providers.get_by_uuid(connection, node_uuid(1)) == provider


@pytest.mark.all_databases
def test_provider_created_while_its_node_is_reported_joins_the_aggregates(
    database, report_nodes_without_inventories
):
    report_nodes_without_inventories(build_report(50, host="cn1"))
    aggregate = create_aggregate(database, 71, "cn1")
    for number in range(1, CONCURRENT_CREATION_ROUNDS):
        run_concurrently(
            lambda number=number: report_nodes_without_inventories(
                build_report(number, host="cn1")
            ),
            lambda number=number: create_provider(database, number),
        )
        assert read_aggregates(database, number) == {aggregate}


@pytest.mark.all_databases
def test_provider_created_while_its_host_joins_an_aggregate_is_in_it(
    database, report_nodes_without_inventories
):
    for number in range(1, CONCURRENT_CREATION_ROUNDS):
        report_nodes_without_inventories(build_report(number))
        run_concurrently(
            lambda number=number: create_aggregate(database, 70 + number, f"cn{number}"),
            lambda number=number: create_provider(database, number),
        )
        assert read_aggregates(database, number) == {node_uuid(70 + number)}
    assert read_provider(database, 1).name == "node1"

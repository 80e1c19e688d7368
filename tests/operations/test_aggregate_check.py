# SPDX-License-Identifier: Apache-2.0
"""Findings of the check of reserved aggregates."""

import pytest

from placement_sched.model.image import StoredImage
from placement_sched.operations.aggregate_check import check_aggregates
from placement_sched.store import images
from placement_sched.store.compute import host_aggregates
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.resource_providers import NewProvider
from tests.conftest import make_settings
from tests.support.clouds import uuid_of
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    add_unrecorded_trait,
    set_metadata,
    sync_own_aggregates,
    sync_own_traits,
)
from tests.support.hosts import NOW, add_flavor, add_node
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

TRAIT_METADATA = {f"trait:{LICENSED_TRAIT}": "required"}
ISOLATED_FILTERING_OPTION = {"scheduler__enable_isolated_aggregate_filtering": True}


def add_image(database, name, *required, uuid=None, **properties):
    image = StoredImage(
        uuid=uuid or uuid_of(name),
        name=name,
        properties={**properties, **{f"trait:{trait}": "required" for trait in required}},
    )
    database.write(lambda connection: images.add(connection, image))


def run_aggregate_check(database, **options):
    settings = make_settings(
        database.url.render_as_string(hide_password=False), **ISOLATED_FILTERING_OPTION | options
    )
    with database.read() as connection:
        return check_aggregates(connection, settings)


def list_finding_kinds(database, **options):
    return [finding.kind for finding in run_aggregate_check(database, **options).findings]


@pytest.fixture
def cloud(sqlite_database):
    """A consistent database: a reserved host, another host, and flavors and images for both."""
    create_synced_cloud(sqlite_database)
    return sqlite_database


def create_synced_cloud(database):
    for host in ("win1", "cn1"):
        add_node(database, host)
    add_aggregate(database, "windows", ["win1"], {**TRAIT_METADATA, "os_distro": "windows"})
    add_aggregate(database, "all", ["win1", "cn1"], {"availability_zone": "here"})
    add_flavor(database, "m1.small")
    add_flavor(database, "m1.windows", LICENSED_TRAIT, private=True)
    add_image(database, "linux", hw_disk_bus="nonsense")
    add_image(database, "windows", LICENSED_TRAIT)
    add_image(database, None, uuid=uuid_of("nameless"))
    sync_own_aggregates(database)
    sync_own_traits(database)


def test_aggregate_check_of_a_synced_cloud_has_no_findings(database):
    create_synced_cloud(database)
    (reserved,) = run_aggregate_check(database).reserved
    assert (reserved.aggregate.name, reserved.traits) == ("windows", (LICENSED_TRAIT,))
    assert (reserved.open_flavors, reserved.forbidden_flavors) == (("m1.windows",), ("m1.small",))
    assert reserved.open_images == ("windows",)
    assert reserved.forbidden_images == tuple(sorted((uuid_of("nameless"), "linux")))
    assert run_aggregate_check(database).findings == ()


def test_cloud_without_reserved_aggregates_has_no_findings(sqlite_database):
    add_node(sqlite_database, "cn1")
    add_flavor(sqlite_database, "m1.small")
    found = run_aggregate_check(
        sqlite_database, scheduler__enable_isolated_aggregate_filtering=False
    )
    assert (found.reserved, found.findings) == ((), ())


def test_disabled_isolated_aggregate_filtering_is_a_finding(cloud):
    (finding,) = run_aggregate_check(
        cloud, scheduler__enable_isolated_aggregate_filtering=False
    ).findings
    assert finding.kind == "filter_off"
    assert "windows" in finding.detail


@pytest.mark.parametrize("value", ["forbidden", "Required", ""])
def test_trait_metadata_value_without_effect_is_a_finding(cloud, value):
    set_metadata(cloud, "all", {"trait:CUSTOM_X": value})
    (finding,) = run_aggregate_check(cloud).findings
    assert (finding.kind, finding.aggregate, finding.trait) == ("value_ignored", "all", "CUSTOM_X")


def test_required_trait_that_does_not_exist_is_a_finding(cloud):
    set_metadata(cloud, "windows", {"trait:HW_NIX": "required"})
    add_flavor(cloud, "m1.nix", LICENSED_TRAIT, "HW_NIX")
    assert list_finding_kinds(cloud) == ["trait_unknown", "trait_lacking"]


@pytest.mark.parametrize(
    ("trait", "fix"),
    [
        ("CUSTOM_NIX", "sync_traits creates it"),
        ("HW_NIX", "Only traits that begin with CUSTOM_ can be created: correct the metadata"),
    ],
)
def test_finding_about_an_unknown_trait_names_its_fix(cloud, trait, fix):
    set_metadata(cloud, "windows", {f"trait:{trait}": "required"})
    details = [each.detail for each in run_aggregate_check(cloud).findings]
    assert f"trait {trait} does not exist: requests for it are rejected. {fix}" in details


def test_aggregate_trait_that_no_flavor_requests_is_a_finding(cloud):
    set_metadata(cloud, "windows", {"trait:CUSTOM_OTHER": "required"})
    sync_own_traits(cloud)
    (finding,) = run_aggregate_check(cloud).findings
    assert (finding.kind, finding.trait) == ("trait_unrequested", "CUSTOM_OTHER")
    assert finding.detail.endswith(", so no request may use the hosts")


def test_aggregate_traits_never_requested_together_are_a_finding(cloud):
    set_metadata(cloud, "windows", {"trait:CUSTOM_OTHER": "required"})
    sync_own_traits(cloud)
    add_flavor(cloud, "m1.other", "CUSTOM_OTHER")
    assert list_finding_kinds(cloud) == []  # the image requires both traits
    remove_image(cloud, "windows")
    (finding,) = run_aggregate_check(cloud).findings
    assert finding.kind == "open_to_nobody"
    assert finding.detail.endswith(", so no request may use the hosts")


@pytest.mark.parametrize(
    ("requested_trait", "kind"),
    [(LICENSED_TRAIT, "trait_unrequested"), ("CUSTOM_OTHER", "open_to_nobody")],
)
def test_findings_with_disabled_filtering_describe_its_effect(cloud, requested_trait, kind):
    set_metadata(cloud, "windows", {"trait:CUSTOM_OTHER": "required"})
    sync_own_traits(cloud)
    remove_image(cloud, "windows")
    add_flavor(cloud, "m1.other", requested_trait)
    off, finding = run_aggregate_check(
        cloud, scheduler__enable_isolated_aggregate_filtering=False
    ).findings
    assert off.kind == "filter_off"
    assert finding.kind == kind
    assert finding.detail.endswith(", so once the filter is on no request may use the hosts")


def remove_image(database, name):
    def write_rows(connection):
        (image,) = images.list_by_name_or_uuid(connection, name)
        images.remove(connection, image)

    database.write(write_rows)


def test_aggregate_host_without_the_trait_is_a_finding(cloud):
    add_node(cloud, "win2")
    add_host_to_aggregate(cloud, "windows", "win2")
    sync_own_aggregates(cloud)
    (finding,) = run_aggregate_check(cloud).findings
    assert (finding.kind, finding.aggregate, finding.trait, finding.names) == (
        "trait_lacking",
        "windows",
        LICENSED_TRAIT,
        ("win2",),
    )
    sync_own_traits(cloud)
    assert list_finding_kinds(cloud) == []


def add_host_to_aggregate(database, aggregate, host):
    def write_rows(connection):
        number = host_aggregates.find_id(connection, aggregate)
        host_aggregates.add_hosts(connection, number, [host], NOW)

    database.write(write_rows)


def test_aggregate_trait_of_a_host_outside_is_a_finding(cloud):
    add_unrecorded_trait(cloud, add_node(cloud, "stray"))
    (finding,) = run_aggregate_check(cloud).findings
    assert (finding.kind, finding.aggregate, finding.names) == ("trait_outside", None, ("stray",))


def test_child_provider_of_a_reserved_host_counts_as_in_the_aggregate(cloud):
    with cloud.read() as connection:
        (root,) = resource_providers.list_by_names(connection, ["win1-win1"])
    rows = [NewProvider(uuid_of("pgpu"), "win1_pgpu", root)]
    cloud.write(lambda connection: resource_providers.create_many(connection, rows, NOW))
    add_unrecorded_trait(cloud, uuid_of("pgpu"))
    assert list_finding_kinds(cloud) == []


def test_node_in_the_provider_aggregate_only_counts_as_in_the_aggregate(cloud):
    stale = add_node(cloud, "stale")
    add_unrecorded_trait(cloud, stale)
    add_host_to_aggregate(cloud, "windows", "stale")
    sync_own_aggregates(cloud)
    cloud.write(lambda connection: remove_host_from_aggregate(connection, "windows", "stale"))
    assert list_finding_kinds(cloud) == ["stale_in_placement"]


def share_storage_with_hosts(app, name, *aggregates):
    """Create a provider with the trait that shares storage with host aggregates."""
    uuid = uuid_of(name)
    provider = f"/placement/resource_providers/{uuid}"
    members = [uuid_of(aggregate) for aggregate in aggregates]
    app.post_json(
        "/placement/resource_providers", {"uuid": uuid, "name": name}, headers=LATEST_HEADERS
    )
    for noun, value in (
        ("inventories", {"inventories": {"DISK_GB": {"total": 1000}}}),
        ("traits", {"traits": [LICENSED_TRAIT, "MISC_SHARES_VIA_AGGREGATE"]}),
        ("aggregates", {"aggregates": members}),
    ):
        generation = app.get(provider).json["generation"]
        app.put_json(
            f"{provider}/{noun}",
            {"resource_provider_generation": generation, **value},
            headers=LATEST_HEADERS,
        )


def find_candidate_nodes_with_the_trait(app):
    """Return the compute nodes that are candidates of a request with the trait."""
    path = f"/placement/allocation_candidates?resources=VCPU:1,DISK_GB:1&required={LICENSED_TRAIT}"
    summaries = app.get(path, headers=LATEST_HEADERS).json["provider_summaries"]
    return {uuid for uuid, summary in summaries.items() if "VCPU" in summary["resources"]}


def send_report_of_existing_node(app, cloud, host):
    with cloud.read() as connection:
        (node,) = resource_providers.list_by_names(connection, [f"{host}-{host}"])
    figures = {"vcpus": 4, "memory_mb": 4096, "local_gb": 0}
    named = {"host": host, "hypervisor_hostname": f"{host}-{host}"}
    app.put_json(f"/scheduler/v1/compute_nodes/{node.uuid}", {**named, **figures})
    return node.uuid


def test_storage_shared_with_reserved_hosts_counts_as_in_the_aggregate(cloud, sqlite_app):
    nodes = {
        host: send_report_of_existing_node(sqlite_app, cloud, host) for host in ("win1", "cn1")
    }
    share_storage_with_hosts(sqlite_app, "storage", "windows")
    assert find_candidate_nodes_with_the_trait(sqlite_app) == {nodes["win1"]}
    assert list_finding_kinds(cloud) == []


def test_hosts_with_the_trait_of_shared_storage_are_a_finding(cloud, sqlite_app):
    nodes = {
        host: send_report_of_existing_node(sqlite_app, cloud, host) for host in ("win1", "cn1")
    }
    share_storage_with_hosts(sqlite_app, "storage", "windows", "all")
    assert find_candidate_nodes_with_the_trait(sqlite_app) == set(nodes.values())
    (finding,) = run_aggregate_check(cloud).findings
    assert (finding.kind, finding.trait, finding.names) == (
        "trait_outside",
        LICENSED_TRAIT,
        ("cn1",),
    )
    assert "served by storage with trait" in finding.detail


def test_provider_without_host_counts_as_outside_the_aggregate(cloud):
    rows = [NewProvider(uuid_of("new"), "new")]
    cloud.write(lambda connection: resource_providers.create_many(connection, rows, NOW))
    add_unrecorded_trait(cloud, uuid_of("new"))
    (finding,) = run_aggregate_check(cloud).findings
    assert (finding.kind, finding.names) == ("trait_outside", ("new",))


def test_shared_storage_without_hosts_is_no_finding(cloud, sqlite_app):
    share_storage_with_hosts(sqlite_app, "storage")
    assert find_candidate_nodes_with_the_trait(sqlite_app) == set()
    assert list_finding_kinds(cloud) == []


def test_aggregate_host_without_provider_is_a_finding(cloud):
    add_node(cloud, "nodeonly", provider=False)
    for host in ("nodeonly", "ghost"):
        add_host_to_aggregate(cloud, "all", host)
    (finding,) = run_aggregate_check(cloud).findings
    assert (finding.kind, finding.aggregate, finding.names) == (
        "host_without_provider",
        "all",
        ("ghost", "nodeonly"),
    )


def test_hosts_that_only_placement_or_nova_has_in_an_aggregate_are_a_finding(cloud):
    add_node(cloud, "cn2")
    add_host_to_aggregate(cloud, "all", "cn2")
    cloud.write(lambda connection: remove_host_from_aggregate(connection, "all", "cn1"))
    found = [
        (finding.kind, finding.aggregate, finding.names)
        for finding in run_aggregate_check(cloud).findings
    ]
    assert found == [("not_in_placement", "all", ("cn2",)), ("stale_in_placement", "all", ("cn1",))]
    sync_own_aggregates(cloud, remove_stale=True)
    assert list_finding_kinds(cloud) == []


def remove_host_from_aggregate(connection, aggregate, host):
    number = host_aggregates.find_id(connection, aggregate)
    host_aggregates.remove_host(connection, number, host)


def test_statement_count_of_aggregate_check_is_independent_of_cloud_size(database):
    create_synced_cloud(database)
    with record_statements(database) as few:
        run_aggregate_check(database)
    hosts = [f"more{number}" for number in range(20)]
    for host in hosts:
        add_node(database, host)
        add_flavor(database, host, LICENSED_TRAIT)
        add_image(database, host, LICENSED_TRAIT)
    for number in range(5):
        add_aggregate(database, f"more{number}", hosts, TRAIT_METADATA)
    with record_statements(database) as many:
        assert len(run_aggregate_check(database).reserved) == 6
    assert len(many) == len(few)

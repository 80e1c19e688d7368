# SPDX-License-Identifier: Apache-2.0
"""Provider summaries after changes, in each microversion, of trees and of pools."""

from dataclasses import replace
from random import Random
from uuid import uuid4

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlalchemy import update

from placement_sched.candidates.search import SummaryFields, find, prepare, render_summaries
from placement_sched.db.tables import resource_classes, traits
from placement_sched.db.transaction import Database
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.model.clock import utcnow
from placement_sched.model.provider import MAX_INT
from placement_sched.operations.adopt import adopt
from tests.candidates.documented import build_cloud, format_candidates, provider
from tests.candidates.reference import SHARING_TRAIT
from tests.candidates.reload import replace_cloud
from tests.candidates.sources import make_provider_source
from tests.candidates.strategies import (
    build_property_test_settings,
    random_queries,
    random_tree_clouds,
)
from tests.conftest import make_settings
from tests.support.allocation_bodies import build_body
from tests.support.clouds import load_cloud, uuid_of
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.openstack_databases import create_openstack_schema
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.all_databases

HEADERS_FOR_CLASS_RENAMES = {"OpenStack-API-Version": "placement 1.6"}


@pytest.fixture
def host_uuid(app):
    uuid = create_provider(app, str(uuid4()))
    put_inventories(app, uuid, VCPU=8, MEMORY_MB=1024)
    return uuid


def create_provider(app, uuid):
    body = {"name": "cn1", "uuid": uuid}
    app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
    return uuid


def put_inventories(app, uuid, **totals):
    path = f"/placement/resource_providers/{uuid}"
    body = {
        "resource_provider_generation": app.get(path, headers=LATEST_HEADERS).json["generation"],
        "inventories": {name: {"total": total} for name, total in totals.items()},
    }
    app.put_json(f"{path}/inventories", body, headers=LATEST_HEADERS)


def put_traits(app, uuid, *names):
    path = f"/placement/resource_providers/{uuid}"
    generation = app.get(path, headers=LATEST_HEADERS).json["generation"]
    body = {"resource_provider_generation": generation, "traits": names}
    app.put_json(f"{path}/traits", body, headers=LATEST_HEADERS)


def put_allocation(app, consumer, uuid, amount):
    body = build_body(LATEST, {uuid: {"VCPU": amount}})
    app.put_json(f"/placement/allocations/{consumer}", body, headers=LATEST_HEADERS)


def read_provider_summary(app, uuid, resource_class="VCPU"):
    query = f"/placement/allocation_candidates?resources={resource_class}:1"
    response = app.get(query, headers=LATEST_HEADERS)
    return response.json["provider_summaries"][uuid]


def test_summary_has_the_usage_after_allocations_are_deleted(app, host_uuid):
    def read_used_vcpus():
        return read_provider_summary(app, host_uuid)["resources"]["VCPU"]["used"]

    consumer = str(uuid4())
    assert read_used_vcpus() == 0
    put_allocation(app, consumer, host_uuid, 3)
    assert read_used_vcpus() == 3
    app.delete(f"/placement/allocations/{consumer}", headers=LATEST_HEADERS)
    assert read_used_vcpus() == 0


def test_summary_has_changed_inventory_and_traits_at_once(app, host_uuid):
    assert read_provider_summary(app, host_uuid)["resources"]["VCPU"]["capacity"] == 8
    put_inventories(app, host_uuid, VCPU=16)
    assert read_provider_summary(app, host_uuid)["resources"] == {
        "VCPU": {"capacity": 16, "used": 0}
    }
    assert read_provider_summary(app, host_uuid)["traits"] == []
    put_traits(app, host_uuid, "HW_CPU_X86_AVX")
    assert read_provider_summary(app, host_uuid)["traits"] == ["HW_CPU_X86_AVX"]


def test_summary_has_the_new_name_of_a_renamed_class(app, host_uuid):
    app.post_json("/placement/resource_classes", {"name": "CUSTOM_OLD"}, headers=LATEST_HEADERS)
    put_inventories(app, host_uuid, VCPU=8, CUSTOM_OLD=1)
    assert read_provider_summary(app, host_uuid)["resources"].keys() == {"VCPU", "CUSTOM_OLD"}
    renamed = {"name": "CUSTOM_NEW"}
    path = "/placement/resource_classes/CUSTOM_OLD"
    app.put_json(path, renamed, headers=HEADERS_FOR_CLASS_RENAMES)
    summary = read_provider_summary(app, host_uuid)
    assert summary["resources"].keys() == {"VCPU", "CUSTOM_NEW"}
    app.post_json("/placement/resource_classes", {"name": "CUSTOM_MORE"}, headers=LATEST_HEADERS)
    assert read_provider_summary(app, host_uuid) == summary


def test_summary_has_usage_beyond_the_largest_amount(app, host_uuid):
    path = f"/placement/resource_providers/{host_uuid}"
    body = {
        "resource_provider_generation": app.get(path, headers=LATEST_HEADERS).json["generation"],
        "inventories": {
            "VCPU": {"total": MAX_INT, "allocation_ratio": 16.0},
            "MEMORY_MB": {"total": 1},
        },
    }
    app.put_json(f"{path}/inventories", body, headers=LATEST_HEADERS)
    for _ in range(3):
        put_allocation(app, str(uuid4()), host_uuid, MAX_INT)
    for resource_class in ("VCPU", "MEMORY_MB"):
        summary = read_provider_summary(app, host_uuid, resource_class=resource_class)["resources"][
            "VCPU"
        ]
        assert summary == {"capacity": 16 * MAX_INT, "used": 3 * MAX_INT}


@pytest.fixture(params=DATABASE_KINDS)
def client_of_adopted_database(request, tmp_path, make_app):
    """A client of a database with the schema of OpenStack placement."""
    with empty_database(request.param, tmp_path) as url:
        settings = make_settings(url)
        database = Database(settings)
        create_openstack_schema(database)
        adopt(database, utcnow)
        database.dispose()
        yield make_app(settings)


def test_provider_recreated_within_a_second_has_current_summary(client_of_adopted_database):
    uuid = str(uuid4())
    for total, trait in ((8, "HW_CPU_X86_AVX"), (4, "HW_CPU_X86_AVX2")):
        create_provider(client_of_adopted_database, uuid)
        put_inventories(client_of_adopted_database, uuid, VCPU=total)
        put_traits(client_of_adopted_database, uuid, trait)
        summary = read_provider_summary(client_of_adopted_database, uuid)
        assert (summary["resources"]["VCPU"]["capacity"], summary["traits"]) == (total, [trait])
        path = f"/placement/resource_providers/{uuid}"
        client_of_adopted_database.delete(path, headers=LATEST_HEADERS)


# Trees and sharing providers

#: A host with a NUMA node and a card, and a storage array whose shelf shares with the host.
CLOUD_WITH_SHARED_DISK = build_cloud(
    provider("CN", {"MEMORY_MB": 1024}, traits=["CUSTOM_GOLD"], aggregates=["disk"]),
    provider("NUMA", {"VCPU": 8, "PCPU": 2}, under="CN"),
    provider("PF", {"SRIOV_NET_VF": 4}, under="NUMA"),
    provider("array", {"PCPU": 9}, aggregates=["backup"]),
    provider("shelf", {"DISK_GB": 500}, under="array", traits=[SHARING_TRAIT], aggregates=["disk"]),
    provider("other", {"VCPU": 8}),
)
NAMES_BY_UUID = {host.uuid: host.name for host in CLOUD_WITH_SHARED_DISK.hosts}


def _read_candidates(app, query, version):
    headers = {"OpenStack-API-Version": f"placement {version}"}
    return app.get(f"/placement/allocation_candidates?{query}", headers=headers).json


def _list_summarized_providers(response):
    return {NAMES_BY_UUID[uuid] for uuid in response["provider_summaries"]}


@pytest.fixture
def app_with_cloud(app):
    load_cloud(app.app.services.database, CLOUD_WITH_SHARED_DISK)
    return app


def test_before_1_29_candidates_use_one_provider_per_tree(app_with_cloud):
    def list_candidates(query, version):
        return format_candidates(
            _read_candidates(app_with_cloud, query, version), CLOUD_WITH_SHARED_DISK
        )

    both = "resources=VCPU:4,MEMORY_MB:64"
    assert list_candidates(both, "1.28") == set()
    assert list_candidates(both, "1.29") == {"CN MEMORY_MB:64 + NUMA VCPU:4"}
    # A provider of another tree may be used.
    shared = list_candidates("resources=MEMORY_MB:64,DISK_GB:9", "1.28")
    assert shared == {"CN MEMORY_MB:64 + shelf DISK_GB:9"}


def test_summaries_include_whole_trees_since_1_29(app_with_cloud):
    response = _read_candidates(app_with_cloud, "resources=VCPU:4", "1.28")
    assert _list_summarized_providers(response) == {"NUMA", "other"}
    assert response["provider_summaries"][uuid_of("NUMA")].keys() == {"resources", "traits"}
    response = _read_candidates(app_with_cloud, "resources=VCPU:4", "1.29")
    assert _list_summarized_providers(response) == {"CN", "NUMA", "PF", "other"}
    summaries = response["provider_summaries"]
    assert {
        NAMES_BY_UUID[uuid]: (summary["parent_provider_uuid"], summary["root_provider_uuid"])
        for uuid, summary in summaries.items()
    } == {
        "CN": (None, uuid_of("CN")),
        "NUMA": (uuid_of("CN"), uuid_of("CN")),
        "PF": (uuid_of("NUMA"), uuid_of("CN")),
        "other": (None, uuid_of("other")),
    }
    assert summaries[uuid_of("PF")]["resources"] == {"SRIOV_NET_VF": {"capacity": 4, "used": 0}}
    assert summaries[uuid_of("CN")]["traits"] == ["CUSTOM_GOLD"]


@pytest.mark.parametrize(
    ("version", "classes", "traits_shown"),
    [("1.16", {"VCPU"}, False), ("1.26", {"VCPU"}, True), ("1.27", {"VCPU", "PCPU"}, True)],
)
def test_summaries_have_requested_classes_before_1_27_and_no_traits_before_1_17(
    app_with_cloud, version, classes, traits_shown
):
    summary = _read_candidates(app_with_cloud, "resources=VCPU:4", version)["provider_summaries"][
        uuid_of("NUMA")
    ]
    assert summary["resources"].keys() == classes
    assert ("traits" in summary) == traits_shown


@pytest.mark.parametrize(("traits_shown", "tree"), [(True, True), (False, False)])
def test_trait_and_class_names_with_percent_signs_are_unchanged(
    sqlite_database, sqlite_settings, traits_shown, tree
):
    # No request creates such names, but other writers to the database can.
    odd = '100%_%d"%s%%'

    def rename_trait_and_class(connection):
        for table, name in ((traits, "CUSTOM_GOLD"), (resource_classes, "PCPU")):
            connection.execute(update(table).where(table.c.name == name).values(name=odd))

    host = provider("CN", {"VCPU": 8, "PCPU": 2}, traits=["CUSTOM_GOLD"])
    load_cloud(sqlite_database, build_cloud(host))
    sqlite_database.write(rename_trait_and_class)
    query = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))
    with sqlite_database.read() as connection:
        search = prepare(make_provider_source(connection), query)
        result = find(make_provider_source(connection), search, sqlite_settings, Random(1))
        fields = SummaryFields(classes=None, traits=traits_shown, tree=tree)
        for _ in range(2):
            text = b"".join(
                render_summaries(make_provider_source(connection), result.providers, fields)
            )
            summary = orjson.loads(text)[host.uuid]
            expected = {"VCPU": {"capacity": 8, "used": 0}, odd: {"capacity": 2, "used": 0}}
            assert summary["resources"] == expected
            assert summary.get("traits", []) == ([odd] if traits_shown else [])
            assert ("root_provider_uuid" in summary) == tree


@build_property_test_settings(20)
@given(cloud=random_tree_clouds(), query=random_queries(), limit=st.sampled_from([None, 1, 3]))
def test_summaries_have_all_trees_of_candidates(app, cloud, query, limit):
    replace_cloud(app.app.services.database, cloud)
    parameters = replace(query, limit=limit).as_querystring()
    # The API rejects same_subtree of a suffix without an underscore,
    assume("same_subtree=1" not in parameters and "same_subtree=2" not in parameters)
    # a group without parameters,
    assume(all(group.as_parameters() for group in query.groups))
    # and a trait that is both required and forbidden.
    terms = [group.traits for group in query.groups]
    assume(not any(names <= each.forbidden for each in terms for names in each.required))
    response = _read_candidates(app, parameters, LATEST)
    named = {
        uuid
        for request in response["allocation_requests"]
        for uuids in request["mappings"].values()
        for uuid in uuids
    }
    roots = {cloud.root(host).name for host in cloud.hosts if host.uuid in named}
    for summary in response["provider_summaries"].values():
        summary["traits"].sort()
    assert response["provider_summaries"] == {
        host.uuid: {
            "resources": {
                name: {
                    "capacity": int(used_inventory.inventory.capacity),
                    "used": used_inventory.used,
                }
                for name, used_inventory in host.inventories.items()
            },
            "traits": sorted(host.traits),
            "parent_provider_uuid": uuid_of(host.parent) if host.parent else None,
            "root_provider_uuid": cloud.root(host).uuid,
        }
        for host in cloud.hosts
        if cloud.root(host).name in roots
    }

# SPDX-License-Identifier: Apache-2.0
"""Summaries of trees and of sharing providers in each microversion."""

from dataclasses import replace
from random import Random

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlalchemy import update

from placement_sched.candidates.search import find, prepare
from placement_sched.candidates.summaries import SummaryFields, render_summaries
from placement_sched.db.tables import resource_classes, traits
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from tests.candidates.documented import provider, reported_candidates
from tests.candidates.reference import SHARES
from tests.candidates.reload import reload
from tests.candidates.sources import source_of
from tests.candidates.strategies import examples, queries, tree_clouds
from tests.support.clouds import Cloud, load_cloud, uuid_of
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.all_databases

#: A host with a NUMA node and a card, and a storage array with a shelf and a controller. The shelf
#: shares with the host, and the pool ``tape`` shares with the array.
CLOUD = Cloud(
    (
        provider("CN", {"MEMORY_MB": 1024}, traits=["CUSTOM_GOLD"], aggregates=["disk"]),
        provider("NUMA", {"VCPU": 8, "PCPU": 2}, under="CN"),
        provider("PF", {"SRIOV_NET_VF": 4}, under="NUMA"),
        provider("array", {"PCPU": 9}, aggregates=["backup"]),
        provider("shelf", {"DISK_GB": 500}, under="array", traits=[SHARES], aggregates=["disk"]),
        provider("controller", {"VCPU": 2}, under="array"),
        provider("tape", {"DISK_GB": 900}, traits=[SHARES], aggregates=["backup"]),
        provider("other", {"VCPU": 8}),
    )
)
NAMES = {host.uuid: host.name for host in CLOUD.hosts}


def _read_candidates(app, query, version):
    headers = {"OpenStack-API-Version": f"placement {version}"}
    return app.get(f"/placement/allocation_candidates?{query}", headers=headers).json


def _summary_names(answer):
    return {NAMES[uuid] for uuid in answer["provider_summaries"]}


@pytest.fixture
def cloud(app):
    load_cloud(app.app.services.database, CLOUD)
    return app


def test_before_1_29_only_used_providers_are_summarized(cloud):
    answer = _read_candidates(cloud, "resources=VCPU:4", "1.28")
    assert _summary_names(answer) == {"NUMA", "other"}
    assert answer["provider_summaries"][uuid_of("NUMA")].keys() == {"resources", "traits"}


def test_before_1_29_candidates_use_one_provider_per_tree(cloud):
    assert (
        reported_candidates(_read_candidates(cloud, "resources=VCPU:4,MEMORY_MB:64", "1.28"), CLOUD)
        == set()
    )
    assert reported_candidates(
        _read_candidates(cloud, "resources=VCPU:4,MEMORY_MB:64", "1.29"), CLOUD
    ) == {"CN MEMORY_MB:64 + NUMA VCPU:4"}
    # A provider of another tree may be used.
    assert reported_candidates(
        _read_candidates(cloud, "resources=MEMORY_MB:64,DISK_GB:9", "1.28"), CLOUD
    ) == {"CN MEMORY_MB:64 + shelf DISK_GB:9"}


@pytest.mark.parametrize("version", ["1.29", LATEST])
def test_from_1_29_whole_trees_are_summarized(cloud, version):
    answer = _read_candidates(cloud, "resources=VCPU:4", version)
    assert _summary_names(answer) == {"CN", "NUMA", "PF", "other"}
    summaries = answer["provider_summaries"]
    assert {
        NAMES[uuid]: (summary["parent_provider_uuid"], summary["root_provider_uuid"])
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
    [
        ("1.16", {"VCPU"}, False),
        ("1.17", {"VCPU"}, True),
        ("1.26", {"VCPU"}, True),
        ("1.27", {"VCPU", "PCPU"}, True),
    ],
)
def test_before_1_27_only_requested_classes_and_before_1_17_no_traits(
    cloud, version, classes, traits_shown
):
    shown = _read_candidates(cloud, "resources=VCPU:4", version)["provider_summaries"][
        uuid_of("NUMA")
    ]
    assert shown["resources"].keys() == classes
    assert ("traits" in shown) == traits_shown


def test_trees_of_sharing_providers_are_summarized_whole(cloud):
    answer = _read_candidates(cloud, "resources=VCPU:4,DISK_GB:100", LATEST)
    assert reported_candidates(answer, CLOUD) == {"NUMA VCPU:4 + shelf DISK_GB:100"}
    assert _summary_names(answer) == {"CN", "NUMA", "PF", "array", "shelf", "controller"}
    assert {
        NAMES[uuid]: summary["root_provider_uuid"]
        for uuid, summary in answer["provider_summaries"].items()
    } == {
        **dict.fromkeys(("CN", "NUMA", "PF"), uuid_of("CN")),
        **dict.fromkeys(("array", "shelf", "controller"), uuid_of("array")),
    }
    shelf = answer["provider_summaries"][uuid_of("shelf")]
    assert shelf["parent_provider_uuid"] == uuid_of("array")


def test_sharing_tree_uses_its_own_and_other_shared_providers(cloud):
    answer = _read_candidates(cloud, "resources=VCPU:2,DISK_GB:100&required=!CUSTOM_GOLD", LATEST)
    assert reported_candidates(answer, CLOUD) == {
        "NUMA VCPU:2 + shelf DISK_GB:100",
        "controller VCPU:2 + shelf DISK_GB:100",
        "controller VCPU:2 + tape DISK_GB:100",
    }
    assert _summary_names(answer) == set(NAMES.values()) - {"other"}


def test_same_subtree_within_the_tree_of_a_sharing_provider(cloud):
    query = (
        "resources_D=DISK_GB:9&resources_C=VCPU:1&required_T=CUSTOM_GOLD"
        "&same_subtree=_C,_T&group_policy=none"
    )
    answer = _read_candidates(cloud, query, LATEST)
    assert reported_candidates(answer, CLOUD) == {"NUMA VCPU:1 + shelf DISK_GB:9"}


@pytest.mark.parametrize("traits_shown", [True, False])
@pytest.mark.parametrize("tree", [True, False])
def test_names_with_percent_signs_and_quotes_are_unchanged(
    sqlite_database, sqlite_settings, traits_shown, tree
):
    # No request creates such names, but other writers to the database can.
    odd = '100%_%d"%s%%'

    def rename(connection):
        for table, name in ((traits, "CUSTOM_GOLD"), (resource_classes, "PCPU")):
            connection.execute(update(table).where(table.c.name == name).values(name=odd))

    host = provider("CN", {"VCPU": 8, "PCPU": 2}, traits=["CUSTOM_GOLD"])
    load_cloud(sqlite_database, Cloud((host,)))
    sqlite_database.write(rename)
    query = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))
    with sqlite_database.read() as connection:
        search = prepare(source_of(connection), query)
        found = find(source_of(connection), search, sqlite_settings, Random(1))
        shape = SummaryFields(classes=None, traits=traits_shown, tree=tree)
        for _ in range(2):
            text = b"".join(render_summaries(source_of(connection), found.providers, shape))
            shown = orjson.loads(text)[host.uuid]
            assert shown["resources"] == {
                "VCPU": {"capacity": 8, "used": 0},
                odd: {"capacity": 2, "used": 0},
            }
            assert shown.get("traits", []) == ([odd] if traits_shown else [])
            assert ("root_provider_uuid" in shown) == tree


def _is_contradictory(terms):
    return any(names <= terms.forbidden for names in terms.required)


@examples(30)
@given(cloud=tree_clouds(), query=queries(), limit=st.sampled_from([None, 1, 3]))
def test_summaries_have_all_trees_of_candidates(app, cloud, query, limit):
    reload(app.app.services.database, cloud)
    parameters = replace(query, limit=limit).querystring()
    # The API rejects same_subtree of a suffix without an underscore,
    assume("same_subtree=1" not in parameters and "same_subtree=2" not in parameters)
    # a group without parameters,
    assume(all(group.parameters() for group in query.groups))
    # and a trait that is both required and forbidden.
    assume(not any(_is_contradictory(group.traits) for group in query.groups))
    answer = _read_candidates(app, parameters, LATEST)
    named = {
        uuid
        for request in answer["allocation_requests"]
        for uuids in request["mappings"].values()
        for uuid in uuids
    }
    roots = {cloud.root(host).name for host in cloud.hosts if host.uuid in named}
    for summary in answer["provider_summaries"].values():
        summary["traits"].sort()
    assert answer["provider_summaries"] == {
        host.uuid: {
            "resources": {
                name: {"capacity": int(held.inventory.capacity), "used": held.used}
                for name, held in host.inventories.items()
            },
            "traits": sorted(host.traits),
            "parent_provider_uuid": uuid_of(host.parent) if host.parent else None,
            "root_provider_uuid": cloud.root(host).uuid,
        }
        for host in cloud.hosts
        if cloud.root(host).name in roots
    }


#: Root CN1 and sharing provider SS2 are in the aggregate ``zone``.
BARRED = Cloud(
    (
        provider("CN1", {"MEMORY_MB": 64}, aggregates=["zone"]),
        provider("NUMA1", {"VCPU": 8}, under="CN1", aggregates=["disk"]),
        provider("CN2", {"MEMORY_MB": 64}),
        provider("NUMA2", {"VCPU": 8}, under="CN2", aggregates=["disk"]),
        provider("SS1", {"DISK_GB": 9}, traits=[SHARES], aggregates=["disk"]),
        provider("SS2", {"DISK_GB": 9}, traits=[SHARES], aggregates=["disk", "zone"]),
    )
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "resources=DISK_GB:1&resources1=VCPU:1&member_of=!in:{}",
            {"NUMA2 VCPU:1 + SS1 DISK_GB:1"},
        ),
        (
            "resources1=DISK_GB:1&resources2=VCPU:1&member_of1=!in:{}&group_policy=none",
            {f"NUMA{n} VCPU:1 + SS1 DISK_GB:1" for n in (1, 2)},
        ),
        (
            "resources=VCPU:1&resources1=DISK_GB:1&member_of=!in:{}",
            {f"NUMA2 VCPU:1 + SS{n} DISK_GB:1" for n in (1, 2)},
        ),
        (
            "resources=DISK_GB:1&resources1=VCPU:1&member_of=in:{}",
            {f"NUMA{n} VCPU:1 + SS2 DISK_GB:1" for n in (1, 2)},
        ),
    ],
    ids=["disk unsuffixed", "disk suffixed", "CPU unsuffixed", "required"],
)
def test_forbidden_aggregate_of_a_root_excludes_sharing_providers(app, query, expected):
    load_cloud(app.app.services.database, BARRED)
    answer = app.get(
        f"/placement/allocation_candidates?{query.format(uuid_of('zone'))}", headers=LATEST_HEADERS
    ).json
    assert reported_candidates(answer, BARRED) == expected

# SPDX-License-Identifier: Apache-2.0
"""Candidates of a small cloud by query, and the rendering of allocation requests."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.api.placement.allocation_candidates import render
from placement_sched.api.versions import Version
from placement_sched.model.candidates_query import AllocationRequest, Layout
from tests.api.placement.provider_requests import create_providers
from tests.conftest import make_settings
from tests.support.allocation_bodies import build_body
from tests.support.clouds import uuid_of
from tests.support.versions import LATEST, LATEST_HEADERS

ONE_PROVIDER_LAYOUT = Layout(({"VCPU": 2, "MEMORY_MB": 64},), {"": (0,)})
TWO_GROUPS_LAYOUT = Layout(({"VCPU": 2}, {}, {"CUSTOM_A": 1}), {"_A-1": (0, 2), "2": (1,)})

RANDOM_ALLOCATION_REQUESTS = st.lists(
    st.one_of(
        st.tuples(st.just(ONE_PROVIDER_LAYOUT), st.tuples(st.uuids().map(str))),
        st.tuples(st.just(TWO_GROUPS_LAYOUT), st.tuples(*[st.uuids().map(str)] * 3)),
    ),
    max_size=5,
)


@given(RANDOM_ALLOCATION_REQUESTS)
def test_allocation_candidates_rendered_for_1_39_equal_the_allocation_requests(drawn):
    requests = [AllocationRequest(layout, uuids, uuids[0]) for layout, uuids in drawn]
    document = orjson.loads(render(requests, Version(1, 39)))
    assert document == [request.as_json() for request in requests]


def test_allocation_candidates_omit_mappings_before_1_34():
    uuids = (uuid_of("a"), uuid_of("b"), uuid_of("c"))
    amounts = {uuids[0]: {"VCPU": 2}, uuids[2]: {"CUSTOM_A": 1}}
    listed = [
        {"resource_provider": {"uuid": uuid}, "resources": each} for uuid, each in amounts.items()
    ]
    by_provider = {uuid: {"resources": each} for uuid, each in amounts.items()}
    for minor, expected in ((10, listed), (33, by_provider)):
        rendered = render(
            [AllocationRequest(TWO_GROUPS_LAYOUT, uuids, uuids[0])], Version(1, minor)
        )
        assert orjson.loads(rendered) == [{"allocations": expected}], minor


def test_percent_signs_and_quotes_in_resource_class_names_are_rendered_unchanged():
    odd, uuid = '50%_%s%%"', uuid_of("a")
    request = AllocationRequest(Layout(({odd: 1},), {"": (0,)}), (uuid,), uuid)
    for minor in (10, 33, 39):
        (shown,) = orjson.loads(render([request], Version(1, minor)))
        allocations = shown["allocations"]
        resources = allocations[0] if isinstance(allocations, list) else allocations[uuid]
        assert resources["resources"] == {odd: 1}, minor


RACK_AGGREGATE, ROW_AGGREGATE = uuid_of("rack"), uuid_of("row")
CANDIDATES_PATH = "/placement/allocation_candidates"
#: Two hosts: the first with two network cards and a shared disk, the second with a local disk.
PROVIDER_DEFINITIONS = (
    (
        *("host1", None),
        {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096, "min_unit": 256, "step_size": 256}},
        *(["CUSTOM_GOLD"], [RACK_AGGREGATE]),
    ),
    (
        *("nic1", "host1"),
        {"SRIOV_NET_VF": {"total": 4}, "NET_BW_EGR_KILOBIT_PER_SEC": {"total": 1000}},
        *(["CUSTOM_NET1"], []),
    ),
    ("nic2", "host1", {"SRIOV_NET_VF": {"total": 4}}, ["CUSTOM_NET2"], []),
    (
        *("host2", None),
        {
            "VCPU": {"total": 4, "allocation_ratio": 2.0},
            "MEMORY_MB": {"total": 2048},
            "DISK_GB": {"total": 50},
        },
        *([], [ROW_AGGREGATE]),
    ),
    (
        *("share", None),
        {"DISK_GB": {"total": 1000, "max_unit": 500, "reserved": 100}},
        *(["MISC_SHARES_VIA_AGGREGATE"], [RACK_AGGREGATE]),
    ),
)
PROVIDER_NAMES_BY_UUID = {uuid_of(name): name for name, *_ in PROVIDER_DEFINITIONS}
TWO_VFS_QUERY = "resources1=SRIOV_NET_VF:1&resources2=SRIOV_NET_VF:1"
TWO_NETS_QUERY = (
    "resources_A=SRIOV_NET_VF:1&required_A=CUSTOM_NET1&resources_B=SRIOV_NET_VF:1&required_B="
)
VF_AND_HOST_TRAIT_QUERY = "resources_N=SRIOV_NET_VF:1&required_N=CUSTOM_NET1&required_H=CUSTOM_GOLD"
ANY_NET_TRAIT_QUERY = "required=in:CUSTOM_NET1,CUSTOM_NET2"
OPPOSED_TRAITS_QUERY = "required=in:CUSTOM_GOLD,CUSTOM_NET1&required=!CUSTOM_NET1,!CUSTOM_GOLD"

#: Queries, and the number of candidates or the providers of each group of all candidates.
QUERIES_WITH_EXPECTED_CANDIDATES = [
    ("resources=VCPU:1,MEMORY_MB:256", 2),
    ("resources=MEMORY_MB:300", [{"": "host2"}]),
    (f"resources=VCPU:5&in_tree={uuid_of('host2')}", 1),
    ("resources=VCPU:1&limit=1", [{"": "host1"}]),
    ("resources=VCPU:1&limit=1&limit=2", 1),
    ("resources=VCPU:1&limit=2&limit=1", 2),
    (f"resources=VCPU:1&in_tree=%20{uuid_of('host2')}+", 1),
    (f"resources=VCPU:1&in_tree={uuid_of('nic2')}", [{"": "host1"}]),
    # Trees and sharing providers.
    ("resources=VCPU:1,NET_BW_EGR_KILOBIT_PER_SEC:100", [{"": "host1 nic1"}]),
    ("resources=SRIOV_NET_VF:5", 0),
    ("resources=VCPU:1,DISK_GB:10", [{"": "host1 share"}, {"": "host2"}]),
    ("resources=VCPU:1,DISK_GB:500", [{"": "host1 share"}]),
    ("resources=VCPU:1,DISK_GB:501", 0),
    ("resources=DISK_GB:400", [{"": "share"}]),
    # Traits and aggregates.
    ("resources=VCPU:1,SRIOV_NET_VF:1&required=CUSTOM_GOLD,CUSTOM_NET2", [{"": "host1 nic2"}]),
    ("resources=VCPU:1,SRIOV_NET_VF:1&required=!CUSTOM_NET2", [{"": "host1 nic1"}]),
    (f"resources=SRIOV_NET_VF:1&{ANY_NET_TRAIT_QUERY}&required=!CUSTOM_NET1", [{"": "nic2"}]),
    (f"resources=SRIOV_NET_VF:1&{ANY_NET_TRAIT_QUERY}&required=CUSTOM_NET2", [{"": "nic2"}]),
    (f"resources=SRIOV_NET_VF:1&member_of={RACK_AGGREGATE}", 2),
    (f"resources=VCPU:1&member_of=!in:{RACK_AGGREGATE},{ROW_AGGREGATE}", 0),
    (f"resources=VCPU:1&member_of=in:{RACK_AGGREGATE},{ROW_AGGREGATE}", 2),
    # Granular groups.
    (f"{TWO_VFS_QUERY}&group_policy=none", 4),
    (
        f"{TWO_VFS_QUERY}&group_policy=isolate",
        [{"1": "nic1", "2": "nic2"}, {"1": "nic2", "2": "nic1"}],
    ),
    (f"{TWO_VFS_QUERY.replace(':1', ':3')}&group_policy=none", 2),
    (f"{TWO_VFS_QUERY}&group_policy=none&group_policy=isolate", 4),
    ("resources1=SRIOV_NET_VF:1&resources2=VCPU:1&group_policy=none&same_subtree=1%20,+2", 2),
    ("resources_A=VCPU:1,SRIOV_NET_VF:1", 0),
    (
        f"resources=VCPU:1&{TWO_NETS_QUERY}CUSTOM_NET2&group_policy=none",
        [{"": "host1", "_A": "nic1", "_B": "nic2"}],
    ),
    ("resources_NET=SRIOV_NET_VF:1&required_NET=!CUSTOM_NET1", [{"_NET": "nic2"}]),
    (f"resources_CPU=VCPU:1&member_of_CPU={ROW_AGGREGATE}", [{"_CPU": "host2"}]),
    (f"resources_CPU=VCPU:1&in_tree_CPU={uuid_of('nic1')}", [{"_CPU": "host1"}]),
    (
        f"{VF_AND_HOST_TRAIT_QUERY}&same_subtree=_N,_H&group_policy=none",
        [{"_N": "nic1", "_H": "host1"}],
    ),
    (f"{TWO_NETS_QUERY}CUSTOM_NET2&same_subtree=_A,_B&group_policy=none", 0),
    # The root.
    ("resources=VCPU:1&root_required=CUSTOM_GOLD", [{"": "host1"}]),
    ("resources=VCPU:1&root_required=!CUSTOM_GOLD", [{"": "host2"}]),
    ("resources=SRIOV_NET_VF:1&root_required=CUSTOM_NET1", 0),
]

#: Rejected queries, and a part of the error.
REJECTED_QUERIES = [
    ("", "placement.query.missing_value"),
    ("resources=VCPU:1&limit=0", "limit"),
    ("resources=VCPU:1&limit=llama&limit=1", "llama"),
    (f"resources=VCPU:1&in_tree=llama&in_tree={uuid_of('host2')}", "llama"),
    ("resources=CUSTOM_NOTHING:1", "CUSTOM_NOTHING"),
    ("resources=VCPU:1&required=CUSTOM_NOTHING", "CUSTOM_NOTHING"),
    ("resources=VCPU:1&llama=1", "llama"),
    ("resources=VCPU:1&required=CUSTOM_GOLD,!CUSTOM_GOLD", "CUSTOM_GOLD"),
    (f"resources=VCPU:1&{OPPOSED_TRAITS_QUERY}", "Conflicting required and forbidden traits found"),
    (TWO_VFS_QUERY, "group_policy"),
    (f"{TWO_VFS_QUERY}&group_policy=llama", "llama"),
    (f"{TWO_VFS_QUERY}&group_policy=none&group_policy=llama", "llama"),
    ("resources=VCPU:1&required_NET=CUSTOM_NET1", "placement.query.bad_value"),
    ("resources_A=SRIOV_NET_VF:1&same_subtree=_A,_B", "placement.query.bad_value"),
    (
        "resources=VCPU:1&root_required=CUSTOM_GOLD&root_required=!CUSTOM_GOLD",
        "placement.query.duplicate_key",
    ),
    ("resources=VCPU:1&root_required=in:CUSTOM_GOLD", "root_required"),
]


def get_candidates(app, query):
    return app.get(f"{CANDIDATES_PATH}?{query}", headers=LATEST_HEADERS).json


def list_provider_names_by_group(document):
    """Return the names of the providers of each group of each candidate."""
    return [
        {
            suffix: " ".join(sorted(PROVIDER_NAMES_BY_UUID[uuid] for uuid in uuids))
            for suffix, uuids in request["mappings"].items()
        }
        for request in document["allocation_requests"]
    ]


@pytest.fixture(params=[True, False], ids=["provider cache", "database"])
def cloud_app(request, database_url, make_app):
    app = make_app(make_settings(database_url, placement__providers_in_memory=request.param))
    for name in ("CUSTOM_GOLD", "CUSTOM_NET1", "CUSTOM_NET2"):
        app.put(f"/placement/traits/{name}", headers=LATEST_HEADERS, status=201)
    empty = app.get(f"{CANDIDATES_PATH}?resources=VCPU:1", headers=LATEST_HEADERS)
    assert empty.json == {"allocation_requests": [], "provider_summaries": {}}
    assert "GMT" in empty.headers["Last-Modified"]
    create_providers(app, *PROVIDER_DEFINITIONS)
    return app


@pytest.mark.all_databases
def test_allocation_candidates_query_finds_the_expected_providers(cloud_app):
    for query, expected in QUERIES_WITH_EXPECTED_CANDIDATES:
        groups = list_provider_names_by_group(get_candidates(cloud_app, query))
        if isinstance(expected, int):
            assert len(groups) == expected, query
        else:
            assert sorted(groups, key=str) == sorted(expected, key=str), query
    for query, part in REJECTED_QUERIES:
        response = cloud_app.get(f"{CANDIDATES_PATH}?{query}", headers=LATEST_HEADERS, status=400)
        assert part in response.text, query


def test_allocation_candidates_have_amounts_and_provider_summaries(cloud_app):
    document = get_candidates(cloud_app, "resources=VCPU:1,DISK_GB:500")
    (request,) = document["allocation_requests"]
    assert request["allocations"] == {
        uuid_of("host1"): {"resources": {"VCPU": 1}},
        uuid_of("share"): {"resources": {"DISK_GB": 500}},
    }
    assert document["provider_summaries"][uuid_of("share")]["resources"] == {
        "DISK_GB": {"capacity": 900, "used": 0}
    }
    summaries = get_candidates(cloud_app, "resources=VCPU:1,MEMORY_MB:256")["provider_summaries"]
    assert len(summaries) == 4
    assert summaries[uuid_of("host2")] == {
        "resources": {
            "VCPU": {"capacity": 8, "used": 0},
            "MEMORY_MB": {"capacity": 2048, "used": 0},
            "DISK_GB": {"capacity": 50, "used": 0},
        },
        "traits": [],
        "parent_provider_uuid": None,
        "root_provider_uuid": uuid_of("host2"),
    }


def test_provider_whose_free_capacity_is_too_small_is_no_candidate(cloud_app):
    claim = build_body(LATEST, {uuid_of("host1"): {"VCPU": 6}})
    path = f"/placement/allocations/{uuid_of('consumer')}"
    cloud_app.put_json(path, claim, headers=LATEST_HEADERS, status=204)
    assert list_provider_names_by_group(get_candidates(cloud_app, "resources=VCPU:3")) == [
        {"": "host2"}
    ]
    summaries = get_candidates(cloud_app, "resources=VCPU:1")["provider_summaries"]
    assert summaries[uuid_of("host1")]["resources"]["VCPU"] == {"capacity": 8, "used": 6}

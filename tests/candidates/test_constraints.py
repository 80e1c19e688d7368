# SPDX-License-Identifier: Apache-2.0
"""Constraints of candidates queries, with the examples of the Placement documentation."""

import pytest

from placement_sched.model.candidates_query import AggregateTerms, CandidatesQuery, RequestGroup
from tests.candidates.documented import (
    AGGREGATE_A,
    AGGREGATE_B,
    AGGREGATE_C,
    BANDWIDTH,
    FORBIDDEN_AGGREGATES_CLOUD,
    FPGA_CLOUD,
    NETWORK_PORTS_CLOUD,
    NIC_CLOUD,
    NUMA_CLOUD_WITH_SHARED_DISK,
    ROOT_TRAIT_CLOUD,
    SHARED_DISK_CLOUD,
    SRIOV_CARD_CLOUD,
    TWO_SHARED_DISKS_CLOUD,
    build_cloud,
    build_cloud_with_network_functions,
    format_candidates,
    list_providers_of_group,
    provider,
)
from tests.candidates.sources import search_and_explain_candidates
from tests.support.clouds import load_cloud, uuid_of
from tests.support.versions import LATEST_HEADERS

INSTANCE_RESOURCES_QUERY = "resources=VCPU:1,MEMORY_MB:512,DISK_GB:500"
LOCAL_DISK_CANDIDATES = {
    f"CN{host} DISK_GB:500 MEMORY_MB:512 + NUMA{host}_{node} VCPU:1"
    for host in (1, 2)
    for node in (1, 2)
}
SHARED_DISK_CANDIDATES = {
    f"CN{host} MEMORY_MB:512 + NUMA{host}_{node} VCPU:1 + SS1 DISK_GB:500"
    for host in (1, 2)
    for node in (1, 2)
}

TWO_VFS_QUERY = f"{INSTANCE_RESOURCES_QUERY},SRIOV_NET_VF:2"
ALLOCATIONS_ON_CN1 = "CN1 DISK_GB:500 MEMORY_MB:512 VCPU:1"
TWO_VF_GROUPS_QUERY = (
    f"{INSTANCE_RESOURCES_QUERY}&resources1=SRIOV_NET_VF:1&required1=HW_NIC_ACCEL_SSL"
    "&resources2=SRIOV_NET_VF:1"
)

CN1_UUID, NUMA1_1_UUID, SHARED_STORAGE_UUID = (uuid_of(name) for name in ("CN1", "NUMA1_1", "SS1"))
CN1_TREE_CANDIDATES = {f"CN1 DISK_GB:50 + NUMA1_{node} VCPU:1" for node in (1, 2)}

TWO_GROUPS_QUERY = "resources1=VCPU:1,MEMORY_MB:512{}&resources2=DISK_GB:100&group_policy=none"

FPGA_QUERY = "resources_COMPUTE=VCPU:1,MEMORY_MB:256&resources_ACCEL=FPGA:1&group_policy=none"
TWO_FPGAS_QUERY = (
    "required_NUMA=HW_NUMA_ROOT&resources_ACCEL1=FPGA:1&required_ACCEL1=CUSTOM_TYPE1"
    "&resources_ACCEL2=FPGA:1&required_ACCEL2=CUSTOM_TYPE2&group_policy=none"
)
TWO_VIFS_QUERY = (
    "resources_VIF1=SRIOV_NET_VF:1&resources_VIF2=SRIOV_NET_VF:1"
    "&required_NIC_AFFINITY=HW_NIC_ROOT&same_subtree=_VIF1,_VIF2,_NIC_AFFINITY"
)
DIRECT_VNIC_QUERY = (
    f"resources=VCPU:1&resources1={BANDWIDTH}:1000&required1=CUSTOM_VNIC_TYPE_DIRECT"
    "&required1=in:CUSTOM_PHYSNET_FOO,CUSTOM_PHYSNET_BAR"
)

DOCUMENTED_SEARCHES = {
    "shared disk": (
        SHARED_DISK_CLOUD,
        INSTANCE_RESOURCES_QUERY,
        {
            ALLOCATIONS_ON_CN1,
            "CN2 DISK_GB:500 MEMORY_MB:512 VCPU:1",
            "CN1 MEMORY_MB:512 VCPU:1 + SS1 DISK_GB:500",
        },
    ),
    "a whole tree shares": (
        NUMA_CLOUD_WITH_SHARED_DISK,
        INSTANCE_RESOURCES_QUERY,
        LOCAL_DISK_CANDIDATES | SHARED_DISK_CANDIDATES,
    ),
    "an aggregate of roots spans trees": (
        NUMA_CLOUD_WITH_SHARED_DISK,
        f"{INSTANCE_RESOURCES_QUERY}&member_of={AGGREGATE_A}",
        LOCAL_DISK_CANDIDATES | SHARED_DISK_CANDIDATES,
    ),
    "an aggregate of a child spans nothing": (
        NUMA_CLOUD_WITH_SHARED_DISK,
        f"{INSTANCE_RESOURCES_QUERY}&member_of={AGGREGATE_B}",
        {name for name in LOCAL_DISK_CANDIDATES if name.startswith("CN1")},
    ),
    "required trait": (
        NIC_CLOUD,
        f"{TWO_VFS_QUERY}&required=HW_NIC_ACCEL_SSL",
        {f"{ALLOCATIONS_ON_CN1} + NIC1_1 SRIOV_NET_VF:2"},
    ),
    "forbidden trait": (
        NIC_CLOUD,
        f"{TWO_VFS_QUERY}&required=!HW_NIC_ACCEL_SSL",
        {f"{ALLOCATIONS_ON_CN1} + NIC1_2 SRIOV_NET_VF:2"},
    ),
    "isolated groups": (
        NIC_CLOUD,
        f"{TWO_VF_GROUPS_QUERY}&group_policy=isolate",
        {f"{ALLOCATIONS_ON_CN1} + NIC1_1 SRIOV_NET_VF:1 + NIC1_2 SRIOV_NET_VF:1"},
    ),
    "groups on one provider": (
        NIC_CLOUD,
        f"{TWO_VF_GROUPS_QUERY}&group_policy=none",
        {
            f"{ALLOCATIONS_ON_CN1} + NIC1_1 SRIOV_NET_VF:1 + NIC1_2 SRIOV_NET_VF:1",
            f"{ALLOCATIONS_ON_CN1} + NIC1_1 SRIOV_NET_VF:2",
        },
    ),
    "tree of a root": (
        TWO_SHARED_DISKS_CLOUD,
        f"resources=VCPU:1,DISK_GB:50&in_tree={CN1_UUID}",
        CN1_TREE_CANDIDATES,
    ),
    "tree of a child": (
        TWO_SHARED_DISKS_CLOUD,
        f"resources=VCPU:1,DISK_GB:50&in_tree={NUMA1_1_UUID}",
        CN1_TREE_CANDIDATES,
    ),
    "tree of the unsuffixed group only": (
        TWO_SHARED_DISKS_CLOUD,
        f"resources=VCPU:1&in_tree={CN1_UUID}&resources1=DISK_GB:10",
        {
            " + ".join(sorted([f"NUMA1_{node} VCPU:1", f"{disk} DISK_GB:10"]))
            for node in (1, 2)
            for disk in ("CN1", "SS1", "SS2")
        },
    ),
    "tree of a storage that shares": (
        TWO_SHARED_DISKS_CLOUD,
        f"resources=VCPU:1&resources1=DISK_GB:10&in_tree1={SHARED_STORAGE_UUID}",
        {f"NUMA{host}_{node} VCPU:1 + SS1 DISK_GB:10" for host in (1, 2) for node in (1, 2)},
    ),
    "trait of the root": (
        ROOT_TRAIT_CLOUD,
        TWO_GROUPS_QUERY.format("&required1=HW_CPU_X86_AVX2")
        + "&root_required=COMPUTE_VOLUME_MULTI_ATTACH",
        {
            "NON_NUMA_CN DISK_GB:100 MEMORY_MB:512 VCPU:1",
            "NUMA2 MEMORY_MB:512 VCPU:1 + NUMA_CN DISK_GB:100",
        },
    ),
    "trait forbidden to the root": (
        ROOT_TRAIT_CLOUD,
        TWO_GROUPS_QUERY.format("") + "&root_required=!CUSTOM_WINDOWS_LICENSE_POOL",
        {f"NUMA{node} MEMORY_MB:512 VCPU:1 + NUMA_CN DISK_GB:100" for node in (1, 2)},
    ),
    "device in the subtree of its NUMA node": (
        FPGA_CLOUD,
        f"{FPGA_QUERY}&same_subtree=_COMPUTE,_ACCEL",
        {
            "FPGA0_0 FPGA:1 + NUMA0 MEMORY_MB:256 VCPU:1",
            "FPGA1_0 FPGA:1 + NUMA1 MEMORY_MB:256 VCPU:1",
            "FPGA1_1 FPGA:1 + NUMA1 MEMORY_MB:256 VCPU:1",
        },
    ),
    "two devices below one node": (
        FPGA_CLOUD,
        f"{TWO_FPGAS_QUERY}&same_subtree=_NUMA,_ACCEL1,_ACCEL2",
        {"FPGA1_0 FPGA:1 + FPGA1_1 FPGA:1"},
    ),
    "different functions of one card": (
        SRIOV_CARD_CLOUD,
        f"{TWO_VIFS_QUERY}&group_policy=isolate",
        {"PF1_1 SRIOV_NET_VF:1 + PF1_2 SRIOV_NET_VF:1"},
    ),
    "use case 3: a function of each kind": (
        build_cloud_with_network_functions(),
        (
            f"resources1=SRIOV_NET_VF:1,{BANDWIDTH}:10000&required1=CUSTOM_NET1"
            f"&resources2=SRIOV_NET_VF:1,{BANDWIDTH}:20000&required2=CUSTOM_NET2,HW_NIC_ACCEL_SSL"
            "&group_policy=none"
        ),
        {
            f"RP1 {BANDWIDTH}:10000 SRIOV_NET_VF:1 + RP2 {BANDWIDTH}:20000 SRIOV_NET_VF:1",
            f"RP2 {BANDWIDTH}:20000 SRIOV_NET_VF:1 + RP3 {BANDWIDTH}:10000 SRIOV_NET_VF:1",
        },
    ),
    "use case 5: as many as no single function has": (
        build_cloud_with_network_functions(free=2),
        "&".join(f"resources{n}=SRIOV_NET_VF:1&required{n}=CUSTOM_NET1" for n in (1, 2, 3, 4))
        + "&group_policy=none",
        {"RP1 SRIOV_NET_VF:2 + RP3 SRIOV_NET_VF:2"},
    ),
    "an aggregate forbidden to a root spans its tree": (
        FORBIDDEN_AGGREGATES_CLOUD,
        f"resources=VCPU:1&member_of=!{AGGREGATE_A}",
        {"NUMA2_1 VCPU:1", "NUMA2_2 VCPU:1"},
    ),
    "an aggregate forbidden to a root and a storage": (
        FORBIDDEN_AGGREGATES_CLOUD,
        f"resources=VCPU:1,DISK_GB:1&member_of=!{AGGREGATE_B}",
        {"NUMA1_1 VCPU:1 + SS2 DISK_GB:1", "NUMA1_2 VCPU:1 + SS2 DISK_GB:1"},
    ),
    "an aggregate forbidden to a child and a storage": (
        FORBIDDEN_AGGREGATES_CLOUD,
        f"resources=VCPU:1,DISK_GB:1&member_of=!{AGGREGATE_C}",
        {"NUMA2_1 VCPU:1 + SS1 DISK_GB:1", "NUMA2_2 VCPU:1 + SS1 DISK_GB:1"},
    ),
    "an aggregate forbidden to a suffixed group spans nothing": (
        FORBIDDEN_AGGREGATES_CLOUD,
        f"resources1=VCPU:1&member_of1=!{AGGREGATE_A}",
        {f"NUMA{host}_{node} VCPU:1" for host in (1, 2) for node in (1, 2)},
    ),
    "an aggregate required and forbidden": (
        FORBIDDEN_AGGREGATES_CLOUD,
        f"resources=MEMORY_MB:1&member_of={AGGREGATE_A}&member_of=!{AGGREGATE_A}",
        set(),
    ),
    "any of two traits, and another": (
        NETWORK_PORTS_CLOUD,
        DIRECT_VNIC_QUERY,
        {f"CN1 VCPU:1 + ETH{number} {BANDWIDTH}:1000" for number in (0, 1)},
    ),
    "any of two traits, spread over a tree": (
        NETWORK_PORTS_CLOUD,
        (
            f"resources=VCPU:1,{BANDWIDTH}:1000&required=CUSTOM_VNIC_TYPE_NORMAL"
            "&required=in:CUSTOM_PHYSNET_FOO,CUSTOM_PHYSNET_BAR"
        ),
        {f"CN1 VCPU:1 + ETH2 {BANDWIDTH}:1000"},
    ),
}


def _load_cloud_and_get_candidates(app, cloud, query):
    load_cloud(app.app.services.database, cloud)
    return app.get(f"/placement/allocation_candidates?{query}", headers=LATEST_HEADERS).json


@pytest.mark.parametrize(
    ("cloud", "query", "expected"), DOCUMENTED_SEARCHES.values(), ids=DOCUMENTED_SEARCHES
)
def test_documented_example_has_documented_candidates(sqlite_app, cloud, query, expected):
    response = _load_cloud_and_get_candidates(sqlite_app, cloud, query)
    assert format_candidates(response, cloud) == expected


def test_group_without_resources_is_in_the_mappings_only(sqlite_app):
    response = _load_cloud_and_get_candidates(
        sqlite_app, FPGA_CLOUD, f"{TWO_FPGAS_QUERY}&same_subtree=_NUMA,_ACCEL1,_ACCEL2"
    )
    assert list_providers_of_group(response, FPGA_CLOUD, "_NUMA") == {"NUMA1"}
    assert list_providers_of_group(response, FPGA_CLOUD, "_ACCEL1") == {"FPGA1_0"}
    assert list_providers_of_group(response, FPGA_CLOUD, "_ACCEL2") == {"FPGA1_1"}


@pytest.mark.all_databases
@pytest.mark.slow
def test_sixty_member_of_sets_match_provider_or_root(database, settings):
    places = [f"a{number}" for number in range(60)]
    root_aggregates, child_aggregates = places[:30], places[30:]
    cloud = build_cloud(
        provider("CN0", {"VCPU": 1}, aggregates=places),
        provider("NUMA0", {"VCPU": 1}, under="CN0"),
        provider("CN1", {"VCPU": 1}, aggregates=root_aggregates),
        provider("NUMA1", {"VCPU": 1}, under="CN1", aggregates=child_aggregates),
        provider("CN2", {"VCPU": 1}),
        provider("NUMA2", {"VCPU": 1}, under="CN2", aggregates=places),
        provider("CN3", {"VCPU": 1}, aggregates=places[:-1]),
    )
    load_cloud(database, cloud)
    sets = tuple(frozenset({uuid_of(place), uuid_of("nowhere")}) for place in places)
    group = RequestGroup(resources=(("VCPU", 1),), aggregates=AggregateTerms(sets))
    result, reported = search_and_explain_candidates(
        database, CandidatesQuery(groups=(group,)), settings
    )
    serving = {uuid for request in result.requests for uuid in request.allocations}
    assert serving == {uuid_of(name) for name in ("CN0", "NUMA0", "NUMA2")}
    remaining = [step.after for step in reported.steps if step.constraint.family == "member_of"]
    assert remaining == [4] * 30 + [3] * 29 + [2]

# SPDX-License-Identifier: Apache-2.0
"""Trees that each stage of a search rejects, with the reasons."""

from dataclasses import replace

import pytest

from placement_sched.candidates.constraints import iterate_constraints
from placement_sched.explain.phrases import describe_rejection
from placement_sched.explain.stages import build_shortage
from placement_sched.model.candidates_query import AggregateTerms, CandidatesQuery, TraitTerms
from placement_sched.model.provider import Inventory
from placement_sched.store.placement.capacity import UsedInventory
from tests.candidates.documented import (
    AGGREGATE_A,
    FPGA_CLOUD,
    NIC_CLOUD,
    ROOT_TRAIT_CLOUD,
    SRIOV_CARD_CLOUD,
    build_cloud,
    provider,
)
from tests.candidates.reference import SHARING_TRAIT
from tests.explain.explained import (
    ISOLATED_GROUPS_QUERY,
    SAME_SUBTREE_QUERY,
    build_request_group,
    explain_search,
)
from tests.support.clouds import Host, build_inventory, load_cloud

pytestmark = pytest.mark.usefixtures("with_and_without_provider_cache")


def _list_rejection_steps(database, settings, cloud, query):
    """Return the reasons of each step that rejected a tree."""
    load_cloud(database, cloud)
    _, reported = explain_search(database, query, settings)
    return {
        step.label: [host.reason for host in step.rejected]
        for step in reported.steps
        if step.rejected
    }


FOUR_VCPUS_GROUP = build_request_group(VCPU=4)
CLOUD_WITH_TWO_NUMA_NODES = build_cloud(
    provider("CN"),
    Host("NUMA0", build_inventory("VCPU", 8, used=5), parent="CN"),
    Host("NUMA1", build_inventory("VCPU", 4, max_unit=3), parent="CN"),
)
#: The storage shares with the host. Only the host is in aggregate A.
CLOUD_WITH_FORBIDDEN_ROOT = build_cloud(
    provider("SS1", {"DISK_GB": 100}, traits=[SHARING_TRAIT], aggregates=["aggB"]),
    provider("CN1", {"VCPU": 8}, aggregates=["aggA", "aggB"]),
)


def _forbid_aggregate_a(group):
    return replace(group, aggregates=AggregateTerms((), frozenset({AGGREGATE_A})))


REJECTION_EXAMPLES = {
    "numbers of a host without children": (
        build_cloud(Host("cn1", build_inventory("VCPU", 8, used=5, reserved=1))),
        CandidatesQuery(groups=(FOUR_VCPUS_GROUP,)),
        {"resources VCPU:4": ["VCPU: 2 free of 7, 4 requested"]},
    ),
    "a reserved host": (
        build_cloud(Host("cn1", build_inventory("VCPU", 16, reserved=16))),
        CandidatesQuery(groups=(FOUR_VCPUS_GROUP,)),
        {"resources VCPU:4": ["VCPU: all 16 reserved, 4 requested"]},
    ),
    "a ratio without capacity": (
        build_cloud(Host("cn1", build_inventory("VCPU", 1, allocation_ratio=0.5))),
        CandidatesQuery(groups=(FOUR_VCPUS_GROUP,)),
        {
            "resources VCPU:4": [
                ("VCPU: capacity 0 (total 1, reserved 0, allocation_ratio 0.5), 4 requested")
            ]
        },
    ),
    "numbers of each child": (
        CLOUD_WITH_TWO_NUMA_NODES,
        CandidatesQuery(groups=(FOUR_VCPUS_GROUP,)),
        {
            "resources VCPU:4": [
                (
                    "VCPU: 3 free of 8, 4 requested on NUMA0; "
                    "VCPU: at most 3 in one allocation (max_unit), 4 requested on NUMA1"
                )
            ]
        },
    ),
    "a class that a tree lacks": (
        CLOUD_WITH_TWO_NUMA_NODES,
        CandidatesQuery(groups=(build_request_group(DISK_GB=1),)),
        {"resources DISK_GB:1": ["DISK_GB: none in inventory, 1 requested"]},
    ),
    "the root next to a child": (
        build_cloud(
            provider("CN", {"VCPU": 8}),
            Host("NUMA0", build_inventory("VCPU", 8), parent="CN"),
            Host("NUMA1", build_inventory("DISK_GB", 8), parent="CN"),
        ),
        CandidatesQuery(groups=(build_request_group("", ["HW_NIC_OFFLOAD_GRO"], VCPU=1),)),
        {"required HW_NIC_OFFLOAD_GRO": ["each of CN and NUMA0: lacks trait HW_NIC_OFFLOAD_GRO"]},
    ),
    "a group by its suffix": (
        NIC_CLOUD,
        CandidatesQuery(
            groups=(
                build_request_group(VCPU=1),
                build_request_group("_NET", ["HW_NIC_OFFLOAD_GRO"], SRIOV_NET_VF=1),
            )
        ),
        {
            "required HW_NIC_OFFLOAD_GRO (group _NET)": [
                "each of NIC1_1 and NIC1_2: lacks trait HW_NIC_OFFLOAD_GRO"
            ]
        },
    ),
    "a trait of the root": (
        ROOT_TRAIT_CLOUD,
        CandidatesQuery(
            groups=(build_request_group(DISK_GB=1),),
            root=TraitTerms((), frozenset({"CUSTOM_WINDOWS_LICENSE_POOL"})),
        ),
        {
            "root_required !CUSTOM_WINDOWS_LICENSE_POOL": [
                "the root has forbidden trait CUSTOM_WINDOWS_LICENSE_POOL"
            ]
        },
    ),
    "a storage forbidden with the root of its tree": (
        CLOUD_WITH_FORBIDDEN_ROOT,
        CandidatesQuery(groups=(_forbid_aggregate_a(build_request_group(DISK_GB=1)),)),
        {f"member_of !in:{AGGREGATE_A}": ["in a forbidden aggregate"]},
    ),
    "a storage of a root that is forbidden to a suffixed group": (
        CLOUD_WITH_FORBIDDEN_ROOT,
        CandidatesQuery(groups=(_forbid_aggregate_a(build_request_group("1", DISK_GB=1)),)),
        {
            "combination": [
                "only its sharing providers can serve, and they are reported under another tree"
            ]
        },
    ),
    "too few providers for isolated groups": (
        SRIOV_CARD_CLOUD,
        ISOLATED_GROUPS_QUERY,
        {
            "combination group_policy=isolate": [
                "no separate provider for each group with a suffix (group_policy=isolate)"
            ]
        },
    ),
    "providers of different subtrees": (
        FPGA_CLOUD,
        SAME_SUBTREE_QUERY,
        {"combination same_subtree=_A,_B": ["no providers in one subtree (same_subtree=_A,_B)"]},
    ),
    "no capacity for all groups together": (
        SRIOV_CARD_CLOUD,
        CandidatesQuery(
            groups=tuple(build_request_group(suffix, SRIOV_NET_VF=3) for suffix in ("1", "2", "3")),
            group_policy="none",
        ),
        {"combination": ["SRIOV_NET_VF: 3 + 3 + 3 requested, free on each provider: 4, 4"]},
    ),
}


@pytest.mark.parametrize(
    ("cloud", "query", "expected"), REJECTION_EXAMPLES.values(), ids=REJECTION_EXAMPLES
)
def test_each_rejected_tree_has_a_step_and_a_reason(
    sqlite_database, sqlite_settings, cloud, query, expected
):
    assert _list_rejection_steps(sqlite_database, sqlite_settings, cloud, query) == expected


@pytest.mark.parametrize(
    ("fields", "used", "reason"),
    [
        (None, 0, "none in inventory, 4 requested"),
        ({"total": 8}, 5, "3 free of 8, 4 requested"),
        ({"total": 8, "reserved": 8}, 0, "all 8 reserved, 4 requested"),
        ({"total": 1, "reserved": 1}, 1, "all 1 reserved, 4 requested"),
        ({"total": 2, "reserved": 5}, 0, "all 2 reserved, 4 requested"),
        (
            {"total": 1, "allocation_ratio": 0.5},
            0,
            "capacity 0 (total 1, reserved 0, allocation_ratio 0.5), 4 requested",
        ),
        ({"total": 8, "max_unit": 3}, 0, "at most 3 in one allocation (max_unit), 4 requested"),
    ],
)
def test_shortage_names_the_limit_of_the_inventory(fields, used, reason):
    (constraint,) = iterate_constraints(build_request_group(VCPU=4))
    inventory = None
    if fields is not None:
        inventory = UsedInventory(Inventory(resource_class="VCPU", **fields), used)
    assert describe_rejection(build_shortage(constraint, inventory)) == f"VCPU: {reason}"

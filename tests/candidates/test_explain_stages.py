# SPDX-License-Identifier: Apache-2.0
"""Trees that each stage of a search rejects, with the reasons."""

from dataclasses import replace

import pytest

from placement_sched.model.candidates_query import AggregateTerms, CandidatesQuery, TraitTerms
from tests.candidates.documented import (
    AGG_A,
    FPGAS,
    NICS,
    ONE_CARD,
    ROOT_TRAITS,
    build_cloud,
    provider,
)
from tests.candidates.reference import SHARES
from tests.candidates.test_explain import APART, ISOLATED, build_group, explain_search
from tests.support.clouds import Host, build_inventory, load_cloud

pytestmark = pytest.mark.usefixtures("each_provider_source")


def _list_rejection_steps(database, settings, cloud, query):
    """Return the reasons of each step that rejected a tree."""
    load_cloud(database, cloud)
    _, reported = explain_search(database, query, settings)
    return {
        f"{step.constraint} {step.detail}".strip(): [host.reason for host in step.rejected]
        for step in reported.steps
        if step.rejected
    }


BIG = build_group(VCPU=4)
WIDE = build_cloud(
    provider("CN"),
    Host("NUMA0", build_inventory("VCPU", 8, used=5), parent="CN"),
    Host("NUMA1", build_inventory("VCPU", 4, max_unit=3), parent="CN"),
)
#: The storage shares with the host. Only the host is in aggregate A.
SHARED_WITH_FORBIDDEN_ROOT = build_cloud(
    provider("SS1", {"DISK_GB": 100}, traits=[SHARES], aggregates=["aggB"]),
    provider("CN1", {"VCPU": 8}, aggregates=["aggA", "aggB"]),
)


def _forbid_aggregate_a(group):
    return replace(group, aggregates=AggregateTerms((), frozenset({AGG_A})))


REJECTIONS = {
    "numbers of a lone host": (
        build_cloud(Host("cn1", build_inventory("VCPU", 8, used=5, reserved=1))),
        CandidatesQuery(groups=(BIG,)),
        {"resources VCPU:4": ["VCPU: 2 free of 7, 4 requested"]},
    ),
    "numbers of each child": (
        WIDE,
        CandidatesQuery(groups=(BIG,)),
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
        WIDE,
        CandidatesQuery(groups=(build_group(DISK_GB=1),)),
        {"resources DISK_GB:1": ["DISK_GB: none in inventory, 1 requested"]},
    ),
    "a group by its suffix": (
        NICS,
        CandidatesQuery(
            groups=(
                build_group(VCPU=1),
                build_group("_NET", ["HW_NIC_OFFLOAD_GRO"], SRIOV_NET_VF=1),
            )
        ),
        {
            "required HW_NIC_OFFLOAD_GRO (group _NET)": [
                "each of NIC1_1 and NIC1_2: lacks trait HW_NIC_OFFLOAD_GRO"
            ]
        },
    ),
    "a trait of the root": (
        ROOT_TRAITS,
        CandidatesQuery(
            groups=(build_group(DISK_GB=1),),
            root=TraitTerms((), frozenset({"CUSTOM_WINDOWS_LICENSE_POOL"})),
        ),
        {
            "root_required !CUSTOM_WINDOWS_LICENSE_POOL": [
                "the root has forbidden trait CUSTOM_WINDOWS_LICENSE_POOL"
            ]
        },
    ),
    "a storage forbidden with the root of its tree": (
        SHARED_WITH_FORBIDDEN_ROOT,
        CandidatesQuery(groups=(_forbid_aggregate_a(build_group(DISK_GB=1)),)),
        {f"member_of !in:{AGG_A}": ["in a forbidden aggregate"]},
    ),
    "a storage of a root that is forbidden to a suffixed group": (
        SHARED_WITH_FORBIDDEN_ROOT,
        CandidatesQuery(groups=(_forbid_aggregate_a(build_group("1", DISK_GB=1)),)),
        {"combination": ["only its sharing providers match; reported under another tree"]},
    ),
    "too few providers for isolated groups": (
        ONE_CARD,
        ISOLATED,
        {
            "combination group_policy=isolate": [
                "no separate provider for each group with a suffix (group_policy=isolate)"
            ]
        },
    ),
    "providers of different subtrees": (
        FPGAS,
        APART,
        {"combination same_subtree=_A,_B": ["no providers in one subtree (same_subtree=_A,_B)"]},
    ),
    "no room for groups together": (
        ONE_CARD,
        CandidatesQuery(
            groups=tuple(build_group(suffix, SRIOV_NET_VF=3) for suffix in ("1", "2", "3")),
            group_policy="none",
        ),
        {"combination": ["SRIOV_NET_VF: 3 + 3 + 3 requested, free on each provider: 4, 4"]},
    ),
}


@pytest.mark.parametrize(("cloud", "query", "expected"), REJECTIONS.values(), ids=REJECTIONS)
def test_each_rejected_tree_has_a_step_and_a_reason(
    sqlite_database, sqlite_settings, cloud, query, expected
):
    assert _list_rejection_steps(sqlite_database, sqlite_settings, cloud, query) == expected

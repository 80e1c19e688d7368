# SPDX-License-Identifier: Apache-2.0
"""Provider columns of many traits, of a step size, and of a capacity without a limit."""

import pytest

from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms
from tests.candidates.documented import build_cloud, provider
from tests.candidates.sources import find_candidates
from tests.support.clouds import Host, build_inventory, load_cloud, uuid_of


@pytest.mark.all_databases
@pytest.mark.slow
@pytest.mark.parametrize("child", [(), (provider("child", under="CN"),)], ids=["flat", "trees"])
def test_search_with_a_hundred_required_traits_finds_the_host(database, settings, child):
    traits = [f"CUSTOM_TRAIT_{number}" for number in range(100)]
    load_cloud(database, build_cloud(provider("CN", {"VCPU": 8}, traits=traits), *child))
    required = TraitTerms(tuple(frozenset({name}) for name in traits))
    group = RequestGroup(resources=(("VCPU", 1),), traits=required)
    candidates = find_candidates(database, CandidatesQuery(groups=(group,)), settings)
    assert [request.root_uuid for request in candidates.requests] == [uuid_of("CN")]


@pytest.mark.usefixtures("with_and_without_provider_cache")
def test_capacity_with_a_huge_allocation_ratio_is_unlimited(database, settings):
    host = Host("CN1", build_inventory("VCPU", 8, used=1, allocation_ratio=3e38))
    load_cloud(database, build_cloud(host, provider("child", under="CN1")))
    groups = (RequestGroup(suffix=suffix, resources=(("VCPU", 1),)) for suffix in ("1", "2"))
    query = CandidatesQuery(groups=tuple(groups), group_policy="none")
    candidates = find_candidates(database, query, settings)
    assert [request.root_uuid for request in candidates.requests] == [uuid_of("CN1")]


@pytest.mark.usefixtures("with_and_without_provider_cache")
def test_amount_must_be_a_multiple_of_the_step_size(database, settings):
    load_cloud(database, build_cloud(Host("CN1", build_inventory("VCPU", 8, step_size=2))))
    numbers = []
    for amount in (3, 4):
        query = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", amount),)),))
        numbers.append(len(find_candidates(database, query, settings).requests))
    assert numbers == [0, 1]

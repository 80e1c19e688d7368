# SPDX-License-Identifier: Apache-2.0
"""Limits of the items of a provider and of a query, which bound the CPU time of a request."""

from uuid import uuid4

from placement_sched.limits import MAX_CONDITIONS, MAX_PROVIDER_ITEMS
from tests.support.allocation_bodies import build_version_headers
from tests.support.providers import make_provider
from tests.support.versions import LATEST

NUMBERS_BEYOND_THE_LIMIT = range(MAX_PROVIDER_ITEMS + 1)
TOO_MANY_ITEMS_BY_SUBRESOURCE = {
    "aggregates": ([str(uuid4()) for _ in NUMBERS_BEYOND_THE_LIMIT], "maxItems"),
    "traits": ([f"CUSTOM_{number}" for number in NUMBERS_BEYOND_THE_LIMIT], "maxItems"),
    "inventories": (
        {f"CUSTOM_{number}": {"total": 1} for number in NUMBERS_BEYOND_THE_LIMIT},
        "maxProperties",
    ),
}


def test_too_many_inventories_traits_or_aggregates_of_a_provider_are_400(sqlite_app):
    provider = make_provider(sqlite_app.app.services.database)
    for noun, (items, keyword) in TOO_MANY_ITEMS_BY_SUBRESOURCE.items():
        body = {"resource_provider_generation": 0, noun: items}
        path = f"/placement/resource_providers/{provider}/{noun}"
        response = sqlite_app.put_json(
            path, body, headers=build_version_headers(LATEST), status=400
        )
        assert f"(at $.{noun}). Failed validating '{keyword}'" in response.text, noun


def test_allocation_candidates_query_with_too_many_trait_conditions_is_rejected(sqlite_app):
    for term in ["required=in:HW_CPU_X86_AVX,T{}", "required=!T{}"]:
        terms = "&".join(term.format(number) for number in range(MAX_CONDITIONS + 1))
        path = f"/placement/allocation_candidates?resources=VCPU:1&{terms}"
        response = sqlite_app.get(path, headers=build_version_headers(LATEST), status=400)
        assert f"{MAX_CONDITIONS + 1} conditions on traits and aggregates" in response.text, term
        (fewer, _, _) = path.rpartition("&")
        unknown = sqlite_app.get(fewer, headers=build_version_headers(LATEST), status=400)
        assert "No such trait(s)" in unknown.text, term


def test_aggregate_conditions_count_towards_the_limit_of_trait_conditions(sqlite_app):
    groups = "&".join(
        f"resources{group}=VCPU:1&required{group}=HW_CPU_X86_AVX&member_of{group}={uuid4()}"
        for group in range(8)
    )
    more = "&".join(f"member_of={uuid4()}" for _ in range(MAX_CONDITIONS - 15))
    path = f"/placement/allocation_candidates?{groups}&resources=VCPU:1&{more}&group_policy=none"
    response = sqlite_app.get(path, headers=build_version_headers(LATEST), status=400)
    assert f"{MAX_CONDITIONS + 1} conditions on traits and aggregates" in response.text


def test_too_many_aggregates_of_a_provider_are_rejected_before_1_19(sqlite_app):
    provider = make_provider(sqlite_app.app.services.database)
    items, _ = TOO_MANY_ITEMS_BY_SUBRESOURCE["aggregates"]
    path = f"/placement/resource_providers/{provider}/aggregates"
    response = sqlite_app.put_json(path, items, headers=build_version_headers("1.1"), status=400)
    assert "(at $). Failed validating 'maxItems'" in response.text

# SPDX-License-Identifier: Apache-2.0
"""Traits, listed and deleted. ``gabbits/traits.yaml`` has the other cases."""

from functools import partial

import pytest

from tests.api.placement.test_name_case import listed
from tests.api.placement.test_name_case import named as named  # noqa: PLC0414 - a fixture
from tests.api.placement.test_resource_classes import ROUNDS, P
from tests.api.placement.test_resource_classes import ask as ask  # noqa: PLC0414 - a fixture
from tests.api.placement.test_resource_classes import having as having  # noqa: PLC0414 - a fixture
from tests.api.placement.test_resource_classes import status as status  # noqa: PLC0414 - a fixture
from tests.support.concurrency import run_concurrently

pytestmark = pytest.mark.all_databases


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("in:CUSTOM_A,CUSTOM_B", ["CUSTOM_A", "CUSTOM_B"]),
        ("in:custom_a,CUSTOM_B", ["CUSTOM_B"]),
        ("in:CUSTOM_A%20", []),
        ("in:Custom_A", []),
        ("startswith:CUSTOM_A", ["CUSTOM_A", "CUSTOM_AB"]),
        ("startswith:cus", []),
        ("startswith:CUSTOM_a", []),
        ("startswith:CUSTOM%25", []),
    ],
)
def test_traits_are_listed_by_exact_name(named, name, found):
    assert sorted(listed(named, f"/traits?name={name}", "traits")) == found


def test_trait_is_deleted_or_had_but_never_both(status, having):
    for number in range(ROUNDS):
        path = f"/traits/CUSTOM_RACED_{number}"
        name = path.rpartition("/")[2]
        status("PUT", path)
        _, generation = having("traits")
        body = {"resource_provider_generation": generation, "traits": [name]}
        told = run_concurrently(
            partial(status, "DELETE", path),
            partial(status, "PUT", f"/resource_providers/{P}/traits", body),
        )
        found, _ = having("traits")
        gone = {(204, 400, False), (204, 409, False)}
        assert (*told, name in found) in {*gone, (409, 200, True)}
        assert status("DELETE", f"/resource_providers/{P}/traits") == 204

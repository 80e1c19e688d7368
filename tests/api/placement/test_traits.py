# SPDX-License-Identifier: Apache-2.0
"""Traits, listed and deleted. ``gabbits/traits.yaml`` has the other cases."""

from functools import partial

import pytest

from tests.api.placement.test_name_case import app_with_custom_names as app_with_custom_names  # noqa: PLC0414 - a fixture
from tests.api.placement.test_name_case import list_names
from tests.api.placement.test_resource_classes import ROUNDS, P
from tests.api.placement.test_resource_classes import read_subresource as read_subresource  # noqa: PLC0414 - a fixture
from tests.api.placement.test_resource_classes import send_request as send_request  # noqa: PLC0414 - a fixture
from tests.api.placement.test_resource_classes import (
    send_request_for_status as send_request_for_status,  # noqa: PLC0414 - a fixture
)
from tests.support.concurrency import run_concurrently

pytestmark = pytest.mark.all_databases


def test_traits_are_listed_by_exact_name(app_with_custom_names):
    for name, names in [
        ("in:CUSTOM_A,CUSTOM_B", ["CUSTOM_A", "CUSTOM_B"]),
        ("in:custom_a,CUSTOM_B", ["CUSTOM_B"]),
        ("in:CUSTOM_A%20", []),
        ("in:Custom_A", []),
        ("startswith:CUSTOM_A", ["CUSTOM_A", "CUSTOM_AB"]),
        ("startswith:cus", []),
        ("startswith:CUSTOM_a", []),
        ("startswith:CUSTOM%25", []),
    ]:
        assert (
            sorted(list_names(app_with_custom_names, f"/traits?name={name}", "traits")) == names
        ), name


def test_concurrent_deletion_and_use_of_a_trait_never_both_succeed(
    send_request_for_status, read_subresource
):
    for number in range(ROUNDS):
        path = f"/traits/CUSTOM_RACED_{number}"
        name = path.rpartition("/")[2]
        send_request_for_status("PUT", path)
        _, generation = read_subresource("traits")
        body = {"resource_provider_generation": generation, "traits": [name]}
        results = run_concurrently(
            partial(send_request_for_status, "DELETE", path),
            partial(send_request_for_status, "PUT", f"/resource_providers/{P}/traits", body),
        )
        traits, _ = read_subresource("traits")
        gone = {(204, 400, False), (204, 409, False)}
        assert (*results, name in traits) in {*gone, (409, 200, True)}
        assert send_request_for_status("DELETE", f"/resource_providers/{P}/traits") == 204

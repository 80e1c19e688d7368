# SPDX-License-Identifier: Apache-2.0
"""Aggregates of a provider. ``gabbits/aggregates.yaml`` has the other cases."""

from tests.api.placement.test_bounds import GIVEN
from tests.support.allocation_bodies import headers
from tests.support.providers import make_provider


def test_too_many_aggregates_are_rejected_before_1_19(sqlite_app):
    provider = make_provider(sqlite_app.app.services.database)
    items, _ = GIVEN["aggregates"]
    path = f"/placement/resource_providers/{provider}/aggregates"
    answer = sqlite_app.put_json(path, items, headers=headers("1.1"), status=400)
    assert "(at $). Failed validating 'maxItems'" in answer.text

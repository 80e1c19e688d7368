# SPDX-License-Identifier: Apache-2.0
"""Over-allocations and remaining capacity after selections."""

import pytest
from load import load
from selections import Flavor, count_remaining, find_overallocations
from sqlalchemy import update
from worlds import FlatWorld

from placement_sched.db import tables

pytestmark = pytest.mark.slow


@pytest.fixture
def url_of_flat_cloud(database):
    load(database, FlatWorld(5))
    return database.url.render_as_string(hide_password=False)


def test_benchmark_cloud_has_free_capacity_and_no_overallocation(url_of_flat_cloud):
    assert find_overallocations(url_of_flat_cloud) == []
    assert (
        count_remaining(url_of_flat_cloud, Flavor(1, 1, 1))
        > count_remaining(url_of_flat_cloud, Flavor(4, 16_384, 50))
        > 0
    )
    assert count_remaining(url_of_flat_cloud, Flavor(1, 9_000_000, 1)) == 0


@pytest.mark.all_databases
def test_allocations_above_the_capacity_are_reported(url_of_flat_cloud, database):
    held = tables.allocations
    with database.writer.begin() as connection:
        connection.execute(
            update(held)
            .where(held.c.resource_provider_id == 2, held.c.resource_class_id == 0)
            .values(used=100_000)
        )
    (shown,) = find_overallocations(url_of_flat_cloud)
    assert shown.startswith("provider 2, VCPU: ")

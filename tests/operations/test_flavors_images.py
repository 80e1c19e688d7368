# SPDX-License-Identifier: Apache-2.0
"""Concurrent creations of flavors, and the number of statements."""

from functools import partial

import pytest

from placement_sched.errors import Duplicate
from placement_sched.model.flavor import Flavor
from placement_sched.operations import flavors_images
from tests.support.concurrency import run_concurrently
from tests.support.hosts import NOW
from tests.support.statements import record_statements


def create_flavor(database, flavorid):
    flavor = Flavor(flavorid=flavorid, name="n", vcpus=1, memory_mb=1)
    return database.write(lambda connection: flavors_images.create_flavor(connection, flavor, NOW))


@pytest.mark.all_databases
def test_one_of_concurrent_creations_of_a_flavor_name_succeeds(database):
    def create_flavor_or_none(number):
        try:
            return create_flavor(database, f"f{number}").flavorid
        except Duplicate:
            return None

    created = run_concurrently(*(partial(create_flavor_or_none, number) for number in range(4)))
    assert sum(flavor is not None for flavor in created) == 1


def test_statement_count_of_set_extra_specs_is_independent_of_their_number(database):
    create_flavor(database, "f")
    counts = []
    for number in (1, 40):
        changes = {f"{number}-{index}": "v" for index in range(number)}
        with record_statements(database) as statements:
            database.write(
                partial(flavors_images.set_extra_specs, flavorid="f", changes=changes, now=NOW)
            )
        counts.append(len(statements))
    assert counts[0] == counts[1]

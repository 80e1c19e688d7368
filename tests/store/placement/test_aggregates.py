# SPDX-License-Identifier: Apache-2.0
"""Replacement of the aggregates of a provider."""

from uuid import UUID

import pytest

from placement_sched.store.placement import aggregates
from tests.store.placement.test_associations import provider_ids as provider_ids  # noqa: PLC0414 - a fixture
from tests.support.providers import NOW

pytestmark = pytest.mark.all_databases


def test_aggregates_of_a_provider_are_replaced(database, provider_ids):
    rack, row, hall = (str(UUID(int=number)) for number in (1, 2, 3))
    changes = [
        database.write(lambda c, uuids=uuids: aggregates.replace(c, provider_ids[0], uuids, NOW))
        for uuids in ([rack, row], [row, hall], [hall, row], [])
    ]
    assert changes == [True, True, False, True]
    with database.read() as connection:
        assert aggregates.of_provider(connection, provider_ids[0]) == ()

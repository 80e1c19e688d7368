# SPDX-License-Identifier: Apache-2.0
"""Readers of the follower's records."""

import pytest

from placement_sched.store.compute import services


@pytest.fixture
def service(database):
    def service(host):
        with database.read() as connection:
            return services.by_hosts(connection, [host]).get(host)

    return service

# SPDX-License-Identifier: Apache-2.0
"""A cloud without compute nodes."""

from uuid import UUID

import pytest

from tests.scheduler.providers import add_provider


@pytest.fixture
def cloud_without_compute_nodes(sqlite_app):
    """Three providers with capacity but without compute nodes, as in OpenStack placement."""
    for number in (1, 2, 3):
        name, totals = f"cmp{number}.cloud", {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}
        add_provider(sqlite_app, name, str(UUID(int=number)), **totals)
    return sqlite_app

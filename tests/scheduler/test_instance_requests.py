# SPDX-License-Identifier: Apache-2.0
"""Port resources that only the allocations of an instance show."""

import pytest

from placement_sched.scheduler.instance_requests import read_requests
from tests.scheduler.adopted_clouds import BANDWIDTH, PHYSNET_TRAITS
from tests.scheduler.adopted_clouds import adopted_cloud as adopted_cloud  # noqa: PLC0414 - a fixture
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_uuid
from tests.support.statements import run_query


@pytest.mark.all_databases
def test_port_resources_come_from_the_allocations(adopted_cloud, database):
    requests = run_query(database, read_requests, [make_uuid(1), make_uuid(2)])
    (group,) = requests[make_uuid(1)]["requested_resources"]
    assert group == {
        "requester_id": uuid_of("cn1:br"),
        "resources": {BANDWIDTH: 500},
        "required_traits": PHYSNET_TRAITS,
    }
    assert requests.keys() == {make_uuid(1)}

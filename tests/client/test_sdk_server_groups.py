# SPDX-License-Identifier: Apache-2.0
"""openstacksdk's compute proxy against a running server: server groups."""

import pytest
from openstack import exceptions

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]


@pytest.fixture
def compute(each_server, sdk_of):
    return sdk_of(each_server).compute


def test_group_is_created_found_listed_and_deleted(compute):
    rules = {"max_server_per_host": 3}
    group = compute.create_server_group(name="sdk.apart", policy="anti-affinity", rules=rules)
    assert (group.name, group.policy, group.rules) == ("sdk.apart", "anti-affinity", rules)
    assert compute.get_server_group(group.id).member_ids == []
    assert compute.find_server_group("sdk.apart", ignore_missing=False).id == group.id
    assert group.id in {each.id for each in compute.server_groups(all_projects=True)}
    compute.delete_server_group(group, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        compute.get_server_group(group.id)

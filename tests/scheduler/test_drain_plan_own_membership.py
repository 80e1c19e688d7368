# SPDX-License-Identifier: Apache-2.0
"""A move of an instance ignores its own membership in its server group, as nova does."""

import pytest

from tests.scheduler.test_scheduler import explain, select
from tests.support.fleets import load_fleet

pytestmark = pytest.mark.slow

GROUP, INSTANCE = "00000000-0000-4000-8000-0000000000b1", "00000000-0000-4000-8000-0000000000c1"
SEEN = "2099-01-01T00:00:00Z"
FLEET = f"""
hosts:
- {{host: "cn[1-3]", vcpus: 4, memory_mb: 8192, local_gb: 100, last_seen_up: {SEEN}}}
flavors:
- {{name: small, vcpus: 1, memory_mb: 1024, root_gb: 10}}
server_groups:
- {{name: together, uuid: {GROUP}, policy: affinity, project: p, user: u}}
instances:
- name: i1
  uuid: {INSTANCE}
  host: cn1
  flavor: small
  project: p
  user: u
  server_group: together
"""
MOVE = {
    "project_id": "p",
    "user_id": "u",
    "flavor": "small",
    "image": None,
    "instance_uuids": [INSTANCE],
    "ignore_hosts": ["cn1"],
}


@pytest.fixture
def cloud(sqlite_app):
    """Three hosts; an affinity group has one member, on cn1."""
    return load_fleet(sqlite_app, FLEET)


@pytest.mark.parametrize(
    "named",
    [{"instance_group": GROUP}, {"scheduler_hints": {"group": [GROUP]}}],
    ids=["by the group", "by a hint"],
)
def test_only_member_of_an_affinity_group_may_move(cloud, named):
    explanation = explain(cloud, {**MOVE, **named})
    assert sorted(host["host"] for host in explanation["hosts"]) == ["cn2", "cn3"]


def test_plan_moves_what_an_explanation_says_can_move(cloud):
    body = {"changes": [{"drain": ["cn1"]}]}
    plan = cloud.post_json("/scheduler/v1/plan", body).json
    assert [move["instance"] for move in plan["moves"]] == [INSTANCE]


def test_another_member_still_has_to_join_the_group(cloud):
    new = {**MOVE, "instance_uuids": ["00000000-0000-4000-8000-0000000000c2"], "ignore_hosts": []}
    explanation = explain(cloud, {**new, "instance_group": GROUP})
    assert [host["host"] for host in explanation["hosts"]] == ["cn1"]
    select(cloud, {**new, "instance_group": GROUP})
    # Now the first member may not leave the second.
    assert explain(cloud, {**MOVE, "instance_group": GROUP})["outcome"] == "no_valid_host"

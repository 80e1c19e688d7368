"""ServerGroupAntiAffinityFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.server_group_anti_affinity_filter import (
    ServerGroupAntiAffinityFilter,
)
from tests.placing import instance
from tests.scheduler.states import a_host, a_spec, instances_on

HERE, TOO, ELSEWHERE, NEW = map(instance, (1, 2, 3, 4))


def refusal(group, *, uuid=NEW):
    plugin = ServerGroupAntiAffinityFilter()
    host = a_host(instances=instances_on("cn1", HERE, TOO))
    spec = a_spec(instance_group=group, instance_uuids=[uuid])
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


def group(*members, policy="anti-affinity", hosts=(), **rules):
    return {"policy": policy, "members": list(members), "hosts": list(hosts), "rules": rules}


@pytest.mark.parametrize(
    "described",
    [
        None,
        group(),
        group(ELSEWHERE),
        group(HERE, policy="affinity"),
        group(HERE, policy="soft-anti-affinity"),
        group(HERE, ELSEWHERE, max_server_per_host=2),
        group(HERE, TOO, max_server_per_host=3),
        group(ELSEWHERE, hosts=["cn2"]),
    ],
    ids=str,
)
def test_host_with_fewer_members_than_it_may_have_passes(described):
    assert refusal(described) is None


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (group(HERE), "1 member of the server group here, 1 allowed"),
        (group(HERE.upper()), "1 member of the server group here, 1 allowed"),
        (group(HERE, TOO, ELSEWHERE), "2 members of the server group here, 1 allowed"),
        (
            group(HERE, TOO, max_server_per_host=2),
            "2 members of the server group here, 2 allowed",
        ),
    ],
    ids=str,
)
def test_host_with_as_many_members_as_it_may_have_is_refused(described, reason):
    assert refusal(described) == reason


def test_host_that_a_described_group_names_has_a_member_though_none_is_recorded():
    assert refusal(group(ELSEWHERE, hosts=["cn1"])) is not None
    assert refusal(group(ELSEWHERE, hosts=["cn1"], max_server_per_host=2)) is None


def test_instance_may_stay_on_its_host():
    assert refusal(group(HERE, TOO), uuid=HERE) is None


def test_filter_runs_for_every_instance():
    assert ServerGroupAntiAffinityFilter().run_filter_for_index(1)

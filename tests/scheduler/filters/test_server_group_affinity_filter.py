"""ServerGroupAffinityFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.server_group_affinity_filter import (
    ServerGroupAffinityFilter,
)
from tests.scheduler.states import a_host, a_spec


def refusal(group):
    plugin = ServerGroupAffinityFilter()
    host, spec = a_host(), a_spec(instance_group=group)
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    "group",
    [
        None,
        {"policy": "affinity"},
        {"policy": "affinity", "hosts": ["cn1"]},
        {"policy": "affinity", "hosts": ["cn2", "cn1"]},
        {"policy": "anti-affinity", "hosts": ["cn2"]},
        {"policy": "soft-affinity", "hosts": ["cn2"]},
    ],
    ids=str,
)
def test_host_of_the_group_passes_and_any_while_it_is_nowhere(group):
    assert refusal(group) is None


@pytest.mark.parametrize(
    ("hosts", "named"), [(["cn2"], "cn2"), (["cn9", "CN1"], "CN1, cn9")], ids=str
)
def test_host_without_members_is_refused_with_those_that_have_some(hosts, named):
    group = {"policy": "affinity", "hosts": hosts}
    assert refusal(group) == f"the server group is on {named}"


def test_filter_runs_for_every_instance():
    assert ServerGroupAffinityFilter().run_filter_for_index(1)

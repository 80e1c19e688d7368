# SPDX-License-Identifier: Apache-2.0
"""Filter runs for each instance of a request and for alternates, as counted in nova 34."""

from random import Random

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_manager import ClosedCells
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.selection import HostSelector, RemainingCapacity
from placement_sched.scheduler.weights import BaseHostWeigher
from tests.support.scheduling import instance
from tests.support.states import build_host_state, build_spec, settings_with

HOSTS = ("cn1", "cn2", "cn3", "cn4", "cn5")


class RecordingFilter(BaseHostFilter):
    """Records the instance and the hosts of each run."""

    refused = frozenset()

    def __init__(self):
        self.runs = []

    def filter_all(self, hosts, spec_obj):
        hosts = list(hosts)
        self.runs.append((spec_obj.instance_uuid, [host.host for host in hosts]))
        return [host for host in hosts if host.host not in self.refused]


class EveryInstance(RecordingFilter):
    refused = frozenset({"cn4"})


class FirstInstance(RecordingFilter):
    run_filter_once_per_request = True
    refused = frozenset({"cn2"})


class RecordingIndexes(BaseHostFilter):
    def __init__(self):
        self.runs = []

    def run_filter_for_index(self, index):
        self.runs.append(index)
        return False


class WithoutNewInstances(BaseHostFilter):
    """Rejects a host with an instance of this request."""

    def host_passes(self, host_state, _spec):
        return host_state.num_instances == 0


class Alone(BaseHostFilter):
    """Rejects a host with an instance in ``host_state.instances``."""

    def host_passes(self, host_state, _spec):
        return not host_state.instances


class FewerNewInstances(BaseHostWeigher):
    """Prefers hosts that no earlier instance of this request got."""

    def _weigh_object(self, host_state, _spec):
        return -host_state.num_instances


def choose_hosts(number, *filters, alternates=0, group=None):
    """Return the hosts chosen for each instance, with their alternates."""
    settings = settings_with()
    plugins = Plugins((), filters, (FewerNewInstances(),), FilterScheduler.with_settings(settings))
    chooser = HostSelector(
        plugins=plugins,
        settings=settings,
        random=Random(1),
        closed_cells=ClosedCells(None, settings, utcnow),
        alternates=alternates,
    )
    uuids = [instance(item) for item in range(number)]
    spec = build_spec(instance_uuids=uuids, instance_group=group)
    choice = chooser.choose(
        [build_host_state(name) for name in HOSTS], spec, RemainingCapacity.unlimited()
    )
    return [[entry.service_host for entry in selection] for selection in choice.selections]


def other_hosts(*names):
    return [name for name in HOSTS if name not in names]


def test_rejected_hosts_stay_rejected_for_later_instances():
    every = EveryInstance()
    assert choose_hosts(3, every) == [["cn1"], ["cn2"], ["cn3"]]
    assert every.runs == [
        (instance(0), list(HOSTS)),
        (instance(1), other_hosts("cn4")),
        (instance(2), other_hosts("cn4")),
    ]
    first, every = FirstInstance(), EveryInstance()
    assert choose_hosts(3, first, every) == [["cn1"], ["cn3"], ["cn5"]]
    assert first.runs == [(instance(0), list(HOSTS))]
    after_two = other_hosts("cn2", "cn4")
    assert [hosts for _, hosts in every.runs] == [other_hosts("cn2"), after_two, after_two]
    every = EveryInstance()
    assert choose_hosts(3, WithoutNewInstances(), every) == [["cn1"], ["cn2"], ["cn3"]]
    assert [hosts for _, hosts in every.runs] == [
        list(HOSTS),
        other_hosts("cn1", "cn4"),
        other_hosts("cn1", "cn2", "cn4"),
    ]


def test_instances_have_all_or_no_hosts():
    assert choose_hosts(5, WithoutNewInstances(), FirstInstance()) == []
    assert len(choose_hosts(4, WithoutNewInstances(), FirstInstance())) == 4


@pytest.mark.parametrize(("group", "number"), [(None, 6), ({"policy": "soft-affinity"}, 5)])
def test_earlier_instances_are_on_host_states_in_a_server_group(group, number):
    chosen = choose_hosts(number, Alone(), group=group)
    assert [host for (host,) in chosen] == [*HOSTS, "cn1"][:number]
    assert choose_hosts(6, Alone(), group={"policy": "soft-affinity"}) == []


@pytest.mark.parametrize(
    ("number", "alternates", "indexes"),
    [(1, 0, [0]), (1, 2, [0]), (2, 0, [0, 1]), (2, 2, [0, 1, 1]), (3, 2, [0, 1, 2, 2])],
)
def test_alternates_of_several_instances_are_filtered_again(number, alternates, indexes):
    plugin = RecordingIndexes()
    choose_hosts(number, plugin, alternates=alternates)
    assert plugin.runs == indexes


def test_alternates_are_the_next_best_unselected_hosts():
    every = EveryInstance()
    assert choose_hosts(1, every, alternates=2) == [["cn1", "cn2", "cn3"]]
    assert len(every.runs) == 1
    hosts = choose_hosts(2, FirstInstance(), alternates=2)
    assert hosts == [["cn1", "cn4", "cn5"], ["cn3", "cn4", "cn5"]]

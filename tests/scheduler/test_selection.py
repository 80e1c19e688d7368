# SPDX-License-Identifier: Apache-2.0
"""Which filters are asked of which hosts for each instance of a request, and for alternates.

What nova 34 asks was observed by counting what its scheduler calls.
"""

from random import Random

import pytest

from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.selection import HostSelector, RemainingCapacity
from placement_sched.scheduler.weights import BaseHostWeigher
from tests.support.scheduling import instance
from tests.support.states import a_host, a_spec, settings_with

HOSTS = ("cn1", "cn2", "cn3", "cn4", "cn5")


class Counts(BaseHostFilter):
    """Notes what it is asked: for which instance, of which hosts."""

    refused = frozenset()

    def __init__(self):
        self.asked = []

    def filter_all(self, hosts, spec_obj):
        hosts = list(hosts)
        self.asked.append((spec_obj.instance_uuid, [host.host for host in hosts]))
        return [host for host in hosts if host.host not in self.refused]


class Always(Counts):
    refused = frozenset({"cn4"})


class Once(Counts):
    run_filter_once_per_request = True
    refused = frozenset({"cn2"})


class Indexes(BaseHostFilter):
    def __init__(self):
        self.asked = []

    def run_filter_for_index(self, index):
        self.asked.append(index)
        return False


class Full(BaseHostFilter):
    """Refuses a host with an instance of this request."""

    def host_passes(self, host_state, _spec):
        return host_state.num_instances == 0


class Alone(BaseHostFilter):
    """Refuses a host with an instance in ``host_state.instances``."""

    def host_passes(self, host_state, _spec):
        return not host_state.instances


class Emptier(BaseHostWeigher):
    """Prefers hosts that no earlier instance of this request got."""

    def _weigh_object(self, host_state, _spec):
        return -host_state.num_instances


def choose(number, *filters, alternates=0, group=None):
    """Return the hosts chosen for each instance, with their alternates."""
    settings = settings_with()
    plugins = Plugins((), filters, (Emptier(),), FilterScheduler.with_settings(settings))
    chooser = HostSelector(
        plugins=plugins, settings=settings, random=Random(1), alternates=alternates
    )
    uuids = [instance(each) for each in range(number)]
    spec = a_spec(instance_uuids=uuids, instance_group=group)
    choice = chooser.choose([a_host(name) for name in HOSTS], spec, RemainingCapacity.unlimited())
    return [[one.service_host for one in each] for each in choice.selections]


def without(*names):
    return [name for name in HOSTS if name not in names]


def test_hosts_already_refused_are_not_asked_again():
    always = Always()
    assert choose(3, always) == [["cn1"], ["cn2"], ["cn3"]]
    assert always.asked == [
        (instance(0), list(HOSTS)),
        (instance(1), without("cn4")),
        (instance(2), without("cn4")),
    ]


def test_filter_that_runs_once_is_asked_for_the_first_instance_only_and_heeded_for_all():
    once, always = Once(), Always()
    assert choose(3, once, always) == [["cn1"], ["cn3"], ["cn5"]]
    assert once.asked == [(instance(0), list(HOSTS))]
    assert [hosts for _, hosts in always.asked] == [
        without("cn2"),
        without("cn2", "cn4"),
        without("cn2", "cn4"),
    ]


def test_host_refused_for_a_later_instance_stays_refused():
    always = Always()
    assert choose(3, Full(), always) == [["cn1"], ["cn2"], ["cn3"]]
    assert [hosts for _, hosts in always.asked] == [
        list(HOSTS),
        without("cn1", "cn4"),
        without("cn1", "cn2", "cn4"),
    ]


def test_a_later_instance_without_a_host_leaves_none_for_any():
    assert choose(5, Full(), Once()) == []
    assert len(choose(4, Full(), Once())) == 4


@pytest.mark.parametrize(("group", "number"), [(None, 6), ({"policy": "soft-affinity"}, 5)])
def test_earlier_instances_are_on_their_host_only_in_a_server_group(group, number):
    chosen = choose(number, Alone(), group=group)
    assert [host for (host,) in chosen] == [*HOSTS, "cn1"][:number]
    assert choose(6, Alone(), group={"policy": "soft-affinity"}) == []


@pytest.mark.parametrize(
    ("number", "alternates", "indexes"),
    [(1, 0, [0]), (1, 2, [0]), (2, 0, [0, 1]), (2, 2, [0, 1, 1]), (3, 2, [0, 1, 2, 2])],
)
def test_alternates_of_several_are_filtered_anew_as_for_the_last_instance(
    number, alternates, indexes
):
    plugin = Indexes()
    choose(number, plugin, alternates=alternates)
    assert plugin.asked == indexes


def test_alternates_of_one_instance_are_the_next_best_as_it_saw_them():
    always = Always()
    assert choose(1, always, alternates=2) == [["cn1", "cn2", "cn3"]]
    assert len(always.asked) == 1


def test_alternates_of_several_are_hosts_that_none_of_them_got():
    assert choose(2, Once(), alternates=2) == [["cn1", "cn4", "cn5"], ["cn3", "cn4", "cn5"]]

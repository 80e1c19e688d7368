"""PCI devices near NUMA nodes: what is asked of ``host_state.pci_stats``."""

import pytest

from placement_sched.model.pci_request import InstancePCIRequest, InstancePCIRequests
from placement_sched.scheduler.hardware.host_fit_devices import Devices, devices_of
from tests.scheduler.hardware.fitting import asked
from tests.scheduler.hardware.pci_stats import Stats

REQUESTS = InstancePCIRequests(requests=(InstancePCIRequest(count=1),))


def test_devices_are_counted_by_node():
    near = Devices(Stats([(0, 2), (1, 1), (0, 1), (None, 5)])).near
    assert (dict(near), near[7]) == ({0: 3, 1: 1}, 0)


def test_requests_are_served_where_the_host_says_so():
    stats = Stats(near=[{0}])
    devices = Devices(stats, REQUESTS.requests).provided_by({"pci": ["p1"]})
    assert devices.serve([asked(0)])
    assert not devices.serve([asked(0), asked(1)])
    assert stats.asked == [(REQUESTS.requests, {"pci": ["p1"]})] * 2


def test_who_asks_for_nothing_is_served_anywhere():
    stats = Stats()
    assert Devices(stats).serve([asked(0)])
    assert stats.asked == []


@pytest.mark.parametrize("stats", [None, (), ({"count": 1},)])
def test_nothing_is_known_of_devices_that_nobody_can_tell_of(stats):
    assert devices_of(stats, REQUESTS, None) is None


def test_request_without_devices_asks_for_none():
    stats = Stats()
    assert devices_of(stats, None, {}) == Devices(stats, (), {})
    assert devices_of(stats, REQUESTS, {}) == Devices(stats, REQUESTS.requests, {})

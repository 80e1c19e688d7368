# SPDX-License-Identifier: Apache-2.0
"""The lifetime of cached attestation levels."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from placement_sched.clients.attestation import AttestedHosts, Level
from placement_sched.errors import ServiceFailed

START = datetime(2026, 1, 1, 12)


class Service:
    """An attestation service that returns the same level for every host."""

    def __init__(self) -> None:
        self.polled: list[list[str]] = []
        self.level: Level | None = Level("trusted", START)
        self.down = False

    def poll(self, hosts):
        self.polled.append(list(hosts))
        if self.down:
            raise ServiceFailed("it is down", service="attestation")
        return dict.fromkeys(hosts, self.level) if self.level else {}


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def levels_at(service):
    """Give a function that returns the levels of hosts, some seconds after the start."""
    now = [START]
    attested = AttestedHosts(service.poll, lifetime=60, clock=lambda: now[0])

    def read_levels(seconds, *hosts):
        now[0] = START + timedelta(seconds=seconds)
        return [attested.levels(hosts)[host].level.trust for host in hosts]

    read_levels.attested = attested
    return read_levels


def poll_times(service, levels_at, *seconds):
    """Return the seconds of the polls that the service receives."""
    polls = []
    for moment in seconds:
        before = len(service.polled)
        levels_at(moment, "cn1")
        if len(service.polled) > before:
            polls.append(moment)
    return polls


def test_trust_level_is_cached_for_its_lifetime(service, levels_at):
    assert poll_times(service, levels_at, 0, 1, 59, 60, 61) == [0, 61]


def test_outdated_trust_level_is_polled_again_after_a_pause(service, levels_at):
    assert poll_times(service, levels_at, 100, 101, 104, 105, 109, 110) == [100, 105, 110]
    assert levels_at(110, "cn1") == ["trusted"]


def test_trust_level_from_the_future_is_cached_longer(service, levels_at):
    service.level = Level("trusted", START + timedelta(seconds=30))
    assert poll_times(service, levels_at, 0, 61, 90, 91) == [0, 91]


def test_unknown_host_is_cached_for_a_lifetime(service, levels_at):
    service.level = None
    assert levels_at(0, "cn1") == ["unknown"]
    assert poll_times(service, levels_at, 1, 60, 61) == [61]


def test_unavailable_service_is_polled_again_after_a_pause(service, levels_at):
    service.down = True
    assert levels_at(0, "cn1", "cn2") == ["unknown", "unknown"]
    assert levels_at.attested.levels(["cn1"])["cn1"].failure == "it is down"
    assert poll_times(service, levels_at, 1, 4) == []
    service.down = False
    assert levels_at(5, "cn1", "cn2") == ["trusted", "trusted"]
    assert service.polled == [["cn1", "cn2"]] * 2


def test_cached_levels_are_dropped_when_the_service_is_down(service, levels_at):
    assert levels_at(0, "cn1") == ["trusted"]
    service.down = True
    assert levels_at(61, "cn1") == ["unknown"]


def test_all_hosts_are_polled_if_one_is_unknown(service, levels_at):
    levels_at(0, "cn1")
    levels_at(10, "cn1", "cn2")
    levels_at(20, "cn2")
    assert service.polled == [["cn1"], ["cn1", "cn2"]]


def test_no_hosts_need_no_poll(service, levels_at):
    assert levels_at(0) == []
    assert service.polled == []


def test_concurrent_threads_share_one_poll(service, levels_at):
    hosts = [f"cn{number}" for number in range(100)]
    with ThreadPoolExecutor(8) as threads:
        levels = list(threads.map(lambda _: levels_at.attested.levels(hosts), range(64)))
    assert len(service.polled) == 1
    assert all(each == levels[0] for each in levels)

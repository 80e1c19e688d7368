# SPDX-License-Identifier: Apache-2.0
"""How long what an attestation service said of hosts holds."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from placement_sched.clients.attestation import AttestedHosts, Level
from placement_sched.errors import ServiceFailed

START = datetime(2026, 1, 1, 12)


class Service:
    """Says the same of every host, as of a moment."""

    def __init__(self) -> None:
        self.polled: list[list[str]] = []
        self.says: Level | None = Level("trusted", START)
        self.down = False

    def poll(self, hosts):
        self.polled.append(list(hosts))
        if self.down:
            raise ServiceFailed("it is down", service="attestation")
        return dict.fromkeys(hosts, self.says) if self.says else {}


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def at(service):
    """Return a function that tells the level of hosts at so many seconds after the start."""
    now = [START]
    attested = AttestedHosts(service.poll, lifetime=60, clock=lambda: now[0])

    def levels(seconds, *hosts):
        now[0] = START + timedelta(seconds=seconds)
        return [attested.levels(hosts)[host].level.trust for host in hosts]

    levels.attested = attested
    return levels


def polls(service, at, *seconds):
    """Return at which of these moments the service is asked of a host."""
    asked = []
    for moment in seconds:
        before = len(service.polled)
        at(moment, "cn1")
        if len(service.polled) > before:
            asked.append(moment)
    return asked


def test_level_holds_for_its_lifetime_from_its_own_time(service, at):
    assert polls(service, at, 0, 1, 59, 60, 61) == [0, 61]


def test_level_that_is_older_than_that_is_asked_for_again_but_not_at_once(service, at):
    assert polls(service, at, 100, 101, 104, 105, 109, 110) == [100, 105, 110]
    assert at(110, "cn1") == ["trusted"]


def test_level_from_the_future_holds_until_then_and_longer(service, at):
    service.says = Level("trusted", START + timedelta(seconds=30))
    assert polls(service, at, 0, 61, 90, 91) == [0, 91]


def test_host_that_is_not_known_is_unknown_for_a_lifetime(service, at):
    service.says = None
    assert at(0, "cn1") == ["unknown"]
    assert polls(service, at, 1, 60, 61) == [61]


def test_service_that_is_down_is_asked_again_after_a_while(service, at):
    service.down = True
    assert at(0, "cn1", "cn2") == ["unknown", "unknown"]
    assert at.attested.levels(["cn1"])["cn1"].failure == "it is down"
    assert polls(service, at, 1, 4) == []
    service.down = False
    assert at(5, "cn1", "cn2") == ["trusted", "trusted"]
    assert service.polled == [["cn1", "cn2"]] * 2


def test_what_is_known_is_forgotten_when_the_service_goes_down(service, at):
    assert at(0, "cn1") == ["trusted"]
    service.down = True
    assert at(61, "cn1") == ["unknown"]


def test_all_hosts_are_asked_for_when_one_is_not_known(service, at):
    at(0, "cn1")
    at(10, "cn1", "cn2")
    at(20, "cn2")
    assert service.polled == [["cn1"], ["cn1", "cn2"]]


def test_nothing_is_asked_of_no_host(service, at):
    assert at(0) == []
    assert service.polled == []


def test_threads_that_want_the_same_ask_once(service, at):
    hosts = [f"cn{number}" for number in range(100)]
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda _: at.attested.levels(hosts), range(64)))
    assert len(service.polled) == 1
    assert all(one == told[0] for one in told)

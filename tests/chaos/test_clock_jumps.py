# SPDX-License-Identifier: Apache-2.0
"""Writes while the clock jumps, as when a machine wakes up or its time is set."""

import random
from datetime import timedelta

import pytest

from placement_sched.app import create_app
from placement_sched.model.clock import utcnow
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.conftest import AdminClient
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.versions import LATEST_HEADERS

JUMP_COUNT = choose_count(20, 100)
#: Offsets of the clock in seconds, up to a year, and to a time before the epoch.
CLOCK_OFFSETS = [0, 1, -1, 60, -3600, 86_400, -86_400, 31_536_000, -31_536_000, -2_000_000_000]


class SettableClock:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def __call__(self):
        return utcnow() + self.offset


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def clock_app(settings, clock):
    application = create_app(settings, clock=clock)
    yield AdminClient(application)
    application.close()


def test_writes_succeed_while_the_clock_jumps(clock_app, clock, record_property):
    clock_app.post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1000), make_report("cn2")]
    )
    dice = random.Random(1)
    placed = 0
    for number in range(1, JUMP_COUNT + 1):
        clock.offset = timedelta(seconds=dice.choice(CLOCK_OFFSETS))
        clock_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1000)])
        body = {
            "request_spec": make_spec(
                make_uuid(number), flavor=make_flavor(vcpus=1, memory_mb=1, root_gb=0)
            )
        }
        response = clock_app.post_json(
            "/scheduler/v1/select_destinations", body, expect_errors=True
        )
        # A host with a report "in the future" is up. A host without a report for a year is down.
        assert response.status_int in {200, 409}, response.text
        placed += response.status_int == 200
        for path in ("/scheduler/v1/hosts", "/scheduler/v1/decisions", "/healthz/ready"):
            clock_app.get(path, status=200)
        clock_app.get("/placement/resource_providers", headers=LATEST_HEADERS, status=200)
    clock.offset = timedelta()
    assert placed > JUMP_COUNT / 2
    recorded = [
        clock_app.get(f"/placement/allocations/{make_uuid(n)}").json
        for n in range(1, JUMP_COUNT + 1)
    ]
    assert sum(bool(document["allocations"]) for document in recorded) == placed
    record_property(TRIED_KEY, f"{JUMP_COUNT} jumps, {placed} instances placed")

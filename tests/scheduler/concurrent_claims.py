# SPDX-License-Identifier: Apache-2.0
"""Clocks that let another consumer claim first."""

from placement_sched.model.clock import utcnow
from tests.support.allocation_bodies import build_body
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_uuid
from tests.support.versions import LATEST, LATEST_HEADERS


class ClockWithConcurrentClaim:
    """A clock whose first reading (the claim, if no filter reads the time) calls a function."""

    def __init__(self, act):
        self._act = act

    def __call__(self):
        act, self._act = self._act, lambda: None
        act()
        return utcnow()


def claim_as_other_consumer(app, provider, number=900, **resources):
    """Claim resources of a provider through the Placement API."""
    body = build_body(LATEST, {provider: resources}, owner=("rival", "rival"))
    path = f"/placement/allocations/{make_uuid(number)}"
    app.put_json(path, body, headers=LATEST_HEADERS, status=204)


def build_clock_that_fills_hosts(app, hosts):
    """Return a clock whose first reading fills hosts."""

    def fill_hosts():
        for number, host in enumerate(hosts, start=900):
            claim_as_other_consumer(app, uuid_of(host), number, MEMORY_MB=65536)

    return ClockWithConcurrentClaim(fill_hosts)

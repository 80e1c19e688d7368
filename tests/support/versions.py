# SPDX-License-Identifier: Apache-2.0
"""Microversions of the Placement API for tests."""

from placement_sched.api.placement.microversions import NEWEST
from placement_sched.api.versions import Version

#: The newest microversion of this service.
LATEST = str(NEWEST)
#: The microversion after the newest.
NEXT_VERSION = Version(NEWEST.major, NEWEST.minor + 1)
LATEST_HEADERS = {"OpenStack-API-Version": f"placement {LATEST}"}
#: The newest microversion of OpenStack's placement in the peer environment.
PEER_LATEST = "1.39"
PEER_LATEST_HEADERS = {"OpenStack-API-Version": f"placement {PEER_LATEST}"}

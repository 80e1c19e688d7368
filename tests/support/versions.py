# SPDX-License-Identifier: Apache-2.0
"""The microversions of the Placement API that tests ask for."""

from placement_sched.api.placement.microversions import NEWEST
from placement_sched.api.versions import Version

#: The newest that this service speaks.
LATEST = str(NEWEST)
#: The one that comes after it, which this service does not speak yet.
NEXT = Version(NEWEST.major, NEWEST.minor + 1)
LATEST_HEADERS = {"OpenStack-API-Version": f"placement {LATEST}"}
#: The newest that the release of OpenStack's placement in the peer environment speaks.
PEER_LATEST = "1.39"
PEER_LATEST_HEADERS = {"OpenStack-API-Version": f"placement {PEER_LATEST}"}

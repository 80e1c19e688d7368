# SPDX-License-Identifier: Apache-2.0
"""``nova.servicegroup``: whether a compute service is up."""

from collections.abc import Mapping
from typing import Any

from placement_sched.config.conf import CONF
from placement_sched.model.clock import utcnow
from placement_sched.model.compute_node import is_recently_seen


class API:
    """The states of services, by their heartbeats."""

    def service_is_up(self, member: Mapping[str, Any]) -> bool:
        """Return whether ``host_state.service`` or a service is up."""
        heartbeat, is_forced_down = member["last_seen_up"], member["forced_down"]
        return is_recently_seen(heartbeat, is_forced_down, utcnow(), CONF.service_down_time)

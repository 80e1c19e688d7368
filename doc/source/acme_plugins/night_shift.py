# SPDX-License-Identifier: Apache-2.0
"""NightShiftFilter: reject hosts that sleep at night."""

from oslo_config import cfg

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, Rejection, utils
from placement_sched.scheduler.host_state import HostState


class NightShiftFilter(BaseHostFilter):
    """Rejects hosts in aggregates with metadata ``sleeps=night`` during the night.

    The night begins at the hour (UTC) ``[filter_scheduler] night_begins`` and ends at 6.
    """

    # Earlier instances of a request do not change the hour.
    run_filter_once_per_request = True

    options = (
        (
            "filter_scheduler",
            cfg.IntOpt(
                "night_begins",
                default=22,
                min=12,
                max=23,
                help="Hour, UTC, at which the night of NightShiftFilter begins.",
            ),
        ),
    )

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        """Return the hour if it is night and the host sleeps."""
        if "night" not in utils.aggregate_values_from_key(host_state, "sleeps"):
            return None
        hour = self.now().hour
        begins = self.settings.filter_scheduler.night_begins
        if 6 <= hour < begins:
            return None
        return Rejection(
            f"it sleeps from {begins} to 6, and it is {hour}", requested=begins, actual=hour
        )

# SPDX-License-Identifier: Apache-2.0
"""QuietTimeFilter: reject hosts of halls shortly before their maintenance."""

from datetime import UTC, datetime

from oslo_config import cfg
from oslo_log import log

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, Rejection, utils
from placement_sched.scheduler.host_state import HostState

LOG = log.getLogger(__name__)


class QuietTimeFilter(BaseHostFilter):
    """Rejects hosts of halls that are maintained soon.

    The metadata ``acme:maintenance`` of the hall is a time (UTC) such as ``2026-05-01T22:00``. Soon
    is within ``[acme_halls] quiet_hours``. The host passes if the flavor allows it: extra spec
    ``acme:bears_maintenance=true``.
    """

    # Earlier instances of a request change neither the hour nor the hall.
    run_filter_once_per_request = True

    options = (
        (
            "acme_halls",
            cfg.IntOpt(
                "quiet_hours",
                default=24,
                min=0,
                help="How many hours before its maintenance QuietTimeFilter closes a hall.",
            ),
        ),
    )

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        """Return the hours until the maintenance of the hall if it is too soon."""
        if spec_obj.flavor.extra_specs.get("acme:bears_maintenance", "").lower() == "true":
            return None
        quiet = self.settings.acme_halls.quiet_hours
        for text in sorted(utils.aggregate_values_from_key(host_state, "acme:maintenance")):
            time = _time(text)
            if time is None:
                continue
            hours = (time - self.now()).total_seconds() / 3600
            if 0 <= hours < quiet:
                return Rejection(
                    f"its hall is maintained in {hours:.1f} hours, and {quiet} are to be quiet",
                    requested=quiet,
                    actual=hours,
                )
        return None


def _time(text: str) -> datetime | None:
    """Return the time in the metadata, or None after logging an invalid value."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        LOG.warning("acme:maintenance is not a time: %r", text)
        return None
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)

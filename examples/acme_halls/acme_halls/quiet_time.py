# SPDX-License-Identifier: Apache-2.0
"""QuietTimeFilter: nothing new starts in a hall shortly before its maintenance."""

from datetime import UTC, datetime

from oslo_config import cfg
from oslo_log import log

from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.filters import BaseHostFilter, utils
from placement_sched.scheduler.host_state import HostState

LOG = log.getLogger(__name__)


class QuietTimeFilter(BaseHostFilter):
    """Rejects hosts of halls that are maintained soon, unless the flavor bears it.

    A hall says by its metadata ``acme:maintenance``, a time (UTC) such as ``2026-05-01T22:00``.
    Soon is within ``[acme_halls] quiet_hours``. A flavor bears it whose extra spec
    ``acme:bears_maintenance`` is ``true``.
    """

    # Neither the hour nor the hall changes by what earlier instances of a request took.
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
        """Return when the hall is maintained, where that is too soon."""
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
                    asked=quiet,
                    has=hours,
                )
        return None


def _time(text: str) -> datetime | None:
    """Return the time that metadata give; a slip in them is logged, and closes nothing."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        LOG.warning("acme:maintenance is not a time: %r", text)
        return None
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)

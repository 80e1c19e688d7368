"""accelerators_filter: ask for hosts that can handle accelerators."""

import os_traits

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    requiring,
)


class AcceleratorsFilter(BaseRequestFilter):
    """Requires hosts that can handle accelerators, where the flavor asks for some.

    A flavor does so by the extra spec ``accel:device_profile``; the root provider must then have
    the trait COMPUTE_ACCELERATORS. The accelerators themselves are request groups of the request
    (``requested_resources``). Always on.
    """

    name = "accelerators_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for such hosts; None where no accelerators are asked for."""
        if not spec.flavor.extra_specs.get("accel:device_profile"):
            return None
        return requiring(spec, os_traits.COMPUTE_ACCELERATORS)

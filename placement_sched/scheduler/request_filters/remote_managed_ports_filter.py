"""remote_managed_ports_filter: ask for hosts that can serve ports from another processor."""

import os_traits

from placement_sched.model.network_request import REMOTE_MANAGED
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    requiring,
)


class RemoteManagedPortsFilter(BaseRequestFilter):
    """Requires hosts that can have remote-managed ports, where the request has one.

    Such ports are served by another processor, on a SmartNIC or DPU; their ``binding:vnic_type``
    is ``remote-managed``. The root provider must then have the trait
    COMPUTE_REMOTE_MANAGED_PORTS. The type stands in the request (``requested_networks``), else
    neutron is asked, see ``[neutron]``; where neither tells it, the port is taken for one of the
    type ``normal``. Always on.
    """

    name = "remote_managed_ports_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for such hosts; None where no port is of this type."""
        if not any(one.vnic_type == REMOTE_MANAGED for one in spec.requested_networks):
            return None
        return requiring(spec, os_traits.COMPUTE_REMOTE_MANAGED_PORTS)

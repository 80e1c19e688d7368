"""packed_virtqueue_filter: ask for hosts that can pack virtio queues."""

import os_traits

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.hardware.virtio import packed_ring
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    requiring,
)


class PackedVirtqueueFilter(BaseRequestFilter):
    """Requires hosts that support packed virtio queues, where flavor or image asks for them.

    By the extra spec ``hw:virtio_packed_ring`` or the image property ``hw_virtio_packed_ring``,
    which must agree; the root provider must have the trait COMPUTE_NET_VIRTIO_PACKED. Always on.
    """

    name = "packed_virtqueue_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for such hosts; None where no packed queues are asked for."""
        if not packed_ring(spec.flavor, spec.image):
            return None
        return requiring(spec, os_traits.COMPUTE_NET_VIRTIO_PACKED)

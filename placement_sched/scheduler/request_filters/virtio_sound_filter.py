"""virtio_sound_filter: ask for hosts that have virtio sound devices."""

import os_traits

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.hardware.sound import sound_model
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    requiring,
)


class VirtioSoundFilter(BaseRequestFilter):
    """Requires hosts that support virtio sound devices, where flavor or image asks for one.

    By ``hw:sound_model=virtio`` or the image property ``hw_sound_model``, which must agree; the
    root provider must have the trait COMPUTE_SOUND_MODEL_VIRTIO. Other models need none. Always
    on.
    """

    name = "virtio_sound_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for such hosts; None where the sound device is none, or another."""
        if sound_model(spec.flavor, spec.image) != "virtio":
            return None
        return requiring(spec, os_traits.COMPUTE_SOUND_MODEL_VIRTIO)

"""ephemeral_encryption_filter: ask for hosts that can encrypt local disks."""

import os_traits

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.hardware.ephemeral_encryption import (
    encryption_format,
    is_encrypted,
)
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    requiring,
)


class EphemeralEncryptionFilter(BaseRequestFilter):
    """Requires hosts that can encrypt local disks, where flavor or image asks for that.

    By ``hw:ephemeral_encryption`` or the image property ``hw_ephemeral_encryption``, which must
    agree; the root provider must have the trait COMPUTE_EPHEMERAL_ENCRYPTION, and with
    ``hw:ephemeral_encryption_format`` (or the property) that of the format as well, such as
    COMPUTE_EPHEMERAL_ENCRYPTION_LUKS. Always on.
    """

    name = "ephemeral_encryption_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for such hosts; None where nothing is to be encrypted."""
        if not is_encrypted(spec.flavor, spec.image):
            return None
        traits = [os_traits.COMPUTE_EPHEMERAL_ENCRYPTION]
        if kind := encryption_format(spec.flavor, spec.image):
            traits.append(f"COMPUTE_EPHEMERAL_ENCRYPTION_{kind.upper()}")
        return requiring(spec, *traits)

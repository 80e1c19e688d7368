"""require_image_type_support: ask for hosts that can use the image's disk format."""

import os_traits
from oslo_config import cfg

from placement_sched.config import Settings
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    requiring,
)


class RequireImageTypeSupport(BaseRequestFilter):
    """Requires hosts that can use the disk format of the image.

    The root provider must have the trait ``COMPUTE_IMAGE_TYPE_<disk_format>``, such as
    COMPUTE_IMAGE_TYPE_QCOW2. An instance that boots from a volume needs none, and a format that no
    trait is named for is not asked for. Off by default.
    """

    name = "require_image_type_support"
    options = (
        (
            "scheduler",
            cfg.BoolOpt(
                "query_placement_for_image_type_support",
                default=False,
                help="Require hosts to have the trait of the image's disk format.",
            ),
        ),
    )

    def enabled(self, settings: Settings) -> bool:
        """Return whether ``[scheduler] query_placement_for_image_type_support`` is set."""
        return bool(settings.scheduler.query_placement_for_image_type_support)

    def apply(self, spec: RequestSpec, world: World) -> Outcome | None:
        """Return the request for hosts that know the format; None where that does not matter."""
        if spec.is_bfv or not spec.image.disk_format:
            return None
        trait = f"COMPUTE_IMAGE_TYPE_{spec.image.disk_format.upper()}"
        return requiring(spec, trait) if hasattr(os_traits, trait) else None

# SPDX-License-Identifier: Apache-2.0
"""transform_image_metadata: request filter by devices in image properties."""

from collections.abc import Sequence

import os_traits
from oslo_config import cfg
from oslo_log import log

from placement_sched.scheduler.plugin import build_group_options
from placement_sched.scheduler.request_filters import RequestSpec, TraitFilter

LOG = log.getLogger(__name__)

#: The prefix of the trait for a value of each image property.
_TRAIT_PREFIXES = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    # os-traits has COMPUTE_VIOMMU_MODEL_<value>: as in nova 34, these traits are never required.
    "hw_viommu_model": "COMPUTE_VIOMMU",
}


class TransformImageMetadata(TraitFilter):
    """Request filter for hosts with the devices that image properties name.

    Each property becomes a trait of the root provider: ``hw_disk_bus`` and ``hw_cdrom_bus`` become
    COMPUTE_STORAGE_BUS_<value>, ``hw_video_model`` COMPUTE_GRAPHICS_MODEL_<value>, ``hw_vif_model``
    COMPUTE_NET_VIF_MODEL_<value>, ``hw_architecture`` HW_ARCH_<value>,
    ``hw_emulation_architecture`` COMPUTE_ARCH_<value>. As in nova, if any of the traits does not
    exist, a warning is logged and none of them is required. This includes any ``hw_viommu_model``,
    because nova 34 builds its trait with another prefix than os-traits. Enabled by ``[scheduler]
    image_metadata_prefilter``. The default is false.
    """

    name = "transform_image_metadata"
    enabled_by = "image_metadata_prefilter"
    options = build_group_options(
        "scheduler",
        cfg.BoolOpt("image_metadata_prefilter", default=False),
        "Require hosts to have the traits of the devices that image properties name.",
    )

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        properties = spec.image.properties
        traits = [
            f"{prefix}_{properties.get(name).replace('-', '_').upper()}"
            for name, prefix in _TRAIT_PREFIXES.items()
            if name in properties
        ]
        unknown = [trait for trait in traits if not hasattr(os_traits, trait)]
        if unknown:
            LOG.warning("image properties are ignored: unknown trait %s", unknown[0])
        return [] if unknown else traits

"""transform_image_metadata: ask for hosts that have the devices that image properties name."""

from collections.abc import Sequence

import os_traits
from oslo_config import cfg
from oslo_log import log

from placement_sched.scheduler.plugin import in_group
from placement_sched.scheduler.request_filters import RequestSpec, TraitFilter

LOG = log.getLogger(__name__)

#: What the traits of a property's values begin with.
_PREFIXES = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    # os-traits calls them COMPUTE_VIOMMU_MODEL_<value>: as in nova 34, no host has to have one.
    "hw_viommu_model": "COMPUTE_VIOMMU",
}


class TransformImageMetadata(TraitFilter):
    """Requires hosts that have what image properties name: buses, models and architectures.

    Each property becomes a trait of the root provider: ``hw_disk_bus`` and ``hw_cdrom_bus``
    become COMPUTE_STORAGE_BUS_<value>, ``hw_video_model`` COMPUTE_GRAPHICS_MODEL_<value>,
    ``hw_vif_model`` COMPUTE_NET_VIF_MODEL_<value>, ``hw_architecture`` HW_ARCH_<value>,
    ``hw_emulation_architecture`` COMPUTE_ARCH_<value>. If there is no such trait for one of the
    values, none of them is asked for, as in nova, and a warning is logged; so it is for any
    ``hw_viommu_model``, whose traits nova 34 looks for under another name. Off unless
    ``[scheduler] image_metadata_prefilter`` is set.
    """

    name = "transform_image_metadata"
    enabled_by = "image_metadata_prefilter"
    options = in_group(
        "scheduler",
        cfg.BoolOpt("image_metadata_prefilter", default=False),
        "Require hosts to have the traits of the devices that image properties name.",
    )

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        properties = spec.image.properties
        traits = [
            f"{prefix}_{properties.get(name).replace('-', '_').upper()}"
            for name, prefix in _PREFIXES.items()
            if name in properties
        ]
        unknown = [trait for trait in traits if not hasattr(os_traits, trait)]
        if unknown:
            LOG.warning("image properties are ignored: there is no trait %s", unknown[0])
        return [] if unknown else traits

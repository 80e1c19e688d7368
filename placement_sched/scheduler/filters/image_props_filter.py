# SPDX-License-Identifier: Apache-2.0
"""ImagePropertiesFilter: filter for hosts that support the image."""

from collections.abc import Iterable, Sequence

from oslo_config import cfg
from oslo_utils.versionutils import VersionPredicate, convert_version_to_str

from placement_sched.explain.advice import build_change
from placement_sched.model.names import ARCHITECTURES
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    SuggestedChanges,
    drop_properties,
)
from placement_sched.scheduler.filters.utils import ADDRESS_BITS, find_value
from placement_sched.scheduler.plugin import build_group_options

_COMPARED = ("hw_architecture", "img_hv_type", "hw_vm_mode")


class ImagePropertiesFilter(BaseHostFilter):
    """Filter for hosts that support the image's hardware and hypervisor.

    The image properties are ``hw_architecture``, ``img_hv_type`` and ``hw_vm_mode``. A combination
    that the host supports must match all of them that are set. If any is set, two more properties
    are compared: ``img_hv_requested_version`` (such as ``>=4.2,<6``) with the hypervisor's version,
    if the host reports it, and ``hw_maxphysaddr_bits`` with the bits of physical addresses in the
    host's ``cpu_info``. ``[filter_scheduler] image_properties_default_architecture`` is the
    architecture of images that name none.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    options = build_group_options(
        "filter_scheduler",
        cfg.StrOpt("image_properties_default_architecture", choices=sorted(ARCHITECTURES)),
        "Architecture that ImagePropertiesFilter assumes for images that name none.",
    )

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        properties = spec_obj.image.properties
        default = self.settings.filter_scheduler.image_properties_default_architecture
        arch = properties.get("hw_architecture", default)
        requested = (arch, properties.get("img_hv_type"), properties.get("hw_vm_mode"))
        required = [(index, value) for index, value in enumerate(requested) if value is not None]
        if not any(requested):
            return None
        version = properties.get("img_hv_requested_version")
        bits = properties.get("hw_maxphysaddr_bits")

        def check_host(host_state: HostState) -> Rejection | None:
            supported = host_state.supported_instances or ()
            if not _supports(supported, required):
                actual = list(map(_join, supported)) or None
                return Rejection(kind="image_property", requested=_join(requested), actual=actual)
            if version and host_state.hypervisor_version:
                actual_version = convert_version_to_str(host_state.hypervisor_version)
                if not VersionPredicate(version).satisfied_by(actual_version):
                    return Rejection(
                        kind="image_property",
                        requested=version,
                        values={"hypervisor_version": actual_version},
                    )
            host_bits = find_value(host_state, ADDRESS_BITS) if bits else None
            if not isinstance(host_bits, int) or host_bits >= bits:
                return None
            values = {"address_bits": host_bits}
            return Rejection(kind="image_property", requested=bits, values=values)

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        supported = [_join(tuple(each)) for each in host_state.supported_instances or ()]
        default = self.settings.filter_scheduler.image_properties_default_architecture
        if default is None or "hw_architecture" in spec_obj.image.properties:
            yield drop_properties(spec_obj, _COMPARED, "image_property", supported=supported)
        else:
            yield build_change(
                "change_image_properties", kind="image_property", supported=supported
            )


def _supports(supported: Iterable[list[str]], required: Sequence[tuple[int, str]]) -> bool:
    """Return whether a supported combination has all required values.

    ``required`` are pairs of a position and a value. A combination may lack its last elements.
    """
    for combination in supported:
        for index, value in required:
            if index < len(combination) and combination[index] != value:
                break
        else:
            return True
    return False


def _join(combination: Sequence[str | None]) -> str:
    return "/".join(part or "any" for part in combination)

"""ImagePropertiesFilter: only hosts that can run what the image was made for."""

from oslo_config import cfg
from oslo_utils.versionutils import VersionPredicate, convert_version_to_str

from placement_sched.model.hypervisor_names import ARCHITECTURES
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter, Question
from placement_sched.scheduler.filters.host_values import ADDRESS_BITS, value_at
from placement_sched.scheduler.host_state import HostState


class ImagePropertiesFilter(BaseHostFilter):
    """Lets hosts pass that support the image's architecture, hypervisor type and VM mode.

    These are the image properties ``hw_architecture``, ``img_hv_type`` and ``hw_vm_mode``; one
    of the host's supported combinations must have all that are set. Where any is set,
    ``img_hv_requested_version`` (like ``>=4.2,<6``) is compared with the hypervisor's version, if
    the host tells it, and ``hw_maxphysaddr_bits`` with the bits of physical addresses in its
    ``cpu_info``. ``[filter_scheduler] image_properties_default_architecture`` is the architecture
    of images that name none.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    options = (
        (
            "filter_scheduler",
            cfg.StrOpt(
                "image_properties_default_architecture",
                choices=sorted(ARCHITECTURES),
                help="The architecture that ImagePropertiesFilter takes images for that name none.",
            ),
        ),
    )

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what tells what the image asks for, and what a host supports."""
        properties = spec_obj.image.properties
        default = self.settings.filter_scheduler.image_properties_default_architecture
        wanted = (
            properties.get("hw_architecture", default),
            properties.get("img_hv_type"),
            properties.get("hw_vm_mode"),
        )
        if not any(wanted):
            return None
        version = properties.get("img_hv_requested_version")
        bits = properties.get("hw_maxphysaddr_bits")

        def refusal(host_state: HostState) -> Refusal | None:
            supported = host_state.supported_instances or ()
            if not any(_fits(wanted, combination) for combination in supported):
                has = [tuple(combination) for combination in supported]
                return Refusal(f"{_told(wanted)} asked, {_all_told(has)} supported", wanted, has)
            refused = _version_refusal(version, host_state) if version else None
            return refused or (_address_refusal(bits, host_state) if bits else None)

        return refusal


def _fits(wanted: tuple[str | None, ...], supported: list[str]) -> bool:
    for want, have in zip(wanted, supported, strict=False):
        if want is not None and want != have:
            return False
    return True


def _version_refusal(predicate: str, host_state: HostState) -> Refusal | None:
    if not host_state.hypervisor_version:
        return None
    version = convert_version_to_str(host_state.hypervisor_version)
    if VersionPredicate(predicate).satisfied_by(version):
        return None
    reason = f"hypervisor version {predicate} asked, {version} found"
    return Refusal(reason, asked=predicate, has=version)


def _address_refusal(bits: int, host_state: HostState) -> Refusal | None:
    found = value_at(host_state, ADDRESS_BITS)
    if not isinstance(found, int) or found >= bits:
        return None
    return Refusal(f"{bits} bits of physical addresses asked, {found} found", bits, found)


def _told(combination: tuple[str | None, ...]) -> str:
    return "/".join(part or "any" for part in combination)


def _all_told(combinations: list[tuple[str, ...]]) -> str:
    return ", ".join(_told(combination) for combination in combinations) or "nothing"

"""ImagePropertiesFilter: only hosts that can run what the image was made for."""

from collections.abc import Iterable, Sequence

from oslo_config import cfg
from oslo_utils.versionutils import VersionPredicate, convert_version_to_str

from placement_sched.model.names import ARCHITECTURES
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, HostState, Question, Refusal, Remedy
from placement_sched.scheduler.filters.changed_requests import without_properties
from placement_sched.scheduler.filters.utils import ADDRESS_BITS, value_at
from placement_sched.scheduler.plugin import in_group

#: The image properties that are compared.
_COMPARED = ("hw_architecture", "img_hv_type", "hw_vm_mode")


class ImagePropertiesFilter(BaseHostFilter):
    """Lets hosts pass that support the image's architecture, hypervisor type and VM mode.

    These are the image properties ``hw_architecture``, ``img_hv_type`` and ``hw_vm_mode``; one
    of the host's supported combinations must have all that are set. Where any is set,
    ``img_hv_requested_version`` (like ``>=4.2,<6``) is compared with the hypervisor's version, if
    the host reports it, and ``hw_maxphysaddr_bits`` with the bits of physical addresses in its
    ``cpu_info``. ``[filter_scheduler] image_properties_default_architecture`` is the architecture
    of images that name none.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    options = in_group(
        "filter_scheduler",
        cfg.StrOpt("image_properties_default_architecture", choices=sorted(ARCHITECTURES)),
        "The architecture that ImagePropertiesFilter takes images for that name none.",
    )

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what compares what the image asks for with what a host supports."""
        properties = spec_obj.image.properties
        default = self.settings.filter_scheduler.image_properties_default_architecture
        arch = properties.get("hw_architecture", default)
        wanted = (arch, properties.get("img_hv_type"), properties.get("hw_vm_mode"))
        asked = [(at, want) for at, want in enumerate(wanted) if want is not None]
        if not any(wanted):
            return None
        version = properties.get("img_hv_requested_version")
        bits = properties.get("hw_maxphysaddr_bits")

        def refusal(host_state: HostState) -> Refusal | None:
            supported = host_state.supported_instances or ()
            if not _supports(supported, asked):
                has = [tuple(combination) for combination in supported]
                found = ", ".join(map(_shown, has)) or "nothing"
                return Refusal(f"{_shown(wanted)} requested, {found} supported", wanted, has)
            refused = _version_refusal(version, host_state) if version else None
            return refused or (_address_refusal(bits, host_state) if bits else None)

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return what the image would have to be made for."""
        supported = map(tuple, host_state.supported_instances or ())
        words = f"use an image for {' or '.join(map(_shown, supported)) or 'no hypervisor'}"
        default = self.settings.filter_scheduler.image_properties_default_architecture
        if default is None or "hw_architecture" in spec_obj.image.properties:
            yield without_properties(spec_obj, _COMPARED, words)
        else:
            yield Remedy("change_image_properties", words)


def _supports(supported: Iterable[list[str]], asked: Sequence[tuple[int, str]]) -> bool:
    """Return whether a combination has what is asked, by its places; one may lack the last."""
    for combination in supported:
        for at, want in asked:
            if at < len(combination) and combination[at] != want:
                break
        else:
            return True
    return False


def _version_refusal(predicate: str, host_state: HostState) -> Refusal | None:
    if not host_state.hypervisor_version:
        return None
    version = convert_version_to_str(host_state.hypervisor_version)
    if VersionPredicate(predicate).satisfied_by(version):
        return None
    return Refusal(f"hypervisor version {predicate} requested, {version} found", predicate, version)


def _address_refusal(bits: int, host_state: HostState) -> Refusal | None:
    found = value_at(host_state, ADDRESS_BITS)
    if not isinstance(found, int) or found >= bits:
        return None
    return Refusal(f"{bits} bits of physical addresses requested, {found} found", bits, found)


def _shown(combination: tuple[str | None, ...]) -> str:
    return "/".join(part or "any" for part in combination)

"""ImagePropertiesFilter: only hosts that can run what the image was made for."""

from oslo_config import cfg
from oslo_utils.versionutils import VersionPredicate, convert_version_to_str

from placement_sched.model.hypervisor_names import ARCHITECTURES
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import HostState


class ImagePropertiesFilter(BaseHostFilter):
    """Lets hosts pass that support the image's architecture, hypervisor type and VM mode.

    These are the image properties ``hw_architecture``, ``img_hv_type`` and ``hw_vm_mode``; one
    of the host's supported combinations must have all that are set. Where any is set,
    ``img_hv_requested_version`` (like ``>=4.2,<6``) is compared with the hypervisor's version, if
    the host tells it. ``[filter_scheduler] image_properties_default_architecture`` is the
    architecture of images that name none.
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

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return what the image asks for, and what the host supports."""
        properties = spec_obj.image.properties
        default = self.settings.filter_scheduler.image_properties_default_architecture
        wanted = (
            properties.get("hw_architecture", default),
            properties.get("img_hv_type"),
            properties.get("hw_vm_mode"),
        )
        if not any(wanted):
            return None
        supported = host_state.supported_instances or ()
        if not any(_fits(wanted, combination) for combination in supported):
            has = [tuple(combination) for combination in supported]
            return Refusal(f"{_told(wanted)} asked, {_all_told(has)} supported", wanted, has)
        return _version_refusal(properties.get("img_hv_requested_version"), host_state)


def _fits(wanted: tuple[str | None, ...], supported: list[str]) -> bool:
    return all(want is None or want == have for want, have in zip(wanted, supported, strict=False))


def _version_refusal(predicate: str | None, host_state: HostState) -> Refusal | None:
    if not predicate or not host_state.hypervisor_version:
        return None
    version = convert_version_to_str(host_state.hypervisor_version)
    if VersionPredicate(predicate).satisfied_by(version):
        return None
    reason = f"hypervisor version {predicate} asked, {version} found"
    return Refusal(reason, asked=predicate, has=version)


def _told(combination: tuple[str | None, ...]) -> str:
    return "/".join(part or "any" for part in combination)


def _all_told(combinations: list[tuple[str, ...]]) -> str:
    return ", ".join(_told(combination) for combination in combinations) or "nothing"

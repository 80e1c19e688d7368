# SPDX-License-Identifier: Apache-2.0
"""Request filters that require or forbid traits of the root provider."""

from collections.abc import Sequence

import os_traits
from oslo_config import cfg

from placement_sched.model.request_spec import REMOTE_MANAGED
from placement_sched.scheduler.plugin import build_group_options
from placement_sched.scheduler.request_filters import RequestSpec, TraitFilter


class AcceleratorsFilter(TraitFilter):
    """Request filter for hosts that support accelerators, if requested.

    If the flavor has the extra spec ``accel:device_profile``, the root provider must have the trait
    COMPUTE_ACCELERATORS. The accelerators themselves are request groups of the request
    (``requested_resources``). Always enabled.
    """

    name = "accelerators_filter"

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        return [os_traits.COMPUTE_ACCELERATORS] if spec.hardware.devices.device_profile else []


class ComputeStatusFilter(TraitFilter):
    """Request filter that excludes hosts whose compute service is disabled.

    Disabling a service adds the trait COMPUTE_STATUS_DISABLED to the root providers of its host,
    and enabling it removes the trait. This filter forbids the trait. ComputeFilter would also
    reject such hosts, but only after the limit on candidates. Always enabled.
    """

    name = "compute_status_filter"
    forbids = True

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        return [os_traits.COMPUTE_STATUS_DISABLED]


class EphemeralEncryptionFilter(TraitFilter):
    """Request filter for hosts that can encrypt local disks, if requested.

    With the extra spec ``hw:ephemeral_encryption`` or the image property
    ``hw_ephemeral_encryption``, which must agree, the root provider must have the trait
    COMPUTE_EPHEMERAL_ENCRYPTION. With ``hw:ephemeral_encryption_format`` (or the property) it must
    also have the trait of the format, such as COMPUTE_EPHEMERAL_ENCRYPTION_LUKS. Always enabled.
    """

    name = "ephemeral_encryption_filter"

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        devices, trait = spec.hardware.devices, os_traits.COMPUTE_EPHEMERAL_ENCRYPTION
        if not devices.has_ephemeral_encryption:
            return []
        disk_format = devices.ephemeral_encryption_format
        return [trait, f"{trait}_{disk_format.upper()}"] if disk_format else [trait]


class PackedVirtqueueFilter(TraitFilter):
    """Request filter for hosts with packed virtio queues, if requested.

    With the extra spec ``hw:virtio_packed_ring`` or the image property ``hw_virtio_packed_ring``,
    which must agree, the root provider must have the trait COMPUTE_NET_VIRTIO_PACKED. Always
    enabled.
    """

    name = "packed_virtqueue_filter"

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        is_requested = spec.hardware.devices.has_packed_ring
        return [os_traits.COMPUTE_NET_VIRTIO_PACKED] if is_requested else []


class RemoteManagedPortsFilter(TraitFilter):
    """Request filter for hosts with remote-managed ports, if requested.

    If the ``vnic_type`` of any port is ``remote-managed``, the root provider must have the trait
    COMPUTE_REMOTE_MANAGED_PORTS. The type comes from the request (``requested_networks``), or else
    from neutron (see ``[neutron]``). If neither has a type for the port, it is ``normal``. Always
    enabled.
    """

    name = "remote_managed_ports_filter"

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        is_requested = any(
            network.vnic_type == REMOTE_MANAGED for network in spec.requested_networks
        )
        return [os_traits.COMPUTE_REMOTE_MANAGED_PORTS] if is_requested else []


class RequireImageTypeSupport(TraitFilter):
    """Request filter for hosts that support the disk format of the image.

    The root provider must have the trait ``COMPUTE_IMAGE_TYPE_<disk_format>``, such as
    COMPUTE_IMAGE_TYPE_QCOW2. No trait is required if the instance boots from a volume, or if the
    format has no trait. Enabled by ``[scheduler] query_placement_for_image_type_support``. The
    default is false.
    """

    name = "require_image_type_support"
    enabled_by = "query_placement_for_image_type_support"
    options = build_group_options(
        "scheduler",
        cfg.BoolOpt("query_placement_for_image_type_support", default=False),
        "Require hosts to have the trait of the image's disk format.",
    )

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        trait = f"COMPUTE_IMAGE_TYPE_{(spec.image.disk_format or '').upper()}"
        return [trait] if not spec.is_bfv and hasattr(os_traits, trait) else []


class TPMSecretSecurityFilter(TraitFilter):
    """Request filter for hosts with the requested storage of TPM secrets.

    For instances with an emulated TPM (``hw:tpm_version``), the root provider must have the trait
    COMPUTE_SECURITY_TPM_SECRET_SECURITY_<value>. The value is the extra spec
    ``hw:tpm_secret_security``: ``user`` (the default), ``host`` or ``deployment``. Always enabled.
    """

    name = "tpm_secret_security_filter"

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        security = spec.hardware.devices.tpm_secret_security
        return [f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}"] if security else []


class VirtioSoundFilter(TraitFilter):
    """Request filter for hosts with virtio sound devices, if requested.

    If the extra spec ``hw:sound_model`` or the image property ``hw_sound_model``, which must agree,
    is ``virtio``, the root provider must have the trait COMPUTE_SOUND_MODEL_VIRTIO. Other models
    require no trait. Always enabled.
    """

    name = "virtio_sound_filter"

    def _list_traits(self, spec: RequestSpec) -> Sequence[str]:
        is_requested = spec.hardware.devices.sound_model == "virtio"
        return [os_traits.COMPUTE_SOUND_MODEL_VIRTIO] if is_requested else []

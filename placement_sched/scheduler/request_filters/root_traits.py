"""Request filters that ask for hosts whose root provider has certain traits, or has them not."""

from collections.abc import Sequence

import os_traits
from oslo_config import cfg

from placement_sched.model.request_spec import REMOTE_MANAGED
from placement_sched.scheduler.plugin import in_group
from placement_sched.scheduler.request_filters import RequestSpec, TraitFilter


class AcceleratorsFilter(TraitFilter):
    """Requires hosts that can handle accelerators, where the flavor asks for some.

    A flavor does so by the extra spec ``accel:device_profile``; the root provider must then have
    the trait COMPUTE_ACCELERATORS. The accelerators themselves are request groups of the request
    (``requested_resources``). Always on.
    """

    name = "accelerators_filter"

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        return [os_traits.COMPUTE_ACCELERATORS] if spec.hardware.devices.device_profile else []


class ComputeStatusFilter(TraitFilter):
    """Leaves out hosts whose compute service is disabled, before candidates are counted.

    To disable a service puts the trait COMPUTE_STATUS_DISABLED on the root providers of its host,
    to enable it takes the trait off; here the root must not have it. ComputeFilter would refuse
    those hosts, too, but only after the limit on candidates. Always on.
    """

    name = "compute_status_filter"
    forbids = True

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        return [os_traits.COMPUTE_STATUS_DISABLED]


class EphemeralEncryptionFilter(TraitFilter):
    """Requires hosts that can encrypt local disks, where flavor or image asks for that.

    By ``hw:ephemeral_encryption`` or the image property ``hw_ephemeral_encryption``, which must
    agree; the root provider must have the trait COMPUTE_EPHEMERAL_ENCRYPTION, and with
    ``hw:ephemeral_encryption_format`` (or the property) that of the format as well, such as
    COMPUTE_EPHEMERAL_ENCRYPTION_LUKS. Always on.
    """

    name = "ephemeral_encryption_filter"

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        devices, trait = spec.hardware.devices, os_traits.COMPUTE_EPHEMERAL_ENCRYPTION
        if not devices.has_ephemeral_encryption:
            return []
        kind = devices.ephemeral_encryption_format
        return [trait, f"{trait}_{kind.upper()}"] if kind else [trait]


class PackedVirtqueueFilter(TraitFilter):
    """Requires hosts that support packed virtio queues, where flavor or image asks for them.

    By the extra spec ``hw:virtio_packed_ring`` or the image property ``hw_virtio_packed_ring``,
    which must agree; the root provider must have the trait COMPUTE_NET_VIRTIO_PACKED. Always on.
    """

    name = "packed_virtqueue_filter"

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        asked = spec.hardware.devices.has_packed_ring
        return [os_traits.COMPUTE_NET_VIRTIO_PACKED] if asked else []


class RemoteManagedPortsFilter(TraitFilter):
    """Requires hosts that can have remote-managed ports, where the request has one.

    Such ports are served by another processor, on a SmartNIC or DPU; their ``binding:vnic_type``
    is ``remote-managed``. The root provider must then have the trait
    COMPUTE_REMOTE_MANAGED_PORTS. The type stands in the request (``requested_networks``), else
    neutron is asked, see ``[neutron]``; where neither says so, the port is taken for one of the
    type ``normal``. Always on.
    """

    name = "remote_managed_ports_filter"

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        asked = any(one.vnic_type == REMOTE_MANAGED for one in spec.requested_networks)
        return [os_traits.COMPUTE_REMOTE_MANAGED_PORTS] if asked else []


class RequireImageTypeSupport(TraitFilter):
    """Requires hosts that can use the disk format of the image.

    The root provider must have the trait ``COMPUTE_IMAGE_TYPE_<disk_format>``, such as
    COMPUTE_IMAGE_TYPE_QCOW2. An instance that boots from a volume needs none, and a format that no
    trait is named for is not asked for. Off unless ``[scheduler]
    query_placement_for_image_type_support`` is set.
    """

    name = "require_image_type_support"
    enabled_by = "query_placement_for_image_type_support"
    options = in_group(
        "scheduler",
        cfg.BoolOpt("query_placement_for_image_type_support", default=False),
        "Require hosts to have the trait of the image's disk format.",
    )

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        trait = f"COMPUTE_IMAGE_TYPE_{(spec.image.disk_format or '').upper()}"
        return [trait] if not spec.is_bfv and hasattr(os_traits, trait) else []


class TPMSecretSecurityFilter(TraitFilter):
    """Requires hosts that keep the secret of an emulated TPM the way the flavor asks.

    For instances with a TPM (``hw:tpm_version``) only. The extra spec ``hw:tpm_secret_security``
    is ``user`` (so where it is not given), ``host`` or ``deployment``; the root provider must have
    the trait COMPUTE_SECURITY_TPM_SECRET_SECURITY_<value>. Always on.
    """

    name = "tpm_secret_security_filter"

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        keeper = spec.hardware.devices.tpm_secret_security
        return [f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{keeper.upper()}"] if keeper else []


class VirtioSoundFilter(TraitFilter):
    """Requires hosts that support virtio sound devices, where flavor or image asks for one.

    By ``hw:sound_model=virtio`` or the image property ``hw_sound_model``, which must agree; the
    root provider must have the trait COMPUTE_SOUND_MODEL_VIRTIO. Other models need none. Always
    on.
    """

    name = "virtio_sound_filter"

    def _traits(self, spec: RequestSpec) -> Sequence[str]:
        asked = spec.hardware.devices.sound_model == "virtio"
        return [os_traits.COMPUTE_SOUND_MODEL_VIRTIO] if asked else []

"""Devices and firmware that a flavor and an image request.

Sources: nova's documentation, "Emulated Trusted Platform Module (vTPM)", "Secure Boot", "UEFI",
"Attaching virtual persistent memory to guests" and "Extra Specs"; glance's "Useful image
properties".
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import os_resource_classes

from placement_sched.errors import Invalid
from placement_sched.model.hardware import flavor_image
from placement_sched.model.hardware.flavor_image import FlavorImage, agreed, agreed_flag
from placement_sched.model.hardware.requested_pci import AFFINITY_POLICIES

_TPM_VERSIONS = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
_TIS, _CRB = "tpm-tis", "tpm-crb"
_TPM_MODELS = {_TIS: "COMPUTE_SECURITY_TPM_TIS", _CRB: "COMPUTE_SECURITY_TPM_CRB"}
_SECRET_SECURITY = ("user", "host", "deployment")
_SOUND_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")


class RequestedDevices(FlavorImage):
    """The devices and the firmware that flavor and image request, each value read once.

    Each property is None, False or empty where nothing is requested.
    """

    #: How the width of physical addresses is made.
    address_mode = agreed("maxphysaddr_mode", ("passthrough", "emulate"))
    secure_boot = agreed("secure_boot", ("required", "disabled", "optional"), "os")
    #: The model of the sound device.
    sound_model = agreed("sound_model", _SOUND_MODELS)
    #: Whether packed virtio queues are requested.
    has_packed_ring = agreed_flag("virtio_packed_ring")
    #: Whether encrypted local disks are requested, and how they are encrypted.
    has_ephemeral_encryption = agreed_flag("ephemeral_encryption")
    ephemeral_encryption_format = agreed("ephemeral_encryption_format", ("plain", "luks", "luksv2"))
    #: How near PCI devices must be; it wins over the policies of aliases.
    pci_affinity_policy = agreed("pci_numa_affinity_policy", AFFINITY_POLICIES)

    @property
    def device_profile(self) -> str | None:
        """Return the name of cyborg's device profile, by which the flavor requests accelerators."""
        return self.flavor.extra_specs.get("accel:device_profile")

    @cached_property
    def pmem_namespaces(self) -> Mapping[str, int]:
        """Return how many namespaces ``hw:pmem`` requests, by the resource class of their label."""
        labels = self.flavor.extra_specs.get("hw:pmem", "").split(",")
        return Counter(
            os_resource_classes.normalize_name(f"PMEM_NAMESPACE_{label.strip()}")
            for label in labels
            if label.strip()
        )

    @cached_property
    def tpm_traits(self) -> tuple[str, ...]:
        """Return the traits of the TPM's model and version.

        A version requests a TPM; a model alone does not. The CRB model needs version 2.0.
        """
        version = self.agreed("tpm_version", _TPM_VERSIONS)
        if version is None:
            return ()
        model = self.agreed("tpm_model", _TPM_MODELS) or _TIS
        if model == _CRB and version != "2.0":
            raise Invalid(
                f"{self.source('tpm_model')} is {model!r}, which needs "
                f"{self.source('tpm_version')} to be '2.0', not {version!r}"
            )
        return (_TPM_MODELS[model], _TPM_VERSIONS[version])

    @cached_property
    def tpm_secret_security(self) -> str | None:
        """Return who keeps the TPM's secret: ``user`` (default), ``host`` or ``deployment``."""
        if not self.tpm_traits:
            return None
        keeper = self.flavor.extra_specs.get("hw:tpm_secret_security") or _SECRET_SECURITY[0]
        where = flavor_image.of_flavor("tpm_secret_security")
        return flavor_image.one_of(keeper, _SECRET_SECURITY, where)

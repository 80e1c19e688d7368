"""What a request may say that this release does not serve: refused by name, never ignored.

Each line here goes when what it names is served.
"""

import re

from placement_sched.errors import Invalid
from placement_sched.model.spec import RequestSpec

#: Fields of the request spec.
_FIELDS = ("requested_resources", "numa_topology", "pci_requests")

#: Extra specs that change what is asked of placement or of a host.
_EXTRA_SPECS = re.compile(
    r"""
    (resources|trait|in_tree|member_of)[A-Za-z0-9_-]+:.*    # a request group with a suffix
    | in_tree:.* | member_of:.* | group_policy
    | hw:numa_.* | hw:cpu_thread_policy | hw:cpu_dedicated_mask | hw:cpu_realtime.*
    | hw:emulator_threads_policy | hw:mem_page_size | hw:pci_numa_affinity_policy
    | hw:mem_encryption.* | hw:pmem | hw:maxphysaddr_.* | hw:virtio_packed_ring
    | hw:ephemeral_encryption.* | hw:tpm_.* | hw:viommu_model
    | hw:cpu_policy | hw:sound_model | os:secure_boot
    | accel:device_profile | pci_passthrough:alias
    """,
    re.VERBOSE | re.DOTALL,
)

#: Image properties that do the same.
_IMAGE_PROPERTIES = (
    "hw_cpu_policy",
    "hw_cpu_thread_policy",
    "hw_cpu_realtime_mask",
    "hw_ephemeral_encryption",
    "hw_firmware_stateless",
    "hw_maxphysaddr_bits",
    "hw_maxphysaddr_mode",
    "hw_mem_encryption",
    "hw_mem_page_size",
    "hw_numa_nodes",
    "hw_pci_numa_affinity_policy",
    "hw_sound_model",
    "hw_tpm_model",
    "hw_tpm_version",
    "hw_viommu_model",
    "hw_virtio_packed_ring",
    "os_secure_boot",
)

#: Values by which the above ask for nothing.
_NOTHING = ("shared", "disabled", "optional", False, "False", "false")


def check(spec: RequestSpec) -> None:
    """Raise :class:`Invalid` naming what this release does not serve."""
    for field in _FIELDS:
        if getattr(spec, field):
            raise _refused(field)
    if spec.root_required or spec.root_forbidden or spec.same_subtree:
        raise _refused("request_level_params")
    for key, value in spec.flavor.extra_specs.items():
        if _EXTRA_SPECS.fullmatch(key) and value not in _NOTHING:
            raise _refused(f"flavor.extra_specs.{key}")
    for name in _IMAGE_PROPERTIES:
        if spec.image.properties.get(name, False) not in _NOTHING:
            raise _refused(f"image.properties.{name}")


def _refused(key: str) -> Invalid:
    return Invalid(f"request_spec.{key} is not served by this release")

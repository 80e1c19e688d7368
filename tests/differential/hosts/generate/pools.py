# SPDX-License-Identifier: Apache-2.0
"""Names and values that the parts of a case share."""

from tests.support.clouds import uuid_of

PROJECT_IDS = ("p1", "p2", "p3")
FLAVOR_NAMES = ("m1.small", "m1.large", "c1.tiny")
CELL_UUIDS = ("8c8c8c8c-0000-4000-8000-000000000001", "8c8c8c8c-0000-4000-8000-000000000002")
#: The last host has two nodes, as a host that runs ironic.
HOST_AND_NODE_NAMES = (*((f"cn{n}", f"cn{n}") for n in range(1, 7)), ("ir1", "bm1"), ("ir1", "bm2"))
HOST_NAMES = tuple(dict.fromkeys(host for host, _ in HOST_AND_NODE_NAMES))

#: The instance of the request on nova's side.
OWN_INSTANCE = "5a5a5a5a-0000-4000-8000-000000000001"
#: Further instances of a request.
FURTHER_INSTANCE_UUIDS = [uuid_of(f"other-{number}") for number in range(3)]
INSTANCE_UUIDS = tuple(uuid_of(f"instance-{number}") for number in range(10))
IMAGE_UUIDS = tuple(uuid_of(f"image-{number}") for number in range(4))

#: Values of extra specs, and of metadata and stats that may match them, by key.
EXTRA_SPEC_VALUES = {
    "gpu": ("1", "2", "4", "big"),
    "ssd": ("true", "True", "false", "yes"),
    "class": ("gold", "silver", "golden", "gold,silver", " gold ", ""),
    "speed": ("1.5", "10", "9", "10.0", "1e1", "fast"),
}
EXTRA_SPEC_OPERATORS = ("=", "==", "!=", ">=", "<=", "s==", "s!=", "s>=", "s>", "s<=", "s<", "<in>")

METRIC_NAMES = (
    "cpu.frequency", "cpu.user.time", "cpu.idle.percent", "cpu.percent", "numa.membw.current",
)  # fmt: skip

#: Values of image properties, by property.
IMAGE_PROPERTY_VALUES = {
    "hw_architecture": ("x86_64", "aarch64", "i686", "ppc64le", "amd64", "s390x"),
    "architecture": ("x86_64", "aarch64", "x86_32"),
    "img_hv_type": ("kvm", "qemu", "xen", "ironic", "vmware", "KVM", "xenapi", "lxc"),
    "hypervisor_type": ("kvm", "qemu", "QEMU"),
    "hw_vm_mode": ("hvm", "xen", "exe", "uml", "hv"),
    "img_hv_requested_version": (">=4.2", ">=4.2,<6", "==5.0.1", "<4.2.0", ">5", "!=4.2.0"),
    "os_distro": ("ubuntu", "windows", "debian", "Ubuntu", "None"),
    "os_type": ("linux", "windows"),
    "hw_machine_type": ("q35", "pc", "virt"),
    "hw_qemu_guest_agent": ("yes", "no", "true", "False"),
    "hw_cpu_sockets": ("1", "2"),
    "hw_numa_mem.0": ("512",),
    "hw_disk_bus": ("virtio", "scsi"),
    "trait:CUSTOM_A": ("required",),
    "my_own": ("x", "y"),
}

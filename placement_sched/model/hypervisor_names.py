"""Names of architectures, hypervisor types, VM modes and monitor metrics, as nova has them.

Public sources: nova's glance image property reference (``hw_architecture``, ``img_hv_type``,
``hw_vm_mode``) and the enumerations that nova's objects accept.
"""

_ARCHITECTURES = (
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips "
    "mipsel mips64 mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x "
    "sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa xtensaeb"
)
ARCHITECTURES = frozenset(_ARCHITECTURES.split())
ARCHITECTURE_ALIASES = {"i386": "i686", "i486": "i686", "i586": "i686", "amd64": "x86_64"}

_HYPERVISOR_TYPES = (
    "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test "
    "uml vbox vz vmware xen zvm prsm"
)
HYPERVISOR_TYPES = frozenset(_HYPERVISOR_TYPES.split())
HYPERVISOR_TYPE_ALIASES = {"xapi": "xen"}

VM_MODES = frozenset({"hvm", "xen", "uml", "exe"})
VM_MODE_ALIASES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}

_MONITOR_METRICS = (
    "cpu.frequency cpu.user.time cpu.kernel.time cpu.idle.time cpu.iowait.time cpu.user.percent "
    "cpu.kernel.percent cpu.idle.percent cpu.iowait.percent cpu.percent numa.membw.max "
    "numa.membw.current"
)
MONITOR_METRICS = frozenset(_MONITOR_METRICS.split())
#: The metrics that nova-compute stores as fractions and nova's scheduler counts as percent.
PERCENT_METRICS = frozenset(name for name in MONITOR_METRICS if name.endswith("percent"))

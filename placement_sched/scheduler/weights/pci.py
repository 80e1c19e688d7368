# SPDX-License-Identifier: Apache-2.0
"""PCIWeigher: weigher that keeps PCI devices for requests that need them."""

from oslo_config import cfg

from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights

#: Hosts with at least this number of free devices weigh the same.
_MAX_DEVICES = 99


class PCIWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the fewest free PCI devices.

    Requests without PCI devices then avoid hosts with devices, as far as possible. Requests with
    devices fill host after host, which keeps whole hosts for requests of many devices. Hosts with
    99 devices or more weigh the same. Enable PciPassthroughFilter too, which rejects hosts with too
    few devices. The multiplier ``[filter_scheduler] pci_weight_multiplier`` may not be negative.
    """

    by_host = True
    weight_option = cfg.FloatOpt("pci_weight_multiplier", default=1.0, min=0.0)
    weight_help = (
        "Multiplier of PCIWeigher, which keeps PCI devices for requests that need them by "
        "preferring hosts with few free devices."
    )

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        return [_MAX_DEVICES + 1 - min(_count_free_devices(host), _MAX_DEVICES) for host in hosts]


def _count_free_devices(host: HostState) -> int:
    stats = host.pci_stats
    if isinstance(stats, PciPools):
        return stats.free
    # A third-party plugin may have set an object of nova's form.
    return sum(pool["count"] for pool in stats.pools) if stats else 0

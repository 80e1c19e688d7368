"""PCIWeigher: keep hosts with many PCI devices for requests that need many."""

from oslo_config import cfg

from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights

#: From so many free devices on a host has plenty of them, and one more makes no difference.
_PLENTY = 99


class PCIWeigher(BaseHostWeigher):
    """Prefers the host with the fewest free PCI devices, whether or not the request asks for any.

    So requests without PCI devices stay off hosts that have some, while there are others, and
    requests with them fill one host after the other, which leaves whole hosts for requests that
    need many. Hosts with 99 devices or more are all alike. Combine it with PciPassthroughFilter,
    which rejects hosts that have too few. The multiplier ``[filter_scheduler]
    pci_weight_multiplier`` may not be negative. Aggregate metadata ``pci_weight_multiplier``
    override it for the hosts in the aggregate; of several the smallest counts.
    """

    by_host = True
    weight_option = cfg.FloatOpt("pci_weight_multiplier", default=1.0, min=0.0)
    weight_help = (
        "Multiplier of PCIWeigher, which keeps PCI devices for requests that need them by "
        "preferring hosts with few free ones."
    )

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return 100 less the free PCI devices of each host, 1 at the least."""
        return [_PLENTY + 1 - min(_free(host), _PLENTY) for host in hosts]


def _free(host: HostState) -> int:
    stats = host.pci_stats
    if isinstance(stats, PciPools):
        return stats.free
    # A third-party plugin may have put another object of nova's form there.
    return sum(pool["count"] for pool in stats.pools) if stats else 0

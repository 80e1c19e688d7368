"""HypervisorVersionWeigher: prefer hosts with a new hypervisor."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class HypervisorVersionWeigher(BaseHostWeigher):
    """Prefers the host with the newest hypervisor, by the version number that it reports.

    Versions are comparable where all hosts have the same kind of hypervisor; elsewhere set
    ``[filter_scheduler] hypervisor_version_weight_multiplier`` to 0. With a negative one the host
    with the oldest wins. Aggregate metadata ``hypervisor_version_weight_multiplier`` override it
    for the hosts in the aggregate; of several the smallest counts.
    """

    multiplier_option = ("filter_scheduler", "hypervisor_version_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "hypervisor_version_weight_multiplier",
                default=1.0,
                help="How much a new hypervisor counts; negative prefers hosts with an old one, "
                "and 0 heeds no version, as where hypervisors are of several kinds.",
            ),
        ),
    )

    def column(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return the version of each host's hypervisor."""
        # An empty host state has none.
        return [host.hypervisor_version or 0 for host in hosts]

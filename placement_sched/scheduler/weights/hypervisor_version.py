"""HypervisorVersionWeigher: prefer hosts with a new hypervisor."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class HypervisorVersionWeigher(BaseHostWeigher):
    """Prefers the host with the newest hypervisor, by the version number that it reports.

    Versions are comparable where all hosts have the same kind of hypervisor; elsewhere set
    ``[filter_scheduler] hypervisor_version_weight_multiplier`` to 0. With a negative one the host
    with the oldest wins. Aggregate metadata ``hypervisor_version_weight_multiplier`` override it
    for the hosts in the aggregate; of several the smallest counts.
    """

    by_host = True
    weight_option = cfg.FloatOpt("hypervisor_version_weight_multiplier", default=1.0)
    weight_help = (
        "Multiplier of HypervisorVersionWeigher; positive prefers new hypervisors, negative old "
        "ones, and 0 ignores versions, as for hypervisors of several types."
    )

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the version of each host's hypervisor."""
        # An empty host state has none.
        return [host.hypervisor_version or 0 for host in hosts]

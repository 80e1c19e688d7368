"""NumInstancesWeigher: prefer hosts with many instances, or with few."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class NumInstancesWeigher(BaseHostWeigher):
    """Prefers the host with the most instances, or, with a negative multiplier, with the fewest.

    By default it does not count: ``[filter_scheduler] num_instances_weight_multiplier`` is 0.
    Instances are counted as the host reports them (``num_instances`` of its ``stats``); earlier
    ones of the same request count as well. Aggregate metadata ``num_instances_weight_multiplier``
    override the multiplier for the hosts in the aggregate; of several the smallest counts.
    """

    by_host = True
    weight_option = cfg.FloatOpt("num_instances_weight_multiplier", default=0.0)
    weight_help = (
        "Multiplier of NumInstancesWeigher; positive prefers hosts with many instances, negative "
        "hosts with few."
    )

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return how many instances each host has."""
        return [host.num_instances for host in hosts]

"""BuildFailureWeigher: shun hosts on which builds failed of late."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class BuildFailureWeigher(BaseHostWeigher):
    """Shuns the host on which the most builds failed of late.

    They are counted as the host reports them (``failed_builds`` of its ``stats``), and begin at 0
    again after a build that went well. The multiplier ``[filter_scheduler]
    build_failure_weight_multiplier`` counts against the host, and is shown with its sign; it is so
    large that failures outweigh what the other weighers say. Aggregate metadata
    ``build_failure_weight_multiplier`` override it for the hosts in the aggregate; of several the
    smallest counts.
    """

    is_penalty = True
    by_host = True
    weight_option = cfg.FloatOpt("build_failure_weight_multiplier", default=1_000_000.0)
    weight_help = (
        "Multiplier of BuildFailureWeigher, which avoids hosts where builds failed; 0 ignores them."
    )

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return how many builds failed on each host."""
        return [host.failed_builds for host in hosts]

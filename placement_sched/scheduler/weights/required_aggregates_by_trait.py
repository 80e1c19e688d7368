"""RequiredAggregatesByTraitWeigher: prefer the hosts that are reserved for such requests."""

from oslo_config import cfg

from placement_sched.config.settings import Settings
from placement_sched.scheduler import tagged_aggregates as tagged
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class RequiredAggregatesByTraitWeigher(BaseHostWeigher):
    """Prefers hosts in aggregates that are tagged with the traits the request requires.

    The tag is ``trait:X=required`` in an aggregate's metadata. The weight is the share of the
    request's traits, of those with which any host at hand is tagged, with which this one is: 1.0
    for a host that is in aggregates of all of them. Only with ``[scheduler]
    required_aggregates_by_trait = prefer``; with ``require`` the request filter of that name leaves
    no other hosts. nova has no such weigher.

    By default of ``required_aggregates_by_trait_weight_multiplier`` it counts a thousand times as
    much as free CPUs, memory or disk, so that all of these do not outweigh one trait of many, and a
    thousandth of nova's BuildFailureWeigher, which avoids reserved hosts on which builds fail.
    """

    minval = 0.0
    maxval = 1.0
    options = (tagged.OPTION,)
    weight_option = cfg.FloatOpt("required_aggregates_by_trait_weight_multiplier", default=1000.0)
    weight_help = (
        "Multiplier of RequiredAggregatesByTraitWeigher, which prefers hosts in aggregates tagged "
        "with the required traits, if [scheduler] required_aggregates_by_trait = prefer."
    )

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        """Return whether ``[scheduler] required_aggregates_by_trait`` is ``prefer``."""
        return tagged.policy(settings) == tagged.PREFER

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the share of the tagged traits with which each host is tagged."""
        required = tagged.required_traits(spec_obj)
        if not required:
            return [0.0] * len(hosts)
        tagged_with = {
            id(each): required.intersection(each.reserving_traits)
            for each in {id(each): each for host in hosts for each in host.aggregates}.values()
        }
        tags = [
            frozenset[str]().union(*(tagged_with[id(each)] for each in host.aggregates))
            for host in hosts
        ]
        known = frozenset[str]().union(*tags)
        return [len(each) / len(known) if known else 0.0 for each in tags]

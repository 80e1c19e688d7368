"""RequiredAggregatesByTraitWeigher: prefer the hosts that are reserved for such requests."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.config import Settings
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.tagged_aggregates import OPTION, PREFER, policy, required_traits
from placement_sched.scheduler.weights import BaseHostWeigher, Weighed


class RequiredAggregatesByTraitWeigher(BaseHostWeigher):
    """Prefers hosts in aggregates that are tagged with the traits the request requires.

    The tag is ``trait:X=required`` in an aggregate's metadata. The weight is the share of the
    request's traits, of those with which any host at hand is tagged, with which this one is: 1.0
    for a host that is in aggregates of all of them. Only with ``[scheduler]
    required_aggregates_by_trait = prefer``; with ``require`` the request filter of that name leaves
    no other hosts. nova has no such weigher.

    By default it counts a thousand times as much as free CPUs, memory or disk, so that all of
    these together do not outweigh one trait of many, and a thousandth of nova's
    BuildFailureWeigher, so that a reserved host on which builds fail is not preferred all the same.
    """

    minval = 0.0
    maxval = 1.0
    multiplier_option = ("filter_scheduler", "required_aggregates_by_trait_weight_multiplier")
    options = (
        OPTION,
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "required_aggregates_by_trait_weight_multiplier",
                default=1000.0,
                help="How much it counts that a host is in aggregates tagged with the traits a "
                "request requires, with [scheduler] required_aggregates_by_trait = prefer.",
            ),
        ),
    )

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        """Return whether ``[scheduler] required_aggregates_by_trait`` is ``prefer``."""
        return policy(settings) == PREFER

    def weigh_objects(
        self, weighed_obj_list: Sequence[Weighed], weight_properties: RequestSpec
    ) -> Sequence[float]:
        """Return the share of the tagged traits with which each host is tagged."""
        required = required_traits(weight_properties)
        if not required:
            return [0.0] * len(weighed_obj_list)
        tags = [required & _tags(item.obj.aggregates) for item in weighed_obj_list]
        known = frozenset[str]().union(*tags)
        return [len(each) / len(known) if known else 0.0 for each in tags]


def _tags(aggregates: Sequence[HostAggregate]) -> frozenset[str]:
    """Return the traits with which any of the aggregates is tagged."""
    return frozenset(trait for aggregate in aggregates for trait in aggregate.reserving_traits)

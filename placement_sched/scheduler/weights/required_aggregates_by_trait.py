# SPDX-License-Identifier: Apache-2.0
"""RequiredAggregatesByTraitWeigher: weigher by traits of aggregates."""

from oslo_config import cfg

from placement_sched.config.settings import Settings
from placement_sched.scheduler import request_groups as tagged
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class RequiredAggregatesByTraitWeigher(BaseHostWeigher):
    """Weigher that prefers hosts in aggregates tagged with required traits.

    The tag is ``trait:X=required`` in an aggregate's metadata. The required traits that tag any of
    the hosts count. The weight of a host is the share of these traits that tag the host. The
    weigher runs only with ``[scheduler] required_aggregates_by_trait = prefer``. With ``require``
    the request filter of that name leaves no other hosts. nova has no such weigher.

    With the default of ``required_aggregates_by_trait_weight_multiplier``, 1000, the weighers of
    free CPUs, memory and disk cannot outweigh a single trait of many. BuildFailureWeigher still
    avoids tagged hosts with failed builds.
    """

    minval = 0.0
    maxval = 1.0
    options = (tagged.TAGGED_AGGREGATES_OPTION,)
    weight_option = cfg.FloatOpt("required_aggregates_by_trait_weight_multiplier", default=1000.0)
    weight_help = (
        "Multiplier of RequiredAggregatesByTraitWeigher, which prefers hosts in aggregates tagged "
        "with the required traits, if [scheduler] required_aggregates_by_trait = prefer."
    )

    @classmethod
    def is_enabled_by(cls, settings: Settings) -> bool:
        return tagged.get_tagged_aggregates_mode(settings) == tagged.PREFER

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        required = tagged.collect_required_traits(spec_obj)
        if not required:
            return [0.0] * len(hosts)
        tagged_with = {
            id(aggregate): required.intersection(aggregate.reserving_traits)
            for aggregate in {
                id(aggregate): aggregate for host in hosts for aggregate in host.aggregates
            }.values()
        }
        tags = [
            frozenset[str]().union(*(tagged_with[id(aggregate)] for aggregate in host.aggregates))
            for host in hosts
        ]
        all_tags = frozenset[str]().union(*tags)
        return [len(traits) / len(all_tags) if all_tags else 0.0 for traits in tags]

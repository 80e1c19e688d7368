# SPDX-License-Identifier: Apache-2.0
"""TraitPreferenceWeigher: weigher by preferred and avoided traits."""

from collections.abc import Collection

from oslo_config import cfg

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.preferences import find_trait_preferences
from placement_sched.scheduler.host_state import get_traits
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class TraitPreferenceWeigher(BaseHostWeigher):
    """Weigher that prefers hosts with preferred and without avoided traits.

    The flavor names traits in the extra specs ``scheduler:prefer_traits`` and
    ``scheduler:avoid_traits``, separated by commas, and the image as ``trait:X=preferred``. A host
    has the traits of all providers in its tree. The weight is the number of its preferred traits,
    less the number of its avoided traits. For other requests the weigher does not run. An unknown
    trait is an error, as in ``trait:X=required``. nova has no such weigher.

    The multiplier is ``[filter_scheduler] trait_preference_weight_multiplier``. With the default,
    the weighers of free resources choose only among hosts with the same number of traits.
    BuildFailureWeigher still avoids hosts with failed builds.
    """

    by_host = True
    weight_option = cfg.FloatOpt("trait_preference_weight_multiplier", default=1000.0)
    weight_help = (
        "Multiplier of TraitPreferenceWeigher, which prefers hosts with the traits that flavor and "
        "image prefer. 0 ignores them."
    )

    def is_requested(self, spec_obj: RequestSpec, aggregates: Collection[HostAggregate]) -> bool:
        return find_trait_preferences(spec_obj.flavor, spec_obj.image) is not None

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        preferences = find_trait_preferences(spec_obj.flavor, spec_obj.image)
        if preferences is None:
            return [0.0] * len(hosts)
        # There are few different sets of traits.
        scores = {
            traits: float(preferences.score(traits)) for traits in set(map(get_traits, hosts))
        }
        return [scores[get_traits(host)] for host in hosts]

# SPDX-License-Identifier: Apache-2.0
"""Multipliers of all weighers."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.weights import all_weighers
from placement_sched.scheduler.weights.affinity import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from placement_sched.scheduler.weights.pci import PCIWeigher
from placement_sched.scheduler.weights.stranded_resources import StrandedResourcesWeigher
from tests.support.states import build_aggregates, build_host_state, build_settings


def test_default_multipliers_of_weighers_have_the_signs_and_sizes_of_nova():
    settings = build_settings()
    kinds = {}
    for kind in all_weighers():
        multiplier = kind.with_settings(settings).configured_multiplier
        kinds.setdefault(multiplier, set()).add(kind.__name__.removesuffix("Weigher"))
    assert kinds == {
        1000000.0: {"CrossCell"},
        1000.0: {
            "PreferredTenant",
            "RequiredAggregatesByTrait",
            "TopologySpread",
            "TraitPreference",
        },
        1.0: {
            *("CPU", "Disk", "HypervisorVersion", "Metrics", "PCI", "RAM"),
            *("ServerGroupSoftAffinity", "ServerGroupSoftAntiAffinity"),
        },
        0.0: {"ImageProperties", "NumInstances", "StrandedResources"},
        -1.0: {"IoOps"},
        -1000000.0: {"BuildFailure"},
    }


#: Weighers whose multiplier must not be negative.
WEIGHERS_WITHOUT_NEGATIVE_MULTIPLIER = {
    PCIWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
    StrandedResourcesWeigher,
}


@pytest.mark.parametrize("kind", all_weighers())
def test_multiplier_of_each_weigher_is_an_option(kind):
    option = "__".join(kind.multiplier_option)
    for value in (0.0, 3.0):
        plugin = kind.with_settings(build_settings(**{option: value}))
        assert plugin.configured_multiplier == (-value if kind.is_penalty else value)
    if kind in WEIGHERS_WITHOUT_NEGATIVE_MULTIPLIER:
        with pytest.raises(Invalid, match=kind.multiplier_option[1]):
            build_settings(**{option: -1.0})
    else:
        assert build_settings(**{option: -1.0})


@pytest.mark.parametrize("kind", all_weighers())
def test_metadata_of_aggregates_override_the_multiplier_of_each_weigher(kind):
    key = kind.multiplier_keys[0] if kind.multiplier_keys else kind.multiplier_option[1]
    host = build_host_state(aggregates=build_aggregates({key: "5"}, {key: "-3"}))
    expected = 3.0 if kind.is_penalty else -3.0
    assert kind.with_settings(build_settings()).weight_multiplier(host) == expected

# SPDX-License-Identifier: Apache-2.0
"""TypeAffinityFilter, as nova 16 (Pike) decides, and that of aggregates, as nova 34 does."""

import pytest

from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import HostInstance
from placement_sched.scheduler.filters.type_filter import (
    AggregateTypeAffinityFilter,
    TypeAffinityFilter,
)
from tests.support.scheduling import instance
from tests.support.states import a_host, a_spec, aggregates, refusal_of


def beside(*flavors, **asked):
    here = [
        HostInstance(uuid=instance(number), flavor=flavor) for number, flavor in enumerate(flavors)
    ]
    host = a_host(instances={one.uuid: one for one in here})
    spec = a_spec(flavor={"name": "m1.tiny", "vcpus": 1, "memory_mb": 1, "root_gb": 1} | asked)
    return refusal_of(TypeAffinityFilter(), host, spec)


@pytest.mark.parametrize(
    ("flavors", "asked"),
    [
        ((), {}),
        ((Flavor(name="m1.tiny"),), {}),
        ((Flavor(name="m1.tiny", id=1), Flavor(name="m1.tiny")), {}),
        ((Flavor(name="renamed", id=7),), {"id": "7"}),
        ((Flavor(name="renamed", id=3, flavorid="7"),), {"id": 9, "flavorid": "7"}),
        ((Flavor(name="m1.tiny"),), {"id": 7}),
    ],
    ids=str,
)
def test_host_of_instances_of_the_flavor_alone_passes(flavors, asked):
    assert beside(*flavors, **asked) is None


@pytest.mark.parametrize(
    ("flavors", "asked", "named"),
    [
        ((Flavor(name="m1.big"),), {}, "m1.big"),
        ((Flavor(name="m1.tiny"), Flavor(name="b"), Flavor(name="a")), {}, "a, b"),
        ((Flavor(name="m1.tiny", id=8),), {"id": "7"}, "m1.tiny"),
        ((None,), {}, "unknown"),
    ],
    ids=str,
)
def test_host_of_instances_of_other_flavors_is_refused_with_them(flavors, asked, named):
    reason = f"flavor m1.tiny requested, the host has instances of {named}"
    assert beside(*flavors, **asked) == reason


def among(*values):
    metadata = aggregates({"ssd": "true"}, *({"instance_type": value} for value in values))
    return refusal_of(AggregateTypeAffinityFilter(), a_host(aggregates=metadata))


@pytest.mark.parametrize(
    "values", [(), ("m1.tiny",), ("m1.small, m1.tiny",), (" m1.tiny ",), ("m1.small", "m1.tiny,x")]
)
def test_host_that_is_for_the_flavor_or_for_all_passes(values):
    assert among(*values) is None


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (("m1.small",), "m1.small"),
        (("m1.tiny2,b", "a"), "a, b, m1.tiny2"),
        (("M1.TINY",), "M1.TINY"),
        (("",), ""),
    ],
)
def test_host_that_is_for_other_flavors_is_refused_with_them(values, names):
    assert among(*values) == f"flavor m1.tiny requested, the host is for {names}"


def test_aggregates_are_looked_at_once_per_request():
    assert not AggregateTypeAffinityFilter().run_filter_for_index(1)

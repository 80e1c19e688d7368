# SPDX-License-Identifier: Apache-2.0
"""Host filters by flavor, as nova 16 and nova 34 decide."""

import pytest

from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import HostInstance
from placement_sched.scheduler.filters.type_filter import (
    AggregateTypeAffinityFilter,
    TypeAffinityFilter,
)
from tests.support.scheduling import make_uuid
from tests.support.states import build_aggregates, build_host_state, build_spec, find_rejection


@pytest.mark.parametrize(
    ("flavors", "fields", "names"),
    [
        ((), {}, None),
        ((Flavor(name="m1.tiny"),), {}, None),
        ((Flavor(name="m1.tiny", id=1), Flavor(name="m1.tiny")), {}, None),
        ((Flavor(name="renamed", id=7),), {"id": "7"}, None),
        ((Flavor(name="renamed", id=3, flavorid="7"),), {"id": 9, "flavorid": "7"}, None),
        ((Flavor(name="m1.tiny"),), {"id": 7}, None),
        ((Flavor(name="m1.big"),), {}, "m1.big"),
        ((Flavor(name="m1.tiny"), Flavor(name="b"), Flavor(name="a")), {}, "a, b"),
        ((Flavor(name="m1.tiny", id=8),), {"id": "7"}, "m1.tiny"),
        ((None,), {}, "unknown"),
    ],
    ids=str,
)
def test_host_with_instances_of_other_flavors_is_rejected(flavors, fields, names):
    instances = {
        make_uuid(number): HostInstance(uuid=make_uuid(number), flavor=flavor)
        for number, flavor in enumerate(flavors)
    }
    spec = build_spec(flavor={"name": "m1.tiny", "vcpus": 1, "memory_mb": 1, "root_gb": 1} | fields)
    reason = names and f"flavor m1.tiny requested, the host has instances of {names}"
    assert (
        find_rejection(TypeAffinityFilter(), build_host_state(instances=instances), spec) == reason
    )


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ((), None),
        (("m1.tiny",), None),
        (("m1.small, m1.tiny",), None),
        ((" m1.tiny ",), None),
        (("m1.small", "m1.tiny,x"), None),
        (("m1.small",), "m1.small"),
        (("m1.tiny2,b", "a"), "a, b, m1.tiny2"),
        (("M1.TINY",), "M1.TINY"),
        (("",), ""),
    ],
)
def test_host_in_aggregates_of_other_flavors_is_rejected(values, names):
    metadata = build_aggregates({"ssd": "true"}, *({"instance_type": value} for value in values))
    reason = None if names is None else f"flavor m1.tiny requested, the host is for {names}"
    assert (
        find_rejection(AggregateTypeAffinityFilter(), build_host_state(aggregates=metadata))
        == reason
    )

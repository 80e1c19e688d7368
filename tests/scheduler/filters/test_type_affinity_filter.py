"""TypeAffinityFilter, as nova had it until 16 (Pike)."""

import pytest

from placement_sched.model.flavor import Flavor
from placement_sched.model.host_instance import HostInstance
from placement_sched.scheduler.filters.type_affinity_filter import TypeAffinityFilter
from tests.placing import instance
from tests.scheduler.states import a_host, a_spec


def refusal(*flavors, **asked):
    plugin = TypeAffinityFilter()
    here = [
        HostInstance(uuid=instance(number), flavor=flavor) for number, flavor in enumerate(flavors)
    ]
    host = a_host(instances={one.uuid: one for one in here})
    spec = a_spec(flavor={"name": "m1.tiny", "vcpus": 1, "memory_mb": 1, "root_gb": 1} | asked)
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


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
    assert refusal(*flavors, **asked) is None


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
    reason = f"flavor m1.tiny asked, instances of {named} are here"
    assert refusal(*flavors, **asked) == reason

"""How an instance is spread over NUMA nodes (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.numa_cells import node_count, shares
from tests.scheduler.hardware.asked import flavor_of, image_of

NODES, NAME = "hw:numa_nodes", "hw_numa_nodes"


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "count"),
    [({}, {}, None), ({NODES: ""}, {}, None), ({NODES: "2"}, {}, 2), ({}, {NAME: "4"}, 4)],
)
def test_node_count_is_what_one_of_them_says(by_flavor, by_image, count):
    assert node_count(flavor_of(by_flavor), image_of(by_image)) == count


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [
        ({NODES: "0"}, {}, (NODES,)),
        ({NODES: "-1"}, {}, (NODES,)),
        ({NODES: "02"}, {}, (NODES,)),
        ({NODES: "two"}, {}, (NODES,)),
        ({NODES: "999999999"}, {}, (NODES,)),
        ({NODES: "9" * 5000}, {}, (NODES,)),
        ({}, {NAME: "0"}, (NAME,)),
        ({NODES: "2"}, {NAME: "2"}, (NODES, NAME)),
    ],
)
def test_node_count_refuses_what_is_none_or_said_twice(by_flavor, by_image, named):
    with pytest.raises(Invalid) as refused:
        node_count(flavor_of(by_flavor), image_of(by_image))
    assert all(f"'{key}'" in refused.value.detail for key in named)


def spread(cpus, memory, prefix="hw:numa"):
    """Return the keys that spread CPUs and memory over nodes."""
    keys = {f"{prefix}_cpus.{node}": text for node, text in enumerate(cpus)}
    return keys | {f"{prefix}_mem.{node}": text for node, text in enumerate(memory)}


def as_pairs(found):
    return [(set(share.cpus), share.memory) for share in found]


def test_shares_are_equal_unless_spread():
    found = shares(flavor_of({}), image_of({}), 2)
    assert as_pairs(found) == [({0, 1}, 2048), ({2, 3}, 2048)]


@pytest.mark.parametrize("vcpus", [0, 4])
def test_shares_of_one_node_are_everything(vcpus):
    found = shares(flavor_of({}, vcpus=vcpus), image_of({}), 1)
    assert as_pairs(found) == [(set(range(vcpus)), 4096)]


def test_shares_are_as_the_flavor_spreads_them():
    specs = spread(["0,2-3", "1"], ["1024", "3072"]) | {"hw:numa_mem.3": "junk"}
    found = shares(flavor_of(specs), image_of({}), 2)
    assert as_pairs(found) == [({0, 2, 3}, 1024), ({1}, 3072)]


def test_shares_are_as_the_image_spreads_them():
    image = image_of(spread(["0", "1-3"], ["4096", "0"], "hw_numa"))
    assert as_pairs(shares(flavor_of({}), image, 2)) == [({0}, 4096), ({1, 2, 3}, 0)]


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({NODES: "3"}, {}, (NODES, "hw:numa_cpus.N", "hw:numa_mem.N")),
        ({}, {NAME: "3"}, (NAME,)),
        (spread(["0-3"], []), {}, ("hw:numa_cpus.N", "hw:numa_mem.N", NODES)),
        (spread([], ["4096"]), {}, ("hw:numa_cpus.N", "hw_numa_mem.N")),
        (spread(["0-3"], ["4096"]), {}, ("hw:numa_cpus.N", NODES)),
        (spread(["0-1", "2-3", ""], ["2048", "2048", "0"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-1", "2-4"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-2", "2-3"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-1", "2"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (spread(["0-1", "2-3"], ["2048", "2047"]), {}, ("hw:numa_mem.N",)),
        (spread(["0-1", "2-3"], ["-1", "4097"]), {}, ("hw:numa_mem.N",)),
        (spread(["0-1", "x"], ["2048", "2048"]), {}, ("hw:numa_cpus.1",)),
        (spread(["0-1", "2-3"], ["2G", "2048"]), {}, ("hw:numa_mem.0",)),
        (spread(["0-1"], []), spread(["0-1"], [], "hw_numa"), ("hw:numa_cpus.0", "hw_numa_cpus.0")),
        (spread([], ["1"]), spread([], ["1"], "hw_numa"), ("hw:numa_mem.0", "hw_numa_mem.0")),
    ],
)
def test_shares_refuse_a_spread_that_cannot_be(extra_specs, properties, named):
    flavor, image = flavor_of(extra_specs), image_of(properties)
    with pytest.raises(Invalid) as refused:
        shares(flavor, image, node_count(flavor, image) or 2)
    assert all(f"'{key}'" in refused.value.detail for key in named)

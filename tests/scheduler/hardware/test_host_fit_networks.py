"""Networks near NUMA nodes, as nova 34 decides the same cases."""

import pytest

from placement_sched.model.host_numa import NetworkMetadata
from placement_sched.scheduler.hardware.host_fit_networks import bound_to_nodes, reach
from tests.scheduler.hardware.fitting import a_host, with_networks

HOST = a_host(
    with_networks(0, "a"), with_networks(1, "b", tunneled=True), with_networks(2, "a", "b")
)
PLAIN = a_host(with_networks(0), with_networks(1))


@pytest.mark.parametrize(
    ("physnets", "tunneled", "nodes", "reached"),
    [
        ("", False, [0], True),
        ("a", False, [0], True),
        ("a", False, [1], False),
        ("ab", False, [0], False),
        ("ab", False, [0, 1], True),
        ("ab", False, [2], True),
        ("", True, [2], False),
        ("", True, [1], True),
        ("a", True, [2], False),
        ("a", True, [1, 2], True),
    ],
)
def test_chosen_nodes_have_the_cards_of_all_networks(physnets, tunneled, nodes, reached):
    asked = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    assert bound_to_nodes(HOST, asked) == asked
    assert reach([HOST.cells[node] for node in nodes], asked) is reached


def test_networks_that_the_host_has_at_no_node_in_particular_do_not_count():
    asked = NetworkMetadata(physnets=frozenset("ax"), tunneled=True)
    assert bound_to_nodes(PLAIN, asked) == NetworkMetadata()
    assert bound_to_nodes(HOST, asked).physnets == {"a"}
    assert bound_to_nodes(HOST, None) == NetworkMetadata()

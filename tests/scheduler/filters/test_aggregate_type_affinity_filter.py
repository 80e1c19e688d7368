"""AggregateTypeAffinityFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.aggregate_type_affinity_filter import (
    AggregateTypeAffinityFilter,
)
from tests.scheduler.states import a_host, a_spec, aggregates


def refusal(*values):
    plugin = AggregateTypeAffinityFilter()
    metadata = aggregates({"ssd": "true"}, *({"instance_type": value} for value in values))
    host, spec = a_host(aggregates=metadata), a_spec()
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    "values",
    [(), ("m1.tiny",), ("m1.small, m1.tiny",), (" m1.tiny ",), ("m1.small", "m1.tiny,x")],
)
def test_host_that_is_for_the_flavor_or_for_all_passes(values):
    assert refusal(*values) is None


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
    assert refusal(*values) == f"flavor m1.tiny asked, the host is for {names}"


def test_filter_runs_once_per_request():
    assert not AggregateTypeAffinityFilter().run_filter_for_index(1)

"""The one number that several aggregates of a host say."""

import logging

import pytest

from placement_sched.scheduler.filters.aggregate_numbers import smallest_of_aggregates
from tests.scheduler.states import a_host, aggregates


def smallest(*values):
    host = a_host(aggregates=aggregates(*({"most": value} for value in values)))
    return smallest_of_aggregates(host, "most", int, 7)


@pytest.mark.parametrize(
    ("values", "number"),
    [((), 7), (("3",), 3), (("10", "9"), 9), (("-1", "0"), -1), ((" 5 ",), 5)],
)
def test_smallest_number_counts_by_value_not_by_text(values, number, caplog):
    assert smallest(*values) == number
    assert not caplog.records


@pytest.mark.parametrize("values", [("x",), ("3", "x"), ("1.5",), ("3,4",), ("",)])
def test_one_value_that_is_no_number_makes_the_host_fall_back_and_is_logged(values, caplog):
    with caplog.at_level(logging.WARNING):
        assert smallest(*values) == 7
    (record,) = caplog.records
    assert "host cn1: most of its aggregates is no number" in record.getMessage()

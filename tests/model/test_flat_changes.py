# SPDX-License-Identifier: Apache-2.0
"""Changes in short are read as what they were made of, whatever the names of hosts."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.flat_request import change_of, shorten_addition, shorten_change


@pytest.mark.parametrize("names", [["cn1"], ["cn1", "cn2"], ["cn,1"], ["cn 1", "cn*2"], ["a=b"]])
def test_hosts_in_short_are_read_as_the_same_hosts(names):
    assert change_of(shorten_change("drain", names), "change") == {"drain": names}


@pytest.mark.parametrize("like", ["cn1", "cn*3", "cn,1"])
def test_added_hosts_in_short_are_read_as_the_same(like):
    added = {"add": {"like": like, "count": 10}}
    assert change_of(shorten_addition(like, "10"), "change") == added


@pytest.mark.parametrize("text", ["lift=cn1", "drain=", "{", "aggregate=x:y"])
def test_a_text_that_is_no_change_is_refused_by_the_name_it_has(text):
    with pytest.raises(Invalid, match="line"):
        change_of(text, "line")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("add=cn1*1000000000", {"add": {"like": "cn1", "count": 1_000_000_000}}),
        ("add=cn1*-3", {"add": {"like": "cn1", "count": -3}}),
        (
            "inventory=cn1:VCPU=-3",
            {"inventory": {"host": "cn1", "resource_class": "VCPU", "total": -3}},
        ),
    ],
)
def test_numbers_that_cannot_be_are_read_so_that_they_are_refused_as_numbers(text, change):
    assert change_of(text, "change") == change

# SPDX-License-Identifier: Apache-2.0
"""The short form of simulated changes, compared with the long form."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.flat_request import change_of, shorten_addition, shorten_change


@pytest.mark.parametrize("names", [["cn1"], ["cn1", "cn2"], ["cn,1"], ["cn 1", "cn*2"], ["a=b"]])
def test_short_form_of_hosts_equals_the_long_form(names):
    assert change_of(shorten_change("drain", names), "change") == {"drain": names}


@pytest.mark.parametrize("like", ["cn1", "cn*3", "cn,1"])
def test_short_form_of_added_hosts_equals_the_long_form(like):
    added = {"add": {"like": like, "count": 10}}
    assert change_of(shorten_addition(like, "10"), "change") == added


@pytest.mark.parametrize("text", ["lift=cn1", "drain=", "{", "aggregate=x:y"])
def test_an_invalid_change_is_rejected_by_its_name(text):
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
def test_invalid_numbers_are_passed_on_as_texts(text, change):
    assert change_of(text, "change") == change

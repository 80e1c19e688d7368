# SPDX-License-Identifier: Apache-2.0
"""JSON paths of values, and the names of values in front ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.model.document import build_json_path, find_name, join_keys, split_json_path

STEPS = st.lists(st.text() | st.integers(0, 99))


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), "$"),
        (("a", 1, "b", "c.d", 0), "$.a[1].b['c.d'][0]"),
        (("1", ""), "$['1']['']"),
        (("it's", "\\"), "$['it\\'s']['\\\\']"),
    ],
)
def test_path_quotes_keys_that_are_not_plain(steps, path):
    assert build_json_path(steps) == path


@given(STEPS)
def test_split_path_has_the_steps_that_it_was_built_from(steps):
    assert split_json_path(build_json_path(steps)) == tuple(steps)


def test_name_of_a_query_parameter_is_a_path():
    assert split_json_path("since") == ("since",)


def test_nearest_named_parent_is_found():
    names = {"request_spec.flavor": "flavor", "request_spec.flavor.vcpus": "vcpus"}
    assert find_name(("request_spec", "flavor", "vcpus"), names) == ("vcpus", ())
    assert find_name(("request_spec", "flavor", "a", 0), names) == ("flavor", ("a", 0))
    assert find_name(("request_spec", "image"), names) is None
    assert join_keys(("a", 0, "b")) == "a.b"

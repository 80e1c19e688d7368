# SPDX-License-Identifier: Apache-2.0
"""Numbers of JSON documents, and JSON paths of values."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.model.document import (
    build_json_path,
    encode,
    find_name,
    join_keys,
    split_json_path,
    with_whole_numbers,
)

UTC_TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("document", "read"),
    [
        (2.0, "2"),
        (-1.0, "-1"),
        (0.5, "0.5"),
        (True, "True"),
        ("2.0", "'2.0'"),
        (None, "None"),
        (1e300, "1e+300"),
        ({"a": [1.0, {"b": 2.0}]}, "{'a': [1, {'b': 2}]}"),
    ],
)
def test_whole_numbers_of_a_json_document_are_integers(document, read):
    assert repr(with_whole_numbers(document)) == read


@pytest.mark.parametrize(
    ("document", "written"),
    [
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        ({"a": [2**70, "é", None]}, f'{{"a":[{2**70},"é",null]}}'),
        ([2**70, UTC_TIME], f'[{2**70},"2026-01-02T03:04:05+00:00"]'),
        ([UTC_TIME], '["2026-01-02T03:04:05+00:00"]'),
    ],
)
def test_integers_of_any_size_are_written_as_json(document, written):
    assert encode(document) == written.encode()


def test_values_without_a_json_form_are_rejected():
    with pytest.raises(TypeError):
        encode({"a": object()})


RANDOM_JSON_PATH_STEPS = st.lists(st.text() | st.integers(0, 99))


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), "$"),
        (("a", 1, "b", "c.d", 0), "$.a[1].b['c.d'][0]"),
        (("1", ""), "$['1']['']"),
        (("it's", "\\"), "$['it\\'s']['\\\\']"),
    ],
)
def test_json_path_quotes_keys_that_are_no_identifiers(steps, path):
    assert build_json_path(steps) == path


@given(RANDOM_JSON_PATH_STEPS)
def test_splitting_a_json_path_restores_its_steps(steps):
    assert split_json_path(build_json_path(steps)) == tuple(steps)


def test_query_parameter_name_is_split_as_a_path_of_one_step():
    assert split_json_path("since") == ("since",)


def test_longest_prefix_of_a_json_path_with_a_name_is_found():
    names = {"request_spec.flavor": "flavor", "request_spec.flavor.vcpus": "vcpus"}
    assert find_name(("request_spec", "flavor", "vcpus"), names) == ("vcpus", ())
    assert find_name(("request_spec", "flavor", "a", 0), names) == ("flavor", ("a", 0))
    assert find_name(("request_spec", "image"), names) is None
    assert join_keys(("a", 0, "b")) == "a.b"

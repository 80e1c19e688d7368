# SPDX-License-Identifier: Apache-2.0
"""Numbers of JSON documents. A whole number is an integer in any notation."""

from datetime import UTC, datetime

import pytest

from placement_sched.model.document import encode, with_whole_numbers

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


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
def test_whole_numbers_are_integers_at_any_depth(document, read):
    assert repr(with_whole_numbers(document)) == read


@pytest.mark.parametrize(
    ("document", "written"),
    [
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        ({"a": [2**70, "é", None]}, f'{{"a":[{2**70},"é",null]}}'),
        ([2**70, MOMENT], f'[{2**70},"2026-01-02T03:04:05+00:00"]'),
        ([MOMENT], '["2026-01-02T03:04:05+00:00"]'),
    ],
)
def test_integers_of_any_size_are_written(document, written):
    assert encode(document) == written.encode()


def test_values_without_a_json_form_are_not_written():
    with pytest.raises(TypeError):
        encode({"a": object()})

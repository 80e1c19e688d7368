"""A whole number is an integer, however JSON wrote it."""

import pytest

from placement_sched.model.document import with_whole_numbers


@pytest.mark.parametrize(
    ("given", "read"),
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
def test_whole_numbers_are_integers_at_any_depth(given, read):
    assert repr(with_whole_numbers(given)) == read

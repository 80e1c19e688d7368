# SPDX-License-Identifier: Apache-2.0
"""UUIDs in any spelling, and similar names."""

import pytest

from placement_sched.model import names
from placement_sched.model.names import find_nearest, format_suggestion, read_uuid, suggest_name
from placement_sched.schemas.formats import normalize_uuid

UUID = "5a0f3c52-8f6f-4a3b-9d0e-6f6b1f6f2c11"


@pytest.mark.parametrize(
    "text", [UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}"]
)
def test_uuid_is_accepted_in_each_spelling(text):
    assert read_uuid(text) == normalize_uuid(text) == UUID


@pytest.mark.parametrize(
    "value", ["", "cn1", UUID[:-1], "0x" + "a" * 30, "1_" * 16, 12, None, ["a"]]
)
def test_malformed_uuid_is_not_accepted(value):
    assert read_uuid(value) is None
    assert normalize_uuid("Cn1") == "Cn1"


TWENTY_HOST_NAMES = [f"cn{number}" for number in range(1, 21)]


@pytest.mark.parametrize(
    ("name", "names", "most", "expected"),
    [
        ("cn77", TWENTY_HOST_NAMES, 1, ("cn7",)),
        ("CN7", TWENTY_HOST_NAMES, 1, ("cn7",)),
        ("az9", ["az2", "az1"], 1, ("az1",)),
        ("cmp7", ["cmp0007.cloud", "cmp7x", "CMP7"], 2, ("CMP7", "cmp7x")),
        ("mars", TWENTY_HOST_NAMES, 3, ()),
        ("", TWENTY_HOST_NAMES, 3, ()),
        ("a", [], 3, ()),
    ],
)
def test_suggestions_begin_with_the_most_similar_names(name, names, most, expected):
    assert find_nearest(name, names, most) == expected


def test_number_of_names_compared_for_a_suggestion_is_limited(monkeypatch):
    candidate_names = ["x" * 40, "name", *(f"names{number}" for number in range(9))]
    assert find_nearest("nama", candidate_names, 2) == ("name", "names0")
    monkeypatch.setattr(names, "_MAX_COMPARISON_WORK", 4 * 4)
    assert find_nearest("nama", candidate_names, 2) == ("name",)


def test_suggested_names_are_appended_to_the_error():
    assert format_suggestion(()) == ""
    assert format_suggestion(["cn7", "cn70"]) == ". Did you mean 'cn7' or 'cn70'?"


TEN_FLAVOR_NAMES, ELEVEN_FLAVOR_NAMES = (
    [f"c{number}" for number in range(10)],
    [f"c{number}" for number in range(11)],
)


@pytest.mark.parametrize(
    ("noun", "name", "names", "end"),
    [
        ("flavor", "m1.smal", ["m1.small", "m1.large"], ". Did you mean 'm1.small'?"),
        ("flavor", "nope", ["m1.small", "c9", "c9"], ". There are: c9, m1.small"),
        ("flavor", "nope", TEN_FLAVOR_NAMES, ". There are: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9"),
        ("flavor", "nope", ELEVEN_FLAVOR_NAMES, ". GET /compute/v2.1/flavors lists them"),
        ("flavor", "nope", [], ". There are none"),
        ("key", "x", ELEVEN_FLAVOR_NAMES, ""),
    ],
)
def test_error_of_an_unknown_name_suggests_similar_names(noun, name, names, end):
    assert suggest_name(noun, name, names) == end
